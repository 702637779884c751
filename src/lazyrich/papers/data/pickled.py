"""The Python batches of CIFAR-10, which are pickles, read as data: nothing in them is imported or called.

Unpickling runs whatever a file asks for. These files are always the same: a dictionary, written by Python 2 with
protocol 2, of a matrix of bytes (10,000 × 3,072), a list of labels, a list of names and a line of text. So their
opcodes are followed here one by one (`pickletools` names them and reads their arguments), on a stack of plain values.
The few that stand for NumPy's array make a `_Matrix` instead, in the one way that these files use, and every other
opcode, name or call is refused. A file has a bounded number of opcodes, each of which makes one value at most out of
bytes that are in the file, so memory is bounded too.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from lazyrich import InvalidInput, _check
from lazyrich._typing import Array

_MOST_OPCODES = 100_000  # a batch has about 30,000: two for each name of a file, one for each label
_RECONSTRUCT, _NDARRAY, _DTYPE = "numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_PLAIN = (type(None), int, bytes)


def read_pickled(content: bytes, name: str) -> dict[bytes, Any]:
    """What a batch holds under its names: plain values, and a matrix of bytes as a NumPy array."""
    machine, end = _Machine(name), 0
    try:
        for done, (opcode, argument, position) in enumerate(pickletools.genops(content)):
            if done == _MOST_OPCODES:
                machine.refuse(f"it has more than {_MOST_OPCODES:,} opcodes")
            machine.step(opcode.name, argument)
            end = (position or 0) + 1
    except InvalidInput:
        raise
    except Exception as error:  # a value that is not on the stack, a text that is not whole, …; its words may be long
        machine.refuse(f"it is damaged ({type(error).__name__})")
    if end != len(content):
        machine.refuse(f"{len(content) - end:,} bytes follow its end")
    if len(machine.stack) != 1 or not isinstance(machine.stack[0], dict):
        machine.refuse("it holds no dictionary")
    return {key: value.array if isinstance(value, _Matrix) else value for key, value in machine.stack[0].items()}


@dataclass(frozen=True)
class _Name:
    """Something that a pickle would import."""

    text: str


class _Bytes:
    """NumPy's dtype u1."""


@dataclass
class _Matrix:
    """NumPy's array, empty until its state comes."""

    array: Array | None = None


@dataclass
class _Machine:
    """The stack, the marks on it and the memo of a pickle."""

    name: str
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def step(self, opcode: str, argument: Any) -> None:
        """Follow one opcode."""
        push, pop = self.stack.append, self.stack.pop
        match opcode:
            case "PROTO" | "STOP":
                pass
            case "MARK":
                self.marks.append(len(self.stack))
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                push(_CONSTANTS[opcode])
            case "BININT" | "BININT1" | "BININT2" | "LONG1":  # the last for sizes, where Python 2 was built for Windows
                push(argument)
            case "BINSTRING" | "SHORT_BINSTRING":
                push(argument.encode("latin-1"))  # as pickletools decodes the strings of Python 2, which are bytes
            case "EMPTY_DICT" | "EMPTY_LIST":
                push({} if opcode == "EMPTY_DICT" else [])
            case "TUPLE":
                push(tuple(self._since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                push(tuple([pop() for _ in range(int(opcode[-1]))][::-1]))
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.stack[-1]
            case "BINGET" | "LONG_BINGET":
                push(self.memo[argument])
            case "APPEND" | "APPENDS":
                items = self._since_mark() if opcode == "APPENDS" else [pop()]
                self._top(list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self._since_mark() if opcode == "SETITEMS" else [pop(), pop()][::-1]
                self._enter(self._top(dict), items)
            case "GLOBAL":
                if argument not in (_RECONSTRUCT, _NDARRAY, _DTYPE):
                    self.refuse(f"it asks for {_check.shown(argument)}")
                push(_Name(argument))
            case "REDUCE":
                arguments, called = pop(), pop()
                push(self._called(called, arguments))
            case "BUILD":
                state = pop()
                self._build(self.stack[-1], state)
            case _:
                self.refuse(f"it uses the opcode {opcode}")

    def refuse(self, why: str) -> NoReturn:
        """Say why this file cannot be read."""
        raise InvalidInput(
            f"{self.name} is no batch of CIFAR-10: {why}; it was not unpickled, and nothing in it was run."
        )

    def _since_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            self.refuse(f"it adds to something that is no {kind.__name__}")
        return self.stack[-1]

    def _enter(self, table: dict[bytes, Any], items: list[Any]) -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) is not bytes:
                self.refuse("a name in it is no text")
            table[key] = value

    def _called(self, called: Any, arguments: Any) -> _Bytes | _Matrix:
        """The two calls of these files: an empty array, and the dtype u1."""
        if called == _Name(_RECONSTRUCT) and arguments == (_Name(_NDARRAY), (0,), b"b"):
            return _Matrix()
        if called != _Name(_DTYPE) or type(arguments) is not tuple or arguments[:1] != (b"u1",):
            self.refuse("it makes something else than an array of bytes")
        return _Bytes()

    def _build(self, what: Any, state: Any) -> None:
        """Give an array its numbers. The state of a dtype of one byte says nothing new, unless it has fields."""
        if type(what) is _Bytes and type(state) is tuple and all(type(part) in _PLAIN for part in state):
            return
        if type(what) is not _Matrix or type(state) is not tuple or len(state) != 5:
            self.refuse("it sets the state of something else than an array of bytes")
        _, shape, dtype, by_columns, content = state
        sizes = type(shape) is tuple and len(shape) == 2 and all(type(n) is int and n >= 0 for n in shape)
        if not sizes or type(dtype) is not _Bytes or type(content) is not bytes or len(content) != shape[0] * shape[1]:
            self.refuse("its array is no matrix of bytes, or torn")
        what.array = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")
