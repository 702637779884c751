"""The picture over scale and λ: lazy, rich or delayed rich, and how far the tangent kernel moves, for one task.

Each point is `lr.fate`: the regime that the page's sentence tells there, so nothing is simulated. The picture is that
of a family of initialisations, the one of the state where that has a scale and a balance, and the λ-balanced one
elsewhere, with the networks that the state would have there; the seed is the same at every point.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import lazyrich as lr
from lazyrich._typing import Array
from lazyrich.explorer.script import prepared
from lazyrich.explorer.state import State
from lazyrich.explorer.wire import Header

SCALES = np.geomspace(1e-4, 3.0, 21)
_POSITIVE = np.geomspace(0.1, 20.0, 7)
LAMS = np.concatenate([-_POSITIVE[::-1], [0.0], _POSITIVE])
VERDICTS = tuple(str(name) for name in lr.laziness.RegimeName)

_FAMILY = {"aligned": "aligned", "single_neuron": "single_neuron"}  # all others: lambda_balanced
_OWN = ("zero_balanced", "lambda_balanced", *_FAMILY)  # those that have a place in their picture
_NOT_IN_PICTURE = ("then", "scale", "lam", "prior", "weight_decay", "horizon", "descent", "rate", "nudge")


def phase(state: State, stale: Callable[[], bool]) -> tuple[Header, dict[str, Array]] | None:
    """Header and arrays: scales (A,), lams (B,), movement (B, A) of the kernel and verdict (B, A), a place in VERDICTS;
    none where there is no picture.

    `stale` is asked between two rows: a picture that nobody waits for any more is given up, and None comes back. The
    arrays depend on `phase_key(state)` alone, the header on all of the state.
    """
    refusal = _refusal(state)
    if refusal is not None:
        return _header(state, refusal), {}
    movement, verdict = np.empty((2, len(LAMS), len(SCALES)))
    for row, lam in enumerate(LAMS):
        if stale():
            return None
        regimes = [found.regime for found in lr.batch.fate([_at(state, float(scale), float(lam)) for scale in SCALES])]
        movement[row] = [regime.kernel_movement for regime in regimes]
        verdict[row] = [VERDICTS.index(regime.name) for regime in regimes]
    return _header(state, None), {"scales": SCALES, "lams": LAMS, "movement": movement, "verdict": verdict}


def phase_header(state: State) -> Header:
    """What goes with a picture that is there already: its caption, its axes, and the place of the present one."""
    return _header(state, _refusal(state))


def phase_key(state: State) -> str:
    """A short text that is the same for all states with the same picture."""
    chosen = {name: value for name, value in state.to_dict().items() if name not in _NOT_IN_PICTURE}
    chosen["start"] = _family(state)
    return hashlib.sha256(json.dumps(chosen).encode()).hexdigest()[:16]


def _header(state: State, refusal: str | None) -> Header:
    return {
        "kind": "phase",
        "key": phase_key(state),
        "caption": refusal or _caption(state),
        "point": [state.scale, _lam(state)] if refusal is None and state.start in _OWN else None,
        "axes": ["‖β₀‖", "δ"] if state.start == "single_neuron" else ["scale", "λ"],
        "verdicts": VERDICTS,
        "lazy_below": lr.laziness.USUAL.lazy,
    }


def _family(state: State) -> str:
    return _FAMILY.get(state.start, "lambda_balanced")


def _lam(state: State) -> float:
    return 0.0 if state.start == "zero_balanced" else state.lam


def _at(state: State, scale: float, lam: float) -> lr.Problem:
    """The problem at one point; a horizon is given, so that none is looked for, and weight decay is left out."""
    there = replace(state, start=_family(state), scale=scale, lam=lam, then=(), horizon=1.0, weight_decay=0.0)
    return prepared(there).problem


def _refusal(state: State) -> str | None:
    """Why there is no picture, in one sentence."""
    if state.depth != 2 and state.start != "single_neuron":
        layers = "one layer" if state.depth == 1 else f"{state.depth} layers"
        return f"No picture: two layers have a balance λ to choose, and this network has {layers}."
    for lam in (-1.0, 0.0, 1.0):  # the width that λ allows, and so what is balanced, hangs on its sign
        facts = _at(state, 1.0, lam).facts
        if facts.method is None:
            why = ", and ".join(map(str, facts.methods["riccati"]))
            return f"No picture, for these initialisations have no closed form: {why}."
    return None


def _caption(state: State) -> str:
    starts = {"aligned": "aligned weights", "single_neuron": "one neuron"}.get(state.start, "λ-balanced weights")
    words = f"How far the kernel moves until the loss has fallen, for {starts} on this task"
    if state.weight_decay:
        words += "; drawn without weight decay, with which only λ = 0 has a closed form"
    if state.start in _OWN:
        inside = SCALES[0] <= state.scale <= SCALES[-1] and LAMS[0] <= _lam(state) <= LAMS[-1]
        return words + ("." if inside else "; the present one lies outside.")
    if state.start == "prior":
        return words + "; an initialisation that knows another task has no place in it."
    W1, W2 = prepared(replace(state, then=(), horizon=1.0))["network"].weights
    mean = (np.sum(W2**2) - np.sum(W1**2)) / len(W1)
    return words + f"; the present one is not of this kind, and has the mean balance λ = {mean:.2g}."
