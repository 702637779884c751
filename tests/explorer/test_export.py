"""What a user takes away: code that runs as it is and gives the numbers of the view, CSV and NPZ that hold them."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer.export import archive, code, table
from lazyrich.explorer.state import State, packed
from lazyrich.explorer.view import descent, view

pytestmark = pytest.mark.timeout(120)  # JAX may deadlock, and must not take the suite with it

SMALL = {"task": "own", "matrix": "2 0.5; -0.3 1", "width": 3}  # one shape for all that is integrated: it compiles
DATA = np.random.default_rng(5).normal(size=(2, 20, 2))
CORRELATIONS = packed(DATA[1].T @ DATA[0] / 20, DATA[0].T @ DATA[0] / 20, DATA[1].T @ DATA[1] / 20)

STATES = {
    "hierarchy": State(),
    "lazy": State(task="colour_hierarchy", start="lambda_balanced", lam=-7.3, scale=0.4, seed=12),
    "decay": State(task="revised_kingdom", weight_decay=0.01, horizon=50.0),
    "tree": State(task="binary_tree", levels=2, d_out=6, start="aligned", scale=1e-3, depth=3, seed=4),
    "one layer": State(task="piecewise_teacher", d_in=5, depth=1, start="orthogonal", rates=(0.3,)),
    "teacher": State(task="linear_teacher", matrix="1 0; 0.1 -2; 3 1e-3", width=7, seed=99),
    "neuron": State(task="random_regression", d_in=4, start="single_neuron", lam=1.25, angle=120.0, scale=0.2, seed=3),
    "prior": State(start="prior", prior="colour_hierarchy", width=9),
    "reversal": State(task="random_regression", d_in=3, d_out=4, then=("reversal", "another"), scale=0.05, seed=1),
    "one-layer sequence": State(
        task="own", matrix="1 2; 3 5", depth=1, start="gaussian", then=("another",), weight_decay=0.5
    ),
    "integrated": State(**SMALL, start="gaussian", scale=0.3, rates=(0.5, 2.0), weight_decay=0.05, seed=8),
    "integrated sequence": State(**SMALL, start="orthogonal", scale=0.3, then=("reversal",), horizon=3.0),
    "uploaded": State(task="uploaded", data=CORRELATIONS, depth=1, start="gaussian", scale=0.1),
    "descent": State(**SMALL, scale=0.1, descent=True, rate=0.02),
}


def random_state(seed):
    """Any that is exact, as all seeds from 1 to 12 are: what is integrated has a shape of its own, and compiles."""
    rng = np.random.default_rng((7, seed))
    chosen = {
        "task": rng.choice(["semantic_hierarchy", "binary_tree", "random_regression", "linear_teacher", "own"]),
        "d_in": rng.integers(1, 7),
        "d_out": rng.integers(1, 7),
        "levels": rng.integers(1, 4),
        "matrix": ";".join(
            " ".join(str(entry) for entry in row) for row in rng.normal(size=rng.integers(1, 5, size=2))
        ),
        "then": rng.choice(["reversal", "another"], size=rng.integers(0, 3)),
        "width": rng.integers(1, 12),
        "start": rng.choice(["zero_balanced", "lambda_balanced", "aligned"]),
        "scale": 10 ** rng.uniform(-4, 0.5),
        "lam": rng.choice([0.0, rng.normal(), 10 * rng.normal()]),
        "seed": rng.integers(0, 10_000),
        "horizon": rng.choice([0.0, 10 ** rng.uniform(-1, 1.5)]),
    }
    return State.from_dict({name: value.tolist() for name, value in ((k, np.asarray(v)) for k, v in chosen.items())})


RANDOM = {f"random {seed}": random_state(seed) for seed in range(1, 13)}
STATES |= RANDOM


@pytest.fixture
def run(monkeypatch):
    """Runs a script, in this test only, and gives what it made; the figure must be shown once."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    def run(text):
        shown = []
        monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
        made = {}
        exec(compile(text, "lazyrich-view.py", "exec"), made)
        assert len(shown) == 1
        shown[0].canvas.draw()
        plt.close("all")
        return made

    return run


# code -------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_the_code_gives_the_numbers_of_the_view(state, run):
    text, shown = code(state), view(state).arrays
    made = run(text)
    np.testing.assert_array_equal(made["times"], shown["times"])
    np.testing.assert_array_equal(made["loss"].reshape(shown["loss"].shape), shown["loss"])
    np.testing.assert_array_equal(made["modes"], shown["modes"])
    np.testing.assert_array_equal(made["kernel"], shown["kernel"])
    if "run" in made:
        function = np.concatenate([part.function for part in made["run"].trajectories])
    else:
        function = made["traj"].function
    np.testing.assert_array_equal(function[shown["frames"].astype(int)], shown["function"])
    assert all(len(line) <= 120 for line in text.splitlines())
    assert ast.get_docstring(ast.parse(text)).startswith("A view of the lazyrich explorer")


def test_random_states_are_of_every_kind():
    states = RANDOM.values()
    assert len({state.task for state in states}) == 5 and len({state.start for state in states}) == 3
    assert {len(state.then) for state in states} == {0, 1, 2} and {np.sign(state.lam) for state in states} == {-1, 0, 1}


def test_the_code_draws_every_curve(run):
    made = run(code(State(then=("reversal",))))
    loss, modes, kernel = made["panels"]
    assert [panel.get_ylabel() for panel in made["panels"]] == ["loss", "mode strength", "kernel distance"]
    assert [len(panel.lines) for panel in (loss, modes, kernel)] == [3, 9, 2]  # with the boundary between the tasks
    np.testing.assert_array_equal(modes.lines[3].get_ydata(), made["modes"][:, 3])


def test_the_code_descends_where_the_view_does(run):
    state = STATES["descent"]
    made, shown = run(code(state)), descent(state)
    np.testing.assert_array_equal(made["descent"].times, shown.arrays["times"])
    np.testing.assert_array_equal(made["descent"].loss, shown.arrays["loss"][:, 0])
    np.testing.assert_array_equal(made["panels"][0].lines[-1].get_ydata(), made["descent"].loss)
    for other in State(), State(descent=True, then=("reversal",)):  # of several tasks, none is shown
        assert "descent" not in code(other)


def test_the_code_runs_on_its_own():
    state = State(task="uploaded", data=CORRELATIONS, width=2, depth=1, start="gaussian", horizon=5.0)
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONWARNINGS": "ignore",
    }
    script = code(state) + "print(float(loss[-1]))\n"
    done = subprocess.run(
        [sys.executable, "-"],
        input=script,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        encoding="utf-8",
    )
    assert done.returncode == 0 and not done.stderr
    assert float(done.stdout) == pytest.approx(view(state).arrays["loss"][-1, 0], rel=1e-12)


def test_what_a_reader_should_know_is_told():
    text = code(State(start="lambda_balanced", lam=0.5, width=12))
    assert "# λ > 0 needs no more hidden units than outputs: 8 it is\n" in text
    assert "semantic hierarchy; layers 8-8-8; exact (riccati)." in text and "pip install 'lazyrich[figures]'" in text
    assert "pip install 'lazyrich[engines,figures]'" in code(STATES["descent"])
    assert "integrated where no closed form applies." in code(STATES["integrated"])
    assert f"lazyrich {lr.__version__}" in text


def test_large_matrices_are_broken_into_rows(rng):
    d = 32
    X, Y = rng.normal(size=(2, 100, d))
    given = (Y.T @ X / 100, X.T @ X / 100, Y.T @ Y / 100)
    text = code(State(task="uploaded", data=packed(*given), depth=1, start="gaussian", horizon=0.01))
    assert all(len(line) <= 120 for line in text.splitlines())
    first = ast.parse(text).body[4].value  # task = lr.Task.from_correlations(…)
    for argument, matrix in zip(first.args, given, strict=True):
        np.testing.assert_array_equal(ast.literal_eval(argument), matrix)


def test_no_text_of_a_user_becomes_code():
    text = '3 0; 0 1"""\nimport os; os.abort()#'
    for state in State(matrix=text, data=text), State(start="prior", matrix=text):
        assert "abort" not in code(state) and "import os" not in code(state)
    for name in ("matrix", "data"):
        with pytest.raises(lr.InvalidInput):
            code(State.from_dict({"task": "own" if name == "matrix" else "uploaded", name: text}))


# files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hierarchy", "reversal", "neuron", "one layer"])
def test_the_table_holds_the_curves_to_the_last_bit(name):
    state = STATES[name]
    header, *rows = csv.reader(io.StringIO(table(state).decode("ascii")))
    shown = view(state).arrays
    tasks, modes = shown["loss"].shape[1], shown["modes"].shape[1]
    losses = ["loss"] if tasks == 1 else [f"loss_{k}" for k in range(1, tasks + 1)]
    assert header == [
        "time",
        *losses,
        *(f"mode_{k}" for k in range(1, modes + 1)),
        "kernel_distance",
        "kernel_movement",
    ]
    numbers = np.array([[float(cell) for cell in row] for row in rows])
    wanted = [
        shown["times"][:, None],
        shown["loss"],
        shown["modes"],
        shown["kernel"][:, None],
        shown["movement"][:, None],
    ]
    np.testing.assert_array_equal(numbers, np.hstack(wanted))


def test_a_kernel_that_vanishes_leaves_numbers():
    state = State(task="own", matrix="0.5", width=1, weight_decay=1.0, horizon=1e6)  # all that is learned decays
    assert np.isfinite(view(state).arrays["kernel"]).all()
    assert b"nan" not in table(state)


@pytest.mark.parametrize("name", ["hierarchy", "reversal", "neuron", "tree", "one layer"])
def test_the_archive_holds_all_arrays_at_all_times(name):
    state = STATES[name]
    shown = view(state)
    with np.load(io.BytesIO(archive(state)), allow_pickle=False) as stored:
        arrays = dict(stored)
    assert set(arrays) == {*shown.arrays, "state", "version"}
    for key, array in shown.arrays.items():
        whole = arrays[key]
        assert whole.dtype == (np.int64 if key == "frames" else np.float64)
        if key in ("function", "gram"):
            assert len(whole) == len(shown.arrays["times"])
            whole = whole[shown.arrays["frames"].astype(int)]
        if key != "frames":
            np.testing.assert_array_equal(whole, array)
    function = np.concatenate([part.function for part in shown.script.parts])
    np.testing.assert_array_equal(arrays["function"], function)
    assert State.from_dict(json.loads(str(arrays["state"]))) == state
    assert str(arrays["version"]) == lr.__version__ and arrays["state"].dtype.kind == "U"


def test_the_archive_is_not_thinned(rng):
    matrix = ";".join(" ".join(f"{entry:.3f}" for entry in row) for row in rng.normal(size=(20, 20)))
    state = State(task="own", matrix=matrix, scale=0.1)
    shown = view(state)
    assert len(shown.arrays["gram"]) < len(shown.arrays["times"])
    with np.load(io.BytesIO(archive(state)), allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["gram"], shown.script.parts[0].gram)
