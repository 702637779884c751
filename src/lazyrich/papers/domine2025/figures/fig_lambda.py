"""Dominé et al. 2025: the λ-balanced family on the semantic hierarchy, from lazy to rich."""

from typing import Any

import numpy as np

from lazyrich import Problem, Task, descend, fate, solve
from lazyrich._typing import Array, Float
from lazyrich.inits import lambda_balanced
from lazyrich.observables import kernel_distance, mode_strengths, rsm_in, rsm_out
from lazyrich.papers.base.figure import Check, Dataset, Figure, Picture, SubFigure, dataset
from lazyrich.papers.domine2025.figures._shared import signed
from lazyrich.plot import style
from lazyrich.tasks import semantic_hierarchy

TITLE = "The λ-balanced family on the semantic hierarchy: modes, representations, kernel"
ABOUT = (
    "Networks of sizes 8-8-8 with W2ᵀW2 − W1W1ᵀ = λI learn the living kingdom from small random weights; exact "
    "curves (dotted) lie over gradient descent at rate 0.005. "
    "At λ = 0 modes are learned one after another in sigmoids and both layers carry the hierarchy; at λ = ±2 learning "
    "starts at once, and only one layer carries it: the last for λ < 0, the first for λ > 0. "
    "Over the sweep the kernel moves most near λ = 0, and input and output representations pass from task-agnostic to "
    "task-specific in opposite directions; RSM_in and RSM_out agree at the end for every λ."
)
CALLS = (
    "lr.tasks.semantic_hierarchy",
    "lr.inits.lambda_balanced",
    "lr.solve",
    "lr.descend",
    "lr.fate",
    "lr.observables.mode_strengths",
    "lr.observables.rsm_in",
    "lr.observables.kernel_distance",
)
CHECKS = {
    "deviation_modes": Check("largest difference in mode strength between theory and descent", at_most=0.02),
    "deviation_kernel": Check("largest difference in kernel distance between theory and descent", at_most=0.001),
    "rsm_gap": Check("at the end, largest relative difference of RSM_in and RSM_out", at_most=1e-12),
    "lazy_movement": Check("movement of the kernel at the ends of the sweep, the larger", at_most=0.04),
    "swap": Check(
        "at the ends of the sweep, how far the task-specific layer's cosine with the task lies ahead", at_least=0.12
    ),
}
QUICK = {"rate": 0.02, "sweep": 15}

_RECORDS = 240
_NEAR = 0.01  # about the strength of the initialisation: below it λ makes no difference


def compute(
    *,
    lambdas: tuple[float, ...] = (-2.0, 0.0, 2.0),
    scale: float = 0.05,
    horizon: float = 60.0,
    rate: float = 0.005,
    sweep: int = 61,
    reach: float = 20.0,
    seed: int = 2,
) -> Dataset:
    """Modes and kernel distance over time, QQᵀ and RSMs at the end, for each λ; ends over a sweep of λ."""
    task = semantic_hierarchy()
    at = np.linspace(0, round(horizon / rate), _RECORDS + 1).round().astype(int)
    modes, kernel, gram, rsm = [], [], [], []
    for lam in lambdas:
        problem = Problem(task, lambda_balanced(seed, sizes=(8, 8, 8), lam=lam, scale=scale))
        pair = [solve(problem, rate * at), descend(problem, rate, int(at[-1]), at=at)]
        modes.append([mode_strengths(traj) for traj in pair])
        kernel.append([kernel_distance(traj) for traj in pair])
        end = solve(problem, [1e200])
        gram.append(end.gram[0])
        rsm.append([rsm_in(end)[0], rsm_out(end)[0]])
    # evenly in asinh λ: dense about 0, where the regime changes
    grid = _NEAR * np.sinh(np.linspace(-1, 1, sweep) * np.arcsinh(reach / _NEAR))
    swept = np.array([_ends(task, lam, scale, seed) for lam in grid])
    cosines = swept[:, 2:]
    gap = np.array([np.abs(a - b).max() / np.abs(a).max() for a, b in rsm])
    values: dict[str, Array] = {"modes": np.array(modes), "kernel": np.array(kernel)}
    return dataset(
        {
            "modes": (("lam", "source", "time", "mode"), values["modes"]),
            "limit": ("mode", task.modes.s * 8),
            "kernel": (("lam", "source", "time"), values["kernel"]),
            "gram": (("lam", "row", "column"), np.array(gram)),
            "rsm": (("lam", "item", "other_item"), np.array(rsm)[:, 0]),
            "swept": (("balance", "quantity"), swept),
        },
        {
            "lam": list(lambdas),
            "source": ["theory", "descent"],
            "time": rate * at,
            "balance": grid,
            "quantity": ["movement", "distance", "inputs", "outputs"],
        },
        {f"deviation_{name}": float(np.abs(x[:, 0] - x[:, 1]).max()) for name, x in values.items()}
        | {
            "rsm_gap": float(gap.max()),
            "lazy_movement": float(swept[[0, -1], 0].max()),
            "swap": float(min(cosines[0, 1] - cosines[0, 0], cosines[-1, 0] - cosines[-1, 1])),
        },
    )


def _ends(task: Task, lam: float, scale: float, seed: int) -> tuple[float, float, float, float]:
    """Movement and distance of the kernel, and cosines of W1ᵀW1 with TᵀT and of W2W2ᵀ with TTᵀ."""
    known = fate(Problem(task, lambda_balanced(seed, sizes=(8, 8, 8), lam=lam, scale=scale)))
    T, gram = task.target, known.gram_limit
    assert gram is not None
    moved = known.regime.kernel_movement, known.regime.kernel_distance
    return *moved, _cosine(gram[:8, :8], T.T @ T), _cosine(gram[8:, 8:], T @ T.T)


def _cosine(A: Float[Array, "n n"], B: Float[Array, "n n"]) -> float:
    return float(np.sum(A * B) / np.linalg.norm(A) / np.linalg.norm(B))


def draw(data: Dataset) -> Picture:
    """A column per λ (modes, QQᵀ, representations), and the kernel and the sweep beside them."""
    figure = style.new_figure(13.0, 8.6)
    lams = data.lam.values
    parts: Any = figure.subfigures(1, 2, width_ratios=(2.1, 1.0))
    left, right = parts
    panels = left.subplots(3, len(lams), height_ratios=(1.0, 1.15, 1.0))
    colours = style.mode_colours(data.sizes["mode"])
    bounds = [float(np.abs(data[name]).max()) for name in ("gram", "rsm")]  # one scale per row
    for i, lam in enumerate(lams):
        state = data.sel(lam=lam)
        modes, gram, rsm = panels[:, i]
        for mode, colour in enumerate(colours):
            modes.plot(data.time, state.modes.sel(source="descent")[:, mode], color=colour)
            modes.plot(data.time, state.modes.sel(source="theory")[:, mode], **style.THEORY)
        modes.set(xlabel=style.TIME, ylabel=style.STRENGTH if i == 0 else "")
        modes.set_title(f"{'A  ' * (i == 0)}λ = {signed(lam)}")
        modes.set_ylim(-0.15, 1.08 * float(data.limit.max()))
        grams = style.draw_gram(gram, state.gram.values, 8, bounds[0])
        gram.set_title("B  QQᵀ at the end" if i == 0 else "")
        similar = style.draw_matrix(rsm, state.rsm.values, bounds[1])
        rsm.set(xlabel="item", ylabel="item" if i == 0 else "", aspect="equal")
        rsm.set_title("C  Similarity of items in the hidden layer" if i == 0 else "")
    for image, row in ((grams, panels[1]), (similar, panels[2])):
        left.colorbar(image, ax=list(row), shrink=0.8)
    _draw_kernel(right, data)
    return figure


def _draw_kernel(part: SubFigure, data: Dataset) -> None:
    """Kernel distance over time, and the sweep."""
    over_time, kernel, layers = part.subplots(3, 1)
    for lam, colour in zip(data.lam.values, style.diverging_colours(data.lam.values), strict=True):
        curves = data.kernel.sel(lam=lam)
        over_time.plot(
            data.time,
            curves.sel(source="descent"),
            color=colour,
            linewidth=2.2 + 2 * (lam < 0),
            label=f"λ = {signed(lam)}",
        )
        over_time.plot(data.time, curves.sel(source="theory"), **style.THEORY)
    over_time.plot([], [], **style.THEORY, label="exact")
    over_time.set(xlabel=style.TIME, ylabel="kernel distance S(0, t)", title="D  Kernel over time")
    over_time.set_ylim(top=1.45 * float(data.kernel.max()))
    over_time.legend(loc="upper right", ncols=2)
    for quantity, colour, words in (("movement", "blue", "movement"), ("distance", "orange", "distance S(0, ∞)")):
        kernel.plot(data.balance, data.swept.sel(quantity=quantity), color=style.COLOURS[colour], label=words)
    kernel.set(xlabel="balance λ", ylabel="of the kernel", title="E  Kernel at the end", ylim=(0.0, 1.05))
    kernel.legend(loc="center left")
    for quantity, colour, words in (("inputs", "green", "W1ᵀW1 with TᵀT"), ("outputs", "pink", "W2W2ᵀ with TTᵀ")):
        layers.plot(data.balance, data.swept.sel(quantity=quantity), color=style.COLOURS[colour], label=words)
    layers.set(xlabel="balance λ", ylabel="cosine with the task's", title="F  Which layer carries the task")
    layers.legend(loc="lower left")
    for panel in (kernel, layers):
        panel.set_xscale("symlog", linthresh=_NEAR, linscale=0.3)
        panel.set_xticks([-10, -0.1, 0, 0.1, 10], ["−10", "−0.1", "0", "0.1", "10"])
        panel.axvline(0.0, **style.LIMIT)


FIGURE = Figure("domine2025/lambda", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
