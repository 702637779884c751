"""The public face: its names, and what importing it costs and leaves alone; tests/docs has docstrings and examples."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

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
    @pytest.mark.parametrize("package", [lr, lr.tasks, lr.inits, lr.methods], ids=lambda package: package.__name__)
    def test_all_exist_once(self, package):
        assert [name for name in package.__all__ if not hasattr(package, name)] == []
        assert len(set(package.__all__)) == len(package.__all__)

    @pytest.mark.parametrize("name", WORDS)
    def test_the_words_users_type(self, name):
        assert name in lr.__all__ and hasattr(lr, name)

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

    def test_observables_are_known_when_they_are_asked_for(self):
        """Their rooms are loaded then, whatever else was."""
        code = f"import lazyrich as lr\n{SOLVE}\nprint(*traj.to_xarray('mode_strengths', 'sharpness').data_vars)"
        assert {"mode_strengths", "sharpness"} <= set(run(code).split())
