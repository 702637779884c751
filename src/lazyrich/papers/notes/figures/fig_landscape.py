"""Lecture notes, section 2: every critical point of a small task, its loss and its Hessian index."""

import numpy as np

from lazyrich import Problem, Task, flow
from lazyrich.inits import gaussian
from lazyrich.landscape import critical_points, hessian, network_at, saddle_path
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.plot import style

TITLE = "The lattice of saddles: loss and Hessian index of every critical point"
ABOUT = (
    "All critical points of networks of two and three layers (hidden width 5) on modes of strength 3, 2 and 1: one "
    "for each subset of modes, named by it. "
    "The number in a circle counts the negative eigenvalues of the Hessian, as measured and as the formula says; the "
    "notes have k − r, which is right for no saddle of two layers, and three layers have saddles without any. "
    "The line follows a small random initialisation of two layers: downhill along the saddles that hold the strongest "
    "modes."
)
CALLS = (
    "lr.landscape.critical_points",
    "lr.landscape.network_at",
    "lr.landscape.hessian",
    "lr.landscape.saddle_path",
    "lr.flow",
)
CHECKS = {
    "index_errors": Check("critical points whose measured index differs from the formula", at_most=0),
    "gradient": Check("largest gradient at a critical point", at_most=1e-12),
    "notes_right": Check("saddles of two layers for which k − r is the index", at_most=0),
    "visited": Check("saddles with the strongest modes visited by the flow, of all of them, as a share", at_least=1.0),
}
QUICK = {"hidden": 4}

_DEPTHS = (2, 3)


def compute(
    *, strengths: tuple[float, ...] = (3.0, 2.0, 1.0), hidden: int = 5, scale: float = 1e-5, seed: int = 0
) -> Dataset:
    """Rank, loss and index of every point at two depths, and the rank and loss along a flow."""
    k = len(strengths)
    task = Task.from_correlations(np.eye(k, k + 1) * np.array(strengths)[:, None])
    names, table, gradients = [], [], []
    for depth in _DEPTHS:
        points = sorted(critical_points(task, (hidden,) * (depth - 1)), key=lambda point: point.modes)
        names = ["{" + ", ".join(str(1 + mode) for mode in point.modes) + "}" for point in points]
        rows = []
        for point in points:
            network = network_at(point, seed)
            problem = Problem(task, network)
            values = np.linalg.eigvalsh(hessian(problem, network.weights))
            negative = int(np.sum(values < -1e-9 * np.abs(values).max()))
            rows.append([point.rank, point.loss, point.index, negative])
            gradients.append(_slope(problem))
        table.append(rows)
    problem = Problem(task, gaussian(seed, sizes=(task.d_in, hidden, task.d_out), scale=scale))
    end = 3 * np.log(1 / scale) / min(strengths)
    run = flow(problem, np.linspace(0, end, 800))
    visits = saddle_path(run).visits
    s = np.array(strengths)
    learned = np.einsum("tii->ti", run.function[:, :, :k]) / s
    values = np.array(table, dtype=float)
    saddles = values[0, values[0, :, 0] < k]
    best = sum(visit.modes == tuple(range(r)) for r, visit in enumerate(visits))
    return dataset(
        {
            "point": (("depth", "subset", "quantity"), values),
            "path": (("time", "coordinate"), np.stack([learned.sum(axis=1), run.loss], axis=1)),
        },
        {
            "depth": list(_DEPTHS),
            "subset": names,
            "quantity": ["rank", "loss", "formula", "measured"],
            "time": run.times,
            "coordinate": ["rank", "loss"],
        },
        {
            "index_errors": float(np.sum(values[..., 2] != values[..., 3])),
            "gradient": float(max(gradients)),
            "notes_right": float(np.sum(saddles[:, 3] == k - saddles[:, 0])),
            "visited": best / (k + 1),
        },
    )


def _slope(problem: Problem) -> float:
    """The largest entry of the gradient."""
    task, layers = problem.task, problem.network.weights
    E = task.sigma_yx - problem.network.function @ task.sigma_xx
    after, largest = np.eye(task.d_out), 0.0
    for i in range(len(layers) - 1, -1, -1):
        before = np.eye(task.d_in)
        for W in layers[:i]:
            before = W @ before
        largest = max(largest, float(np.abs(after.T @ E @ before.T).max()))
        after = after @ layers[i]
    return largest


def draw(data: Dataset) -> Picture:
    """A lattice per depth: rank across, loss up, an edge for each mode that is added."""
    figure = style.new_figure(11.0, 4.8)
    for panel, depth in zip(figure.subplots(1, data.sizes["depth"], sharey=True), data.depth.values, strict=True):
        _draw_lattice(panel, data.sel(depth=depth))
        if depth == 2:
            path = data.path.transpose("coordinate", "time").values
            panel.plot(
                *path, color=style.COLOURS["orange"], linewidth=3, alpha=0.85, label="flow from a small initialisation"
            )
            panel.legend(loc="upper right")
        letter = "AB"[list(data.depth.values).index(depth)]
        panel.set_title(f"{letter}  {'Two' if depth == 2 else 'Three'} layers: negative eigenvalues of the Hessian")
        panel.set(xlabel="modes learned, r", xticks=sorted(set(data.point.sel(quantity="rank").values.ravel())))
        panel.set_xlim(-0.35, float(data.point.sel(quantity="rank").max()) + 0.65)
    figure.axes[0].set_ylabel("loss")
    return figure


def _draw_lattice(panel: Axes, part: Dataset) -> None:
    sets = [frozenset(str(name).strip("{}").split(", ")) - {""} for name in part.subset.values]
    rank, loss = (part.point.sel(quantity=name).values for name in ("rank", "loss"))
    for i, small in enumerate(sets):
        for j, large in enumerate(sets):
            if small < large and len(large) == len(small) + 1:
                panel.plot(rank[[i, j]], loss[[i, j]], color=style.COLOURS["grey"], linewidth=0.8, alpha=0.6, zorder=1)
    for i, name in enumerate(part.subset.values):
        index = int(part.point.sel(quantity="measured")[i])
        panel.plot(rank[i], loss[i], **style.MARK | {"markersize": 19})
        panel.annotate(f"{index}", (rank[i], loss[i]), ha="center", va="center", zorder=5)
        panel.annotate(str(name), (rank[i], loss[i]), (13, 4), textcoords="offset points", fontsize=8.5)


FIGURE = Figure("notes/landscape", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
