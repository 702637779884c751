"""`lr.jax`: the same numbers as `solve` and `fate`, and derivatives that agree with differences of other code."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from mpmath import mp
from oracles import riccati_mp
from oracles.starts_mp import to_float, to_mp

import lazyrich as lr

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.compiles, pytest.mark.timeout(300)]  # JAX on the CPU can wait for ever

TIMES = np.array([0.0, 0.1, 1.0, 5.0, 20.0, 60.0, 1e3, 1e6])
C = 0.5
CASES = {
    "square": ((3, 3, 3), 0.0, 0.1),
    "tiny bottleneck": ((4, 2, 4), -1.0, 1e-8),
    "wider than inputs": ((3, 4, 5), 1.0, 0.1),
    "wide": ((3, 7, 4), 0.0, 0.01),
    "large λ": ((4, 3, 5), 30.0, 0.01),
}


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def case(name):
    sizes, lam, scale = CASES[name]
    rng = np.random.default_rng([3, *name.encode()])
    task = lr.Task.from_correlations(rng.normal(size=(sizes[2], sizes[0])), C * np.eye(sizes[0]))
    return rng, lr.Problem(task, lr.inits.lambda_balanced(int(rng.integers(99)), sizes=sizes, lam=lam, scale=scale))


def jax_gram(weights, sigma_yx, times):
    return lr.jax.gram(weights, sigma_yx, times, input_scale=C)


def differences(problem, dS, times, dt):
    """(QQᵀ of the moved target at moved times, ahead less behind)/2ε, of the printed formula with 80 digits."""
    step, (W1, W2) = mp.mpf(10) ** -20, problem.network.weights
    with mp.workdps(80):
        there = []
        for sign in (1, -1):
            sigma = to_mp(problem.task.sigma_yx) + sign * step * to_mp(dS)
            when = [mp.mpf(t) + sign * step * mp.mpf(d) for t, d in zip(times, dt, strict=True)]
            there.append(riccati_mp.grams(W1, W2, sigma, when, lam=problem.facts.lam[0], c=C))
        return np.stack([to_float((ahead - behind) / (2 * step)) for ahead, behind in zip(*there, strict=True)])


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_of_solve_and_fate(name):
    _, problem = case(name)
    weights, S = list(problem.network.weights), problem.task.sigma_yx
    exact = lr.solve(problem, TIMES, method="riccati")
    assert np.abs(jax_gram(weights, S, TIMES) - exact.gram).max() < 1e-12 * np.abs(exact.gram).max()
    times = lr.jax.half_times(weights, S, input_scale=C)
    np.testing.assert_allclose(times, lr.fate(problem).half_times, rtol=1e-11)


@pytest.mark.parametrize("name", ["square", "tiny bottleneck", "wider than inputs"])
def test_derivatives_by_weights_target_and_times(name):
    rng, problem = case(name)
    weights, S, times = list(problem.network.weights), problem.task.sigma_yx, TIMES[1:5]
    W1, W2 = weights
    X, dS, dt = rng.normal(size=S.shape), rng.normal(size=S.shape), rng.normal(size=times.shape)
    balanced = [W2.T @ X + W1, X @ W1.T + W2]  # λ moves too, where there is one
    given, still = (weights, S, times), ([0 * W1, 0 * W2], 0 * S, 0 * times)
    forward = jax.jit(lambda moves: jax.jvp(jax_gram, given, moves)[1])
    by_weights, by_task = forward((balanced, *still[1:])), forward((still[0], dS, dt))
    exact = lr.sensitivity(problem, balanced, times)
    assert exact.exact
    assert np.abs(by_weights - exact.gram).max() < 1e-11 * np.abs(exact.gram).max()
    slope = differences(problem, dS, times, dt)
    assert np.abs(by_task - slope).max() < 1e-11 * np.abs(slope).max()
    back = rng.normal(size=by_task.shape)
    to_weights, to_S, to_times = jax.jit(lambda seed: jax.vjp(jax_gram, *given)[1](seed))(back)
    by_hand = sum(np.sum(g * d) for g, d in zip(to_weights, balanced, strict=True))
    np.testing.assert_allclose(by_hand, np.sum(by_weights * back), rtol=1e-10)
    np.testing.assert_allclose(np.sum(to_S * dS) + np.sum(to_times * dt), np.sum(by_task * back), rtol=1e-10)


@pytest.mark.parametrize("name", ["tiny bottleneck", "wider than inputs"])
def test_half_times_move_as_sensitivity_says(name):
    rng, problem = case(name)
    W1, W2 = problem.network.weights
    X = rng.normal(size=(len(W2), W1.shape[1]))
    balanced = [W2.T @ X, X @ W1.T]
    times = lambda W: lr.jax.half_times(W, problem.task.sigma_yx, input_scale=C)
    moved = jax.jit(lambda moves: jax.jvp(times, ([W1, W2],), (moves,))[1])(balanced)
    expected = lr.sensitivity(problem, balanced, [0.0]).half_times
    there = np.isfinite(expected)
    assert there.any()
    np.testing.assert_allclose(np.asarray(moved)[there], expected[there], rtol=1e-8)


def test_half_times_near_the_end_are_those_of_what_is_left():
    weights, left = [[[2.001**0.5]]] * 2, (2.0 - 2.001) / 2.001
    expected = np.log(left * 2.0005 / (2.0 - 2.0005)) / 4  # (s − a)/a falls as e^{−2st}
    np.testing.assert_allclose(np.asarray(lr.jax.half_times(weights, [[2.0]])), [expected], rtol=1e-10)


SIGMA, RUN = np.random.default_rng(0).normal(size=(3, 4)), np.linspace(0.0, 6.0, 7)
PARAMETERS = np.array([0.3, 0.5, 1.1, 1.0])


def of_parameters(p):
    """As in a fit: λ, scale, rate, and the size of the target."""
    weights = lr.jax.lambda_balanced(3, sizes=(4, 2, 3), lam=p[0], scale=p[1])
    return lr.jax.loss(weights, p[3] * SIGMA, p[2] * RUN).sum()


def by_numpy(p):
    network = lr.inits.lambda_balanced(3, sizes=(4, 2, 3), lam=p[0], scale=p[1])
    sigma_yx = p[3] * SIGMA
    functions = lr.solve(lr.Problem(lr.Task.from_correlations(sigma_yx), network), p[2] * RUN).function
    return np.sum((functions - sigma_yx) ** 2) / 2


def slopes(f, p, step):
    """Central differences of fourth order."""
    ahead = lambda e, i: np.asarray(f(p + e * np.eye(len(p))[i]))
    one = lambda e, i: ahead(e, i) - ahead(-e, i)
    return np.stack([(8 * one(step, i) - one(2 * step, i)) / (12 * step) for i in range(len(p))])


def test_a_fit_has_a_gradient():
    value, gradient = jax.jit(jax.value_and_grad(of_parameters))(PARAMETERS)
    np.testing.assert_allclose(value, by_numpy(PARAMETERS), rtol=1e-12)
    np.testing.assert_allclose(gradient, slopes(by_numpy, PARAMETERS, 2e-4), rtol=1e-8)


@pytest.mark.long
@pytest.mark.parametrize("lam", [0.3, 0.0, -0.3])
def test_a_fit_has_second_derivatives(lam):
    p, gradient = PARAMETERS * [lam / 0.3, 1.0, 1.0, 1.0], jax.jit(jax.grad(of_parameters))
    np.testing.assert_allclose(jax.jit(jax.hessian(of_parameters))(p), slopes(gradient, p, 2e-4), rtol=1e-7, atol=1e-7)


@pytest.mark.long
def test_second_derivative_of_a_half_time():
    """One mode, W1 = W2 = x: e^{2st} = (s + x²)/x²."""
    x, s = 0.1, 2.0
    of_x = lambda x: lr.jax.half_times([jax.numpy.reshape(x, (1, 1))] * 2, [[s]])[0]
    slope, curvature = jax.jit(jax.grad(of_x))(x), jax.jit(jax.grad(jax.grad(of_x)))(x)
    np.testing.assert_allclose(slope, (2 * x / (s + x**2) - 2 / x) / (2 * s), rtol=1e-11)
    expected = (2 / (s + x**2) - (2 * x / (s + x**2)) ** 2 + 2 / x**2) / (2 * s)
    np.testing.assert_allclose(curvature, expected, rtol=1e-10)


def test_maps_over_problems():
    many = np.array([[0.3, 0.2, 1.1, 1.0], [-0.5, 0.1, 0.9, 2.0], [0.0, 1e-3, 1.0, 0.5]])
    np.testing.assert_allclose(jax.jit(jax.vmap(of_parameters))(many), [by_numpy(p) for p in many], rtol=1e-11)


def test_derivatives_are_finite_at_the_start_and_late():
    _, problem = case("square")
    gradient = jax.grad(lambda W: lr.jax.loss(W, problem.task.sigma_yx, np.array([0.0, 1e6]), input_scale=C).sum())
    for g in gradient(list(problem.network.weights)):
        assert np.isfinite(g).all()


def test_a_separatrix_is_kept():
    """Square and of the wrong sign: the weakest mode is missed, as in `solve`; equal and absent modes too."""
    for S in (np.diag([2.0, 1.0, 0.5]), np.diag([2.0, 1.0, 1.0]), np.diag([2.0, 1.0, 0.0])):
        task = lr.Task.from_correlations(S)
        networks = [lr.inits.zero_balanced(i, sizes=(3, 3, 3), scale=0.2) for i in range(4)]
        for network in networks:
            exact = lr.solve(lr.Problem(task, network), [0.0, 3.0, 300.0], method="riccati").function
            assert np.abs(lr.jax.function(network.weights, S, [0.0, 3.0, 300.0]) - exact).max() < 1e-11


def test_times_of_any_shape():
    _, problem = case("square")
    weights, S = problem.network.weights, problem.task.sigma_yx
    assert lr.jax.function(weights, S, 1.0).shape == (3, 3)
    assert lr.jax.loss(weights, S, np.ones((2, 3))).shape == (2, 3)
    assert lr.jax.mode_strengths(weights, S, [1.0, 2.0]).shape == (2, 3)


def test_loss_is_that_of_the_task(rng):
    task = lr.Task.from_data(rng.normal(size=(50, 3)), rng.normal(size=(50, 2))).whitened()
    problem = lr.Problem(task, lr.inits.lambda_balanced(0, sizes=(3, 2, 2), lam=0.3, scale=0.1))
    got = lr.jax.loss(
        problem.network.weights, task.sigma_yx, [0.0, 2.0, 9.0], input_scale=task.input_scale, floor=task.loss_floor
    )
    np.testing.assert_allclose(got, lr.solve(problem, [0.0, 2.0, 9.0]).loss, rtol=1e-12)


class TestWeights:
    @pytest.mark.parametrize(
        ("sizes", "lam"),
        [((5, 3, 4), 2.0), ((5, 3, 4), -2.0), ((5, 3, 4), 0.0), ((2, 3, 4), 0.7), ((4, 3, 2), -0.7), ((2, 6, 3), 0.0)],
    )
    def test_those_of_inits(self, sizes, lam):
        W1, W2 = map(np.asarray, lr.jax.lambda_balanced(7, sizes=sizes, lam=lam, scale=0.3))
        given = lr.inits.lambda_balanced(7, sizes=sizes, lam=lam, scale=0.3).weights
        gram = lambda A, B: (Q := np.concatenate([A.T, B])) @ Q.T
        assert np.abs(gram(W1, W2) - gram(*given)).max() < 1e-14
        if lam:
            assert np.abs(W1 - given[0]).max() < 1e-14 and np.abs(W2 - given[1]).max() < 1e-14

    def test_wider_than_both_has_no_balance_but_zero(self):
        with pytest.raises(lr.InvalidInput, match=r"lam must be 0 where the hidden layer \(6\) is wider"):
            lr.jax.lambda_balanced(0, sizes=(2, 6, 3), lam=0.1, scale=0.1)


class TestMessages:
    def test_single_precision(self):
        with (
            jax.enable_x64(False),
            pytest.raises(lr.InvalidInput, match=r"try it inside `with jax.enable_x64\(True\):`"),
        ):
            lr.jax.function([np.eye(2), np.eye(2)], np.eye(2), 1.0)

    @pytest.mark.parametrize(
        ("weights", "sigma", "times", "words"),
        [
            ([np.eye(2), np.diag([1.0, 2.0])], np.eye(2), 1.0, "weights must be balanced: it needs layers with W2ᵀW2"),
            ([np.eye(2)], np.eye(2), 1.0, "weights must list two arrays, W1 and W2, and it has 1"),
            ([np.eye(2), np.eye(2)], np.eye(2), -1.0, "times must not be negative, and the least is -1"),
            ([np.eye(2), np.eye(2)], np.eye(2), np.inf, "times must be finite"),
            ([np.eye(2), np.eye(2)], np.eye(3), 1.0, "network must map the task's 3 inputs"),
        ],
    )
    def test_known_numbers(self, weights, sigma, times, words):
        with pytest.raises(lr.InvalidInput, match=words):
            lr.jax.function(weights, sigma, times)

    def test_traced_shapes(self):
        with pytest.raises(lr.InvalidInput, match="weights and sigma_yx must be h × in, out × h and out × in"):
            jax.jit(lambda W: lr.jax.function([W, W], np.eye(3), 1.0))(np.eye(2))


@pytest.mark.processes
def test_without_jax_it_says_what_to_install():
    code = (
        "import sys; sys.modules['jax'] = None\nimport lazyrich as lr\n"
        "try: lr.jax.half_times([[[1.0]], [[1.0]]], [[1.0]])\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "lazyrich.jax needs jax: pip install 'lazyrich[engines]'." in done.stdout, done.stderr
