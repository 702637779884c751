"""A sweep: axes, a problem factory by name, a method, what to record, and when. A small file says it all.

    name = "my-sweep"
    problem = "teacher_student"                 # a factory of `sweeps/problems.py`
    method = "descend"                          # or "flow", "predict"; "solve", "fate" where an exact solution exists
    rate = 0.005                                # times are rate × step (× the cell's own clock)
    at = [0, 100, 1000]                         # steps to record; the initialisation always is
    observables = ["loss", "kernel_distance"]

    [axes]                                      # one cell per combination; the last axis varies fastest
    seed = { range = 4 }
    tau = { logspace = [-1, 0.3, 5] }
    delta = [-1.0, 0.0, 1.0]

    [settings]                                  # the other arguments of the factory
    d = 20
    batch = 50                                  # and noise (lr.Noise), which may be axes too: batch, replacement,
    label_noise = 0.1                           # label_noise, weight_noise, noise_seed

Nothing in the file is executed; `grid` says what blocks are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.batch.api import PRECISIONS, as_rtol
from lazyrich.noise import Noise, as_seed
from lazyrich.problem import Problem
from lazyrich.sweeps.axes import refuse_flags
from lazyrich.sweeps.grid import Block, Grid, Json, Place, Result, Settings, Tick, Variable
from lazyrich.sweeps.problems import PROBLEMS, Cell, Factory, as_factory, unwrapped

METHODS = ("descend", "flow", "solve", "predict", "fate")
_TRAINED = ("descend", "flow")

#: Axis or setting of any sweep by descent → the part of `lr.Noise` that it is; the seed is none.
_NOISE = {
    "batch": "batch",
    "replacement": "replacement",
    "label_noise": "labels",
    "weight_noise": "weights",
    "noise_seed": "",
}


@dataclass(frozen=True)
class Sweep(Grid):
    """What to compute. Build one here, or read it with `Sweep.from_toml(path)`.

    Parameters
    ----------
    name, about : words for people
    problem : a factory by name, or a function of the axes and settings that returns a `Cell` or a `Problem`
    axes : {name: values}; one cell per combination, the last axis varies fastest; a table may stand for them
    at : steps to record
    settings : the other arguments of the factory. Of descent, axes or settings are besides what `lr.Noise` takes
        (batch, replacement, label_noise and weight_noise, unless the factory has an argument of that name) and
        noise_seed, from which it is drawn. Without it each cell has noise of its own, whose seed comes from the
        values of its axes
    method : "descend", "flow", "solve", "predict" or "fate"; the fields of the last two are observables too, such as
        "half_times" and "regime"
    rate : learning rate; times are rate × step × the cell's clock
    rtol : of the flow
    observables : names of what is recorded, and functions of your own: f(traj) gives a number, or an array, for each
        time
    precision : "float64", "float32", or "tf32", which is float32 whose products a GPU shortens
    block : cells of a block along axes; {} leaves it to the size of the problem
    table : columns by name, or a data frame, for designs that are no grid: its rows are one more axis, `row`; see
        `lr.sweeps.sobol` and `lr.sweeps.uniform`

    >>> sweep = Sweep("mine", "teacher_student", axes={"seed": [0, 1], "tau": [0.1, 1.0, 2.0]}, at=[0, 100])
    >>> sweep.shape, sweep.cells, sweep.arguments((1, 2))["tau"]
    ((2, 3), 6, 2.0)
    """

    WHAT = "sweep"
    NEEDED = ("name", "problem", "at")
    unit = "step"

    name: str
    problem: str | Factory
    axes: Settings = field(default_factory=dict)
    at: Sequence[int] = ()
    settings: Settings = field(default_factory=dict)
    method: str = "descend"
    rate: float = 0.01
    rtol: float = 1e-3  # of the flow
    observables: Sequence[str | Callable[..., object]] = ("loss",)
    precision: str = "float64"
    block: Mapping[str, int] = field(default_factory=dict)
    about: str = ""
    table: Any = field(default_factory=dict)  # columns by name, or what a package of data frames makes of them

    def __post_init__(self) -> None:
        from lazyrich.sweeps.measure import as_observables

        problem, known = unwrapped(self.problem)
        self._put("problem", problem)
        self._put(
            "settings", {**known, **self.settings} if known and isinstance(self.settings, Mapping) else self.settings
        )
        factory = as_factory(problem)
        self._settle()
        _check.choice("method", self.method, METHODS)
        _check.choice("precision", self.precision, tuple(PRECISIONS))
        if not self.trains and self.precision != "float64":
            message = f"precision must be 'float64' where method is {self.method!r}, and it is {self.precision!r}."
            raise InvalidInput(message)
        for name in ("rate", "rtol"):
            refuse_flags(name, "a number", getattr(self, name))
        self._put("rate", _check.positive("rate", self.rate))
        self._put("rtol", as_rtol(self.rtol))
        self._put("observables", as_observables(self.observables, self.method))
        self._check_arguments(factory)

    def _check_arguments(self, factory: Factory) -> None:
        """Every axis and setting must be an argument of the factory, and those it cannot do without must be there."""
        import inspect

        try:
            parameters = inspect.signature(factory).parameters
            _ = factory.__module__, factory.__qualname__
        except (ValueError, AttributeError):
            came = _check.shown(factory)
            raise InvalidInput(f"problem must be a named function with named arguments, and it is {came}.") from None
        label = next(
            (name for name, made in PROBLEMS.items() if made is factory), getattr(factory, "__name__", "problem")
        )
        named = [p for p in parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        needed = [p.name for p in named if p.default is p.empty]
        others = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._check_names(label, [*parameters, *self._noise], needed, others=others)
        if self._noise and self.method != "descend":
            raise InvalidInput(f"{self._noise[0]} needs method = 'descend', and it is {self.method!r}.")
        for name in self._noise:
            for value in self.axes.get(name, (self.settings.get(name),)):
                _with(Noise(), None, {name: value})

    def as_dict(self) -> Json:
        content = super().as_dict()
        if callable(self.problem):
            content["problem"] = import_path(self.problem)
        content["observables"] = [import_path(one) if callable(one) else one for one in self.observables]
        return content

    @cached_property
    def _noise(self) -> tuple[str, ...]:
        """Axes and settings that are noise, and not arguments of the factory."""
        import inspect

        parameters = inspect.signature(as_factory(self.problem)).parameters
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return ()
        return tuple(name for name in (*self.axes, *self.settings) if name in _NOISE and name not in parameters)

    def functions(self) -> tuple[Callable[..., object], ...]:
        return tuple(one for one in (self.problem, *self.observables) if callable(one))

    @property
    def uses_jax(self) -> bool:
        return self.method not in ("solve", "fate")

    @property
    def trains(self) -> bool:
        """Whether networks are trained, many at once; else each cell is answered in closed form or by `lr.predict`."""
        return self.method in _TRAINED

    def variables(self) -> dict[str, Variable]:
        return self._variables

    @cached_property
    def _variables(self) -> dict[str, Variable]:
        from lazyrich.sweeps.compute import template  # here and below: what computes sweeps reads them

        return template(self)

    def compute(self, block: Block, tick: Tick = lambda cells: None) -> Result:
        from lazyrich.sweeps.compute import compute

        return compute(self, block, tick)

    def with_blocks(self, hands: int = 1) -> Sweep:
        from lazyrich.sweeps.estimate import with_blocks

        return with_blocks(self, hands)

    def cell(self, place: Place) -> Cell:
        """The problem of one cell."""
        arguments = self.arguments(place)
        noise = {name: arguments.pop(name) for name in self._noise}
        made = as_factory(self.problem)(**arguments)
        cell = made if isinstance(made, Cell) else Cell(made)
        if not isinstance(cell.problem, Problem):
            raise InvalidInput(f"problem must make a Problem or a Cell, and it makes a {type(cell.problem).__name__}.")
        _check.positive("clock", cell.clock)
        drawn, seed = _with(cell.noise, cell.noise_seed, noise)
        return cell._replace(noise=drawn, noise_seed=self._seed_of(place) if seed is None else seed)

    def _seed_of(self, place: Place) -> int:
        """From where the cell is on its axes, by their values: a grid that has grown keeps the noise of its cells."""
        where = {name: value for name, value in self.arguments(place).items() if name not in self.settings}
        text = json.dumps(where, sort_keys=True, default=str)
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


def _with(noise: Noise, seed: int | None, given: Json) -> tuple[Noise, int | None]:
    """The same with what is given, by its names in sweeps."""
    for name, value in given.items():
        if not _NOISE[name]:
            seed = as_seed(value, name)
            continue
        try:
            noise = replace(noise, **{_NOISE[name]: value})
        except InvalidInput as error:  # it knows its parts by names of its own
            raise InvalidInput(f"{name}: {error}" if name != _NOISE[name] else str(error)) from None
    return noise, seed


def import_path(function: Callable[..., object]) -> str:
    """Where other processes find it."""
    return f"{function.__module__}:{function.__qualname__}"
