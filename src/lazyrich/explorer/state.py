"""The state of a view: everything that a user can choose, with its bounds. All else follows from it.

One list, `CONTROLS`, declares every choice once: the page makes its controls from it, the server checks what comes
against it, and the address of a view (the permalink) holds what differs from its defaults.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float

MOST_UNITS = 32  # inputs and outputs
_LARGEST = 1e6  # entry of a matrix
_CHARACTERS = 64 * 1024  # of a text; packed correlations of 32 inputs and outputs take half of it

_HIERARCHIES = ("semantic_hierarchy", "revised_kingdom", "colour_hierarchy")
_RANDOM = ("random_regression", "piecewise_teacher")
_TASKS = (*_HIERARCHIES, "binary_tree", "random_regression", "linear_teacher", "piecewise_teacher", "own", "uploaded")
_OTHERS = ("reversal", "another", *_HIERARCHIES)
_WITH_SCALE = ("zero_balanced", "lambda_balanced", "gaussian", "orthogonal", "aligned", "single_neuron")
_WITH_BALANCE = ("zero_balanced", "lambda_balanced", "aligned", "single_neuron")  # a page leaves the first with λ = 0
_BALANCED = ("zero_balanced", "lambda_balanced")
_LAYERED = ("zero_balanced", "lambda_balanced", "gaussian", "orthogonal", "aligned", "prior")  # of any width


@dataclass(frozen=True)
class Control:
    """One choice. `kind` says which values it takes and how a page shows it; `when`, for which others it matters."""

    name: str
    label: str
    kind: str  # "choice", "several" (choices), "whole", "log", "signed", "number", "rates", "text", "flag", or for what
    # has no field of its own: "hidden", "toggle"
    group: str
    help: str
    least: float = 0.0
    most: float = 0.0
    options: tuple[str, ...] = ()
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def check(self, value: object) -> object:
        """The value as a state holds it, or one sentence."""
        match self.kind:
            case "choice":
                return _check.choice(self.name, value, self.options)
            case "flag" | "toggle":
                return _check.flag(self.name, value)
            case "whole":
                self._one_number(value)
                return _check.count(self.name, value, least=int(self.least), most=int(self.most))
            case "text" | "hidden":
                if not isinstance(value, str) or len(value) > _CHARACTERS:
                    wanted = f"a text of at most {_CHARACTERS:,} characters"
                    raise InvalidInput(f"{self.name} must be {wanted}, and it is {_check.shown(value)}.")
                return value
            case "several" | "rates":
                if not isinstance(value, list | tuple) or len(value) > self.most_entries:
                    raise InvalidInput(
                        f"{self.name} must be a list of at most {self.most_entries} entries, "
                        f"and it is {_check.shown(value)}."
                    )
                if self.kind == "several":
                    return tuple(_check.choice(self.name, entry, self.options) for entry in value)
                return tuple(self._between(entry) for entry in value)
        return self._between(value)

    @property
    def most_entries(self) -> int:
        """Of a list."""
        return 3 if self.kind == "several" else 5

    def _between(self, value: object) -> float:
        self._one_number(value)
        number = _check.number(self.name, value)
        if not self.least <= number <= self.most:
            raise InvalidInput(f"{self.name} must lie between {self.least:g} and {self.most:g}, and it is {number:g}.")
        return number

    def _one_number(self, value: object) -> None:
        if isinstance(value, bool | list | dict):
            raise InvalidInput(f"{self.name} must be a number, and it is {_check.shown(value)}.")
        if isinstance(value, int) and abs(value) > 2**53:  # beyond, NumPy has no number, and the sentence no end
            raise InvalidInput(
                f"{self.name} must lie between {self.least:g} and {self.most:g}, and it is {_check.shown(value)}."
            )


CONTROLS = (
    Control("task", "Task", "choice", "Task", "What is to be learned.", options=_TASKS),
    Control("d_in", "Inputs", "whole", "Task", "Inputs of a random task.", 1, MOST_UNITS, when={"task": _RANDOM}),
    Control(
        "d_out",
        "Outputs",
        "whole",
        "Task",
        "Outputs of a random task, features of a tree.",
        1,
        MOST_UNITS,
        when={"task": ("random_regression", "binary_tree"), "start": _LAYERED},
    ),
    Control("levels", "Levels", "whole", "Task", "A tree has 2^levels items.", 1, 5, when={"task": ("binary_tree",)}),
    Control(
        "matrix",
        "Matrix",
        "text",
        "Task",
        "Outputs × inputs: numbers with spaces, rows ended by a semicolon.",
        when={"task": ("linear_teacher", "own")},
    ),
    Control("data", "Uploaded", "hidden", "Task", "Correlations of uploaded data.", when={"task": ("uploaded",)}),
    Control(
        "centre", "Centre", "toggle", "Task", "Take the means off inputs and targets.", when={"task": ("uploaded",)}
    ),
    Control(
        "whiten",
        "Whiten",
        "toggle",
        "Task",
        "Turn and scale the inputs until Σxx = I: then a theorem applies.",
        when={"task": ("uploaded",)},
    ),
    Control(
        "then",
        "Then learn",
        "several",
        "Task",
        "Tasks that follow, each for as long as the first: continual and reversal learning.",
        options=_OTHERS,
    ),
    Control("depth", "Layers", "whole", "Network", "Weight matrices.", 1, 5, when={"start": _LAYERED}),
    Control("width", "Hidden units", "whole", "Network", "In each hidden layer.", 1, 64, when={"start": _LAYERED}),
    Control(
        "start", "Initialisation", "choice", "Initialisation", "Where learning starts.", options=(*_WITH_SCALE, "prior")
    ),
    Control(
        "scale",
        "Scale",
        "log",
        "Initialisation",
        "Size of the first weights; of ‖β‖ for the single neuron.",
        1e-6,
        10.0,
        when={"start": _WITH_SCALE},
    ),
    Control(
        "lam",
        "λ (δ of one neuron)",
        "signed",
        "Initialisation",
        "Balance W2ᵀW2 − W1W1ᵀ = λI; δ of the single neuron.",
        -40.0,
        40.0,
        when={"start": _WITH_BALANCE},
    ),
    Control(
        "angle",
        "Angle to target",
        "number",
        "Initialisation",
        "Degrees between β at initialisation and its target.",
        0.0,
        180.0,
        when={"start": ("single_neuron",)},
    ),
    Control(
        "prior",
        "Learned before",
        "choice",
        "Initialisation",
        "The task that the network knows already.",
        options=_OTHERS,
        when={"start": ("prior",)},
    ),
    Control(
        "nudge",
        "Nudge",
        "number",
        "Initialisation",
        "A push of the first weights, in parts of their size: it frees balanced layers from a saddle.",
        0.0,
        0.1,
        when={"start": _BALANCED},
    ),
    Control("seed", "Seed", "whole", "Initialisation", "Of the random initialisation and of random tasks.", 0, 9999),
    Control("rates", "Layer rates", "rates", "Training", "Learning rate of each layer, first one first.", 0.01, 100.0),
    Control("weight_decay", "Weight decay", "number", "Training", "γ of loss + ½γ Σ‖W‖².", 0.0, 1.0),
    Control("horizon", "Until", "number", "Training", "Last time shown; 0: until the loss has fallen.", 0.0, 1e6),
    Control("descent", "Gradient descent", "flag", "Training", "Gradient descent, step by step, over the theory."),
    Control("rate", "Learning rate", "log", "Training", "Of gradient descent.", 1e-4, 1.0, when={"descent": ("true",)}),
)
_BY_NAME = {control.name: control for control in CONTROLS}


@dataclass(frozen=True)
class State:
    """What a user has chosen; the defaults are the staircase of the semantic hierarchy."""

    task: str = "semantic_hierarchy"
    d_in: int = 4
    d_out: int = 4
    levels: int = 3
    matrix: str = "3 0; 0 1"
    data: str = ""
    centre: bool = False
    whiten: bool = False
    then: tuple[str, ...] = ()
    depth: int = 2
    width: int = 14
    start: str = "zero_balanced"
    scale: float = 1e-4
    lam: float = 0.0
    angle: float = 90.0
    prior: str = "colour_hierarchy"
    nudge: float = 0.0
    seed: int = 32
    rates: tuple[float, ...] = ()
    weight_decay: float = 0.0
    horizon: float = 0.0
    descent: bool = False
    rate: float = 0.05

    @classmethod
    def from_dict(cls, values: object) -> State:
        """From what a page sends; what is missing keeps its default."""
        if not isinstance(values, Mapping):
            raise InvalidInput(f"state must be an object with one entry per choice, and it is {_check.shown(values)}.")
        for name in values:
            _check.choice("each name in state", name, tuple(_BY_NAME))
        return cls(**{name: _BY_NAME[name].check(value) for name, value in values.items()})  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


assert [control.name for control in CONTROLS] == [f.name for f in fields(State)]


# matrices in a state ----------------------------------------------------------------------------------------


def parsed_matrix(text: str) -> Float[Array, "out in"]:
    """Rows ended by semicolons or line ends, numbers apart by spaces or commas.

    >>> parsed_matrix("3 0; 0, 1.5")
    array([[3. , 0. ],
           [0. , 1.5]])
    """
    rows = [row.split() for row in text.replace(",", " ").replace("\n", ";").split(";") if row.strip()]
    widths = {len(row) for row in rows}
    if len(rows) == 0 or len(rows) > MOST_UNITS or max(widths) > MOST_UNITS:
        came = f"{len(rows)} rows of up to {max(widths, default=0)}"
        raise InvalidInput(f"matrix must have 1 to {MOST_UNITS} rows of 1 to {MOST_UNITS} numbers, and it has {came}.")
    if len(widths) > 1:
        raise InvalidInput(f"matrix must have rows of equal length, and they have {sorted(widths)} numbers.")
    try:
        matrix = np.array([[float(number) for number in row] for row in rows])
    except ValueError:
        raise InvalidInput(f"matrix must hold numbers, such as '3 0; 0 1', and it is {_check.shown(text)}.") from None
    return _bounded("matrix", matrix)


class Correlations(NamedTuple):
    """What a task is made of, and the means of its samples where there were any."""

    yx: Float[Array, "out in"]
    xx: Float[Array, "in in"]
    yy: Float[Array, "out out"]
    mean_x: Float[Array, " in"] | None = None
    mean_y: Float[Array, " out"] | None = None

    def centred(self) -> Correlations:
        """Those of the samples without their means."""
        if self.mean_x is None or self.mean_y is None:
            came = "data holds correlations alone: upload samples"
            raise InvalidInput(f"centre needs samples, whose means are known, and {came}.")
        x, y = self.mean_x, self.mean_y
        return Correlations(self.yx - np.outer(y, x), self.xx - np.outer(x, x), self.yy - np.outer(y, y))


def packed(yx: Float[Array, "out in"], *others: Array) -> str:
    """`Correlations`, or the first three of them, as a text that an address can hold, to the last bit."""
    values = np.concatenate([part.ravel() for part in (yx, *others)]).astype("<f8")
    return f"{len(yx)}x{yx.shape[1]}:{base64.urlsafe_b64encode(values.tobytes()).decode()}"


def unpacked(data: str) -> Correlations:
    """The correlations of `packed`."""
    try:
        sizes, _, text = data.partition(":")
        d_out, d_in = (int(size) for size in sizes.split("x"))
        if not (1 <= d_in <= MOST_UNITS and 1 <= d_out <= MOST_UNITS):
            raise ValueError
        values = np.frombuffer(base64.b64decode(text, altchars=b"-_", validate=True), dtype="<f8").astype(float)
        shapes = [(d_out, d_in), (d_in, d_in), (d_out, d_out), (d_in,), (d_out,)]
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        if len(values) not in (ends[2], ends[4]):
            raise ValueError
    except (ValueError, binascii.Error):
        raise InvalidInput(
            f"data must be what an upload gave (at most {MOST_UNITS} inputs and outputs), and it is "
            f"{_check.shown(data)}: upload a file first, or choose another task."
        ) from None
    parts = np.split(_bounded("data", values), ends[ends < len(values)])
    return Correlations(*(part.reshape(shape) for part, shape in zip(parts, shapes, strict=False)))


def _bounded(name: str, values: Array) -> Array:
    largest = float(np.abs(values).max())
    if not largest <= _LARGEST:
        raise InvalidInput(f"{name} must have entries of at most {_LARGEST:g}, and the largest is {largest:g}.")
    return values
