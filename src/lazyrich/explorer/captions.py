"""What is happening, in words: one sentence from the numbers, with the theorem behind the curve (`theorems`).

Everything is told from what the library knows before training (`lr.fate`) where a closed form applies, and from the
curve itself (`lr.regime`) where it is integrated. In words, modes and tasks are numbered from 1, strongest mode first;
`stage` and `mode` of a half time are places in the arrays of a view, and count from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

import lazyrich as lr
from lazyrich._typing import Array
from lazyrich.explorer.stages import Stage
from lazyrich.explorer.state import State
from lazyrich.explorer.theorems import certificate, equation, refused, theorem, three_digits, why_none
from lazyrich.explorer.view import View
from lazyrich.explorer.wire import Header

_SAME = 1e-9  # relative difference of two strengths that are one
_LEARNED = 0.95  # of the way of a mode, for an integrated one to count as learned, as in `lr.predict`
_FORGOTTEN, _KEPT = 0.5, 0.05  # of what there was to learn
_HIDDEN = "starts so close to the separatrix that rounding hides its regime"


class _Mark(TypedDict):
    """Where a mode is half way, on the axes of the view."""

    stage: int
    mode: int
    time: float
    strength: float


def captions(state: State, view: View) -> Header:
    """The header of a message: sentence, regime, end, half times, theorem, equation, certificate, forgetting."""
    stages, run = view.stages, view.script.run
    first = stages[0]
    letter = "δ" if state.start == "single_neuron" else "λ"
    return {
        "kind": "captions",
        "sentence": _one_task(first) if run is None else _several_tasks(stages, run),
        "regime": first.regime.name if first.regime is not None and first.gains else None,
        "end": _end(first.fate) if run is None and first.fate is not None else None,
        "half_times": [mark for place, stage in enumerate(stages) for mark in _marks(place, stage)],
        "theorem": theorem([stage.part for stage in stages], letter),
        "refused": refused(first.problem.facts),
        "equation": equation(first.part, first.targets, first.ends, letter),
        "certificate": certificate(first.part),
        "forgetting": None if run is None else _entries(run.forgetting),
    }


def _entries(matrix: Array) -> list[list[float | None]]:
    """None where a matrix has no entry."""
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]


def _marks(place: int, stage: Stage) -> list[_Mark]:
    """When each mode is half way, where that is on the curve of the view."""
    first, times = stage.strengths[0], stage.half_times
    moves = stage.moving & (times <= stage.end)  # not a time that is not a number
    return [
        {
            "stage": place,
            "mode": int(mode),
            "time": stage.start + float(times[mode]),
            "strength": float(first[mode] + stage.ends[mode]) / 2,
        }
        for mode in np.flatnonzero(moves)
    ]


# the sentence -----------------------------------------------------------------------------------------------


def _one_task(stage: Stage) -> str:
    facts = stage.problem.facts
    if facts.rank_target == 0:
        return "nothing to learn: the target is zero, and the network can only unlearn what it has"
    if stage.known:
        decay = f", and weight decay γ = {facts.weight_decay:g} weakens it" if facts.weight_decay else ""
        return f"the initialisation knows the task already{decay or ': nothing is left to learn'}"
    return "; ".join([_learning(stage), *(_so_far(stage) if stage.fate is None else _outcome(stage, stage.fate))])


def _learning(stage: Stage) -> str:
    """The regime, or that there is none."""
    regime = stage.regime
    if stage.fate is None and stage.end == 0:
        return "nothing is known beyond the initialisation"
    if not stage.gains:
        return "nothing is learned" + (f" by t = {three_digits(stage.end)}" if stage.fate is None else "")
    if regime is None:
        return _HIDDEN
    if stage.problem.facts.depth == 1:
        return "lazy: one layer has a kernel that never moves"
    lazy_below = _percent(regime.judgement.thresholds.lazy)
    moved = f"moves by {_percent(regime.kernel_movement)} of its size (lazy below {lazy_below})"
    turned = f" and turns by S = {round(regime.kernel_distance, 12):.2g}" if np.isfinite(regime.kernel_distance) else ""
    if regime.name == "lazy":
        return f"lazy: the kernel {moved} until the loss has fallen{turned}"
    half = f"half of it by t = {three_digits(regime.kernel_half_time)}"
    if regime.name == "rich":
        return f"rich: the kernel {moved}{turned}, {half}"
    lazy, rich = regime.phases
    return (
        f"delayed rich: the kernel stays until t = {three_digits(rich.start)} while the loss falls by "
        f"{_percent(lazy.share)} of its way, and only then {moved}{turned}, {half}"
    )


def _outcome(stage: Stage, fate: lr.Fate) -> list[str]:
    """Which modes are learned in the end, when the last one is, and why others are not."""
    facts, gamma, learned = stage.problem.facts, stage.problem.weight_decay, int(np.count_nonzero(fate.learned))
    said = [_counted(learned, facts)] if stage.gains else []
    if said and np.isfinite(fate.half_times).any():
        last = float(np.nanmax(fate.half_times))
        said[0] += f", {'the last ' * (learned > 1)}half way at t = {three_digits(last)}"
        said[0] += f" (beyond this view, which ends at {three_digits(stage.end)})" * (last > stage.end)
    pulls = stage.problem.task.modes.s[: facts.rank_target]
    if facts.depth > 1 and pulls[-1] <= gamma:
        weak = np.flatnonzero(pulls <= gamma)
        pull = f"{_named(weak)}, {three_digits(pulls[weak[0]])} or less"
        said.append(f"weight decay γ = {gamma:g} outweighs the pull of {pull}")
    if fate.missed:
        said.append(f"ends in the saddle that misses {_named(fate.missed)}: {_obstacle(stage.problem, fate)}")
    return said


def _counted(learned: int, facts: lr.Facts, by: str = "") -> str:
    count, room = facts.rank_target, min(facts.sizes[1:-1], default=0)
    if learned == count:
        return {1: "its one mode is", 2: "both modes are"}.get(count, f"all {count} modes are") + f" learned{by}"
    if count == 1:
        return f"its one mode is not learned{by}"
    words = f"{learned or 'none'} of {count} modes {'is' if learned < 2 else 'are'} learned{by}"
    return words + (f", for the hidden layer has room for {room}" if learned == room else "")


def _obstacle(problem: lr.Problem, fate: lr.Fate) -> str:
    facts, it = problem.facts, "it" if len(fate.missed) == 1 else "them"
    if facts.determinant_obstruction:
        return "the signs of det W₂W₁ and det Σyx differ, and the flow keeps them"
    if facts.aligned and np.all(fate.initial[list(fate.missed)] < 0):
        return "the initialisation has the wrong sign there, and no mode of balanced layers can cross zero"
    return f"the initialisation has no part in {it} that stronger modes do not have, and the flow gives it none"


def _so_far(stage: Stage) -> list[str]:
    """How far a curve has come whose limit is not known, and why it had to be integrated."""
    facts, targets = stage.problem.facts, stage.targets
    by, said = f" by t = {three_digits(stage.end)}", []
    if stage.gains and facts.weight_decay:
        said = [f"the loss goes from {three_digits(stage.part.loss[0])} to {three_digits(stage.part.loss[-1])}{by}"]
    elif stage.gains:
        left = np.abs(stage.strengths[-1] - targets)
        done = (left <= (1 - _LEARNED) * np.abs(targets)) & (np.arange(len(targets)) < facts.rank_target)
        said = [_counted(int(np.count_nonzero(done)), facts, by)]
    if stage.part.status.end != "complete":
        said.append(f"the integration {stage.part.status.what}")
    if stage.exact:
        return said
    digits = "" if stage.error is None else f" to {stage.error:.0e} of the largest"
    return [*said, f"integrated{digits}, for {why_none(facts)}"]


def _several_tasks(stages: Sequence[Stage], run: lr.Continual) -> str:
    said = [f"task {number} {_in_sequence(number, stage)}" for number, stage in enumerate(stages, start=1)]
    after = len(stages)
    if after < len(run.tasks):
        said.append(f"only {after} of {len(run.tasks)} tasks were reached")
    for number, (stage, risen) in enumerate(zip(stages[:-1], run.forgetting[-1], strict=False), start=1):
        said.append(f"after task {after}, {_kept(number, float(risen), stage)}")
    return "; ".join(said)


def _in_sequence(number: int, stage: Stage) -> str:
    """The regime of one of several tasks, where it heads, and whether it gets there before the next one begins."""
    if not stage.gains:
        words = "brings nothing new" if stage.left <= _KEPT else "teaches the network nothing"
    elif stage.regime is None:
        words = _HIDDEN
    else:
        words = f"is {stage.regime.name} (the kernel moves by {_percent(stage.regime.kernel_movement)})"
    if stage.fate is not None and stage.fate.missed:
        words += f" and heads for the saddle that misses {_named(stage.fate.missed)}"
        words += " as far as rounding lets us see" * (number > 1)  # what came before may have left a part below it
    if stage.gains and stage.left > _KEPT:
        words += f", {'only partly' if stage.left < _FORGOTTEN else 'not'} learned by its end"
    return words


def _kept(task: int, risen: float, stage: Stage) -> str:
    """What has become of a task, by what it has to give; one that was never learned is neither kept nor forgotten."""
    loss, verdict = f"the loss of task {task}", stage.left < _FORGOTTEN
    if abs(risen) <= max(_KEPT * stage.own, _SAME * stage.whole):
        return f"{loss} is what it was" + ": it is kept" * verdict
    if risen < 0:
        return f"{loss} has fallen by another {-risen:.2g}: it gained from what came later"
    partly = "partly " * (risen < _FORGOTTEN * stage.own)
    return f"{loss} has risen by {risen:.2g}" + f": it is {partly}forgotten" * verdict


def _end(fate: lr.Fate) -> str:
    """The minimum or saddle in words, modes from 1."""
    if not fate.missed:
        return "the global minimum"
    strengths = ", ".join(f"{fate.s[mode]:.3g}" for mode in fate.missed)
    return f"the saddle that misses {_named(fate.missed)} (s = {strengths})"


def _named(modes: Sequence[int] | Array) -> str:
    """'mode 8', 'modes 1 and 8', 'modes 5 to 8': from 1."""
    numbers = [int(mode) + 1 for mode in modes]
    if len(numbers) == 1:
        return f"mode {numbers[0]}"
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"modes {numbers[0]} to {numbers[-1]}"
    return f"modes {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _percent(share: float) -> str:
    """With two digits where they are few: '0.8 %', '99 %'."""
    if share < 1e-4:
        return "less than 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
