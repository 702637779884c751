"""A network between its two limits: the lazy one, from large weights, and saddle to saddle, from small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._status import End
from lazyrich._typing import Array, ArrayLike, Float
from lazyrich.landscape.horizon import horizon, rounded_up
from lazyrich.landscape.plateaus import Plateaus, plateau_times
from lazyrich.laziness.definition import percent
from lazyrich.methods.flow import flow
from lazyrich.methods.lazy_limit import lazy_limit
from lazyrich.methods.solve import solve
from lazyrich.observables.linearisation import gap_between
from lazyrich.plot import style
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

_COUNT = 301  # times, where none are given
_AT_REST = 0.01  # of the fall of the loss
_LONGER = 4.0  # how much longer to look for the lazy limit than for the network
_SMALL = 0.05  # of a mode: the strength below which it begins small
_ROUNDS = 8
_NETWORK: style.Look = {"color": style.COLOURS["blue"], "linewidth": 2.6}
_LAZY: style.Look = {"color": style.COLOURS["orange"], "linestyle": (0, (5, 2)), "linewidth": 1.8, "zorder": 3}
_SADDLES: style.Look = {"color": style.COLOURS["grey"], "linestyle": (0, (1, 1.4)), "linewidth": 1.6, "zorder": 1}


def limits(problem: Problem, times: ArrayLike | None = None, *, axes: Axes | None = None) -> Figure:
    """The loss of a network over time, between its lazy limit and, where it begins small, its saddle-to-saddle limit.

    The network is solved where a closed form applies, else its flow is integrated. Its lazy limit is `lr.lazy_limit`;
    the title says how far the two are apart (`lr.observables.linearisation_gap`). From small weights modes are learned
    one after the other, and as weights get smaller the loss becomes a staircase: a step where half of the loss of each
    mode is gone, a little before its half time (`lr.landscape.plateau_times`). It is drawn where these times are known,
    for linear layers without biases, two on white inputs or any with modes that do not interact; and where weights are
    small, so that all modes which are learned begin below 5 % of their limit. Where it is missing and one might look
    for it, as the function begins below its target, the legend says why.

    Parameters
    ----------
    problem : a task and any network that `lr.lazy_limit` takes
    times : when to look; without them until the network has learned, or also its lazy limit, where that takes no more
        than four times as long
    axes : to draw on, instead of a new figure. Their title is left to you, and what it would say stands over the legend

    Returns
    -------
    Figure

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> [text.get_text() for text in lr.plot.limits(problem).axes[0].get_legend().get_texts()]
    ['network (riccati)', 'lazy limit, half way at t = 1.93e+03', 'saddle-to-saddle limit']
    """
    as_problem(problem)
    lazy = lazy_limit(problem, [0.0])  # first, as it may refuse
    looks = np.linspace(0.0, _end(problem, lazy), _COUNT) if times is None else _check.as_times(times)
    network = _followed(problem, looks)
    lazy = lazy.at(network.times)
    with style.drawn_on(axes) as panel:
        panel.plot(network.times, network.loss, **_NETWORK, label=f"network ({network.method})")
        panel.plot(lazy.times, lazy.loss, **_LAZY, label=_lazy_label(lazy))
        steps, missing = _modes(problem)
        if steps is not None:
            _staircase(panel, problem, steps, float(network.times[-1]))
        panel.set(xlabel=style.TIME, ylabel="loss")
        if panel.get_yscale() == "linear":
            panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
        else:  # a staircase that ends in zero would take all of it
            panel.set_ylim(bottom=min(float(np.min(run.loss)) for run in (network, lazy)) / 2)
        panel.margins(x=0.01)
        early = None if network.status.end is End.COMPLETE else f"the network {network.status.what}"
        legend = _legend(panel, missing, early)
        gap = _gap(network, lazy)
        if axes is None:
            panel.set_title(f"Network and lazy limit: {gap}")
        else:
            legend.set_title(gap)
    return style.figure_of(panel)


def _legend(panel: Axes, *notes: str | None) -> Legend:
    """Of all curves, and a line without one for each thing to note."""
    from matplotlib.lines import Line2D

    handles, _ = panel.get_legend_handles_labels()
    empty = [Line2D([], [], linestyle="none", label=note) for note in notes if note]
    return panel.legend(handles=[*handles, *empty], loc="best", alignment="left")


def _gap(network: Trajectory, lazy: Trajectory) -> str:
    gap = float(np.max(gap_between(network, lazy)))
    return "neither moves" if np.isnan(gap) else f"up to {percent(float(f'{gap:.2g}'))} of the way apart"


def _followed(problem: Problem, times: ArrayLike) -> Trajectory:
    return flow(problem, times) if problem.facts.method is None else solve(problem, times)


def _end(problem: Problem, lazy: Trajectory) -> float:
    """Until when to look: the network has learned, and its lazy limit if it does not take much longer."""
    end, rest = horizon(problem), np.nan
    for _ in range(_ROUNDS):  # that may be an estimate, and longer than the eye sees a loss fall
        run = _followed(problem, np.linspace(0.0, end, _COUNT))
        rest = _rest(np.asarray(run.times), np.asarray(run.loss))
        if run.status != "complete" or 0.2 * end < rest < 0.8 * end:
            break
        end = 4 * end if rest >= 0.8 * end else 2 * rest
    learned = _when(lazy, _AT_REST)
    return rounded_up(1.2 * max(rest, learned if learned <= _LONGER * rest else 0.0))


def _rest(times: Float[Array, " T"], loss: Float[Array, " T"]) -> float:
    """From when on the loss is within a hundredth of its way of where it ends."""
    moving = np.flatnonzero(np.abs(loss - loss[-1]) > _AT_REST * np.ptp(loss))
    return float(times[min(moving[-1] + 1, len(times) - 1)]) if len(moving) else float(times[-1]) / 2


def _when(lazy: Trajectory, left: float) -> float:
    """When that share of the fall of the lazy limit is left; inf where it never moves. It falls all the time."""
    first, limit = lazy.at([0.0, np.inf]).loss
    if not first > limit:
        return np.inf
    low, high = -150.0, 150.0  # log₁₀ t
    for _ in range(60):
        middle = (low + high) / 2
        far = lazy.at([10.0**middle]).loss[0] - limit > left * (first - limit)
        low, high = (middle, high) if far else (low, middle)
    return float(10.0**high)


def _lazy_label(lazy: Trajectory) -> str:
    """The name of the curve, and when it falls if that is not to be seen."""
    half = _when(lazy, 0.5)
    if np.isinf(half):
        return "lazy limit, which never moves"
    return "lazy limit" if half <= 0.8 * lazy.times[-1] else f"lazy limit, half way at t = {half:.3g}"


def _modes(problem: Problem) -> tuple[Plateaus | None, str | None]:
    """The modes and their times, where these are known and the staircase is the limit of small weights; else why not.
    Large weights make nobody look for one, and nothing is said."""
    initial, target = (float(np.linalg.norm(W)) for W in (problem.network.linear_part, problem.task.target))
    why = _unknown(problem) if initial < target else None
    try:
        steps = plateau_times(problem)
    except InvalidInput:
        return None, f"no staircase: {why}" if why else None
    learned = np.isfinite(steps.times)
    if steps.kind == "scaling only" or not learned.any():
        return None, f"no staircase: {why}" if why else None
    begin = float(np.max(steps.initial[learned] / steps.limit[learned]))
    if begin < _SMALL:
        return steps, None
    return None, f"no staircase: modes begin at {begin:.2g} of their limit" if begin < 1 else None


def _unknown(problem: Problem) -> str | None:
    """Why nobody knows the times of a staircase; the one reason that stands first where there are several."""
    facts = problem.facts
    if facts.depth == 1:
        return None  # one layer has none to look for
    reasons = {
        "its times are known only for linear layers": not facts.activation.linear,
        "its times are known only without biases": problem.network.biased,
        "its times are known only without weight decay": bool(facts.weight_decay),
        "its times are known only on white inputs": not facts.whitened,
        "its times are known only for two layers, or aligned ones": facts.depth > 2,
    }
    return next((reason for reason, holds in reasons.items() if holds), "no mode is learned")


def _staircase(panel: Axes, problem: Problem, steps: Plateaus, end: float) -> None:
    """The loss where the modes that had their time are learned, and the others are not.

    A mode of two layers grows as a logistic of rate r = ln(1 + s/a0)/t, t its half time. The loss goes with (s − a)²,
    half of which is left at a = (1 − 1/√2)s, that is ln(1 + √2)/r before. Of deeper ones both come at once.
    """
    when = steps.times
    if problem.network.depth == 2:
        with np.errstate(divide="ignore", invalid="ignore"):  # modes that never come
            when = when * (1 - np.log1p(np.sqrt(2)) / np.log1p(steps.limit / steps.initial))
    learned = np.argsort(when)[: np.count_nonzero(np.isfinite(when))]
    parts = np.einsum("m,om,im->moi", steps.limit[learned], steps.U[:, learned], steps.V[:, learned])
    loss = problem.task.loss(np.concatenate([np.zeros_like(parts[:1]), np.cumsum(parts, axis=0)]))
    seen = when[learned] <= end
    times = np.concatenate([[0.0], when[learned][seen], [end]])
    loss = np.append(loss[: np.count_nonzero(seen) + 1], loss[np.count_nonzero(seen)])
    panel.step(times, loss, where="post", **_SADDLES, label="saddle-to-saddle limit")
