"""The oracles against each other: two that agree to 1e-25 and share no formula are unlikely both wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mpmath import mp

from . import integrate, riccati_mp, starts_mp, taylor_mp
from .starts_mp import to_float

REFLECTION = np.array([[0.6, 0.8], [0.8, -0.6]])

# sizes, λ, target (None: Gaussian), what else
TINY: dict[str, tuple[tuple[int, int, int], float, Any, dict[str, Any]]] = {
    "scalar": ((1, 1, 1), 0.0, None, {}),
    "scalar, λ": ((1, 1, 1), -0.8, None, {}),
    "wide hidden layer": ((2, 3, 2), 0.0, None, {}),
    "bottleneck, λ > 0": ((3, 1, 2), 0.7, None, {}),
    "bottleneck, λ < 0": ((3, 2, 2), -0.4, None, {"c": 0.125}),
    "rates and inputs": ((2, 2, 3), 1.5, None, {"rates": (2.0, 0.3), "c": 0.5}),
    "rates, λ = 0": ((2, 1, 2), 0.0, None, {"rates": (0.5, 3.0)}),
    "repeated singular values": ((2, 2, 2), 0.0, 1.5 * REFLECTION, {}),
    "repeated singular values, λ": ((2, 2, 2), 0.9, 1.5 * REFLECTION, {}),
    "rank-deficient target": ((2, 2, 2), 0.3, np.array([[1.0, 2.0], [0.5, 1.0]]), {}),
    "zero target": ((2, 2, 1), 0.0, np.zeros((1, 2)), {}),
    "weight decay": ((2, 2, 2), 0.0, None, {"gamma": 0.3, "rates": (2.0, 2.0), "c": 0.5}),
}


def distance(A: Any, B: Any) -> float:
    with mp.workdps(60):
        return float(mp.mnorm(A - B, "f") / (1 + mp.mnorm(A, "f")))


@pytest.mark.long
@pytest.mark.parametrize("name", TINY)
def test_closed_form_follows_the_taylor_series(name):
    (d_in, h, d_out), lam, target, options = TINY[name]
    rng = np.random.default_rng(len(name))
    W = starts_mp.lambda_balanced_mp(rng, d_in, h, d_out, lam, 0.4, rates=options.get("rates", (1, 1)))
    sigma_yx = rng.normal(size=(d_out, d_in)) if target is None else target
    exact = riccati_mp.gram(*W, sigma_yx, 1.7, lam=lam, **options)
    series = taylor_mp.gram(*W, sigma_yx, 1.7, digits=32, **options)
    assert distance(exact, series) < 1e-25


@pytest.mark.long
@pytest.mark.parametrize("sign", [1, -1])
def test_closed_form_follows_the_taylor_series_on_and_off_the_separatrix(sign):
    sigma_yx = np.diag([2.0, 1.0])
    W = starts_mp.zero_balanced_mp(np.random.default_rng(3), 2, 2, 2, 0.3, sign=sign, target=sigma_yx)
    exact, series = riccati_mp.gram(*W, sigma_yx, 6, lam=0), taylor_mp.gram(*W, sigma_yx, 6, digits=36)
    assert distance(exact, series) < 1e-25
    assert mp.det(exact[2:, :2]) * sign > 0


@pytest.mark.parametrize("lam, sign", [(0.0, 1), (0.0, -1), (2.5, None), (-2.5, None)])
def test_the_digits_suffice(lam, sign):
    rng = np.random.default_rng(5)
    W = (
        starts_mp.lambda_balanced_mp(rng, 4, 4, 4, lam, 1e-3)
        if lam
        else starts_mp.zero_balanced_mp(rng, 4, 4, 4, 1e-3, sign=sign)
    )
    sigma_yx = np.diag([1.0, 0.7, 0.7, 0.1])
    times = [0.0, 5.0, 60.0, 300.0]
    chosen = riccati_mp.grams(*W, sigma_yx, times, lam=lam)
    more = riccati_mp.grams(*W, sigma_yx, times, lam=lam, digits=800)
    assert max(distance(a, b) for a, b in zip(chosen, more, strict=True)) < 1e-35


def test_the_separatrix_is_kept_at_late_times_by_exact_starts_only():
    sigma_yx, rng = np.diag([1.0, 0.8, 0.5]), np.random.default_rng(6)
    W = starts_mp.zero_balanced_mp(rng, 3, 4, 3, 0.2, sign=-1, target=sigma_yx)
    saddle = riccati_mp.gram_float(*W, sigma_yx, [300.0], lam=0)[0][3:, :3]
    np.testing.assert_allclose(saddle, np.diag([1.0, 0.8, 0.0]), atol=1e-15)
    rounded = riccati_mp.gram_float(*map(to_float, W), sigma_yx, [300.0], lam=0)[0][3:, :3]
    np.testing.assert_allclose(np.abs(rounded[2, 2]), 0.5, atol=1e-15)


@pytest.mark.parametrize(
    "sizes, lam, options",
    [
        ((4, 5, 3), 0.0, {}),
        ((6, 2, 5), 1.3, {"c": 0.125}),
        ((5, 4, 6), -2.0, {"rates": (0.5, 3.0), "c": 2.0}),
        ((4, 3, 6), 30.0, {}),
        ((3, 3, 5), 0.0, {"gamma": 0.4}),
        ((7, 1, 1), -0.5, {"rates": (2.0, 1.0)}),
    ],
)
def test_closed_form_follows_scipy(sizes, lam, options):
    rng = np.random.default_rng(7)
    rates = options.get("rates", (1, 1))
    W = starts_mp.lambda_balanced_mp(rng, *sizes, lam, 0.3, rates=rates)
    sigma_yx, times = rng.normal(size=(sizes[2], sizes[0])), np.array([0.0, 0.1, 1.0, 4.0])
    exact = riccati_mp.gram_float(*W, sigma_yx, times, lam=lam, **options)
    sigma_xx, gamma = options.get("c", 1.0) * np.eye(sizes[0]), options.get("gamma", 0.0)
    flow = integrate.gram([to_float(w) for w in W], sigma_yx, sigma_xx, times, rates, gamma)
    np.testing.assert_allclose(exact, flow, atol=1e-9)


@pytest.mark.parametrize("sizes, lam", [((5, 3, 4), 0), ((2, 7, 3), 0), ((2, 4, 5), 1.7), ((6, 4, 1), -0.3)])
@pytest.mark.parametrize("rates", [(1, 1), (0.3, 2)])
def test_starts_are_balanced(sizes, lam, rates):
    W1, W2 = starts_mp.lambda_balanced_mp(np.random.default_rng(8), *sizes, lam, 0.5, rates=rates)
    assert (W1.cols, W1.rows, W2.cols, W2.rows) == (sizes[0], sizes[1], sizes[1], sizes[2])
    with mp.workdps(starts_mp.DIGITS):
        D = mp.mpf(rates[0]) * W2.T * W2 - mp.mpf(rates[1]) * W1 * W1.T
        assert mp.mnorm(D - mp.mpf(lam) * mp.eye(sizes[1]), "f") < mp.mpf(10) ** (10 - starts_mp.DIGITS)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size, h", [(1, 1), (2, 2), (3, 5)])
def test_starts_have_the_sign_asked_for(size, h, sign):
    rng = np.random.default_rng(9)
    for _ in range(8):
        target = rng.normal(size=(size, size))
        W1, W2 = map(to_float, starts_mp.zero_balanced_mp(rng, size, h, size, 1.0, sign=sign, target=target))
        assert np.linalg.det(W2 @ W1) * np.linalg.det(target) * sign > 0
        np.testing.assert_allclose(W2.T @ W2, W1 @ W1.T, atol=1e-14)


def test_starts_take_either_sign_if_none_is_asked_for():
    rng = np.random.default_rng(10)
    starts = [starts_mp.zero_balanced_mp(rng, 2, 2, 2, 1.0, digits=30) for _ in range(60)]
    assert 18 <= sum(np.linalg.det(to_float(W2 * W1)) > 0 for W1, W2 in starts) <= 42


@pytest.mark.parametrize("L, a0", [(2, 1e-3), (3, 1e-3), (4, 0.1), (7, 0.05), (3, 2.5)])
def test_deep_modes_follow_scipy_and_the_printed_time(L, a0):
    s, times = 1.3, np.array([0.0, 0.7, 3.0, 20.0])
    a = [taylor_mp.deep_mode_mp(L, s, a0, t) for t in times]
    layers = [np.array([[a0 ** (1 / L)]])] * L
    flow = integrate.function(layers, [[s]], None, times)[:, 0, 0]
    np.testing.assert_allclose(np.array(a, dtype=float), flow, atol=1e-9)
    if L == 2:
        with mp.workdps(50):
            growth = mp.expm1(2 * mp.mpf(s) * 3) * a0
            assert abs(a[2] - (growth + a0) * s / (s + growth)) < 1e-45
    elif a0 < s:
        with mp.workdps(50):
            p, S = mp.mpf(2) / L - 1, mp.mpf(s)
            Phi = [u**p / (S * p) * mp.hyp2f1(1, p, p + 1, u / S) for u in (mp.mpf(a0), a[2])]
            assert abs((Phi[1] - Phi[0]) / L - times[2]) < 1e-40


@pytest.mark.parametrize("b0", [(0.1, 0.2, 0.3), (-0.4, 0.5, 0.9, 0.7), (0.0, 0.3), (2.0, 1.0, 1.5)])
def test_sizes_in_unequal_layers_follow_scipy(b0):
    rates, times = [0.5, 1.0, 2.0, 0.7][: len(b0)], [0.4, 2.0]
    flow = integrate.weights([np.array([[b]]) for b in b0], [[1.3]], [[0.8]], times, rates)
    for i, t in enumerate(times):
        b = taylor_mp.deep_sizes_mp(b0, rates, 1.3, 0.8, t)
        np.testing.assert_allclose([float(x) for x in b], [W[i, 0, 0] for W in flow], atol=1e-11)


@pytest.mark.parametrize("lam, a0", [(0.0, 0.01), (0.5, 0.01), (-0.5, -0.3), (6.0, 2.0), (0.0, -0.3)])
def test_modes_follow_scipy_and_the_closed_form_for_two_layers(lam, a0):
    s, t = 1.3, 2.5
    with mp.workdps(60):  # h = 1: W2² − W1² = λ, W2 W1 = a0
        W2 = mp.sqrt((mp.sqrt(mp.mpf(lam) ** 2 + 4 * mp.mpf(a0) ** 2) + lam) / 2)
        W1 = a0 / W2
    a = taylor_mp.mode_mp(lam, s, a0, t)
    start = [np.array([[float(W1)]]), np.array([[float(W2)]])]
    assert float(a) == pytest.approx(integrate.function(start, [[s]], None, [t])[0, 0, 0], abs=1e-11)
    exact = riccati_mp.gram(mp.matrix([[W1]]), mp.matrix([[W2]]), np.array([[s]]), t, lam=lam)[1, 0]
    with mp.workdps(50):
        assert abs(a - exact) < 1e-35


def test_scipy_follows_minus_the_gradient_of_the_loss():
    rng = np.random.default_rng(11)
    W = [rng.normal(size=shape) for shape in ((3, 2), (4, 3), (2, 4))]
    X, Y, rates, gamma, dt = rng.normal(size=(9, 2)), rng.normal(size=(9, 2)), (1.0, 0.4, 2.0), 0.3, 1e-4

    def loss(layers):
        errors = Y.T - layers[2] @ layers[1] @ layers[0] @ X.T
        return 0.5 * np.sum(errors**2) / len(X) + 0.5 * gamma * sum(np.sum(w**2) for w in layers)

    path = integrate.weights(W, Y.T @ X / 9, X.T @ X / 9, dt * np.arange(5), rates, gamma)
    for layer, eta in enumerate(rates):
        velocity = np.tensordot([-25 / 12, 4, -3, 4 / 3, -1 / 4], path[layer], axes=1) / dt  # to O(dt⁴)
        for index in np.ndindex(W[layer].shape):
            up, down = [w.copy() for w in W], [w.copy() for w in W]
            up[layer][index] += 0.1  # the loss is quadratic in each weight: the difference is exact
            down[layer][index] -= 0.1
            assert velocity[index] == pytest.approx(-eta * (loss(up) - loss(down)) / 0.2, abs=1e-7)


def test_what_is_refused():
    rng, one = np.random.default_rng(0), np.ones((1, 1))
    with pytest.raises(ValueError, match=r"max\|w\|·t = 3000 .* takes \d+ digits"):
        riccati_mp.gram(one, one, 3 * one, 1000, lam=0)
    with pytest.raises(ValueError, match="equal rates"):
        riccati_mp.gram(one, one, one, 1, lam=0, rates=(1, 2), gamma=0.1)
    with pytest.raises(ValueError, match="shapes do not fit"):
        riccati_mp.gram(one, one, np.ones((2, 1)), 1, lam=0)
    with pytest.raises(ValueError, match="needs h <= d_out; got 2-3-2"):
        starts_mp.lambda_balanced_mp(rng, 2, 3, 2, 1.0, 0.1)
    with pytest.raises(ValueError, match="d_in = d_out"):
        starts_mp.zero_balanced_mp(rng, 2, 3, 4, 0.1, sign=1)
    with pytest.raises(ValueError, match="do not decrease"):
        integrate.weights([one], one, None, [1.0, 0.5])
