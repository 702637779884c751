"""What every test shares: tiers, shapes checked at run time, a seeded generator, and hypothesis without deadlines.

jaxtyping comes before lazyrich: `lazyrich._typing` then takes its `Float`, and the import hook has beartype check
every annotated shape on every call (with the usual rule that an int will do for a float).
"""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# One thread each: xdist has a process per core, and threads of BLAS on busy cores wait for each other. Both read this
# when they start; JAX then computes as in the workers of sweeps.
os.environ.setdefault("PJRT_NPROC", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jaxtyping
import numpy as np
import pytest
from hypothesis import settings

_jaxtyped = jaxtyping.jaxtyped


def _outermost(*, typechecker: Any) -> Callable[[Any], Any]:
    """As `jaxtyping.jaxtyped`, but functions inside functions stay as they are: they would be decorated anew, a
    millisecond each time, at every call of the function around them."""
    check = _jaxtyped(typechecker=typechecker)
    return lambda decorated: decorated if "<locals>" in decorated.__qualname__ else check(decorated)


jaxtyping.jaxtyped = _outermost
jaxtyping.install_import_hook("lazyrich", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


#: Why a test is not quick; pyproject.toml has the sentences.
REASONS = ("browser", "processes", "compiles", "figures", "documentation", "torch", "long", "slow")


def pytest_configure(config: pytest.Config) -> None:
    """What JAX has compiled for one process and one run serves the next; processes that tests start have none of it."""
    try:
        import jax
    except ImportError:
        return
    jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / "build" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not any(item.get_closest_marker(reason) for reason in REASONS):
            item.add_marker("quick")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """One file after another to each worker, and all pages of the explorer to one: they share a browser."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "browser" if "/test_page" in file else file

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


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


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children hear Ctrl-C even where these tests ignore it, as under nohup and in a script's background.

    A signal that is ignored stays so in a child; one with a handler is reset to its default.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_terminal_summary(terminalreporter):
    """The worst error of the closed form against mpmath over all problems that were run, and other such figures."""
    passed = [dict(report.user_properties) for report in terminalreporter.stats.get("passed", [])]
    figures = [f for f in passed if "worst" in f]
    if figures:
        total, worst = sum(f["problems"] for f in figures), max(f["worst"] for f in figures)
        terminalreporter.write_line(f"closed form against mpmath: {total} problems, worst relative error {worst:.1e}")
    for line in sorted(text for f in passed for name, text in f.items() if name.startswith("figure")):
        terminalreporter.write_line(line)
