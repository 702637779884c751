"""Half times from the start alone: exact where modes do not interact, and otherwise right in the limit of small starts,
with the power of the start at which they become so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from oracles import integrate
from problems import SEEDS
from scipy.integrate import quad
from scipy.optimize import brentq

import lazyrich as lr
from lazyrich.landscape.plateaus import compare_plateaus, plateau_times

S = np.array([4.0, 2.0, 0.8])


def observed(network, sigma_yx, end, steps=120):
    """When uᵀWv of a diagonal task is half way from its start to s, by the oracle's integration and a root."""
    times = np.linspace(0, end, steps)
    layers = integrate.weights(network.weights, sigma_yx, None, times)
    W = [[layer[i] for layer in layers] for i in range(steps)]
    found = []
    for mode, s in enumerate(np.diag(sigma_yx)):
        strength = [np.linalg.multi_dot(w[::-1])[mode, mode] for w in W]
        half = (strength[0] + s) / 2
        after = next((i for i, a in enumerate(strength) if a >= half), None)
        if after is None:
            found.append(np.nan)
            continue
        w, t = W[after - 1], times[after - 1]
        rest = lambda dt, w=w, mode=mode, half=half: integrate.function(w, sigma_yx, None, [dt])[0, mode, mode] - half
        found.append(t + brentq(rest, 0, times[after] - t, xtol=1e-14, rtol=1e-14))
    return np.array(found)


def powers(s):
    """Twice the least of 1, s_β/s_α − 1 above and 1 − s_β/s_α below: the power of ε at which the error goes."""
    ratios = s / s[:, None]
    return 2 * np.array([min(1.0, *np.abs(np.delete(row, i) - 1)) for i, row in enumerate(ratios)])


@pytest.mark.long
def test_two_layers_become_exact_by_the_power_of_the_gaps():
    """Zero-balanced starts, scaled copies of one, by the closed form: slopes of the error in doubly logarithmic scale.

    No start is worse than the power, and most are it: where its coefficient happens to be small, a higher power shows.
    """
    slopes = []
    for seed in range(9):
        network = lr.inits.zero_balanced(seed, sizes=(3, 4, 5), scale=1.0)
        task = lr.Task.from_correlations(np.diag([*S, 0.0, 0.0])[:, :3])
        errors = []
        for scale in (1e-5, 1e-7):
            problem = lr.Problem(task, lr.Network([scale * W for W in network.weights]))
            seen = compare_plateaus(lr.solve(problem, [1e3]))
            assert seen.prediction.kind == "leading order"
            errors.append(np.abs(seen.observed - seen.prediction.times))
        assert errors[0].max() < 1e-4
        slopes.append(np.log(errors[0][:2] / errors[1][:2]) / np.log(100))  # the weakest mode is at rounding level
    expected = powers(S)[:2]
    assert np.all(np.array(slopes) > expected - 0.1)
    np.testing.assert_allclose(np.median(slopes, axis=0), expected, atol=0.05)


@pytest.mark.long
def test_two_layers_from_gaussian_starts_which_are_not_balanced():
    """By the oracle's integration: the error goes at least with the first power of ε here (gaps of a half)."""
    sigma_yx = np.diag(S)
    for seed in (0, 1):
        errors = []
        for scale in (1e-1, 1e-2, 1e-3):
            network = lr.inits.gaussian(seed, sizes=(3, 4, 3), scale=scale)
            predicted = plateau_times(lr.Problem(lr.Task.from_correlations(sigma_yx), network)).times
            errors.append(np.abs(observed(network, sigma_yx, 1.5 * predicted.max()) - predicted))
        errors = np.array(errors).max(axis=1)
        assert errors[1] < errors[0] / 8
        assert errors[2] < errors[1] / 8
        assert errors[2] < 1e-3


def test_it_is_the_logarithm_of_the_start_over_s_not_over_gaps():
    """(1/s_r) ln(1/ε): how the half time of each mode grows from one ε to the next."""
    task = lr.Task.from_correlations(np.diag(S))
    network = lr.inits.gaussian(3, sizes=(3, 5, 3), scale=1.0)
    first, second = (
        plateau_times(lr.Problem(task, lr.Network([scale * W for W in network.weights]))).times
        for scale in (1e-5, 1e-9)
    )
    np.testing.assert_allclose(second - first, np.log(1e4) / S, rtol=1e-8)


def observed_over_predicted(L, scale):
    network = lr.inits.gaussian(1, sizes=(2,) + (4,) * (L - 1) + (2,), scale=scale)
    sigma_yx = np.diag(S[:2])
    prediction = plateau_times(lr.Problem(lr.Task.from_correlations(sigma_yx), network))
    assert prediction.kind == "scaling only"
    return observed(network, sigma_yx, 4 * prediction.times.max(), steps=60) / prediction.times


@pytest.mark.long
@pytest.mark.parametrize(
    ("L", "scales"), [(3, (0.03, 0.01, 1 / 300)), pytest.param(4, (0.1, 0.05, 0.025), marks=pytest.mark.slow)]
)
def test_deeper_networks_keep_the_scaling_alone(L, scales):
    """Observed over predicted tends to a constant as ε → 0, so the times go as ε^{−(L−2)}; the constant is not 1.

    The first mode, which grows undisturbed, comes to it as ε^{L−2}: what is left is the time of the rise itself.
    """
    ratios = np.array([observed_over_predicted(L, scale) for scale in scales])
    steps = np.abs(np.diff(ratios, axis=0))
    assert np.all(steps[1] < steps[0])
    assert np.all(steps[1] < 0.02)
    np.testing.assert_allclose(steps[1, 0] / steps[0, 0], (scales[1] / scales[0]) ** (L - 2), rtol=0.1)
    assert np.all((ratios[2] > 1) & (ratios[2] < 3))
    assert ratios[2].max() > 1.05


@pytest.mark.long
def test_four_layers_go_with_the_inverse_square():
    first, second = (observed_over_predicted(4, scale) for scale in (0.1, 0.05))
    np.testing.assert_allclose(np.log2(second / first), 0, atol=0.02)  # the prediction goes as 1/ε²


def test_aligned_deep_modes_against_quadrature():
    """ȧ = L a^{2−2/L}(s − a) from a0 to half way, 50 random modes; and on the exact trajectory."""
    worst = 0.0
    for seed in SEEDS:
        rng = np.random.default_rng((7, seed))
        L, s = 3 + seed % 4, np.sort(10 ** rng.uniform(-1, 1, size=3))[::-1]
        a0 = s * 10 ** rng.uniform(-4, -0.5, size=3)
        task = lr.Task.from_correlations(np.diag(s))
        problem = lr.Problem(task, lr.inits.aligned(seed, task, hidden=(3,) * (L - 1), strengths=a0))
        prediction = plateau_times(problem)
        assert prediction.kind == "exact"

        def speed(y, L=L):  # of ln a, in units of s
            return L * np.exp(y) ** (1 - 2 / L) * (1 - np.exp(y))

        for mode in range(3):
            edges = np.linspace(np.log(a0[mode] / s[mode]), np.log((1 + a0[mode] / s[mode]) / 2), 12)
            time = sum(
                quad(lambda y: 1 / speed(y), *pair, epsabs=0, epsrel=1e-13)[0] for pair in itertools.pairwise(edges)
            )
            worst = max(worst, abs(prediction.times[mode] / (time / s[mode] ** (2 - 2 / L)) - 1))
    assert worst < 1e-10
    np.testing.assert_allclose(compare_plateaus(lr.solve(problem, [1e6])).ratio, 1, rtol=1e-10)


def test_aligned_two_layers_of_any_balance_are_exact():
    """Each mode with its own λ, a start of any size, correlated inputs with the task's axes, layer rates: 50 problems.

    Against the oracle's own ȧ = √(λ² + 4a²)(s − ad), by quadrature.
    """
    worst = 0.0
    for seed in SEEDS:
        rng = np.random.default_rng((8, seed))
        s, d = np.sort(10 ** rng.uniform(-1, 1, size=3))[::-1], rng.uniform(0.2, 3, size=3)
        lam = [np.zeros(3), rng.normal(size=3), 10 * rng.normal(size=3)][seed % 3]
        a0 = s / d * 10 ** rng.uniform(-6, -0.5, size=3)
        eta = float(rng.uniform(0.3, 3))
        task = lr.Task.from_correlations(np.diag(s), np.diag(d))
        network = lr.inits.aligned(seed, task, hidden=4, strengths=a0, lam=lam)
        prediction = plateau_times(lr.Problem(task, network, rates=eta))
        assert prediction.kind == "exact"
        np.testing.assert_allclose(prediction.limit, s / d, rtol=1e-14)
        for mode in range(3):
            ends = np.log([a0[mode], (a0[mode] + s[mode] / d[mode]) / 2])
            edges = np.linspace(*ends, 12)

            def slowness(y, s=s[mode], d=d[mode], lam=lam[mode]):
                a = np.exp(y)
                return a / (np.hypot(lam, 2 * a) * (s - a * d))

            time = sum(quad(slowness, *pair, epsabs=0, epsrel=1e-13)[0] for pair in itertools.pairwise(edges)) / eta
            worst = max(worst, abs(prediction.times[mode] / time - 1))
    assert worst < 1e-10


def test_aligned_modes_that_start_backwards_cross_zero_or_never():
    task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
    held = lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=-0.1))
    assert np.isnan(plateau_times(held).times).all()
    free = lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=-0.1, lam=0.5))
    seen = compare_plateaus(lr.solve(free, [100.0]))
    np.testing.assert_allclose(seen.ratio, 1, rtol=1e-10)
    deep = lr.Problem(task, lr.inits.aligned(0, task, hidden=(2, 2), strengths=[0.1, -0.1]))
    assert np.isfinite(plateau_times(deep).times).tolist() == [True, False]


def test_the_start_is_what_is_new_in_hidden_space(rng):
    """Rows W1v + W2ᵀu by hand: the second mode grows from the part that is not along the first."""
    network = lr.inits.gaussian(rng, sizes=(2, 4, 2), scale=1e-4)
    W1, W2 = network.weights
    p, q = W1[:, 0] + W2[0], W1[:, 1] + W2[1]
    new = q - (q @ p) / (p @ p) * p
    prediction = plateau_times(lr.Problem(lr.Task.from_correlations(np.diag([3.0, 1.0])), network))
    np.testing.assert_allclose(prediction.initial, [p @ p / 4, new @ new / 4], rtol=1e-10)
    np.testing.assert_allclose(
        prediction.times, [np.log1p(12 / (p @ p)) / 6, np.log1p(4 / (new @ new)) / 2], rtol=1e-10
    )


def test_equal_modes_appear_in_the_directions_of_the_start(rng):
    """Three equal modes: half times from the three strengths of the start, as observed in those directions."""
    for seed in range(5):
        problem = lr.Problem(
            lr.Task.from_correlations(2 * np.eye(3)), lr.inits.zero_balanced(seed, sizes=(3, 6, 3), scale=1e-5)
        )
        W1, W2 = problem.network.weights
        a0 = np.linalg.svd(W1.T + W2, compute_uv=False) ** 2 / 4
        seen = compare_plateaus(lr.solve(problem, [1e3]))
        learned = np.isfinite(seen.prediction.times)
        np.testing.assert_allclose(seen.prediction.times[learned], (np.log1p(2 / a0) / 4)[learned], rtol=1e-10)
        np.testing.assert_allclose(seen.ratio[learned], 1, rtol=1e-9)
        assert learned[:2].all() and learned[2] != problem.facts.determinant_obstruction


@pytest.mark.long
def test_modes_that_never_come_have_no_time():
    task = lr.Task.from_correlations(np.diag(S))
    narrow = lr.Problem(task, lr.inits.zero_balanced(0, sizes=(3, 2, 3), scale=1e-4))
    deep = lr.Problem(task, lr.inits.gaussian(0, sizes=(3, 4, 2, 3), scale=1e-2))
    for problem in (narrow, deep):
        assert np.isfinite(plateau_times(problem).times).tolist() == [True, True, False]
    seen = compare_plateaus(lr.solve(narrow, [1e6]))
    assert np.isfinite(seen.observed).tolist() == [True, True, False]
    for seed in range(6):
        square = lr.Problem(task, lr.inits.zero_balanced(seed, sizes=(3, 3, 3), scale=1e-4))
        missed = np.isnan(compare_plateaus(lr.solve(square, [1e6])).observed)
        assert np.isnan(plateau_times(square).times).tolist() == missed.tolist()
        assert missed.tolist() == [False, False, square.facts.determinant_obstruction]
    low_rank = lr.Task.from_correlations(np.diag([4.0, 2.0, 0.0]))
    assert np.isnan(plateau_times(lr.Problem(low_rank, narrow.network)).times).tolist() == [False, False, True]
    for depth in (2, 3):
        zero = lr.Problem(task, lr.Network([np.zeros((3, 3))] * depth))
        assert np.isnan(compare_plateaus(lr.solve(zero, [10.0])).observed).all()
        assert np.isnan(plateau_times(zero).times).all()


def test_rates_and_input_scale_only_rescale():
    """Rates η and Σxx = c·I at depths 2 and 3: theory section 0."""
    c = 0.125
    for L, eta in ((2, np.array([0.5, 3.0])), (3, np.array([0.5, 3.0, 1.2]))):
        network = lr.inits.gaussian(2, sizes=(3,) + (4,) * (L - 1) + (3,), scale=1e-3)
        plain = plateau_times(lr.Problem(lr.Task.from_correlations(np.diag(S)), network))
        k = np.prod(eta) ** (1 / (2 * L - 2)) / np.sqrt(eta)
        task = lr.Task.from_correlations(np.diag(S) * c / np.prod(k), c * np.eye(3))
        scaled = lr.Network([W / k_l for W, k_l in zip(network.weights, k, strict=True)])
        moved = plateau_times(lr.Problem(task, scaled, rates=eta))
        np.testing.assert_allclose(c * moved.times, plain.times, rtol=1e-10)
        np.testing.assert_allclose(moved.limit * np.prod(k), plain.limit, rtol=1e-12)


def test_the_grid_does_not_matter_to_exact_trajectories_and_records_are_interpolated():
    problem = lr.Problem(lr.Task.from_correlations(np.diag(S)), lr.inits.zero_balanced(1, sizes=(3, 4, 3), scale=1e-3))
    exact = compare_plateaus(lr.solve(problem, [100.0])).observed
    np.testing.assert_allclose(compare_plateaus(lr.solve(problem, np.linspace(0, 50, 77))).observed, exact, rtol=1e-12)
    oracle = observed(problem.network, problem.task.sigma_yx, 20.0)
    np.testing.assert_allclose(exact, oracle, rtol=1e-9)
    times = np.linspace(0, 15, 3001)[1:]  # the start is known without a record
    seen = lr.Trajectory(problem, times, "flow", {"function": lr.solve(problem, times).function})
    np.testing.assert_allclose(compare_plateaus(seen).observed, exact, atol=1e-5)
    early = compare_plateaus(lr.solve(problem, [exact[1] * 1.01]))
    assert np.isnan(early.observed).tolist() == [False, False, True]
    assert "–" in str(early).splitlines()[-1]


def test_tables():
    task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
    seen = compare_plateaus(lr.solve(lr.Problem(task, lr.inits.zero_balanced(0, sizes=(2, 1, 2), scale=1e-3)), [99.0]))
    lines = str(seen).splitlines()
    assert lines[0] == "half times, prediction: leading order"
    assert lines[1].split() == ["mode", "limit", "predicted", "observed", "ratio"]
    assert lines[3].split() == ["2", "1", "–", "–", "–"]
    assert str(seen.prediction).splitlines()[1].split() == ["mode", "limit", "initial", "half", "time"]


def sentence(call):
    with pytest.raises(lr.InvalidInput) as caught:
        call()
    return str(caught.value)


def test_it_says_what_would_do(unchecked_shapes):
    task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
    network = lr.inits.gaussian(0, sizes=(2, 2, 2), scale=0.1)
    assert "problem must be a lazyrich Problem, and it is a Task" in sentence(lambda: plateau_times(task))
    assert "traj must be a lazyrich Trajectory" in sentence(lambda: compare_plateaus(3))
    relu = lr.Network(network.weights, "relu")
    assert "reads linear networks, and this one is relu" in sentence(lambda: plateau_times(lr.Problem(task, relu)))
    one = lr.Network([np.eye(2)])
    assert "needs two layers or more" in sentence(lambda: plateau_times(lr.Problem(task, one)))
    decaying = lr.Problem(task, network, weight_decay=0.2)
    assert "no weight decay, and this problem has 0.2" in sentence(lambda: plateau_times(decaying))
    tilted = lr.Task.from_correlations([[2.0, 0.0], [0.5, 1.0]], [[2.0, 0.3], [0.3, 1.0]])
    says = sentence(lambda: plateau_times(lr.Problem(tilted, network)))
    assert "needs whitened inputs" in says and "observables.half_times" in says
    bare = lr.Trajectory(lr.Problem(task, network), np.zeros(1), "flow", {"loss": np.zeros(1)})
    assert "needs the function of a trajectory: try record='function'" in sentence(lambda: compare_plateaus(bare))
