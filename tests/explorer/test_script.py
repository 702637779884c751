"""Scripts: what was run is what is written, the choices that a script makes, and what it tells about them."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer.script import TIMES, Call, Name, Script, prepared, solved
from lazyrich.explorer.state import CONTROLS, State, packed

STATES = {
    "hierarchy": State(),
    "revised": State(task="revised_kingdom", start="lambda_balanced", lam=0.1 + 0.2, width=4),
    "colour": State(task="colour_hierarchy", start="prior", prior="semantic_hierarchy"),
    "tree": State(task="binary_tree", levels=2, d_out=5, start="aligned", scale=1e-3, depth=3, seed=5),
    "regression": State(task="random_regression", d_in=3, d_out=2, then=("another", "reversal"), seed=7),
    "teacher": State(task="linear_teacher", matrix="1 0.1; -2 1e-7; 0 3", depth=1, start="gaussian"),
    "piecewise": State(task="piecewise_teacher", d_in=4, depth=1, start="orthogonal"),
    "neuron": State(task="own", matrix="1 2 3", start="single_neuron", lam=-0.7, angle=100.0, scale=0.3),
    "uploaded": State(
        task="uploaded", data=packed(np.array([[0.1, 0.2]]), np.diag([1.0, 1.0]), np.array([[0.3]])), width=1, lam=-2.0
    ),
    "rates": State(task="own", matrix="2", width=1, depth=1, rates=(0.3,), weight_decay=0.125, horizon=7.0),
}


def run(lines):
    """The lines as a user would run them (in tests only)."""
    names = {"lr": lr, "np": np}
    exec("\n".join(lines), names)
    return names


def numbers_of(value):
    """All numbers of a task, a network, a problem, …, to compare."""
    if isinstance(value, lr.Task):
        return [value.sigma_yx, value.sigma_xx, value.sigma_yy]
    if isinstance(value, lr.Network):
        return value.weights
    if isinstance(value, lr.Problem):
        return [*numbers_of(value.task), *numbers_of(value.network), value.rates, value.weight_decay]
    if isinstance(value, lr.Trajectory):
        return [value.times, value.function, value.loss]
    if isinstance(value, lr.Prediction):
        return [*numbers_of(value.trajectory), value.error, value.half_times]
    if isinstance(value, lr.Continual):
        return [number for part in value.trajectories for number in numbers_of(part)]
    if isinstance(value, list):
        return [number for entry in value for number in numbers_of(entry)]
    return [value]


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_the_lines_make_the_values(state):
    script = solved(state)
    made = run(script.lines)
    assert [line.split(" = ")[0] for line in script.lines] == [*script.values]
    for name, value in script.values.items():
        for one, other in zip(numbers_of(value), numbers_of(made[name]), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_lines_hold_calls_of_ours_and_numbers_and_nothing_else(state):
    allowed = (
        ast.Assign,
        ast.Call,
        ast.Name,
        ast.Attribute,
        ast.Constant,
        ast.List,
        ast.keyword,
        ast.UnaryOp,
        ast.USub,
    )
    for line in solved(state).lines:
        (statement,) = ast.parse(line).body
        for node in ast.walk(statement):
            assert isinstance(node, (*allowed, ast.expr_context))
            if isinstance(node, ast.Constant):
                assert isinstance(node.value, int | float)
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func).startswith(("lr.", "np.linspace", "np.geomspace", "np.union1d"))


def test_a_script_runs_what_it_writes():
    script = Script()
    script.add("first", [1.5, -0.1, 7])
    script.add("second", Call("np.add", (Name("first"), Call("np.ones", (3,))), {"dtype": None}))
    script.add("third", Call("lr.tasks.semantic_hierarchy", part="d_in"))
    assert script["second"].tolist() == [2.5, 0.9, 8.0] and script["third"] == 8
    assert script.lines == [
        "first = [1.5, -0.1, 7]",
        "second = np.add(first, np.ones(3), dtype=None)",
        "third = lr.tasks.semantic_hierarchy().d_in",
    ]


def test_every_task_and_every_start_has_a_script():
    by_name = {control.name: control for control in CONTROLS}
    for task in by_name["task"].options:
        script = prepared(State(task=task, data=packed(np.eye(2), np.eye(2), np.eye(2))))
        assert isinstance(script["task"], lr.Task) and "traj" not in script.values
        assert ("times" in script.values) == (script["problem"].facts.method is not None)
    for start in by_name["start"].options:
        script = prepared(State(task="random_regression", start=start, prior="another"))
        assert script["problem"].network.depth == 2
    for name in by_name["then"].options:
        script = prepared(State(then=(name,)))
        assert len(script["tasks"]) == 2 and len(script["times"]) == TIMES


@pytest.mark.parametrize(
    ("state", "method"),
    [
        (State(), "riccati"),
        (State(start="aligned"), "modes"),
        (State(start="aligned", depth=3), "deep_modes"),
        (State(depth=1, start="gaussian"), "shallow"),
    ],
)
def test_exact_where_a_theorem_applies(state, method):
    script = solved(state)
    assert script["traj"].method == method and script["prediction"].exact
    assert script.lines[-2:] == ["prediction = lr.predict(problem, times)", "traj = prediction.trajectory"]
    assert script["traj"].times[-1] == lr.landscape.horizon(script["problem"])


def test_integrated_where_none_does():
    script = solved(State(task="own", matrix="2 0; 0 1", width=3, start="gaussian", scale=0.3, horizon=5.0))
    assert script["traj"].method == "flow" and 1e-12 < script["prediction"].error < 1e-5
    assert script.lines[-2] == "prediction = lr.predict(problem, times)"
    np.testing.assert_array_equal(script["traj"].times, script["times"])


@pytest.mark.parametrize(
    "state",
    [
        State(task="own", matrix="2 0", start="single_neuron", scale=2.0, lam=-20.0, angle=92.0, horizon=48.0),
        State(task="own", matrix="2 0", start="single_neuron", scale=2.0, lam=-20.0, angle=92.0),
        State(task="own", matrix="2 0; 0 1", width=2, scale=9.0, then=("reversal",)),
    ],
)
def test_what_is_over_at_once_has_times_of_its_own(state):
    """By its loss: between two times it never falls by a fourth of its way, at zero and at the end alike."""
    part = solved(state).parts[0]
    assert part.times[0] == 0 and np.all(np.diff(part.times) > 0)
    assert np.abs(np.diff(part.loss)).max() < np.ptp(part.loss) / 4
    assert np.diff(part.times).max() < part.times[-1] / 90


def test_a_theorem_that_rounding_hides_still_has_its_curve(monkeypatch):
    def hidden(*_):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(lr, "predict", hidden)
    script = solved(State())
    assert script.lines[-1] == "traj = lr.solve(problem, times)" and len(script["traj"].times) == TIMES


def test_uploaded_inputs_are_centred_and_whitened():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3)) @ [[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 0.1]] + [1.0, 0.0, -2.0]
    Y = X @ rng.normal(size=(3, 2)) + 3.0
    task = lr.Task.from_data(X, Y)
    data = packed(task.sigma_yx, task.sigma_xx, task.sigma_yy, X.mean(axis=0), Y.mean(axis=0))
    for centre in (False, True):
        A, B = (X - X.mean(axis=0), Y - Y.mean(axis=0)) if centre else (X, Y)
        plain = prepared(State(task="uploaded", data=data, centre=centre))["task"]
        np.testing.assert_allclose(plain.sigma_xx, A.T @ A / 40, atol=1e-12)
        np.testing.assert_allclose(plain.sigma_yx, B.T @ A / 40, atol=1e-12)
        white = solved(State(task="uploaded", data=data, centre=centre, whiten=True))
        np.testing.assert_allclose(white["task"].sigma_xx, np.eye(3), atol=1e-12)
        s = np.linalg.svd(np.sqrt(40) * np.linalg.pinv(np.linalg.qr(A)[0]) @ B / 40, compute_uv=False)
        np.testing.assert_allclose(white["task"].modes.s, s, rtol=1e-9)
        assert white["prediction"].exact and not solved(State(task="uploaded", data=data, width=3))["prediction"].exact
    bare = packed(task.sigma_yx, task.sigma_xx, task.sigma_yy)
    with pytest.raises(lr.InvalidInput, match=r"^centre needs samples, whose means are known"):
        prepared(State(task="uploaded", data=bare, centre=True))


def test_the_same_seed_gives_other_tasks_of_the_same_kind():
    tasks = prepared(State(task="random_regression", seed=3, then=("another", "another")))["tasks"]
    maps = [task.target for task in tasks]
    assert all(np.abs(one - other).max() > 0.1 for one, other in [maps[:2], maps[1:], maps[::2]])
    for given, second in ({"task": "own"}, "random regression"), ({"task": "binary_tree", "levels": 1}, "binary tree"):
        assert prepared(State(**given, then=("another",)))["tasks"][1].name == second


def test_a_width_that_lambda_leaves_no_room_for_is_told():
    for lam, matrix, room, side in (1.0, "1 2 3", 1, "outputs"), (-1.0, "1; 2; 3", 1, "inputs"):
        for start in "lambda_balanced", "aligned":
            script = prepared(State(task="own", matrix=matrix, start=start, lam=lam, width=5))
            assert script["network"].sizes[1] == room
            assert script.notes == [
                f"λ {'>' if lam > 0 else '<'} 0 needs no more hidden units than {side}: {room} it is"
            ]
    script = prepared(State(start="lambda_balanced", lam=1.0, width=8))
    assert script["network"].sizes == (8, 8, 8) and not script.notes


@pytest.mark.parametrize("depth", [1, 3, 5])
def test_starts_of_two_layers_say_so(depth):
    chosen = {
        "lambda_balanced": ({"lam": 0.5, "width": 3}, "an initialisation with λ has two layers"),
        "aligned": ({"lam": 0.5, "width": 3}, "an initialisation with λ has two layers"),
        "single_neuron": ({"task": "own", "matrix": "1 2"}, "the single neuron has two layers"),
    }
    for start, (others, note) in chosen.items():
        script = prepared(State(start=start, depth=depth, **others))
        assert script["network"].depth == 2 and script.notes == [note]
    assert prepared(State(start="aligned", depth=depth))["network"].depth == depth


@pytest.mark.parametrize("angle", [0.0, 30.0, 90.0, 135.0, 180.0])
def test_the_single_neuron_starts_where_it_should(angle):
    state = State(task="own", matrix="1 -2 0.5", start="single_neuron", scale=0.2, lam=-1.5, angle=angle, seed=4)
    script = prepared(state)
    beta, target = script["network"].function[0], script["task"].target[0]
    assert np.linalg.norm(beta) == pytest.approx(0.2, rel=1e-12)
    cosine = beta @ target / np.linalg.norm(beta) / np.linalg.norm(target)
    assert cosine == pytest.approx(np.cos(np.radians(angle)), abs=1e-12)
    w, a = script["network"].weights
    assert a[0, 0] ** 2 - np.sum(w**2) == pytest.approx(-1.5, abs=1e-12)


@pytest.mark.parametrize(
    ("matrix", "angle", "sign"), [("2", 90.0, 1), ("-2", 0.0, -1), ("2", 91.0, -1), ("0 0", 0.0, 1)]
)
def test_single_neurons_without_a_choice_of_direction(matrix, angle, sign):
    beta = prepared(State(task="own", matrix=matrix, start="single_neuron", scale=0.5, angle=angle))["network"].function
    assert np.linalg.norm(beta) == pytest.approx(0.5, rel=1e-12) and np.sign(beta[0, 0]) == sign


def test_one_output_for_the_single_neuron():
    assert prepared(State(task="random_regression", start="single_neuron"))["task"].d_out == 1
    with pytest.raises(
        lr.InvalidInput, match=r"^start 'single_neuron' needs a task with one output, and .* has 8: .*\.$"
    ):
        prepared(State(start="single_neuron"))


def test_tasks_of_other_sizes_do_not_follow():
    with pytest.raises(lr.InvalidInput, match=r"^tasks must all have the inputs and outputs of the first"):
        solved(State(task="own", then=("colour_hierarchy",)))


def test_rates_and_weight_decay():
    problem = prepared(State(task="own", depth=3, rates=(0.5, 2.0), weight_decay=0.25))["problem"]
    assert problem.rates == (0.5, 2.0, 1.0) and problem.weight_decay == 0.25
    line = prepared(State(task="own", rates=(1.0, 1.0, 9.0)))["problem"]  # of three rates, two layers take two
    assert line.rates == (1.0, 1.0)


def test_horizons():
    script = prepared(State(then=("reversal",)))
    assert script["times"][0] == 0 and script["times"][-1] == lr.landscape.horizon(script["problem"])
    assert prepared(State(horizon=1e6))["times"][-1] == 1e6  # exact: as far as one likes
    bounded = prepared(State(start="gaussian", horizon=1e6))
    farthest = 20 * lr.landscape.horizon(bounded["problem"])
    assert bounded["times"][-1] == farthest < 1e6 and bounded.notes == [f"followed until {farthest:g} only"]


def test_a_sequence_is_not_followed_for_ever():
    """The weights that one task hands on to the next take a time that grows with the horizon."""
    script = prepared(State(start="lambda_balanced", lam=30.0, width=7, horizon=1e6, then=("another",)))
    farthest = 20 * lr.landscape.horizon(script["problem"])
    assert script["times"][-1] == farthest and script.notes == [f"followed until {farthest:g} only"]
    near = prepared(State(horizon=3.0, then=("another",)))
    assert near["times"][-1] == 3 and not near.notes
