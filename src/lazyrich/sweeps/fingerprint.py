"""By what the numbers of a block were computed: versions, and the source of the user's functions and all they use.

A function uses other functions and classes of the user's, by their names or from what it closes over, and these use
others: each goes in with its source. Numbers, words and arrays go in with their values. What is installed goes in by
the versions of the packages alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import platform
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from lazyrich._version import __version__
from lazyrich.sweeps.grid import Grid, Json

_PACKAGES = ("numpy", "scipy")
_INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_OURS = Path(__file__).parents[1]


def fingerprint(grid: Grid) -> Json:
    """Name → version, source or value."""
    found = {"lazyrich": __version__, "python": ".".join(platform.python_version_tuple()[:2])}
    for package in (*_PACKAGES, *(("jax",) if grid.uses_jax else ())):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    for function in grid.functions():
        found |= dict(_sources(function, set()))
    return found


def digest(found: Json) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def differences(was: Json, now: Json) -> list[str]:
    """One line for each entry that is not the same; of a source, the first line that differs."""
    lines = []
    for name in dict.fromkeys([*was, *now]):
        old, new = str(was.get(name, "nothing")), str(now.get(name, "nothing"))
        if old != new:
            pairs = zip([*old.splitlines(), "nothing"], [*new.splitlines(), "nothing"], strict=False)
            first, second = next((a, b) for a, b in pairs if a != b)
            lines.append(f"{name}: {first.strip()} → {second.strip()}")
    return lines


def _sources(thing: Any, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Of a function or class, and of all it uses."""
    if isinstance(thing, partial):
        yield from _used("arguments", {"args": thing.args, **thing.keywords}, seen)
        thing = thing.func
    thing = inspect.unwrap(getattr(thing, "__func__", thing))
    if id(thing) in seen or isinstance(thing, BuiltinFunctionType) or not _of_the_user(thing):
        return
    seen.add(id(thing))
    name = f"{thing.__module__}.{thing.__qualname__}"
    yield name, _source(thing)
    if isinstance(thing, FunctionType):
        yield from _used_by(thing, name, seen)
    elif inspect.isclass(thing):
        for part in vars(thing).values():
            part = getattr(part, "__func__", part)
            if isinstance(part, FunctionType):
                yield from _used_by(part, f"{name}.{part.__name__}", seen)
    else:  # an object that can be called
        yield from _used(name, getattr(thing, "__dict__", {}), seen)


def _used_by(function: FunctionType, name: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    inside: dict[str, Any] = {}
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not yet bound
            inside[variable] = cell.cell_contents
    names = set(_names(function.__code__))
    inside |= {name: value for name, value in function.__globals__.items() if name in names}
    inside |= {"defaults": function.__defaults__} if function.__defaults__ else {}
    yield from _used(name, inside, seen)


def _used(by: str, things: Mapping[str, Any], seen: set[int]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(things.items()):
        if isinstance(value, ModuleType):
            if _of_the_user(value):
                with suppress(OSError, TypeError):
                    yield f"module {value.__name__}", inspect.getsource(value)
        elif isinstance(value, type) or (callable(value) and hasattr(value, "__module__")):
            yield from _sources(value if hasattr(value, "__qualname__") else type(value), seen)
        elif (text := _value(value)) is not None:
            yield f"{by}: {name}", text


def _names(code: CodeType) -> Iterator[str]:
    """All that is looked up by name, also by functions inside."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _value(value: Any) -> str | None:
    """Numbers, words and arrays, and tables of them; of other things nothing is known."""
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        return f"array of {value.dtype}, {value.shape}, {content}"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return repr(value)
    if isinstance(value, Mapping):
        parts = {repr(key): _value(part) for key, part in value.items()}
        return str(parts)
    if isinstance(value, list | tuple | set | frozenset):
        return str(
            [_value(part) for part in (sorted(value, key=repr) if isinstance(value, set | frozenset) else value)]
        )
    if dataclasses.is_dataclass(value):  # a task, a network
        return str({part.name: _value(getattr(value, part.name, None)) for part in dataclasses.fields(value)})
    return None


def _source(thing: Callable[..., Any]) -> str:
    """What is written in the file; of a function without one, what it was compiled to."""
    with suppress(OSError, TypeError):
        return inspect.getsource(thing)
    code = getattr(thing, "__code__", None)
    return f"{type(thing).__module__}.{type(thing).__qualname__}" if code is None else _compiled(code)


def _compiled(code: CodeType) -> str:
    parts = [_compiled(c) if isinstance(c, CodeType) else str(_value(c)) for c in code.co_consts]
    return f"{code.co_code.hex()} {' '.join(code.co_names)} {' '.join(parts)}"


def _of_the_user(thing: Any) -> bool:
    """Neither ours nor installed, nor part of Python."""
    try:
        path = Path(inspect.getfile(thing)).resolve()
    except (TypeError, OSError):
        return getattr(thing, "__module__", "") == "__main__" or isinstance(thing, FunctionType)
    return not any(path.is_relative_to(folder) for folder in (*_INSTALLED, _OURS))
