"""What every test shares: shapes checked at run time, a seeded generator, and hypothesis without deadlines.

jaxtyping comes before lazyrich: `lazyrich._typing` then takes its `Float`, and the import hook has beartype check
every annotated shape on every call (with the usual rule that an int will do for a float).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import jaxtyping
import numpy as np
import pytest
from hypothesis import settings

jaxtyping.install_import_hook("lazyrich", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

# JAX on the CPU reads this when it starts: one thread, as the runners of sweeps have, and xdist has a process per core
os.environ.setdefault("PJRT_NPROC", "1")

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of its own for each test, the same in every run and in every order."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Without the run-time checks: what a user sees who passes something wrong."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def pytest_terminal_summary(terminalreporter):
    """The worst error of the closed form against mpmath over all problems that were run, and other such figures."""
    passed = [dict(report.user_properties) for report in terminalreporter.stats.get("passed", [])]
    figures = [f for f in passed if "worst" in f]
    if figures:
        total, worst = sum(f["problems"] for f in figures), max(f["worst"] for f in figures)
        terminalreporter.write_line(f"closed form against mpmath: {total} problems, worst relative error {worst:.1e}")
    for line in sorted(text for f in passed for name, text in f.items() if name.startswith("figure")):
        terminalreporter.write_line(line)
