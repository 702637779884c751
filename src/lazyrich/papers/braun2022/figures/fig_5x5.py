"""Braun et al. 2022, appendix E: decoupling of five modes, for three targets and three scales of initialisation."""

from itertools import combinations

import numpy as np

from lazyrich import Problem, Task, descend, solve
from lazyrich._typing import Array
from lazyrich.observables.decoupling import coupling, decoupling, peak_time
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Look
from lazyrich.papers.braun2022.figures._shared import simulated_peak, start_in_modes
from lazyrich.plot import style

TITLE = "Decoupling of five modes, for three targets and three scales of initialisation"
ABOUT = (
    "A 5-5-5 network starts at W1 = AṼᵀ, W2 = ŨAᵀ with Gaussian A, as in Fig. 4; the targets are dense (two pairs of "
    "close modes), diag(5, 4, 3, 2, 1) and 5I, the scales of A 0.001, 0.1 and 2 (settings of our own). "
    "Exact AᵀA (dotted) lies over gradient descent, its diagonal blue and its ten couplings orange. "
    "The last row is the fraction of AᵀA off its diagonal: unequal modes decouple early, equal ones while they are "
    "learned."
)
CALLS = ("lr.solve", "lr.descend", "lr.observables.decoupling", "lr.observables.coupling", "lr.observables.peak_time")
CHECKS = {
    "deviation": Check("largest difference in AᵀA between theory and descent, of its largest entry", at_most=0.03),
    "peak_error": Check("difference of predicted and simulated peak of the strongest coupling, times 5", at_most=0.06),
    "coupling_left": Check("largest fraction of AᵀA off the diagonal at the end", at_most=0.02),
}
QUICK = {"records": 101}

_STRENGTHS = {"dense": (6.0, 5.5, 3.0, 2.7, 1.5), "unequal": (5.0, 4.0, 3.0, 2.0, 1.0), "equal": (5.0,) * 5}
_PAIRS = list(combinations(range(5), 2))
_DOTS = style.THEORY | {"linestyle": (0, (1, 3))}  # fewer of them, for many curves lie close together
_GREEN: Look = {"color": style.COLOURS["green"], "linestyle": (0, (5, 2)), "linewidth": 1.4}


def compute(
    *, scales: tuple[float, ...] = (1e-3, 0.1, 2.0), rate: float = 1e-3, seed: int = 3, records: int = 401
) -> Dataset:
    """AᵀA by theory and by descent, the peak of its strongest coupling, and the fraction off its diagonal."""
    generator = np.random.default_rng(seed)
    direction, turns = generator.normal(size=(5, 5)), np.linalg.qr(generator.normal(size=(2, 5, 5)))[0]
    shape = (len(_STRENGTHS), len(scales))
    curves, times = np.empty((*shape, 2, records, 5, 5)), np.empty((*shape, records))
    peaks, fraction = np.full((*shape, 2), np.nan), np.empty((*shape, records))
    for i, (name, strengths) in enumerate(_STRENGTHS.items()):
        target = np.diag(strengths)
        task = Task.from_correlations(turns[0] @ target @ turns[1] if name == "dense" else target)
        for j, scale in enumerate(scales):
            problem = start_in_modes(task, scale * direction / np.sqrt(5))
            steps = round(_horizon(scale, equal=name == "equal") / rate)
            run = descend(problem, rate, steps, at=np.linspace(0, steps, records).round())
            exact = solve(problem, run.times)
            curves[i, j], times[i, j] = [decoupling(exact), decoupling(run)], run.times
            fraction[i, j] = coupling(exact)
            peaks[i, j] = _peak(problem, curves[i, j], rate)
    data = dataset(
        {
            "curves": (("target", "scale", "source", "record", "mode", "mode_"), curves),
            "time": (("target", "scale", "record"), times),
            "peak": (("target", "scale", "source"), peaks),
            "coupling": (("target", "scale", "record"), fraction),
        },
        coords={"target": list(_STRENGTHS), "scale": list(scales), "source": ["theory", "descent"]},
    )
    theory, run = data.curves.sel(source="theory"), data.curves.sel(source="descent")
    over = ["record", "mode", "mode_"]
    numbers = {
        "deviation": float((np.abs(theory - run).max(over) / np.abs(theory).max(over)).max()),
        "peak_error": float(5 * np.abs(data.peak.sel(source="theory") - data.peak.sel(source="descent")).max()),
        "coupling_left": float(data.coupling.isel(record=-1).max()),
    }
    return data.assign_attrs(numbers)


def _horizon(scale: float, *, equal: bool) -> float:
    """Until the last mode is learned; equal ones, all strong, are sooner."""
    return (9.0 if scale < 0.01 else 5.0 if scale < 1 else 2.5) * (0.4 if equal else 1.0)


def _peak(problem: Problem, curves: Array, rate: float) -> tuple[float, float]:
    """When the coupling that grows largest peaks, predicted and simulated."""
    i, j = max(_PAIRS, key=lambda pair: float(np.abs(curves[0, :, pair[0], pair[1]]).max()))
    exact = peak_time(problem, (i, j))
    if not np.isfinite(exact):
        return np.nan, np.nan
    near = np.arange(max(round(exact / rate) - 150, 0), round(exact / rate) + 150, 2)
    return exact, simulated_peak(problem, rate, (i, j), near)


def draw(data: Dataset) -> Picture:
    """A row per target and a column per scale; the fraction off the diagonal below."""
    names = {"dense": "A  Dense target", "unequal": "B  Unequal diagonal", "equal": "C  Equal diagonal"}
    colours = dict(zip(names, (style.COLOURS[name] for name in ("blue", "pink", "green")), strict=True))
    figure = style.new_figure(11.5, 10.5)
    panels = figure.subplots(len(data.target) + 1, len(data.scale), squeeze=False)
    for j, scale in enumerate(data.scale.values):
        for i, target in enumerate(data.target.values):
            part = data.sel(target=target, scale=scale)
            _draw_modes(panels[i, j], part)
            panels[i, j].set_title(names[str(target)] if j == 0 else "")
            panels[i, j].set_title(f"scale {scale:g}", loc="right", fontweight="normal")
            panels[i, j].set_ylabel("elements of AᵀA" if j == 0 else "")
            panels[-1, j].plot(part.time, part.coupling, color=colours[str(target)], label=f"{target} target")
        panels[-1, j].set(xlabel=style.TIME, ylim=(0, 1), ylabel="fraction off the diagonal" if j == 0 else "")
        panels[-1, j].margins(x=0.01)
    panels[-1, 0].set_title("D  Coupling")
    panels[-1, -1].legend(loc="upper right")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _draw_modes(panel: Axes, part: Dataset) -> None:
    run, theory = part.curves.sel(source="descent").values, part.curves.sel(source="theory").values
    for i, j in _PAIRS:
        panel.plot(part.time, run[:, i, j], color=style.COLOURS["orange"], linewidth=1.6)
        panel.plot(part.time, theory[:, i, j], **_DOTS | {"linewidth": 1.0})
    for i in range(run.shape[1]):
        panel.plot(part.time, run[:, i, i], color=style.COLOURS["blue"])
        panel.plot(part.time, theory[:, i, i], **_DOTS)
    peak = float(part.peak.sel(source="theory"))
    if np.isfinite(peak):
        panel.axvline(peak, **_GREEN)
    panel.plot([], [], color=style.COLOURS["blue"], label="on the diagonal")
    panel.plot([], [], color=style.COLOURS["orange"], linewidth=1.6, label="off the diagonal")
    panel.plot([], [], **_DOTS, label="exact")
    panel.plot([], [], **_GREEN, label="predicted peak of the strongest coupling")
    panel.margins(x=0.01)


FIGURE = Figure("braun2022/5x5", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
