"""What trials found wrong in observables that were right on all random problems."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

obs = lr.observables


@pytest.mark.parametrize("row", [[0.3, 0.4], [0.6, 0.7], [0.1, 0.9]])
def test_a_rank_one_start_never_decouples(row):
    A = np.array([row])
    problem = lr.Problem(lr.Task.from_correlations(5 * np.eye(2)), lr.Network([A, A.T]))
    assert obs.peak_time(problem) == np.inf


@pytest.mark.parametrize(("small", "peak"), [(1e-8, 1.967459), (1e-9, 2.197717)])
def test_the_peak_of_almost_parallel_columns(small, peak):
    """Δ = a1a2 − b² cancels; by the formula in 50 digits."""
    A = np.array([[0.6, 0.7], [small, -small]])
    problem = lr.Problem(lr.Task.from_correlations(5 * np.eye(2)), lr.Network([A, A.T]))
    assert obs.peak_time(problem) == pytest.approx(peak, abs=1e-6)


def test_coarse_times_do_not_turn_singular_values_negative():
    problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    assert (obs.singular_values(lr.solve(problem, [0.0, 50.0, 200.0])) >= 0).all()


def test_cka_of_samples_that_are_all_alike_is_nan_by_either_route():
    H = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1.0]])
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    problem = lr.Problem(lr.Task.from_data(H @ Q, np.ones((4, 1))), lr.Network([0.3 * Q[:1], [[0.3]]]))
    traj = lr.solve(problem, [0.0, 0.5, 5.0], method="riccati")
    by_gram = obs.cka(traj)
    assert traj.weights and np.isnan(by_gram).all() and np.isnan(obs.cka(traj)).all()


def test_similarities_of_inputs_and_of_outputs_fit_into_one_dataset():
    problem = lr.Problem(
        lr.Task.from_correlations(np.ones((3, 2))), lr.inits.zero_balanced(0, sizes=(2, 4, 3), scale=0.3)
    )
    data = lr.solve(problem, [0.0, 1.0]).to_xarray(["rsm_in", "rsm_out"])
    assert data.rsm_in.dims == ("time", "input", "input_") and data.rsm_out.dims == ("time", "output", "output_")


@pytest.mark.compiles
def test_a_recorded_gram_matrix_holds_function_and_loss():
    problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.1))
    run, whole = lr.flow(problem, [0.0, 5.0], record="gram"), lr.solve(problem, [0.0, 5.0])
    assert np.allclose(run.function, whole.function, rtol=1e-7) and np.allclose(run.loss, whole.loss, rtol=1e-7)


@pytest.mark.compiles
def test_many_inputs_are_read_by_weights():
    """QQᵀ of 300 inputs would be larger than the weights of five units."""
    network = lr.inits.zero_balanced(0, sizes=(300, 5, 2), scale=0.1)
    traj = lr.solve(lr.Problem(lr.tasks.random_regression(0, d_in=300, d_out=2, samples=600), network), [0.0, 1.0])
    by_weights = obs.kernel_distance(traj)
    assert traj.computed("weights") and not traj.computed("gram")
    other = lr.solve(traj.problem, [0.0, 1.0])
    assert other.gram is not None
    assert np.allclose(obs.kernel_distance(other), by_weights, rtol=1e-8)


@pytest.mark.parametrize("value", [None, lr.tasks.semantic_hierarchy()])
def test_mode_strengths_wants_a_trajectory(value, unchecked_shapes):
    with pytest.raises(lr.InvalidInput, match="traj must be a lazyrich Trajectory"):
        obs.mode_strengths(value)


@pytest.mark.parametrize("index", [slice(0, 2), "a", 1.5, None])
def test_kernels_are_asked_for_one_by_one(index, unchecked_shapes):
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    with pytest.raises(lr.InvalidInput, match="index must be a whole number"):
        obs.kernels(lr.solve(problem, [0.0, 1.0]))[index]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda traj: obs.cka(traj, centred="no"), "centred"),
        (lambda traj: obs.parameter_distance(traj, relative=1), "relative"),
        (lambda traj: lr.landscape.sharpness(traj, preconditioned=None), "preconditioned"),
        (
            lambda traj: lr.landscape.extreme_eigenvalues(traj.problem, traj.problem.network.weights, smallest="x"),
            "smallest",
        ),
    ],
)
def test_yes_or_no_is_nothing_else(call, name, unchecked_shapes):
    problem = lr.Problem(lr.Task.from_data([[1.0], [2.0]], [[2.0], [3.0]]), lr.Network([[[0.1]], [[0.1]]]))
    with pytest.raises(lr.InvalidInput, match=f"^{name} must be True or False, and it is"):
        call(lr.flow(problem, [0.0, 1.0]))
