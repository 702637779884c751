"""Dominé et al. 2025: reversal learning, which fails at λ = 0 and succeeds at any other balance."""

from collections.abc import Sequence

import numpy as np

from lazyrich import Problem
from lazyrich._progress import progress
from lazyrich._typing import Array
from lazyrich.inits import aligned
from lazyrich.landscape import fate, plateau_times
from lazyrich.observables import half_times, mode_strengths
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.steps import spread_steps
from lazyrich.papers.domine2025.figures._shared import signed, task_of_strengths
from lazyrich.plot import style
from lazyrich.sequences import Continual, continual
from lazyrich.tasks import Task, reversal

TITLE = "Reversal learning by balance: an obstruction at λ = 0, a logarithm beside it"
ABOUT = (
    "A 3-3-3 network learns modes of strength 3, 2 and 1 for 8 units of time, and then the same task with its labels "
    "reversed, for many balances λ; exact curves (dotted) lie over gradient descent at rate 0.001. "
    "At λ = 0 every mode fades to zero and stays there, in a saddle, until rounding sets a simulation free; at any "
    "other λ it passes through zero. "
    "The time at which it does is exact, the same for both signs of λ, and grows only as ln(1/|λ|)/2s."
)
CALLS = (
    "lr.tasks.reversal",
    "lr.inits.aligned",
    "lr.continual",
    "lr.fate",
    "lr.landscape.plateau_times",
    "lr.observables.half_times",
)
CHECKS = {
    "deviation": Check(
        "largest difference in loss, as a share of the first, theory against descent (λ ≠ 0)", at_most=0.04
    ),
    "time_error": Check("zero crossings of descent against theory, largest relative difference", at_most=0.01),
    "missed": Check("at λ = 0, modes of the reversed task that theory never learns", at_least=3),
    "missed_otherwise": Check("the same at all other λ", at_most=0),
}
QUICK = {"rate": 0.002, "sweep": (1e-6, 1e-3, 1.0), "shown": (0.0, 1e-4, 1.0)}

_STRENGTHS = np.array([3.0, 2.0, 1.0])
_RECORDS = 200


def compute(
    *,
    shown: tuple[float, ...] = (0.0, 1e-6, 1e-3, 0.1, 2.0),
    sweep: tuple[float, ...] = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0),
    start: float = 0.05,
    durations: tuple[float, ...] = (8.0, 30.0),
    mastery: float = 20.0,
    rate: float = 0.001,
    seed: int = 1,
) -> Dataset:
    """Loss over both tasks for some λ; times at which the modes pass zero for many."""
    task = task_of_strengths(seed, 3, 3, _STRENGTHS)
    tasks = [task, reversal(task)]
    steps = [round(duration / rate) for duration in durations]
    spans = [rate * np.linspace(0, steps[0], _RECORDS).round(), rate * spread_steps(steps[1], 2 * _RECORDS)]
    longer = [rate * np.array([0.0, round(mastery / rate)]), spans[1]]  # what is left of the first task is below all λ
    losses, missed = [], []
    signs = (-1.0, 1.0)
    crossings = np.empty((2, len(signs), len(sweep), len(_STRENGTHS)))
    with progress(len(shown) + 2 * len(sweep), "balances") as move_on:
        for lam in shown:
            exact, run = _pair(tasks, lam, start, spans, rate)
            losses.append([np.where(each.training == 0, *each.losses.T) for each in (exact, run)])
            missed.append(len(fate(Problem(tasks[1], exact.ends[0])).missed))
            move_on(1)
        for i, sign in enumerate(signs):
            for j, lam in enumerate(sweep):
                pair = _pair(tasks, sign * lam, start, longer, rate)
                crossings[:, i, j] = _crossings(*pair)
                move_on(1)
    values, unequal = np.array(losses), np.array(shown) != 0
    return dataset(
        {"loss": (("lam", "source", "time"), values), "crossing": (("source", "sign", "size", "strength"), crossings)},
        {
            "lam": list(shown),
            "source": ["theory", "descent"],
            "time": exact.times,
            "sign": list(signs),
            "size": list(sweep),
            "strength": _STRENGTHS,
        },
        {
            "switch": float(spans[0][-1]),
            "saddle": float(np.sum(_STRENGTHS**2)) / 2,
            "deviation": float(np.abs(values[:, 0] - values[:, 1])[unequal].max() / values[0, 0, 0]),
            "time_error": float(np.abs(crossings[1] / crossings[0] - 1).max()),
            "missed": float(np.array(missed)[~unequal].max(initial=0)),
            "missed_otherwise": float(np.array(missed)[unequal].max()),
        },
    )


def _pair(
    tasks: list[Task], lam: float, start: float, spans: Sequence[Array], rate: float
) -> tuple[Continual, Continual]:
    """Both tasks in turn from a decoupled initialisation, by theory and step by step.

    Decoupled, because steps conserve the balance of such a mode up to a factor near 1, whereas those of random weights
    add to it: about rate, which is more than the small λ here.
    """
    network = aligned(0, tasks[0], hidden=len(_STRENGTHS), strengths=start, lam=lam)
    return continual(tasks, network, spans), continual(tasks, network, spans, rate=rate)


def _crossings(exact: Continual, run: Continual) -> list[Array]:
    """When each mode of the reversed task is half way, at zero: predicted from the network before, and seen."""
    after = run.trajectories[1]
    seen = half_times(after.times, mode_strengths(after), after.problem.task.modes.s)
    return [plateau_times(Problem(exact.tasks[1], exact.ends[0])).times, seen]


def draw(data: Dataset) -> Picture:
    """Loss over both tasks, and when the modes pass zero against |λ|."""
    figure = style.new_figure(11.5, 4.2)
    losses, times = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    for lam, colour in zip(data.lam.values, style.mode_colours(1 + data.sizes["lam"])[:0:-1], strict=True):
        curves = data.loss.sel(lam=lam)
        losses.plot(data.time, curves.sel(source="descent"), color=colour, label=f"λ = {signed(lam)}")
        losses.plot(data.time, curves.sel(source="theory"), **style.THEORY)
    losses.plot([], [], **style.THEORY, label="exact")
    losses.axhline(data.attrs["saddle"], **style.LIMIT)
    losses.axvline(data.attrs["switch"], color="black", linewidth=1.0)
    losses.annotate("labels reversed", (data.attrs["switch"], 1.0), (4, -4), xycoords=("data", "axes fraction"),
                    textcoords="offset points", va="top")  # fmt: skip
    losses.annotate("saddle W = 0", (0.99, data.attrs["saddle"]), (0, 3), xycoords=("axes fraction", "data"),
                    textcoords="offset points", ha="right")  # fmt: skip
    losses.set(xlabel=style.TIME, ylabel="loss of the task in training", title="A  Loss", xlim=(0.0, None))
    losses.legend(loc="upper right", bbox_to_anchor=(1.0, 0.95))
    _draw_times(times, data)
    return figure


def _draw_times(panel: Axes, data: Dataset) -> None:
    for s, colour in zip(data.strength.values, style.mode_colours(data.sizes["strength"]), strict=True):
        part = data.crossing.sel(strength=s)
        for sign, marker in ((-1.0, "o"), (1.0, "+")):
            look = {"color": colour, "marker": marker, "markersize": 8 if sign > 0 else 5, "linestyle": "none"}
            panel.plot(data["size"], part.sel(source="descent", sign=sign), **look)
        panel.plot(data["size"], part.sel(source="theory", sign=1.0), **style.THEORY)
        panel.plot([], [], color=colour, marker="o", linestyle="none", label=f"s = {s:g}")
    panel.plot([], [], **style.THEORY, label="exact")
    panel.set(xscale="log", xlabel="|λ|  (dots: λ < 0, crosses: λ > 0)", ylabel="time from reversal to a = 0")
    panel.set(title="B  When each mode passes zero", ylim=(0.0, None))
    panel.legend(loc="upper right")


FIGURE = Figure("domine2025/reversal", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
