"""What is happening, in words: one sentence from the numbers, the theorem behind the curve, and its equation.

Everything is told from what the library knows before training (`lr.fate`) where a closed form applies, and from the
curve itself (`lr.regime`) where it is integrated. In words, modes and tasks are numbered from 1, strongest mode first;
`stage` and `mode` of a half time are places in the arrays of a view, and count from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import lazyrich as lr
from lazyrich._typing import Array, Float
from lazyrich.explorer.state import State
from lazyrich.explorer.view import View, parts_of

__all__ = ["story"]

_LITTLE = 1e-3  # of what there is to learn: a loss that falls by less, or has no more to fall, does not count
_SAME = 1e-9  # relative difference of two strengths that are one
_LEARNED = 0.99  # of the way of a mode, for an integrated one to count as learned
_FORGOTTEN, _KEPT = 0.5, 0.05  # of what there was to learn
_HIDDEN = "starts so close to the separatrix that rounding hides its regime"
_METHOD_OF_DEPTH = {1: "shallow", 2: "riccati"}  # deeper ones: deep_modes


@dataclass(frozen=True)
class _Stage:
    """One task of the run, with its curve and what is known about it; `start` is on the time axis of the view."""

    part: lr.Trajectory
    start: float
    targets: Float[Array, " m"]
    fate: lr.Fate | None  # None: integrated, or hidden by rounding
    regime: lr.Regime | None  # None: it did not move on from t = 0, or rounding hides it

    @property
    def problem(self) -> lr.Problem:
        return self.part.problem

    @property
    def end(self) -> float:
        return float(self.part.times[-1])

    @property
    def known(self) -> bool:
        """Whether the start has all but learned its task."""
        return self._first_loss - self.problem.task.loss_floor <= _LITTLE * self.whole

    @property
    def gains(self) -> bool:
        """Whether there is something to learn, and it is learned in part at least."""
        last = float(self.part.loss[-1]) if self.fate is None else self.fate.loss_limit
        return self.problem.facts.rank_target > 0 and self._first_loss - last > _LITTLE * self.whole

    @property
    def _first_loss(self) -> float:
        return float(self.part.loss[0])

    @property
    def whole(self) -> float:
        """What a network that knows nothing, or this one, has to lose."""
        task = self.problem.task
        return max(float(task.loss(np.zeros((task.d_out, task.d_in)))), self._first_loss) - task.loss_floor


def story(state: State, view: View) -> dict[str, Any]:
    """The header of a message: sentence, regime, end, half times, theorem, equation, certificate, forgetting."""
    stages, run = _stages(view), view.script.values.get("run")
    first = stages[0]
    letter = "δ" if state.start == "single_neuron" else "λ"
    return {
        "kind": "story",
        "sentence": _one_task(first) if run is None else _several_tasks(stages, run),
        "regime": first.regime.name if first.regime is not None and first.gains else None,
        "end": _end(first.fate) if run is None and first.fate is not None else None,
        "half_times": [mark for place, stage in enumerate(stages) for mark in _marks(place, stage)],
        "theorem": _theorem(stages, letter),
        "refused": _refused(first.problem.facts),
        "equation": _equation(first, letter),
        "certificate": _certificate(first.part),
        "forgetting": None if run is None else run.to_dict()["forgetting"],
    }


def _stages(view: View) -> list[_Stage]:
    found, start = [], 0.0
    for part, targets in zip(parts_of(view.script), view.arrays["targets"], strict=True):
        found.append(_Stage(part, start, targets, *_fate_and_regime(part)))
        start += found[-1].end
    return found


def _fate_and_regime(part: lr.Trajectory) -> tuple[lr.Fate | None, lr.Regime | None]:
    """What is known before training where there is a closed form, and what the curve tells elsewhere."""
    try:
        if part.method != "flow":
            fate = lr.fate(part.problem)
            return fate, fate.regime
        return None, lr.regime(part) if part.times[-1] > 0 else None
    except np.linalg.LinAlgError:  # a start so close to the separatrix that some time between has no digits left
        return None, None


def _marks(place: int, stage: _Stage) -> list[dict[str, Any]]:
    """When each mode is half way to its limit (integrated: to its target), where that is on the curve of the view.

    The fate knows the time exactly. Where modes of equal strength, or correlated inputs, make its modes other ones
    than those drawn, it is read off the curve.
    """
    part, fate = stage.part, stage.fate
    strengths, limit = lr.observables.mode_strengths(part), stage.targets
    first = strengths[0]
    if fate is not None:
        U, _, V = stage.problem.task.modes
        limit = np.einsum("om,oi,im->m", U, fate.function_limit, V)
    size = float(max(np.abs(limit).max(), np.abs(first).max()))
    times = lr.observables.half_times(part.times, strengths, limit)
    if fate is not None:
        same = (np.abs(fate.start - first) <= _SAME * size) & (np.abs(fate.limit - limit) <= _SAME * size)
        times = np.where(same, fate.half_times, times)
    moves = (np.abs(limit - first) > _SAME * size) & (times <= stage.end)  # not a time that is not a number
    return [
        {
            "stage": place,
            "mode": int(mode),
            "time": stage.start + float(times[mode]),
            "strength": float(first[mode] + limit[mode]) / 2,
        }
        for mode in np.flatnonzero(moves)
    ]


# the sentence -----------------------------------------------------------------------------------------------


def _one_task(stage: _Stage) -> str:
    facts = stage.problem.facts
    if facts.rank_target == 0:
        return "nothing to learn: the target is zero, and the network can only unlearn its start"
    if stage.known:
        decay = f", and weight decay γ = {facts.weight_decay:g} weakens it" if facts.weight_decay else ""
        return f"the start knows the task already{decay or ': nothing is left to learn'}"
    return "; ".join([_learning(stage), *(_so_far(stage) if stage.fate is None else _outcome(stage, stage.fate))])


def _learning(stage: _Stage) -> str:
    """The regime, or that there is none."""
    regime = stage.regime
    if not stage.gains:
        return "nothing is learned" + (f" by t = {_number(stage.end)}" if stage.fate is None else "")
    if regime is None:
        return _HIDDEN
    if stage.problem.facts.depth == 1:
        return "lazy: one layer has a kernel that never moves"
    moved = f"moves by {_percent(regime.kernel_movement)} of its size"
    if regime.name == "lazy":
        return f"lazy: the kernel {moved} until the loss has fallen"
    half = f"half of it by t = {_number(regime.kernel_half_time)}"
    if regime.name == "rich":
        return f"rich: the kernel {moved} and turns by {regime.kernel_distance:.2f}, {half}"
    lazy, rich = regime.phases
    return (
        f"delayed rich: the kernel stays until t = {_number(rich.start)} while the loss falls by "
        f"{_percent(lazy.share)} of its way, and only then {moved}, {half}"
    )


def _outcome(stage: _Stage, fate: lr.Fate) -> list[str]:
    """Which modes are learned in the end, when the last one is, and why others are not."""
    facts, gamma, learned = stage.problem.facts, stage.problem.weight_decay, int(np.count_nonzero(fate.learned))
    said = [_counted(learned, facts)] if stage.gains else []
    if said and np.isfinite(fate.half_times).any():
        last = float(np.nanmax(fate.half_times))
        said[0] += f", {'the last ' * (learned > 1)}half way at t = {_number(last)}"
        said[0] += f" (beyond this view, which ends at {_number(stage.end)})" * (last > stage.end)
    pulls = stage.problem.task.modes.s[: facts.rank_target]
    if facts.depth > 1 and pulls[-1] <= gamma:
        weak = np.flatnonzero(pulls <= gamma)
        pull = f"{_named(weak)}, {_number(pulls[weak[0]])} or less"
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
    if facts.aligned and np.all(fate.start[list(fate.missed)] < 0):
        return "the start has the wrong sign there, and no mode of balanced layers can cross zero"
    return f"the start has no part in {it} that stronger modes do not have, and the flow gives it none"


def _so_far(stage: _Stage) -> list[str]:
    """How far a curve has come whose limit is not known, and why it had to be integrated."""
    facts, targets, status = stage.problem.facts, stage.targets, stage.part.status
    by, said = f" by t = {_number(stage.end)}", []
    if stage.gains and facts.weight_decay:
        said = [f"the loss goes from {_number(stage.part.loss[0])} to {_number(stage.part.loss[-1])}{by}"]
    elif stage.gains:
        left = np.abs(lr.observables.mode_strengths(stage.part)[-1] - targets)
        done = (left <= (1 - _LEARNED) * np.abs(targets)) & (np.arange(len(targets)) < facts.rank_target)
        said = [_counted(int(np.count_nonzero(done)), facts, by)]
    if status != "complete":
        said.append(f"the integration {status.partition(':')[0]}")
    return [*said, f"integrated, for {_why_none(facts)}"] if stage.part.method == "flow" else said


def _why_none(facts: lr.Facts) -> str:
    """The reason of the method for this number of layers, without its asides."""
    reason = facts.methods[_METHOD_OF_DEPTH.get(facts.depth, "deep_modes")] or "no closed form is known"
    bare = re.sub(r" \((?:[^()]|\(\))*\)", "", reason)
    return re.sub(r"\bit\b", "the closed form", bare, count=1)


def _several_tasks(stages: Sequence[_Stage], run: lr.Continual) -> str:
    said = []
    for number, stage in enumerate(stages, start=1):
        words = "brings nothing new" if not stage.gains else _HIDDEN
        if stage.regime is not None and stage.gains:
            words = f"is {stage.regime.name} (the kernel moves by {_percent(stage.regime.kernel_movement)})"
        if stage.fate is not None and stage.fate.missed:
            words += f" and heads for the saddle that misses {_named(stage.fate.missed)}"
        said.append(f"task {number} {words}")
    after = len(stages)
    if after < len(run.tasks):
        said.append(f"only {after} of {len(run.tasks)} tasks were reached")
    for number, (stage, risen) in enumerate(zip(stages[:-1], run.forgetting[-1], strict=False), start=1):
        said.append(f"after task {after}, {_kept(number, float(risen), stage.whole)}")
    return "; ".join(said)


def _kept(task: int, risen: float, whole: float) -> str:
    loss = f"the loss of task {task}"
    if abs(risen) <= _KEPT * whole:
        return f"{loss} is what it was: it is kept"
    if risen < 0:
        return f"{loss} has fallen by another {-risen:.2g}: it gained from what came later"
    return f"{loss} has risen by {risen:.2g}: it is {'partly ' * (risen < _FORGOTTEN * whole)}forgotten"


def _end(fate: lr.Fate) -> str:
    """The minimum or saddle in words, modes from 1."""
    if not fate.missed:
        return "the global minimum"
    strengths = ", ".join(f"{fate.strengths[mode]:.3g}" for mode in fate.missed)
    return f"the saddle that misses {_named(fate.missed)} (s = {strengths})"


def _named(modes: Iterable[Any]) -> str:
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


# theorem and equation ---------------------------------------------------------------------------------------

_THEOREMS = {
    "riccati": (
        "Two balanced layers in closed form (Braun et al. 2022)",
        "The weights of both layers, as Q = [W₁ᵀ; W₂], obey a matrix Riccati equation, whose solution QQᵀ(t) is known "
        "for every time, size, rank and scale. It holds the network's function and both representations.",
    ),
    "modes": (
        "Two layers, every mode alone (Saxe et al. 2014)",
        "A start that shares the task's singular vectors keeps them. Each mode then follows an equation of its own, "
        "whatever the others do.",
    ),
    "deep_modes": (
        "Many layers, every mode alone (Saxe et al. 2014)",
        "In balanced layers that share the task's singular vectors, each mode grows as a power of itself: a longer "
        "plateau and a sharper rise than with two layers. The time to reach a strength is known in closed form.",
    ),
    "shallow": (
        "One layer: linear regression (Saxe et al. 2019)",
        "The flow is linear: what is left to learn fades exponentially, in each direction of the inputs at the rate "
        "of their variance there.",
    ),
    "flow": (
        "Gradient flow, integrated",
        "No closed form is known for this problem. The differential equation is integrated step by step, to about nine "
        "digits; what the flow conserves is the check.",
    ),
}


def _theorem(stages: Sequence[_Stage], letter: str) -> dict[str, Any]:
    part, facts = stages[0].part, stages[0].problem.facts
    title, statement = _THEOREMS[part.method]
    if part.method == "riccati" and facts.sizes[1] == 1:
        statement += " With one hidden unit it is the single neuron of Kunin et al. 2024, whose δ is λ."
    methods = [stage.part.method for stage in stages]
    others = [f"task {number}: {method}" for number, method in enumerate(methods, start=1) if method != part.method]
    return {
        "name": part.method,
        "title": title,
        "statement": statement,
        "why": _why(part.method, facts, letter) + (f" By others, {', '.join(others)}." if others else ""),
        "citation": _short(part.citation),
        "anchor": f"#{part.method}",
    }


def _why(method: str, facts: lr.Facts, letter: str) -> str:
    """The conditions, with the numbers by which they hold."""
    balanced = f"the layers are balanced, {letter} = {_listed(facts.balance)} ({_within(facts.balance_error)})"
    shared = f"start and inputs share the task's modes ({_within(facts.alignment_error)})"
    white = f"the inputs are white, Σxx = {_number(facts.input_scale)}·I ({_within(facts.whitening_error)})"
    match method:
        case "riccati":
            return f"There are two linear layers; {white}; {balanced}."
        case "modes":
            return f"There are two linear layers; {shared}."
        case "deep_modes":
            return f"There are {facts.depth} linear layers; {balanced}; {shared}."
        case "shallow":
            return "There is one linear layer, and that is all it needs."
    return f"Integrated, for {_why_none(facts)}."


def _refused(facts: lr.Facts) -> list[dict[str, str]]:
    """The exact methods that do not apply; those for another number of layers come last."""
    refused = [{"name": name, "reason": reason} for name, reason in facts.methods.items() if reason is not None]
    return sorted(refused, key=lambda entry: "and this network has" in entry["reason"])


def _equation(stage: _Stage, letter: str) -> list[str]:
    """What is solved, and the numbers that stand in it now; for layer rates, in the units that take them up."""
    problem, facts, unit = stage.problem, stage.problem.facts, stage.problem.canonical
    gain = unit.gain if stage.part.method in ("riccati", "modes", "deep_modes") else 1.0
    gamma, rates = facts.weight_decay, any(rate != 1 for rate in facts.rates)
    targets = gain * stage.targets
    first = gain * float(np.abs(lr.observables.mode_strengths(stage.part)[0]).max())
    s, start = f"s = {_listed(targets)}", f"|a₀| ≤ {_number(first)}"
    lam, c = f"{letter} = {_listed(facts.balance)}", f"c = {_listed(_variances(problem))}"
    decay = f", γ = {_number(gamma * facts.rates[0])}" if gamma else ""
    match stage.part.method:
        case "riccati":
            growth = np.hypot(targets, facts.balance[0] / 2) - unit.decay
            less = " − γ/c" if gamma else ""
            lines = [
                "QQᵀ(t) = e^{Fτ} Q₀ [I + Q₀ᵀGQ₀]⁻¹ Q₀ᵀ e^{Fτ},  Q = [W₁ᵀ; W₂],  G = ∫₀^τ e^{2Fx} dx,  τ = ct",
                f"F = [[−{letter}/2·I, Tᵀ], [T, {letter}/2·I]]{less}{'·I' * bool(gamma)},  T has the singular values s",
                f"{lam}, {s}, {c}, {start}{decay}",
                f"eigenvalues of F for the modes: w = √(s² + {letter}²/4){less} = {_listed(growth)}",
            ]
        case "modes":
            law = "2a·(c(s − a) − γ)" if gamma else f"c·√({letter}² + 4a²)·(s − a)"
            lines = [f"ȧ = {law}  for each mode", f"{lam}, {s}, {c}, {start}{decay}"]
        case "deep_modes":
            lines = ["ȧ = c·L·a^{2−2/L}·(s − a)  for each mode", f"L = {facts.depth}, {s}, {c}, {start}"]
        case "shallow":
            speeds = facts.rates[0] * (np.linalg.eigvalsh(problem.task.sigma_xx)[::-1] + gamma)
            xx = "(Σxx + γI)" if gamma else "Σxx"
            ends = targets if stage.fate is None else stage.fate.limit
            lines = [
                f"W(t) = T + (W₀ − T) e^{{−η{xx}·t}},  T = Σyx {xx}⁻¹",
                f"T: s = {_listed(ends)}, η{xx}: {_listed(speeds)}{decay}",
            ]
        case _:
            less = " − γW_ℓ" if gamma else ""
            lines = [
                f"Ẇ_ℓ = η_ℓ [(W_L…W_ℓ₊₁)ᵀ (Σyx − W Σxx) (W_ℓ₋₁…W₁)ᵀ{less}]",
                f"L = {facts.depth}, η = {_listed(facts.rates, most=5)}, {s}, {start}"
                + (f", γ = {gamma:g}" if gamma else ""),
            ]
    if rates and facts.depth > 1 and stage.part.method != "flow":
        units = f"k_ℓW_ℓ, k = {_listed(unit.k, most=5)}"
        lines.append(f"in units that take up the layer rates {_listed(facts.rates, most=5)}: {units} for W_ℓ")
    return lines


def _variances(problem: lr.Problem) -> Array:
    """Of the inputs, along each mode; once where they are white."""
    task = problem.task
    along = np.sum(task.modes.V * (task.sigma_xx @ task.modes.V), axis=0)
    return along[:1] if problem.facts.whitened else along


def _certificate(part: lr.Trajectory) -> str:
    """One line of evidence that does not depend on how the curve was made."""
    if not part.problem.task.sigma_yx.any() and not any(W.any() for W in part.problem.network.weights):
        return "exact: nothing ever changes"
    found = part.certificate()
    figures = {"flow equation": found.residual, "conserved quantity": found.drift, "semigroup": found.semigroup}
    told = [f"{name} {_within(error)}" for name, error in figures.items() if error is not None and np.isfinite(error)]
    verdict = "exact to rounding" if found.exact else "integrated" if part.method == "flow" else "closed form"
    return f"{verdict}: {', '.join(told) or 'nothing to check yet'}"


def _within(error: float) -> str:
    return "exactly" if error == 0 else f"within {error:.0e}"


def _listed(values: Any, most: int = 3) -> str:
    return ", ".join(map(_number, values[:most])) + (" …" if len(values) > most else "")


def _number(value: Any) -> str:
    """Three digits, and a minus sign that is one."""
    return f"{value:.3g}".replace("-", "−")


def _short(bibtex: str) -> str:
    """'Fukumizu 1998; Braun et al. 2022'."""
    entries = re.findall(r"author\s*=\s*\{(.*?)\},\n.*?year\s*=\s*\{(\d+)\}", bibtex.replace(r"{\'e}", "é"), re.DOTALL)
    short = [(authors.split(" and ")[0].split()[-1], " and " in authors, year) for authors, year in entries]
    return "; ".join(f"{surname}{' et al.' * others} {year}" for surname, others, year in short)
