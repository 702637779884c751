"""Critical points against numerical Hessians, root finding, and the flow from beside them."""

from __future__ import annotations

import itertools
from functools import reduce

import numpy as np
import pytest
from oracles import integrate
from problems import SEEDS
from scipy.optimize import least_squares

import lazyrich as lr
from lazyrich.landscape.critical_points import critical_points, escape, network_at

VALUES = (3.0, 2.2, 1.5, 0.8)


def slope(weights, yx, xx):
    """∂loss/∂W_ℓ as one vector, from the derivative of each factor of the product; weights may be complex."""
    multiply = lambda matrices, size: reduce(lambda product, M: M @ product, matrices, np.eye(size))
    E = multiply(weights, len(xx)) @ xx - yx
    parts = []
    for layer in range(len(weights)):
        after = multiply(weights[layer + 1 :], weights[layer].shape[0])
        parts.append(after.T @ E @ multiply(weights[:layer], len(xx)).T)
    return np.concatenate([part.ravel() for part in parts])


def unpack(theta, shapes):
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(theta, ends), shapes, strict=True)]


def brute_force(weights, yx, xx):
    """The Hessian, column by column, by complex step."""
    shapes, theta = [W.shape for W in weights], np.concatenate([W.ravel() for W in weights])
    steps = theta + 1e-30j * np.eye(len(theta))
    return np.array([slope(unpack(step, shapes), yx, xx).imag / 1e-30 for step in steps])


def negative(H):
    """Eigenvalues below −1e-7 of the largest, as rates, fastest first."""
    w = np.linalg.eigvalsh((H + H.T) / 2)
    return -w[w < -1e-7 * np.abs(w).max(initial=1e-300)]


def random_case(seed):
    """A task and hidden widths: depth 2 to 4, equal or missing modes, any inputs, bottlenecks, any scale."""
    rng = np.random.default_rng((7, seed))
    depth = (2, 3, 2, 3, 4)[seed % 5]
    d_in, d_out = (int(n) for n in rng.integers(2 if seed % 10 else 1, 6, size=2))
    hidden = tuple(int(n) for n in rng.integers(1, 6, size=depth - 1))
    s = np.array(VALUES[: min(d_in, d_out, 4)])
    if seed % 3 == 1:
        s[1:3] = s[:1]  # two or three equal ones at the top
    if seed % 3 == 2:
        s[-2:-1] = s[-1:]  # two equal ones at the bottom
    if seed % 4 == 3:
        s[-1] = 0.0
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0][:, : len(s)] for d in (d_out, d_in))
    M = (1e-8, 1.0, 1.0, 1.0, 1e6)[seed // 2 % 5] * (U * s) @ V.T  # Σyx Σxx^{−1/2}
    kind = ("white", "scaled", "any", "samples", "singular")[seed // 3 % 5]
    if kind in ("white", "scaled"):
        c = 1.0 if kind == "white" else 0.3
        return lr.Task.from_correlations(np.sqrt(c) * M, c * np.eye(d_in)), hidden, s
    mix = rng.normal(size=(d_in, d_in)) + 2 * np.eye(d_in)
    if kind == "any":
        d, R = np.linalg.eigh(mix @ mix.T)
        return lr.Task.from_correlations(M @ (R * np.sqrt(d)) @ R.T, mix @ mix.T), hidden, s
    P, unseen = 9, 2 if kind == "singular" else 0
    left = np.linalg.qr(rng.normal(size=(P, P)))[0]
    X = np.sqrt(P) * left[:, :d_in] @ np.hstack([mix.T, np.zeros((d_in, unseen))])
    noise = np.linalg.norm(M) * left[:, d_in:] @ rng.normal(size=(P - d_in, d_out))
    return lr.Task.from_data(X, np.sqrt(P) * left[:, :d_in] @ M.T + noise), hidden, s


def loss_of(task, W):
    """From the samples where there are any."""
    if task.inputs is not None:
        return np.mean(np.sum((task.targets - task.inputs @ W.T) ** 2, axis=1)) / 2
    return np.trace(W @ task.sigma_xx @ W.T) / 2 - np.sum(W * task.sigma_yx) + np.trace(task.sigma_yy) / 2


def test_index_loss_and_escape_of_random_cases(record_property):
    """50 tasks and widths, every point of each: no slope, the right loss, index, rates and directions."""
    checked, exchanged = 0, set()
    for seed in SEEDS:
        task, hidden, s = random_case(seed)
        k, h, L = np.count_nonzero(s), min(hidden), len(hidden) + 1
        points = critical_points(task, hidden)
        families = itertools.product(*(range(np.sum(s == value) + 1) for value in set(s) - {0.0}))
        assert len(points) == sum(sum(taken) <= h for taken in families)
        for point in points:
            network, rates, directions = escape(point, rng=seed)
            weights, S = network.weights, list(point.modes)
            np.testing.assert_allclose(network.function, point.function, atol=1e-12 * np.linalg.norm(task.target))
            norm = sum(np.linalg.norm(W) ** 2 for W in weights) ** ((L - 1) / 2) * np.linalg.norm(task.sigma_yx)
            assert np.linalg.norm(slope(weights, task.sigma_yx, task.sigma_xx)) <= 1e-12 * norm
            assert abs(point.loss - loss_of(task, point.function)) <= 1e-12 * np.trace(task.sigma_yy)

            H = brute_force(weights, task.sigma_yx, task.sigma_xx)
            size, expected = np.linalg.norm(H), negative(H)
            swaps = sum(s[a] > s[b] for a in set(range(k)) - set(S) for b in S)
            assert len(expected) == point.index == swaps + ((k - len(S)) * (h - len(S)) if L == 2 else 0)
            np.testing.assert_allclose(rates, expected, rtol=0, atol=1e-11 * size)
            np.testing.assert_allclose(point.rates, rates, rtol=0, atol=1e-11 * size)
            D = np.concatenate([part.reshape(len(rates), np.prod(part.shape[1:])) for part in directions], axis=1)
            np.testing.assert_allclose(D @ H, -rates[:, None] * D, rtol=0, atol=1e-11 * size)
            np.testing.assert_allclose(D @ D.T, np.eye(len(rates)), atol=1e-9)
            checked += 1
            exchanged |= {(L, task.whitening_error < 1e-12)} if swaps else set()
        assert [point.loss for point in points] == sorted(point.loss for point in points)
        assert [point.kind == "global minimum" for point in points] == [True] + [False] * (len(points) - 1)
    record_property("figure", f"Hessian index, {len(SEEDS)} cases, depths 2 to 4: {checked} points, all right")
    assert checked > 200
    assert exchanged == set(itertools.product((2, 3, 4), (True, False)))  # every depth, white inputs and others


def test_index_is_the_same_for_all_factors_of_the_same_rank():
    """Hidden layers turned and stretched by any invertible matrix: no longer balanced."""
    rng = np.random.default_rng(0)
    for seed in SEEDS:
        task, hidden, _ = random_case(seed)
        for point in critical_points(task, hidden):
            turn = lambda size: np.linalg.qr(rng.normal(size=(size, size)))[0]
            stretched = [turn(h) @ np.diag(rng.uniform(0.5, 2, size=h)) @ turn(h) for h in hidden]
            G = [np.eye(task.d_in), *stretched, np.eye(task.d_out)]
            weights = [
                new @ W @ np.linalg.inv(old)
                for W, (old, new) in zip(network_at(point).weights, itertools.pairwise(G), strict=True)
            ]
            assert len(negative(brute_force(weights, task.sigma_yx, task.sigma_xx))) == point.index


def test_layers_of_higher_rank_curve_more(rng):
    """Three layers whose product is zero: not strict with all of them zero, strict with the middle one left."""
    yx = np.linalg.qr(rng.normal(size=(4, 4)))[0][:, :3] * [2.0, 1.0, 0.5]
    origin = critical_points(lr.Task.from_correlations(yx), (5, 5))[-1]
    assert origin.index == len(negative(brute_force(network_at(origin).weights, yx, np.eye(3)))) == 0
    for rank in (1, 2, 5):
        middle = rng.normal(size=(5, rank)) @ rng.normal(size=(rank, 5))
        weights = [np.zeros((5, 3)), middle, np.zeros((4, 5))]
        assert len(negative(brute_force(weights, yx, np.eye(3)))) == 3 * rank


@pytest.mark.parametrize("hidden", [5, (4, 3)])
def test_equal_modes_make_one_family(rng, hidden):
    """Any subspace of the right dimension is as good: same loss, same index; `dimension` counts the ways to turn it."""
    s = np.array([2.0, 1.0, 1.0, 1.0, 0.5])
    U, V = (np.linalg.qr(rng.normal(size=(5, 5)))[0] for _ in range(2))
    task = lr.Task.from_correlations((U * s) @ V.T)
    points = critical_points(task, hidden)
    assert len({point.modes for point in points}) == len(points) == (16 if hidden == 5 else 12)
    for point in points:
        taken = len({1, 2, 3} & set(point.modes))
        spin = np.eye(5)
        spin[1:4, 1:4] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        keep = [1.0 if i in point.modes else 0.0 for i in range(5)]
        W = (U * s) @ spin @ np.diag(keep) @ spin.T @ V.T
        assert loss_of(task, W) == pytest.approx(point.loss, abs=1e-12)
        A, a, Bt = np.linalg.svd(W)
        frames = [Bt.T, *(np.eye(h, 5) for h in np.atleast_1d(hidden)), A]
        weights = [
            (new[:, : point.rank] * a[: point.rank] ** (1 / (len(frames) - 1))) @ old[:, : point.rank].T
            for old, new in itertools.pairwise(frames)
        ]
        assert len(negative(brute_force(weights, task.sigma_yx, task.sigma_xx))) == point.index
        turns = []
        for i, j in itertools.combinations((1, 2, 3), 2):  # d/dφ of a turn in the plane of i and j
            turn = np.zeros((5, 5))
            turn[i, j], turn[j, i] = 1.0, -1.0
            P = np.diag(keep)
            turns.append((turn @ P - P @ turn).ravel())
        assert point.dimension == np.linalg.matrix_rank(turns) == taken * (3 - taken)


@pytest.mark.long
@pytest.mark.parametrize("hidden", [2, (3, 2)])
def test_there_are_no_others(hidden):
    """Wherever root finding ends, the loss is one of those listed."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(12, 3)), rng.normal(size=(12, 3))
    task = lr.Task.from_data(X, Y)
    listed = np.array([point.loss for point in critical_points(task, hidden)])
    sizes = (3, *np.atleast_1d(hidden), 3)
    shapes = [(out, into) for into, out in itertools.pairwise(sizes)]
    reached = set()
    sigmas = task.sigma_yx, task.sigma_xx
    f, jac = (lambda theta, g=g: g(unpack(theta, shapes), *sigmas) for g in (slope, brute_force))
    for _ in range(25):
        start = rng.normal(size=sum(int(np.prod(shape)) for shape in shapes))
        run = least_squares(f, start, jac, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=200)
        if np.linalg.norm(run.fun) < 1e-13:
            loss = loss_of(task, reduce(lambda product, W: W @ product, unpack(run.x, shapes)))
            assert np.abs(listed - loss).min() < 1e-8
            reached.add(int(np.abs(listed - loss).argmin()))
    assert len(reached) >= 4


@pytest.mark.parametrize("hidden", [3, (3, 4), (2, 3, 2)])
@pytest.mark.parametrize("correlated", [False, True])
def test_the_flow_leaves_along_the_directions_at_the_rates(rng, hidden, correlated):
    """Half the difference of the ways from +ε and −ε, after e-fold growth: ε·e·direction up to (εe)²."""
    U, V = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    xx = 0.5 * np.eye(3)
    if correlated:
        mix = rng.normal(size=(3, 3)) + 2 * np.eye(3)
        xx = mix @ mix.T / 5
    task = lr.Task.from_correlations((U * [2.0, 1.2, 0.6]) @ V.T, xx)
    saddle = next(point for point in critical_points(task, hidden) if point.modes == (1, 2))
    network, rates, directions = escape(saddle, rng)
    assert len(rates) == saddle.index > 0
    eps = 1e-4
    for i in (0, len(rates) - 1):
        push = [part[i] for part in directions]
        ends = [
            integrate.weights(
                [W + sign * eps * D for W, D in zip(network.weights, push, strict=True)],
                task.sigma_yx,
                task.sigma_xx,
                [1 / rates[i]],
            )
            for sign in (1, -1)
        ]
        for plus, minus, D in zip(*ends, push, strict=True):
            np.testing.assert_allclose((plus - minus)[0] / (2 * eps * np.e), D, atol=1e-6)


def test_saddles_without_negative_curvature_are_left_algebraically():
    """Three layers, a push ε of the missing mode in each: ċ = s c², so that c = ε/(1 − εst), not ε·e^{st}."""
    task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
    saddle = next(point for point in critical_points(task, (2, 2)) if point.modes == (0,))
    assert (saddle.kind, saddle.index) == ("non-strict saddle", 0)
    assert len(saddle.rates) == 0 and all(len(part) == 0 for part in escape(saddle).directions)
    eps, t = 1e-4, np.array([3.0, 30.0, 3000.0])
    start = np.diag([2 ** (1 / 3), eps])
    W = integrate.weights([start] * 3, task.sigma_yx, None, t)[1]
    np.testing.assert_allclose(W[:, 1, 1], eps / (1 - eps * t), rtol=1e-9)


def test_kinds_and_words():
    task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
    kinds = {point.modes: point.kind for point in critical_points(task, (2, 5))}
    assert kinds == {
        (0, 1): "global minimum",
        (0, 2): "strict saddle",
        (1, 2): "strict saddle",
        (0,): "non-strict saddle",
        (1,): "strict saddle",
        (2,): "strict saddle",
        (): "non-strict saddle",
    }
    minimum, *saddles = critical_points(task, 2)
    assert len(minimum.rates) == 0
    assert minimum.loss == pytest.approx(0.5)  # ½ s² of the mode for which there is no room
    assert {point.kind for point in saddles} == {"strict saddle"}
    assert repr(minimum) == ("CriticalPoint(modes=(0, 1), loss=0.5, index=0, kind='global minimum', dimension=0)")


def test_the_modes_are_those_of_the_whitened_inputs():
    """Weak correlation with a rare input: first in Σyx Σxx^{−1/2}, last in Σyx."""
    task = lr.Task.from_correlations(np.diag([1.0, 0.2]), np.diag([1.0, 0.01]))
    best = critical_points(task, 1)[0]
    np.testing.assert_allclose(best.function, np.diag([0.0, 20.0]), atol=1e-12)
    assert best.loss == pytest.approx(0.5)


def test_nothing_to_learn():
    task = lr.Task.from_correlations(np.zeros((2, 3)), sigma_yy=np.eye(2))
    (origin,) = critical_points(task, 4)
    assert (origin.modes, origin.kind, origin.index, origin.loss) == ((), "global minimum", 0, 1.0)
    assert not network_at(origin).function.any()


def test_the_hidden_basis_is_random_and_the_fastest_can_be_asked_for():
    task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
    saddle = critical_points(task, 4)[3]
    first, again, other = (network_at(saddle, rng).weights for rng in (1, np.random.default_rng(1), 2))
    np.testing.assert_array_equal(first[0], again[0])
    assert np.abs(first[0] - other[0]).max() > 0.1
    every, some = escape(saddle, 1), escape(saddle, 1, fastest=2)
    np.testing.assert_array_equal(every.network.weights[0], first[0])
    np.testing.assert_array_equal(some.rates, every.rates[:2])
    for few, all_of_them in zip(some.directions, every.directions, strict=True):
        np.testing.assert_array_equal(few, all_of_them[:2])
    W1, W2 = first
    np.testing.assert_allclose(W2.T @ W2, W1 @ W1.T, atol=1e-14)


@pytest.mark.long
def test_many_modes():
    """All of 16 at once; of more, those of one rank, or those of the strongest."""
    s = np.linspace(2, 1, 40)
    sixteen = critical_points(lr.Task.from_correlations(np.diag(s[:16])), 16)
    assert len(sixteen) == 2**16 and sixteen[-1].index == 16 * 16
    task = lr.Task.from_correlations(np.diag(s))
    pairs = critical_points(task, 20, rank=2)
    assert {point.modes for point in pairs} == set(itertools.combinations(range(40), 2))
    assert pairs[0].index == 38 * 18 and pairs[0].loss == pytest.approx(np.sum(s[2:] ** 2) / 2)
    strongest = critical_points(task, 20, largest=3)
    assert {point.modes for point in strongest} == {m for r in range(4) for m in itertools.combinations(range(3), r)}
    assert {point.modes: point.index for point in strongest}[(2,)] == 39 * 19 + 2
    assert "global minimum" not in {point.kind for point in strongest}


TASK = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: critical_points(np.eye(2), 2), "task must be a lazyrich Task, and it is a ndarray"),
        (lambda: critical_points(TASK, 0), "hidden must be at least 1, and it is 0."),
        (lambda: critical_points(TASK, 2.5), "hidden must be a whole number, and it is 2.5."),
        (lambda: critical_points(TASK, (3, 0)), "each of hidden must be at least 1, and it is 0."),
        (
            lambda: critical_points(TASK, ()),
            "hidden must name one width at least, and it is empty: a single layer has no saddles.",
        ),
        (
            lambda: critical_points(TASK, 2, rank=3),
            "rank must be at most 2 (modes: 3, narrowest layer: 2), and it is 3.",
        ),
        (lambda: critical_points(TASK, 2, largest=0), "largest must be at least 1, and it is 0."),
        (
            lambda: critical_points(lr.Task.from_correlations(np.diag(np.arange(1.0, 18.0))), 20),
            "this task and width have 131072 critical points, and 65536 can be listed at once: try rank= (with so many "
            "modes) or largest= (of the so many strongest modes).",
        ),
        (
            lambda: network_at(TASK),
            "point must be a CriticalPoint, and it is a Task: critical_points(task, hidden) lists them.",
        ),
        (lambda: escape(None), "point must be a CriticalPoint, and it is a NoneType"),
        (lambda: escape(critical_points(TASK, 2)[1], fastest=0), "fastest must be at least 1, and it is 0."),
        (lambda: network_at(critical_points(TASK, 2)[1], "seed"), "rng must be a seed"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_refuses_what_does_not_fit(call, says):
    with pytest.raises(lr.InvalidInput) as caught:
        call()
    assert says in str(caught.value)
