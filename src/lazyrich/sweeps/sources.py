"""What a function of the user's is made of: its source and that of all it uses, and the values that these read.

Functions, classes and modules are followed by the names that a function looks up: through what it closes over, what
it imports, decorators, base classes, tables of functions and `functools.partial`. Numbers, words, arrays and
containers of them count by their values. What a function itself changes, such as a cache, is state: its value is left
out. What is installed goes by the versions of packages alone, and of files that a function reads nothing is known.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import inspect
import sysconfig
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import cached_property, partial
from importlib.util import find_spec, resolve_name
from pathlib import Path, PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from lazyrich._typing import Array

_INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_OURS = Path(__file__).parents[1]
_PLAIN = (bool, int, float, complex, str, bytes, range, slice, np.generic, PurePath, Enum, type(None))
_CHANGING = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove"),
    *("setdefault", "sort", "update"),
}
_MAKING = ("__new__", "__init__", "__post_init__", "__setstate__")  # what sets an attribute there does not change it


def sources(functions: Iterable[Callable[..., object]]) -> dict[str, str]:
    """Name → source or value."""
    walk = _Walk()
    for function in functions:
        walk.follow(function)
    return walk.result()


class _Value(NamedTuple):
    """Something that is read: who reads it, where it stands, and what it is."""

    label: str
    owner: tuple[int, str]  # the namespace and the name in it
    value: Any


class _Walk:
    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._values: list[_Value] = []
        self._changed: set[int] = set()  # objects that a function changes
        self._rebound: set[tuple[int, str]] = set()  # names that one binds anew
        self._seen: dict[int, Any] = {}  # kept alive, so that no other object gets the same id
        self._looked_up: set[tuple[str, str]] = set()  # module and name

    def result(self) -> dict[str, str]:
        found = dict(self._found)
        for label, owner, value in self._values:
            if owner in self._rebound or {owner[0], id(value)} & self._changed:
                continue
            with suppress(RecursionError):  # a list that holds itself
                if (text := value_in_words(value)) is not None:
                    found[label] = text
        return found

    def follow(self, thing: Any, label: str = "") -> None:
        """A function, a class, an object, or a container of them."""
        if id(thing) in self._seen or isinstance(thing, (*_PLAIN, np.ndarray)):
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, partial):
            self._read(label or "arguments", id(thing), {"args": thing.args, **thing.keywords})
            self.follow(thing.func)
        elif isinstance(thing, MethodType):
            self.follow(thing.__self__, label or thing.__qualname__)
            self.follow(thing.__func__)
        elif isinstance(thing, Mapping):
            self._follow_all(thing.values(), label)
        elif isinstance(thing, list | tuple | set | frozenset):
            self._follow_all(thing, label)
        elif isinstance(thing, FunctionType):
            self._function(thing)
        elif isinstance(thing, type):
            self._class(thing)
        elif (inner := getattr(thing, "__wrapped__", None)) is not None:  # what a cache or a compiler has made of it
            self.follow(inner, label)
        elif not isinstance(thing, ModuleType):
            self._object(thing, label)

    def _follow_all(self, things: Iterable[Any], label: str) -> None:
        for thing in list(things):
            self.follow(thing, label)

    def _function(self, function: FunctionType) -> None:
        self.follow(function.__dict__.get("__wrapped__"))  # a decorator's, around it
        if of_the_user(function):
            name = f"{function.__module__}.{function.__qualname__}"
            self._found[name] = source(function)
            self._used_by(function, name)

    def _class(self, kind: type) -> None:
        if not of_the_user(kind):
            return
        name = f"{kind.__module__}.{kind.__qualname__}"
        self._found[name] = source(kind)
        self._follow_all(kind.__bases__, name)
        for attribute, part in vars(kind).items():
            if isinstance(part, cached_property):
                self._rebound.add((id(kind), attribute))
            for function in _functions_of(part):
                if function.__name__ not in _MAKING:
                    self._rebound.update((id(kind), changed) for changed in _set_on_self(function))
                self._used_by(function, f"{name}.{attribute}")
            if not attribute.startswith("__"):
                self._use(f"{name}: {attribute}", (id(kind), attribute), part)

    def _object(self, thing: Any, label: str) -> None:
        kind = type(thing)
        if of_the_user(kind):
            self.follow(kind)
            self._read(label or kind.__qualname__, id(kind), getattr(thing, "__dict__", {}))
        elif kind.__module__ == "types":  # a namespace
            self._read(label, id(thing), vars(thing) if kind.__name__ == "SimpleNamespace" else {})

    def _used_by(self, function: FunctionType, name: str) -> None:
        """What a function closes over, and what it looks up."""
        inside: dict[str, tuple[int, Any]] = {}
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # not yet bound
                inside[variable] = (id(cell), cell.cell_contents)
        names, where = set(_names(function.__code__)), function.__globals__
        inside = {key: (id(where), value) for key, value in where.items() if key in names} | inside
        for kind, given in (("defaults", function.__defaults__), ("kwdefaults", function.__kwdefaults__)):
            if given:
                inside[kind] = (id(function), given)
        tree = _tree(function)
        for changed in _changed_in(tree):
            if changed in inside:
                self._changed.add(id(inside[changed][1]))
        self._rebound.update((inside[bound][0], bound) for bound in _bound_outside(tree) if bound in inside)
        for variable, (namespace, value) in sorted(inside.items(), key=lambda item: item[0]):
            if isinstance(value, ModuleType):
                self._module(value, names)
            else:
                self._use(f"{name}: {variable}", (namespace, variable), value)
        for module, wanted in _imported(tree, function):
            self._module(module, names | wanted)

    def _module(self, module: ModuleType, names: set[str]) -> None:
        """A module that something uses: all that is written in it, and what these names are there."""
        if not of_the_user(module):
            return
        with suppress(OSError, TypeError):
            self._found[f"module {module.__name__}"] = inspect.getsource(module)
        for name in sorted(names & vars(module).keys()):
            value, key = vars(module)[name], (module.__name__, name)
            if key in self._looked_up:
                continue
            self._looked_up.add(key)
            if isinstance(value, ModuleType):
                self._module(value, names)
            else:
                self._use(f"{module.__name__}: {name}", (id(vars(module)), name), value)

    def _read(self, by: str, namespace: int, things: Mapping[str, Any]) -> None:
        for name, value in sorted(things.items()):
            self._use(f"{by}: {name}", (namespace, name), value)

    def _use(self, label: str, owner: tuple[int, str], value: Any) -> None:
        self._values.append(_Value(label, owner, value))
        self.follow(value, label)


# what stands in a source ------------------------------------------------------------------------------------


def source(thing: Any) -> str:
    """What is written in the file; of a function without one, what it was compiled to."""
    code = thing.__code__ if isinstance(thing, FunctionType) else None
    with suppress(OSError, TypeError):
        return inspect.getsource(thing if code is None else code)
    return f"{thing.__module__}.{thing.__qualname__}" if code is None else _compiled(code)


def _compiled(code: CodeType) -> str:
    parts = [_compiled(c) if isinstance(c, CodeType) else str(value_in_words(c)) for c in code.co_consts]
    return f"{code.co_code.hex()} {' '.join(code.co_names)} {' '.join(parts)}"


def _names(code: CodeType) -> Iterator[str]:
    """All that is looked up by name, also by functions inside."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _functions_of(part: Any) -> list[FunctionType]:
    """What a class calls when it is asked for this part of it."""
    if isinstance(part, property):
        found = [part.fget, part.fset, part.fdel]
    else:
        found = [part.func if isinstance(part, cached_property) else getattr(part, "__func__", part)]
    return [one for one in found if isinstance(one, FunctionType)]


def _tree(function: FunctionType) -> list[ast.AST]:
    """Every node; none of a function without a source, or of a lambda in the middle of a line."""
    with suppress(OSError, TypeError, SyntaxError, ValueError):
        return list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function.__code__)))))
    return []


def _changed_in(tree: list[ast.AST]) -> set[str]:
    """Names of what gets new entries or attributes."""
    found = set()
    for node in tree:
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(_root(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            found.add(_root(node.func))
    return found


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _bound_outside(tree: list[ast.AST]) -> set[str]:
    return {name for node in tree if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}


def _set_on_self(function: FunctionType) -> set[str]:
    """Attributes that a method sets on its object."""
    own = function.__code__.co_varnames[:1]
    stores = (node for node in _tree(function) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in stores if isinstance(node.value, ast.Name) and node.value.id in own}


def _imported(tree: list[ast.AST], function: FunctionType) -> Iterator[tuple[ModuleType, set[str]]]:
    """Modules of the user's that a function imports when it is called, and what it takes from them."""
    for node in tree:
        if isinstance(node, ast.Import):
            wanted = {alias.name: set(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            wanted = {"." * node.level + (node.module or ""): {alias.name for alias in node.names}}
        else:
            continue
        for name, names in wanted.items():
            with suppress(Exception):  # what cannot be imported is said when it is called
                name = resolve_name(name, function.__globals__.get("__package__"))
                spec = find_spec(name)
                if spec is not None and spec.origin and _is_the_users(Path(spec.origin)):
                    yield importlib.import_module(name), names


# values -----------------------------------------------------------------------------------------------------


@runtime_checkable
class _ArrayLike(Protocol):
    def __array__(self) -> Any: ...


def value_in_words(value: Any) -> str | None:
    """Numbers, words and arrays, and tables of them; of other things nothing is known."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, Mapping):
        return str({str(value_in_words(key)): value_in_words(part) for key, part in value.items()})
    if isinstance(value, list | tuple):
        return str([value_in_words(part) for part in value])
    if isinstance(value, set | frozenset):
        return str(sorted(map(str, map(value_in_words, value))))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):  # a task, a network
        return str({part.name: value_in_words(getattr(value, part.name, None)) for part in dataclasses.fields(value)})
    if isinstance(value, _ArrayLike) and not isinstance(value, type):
        with suppress(Exception):  # it is on a device, or has no numbers
            return _array_in_words(np.asarray(value))
    return None


def _array_in_words(array: Array) -> str:
    if array.dtype.kind == "O":
        return str(value_in_words(array.tolist()))
    content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    return f"array of {array.dtype}, {array.shape}, {content}"


def of_the_user(thing: Any) -> bool:
    """Neither ours nor installed, nor part of Python."""
    try:
        return _is_the_users(Path(inspect.getfile(thing)))
    except (TypeError, OSError):
        return getattr(thing, "__module__", "") == "__main__" or isinstance(thing, FunctionType)


def _is_the_users(path: Path) -> bool:
    path = path.resolve()
    return not any(path.is_relative_to(folder) for folder in (*_INSTALLED, _OURS))
