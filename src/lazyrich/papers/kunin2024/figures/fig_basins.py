"""Kunin et al. 2024, appendix: the two basins of attraction of one neuron, and the surface between them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyrich import Network, Problem, Task, flow, solve
from lazyrich._typing import Array
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Look, Real
from lazyrich.papers.kunin2024.figures._shared import as_text, set_space
from lazyrich.papers.kunin2024.formulas import basin
from lazyrich.plot import style

TITLE = "One neuron: two basins of attraction, and the surface that separates them"
ABOUT = (
    "The minima aw = β* = (1, .25) have a branch with a > 0 and one with a < 0; A is the surface of initialisations "
    "that end in neither but in the saddle a = wᵀβ* = 0, with two flows that begin beside it. "
    "B–D unroll the hyperboloids of δ = 0, −2 and −10: a over the angle between w and β*, shaded by the basin "
    "that the theorem names, with random initialisations coloured by where their exact solution ended. "
    "Balanced, the sign of a decides; the further downstream, the more the direction of w does."
)
CALLS = ("lr.papers.kunin2024.formulas.basin", "lr.solve", "lr.flow")
CHECKS = {
    "agreement_exact": Check("share of random initialisations whose exact end is in the basin named", at_least=1.0),
    "agreement_flow": Check("share of random initialisations whose integrated end is in the basin named", at_least=1.0),
    "nearest_start": Check(
        "distance of the nearest initialisation from the surface, relative: the test is a hard one", at_most=0.02
    ),
}
QUICK = {"starts": 40, "flows": 8}

_TINTS = {1: style.COLOURS["orange"], -1: style.COLOURS["blue"]}
_REACH = 1.8  # of a, in the pictures


def compute(
    *,
    target: tuple[float, ...] = (1.0, 0.25),
    deltas: tuple[float, ...] = (0.0, -2.0, -10.0),
    starts: int = 200,
    flows: int = 30,
    seed: int = 0,
) -> Dataset:
    """Random initialisations of each δ with the basin named and the one reached, and two flows beside the surface."""
    rng = np.random.default_rng(seed)
    points = np.stack([_on_hyperboloid(rng, starts, delta, target) for delta in deltas])
    task = Task.from_correlations([list(target)])
    named = np.array([[basin(a, w, list(target)) for a, *w in rows] for rows in points])
    exact, integrated, near = np.zeros(named.shape), np.zeros((len(deltas), flows)), []
    for i, delta in enumerate(deltas):
        late = 60.0 * (1.0 + abs(delta)) / float(np.dot(target, target))
        for j, (a, *w) in enumerate(points[i]):
            problem = Problem(task, Network([[w], [[a]]]))
            exact[i, j] = np.sign(solve(problem, [late]).weights[1][0, 0, 0])
            if j < flows:
                run = flow(problem, [late], record="weights")
                integrated[i, j] = np.sign(run.weights[1][0, 0, 0])
        near.append(_distance(points[i], delta, target).min())
    numbers = {
        "agreement_exact": float(np.mean(exact == named)),
        "agreement_flow": float(np.mean(integrated == named[:, :flows])),
        "nearest_start": float(np.min(near)),
    }
    return dataset(
        {
            "start_point": (("delta", "start", "parameter"), points),
            "end_sign": (("delta", "start"), exact),
            "target": ("input", list(target)),
            "beside": (("side", "time", "parameter"), _beside(task, target)),
        },
        coords={"delta": list(deltas), "parameter": ["a", "w1", "w2"]},
        attrs=numbers,
    )


def _on_hyperboloid(rng: np.random.Generator, count: int, delta: float, target: Sequence[float]) -> Array:
    """(a, w) with that δ: a uniform, the angle of w from β* uniform."""
    a, angle = rng.uniform(-_REACH, _REACH, size=count), rng.uniform(-np.pi, np.pi, size=count)
    direction = angle + np.arctan2(target[1], target[0])
    length = np.sqrt(a**2 - delta)
    return np.column_stack([a, length * np.cos(direction), length * np.sin(direction)])


def _growth(delta: Real, norm: float) -> Real:
    """½(δ + √(δ² + 4‖β*‖²)), for δ ≤ 0 without cancellation."""
    return 2 * norm**2 / (np.hypot(delta, 2 * norm) - delta)


def _distance(points: Array, delta: float, target: Sequence[float]) -> Array:
    """How far w·β* + ½a(δ + √(δ² + 4‖β*‖²)) is from zero, relative to what it could be."""
    a, w, norm = points[:, 0], points[:, 1:], float(np.linalg.norm(target))
    g = _growth(delta, norm)
    return np.abs(w @ np.array(target) + a * g) / (np.linalg.norm(w, axis=1) * norm + np.abs(a) * g)


def _beside(task: Task, target: Sequence[float]) -> Array:
    """Two exact solutions that begin a hundredth to either side of the surface, with δ ≈ −2 and a > 0."""
    a, w = _surface(np.array([1.4]), np.array([-2.0]), np.array(target))
    aim = np.array(target) / np.linalg.norm(target)
    times = np.append(0.0, np.geomspace(0.01, 60.0, 200))
    paths = []
    for push in (0.01, -0.01):
        run = solve(Problem(task, Network([(w[0] + push * aim)[None, :], [[float(a[0])]]])), times)
        paths.append(np.column_stack([run.weights[1][:, 0, 0], run.weights[0][:, 0]]))
    return np.array(paths)


def _surface(a: Array, delta: Array, target: Array, side: float = 1.0) -> tuple[Array, Array]:
    """Points (a, w) of the separating surface; `side` is that of w beside the direction of β*."""
    norm = float(np.linalg.norm(target))
    aim, across = target / norm, np.array([-target[1], target[0]]) / norm
    along = -a * _growth(delta, norm) / norm
    beside = side * np.sqrt(np.maximum(a**2 - delta - along**2, 0.0))
    return a, along[..., None] * aim + beside[..., None] * across


def draw(data: Dataset) -> Picture:
    """The surface in space, and the unrolled hyperboloids."""
    figure = style.new_figure(14.0, 4.2)
    count = data.sizes["delta"]
    grid = figure.add_gridspec(1, count + 1, width_ratios=[1.25] + [1.0] * count)
    _draw_space(figure.add_subplot(grid[0, 0], projection="3d", computed_zorder=False), data)
    for i in range(count):
        panel = figure.add_subplot(grid[0, i + 1])
        _draw_map(panel, data.isel(delta=i))
        panel.set_title(f"{chr(ord('B') + i)}  δ = {as_text(float(data.delta[i]))}")
        panel.set_ylabel("a(0)" if i == 0 else "")
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_space(space: Any, data: Dataset) -> None:
    target = data.target.values
    a, delta = np.meshgrid(np.linspace(-_REACH, _REACH, 41), -(np.linspace(0.0, 1.0, 25) ** 2) * 10, indexing="ij")
    for side in (1.0, -1.0):
        a, w = _surface(a, delta, target, side)
        space.plot_surface(w[..., 0], w[..., 1], a, color="#B9B9B9", alpha=0.45, linewidth=0, zorder=1)
        branch = side * np.geomspace(0.33, _REACH, 60)
        space.plot(target[0] / branch, target[1] / branch, branch, color=_TINTS[int(side)], linewidth=3, zorder=3)
    reach = 3.6
    line = np.array([-1.0, 1.0]) * reach
    across = np.array([-target[1], target[0]]) / np.linalg.norm(target)
    space.plot(line * across[0], line * across[1], 0 * line, color="black", linewidth=1.4, zorder=2)
    for path, sign in zip(data.beside.values, (1, -1), strict=True):
        space.plot(path[:, 1], path[:, 2], path[:, 0], **(style.THEORY | {"color": _TINTS[sign], "zorder": 5}))
    first = data.beside.values[0, 0]
    space.plot([first[1]], [first[2]], [first[0]], **(style.MARK | {"zorder": 6}))
    set_space(space, (3, reach, _REACH), (2, 2, 1), elev=20, azim=-62, zoom=1.1)
    space.set_title("A  separating surface", pad=0)


def _draw_map(panel: Axes, one: Dataset) -> None:
    """a over the angle of w from β*."""
    from matplotlib.colors import ListedColormap

    target, delta = one.target.values, float(one.delta)
    norm = float(np.linalg.norm(target))
    angle, a = np.meshgrid(np.linspace(-np.pi, np.pi, 361), np.linspace(-_REACH, _REACH, 241))
    reach = np.sqrt(a**2 - delta) * norm * np.cos(angle) + a * _growth(delta, norm)
    tints = ListedColormap([_TINTS[-1], _TINTS[1]])
    panel.pcolormesh(np.degrees(angle), a, reach > 0, cmap=tints, alpha=0.25, linewidth=0, rasterized=True, zorder=0)
    panel.contour(np.degrees(angle), a, reach, levels=[0.0], colors="black", linewidths=1.2)
    a0, *w = one.start_point.values.T
    turned = np.degrees(np.arctan2(w[1], w[0]) - np.arctan2(target[1], target[0]))
    turned = (turned + 180) % 360 - 180
    for sign, name in ((1, "ended with a > 0"), (-1, "ended with a < 0")):
        there = one.end_sign.values == sign
        look: Look = {"marker": "o" if sign > 0 else "s", "markersize": 4, "markeredgecolor": "white"}
        panel.plot(turned[there], a0[there], linestyle="none", color=_TINTS[sign], label=name, **look)
    panel.plot([], [], color="black", linewidth=1.2, label="separatrix, to the saddle")
    panel.plot([], [], **(style.THEORY | {"color": style.COLOURS["grey"]}), label="exact solutions beside it (A)")
    panel.grid(False)
    panel.set(xlim=(-180, 180), ylim=(-_REACH, _REACH), xlabel="angle between w(0) and β*, degrees")
    panel.set_xticks([-180, -90, 0, 90, 180], ["−180", "−90", "0", "90", "180"])


FIGURE = Figure("kunin2024/basins", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
