"""The public face: its names, what importing it costs and leaves alone, and the examples in its docstrings."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import lazyrich as lr

SOURCE = Path(lr.__file__).parents[1]
ENGINES = ("jax", "jaxlib", "diffrax", "equinox", "optax", "torch", "cupy", "tqdm")
OTHERS = (
    "matplotlib",
    "xarray",
    "pandas",
    "zarr",
    "dask",
    "sklearn",
    "plotly",
    "starlette",
    "safetensors",
    "jaxtyping",
)

WORDS = [
    "Task",
    "tasks",
    "Network",
    "inits",
    "Problem",
    "solve",
    "flow",
    "descend",
    "fate",
    "Trajectory",
    "InvalidInput",
]
CALLED = {
    lr: ["Task", "Network", "Problem", "Trajectory", "solve", "flow", "descend", "fate"],
    lr.tasks: ["semantic_hierarchy", "binary_tree", "random_regression", "linear_teacher", "reversal"],
    lr.inits: [*lr.inits.__all__],
}


def run(code: str) -> str:
    """The output of a fresh Python, where nothing but lazyrich decides what is imported."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


SOLVE = """
problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
traj = lr.solve(problem, [0.0, 10.0])
traj.function, traj.loss, traj.gram, traj.weights, str(problem.facts), str(traj.certificate())
"""


class TestNames:
    @pytest.mark.parametrize("package", [lr, lr.tasks, lr.inits, lr.exact], ids=lambda package: package.__name__)
    def test_all_exist_once(self, package):
        assert [name for name in package.__all__ if not hasattr(package, name)] == []
        assert len(set(package.__all__)) == len(package.__all__)

    @pytest.mark.parametrize("name", WORDS)
    def test_the_words_users_type(self, name):
        assert name in lr.__all__ and hasattr(lr, name)

    @pytest.mark.parametrize("name", lr.__all__)
    def test_have_a_docstring(self, name):
        thing = getattr(lr, name)
        assert name == "__version__" or (inspect.getdoc(thing) or "").strip()

    def test_version_is_that_of_the_project(self):
        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
        assert lr.__version__ == project["project"]["version"]


class TestImport:
    def test_and_solve_load_no_engine(self):
        code = f"import sys, lazyrich as lr\n{SOLVE}\nprint([m for m in {ENGINES + OTHERS} if m in sys.modules])"
        assert run(code).strip() == "[]"

    def test_leaves_global_state_alone(self):
        """NumPy's errors, printing and random state; warnings; the environment, where BLAS reads its threads.

        threadpoolctl sets a variable of its own (KMP_DUPLICATE_LIB_OK) when it is imported, and is so before.
        """
        state = "(np.geterr(), np.get_printoptions(), list(warnings.filters), dict(os.environ), random.getstate())"
        code = (
            "import os, random, warnings, scipy.special, scipy.linalg, scipy.integrate, threadpoolctl, numpy as np\n"
            f"before, drawn = {state}, np.random.get_state()[1].tolist()\n"
            f"import lazyrich as lr\n{SOLVE}\n"
            f"print(before == {state}, drawn == np.random.get_state()[1].tolist())"
        )
        assert run(code).strip() == "True True"

    def test_does_not_switch_jax_to_double_precision(self):
        pytest.importorskip("jax")
        code = f"import jax, lazyrich as lr\n{SOLVE}\nprint(jax.config.jax_enable_x64, jax.numpy.ones(1).dtype)"
        assert run(code).strip() == "False float32"


MODULES = ["lazyrich", *sorted(found.name for found in pkgutil.walk_packages(lr.__path__, "lazyrich."))]


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


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report = []
    for test in examples(module):
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("package, name", [(package, name) for package in CALLED for name in CALLED[package]])
def test_what_users_call_has_an_example(package, name):
    thing = getattr(package, name)
    owner = importlib.import_module(thing.__module__)
    assert any(test.name == f"{thing.__module__}.{name}" for test in examples(owner))
