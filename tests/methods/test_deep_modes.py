"""Deep aligned networks: single modes against quadrature in 25 digits, whole networks against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import integrate
from oracles.taylor_mp import deep_mode_mp

import lazyrich as lr
from lazyrich.methods.deep_modes import deep_mode_strength
from lazyrich.methods.mode_times import half_time

from .families import target

FLOW = 1e-9  # what scipy's integration is good for

pytestmark = pytest.mark.filterwarnings("error")


def orthonormal(rng: np.random.Generator, size: int, columns: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(size, columns)))[0]


# One mode


@pytest.mark.parametrize("L", [3, 4, 5, 8])
@pytest.mark.parametrize("s, a0", [(0.3, 1e-3), (1.3, 0.1), (1.3, 0.5), (1.3, 2.5), (0.3, 1.0)])
def test_one_mode_follows_the_quadrature(L, s, a0):
    """Rising from the plateau and falling from above, through to saturation."""
    unit = float(half_time(a0, s, L)) if a0 < s / 2 else 0.3 / s
    times = unit * np.array([0.5, 0.98, 1.02, 1.3, 4.0])
    exact = np.array([float(deep_mode_mp(L, s, a0, t, digits=25)) for t in times])
    np.testing.assert_allclose(deep_mode_strength(L, s, a0, times), exact, rtol=1e-12)


def test_one_mode_from_very_small_weights():
    t = float(half_time(1e-8, 1.3, 3))
    exact = [float(deep_mode_mp(3, 1.3, 1e-8, f * t, digits=25)) for f in (0.9, 1.0)]
    # the plateau makes the last digits of the time count: a' t / a is 9 and 1e3 here
    np.testing.assert_allclose(deep_mode_strength(3, 1.3, 1e-8, t * np.array([0.9, 1.0])), exact, rtol=1e-12)


@pytest.mark.parametrize("L", [3, 4, 5, 6, 7, 10, 30])
@pytest.mark.parametrize("a0", [0.2, 6.0])
def test_one_mode_near_saturation(L, a0):
    """₂F₁ near its branch point, where SciPy's real routine loses all digits: s − a fades at the rate L s^{2−2/L}."""
    s = 1.7
    rate = L * s ** (2 - 2 / L)
    t = np.arange(3.0, 34.0) / rate + (float(half_time(a0, s, L)) if a0 < s / 2 else 0.0)
    a = deep_mode_strength(L, s, a0, t)
    distance = np.abs(s - a)
    assert np.all(np.diff(distance) <= 1e-12 * s)
    seen = distance > 1e-11
    assert seen.sum() > 15
    late = seen & (distance < 1e-4)
    steps = np.diff(np.log(distance[late]))
    np.testing.assert_allclose(steps, -1.0, atol=1e-3)
    np.testing.assert_allclose(a[-1], s, rtol=1e-13)


@pytest.mark.parametrize("L", [3, 4, 5, 9])
def test_half_time_is_where_the_mode_is_half_learned(L):
    for s, a0 in ((0.3, 1e-3), (2.0, 0.3), (5.0, 1e-8)):
        t = float(half_time(a0, s, L))
        rate = L * (s / 2) ** (2 - 2 / L)
        assert float(deep_mode_strength(L, s, a0, t)) == pytest.approx(s / 2, abs=1e-15 * rate * t * s + 1e-14)
    # from small weights the plateau takes all the time: a0^{−(1−2/L)}/((L−2)s)
    assert float(half_time(1e-30, 0.5, L)) == pytest.approx(1e-30 ** (2 / L - 1) / ((L - 2) * 0.5), rel=1e-6)


@pytest.mark.parametrize("L", [3, 4, 7])
def test_one_mode_for_ever(L):
    times = np.array([1e12, 1e200])
    np.testing.assert_allclose(deep_mode_strength(L, 1.5, np.array([[0.1], [1.5], [9.0]]), times), 1.5, rtol=1e-14)
    np.testing.assert_array_equal(deep_mode_strength(L, 1.5, 0.0, times), 0.0)
    # backwards it cannot cross zero, and fades by a power law; without a target by a faster one
    fading = deep_mode_strength(L, 1.5, -0.4, times[:1])
    np.testing.assert_allclose(fading, -(((L - 2) * 1.5 * 1e12) ** (-L / (L - 2))), rtol=1e-6)
    for a0 in (0.4, -0.4):
        decaying = deep_mode_strength(L, 0.0, a0, times[:1])
        np.testing.assert_allclose(decaying, np.sign(a0) * ((2 * L - 2) * 1e12) ** (-L / (2 * L - 2)), rtol=1e-6)


modes = st.tuples(st.integers(3, 8), st.floats(0.1, 5), st.floats(1e-4, 10), st.sampled_from([1, -1]))


@settings(max_examples=50)
@given(modes, st.floats(0, 5), st.floats(0, 5))
def test_one_mode_is_a_semigroup(mode, t1, t2):
    L, s, size, sign = mode
    half_way = float(deep_mode_strength(L, s, sign * size, t1))
    through = float(deep_mode_strength(L, s, sign * size, t1 + t2))
    speed = lambda a: L * abs(a) ** (2 - 2 / L) * abs(s - a)
    assume(half_way != 0)
    # rounding of the state half way grows and fades as the speed does
    growth = speed(through) / speed(half_way) if speed(half_way) > 1e-12 else 1.0
    allowed = 1e-13 * (abs(through) + growth * abs(half_way) + speed(through) * (t1 + t2))
    assert abs(float(deep_mode_strength(L, s, half_way, t2)) - through) <= allowed


@settings(max_examples=50)
@given(modes, st.floats(0, 10), st.floats(1e-3, 1e3))
def test_one_mode_in_other_units(mode, t, unit):
    """ȧ = L|a|^{2−2/L}(s − a) has time units of a^{2/L−2}."""
    L, s, size, sign = mode
    a = float(deep_mode_strength(L, s, sign * size, t))
    scaled = float(deep_mode_strength(L, unit * s, unit * sign * size, t * unit ** (2 / L - 2)))
    speed = L * abs(a) ** (2 - 2 / L) * abs(s - a)
    assert abs(scaled / unit - a) <= 1e-13 * (abs(a) + speed * t)


# Networks


def assert_follows_scipy(problem: lr.Problem, times: np.ndarray) -> None:
    traj, task = lr.solve(problem, times), problem.task
    assert traj.method == "deep_modes"
    start = problem.network.weights
    flow = integrate.weights(start, task.sigma_yx, task.sigma_xx, times, problem.rates)
    product = flow[0]
    for layer, W in zip(traj.weights, flow, strict=True):
        np.testing.assert_allclose(layer, W, atol=FLOW)
    for W in flow[1:]:
        product = W @ product
    np.testing.assert_allclose(traj.function, product, atol=FLOW)


@pytest.mark.parametrize("hidden", [(4, 3), (3, 5, 4), (6, 3, 3, 4)])
@pytest.mark.parametrize("strengths", [0.01, [3.0, 0.1, 0.2], [-0.3, 0.05, -0.01]])
def test_networks_of_three_to_five_layers(hidden, strengths, rng):
    """Small starts, starts above the target, which fall, and backward ones, which fade."""
    task = lr.Task.from_correlations(target(rng, 3, 4, np.array([1.4, 0.9, 0.5])))
    problem = lr.Problem(task, lr.inits.aligned(rng, task, hidden=hidden, strengths=strengths))
    assert_follows_scipy(problem, np.array([0.0, 0.5, 3.0, 15.0]))


@pytest.mark.parametrize("L", [3, 4, 5])
def test_layer_rates_and_correlated_inputs(L, rng):
    """With rates the layers balance as W_ℓ/√η_ℓ; each mode sees its own input variance."""
    U, V = orthonormal(rng, 3, 3), orthonormal(rng, 4, 4)
    sigma_xx = (V * [2.0, 0.5, 1.0, 0.3]) @ V.T
    task = lr.Task.from_correlations((U * [1.5, 1.0, 0.4]) @ V[:, :3].T, sigma_xx)
    rates = np.geomspace(0.4, 3.0, L)
    start = lr.inits.aligned(rng, task, hidden=(5,) * (L - 1), strengths=[0.05, 0.3, 2.0])
    problem = lr.Problem(
        task, lr.Network([np.sqrt(eta) * W for eta, W in zip(rates, start.weights, strict=True)]), rates=rates
    )
    assert problem.facts.zero_balanced and not problem.facts.whitened
    assert_follows_scipy(problem, np.array([0.0, 0.3, 2.0, 10.0]))
    end = lr.solve(problem, [1e12]).function[0]
    np.testing.assert_allclose(end, (U * [0.75, 2.0, 0.4]) @ V[:, :3].T, atol=1e-12)


def test_modes_without_target_or_without_weights(rng):
    task = lr.Task.from_correlations(target(rng, 3, 3, np.array([1.2, 0.0])))
    problem = lr.Problem(task, lr.inits.aligned(rng, task, hidden=(3, 3), strengths=[0.2, 0.5, 0.0]))
    assert_follows_scipy(problem, np.array([0.0, 1.0, 6.0]))


def test_value_at_the_start_and_semigroup(rng):
    task = lr.Task.from_correlations(target(rng, 3, 4), 0.5 * np.eye(4))
    start = lr.inits.aligned(rng, task, hidden=(5, 4), strengths=[0.1, -0.2, 2.0])
    traj = lr.solve(lr.Problem(task, start), [0.0, 1.0, 8.0, 50.0])
    for layer, W in zip(traj.weights, start.weights, strict=True):
        np.testing.assert_allclose(layer[0], W, atol=1e-14)
    later = traj.solution.restarted(1.0).function(np.array([0.0, 7.0, 49.0]))
    np.testing.assert_allclose(later, traj.function[1:], atol=1e-13)
    again = lr.solve(lr.Problem(task, traj.network(1)), [0.0, 7.0, 49.0])
    assert again.method == "deep_modes"
    np.testing.assert_allclose(again.function, traj.function[1:], atol=1e-12)


def test_all_is_finite_for_ever(rng):
    task = lr.Task.from_correlations(target(rng, 3, 3))
    problem = lr.Problem(task, lr.inits.aligned(rng, task, hidden=(3, 3), strengths=[0.5, -0.1, 0.0]))
    traj = lr.solve(problem, [0.0, 1e3, 1e12, 1e200])
    for values in (traj.function, traj.loss, *traj.weights):
        assert np.all(np.isfinite(values))
    U, s, Vt = np.linalg.svd(task.sigma_yx)
    np.testing.assert_allclose(
        traj.function[2:], np.broadcast_to(s[0] * np.outer(U[:, 0], Vt[0]), (2, 3, 3)), atol=1e-12
    )
    fate = lr.fate(problem)
    assert (fate.kind, fate.missed) == ("saddle", (1, 2))
