"""Every public name has a docstring with an example, and every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re

import numpy as np
import pytest

import lazyrich as lr

from . import DOCS  # noqa: F401 (puts the extensions on the path)
from .as_printed import AsPrinted

from reference import NAMESPACES, markdown, pages  # isort: skip

MODULES = ["lazyrich", *sorted(found.name for found in pkgutil.walk_packages(lr.__path__, "lazyrich."))]
PUBLIC = [
    (namespace, name, getattr(importlib.import_module(namespace), name))
    for namespace in NAMESPACES
    for name in importlib.import_module(namespace).__all__
]
CALLED = [entry for entry in PUBLIC if inspect.isclass(entry[2]) or inspect.isroutine(entry[2])]
WRITTEN = pages()


def examples(module) -> list[doctest.DocTest]:
    """The docstring examples of a module and of what is defined in it, with `np` and `lr` at hand.

    Found by `__module__`: the run-time shape checks wrap every function, and doctest's own search passes those over.
    """
    globs, finder = vars(module) | {"np": np, "lr": lr}, doctest.DocTestFinder()
    tests = [doctest.DocTestParser().get_doctest(module.__doc__ or "", globs, module.__name__, module.__file__, 0)]
    for name, thing in vars(module).items():
        if getattr(thing, "__module__", None) == module.__name__ and (
            inspect.isroutine(thing) or inspect.isclass(thing)
        ):
            tests += finder.find(thing, f"{module.__name__}.{name}", module=False, globs=globs)
    return [test for test in tests if test.examples]


_COMPILE = (
    "predict",
    "bias.depths",
    "bias.factorisation",
    "bias.interpolation",
    "batch.api",
    "fit.result",
    "jax",
    "laziness.adapters.flax",
    "laziness.measuring",
    "laziness.monitor",
    "laziness.records",
    "laziness.result",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.compiles] * (name.removeprefix("lazyrich.") in _COMPILE))
        for name in MODULES
        if not name.endswith("__main__")
    ],
)
def test_examples_run(name):
    # an adapter needs its framework
    module = pytest.importorskip(name, exc_type=ImportError) if ".adapters." in name else importlib.import_module(name)
    runner = doctest.DocTestRunner(AsPrinted(), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report = []
    for test in examples(module):
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_every_public_name_has_a_docstring_and_an_example():
    owners = {thing.__module__ for _, _, thing in CALLED}
    shown = {test.name for owner in owners for test in examples(importlib.import_module(owner))}
    bare = [f"{space}.{name}" for space, name, thing in CALLED if not inspect.getdoc(thing).split(">>>")[0].strip()]
    mute = [f"{space}.{name}" for space, name, thing in CALLED if f"{thing.__module__}.{thing.__name__}" not in shown]
    assert bare == [] and mute == []


def test_modules_have_a_docstring_and_an_example_of_their_own_or_in_each_of_their_names():
    for _, _, thing in PUBLIC:
        if inspect.ismodule(thing):
            assert thing.__doc__.strip()
            assert thing.__name__ in NAMESPACES or ">>>" in thing.__doc__


def test_all_namespaces_of_the_package_are_there():
    assert {f"lazyrich.{name}" for name in lr.__all__ if inspect.ismodule(getattr(lr, name))} <= set(NAMESPACES)


def test_describes_each_name_once():
    described = {id(thing): thing for _, _, thing in CALLED}
    directives = re.findall(r"^`+\{py:(?:function|class|exception)\}", "\n".join(WRITTEN.values()), flags=re.MULTILINE)
    assert len(directives) == len(described)
    for namespace, name, _ in PUBLIC:
        assert f"`{name}`" in WRITTEN[namespace] or f"`{name} <" in WRITTEN[namespace]


def test_signatures_and_fields_are_those_of_the_source():
    page = WRITTEN["lazyrich"]
    assert "````{py:function} continual(tasks: Sequence[Task] | Schedule, network: " in page
    assert (
        "````{py:attribute} half_times\n:type: Float[Array, ' m']\n\nhalf way from initial strength to limit; nan:"
        in page
    )
    assert "````{py:method} from_data(inputs: ArrayLike, targets: ArrayLike" in page and ":classmethod:" in page


def test_docstrings_are_prose_blocks_and_examples():
    doc = "W_1 * `a_b` [x]:\n\n    q = e^{−2st}\n\n- one\n- two\n\n>>> 1 + 1\n2"
    prose = r"W\_1 \* `a_b` \[x]:"
    assert markdown(doc) == f"{prose}\n\n```text\nq = e^{{−2st}}\n```\n\n- one\n- two\n\n```pycon\n>>> 1 + 1\n2\n```"


def test_arguments_in_the_style_of_numpy_become_a_list():
    doc = "Solves.\n\nParameters\n----------\nx : a_b,\n    of any size\ny : more\n\nReturns\n-------\nTask : it"
    arguments = "**Parameters**\n\n- `x`: a\\_b, of any size\n- `y`: more"
    assert markdown(doc) == f"Solves.\n\n{arguments}\n\n**Returns**\n\n- `Task`: it"
