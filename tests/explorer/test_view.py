"""Views: against the library asked directly for problems built by hand, and against formulas of this file's own."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer import script
from lazyrich.explorer.script import MOST_STEPS, TIMES
from lazyrich.explorer.state import State, packed
from lazyrich.explorer.view import descent, view
from lazyrich.explorer.wire import encoded

pytestmark = pytest.mark.timeout(120)  # JAX may deadlock, and must not take the suite with it

SMALL = {"task": "own", "matrix": "2 0.5; -0.3 1", "width": 3}  # one shape for all that is integrated: it compiles
OWN = lr.Task.from_correlations([[2.0, 0.5], [-0.3, 1.0]])


def close(got, want, tolerance=1e-12):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * max(np.abs(want).max(), 1e-300))


def loss_of(task, function):
    """½ tr(WΣxxWᵀ) − tr(WΣyxᵀ) + ½ trΣyy."""
    return np.array(
        [
            np.trace(W @ task.sigma_xx @ W.T) / 2 - np.trace(W @ task.sigma_yx.T) + np.trace(task.sigma_yy) / 2
            for W in function
        ]
    )


def modes_of(task, function):
    """uᵀWv, by the singular vectors of Σyx."""
    U, _, Vt = np.linalg.svd(task.sigma_yx, full_matrices=False)
    return np.array([[u @ W @ v for u, v in zip(U.T, Vt, strict=True)] for W in function])


# the library, asked directly --------------------------------------------------------------------------------


def hierarchy():
    network = lr.inits.zero_balanced(3, sizes=(8, 14, 8), scale=0.02)
    return State(seed=3, scale=0.02), lr.Problem(lr.tasks.semantic_hierarchy(), network)


def lazy():
    network = lr.inits.lambda_balanced(2, sizes=(8, 8, 8), lam=6.0, scale=0.5)
    return (
        State(task="colour_hierarchy", start="lambda_balanced", seed=2, lam=6.0, scale=0.5),
        lr.Problem(lr.tasks.colour_hierarchy(), network),
    )


def decaying():
    network = lr.inits.zero_balanced(1, sizes=(2, 3, 2), scale=0.1)
    return State(**SMALL, seed=1, scale=0.1, weight_decay=0.2), lr.Problem(OWN, network, weight_decay=0.2)


def deep():
    task = lr.tasks.binary_tree(6, levels=2, features=5)
    network = lr.inits.aligned(6, task, hidden=(7, 7), strengths=0.01)
    chosen = {"task": "binary_tree", "levels": 2, "d_out": 5, "seed": 6, "depth": 3, "width": 7}
    return State(**chosen, start="aligned", scale=0.01), lr.Problem(task, network)


def shallow():
    task = lr.tasks.piecewise_teacher(8, d=4, samples=40, test=1).train
    network = lr.inits.gaussian(8, sizes=(4, 1), scale=0.3)
    chosen = {"task": "piecewise_teacher", "d_in": 4, "seed": 8, "depth": 1}
    return State(**chosen, start="gaussian", scale=0.3), lr.Problem(task, network)


def knowing():
    network = lr.inits.prior_knowledge(0, lr.tasks.revised_kingdom(), hidden=14)
    return State(start="prior", prior="revised_kingdom", seed=0), lr.Problem(lr.tasks.semantic_hierarchy(), network)


def neuron():
    task = lr.tasks.random_regression(11, d_in=3, d_out=1, samples=12)
    network = lr.inits.single_neuron(0.1 * task.target[0] / np.linalg.norm(task.target), delta=-0.5)
    chosen = {"task": "random_regression", "d_in": 3, "seed": 11, "start": "single_neuron"}
    return State(**chosen, scale=0.1, lam=-0.5, angle=0.0), lr.Problem(task, network)


def integrated():
    network = lr.inits.gaussian(5, sizes=(2, 3, 2), scale=0.4)
    return (
        State(**SMALL, seed=5, start="gaussian", scale=0.4, rates=(0.5, 2.0), weight_decay=0.1),
        lr.Problem(OWN, network, rates=(0.5, 2.0), weight_decay=0.1),
    )


PROBLEMS = [hierarchy, lazy, decaying, deep, shallow, knowing, neuron, integrated]


@pytest.mark.parametrize("made", PROBLEMS, ids=lambda made: made.__name__)
def test_the_numbers_are_those_of_the_library(made):
    state, problem = made()
    shown = view(state)
    times = shown.arrays["times"]
    exact = made is not integrated
    own = times if exact else lr.predict(problem).trajectory.times
    assert times[0] == 0 and times[-1] == (lr.landscape.horizon(problem) if exact else own[-1])
    traj = lr.solve(problem, times) if exact else lr.predict(problem, times).trajectory
    close(shown.arrays["loss"], traj.loss[:, None])
    close(shown.arrays["function"], traj.function[shown.arrays["frames"].astype(int)])
    if problem.network.depth == 2:
        close(shown.arrays["gram"], traj.gram[shown.arrays["frames"].astype(int)])
        assert shown.header["balance"] == pytest.approx(problem.facts.lam[0], abs=1e-12)
    close(shown.arrays["loss"][:, 0], loss_of(problem.task, traj.function), 1e-9)
    if made not in (deep, shallow):  # whose modes are those of their fate: one is zero, the others' inputs not white
        close(shown.arrays["modes"], modes_of(problem.task, traj.function), 1e-9)
    if exact:
        close(shown.arrays["modes"][0], lr.fate(problem).initial, 1e-9)
    close(shown.arrays["kernel"], lr.observables.kernel_distance(traj), 1e-9)
    change = lr.observables.kernel_movement(traj) * np.maximum(norm := lr.observables.kernel_norm(traj), norm[0])
    last = norm[-1] if shown.stages[0].regime is None else np.interp(shown.stages[0].regime.learned_by, times, norm)
    close(shown.arrays["movement"], change / max(norm[0], last), 1e-9)
    assert shown.header["exact"] == exact and shown.header["methods"] == [traj.method]
    assert tuple(shown.header["sizes"]) == problem.network.sizes
    assert shown.header["tasks"] == [problem.task.name] and shown.header["boundaries"] == [times[-1]]


def test_uploaded_correlations(rng):
    X = rng.normal(size=(30, 3))
    Y = X @ rng.normal(size=(3, 2)) + 0.1 * rng.normal(size=(30, 2))
    task = lr.Task.from_data(X, Y)
    data = packed(task.sigma_yx, task.sigma_xx, task.sigma_yy)
    shown = view(State(task="uploaded", data=data, depth=1, start="gaussian", seed=3, scale=0.2, horizon=4.0))
    direct = lr.solve(lr.Problem(task, lr.inits.gaussian(3, sizes=(3, 2), scale=0.2)), shown.arrays["times"])
    assert shown.arrays["times"][-1] == 4 and len(shown.arrays["times"]) == TIMES
    close(shown.arrays["loss"][:, 0], direct.loss, 1e-11)
    close(shown.arrays["function"], direct.function[shown.arrays["frames"].astype(int)], 1e-11)
    residual = Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    assert shown.header["floor"] == pytest.approx(np.sum(residual**2) / 60, rel=1e-10)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_sequence_is_one_long_run(depth):
    state = State(task="random_regression", d_in=3, d_out=2, width=4, depth=depth, seed=9, then=("another", "reversal"))
    state = State.from_dict(state.to_dict() | {"start": "zero_balanced", "scale": 0.1, "horizon": 6.0})
    shown = view(state)
    first = lr.tasks.random_regression(9, d_in=3, d_out=2, samples=12)
    second = lr.tasks.random_regression(10_009, d_in=3, d_out=2, samples=12)
    tasks = [first, second, lr.tasks.reversal(first)]
    network = lr.inits.zero_balanced(9, sizes=(3, 4, 2) if depth == 2 else (3, 2), scale=0.1)
    times = shown.arrays["times"][:TIMES]
    run = lr.continual(tasks, network, times)
    assert len(shown.arrays["times"]) == 3 * TIMES and times[-1] == 6
    close(shown.arrays["times"], np.concatenate([k * 6.0 + times for k in range(3)]))
    close(shown.header["boundaries"], [6.0, 12.0, 18.0])
    function = np.concatenate([part.function for part in run.trajectories])
    close(shown.arrays["loss"], np.stack([loss_of(task, function) for task in tasks], axis=1), 1e-9)
    stages = zip(tasks, np.split(function, 3), np.split(shown.arrays["modes"], 3), strict=True)
    for task, part, modes in stages:  # those of the task in training
        close(modes, modes_of(task, part), 1e-9)
    assert (np.split(shown.arrays["kernel"], 3)[1][0], np.split(shown.arrays["kernel"], 3)[2][0]) == (0, 0)
    frames = shown.arrays["frames"].astype(int)
    close(shown.arrays["function"], function[frames])
    close(shown.arrays["function"][0], network.function)
    assert shown.arrays["targets"].shape == (3, 2)
    assert shown.header["tasks"] == ["random regression", "random regression", "random regression reversed"]
    assert shown.script.parts[1].problem.task.name == "random regression"


def test_a_sequence_that_is_integrated():
    """The weights are what passes from task to task; the second starts where the first ends."""
    shown = view(State(**SMALL, start="gaussian", scale=0.3, seed=2, then=("reversal",), horizon=2.0))
    network = lr.inits.gaussian(2, sizes=(2, 3, 2), scale=0.3)
    times = shown.arrays["times"][:TIMES]
    before = lr.flow(lr.Problem(OWN, network), times, max_steps=MOST_STEPS)
    after = lr.flow(lr.Problem(lr.tasks.reversal(OWN), before.network(-1)), times, max_steps=MOST_STEPS)
    close(shown.arrays["loss"][:, 0], loss_of(OWN, np.concatenate([before.function, after.function])), 1e-7)
    assert not shown.header["exact"] and shown.header["methods"] == ["flow", "flow"]


@pytest.mark.compiles
def test_a_run_that_stops_early_says_so_and_gives_no_advice_for_code(monkeypatch):
    monkeypatch.setattr(script, "MOST_STEPS", 60)
    shown = view(State(**SMALL, start="gaussian", scale=0.3, then=("reversal",)))
    assert 20 <= len(shown.arrays["times"]) < TIMES
    (note,) = shown.header["notes"]
    assert note.startswith("stopped at t = ") and note.endswith("steps")
    told = [remark for remark in shown.header["remarks"] if "stopped" in remark]
    assert told == [f"task 1: {note}; later tasks were not reached"]
    assert shown.header["boundaries"] == [shown.arrays["times"][-1]]


@pytest.mark.compiles
def test_a_problem_too_stiff_to_be_predicted_is_followed_as_far_as_steps_go():
    """Its early times are close enough to see it all: the loss falls from 6e7 to 9 within a thousandth."""
    stiff = {"task": "own", "matrix": "1 2 3 4 5; 1 1 1 1 2; 3 2 1 1 1", "depth": 3, "width": 4, "scale": 10.0}
    shown = view(State(**stiff, start="gaussian"))
    times, loss = shown.arrays["times"], shown.arrays["loss"][:, 0]
    assert 20 <= len(times) < TIMES and 1e-3 < times[-1] < 0.1
    assert loss[0] > 6e7 and np.interp(1e-3, times, loss) < 10
    assert shown.script.lines[-1] == f"traj = lr.flow(problem, times, max_steps={script.MOST_STEPS})"
    assert [line.split(" = ")[0] for line in shown.script.lines] == [*shown.script.values]
    (note,) = shown.header["notes"]
    assert re.match(r"stopped at t = 0\.0\d+ of \d+ after 4096 steps$", note)


def test_remarks_count_tasks_from_one():
    shown = view(State(seed=4, scale=0.05, task="own", matrix="3 0; 0 2", width=4, then=("reversal",)))
    assert [note[:7] for note in shown.script["run"].notes] == ["task 1:", "task 2:"]
    assert [note[:7] for note in shown.header["remarks"]] == ["task 1:", "task 2:"]


@pytest.mark.parametrize("horizon", [30.0, 100.0, 1e6])
def test_a_kernel_that_vanishes_keeps_its_last_direction(horizon):
    """Both layers shrink below rounding, and below the smallest number; one direction is all that they ever have."""
    for chosen in {"matrix": "1", "start": "prior", "prior": "reversal"}, {
        "matrix": "2 0", "start": "single_neuron", "scale": 0.5, "angle": 180.0
    }:  # fmt: skip
        shown = view(State.from_dict({"task": "own", "horizon": horizon, **chosen}))
        assert shown.arrays["gram"][-1].max() < 1e-9
        assert np.abs(shown.arrays["kernel"]).max() < 1e-9
        assert all(np.isfinite(array).all() for array in shown.arrays.values())


# formulas of our own ----------------------------------------------------------------------------------------


def test_targets_are_where_learned_modes_end():
    shown = view(State(seed=1, scale=0.5, horizon=1e5))
    close(shown.arrays["modes"][-1], shown.arrays["targets"][0], 1e-9)
    s = np.linalg.svd(lr.tasks.semantic_hierarchy().sigma_yx, compute_uv=False)
    close(shown.arrays["targets"][0], 8 * s)  # Σxx = I/8


def test_the_kernel_distance_is_that_of_the_kernel_written_out():
    """K = W2W2ᵀ ⊗ XXᵀ + I ⊗ XW1ᵀW1Xᵀ over outputs and samples; here the samples are the eight unit vectors."""
    shown = view(State(seed=4, scale=0.2))
    frames = shown.arrays["frames"].astype(int)
    kernels = [np.kron(G[8:, 8:], np.eye(8)) + np.kron(np.eye(8), G[:8, :8]) for G in shown.arrays["gram"]]
    for k in (1, 50, 120, len(frames) - 1):
        cosine = np.sum(kernels[0] * kernels[k]) / np.linalg.norm(kernels[0]) / np.linalg.norm(kernels[k])
        assert shown.arrays["kernel"][frames[k]] == pytest.approx(1 - cosine, abs=1e-12)


@pytest.mark.parametrize(
    "chosen", [{"seed": 5}, {"start": "aligned", "depth": 3}, {"depth": 1, "start": "gaussian"}, {"start": "gaussian"}]
)
def test_the_first_layer_is_shown_by_its_gram_matrix(chosen):
    """How far apart it holds two inputs: the distances between columns of W1."""
    shown = view(State.from_dict(chosen))
    hidden = shown.arrays["gram"][:, :8, :8] if "gram" in shown.arrays else shown.arrays["inner"]
    for k in (0, 90, len(hidden) - 1):
        columns = shown.script.parts[0].weights[0][int(shown.arrays["frames"][k])].T
        apart = np.linalg.norm(columns[:, None] - columns[None], axis=-1) ** 2
        squares = np.add.outer(np.diag(hidden[k]), np.diag(hidden[k])) - 2 * hidden[k]
        close(squares, apart, 1e-9)
    assert shown.header["items"][:3] == ("salmon", "sunfish", "robin")
    assert view(State(task="own")).header["items"] == ["x1", "x2"]


@pytest.mark.parametrize(
    "chosen", [{"width": 3, "horizon": 1e4}, {"seed": 4, "scale": 0.05, "task": "own", "matrix": "3 0; 0 2"}]
)
def test_modes_have_the_numbers_of_the_fate(chosen):
    """The mode that is missed, at a bottleneck or a saddle, is the one that stays low; equal ones are told apart."""
    state = State.from_dict({"width": 4, **chosen})
    shown = view(state)
    fate = lr.fate(shown.script.problem)
    assert [not learned for learned in fate.learned] == [k in shown.header["unlearned"] for k in range(len(fate.s))]
    assert shown.header["unlearned"] and set(fate.missed) <= set(shown.header["unlearned"])
    close(shown.arrays["modes"][0], fate.initial, 1e-9)
    np.testing.assert_allclose(shown.arrays["modes"][-1], fate.limit, atol=0.05 * fate.s[0])
    close(shown.arrays["targets"][0], fate.s, 1e-9)


@pytest.mark.parametrize("lam", [-2.0, 0.0, 0.7])
@pytest.mark.parametrize("angle", [0.0, 60.0, 150.0, 180.0])
def test_the_neuron_stays_on_its_hyperboloid(lam, angle):
    state = State(task="own", matrix="1 2 -1", start="single_neuron", scale=0.3, lam=lam, angle=angle, seed=2)
    shown = view(state)
    along, across, a = shown.arrays["neuron"].T
    assert np.abs(a**2 - along**2 - across**2 - lam).max() < 1e-12
    size = np.sqrt(6)  # of the target; β = a w
    close(a * along, shown.arrays["modes"][:, 0] * np.sign(shown.arrays["targets"][0, 0]), 1e-9)
    assert (a * along)[0] == pytest.approx(0.3 * np.cos(np.radians(angle)), abs=1e-9)
    assert np.hypot(along, across)[0] * a[0] == pytest.approx(0.3, abs=1e-9)
    if angle < 180:
        assert (a * along)[-1] == pytest.approx(size, rel=0.1)


def test_layer_rates_keep_a_hyperboloid_too():
    state = State(task="own", matrix="1 2", start="single_neuron", scale=0.3, lam=0.0, rates=(0.5, 2.0), horizon=3.0)
    shown = view(State.from_dict(state.to_dict()))
    along, across, a = shown.arrays["neuron"].T
    kept = a**2 - along**2 - across**2
    close(kept, np.full(len(kept), kept[0]), 1e-7)
    w, v = shown.script.parts[0].problem.network.weights  # η1 v² − η2‖w‖² is conserved, up to a factor
    assert kept[0] * (0.5 * v[0, 0] ** 2 - 2.0 * np.sum(w**2)) > 0


def test_only_the_single_neuron_has_a_neuron():
    assert "neuron" not in view(State()).arrays and "gram" not in view(State(depth=3, start="aligned")).arrays


def test_matrices_are_thinned_to_what_a_message_may_hold(rng):
    matrix = ";".join(" ".join(f"{entry:.3f}" for entry in row) for row in rng.normal(size=(32, 32)))
    state = State(task="own", matrix=matrix, width=32, scale=0.1)
    shown = view(state)
    frames = shown.arrays["frames"]
    assert frames[0] == 0 and frames[-1] == len(shown.arrays["times"]) - 1
    assert 2 <= len(frames) < TIMES and (np.diff(frames) > 0).all()
    assert np.ptp(np.diff(frames)) <= 1  # evenly
    sizes = {name: array.size for name, array in shown.arrays.items() if name in ("function", "gram")}
    assert 100_000 < sum(sizes.values()) <= 150_000
    assert len(encoded(shown.header, shown.arrays)) < 700_000
    whole = view(state, thin=False)
    assert whole.arrays["frames"].tolist() == [*range(len(whole.arrays["times"]))]
    for name in ("function", "gram"):
        np.testing.assert_array_equal(whole.arrays[name][frames], shown.arrays[name])
    assert len(view(State()).arrays["frames"]) == len(view(State()).arrays["times"])


def test_a_view_is_the_same_every_time():
    state = State(task="random_regression", seed=8, then=("another",))
    for one, other in zip(view(state).arrays.values(), view(state).arrays.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_descent_goes_step_by_step():
    state = State(**SMALL, seed=7, scale=0.3, descent=True, rate=0.03, rates=(1.0, 0.5), weight_decay=0.1, horizon=3.0)
    shown = descent(state)
    W1, W2 = (W.copy() for W in lr.inits.zero_balanced(7, sizes=(2, 3, 2), scale=0.3).weights)
    losses = []
    for _ in range(101):
        losses.append(loss_of(OWN, [W2 @ W1])[0])
        error = OWN.sigma_yx - W2 @ W1
        W1, W2 = W1 + 0.03 * (W2.T @ error - 0.1 * W1), W2 + 0.015 * (error @ W1.T - 0.1 * W2)
    assert shown.header["steps"] == 100 and shown.header["end"] == "complete"
    steps = np.round(shown.arrays["times"] / 0.03).astype(int)
    assert steps[0] == 0 and steps[-1] == 100
    close(shown.arrays["loss"][:, 0], np.array(losses)[steps], 1e-12)
    assert shown.script.lines[-1] == "descent = lr.descend(problem, rate=0.03, steps=100)"


def test_descent_is_bounded_and_says_where_it_diverges():
    assert descent(State(**SMALL, rate=1e-4, horizon=100.0)).header["steps"] == 20_000
    wild = descent(State(**SMALL, scale=10.0, rate=1.0, horizon=50.0))
    assert wild.header["end"] == "diverged" and np.isfinite(wild.arrays["loss"]).all()
