"""Braun et al. 2022, Fig. 4: how the modes of a 2-2-2 network decouple, for three targets and three scales."""

from typing import Any

import numpy as np

from lazyrich import Problem, Task, descend, solve
from lazyrich._typing import Array, Float
from lazyrich.observables.decoupling import decoupling, peak_time
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, SubFigure, dataset
from lazyrich.papers.base.types import Look
from lazyrich.papers.braun2022.figures._shared import draw_squares, simulated_peak, start_in_modes
from lazyrich.papers.braun2022.formulas import t_peak_as_printed
from lazyrich.plot import style

TITLE = "Decoupling: modes of the task are coupled, peak and part"
ABOUT = (
    "A 2-2-2 network starts at W1 = AṼᵀ, W2 = ŨAᵀ with Gaussian A; AᵀA has mode strengths on its diagonal and their "
    "coupling off it. "
    "Three targets (dense, unequal and equal modes) and three scales of A (1e-7, 0.1, 5), exact over gradient descent. "
    "The coupling peaks while the modes are learned, at a time known beforehand; the printed formula holds for small "
    "weights only (G)."
)
CALLS = ("lr.solve", "lr.descend", "lr.observables.decoupling", "lr.observables.peak_time")
CHECKS = {
    "deviation": Check("largest difference in AᵀA between theory and descent, of its largest entry", at_most=0.04),
    "peak_error": Check("largest difference between exact and simulated peak time, in units of 1/s", at_most=0.06),
    "printed_small": Check("difference of the printed peak time from the exact one, up to scale 0.1", at_most=1e-3),
    "printed_large": Check(
        "the same at the largest initialisation with a peak: the formula must fail there", at_least=0.2
    ),
}
QUICK = {"records": 101, "sweep": 4}

_TARGETS = {"dense": [[4.0, 1.0], [3.0, 5.0]], "unequal": [[5.0, 0.0], [0.0, 1.0]], "equal": [[5.0, 0.0], [0.0, 5.0]]}
_HORIZONS = {
    "dense": 9.0,
    "unequal": 20.0,
    "equal": 5.0,
}  # until the slower mode is learned from the smallest initialisation
_ENTRIES = {"a1": (0, 0), "a2": (1, 1), "b": (0, 1)}
_COLOURS = {"a1": style.COLOURS["blue"], "a2": "#56B4E9", "b": style.COLOURS["orange"]}
_LABELS = {"a1": "a₁, on the diagonal", "a2": "a₂, on the diagonal", "b": "b, off the diagonal"}
_PEAK: Look = {"color": style.COLOURS["green"], "linestyle": (0, (5, 2)), "linewidth": 1.4}
_EXAMPLE = ("equal", 1)  # of panels A and B: target and number of the scale


def compute(
    *,
    scales: tuple[float, ...] = (1e-7, 0.1, 5.0),
    rate: float = 1e-3,
    seed: int = 5,
    records: int = 401,
    sweep: int = 9,
) -> Dataset:
    """AᵀA by theory and by descent for each target and scale, and when b peaks, over a range of scales too."""
    direction = np.random.default_rng(seed).normal(size=(2, 2))
    shape = (len(_TARGETS), len(scales))
    curves, peaks = np.empty((*shape, 2, records, 3)), np.full((*shape, 3), np.nan)
    times = np.empty((*shape, records))
    for i, name in enumerate(_TARGETS):
        for j, scale in enumerate(scales):
            problem = _problem(name, scale * direction)
            times[i, j], curves[i, j] = _curves(problem, rate, _horizon(name, scale), records)
            peaks[i, j] = _peaks(problem, rate)
    s = _TARGETS["equal"][0][0]
    last = np.sqrt(0.98 * s / np.sum(direction**2))  # there is a peak if and only if tr AᵀA < s
    swept = np.linspace(0.3, 1, 36) * last
    swept_peaks = np.array([(*_predicted(_problem("equal", x * direction)), np.nan) for x in swept])
    for k in np.linspace(0, len(swept) - 1, sweep).round().astype(int):
        swept_peaks[k] = _peaks(_problem("equal", swept[k] * direction), rate)
    data = dataset(
        {
            "curves": (("target", "scale", "source", "record", "entry"), curves),
            "time": (("target", "scale", "record"), times),
            "peak": (("target", "scale", "formula"), peaks),
            "swept_peak": (("start", "formula"), swept_peaks),
            "matrix": (("target", "row", "column"), list(_TARGETS.values())),
        },
        coords={
            "target": list(_TARGETS), "scale": list(scales), "source": ["theory", "descent"], "entry": list(_ENTRIES),
            "formula": ["exact", "printed", "descent"], "start": swept,
        },
    )  # fmt: skip
    return data.assign_attrs(_numbers(data, s))


def _problem(target: str, A: Float[Array, "h m"]) -> Problem:
    return start_in_modes(Task.from_correlations(_TARGETS[target]), A)


def _horizon(target: str, scale: float) -> float:
    """Large initialisations are over sooner, and need a closer look."""
    return _HORIZONS[target] * (1.0 if scale < 1e-3 else 0.35 if scale < 1 else 0.15)


def _curves(problem: Problem, rate: float, horizon: float, records: int) -> tuple[Array, Array]:
    steps = round(horizon / rate)
    run = descend(problem, rate, steps, at=np.linspace(0, steps, records).round())
    both = [decoupling(solve(problem, run.times)), decoupling(run)]
    return run.times, np.array([np.stack([AtA[:, k, l] for k, l in _ENTRIES.values()], axis=1) for AtA in both])


def _predicted(problem: Problem) -> tuple[float, float]:
    """When |b| is largest: exactly, and by the printed formula, which is one of equal modes."""
    s, A = problem.task.modes.s, problem.network.weights[0] @ problem.task.modes.V
    (a1, b), (_, a2) = A.T @ A
    determinant = float(np.linalg.det(A)) ** 2
    printed = t_peak_as_printed(a1, a2, b, s[0], determinant=determinant) if s[0] == s[1] else np.nan
    return peak_time(problem), printed


def _peaks(problem: Problem, rate: float) -> tuple[float, float, float]:
    """When |b| is largest: exactly, by the printed formula, and in a simulation."""
    exact, printed = _predicted(problem)
    if not np.isfinite(exact):
        return exact, printed, np.nan
    middle = max(round(exact / rate), 2)
    near = np.arange(max(middle - 400, 0), middle + 400, 5)
    return exact, printed, simulated_peak(problem, rate, (0, 1), near)


def _numbers(data: Dataset, s: float) -> dict[str, float]:
    theory, run = data.curves.sel(source="theory"), data.curves.sel(source="descent")
    gap = np.abs(theory - run).max(["record", "entry"]) / np.abs(theory).max(["record", "entry"])
    peaks = [data.peak, data.swept_peak]

    def from_exact(peak: DataArray, formula: str) -> DataArray:
        return s * np.abs(peak.sel(formula="exact") - peak.sel(formula=formula))

    return {
        "deviation": float(gap.max()),
        "peak_error": float(max(from_exact(peak, "descent").max() for peak in peaks)),
        "printed_small": float(from_exact(data.peak.sel(target="equal"), "printed").max()),
        "printed_large": float(from_exact(data.swept_peak, "printed")[-1]),
    }


def draw(data: Dataset) -> Picture:
    """A and B above (one example, its matrix in time), G beside them; a row per target below, with its matrix (C)."""
    figure: Any = style.new_figure(12.0, 11.0)
    top, below = figure.subfigures(2, 1, height_ratios=[1, 2.5])
    left, middle, right = top.subfigures(1, 3, width_ratios=[1, 1.25, 1])
    target, scale = _EXAMPLE
    example = data.sel(target=target).isel(scale=scale)
    panel = left.subplots()
    _draw_curves(panel, example)
    panel.set_title(f"A  Elements of AᵀA, {target} modes")
    _draw_matrices(middle, example)
    _draw_sweep(right.subplots(), data)
    _draw_grid(below, data)
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def _draw_curves(panel: Axes, part: Dataset) -> None:
    for entry, colour in _COLOURS.items():
        panel.plot(part.time, part.curves.sel(source="descent", entry=entry), color=colour, label=_LABELS[entry])
    panel.plot(part.time, part.curves.sel(source="theory"), **style.THEORY)
    panel.plot([], [], **style.THEORY, label="exact")
    peak = float(part.peak.sel(formula="exact"))
    if np.isfinite(peak):
        panel.axvline(peak, **_PEAK)
    panel.plot([], [], **_PEAK, label="predicted peak of |b|")
    panel.set(xlabel=style.TIME)
    panel.margins(x=0.01)


def _draw_matrices(figure: SubFigure, part: Dataset) -> None:
    """AᵀA before, at and after the peak: coupled, most coupled, decoupled."""
    theory, peak = part.curves.sel(source="theory"), float(part.peak.sel(formula="exact"))
    panels = figure.subplots(1, 3)
    for panel, (name, t) in zip(panels, {"start": 0.0, "peak of |b|": peak, "end": np.inf}.items(), strict=True):
        a1, a2, b = theory.values[int(np.argmin(np.abs(part.time.values - min(t, float(part.time[-1])))))]
        draw_squares(panel, np.array([[a1, b], [b, a2]]))
        panel.set_xlabel(name)
        for (row, column), value in {(0, 0): a1, (1, 1): a2, (0, 1): b, (1, 0): b}.items():
            dark = abs(value) > 0.6 * max(abs(a1), abs(a2), abs(b))
            text = f"{value:.2g}" if abs(value) > 1e-6 else "0"
            panel.text(column, row, text, ha="center", va="center", color="white" if dark else "black")
    panels[0].set_title("B  AᵀA decouples")


def _draw_sweep(panel: Axes, data: Dataset) -> None:
    peak = data.swept_peak
    panel.plot(data.start, peak.sel(formula="descent"), **style.MARK, label="descent")
    panel.plot(data.start, peak.sel(formula="exact"), **style.THEORY | {"color": style.COLOURS["green"]}, label="exact")
    panel.plot(data.start, peak.sel(formula="printed"), color=style.COLOURS["pink"], zorder=1, label="as printed")
    panel.set(xlabel="scale of A", ylabel="time of the peak", ylim=(-0.1, None))
    panel.set_title("G  Peak time, equal modes")
    panel.legend(loc="lower left")


def _draw_grid(figure: SubFigure, data: Dataset) -> None:
    grid = figure.add_gridspec(len(data.target), len(data.scale) + 1, width_ratios=[0.55] + [1] * len(data.scale))
    names = {"dense": "D  Dense target", "unequal": "E  Unequal diagonal", "equal": "F  Equal diagonal"}
    for i, target in enumerate(data.target.values):
        panel, matrix = figure.add_subplot(grid[i, 0]), data.matrix.sel(target=target).values
        draw_squares(panel, matrix, 5.0)
        panel.set_title("C  Targets" if i == 0 else "")
        for (row, column), value in np.ndenumerate(matrix):
            panel.text(column, row, f"{value:g}", ha="center", va="center", color="white" if value > 3.5 else "black")
        for j, scale in enumerate(data.scale.values):
            panel = figure.add_subplot(grid[i, j + 1])
            _draw_curves(panel, data.sel(target=target, scale=scale))
            panel.set_title(f"{names[str(target)]}" if j == 0 else "")
            panel.set_title(f"scale {scale:g}", loc="right", fontweight="normal")
            panel.set_xlabel(style.TIME if i == len(data.target) - 1 else "")
            panel.set_ylabel("AᵀA" if j == 0 else "")


FIGURE = Figure("braun2022/4", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
