"""Lecture notes, section 9: the ratio of two modes while they are learned, from rich to lazy."""

import numpy as np

from lazyrich import Problem, Task, descend, solve
from lazyrich._typing import Array
from lazyrich.inits import aligned
from lazyrich.methods.modes import mode_strength
from lazyrich.observables import mode_strengths
from lazyrich.papers.base.figure import Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.steps import spread_steps
from lazyrich.plot import style

TITLE = "Lazy against rich: the ratio a1/a2 of two modes while they are learned"
ABOUT = (
    "Two layers learn modes of strength s1 = 5 and s2 = 1 from strength 0.001, for balances λ from 0 to 100; exact "
    "curves (dotted) lie over gradient descent at rate 1e-4. "
    "In the rich regime (λ = 0) the strong mode runs far ahead: the ratio peaks where a1 − a2 = s1 − s2, and the path "
    "bends round the corner of a network of rank 1. "
    "As λ grows the ratio stays at s1/s2 and the path is straight: a lazy network learns every mode at the same pace, "
    "at rate |λ| (and not 1, as the notes have it)."
)
CALLS = (
    "lr.inits.aligned",
    "lr.solve",
    "lr.descend",
    "lr.observables.mode_strengths",
    "lr.methods.modes.mode_strength",
)
CHECKS = {
    "deviation": Check("largest difference in a/s between theory and descent", at_most=0.012),
    "peak_condition": Check("at the peak of the ratio (λ = 0), |(a1 − a2)/(s1 − s2) − 1|", at_most=1e-5),
    "lazy_ratio": Check("at the largest λ, largest |a1/a2 · s2/s1 − 1| after the start", at_most=0.03),
    "lazy_limit": Check("at the largest λ, largest difference of a/s from the limit 1 − e^{−λt}", at_most=0.003),
}
QUICK = {"rate": 5e-4}

_RECORDS = 300


def compute(
    *,
    strengths: tuple[float, ...] = (5.0, 1.0),
    start: float = 1e-3,
    lambdas: tuple[float, ...] = (0.0, 1.0, 10.0, 100.0),
    horizon: float = 6.0,
    rate: float = 1e-4,
) -> Dataset:
    """a1 and a2 over time for each λ, by theory and by gradient descent; and where their ratio is largest."""
    s1, s2 = strengths
    task = Task.from_correlations(np.diag(strengths))
    steps = round(horizon / rate)
    at = spread_steps(steps, _RECORDS)
    curves = []
    for lam in lambdas:
        problem = Problem(task, aligned(0, task, hidden=2, strengths=start, lam=lam))
        run = descend(problem, rate, steps, record="function", at=at)
        curves.append([mode_strengths(solve(problem, run.times)), mode_strengths(run)])
    values: Array = np.array(curves)
    theory, descent = values[:, 0], values[:, 1]
    peak = _peak_time(strengths, start, horizon)
    a1, a2 = (float(mode_strength(s, start, 0.0, peak)) for s in strengths)
    lazy, late = theory[-1], run.times > 0.02 / lambdas[-1] if lambdas[-1] else run.times > 0
    limit = 1 - np.exp(-lambdas[-1] * run.times)
    return dataset(
        {"strength": (("lam", "source", "time", "mode"), values), "limit": ("mode", np.array(strengths))},
        {"lam": list(lambdas), "source": ["theory", "descent"], "time": run.times, "mode": [1, 2]},
        {
            "deviation": float(np.abs((theory - descent) / strengths).max()),
            "peak_condition": abs((a1 - a2) / (s1 - s2) - 1),
            "lazy_ratio": float(np.abs(lazy[late, 0] / lazy[late, 1] * s2 / s1 - 1).max()),
            "lazy_limit": float(np.abs(lazy / strengths - limit[:, None]).max()),
            "peak_time": peak,
            "peak_ratio": a1 / a2,
        },
    )


def _peak_time(strengths: tuple[float, ...], start: float, horizon: float) -> float:
    """When a1/a2 is largest at λ = 0, from the curves alone."""
    from scipy.optimize import minimize_scalar

    def minus_log_ratio(t: float) -> float:
        a1, a2 = (float(mode_strength(s, start, 0.0, t)) for s in strengths)
        return -float(np.log(a1 / a2))

    grid = np.linspace(0, horizon, 1000)
    near = grid[int(np.argmin([minus_log_ratio(t) for t in grid]))]
    step = grid[1]
    return float(minimize_scalar(minus_log_ratio, bounds=(near - step, near + step), method="bounded").x)


def draw(data: Dataset) -> Picture:
    """The ratio over time, the path in the plane of the modes, and both modes against their limits."""
    figure = style.new_figure(11.5, 3.8)
    ratio, plane, modes = figure.subplots(1, 3)
    s1, s2 = data.limit.values
    for lam, colour in zip(data.lam.values, style.mode_colours(1 + data.sizes["lam"])[:0:-1], strict=True):
        for source, look in (("descent", {"color": colour}), ("theory", style.THEORY)):
            a1, a2 = data.strength.sel(lam=lam, source=source).transpose("mode", "time").values
            label = f"λ = {lam:g}" if source == "descent" else None
            ratio.plot(data.time[1:], (a1 / a2)[1:], **look, label=label)
            plane.plot(a1, a2, **look)
            modes.plot(data.time[1:], a1[1:] / s1, **look)
            modes.plot(data.time[1:], a2[1:] / s2, **look)
    ratio.plot([], [], **style.THEORY, label="exact")
    ratio.axhline(s1 / s2, **style.LIMIT)
    ratio.annotate("s1/s2", (1.0, s1 / s2), (-2, -12), xycoords=("axes fraction", "data"),
                   textcoords="offset points", ha="right")  # fmt: skip
    ratio.plot(data.attrs["peak_time"], data.attrs["peak_ratio"], **style.MARK)
    ratio.annotate("a1 − a2 = s1 − s2", (data.attrs["peak_time"], data.attrs["peak_ratio"]), (-8, 0),
                   textcoords="offset points", ha="right", va="center")  # fmt: skip
    ratio.set(xlabel=style.TIME, ylabel="ratio a1/a2", xscale="log", yscale="log", title="A  Ratio of the modes")
    ratio.legend(loc="upper left", fontsize=8.5)
    plane.plot([0, s1], [0, s2], **style.LIMIT)
    plane.plot(s1, s2, **style.MARK)
    plane.plot(s1, 0, **style.MARK | {"marker": "s"})
    plane.annotate("rank-1 saddle", (s1, 0), (-8, 6), textcoords="offset points", ha="right")
    plane.set(xlabel="a1", ylabel="a2", title="B  Path to the target")
    modes.set(xlabel=style.TIME, ylabel="a/s", xscale="log", title="C  Both modes, a1 before a2")
    return figure


FIGURE = Figure("notes/ratio", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
