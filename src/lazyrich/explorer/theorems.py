"""The theorem behind a curve, why it applies, its equation with the present values, and the evidence for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import lazyrich as lr
from lazyrich._typing import Array, Float
from lazyrich.facts import Condition

_METHOD_OF_DEPTH = {1: "shallow", 2: "riccati"}  # deeper ones: deep_modes


class _Theorem(NamedTuple):
    title: str
    statement: str
    citation: str


_THEOREMS = {
    "riccati": _Theorem(
        "Two balanced layers in closed form (Braun et al. 2022)",
        "The weights of both layers, as Q = [W₁ᵀ; W₂], obey a matrix Riccati equation, whose solution QQᵀ(t) is known "
        "for every time, size, rank and scale. It holds the network's function and both representations.",
        "Fukumizu 1998; Braun et al. 2022; Dominé et al. 2025",
    ),
    "family": _Theorem(
        "Two layers off balance by two numbers, in closed form",
        "Where W₂ᵀW₂ − W₁W₁ᵀ has two eigenvalues, the network's function is that of a balanced network with |λ| = 2κ, "
        "its partner, and the layers' Gram matrices are the partner's, shifted by a constant.",
        "following Tu et al. 2024; Dominé et al. 2025",
    ),
    "modes": _Theorem(
        "Two layers, every mode alone (Saxe et al. 2014)",
        "An initialisation that shares the task's singular vectors keeps them. Each mode then follows an equation of "
        "its own, whatever the others do.",
        "Saxe et al. 2014; Dominé et al. 2025",
    ),
    "deep_modes": _Theorem(
        "Many layers, every mode alone (Saxe et al. 2014)",
        "Layers that hand the task's singular vectors on keep doing so, and each mode follows an equation of its own: "
        "equal layers with a longer plateau and a sharper rise than two. The time to reach a strength is one integral.",
        "Saxe et al. 2014",
    ),
    "shallow": _Theorem(
        "One layer: linear regression (Saxe et al. 2019)",
        "The flow is linear: what is left to learn fades exponentially, in each direction of the inputs at the rate "
        "of their variance there.",
        "Saxe et al. 2019",
    ),
}
_INTEGRATED = _Theorem(
    "Gradient flow, integrated",
    "No closed form is known for this problem. The differential equation is integrated step by step, to about nine "
    "digits; what the flow conserves is the check.",
    "",
)
_SMALLEST = {
    "flow": "",
    "gram": " Of wide layers it is enough to follow QQᵀ, which knows nothing of the hidden basis.",
    "function_space": " Balanced layers are followed by their function alone: Ȧ = √(AAᵀ + κ²)E + E√(AᵀA + κ²).",
}  # by method: which equation is integrated


def theorem(parts: Sequence[lr.Trajectory], letter: str) -> dict[str, str]:
    """Behind the first of these curves, and the methods of the others where they differ."""
    part, facts = parts[0], parts[0].problem.facts
    title, statement, citation = _THEOREMS.get(part.method, _INTEGRATED)
    statement += _SMALLEST.get(part.method, "")
    if part.method == "riccati" and facts.sizes[1] == 1:
        statement += " With one hidden unit it is the single neuron of Kunin et al. 2024, whose δ is λ."
    others = [f"task {k}: {other.method}" for k, other in enumerate(parts, start=1) if other.method != part.method]
    return {
        "name": part.method,
        "title": title,
        "statement": statement,
        "why": _why(part.method, facts, letter) + (f" By others, {', '.join(others)}." if others else ""),
        "citation": citation,
        "anchor": f"#{part.method if part.method in _THEOREMS else 'flow'}",
    }


def _why(method: str, facts: lr.Facts, letter: str) -> str:
    """The conditions, with the numbers by which they hold."""
    balanced = f"the layers are balanced, {letter} = {_listed(facts.lam)} ({_within(facts.balance_error)})"
    shared = f"initialisation and inputs share the task's modes ({_within(facts.alignment_error)})"
    white = f"the inputs are white, Σxx = {three_digits(facts.input_scale)}·I ({_within(facts.whitening_error)})"
    match method:
        case "riccati":
            return f"There are two linear layers; {white}; {balanced}."
        case "family":
            own, delta = facts.family
            two = "W₂ᵀW₂ − W₁W₁ᵀ has two eigenvalues, κ − δ/2 and −κ − δ/2, "
            two += f"κ = {three_digits(own)}, δ = {three_digits(delta)}"
            return f"There are two linear layers; {white}; {two} ({_within(facts.family_error)})."
        case "modes":
            return f"There are two linear layers; {shared}."
        case "deep_modes":
            return f"There are {facts.depth} linear layers; {shared}, in every layer."
        case "shallow":
            return "There is one linear layer, and that is all it needs."
    return f"Integrated, for {why_none(facts)}."


def why_none(facts: lr.Facts) -> str:
    """What the method for this number of layers needs, and how far the problem is from it."""
    refusals = facts.methods[_METHOD_OF_DEPTH.get(facts.depth, "deep_modes")]
    needs = ", and ".join(_need(refusal, facts) for refusal in refusals)
    return f"the closed form needs {needs}" if needs else "no closed form is known"


def _need(refusal: lr.Refusal, facts: lr.Facts) -> str:
    off = f"{refusal.measured:.2g}"
    match refusal.condition:
        case Condition.WHITE:
            return f"white inputs, from which Σxx is off by {off}"
        case Condition.BALANCED if facts.weight_decay and facts.balanced:
            return f"λ = 0 where weights decay, and λ is off by {off}"
        case Condition.BALANCED:
            return f"layers with W2ᵀW2 − W1W1ᵀ = λI, from which these are off by {off} of their size"
        case Condition.ALIGNED:
            return f"an initialisation that shares the task's modes, and here they are coupled by {off}"
        case Condition.DECAY if facts.depth == 2:
            return f"equal layer rates where weights decay, and they are {_listed(facts.rates)}"
        case Condition.DECAY:
            return f"training without weight decay, and γ is {off}"
    return f"a {refusal.condition.value}"


def refused(facts: lr.Facts) -> list[dict[str, str]]:
    """The exact methods that do not apply; those for another number of layers come last."""
    refused = [(name, refusals) for name, refusals in facts.methods.items() if refusals]
    refused.sort(key=lambda entry: entry[1][0].condition is Condition.DEPTH)
    return [{"name": name, "reason": ", and ".join(map(str, refusals))} for name, refusals in refused]


def equation(part: lr.Trajectory, targets: Float[Array, " m"], ends: Float[Array, " m"], letter: str) -> list[str]:
    """What is solved, and the numbers that stand in it now; for layer rates, in the units that take them up.

    `targets` are the strengths that modes have when all is learned, `ends` those that they will have.
    """
    problem, facts, unit = part.problem, part.problem.facts, part.problem.canonical
    gain = unit.gain if part.method in ("riccati", "family", "modes", "deep_modes") else 1.0
    gamma, rates = facts.weight_decay, any(rate != 1 for rate in facts.rates)
    targets = gain * targets
    first = gain * float(np.abs(lr.observables.mode_strengths(part)[0]).max())
    s, start = f"s = {_listed(targets)}", f"|a₀| ≤ {three_digits(first)}"
    lam, c = f"{letter} = {_listed(facts.lam)}", f"c = {_listed(_variances(problem))}"
    decay = f", γ = {three_digits(gamma * facts.rates[0])}" if gamma else ""
    match part.method:
        case "riccati":
            growth = np.hypot(targets, facts.lam[0] / 2) - unit.decay
            less = " − γ/c" if gamma else ""
            lines = [
                "QQᵀ(t) = e^{Fτ} Q₀ [I + Q₀ᵀGQ₀]⁻¹ Q₀ᵀ e^{Fτ},  Q = [W₁ᵀ; W₂],  G = ∫₀^τ e^{2Fx} dx,  τ = ct",
                f"F = [[−{letter}/2·I, Tᵀ], [T, {letter}/2·I]]{less}{'·I' * bool(gamma)},  T has the singular values s",
                f"{lam}, {s}, {c}, {start}{decay}",
                f"eigenvalues of F for the modes: w = √(s² + {letter}²/4){less} = {_listed(growth)}",
            ]
        case "family":
            own, delta = facts.family
            lines = [
                "Ȧ = c·[√(AAᵀ + κ²)·(T − A) + (T − A)·√(AᵀA + κ²)],  A = W₂W₁,  T has the singular values s",
                "W₁ᵀW₁ = √(AᵀA + κ²) + δ/2,  W₂W₂ᵀ = √(AAᵀ + κ²) − δ/2",
                f"κ = {three_digits(own)}, δ = {three_digits(delta)}, {s}, {c}, {start}",
            ]
        case "modes":
            law = "2a·(c(s − a) − γ)" if gamma else f"c·√({letter}² + 4a²)·(s − a)"
            lines = [f"ȧ = {law}  for each mode", f"{lam}, {s}, {c}, {start}{decay}"]
        case "deep_modes":
            equal = facts.zero_balanced and facts.mode_imbalance <= facts.tolerance
            law = (
                "ȧ = c·L·a^{2−2/L}·(s − a)"
                if equal
                else "ḃ_ℓ = c·(s − a)·Π_{j≠ℓ} b_j,  a = Πb,  b_ℓ its size in layer ℓ,"
            )
            lines = [f"{law}  for each mode", f"L = {facts.depth}, {s}, {c}, {start}"]
        case "shallow":
            speeds = facts.rates[0] * (np.linalg.eigvalsh(problem.task.sigma_xx)[::-1] + gamma)
            xx = "(Σxx + γI)" if gamma else "Σxx"
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
    if rates and facts.depth > 1 and part.solution is not None:
        units = f"k_ℓW_ℓ, k = {_listed(unit.k, most=5)}"
        lines.append(f"in units that take up the layer rates {_listed(facts.rates, most=5)}: {units} for W_ℓ")
    return lines


def _variances(problem: lr.Problem) -> Array:
    """Of the inputs, along each mode; once where they are white."""
    task = problem.task
    along = np.sum(task.modes.V * (task.sigma_xx @ task.modes.V), axis=0)
    return along[:1] if problem.facts.whitened else along


def certificate(part: lr.Trajectory) -> str:
    """One line of evidence that does not depend on how the curve was made."""
    found = part.certificate()
    figures = {"flow equation": found.residual, "conserved quantity": found.drift, "semigroup": found.semigroup}
    told = [f"{name} {_within(error)}" for name, error in figures.items() if error is not None and np.isfinite(error)]
    verdict = "exact to rounding" if found.exact else "integrated" if part.solution is None else "closed form"
    return f"{verdict}: {', '.join(told) or 'nothing to check yet'}"


def _within(error: float) -> str:
    return "exactly" if error == 0 else f"within {error:.0e}"


def _listed(values: Array | Sequence[float], most: int = 3) -> str:
    return ", ".join(map(three_digits, values[:most])) + (" …" if len(values) > most else "")


def three_digits(value: float) -> str:
    """Three digits, and a minus sign that is one."""
    return f"{value:.3g}".replace("-", "−")
