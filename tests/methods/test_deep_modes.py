"""Deep aligned networks: single modes against quadrature in 25 digits, whole networks against scipy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import integrate
from oracles.taylor_mp import deep_mode_mp, deep_sizes_mp

import lazyrich as lr
from lazyrich.methods.deep_modes import deep_mode_strength
from lazyrich.methods.mode_times import half_time

from .families import target

EPS = np.finfo(float).eps

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
        slope = L * (s / 2) ** (2 - 2 / L) * s / 2
        known = 2 * L * EPS  # the mode is the product of L layers, each rounded: so well it is known when it begins
        assert float(deep_mode_strength(L, s, a0, t)) == pytest.approx(s / 2, abs=known * t * slope + 1e-14)
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


# Layers of unequal sizes


class Unequal(NamedTuple):
    """A problem, and what it was made of: frames, sizes of the modes, and per mode s and d."""

    problem: lr.Problem
    frames: list[np.ndarray]
    b: np.ndarray
    s: np.ndarray
    d: np.ndarray


def unequal(rng: np.random.Generator, L: int, *, wide: int = 2, equal: bool = False) -> Unequal:
    """Modes of random sizes and signs in each layer, forward in the product, with weights outside all modes, layer
    rates and inputs of one variance per mode."""
    d_in, d_out = (int(n) for n in rng.integers(2, 5, size=2))
    m, hidden = (
        min(d_in, d_out),
        [int(n) for n in rng.integers(min(d_in, d_out), min(d_in, d_out) + wide + 1, size=L - 1)],
    )
    U, V = orthonormal(rng, d_out, d_out), orthonormal(rng, d_in, d_in)
    s = np.full(m, 1.1) if equal else np.sort(rng.uniform(0.3, 1.5, size=m))[::-1]
    d = rng.uniform(0.4, 2.0, size=d_in)
    sigma_xx = (V * d) @ V.T
    task = lr.Task.from_correlations((U[:, :m] * s) @ V[:, :m].T, (sigma_xx + sigma_xx.T) / 2)
    frames = [V, *(orthonormal(rng, h, h) for h in hidden), U]
    b = rng.uniform(0.1, 1.2, size=(L, m)) * rng.choice([1.0, -1.0], size=(L, m))
    b[0] *= np.sign(b.prod(axis=0))
    layers = [(new[:, :m] * b_l) @ old[:, :m].T for b_l, old, new in zip(b, frames, frames[1:], strict=False)]
    for i in range(1, L - 1):
        old, new = frames[i][:, m:], frames[i + 1][:, m:]
        layers[i] = layers[i] + new @ rng.normal(size=(new.shape[1], old.shape[1])) @ old.T
    problem = lr.Problem(task, lr.Network(layers), rates=rng.uniform(0.4, 2.0, size=L))
    return Unequal(problem, [frame[:, :m] for frame in frames], b, s, d[:m])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("L", [3, 4, 6])
def test_unequal_layers_follow_scipy_and_are_certified(L, seed):
    problem, frames, b, s, d = unequal(np.random.default_rng(seed), L, equal=seed % 3 == 0)
    assert not problem.facts.balanced
    assert_follows_scipy(problem, np.array([0.0, 0.3, 2.0, 8.0]))
    later = [deep_sizes_mp(b[:, i], problem.rates, s[i], d[i], 2.0, digits=20) for i in range(len(s))]
    change = np.array(later, dtype=float).T - b
    for layer, W, db, old, new in zip(
        lr.solve(problem, [2.0]).weights, problem.network.weights, change, frames, frames[1:], strict=False
    ):
        np.testing.assert_allclose(layer[0], W + (new * db) @ old.T, atol=1e-12)
    traj = lr.solve(problem, [0.0, 0.3, 2.0, 8.0, np.inf])
    assert traj.weights[0].shape[0] == 5 and traj.certificate().exact
    np.testing.assert_allclose(traj.function[-1], problem.task.target, atol=1e-12)
    found = lr.fate(problem)
    assert (found.kind, found.on_separatrix) == ("global minimum", False)
    assert lr.regime(traj).name in ("lazy", "rich", "delayed rich")


def test_restart_and_chain(rng):
    problem = unequal(rng, 4).problem
    traj = lr.solve(problem, [0.0, 0.5, 4.0])
    again = lr.solve(lr.Problem(problem.task, traj.network(1), rates=problem.rates), [3.5])
    assert again.method == "deep_modes"
    for layer, W in zip(again.weights, traj.weights, strict=True):
        np.testing.assert_allclose(layer[0], W[2], atol=1e-12)
    U, V = problem.alignment.U, problem.alignment.V
    m = len(problem.alignment.s)
    other = lr.Task.from_correlations((U[:, :m] * np.linspace(0.5, 0.9, m)) @ V[:, :m].T, problem.task.sigma_xx)
    run = lr.continual([problem.task, other], problem.network, [0.0, 5.0], rates=problem.rates)
    assert run.methods == ("deep_modes", "deep_modes")
    flow = integrate.weights(
        run.trajectories[0].network(-1).weights, other.sigma_yx, other.sigma_xx, [5.0], problem.rates
    )
    for layer, W in zip(run.trajectories[1].weights, flow, strict=True):
        np.testing.assert_allclose(layer[-1], W[0], atol=FLOW)


@pytest.mark.parametrize("sizes, lam", [((4, 4, 4, 1), [0.0, -0.8]), ((3, 5, 5, 6), 0.4), ((5, 4, 3, 3, 2), -0.3)])
def test_balanced_by_lambda_in_wide_layers(sizes, lam, rng):
    """Hidden units outside the modes carry λ alone, and stay as they are."""
    start = lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=0.3)
    U, _, Vt = np.linalg.svd(start.function)
    m = min(sizes[0], sizes[-1])
    task = lr.Task.from_correlations((U[:, :m] * np.linspace(1.5, 0.8, m)) @ Vt[:m])
    problem = lr.Problem(task, start)
    np.testing.assert_allclose(problem.facts.lam, np.broadcast_to(lam, len(sizes) - 2), atol=1e-14)
    assert_follows_scipy(problem, np.array([0.0, 0.5, 3.0, 8.0]))


def test_orthogonal_layers_and_a_last_one_of_zero_learn_any_target(rng):
    """Kunin's Definition 12 with a = 0: no direction is singled out, so every target with white inputs is aligned."""
    layers = [0.7 * orthonormal(rng, 5, 5) for _ in range(3)]
    task = lr.Task.from_correlations(rng.normal(size=(1, 5)))
    assert_follows_scipy(lr.Problem(task, lr.Network([*layers, np.zeros((1, 5))])), np.array([0.0, 0.2, 1.0, 6.0]))


def test_a_mode_that_layers_do_not_have(rng):
    """In one layer: it is learned all the same. In two: nothing moves it. Neighbours do not care."""
    task = lr.Task.from_correlations(target(rng, 3, 3, np.array([1.4, 0.9, 0.5])))
    U, _, V = task.modes
    frames = [V, orthonormal(rng, 5, 3), orthonormal(rng, 4, 3), U]
    b = np.array([[0.4, 0.0, 0.3], [0.0, 0.2, 0.6], [0.5, 0.0, 0.2]])
    start = lr.Network([(new * b_l) @ old.T for b_l, old, new in zip(b, frames, frames[1:], strict=False)])
    problem = lr.Problem(task, start)
    assert_follows_scipy(problem, np.array([0.0, 0.5, 3.0, 8.0]))
    fate = lr.fate(problem)
    assert (fate.missed, fate.on_separatrix) == ((1,), True)
    np.testing.assert_array_equal(fate.learned, [True, False, True])


def test_backwards_with_unequal_layers_it_turns_round(rng):
    """Equal smallest layers fade and are missed; unequal ones cross zero, the later the closer they are."""
    task = lr.Task.from_correlations(np.diag([1.0]))
    times, distances = [], []
    for gap in (0.0, 1e-6, 1e-3, 0.5):
        problem = lr.Problem(task, lr.Network([[[-0.4]], [[0.4 + gap]], [[0.9]]]))
        found = lr.fate(problem)
        times.append(found.half_times[0])
        distances.append(found.separatrix_distance)
        assert found.kind == ("saddle" if gap == 0 else "global minimum")
        (t,) = lr.landscape.plateau_times(problem).times
        assert t == pytest.approx(times[-1], rel=1e-6, nan_ok=True)
    assert np.isnan(times[0]) and times[1] > times[2] > times[3]
    assert distances[0] == 0 and all(np.diff(distances) > 0)


@pytest.mark.parametrize("small, large", [(1e-6, 1.0), (1e-3, 300.0)])
def test_small_modes_keep_their_digits_beside_large_ones(small, large, rng):
    """A thousand millionth of the others in each layer: its frame is taken out of their rounding."""
    task = lr.Task.from_correlations(target(rng, 3, 3, np.array([1.4, 0.9, 0.5])))
    U, _, V = task.modes
    b = np.array([[1.0, 0.8, 0.5], [0.6, 1.2, 0.9], [0.7, 0.5, 1.1]]) * [large, small, large]
    frames = [V, orthonormal(rng, 5, 3), orthonormal(rng, 4, 3), U]
    start = lr.Network([(new * b_l) @ old.T for b_l, old, new in zip(b, frames, frames[1:], strict=False)])
    problem = lr.Problem(task, start)
    assert problem.facts.method == "deep_modes"
    sizes = np.abs(problem.followed.sizes)
    np.testing.assert_allclose(np.sort(sizes, axis=1), np.sort(b, axis=1), rtol=1e-14 * large / small)


# Refusals


def test_weights_that_a_gradient_would_reach_are_refused(rng):
    """A middle layer that leaks a mode into weights outside of it, or mixes two; by how much is said."""
    task = lr.Task.from_correlations(target(rng, 3, 3, np.array([1.4, 0.9, 0.5])))
    start = lr.inits.aligned(rng, task, hidden=(5, 5), strengths=0.3, lam=[[0.2], [-0.1]])
    W1, W2, W3 = start.weights
    left, _, rightt = np.linalg.svd(W2)
    inert = np.outer(left[:, 3], rightt[3])
    assert lr.Problem(task, lr.Network([W1, W2 + inert, W3])).facts.method == "deep_modes"
    for off in (np.outer(left[:, 3], rightt[0]), np.outer(left[:, 0], rightt[3]), np.outer(left[:, 0], rightt[1])):
        for size in (1e-9, 1e-3):
            facts = lr.Problem(task, lr.Network([W1, W2 + size * off, W3])).facts
            assert facts.method is None and 0.1 * size < facts.alignment_error < 10 * size
