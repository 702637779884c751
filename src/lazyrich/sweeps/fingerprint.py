"""By what the numbers of a block were computed: versions, and the source of the user's functions and all they use.

Installed packages go in by their versions alone; `sources` says what goes in of the user's own.
"""

from __future__ import annotations

import hashlib
import json
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from lazyrich._version import __version__
from lazyrich.sweeps.grid import Grid, Json
from lazyrich.sweeps.sources import sources

_PACKAGES = ("numpy", "scipy")


def fingerprint(grid: Grid) -> Json:
    """Name → version, source or value."""
    found = {"lazyrich": __version__, "python": ".".join(platform.python_version_tuple()[:2])}
    for package in (*_PACKAGES, *(("jax",) if grid.uses_jax else ())):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found | sources(grid.functions())


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
