"""What `lr.predict` and `lr.fate` say of a network, as numbers that a sweep can record; none is one for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.landscape.fate import Fate
from lazyrich.landscape.regime import Regime
from lazyrich.prediction import Prediction
from lazyrich.sweeps.grid import Variable

REGIMES = ("lazy", "rich", "delayed rich")  # codes from 0; nan where it is not known


class Field(NamedTuple):
    """How it is read off an answer, how its axes are called, and what it is."""

    read: Callable[[Any], object]
    dims: tuple[str, ...]
    words: str


def _fate_of(prediction: Prediction) -> Fate:
    if prediction.fate is None:
        raise InvalidInput("the end is known where an exact solution applies, and none does for this network.")
    return prediction.fate


def _regime_of(answer: Fate | Prediction) -> Regime:
    if answer.regime is None:
        raise InvalidInput("the regime of this network is not known.")
    return answer.regime


def _code(answer: Fate | Prediction) -> float:
    name = str(_regime_of(answer).name)
    return float(REGIMES.index(name)) if name in REGIMES else np.nan


_BOTH: Mapping[str, Field] = {
    "half_times": Field(lambda one: one.half_times, ("mode",), "time at which a mode is half learned"),
    "limit": Field(lambda one: one.limit, ("mode",), "strength at which a mode ends"),
    "regime": Field(_code, (), "regime: " + ", ".join(f"{i} {name}" for i, name in enumerate(REGIMES))),
    "kernel_half_time": Field(lambda one: _regime_of(one).kernel_half_time, (), "time of half the kernel's movement"),
    "lazy_time": Field(lambda one: _regime_of(one).lazy_time, (), "time in which the first kernel learns"),
    "learned_by": Field(lambda one: _regime_of(one).learned_by, (), "time by which the loss has fallen by 99%"),
}
_END: Mapping[str, Field] = {
    "initial": Field(lambda fate: fate.initial, ("mode",), "initial strength of a mode"),
    "learned": Field(lambda fate: fate.learned, ("mode",), "whether a mode is learned"),
    "missed": Field(lambda fate: len(fate.missed), (), "modes that the global minimum has and the limit has not"),
    "loss_limit": Field(lambda fate: fate.loss_limit, (), "loss in the limit"),
    "separatrix_distance": Field(lambda fate: fate.separatrix_distance, (), "relative distance from the separatrix"),
}
_SURE: Mapping[str, Field] = {
    "exact": Field(lambda prediction: prediction.exact, (), "whether a closed form applies"),
    "error": Field(lambda prediction: prediction.error, (), "error of loss and modes, relative to the largest"),
}


def _of_fate(field: Field) -> Field:
    return field._replace(read=lambda prediction: field.read(_fate_of(prediction)))


#: Method → name → field.
FIELDS: Mapping[str, Mapping[str, Field]] = {
    "fate": {**_BOTH, **_END},
    "predict": {**_BOTH, **_SURE, **{name: _of_fate(field) for name, field in _END.items()}},
}


def field_names(method: str) -> tuple[str, ...]:
    """What a sweep by this method can record besides what it can of a trajectory."""
    return tuple(FIELDS.get(method, ()))


def read(method: str, name: str, answer: object) -> Array:
    return np.asarray(FIELDS[method][name].read(answer), float)


def variable_of(method: str, name: str, value: Array) -> Variable:
    field = FIELDS[method][name]
    return Variable(field.dims, value.shape, field.words, "1", along=False)
