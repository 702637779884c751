"""Potentials against 50-digit arithmetic, and their second derivatives against M⁻¹ of the actual networks."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf
from problems import SEEDS

import lazyrich as lr
from lazyrich.bias.function_space import deep_preconditioner, isotropic_preconditioner
from lazyrich.bias.potentials import deep_potential, single_neuron_potential
from lazyrich.papers.kunin2024.wide import hyperbolic_entropy, spectral_gradient, spectral_potential

DELTAS = (-1e8, -4.0, -1.0, -1e-8, 0.0, 1e-8, 1.0, 4.0, 1e8)
SIZES = (1e-8, 1e-3, 1.0, 7.0, 1e8)


def as_printed(size, delta):
    """Ψ_δ of Theorem 1 plus the constant that takes it to zero at zero."""
    kappa = mp.sqrt(mpf(delta) ** 2 + 4 * size**2)
    constant = mp.sqrt(2) * mpf(delta) ** 1.5 / 3 if delta > 0 else 0
    return (kappa - 2 * mpf(delta)) * mp.sqrt(kappa + mpf(delta)) / 3 + constant


def strength(size, L, delta):
    """‖a‖² of Lemma 13, x(x − δ)^L = ‖β‖², by Newton's method from above, where it is convex."""
    gap, square = -mpf(delta), mpf(size) ** 2
    x = min(square ** (mpf(1) / (L + 1)), square / gap**L if gap else mp.inf)
    for _ in range(60):
        step = (x * (x + gap) ** L - square) / ((x + gap) ** L + L * x * (x + gap) ** (L - 1))
        if abs(step) <= x * mp.eps * 16:
            return x
        x -= step
    raise AssertionError("the oracle does not converge")


def close(ours, theirs, tolerance=1e-12) -> bool:
    return abs(mpf(float(ours)) - theirs) <= tolerance * abs(theirs)


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(60):
        yield


def test_single_neuron_potential_at_all_scales():
    mp.dps = 140  # κ + δ and second differences lose most of them
    for delta in DELTAS:
        profile = single_neuron_potential(delta).profile
        for size in SIZES:
            value, slope, curvature = profile(size)
            q = lambda x, delta=delta: as_printed(x, delta)
            h = mpf(size) * mpf(10) ** -15
            assert close(value, q(mpf(size)))
            assert close(slope, (q(size + h) - q(size - h)) / (2 * h))
            assert close(curvature, (q(size + h) - 2 * q(mpf(size)) + q(size - h)) / h**2)
            assert close(slope, mp.sqrt(mp.sqrt(mpf(delta) ** 2 + 4 * mpf(size) ** 2) - mpf(delta)))  # ψ_δ


def test_deep_potential_at_all_scales():
    for L in (1, 2, 3, 5):
        for delta in (d for d in DELTAS if d <= 0):
            profile = deep_potential(L, delta).profile
            for size in SIZES:
                x = strength(size, L, delta)
                value, slope, curvature = profile(size)
                assert close(slope, mp.sqrt(x))
                h = mpf(size) * mpf(10) ** -15
                up, down = mp.sqrt(strength(size + h, L, delta)), mp.sqrt(strength(size - h, L, delta))
                assert close(curvature, (up - down) / (2 * h))
                if delta == 0:
                    assert close(value, mpf(L + 1) / (L + 2) * mpf(size) ** (mpf(L + 2) / (L + 1)))


def test_deep_potential_is_the_integral_of_its_slope():
    with mp.workdps(20):
        for L in (1, 2, 3):
            for size in (1e-3, 1.0, 50.0):
                integral = mp.quad(lambda x, L=L: mp.sqrt(strength(x, L, -0.7)), [0, size], maxdegree=5)
                assert close(deep_potential(L, -0.7).value([0.0, size]), integral)


def test_two_layers_are_one_neuron_when_balanced():
    beta = np.array([0.3, -2.0, 1.0])
    one, deep = single_neuron_potential(0.0), deep_potential(1)
    assert np.allclose(one.gradient(beta), np.sqrt(2) * deep.gradient(beta), rtol=1e-14, atol=0)
    assert np.isclose(one.value(beta), np.sqrt(2) * deep.value(beta), rtol=1e-14, atol=0)


def test_gradients_and_hessians_are_derivatives():
    for seed in SEEDS:
        rng = np.random.default_rng((30, seed))
        d, delta, L = int(rng.integers(1, 5)), float(rng.normal() * 3), int(rng.integers(1, 4))
        beta, direction = 10 ** rng.uniform(-2, 1) * rng.normal(size=d), rng.normal(size=d)
        delta = [delta, 0.0, 1e-3 * delta][seed % 3]
        h = mpf(10) ** -18
        norm = lambda t, beta=beta, direction=direction: mp.sqrt(
            sum((mpf(float(b)) + t * mpf(float(v))) ** 2 for b, v in zip(beta, direction, strict=True))
        )
        for potential, q in (
            (single_neuron_potential(delta), lambda x, delta=delta: as_printed(x, delta)),
            (deep_potential(L), lambda x, L=L: mpf(L + 1) / (L + 2) * x ** (mpf(L + 2) / (L + 1))),
        ):
            first = (q(norm(h)) - q(norm(-h))) / (2 * h)
            second = (q(norm(h)) - 2 * q(norm(mpf(0))) + q(norm(-h))) / h**2
            gradient, hessian = potential.gradient(beta), potential.hessian(beta)
            assert abs(mpf(float(gradient @ direction)) - first) <= 1e-12 * np.linalg.norm(gradient) * 10
            assert abs(mpf(float(direction @ hessian @ direction)) - second) <= 1e-12 * np.linalg.norm(hessian) * 100


def test_second_derivatives_are_the_inverse_of_m_on_another_clock():
    for seed in SEEDS:
        rng = np.random.default_rng((31, seed))
        d, L = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        w, a = rng.normal(size=d), float(rng.normal())
        M = a**2 * np.eye(d) + np.outer(w, w)
        delta = a**2 - float(w @ w)
        warped = np.sqrt(2) * abs(a) * np.linalg.inv(M)
        loss = np.linalg.cond(M)
        assert np.linalg.norm(single_neuron_potential(delta).hessian(a * w) - warped) <= 1e-14 * loss * np.linalg.norm(
            warped
        )
        assert np.allclose(single_neuron_potential(delta).gradient(a * w), np.sqrt(2) * np.sign(a) * w, rtol=1e-11)
        delta = [0.0, -0.3, -5.0][seed % 3]
        g = float(strength(np.linalg.norm(w), L, delta)) - delta
        warped = g ** (L / 2) * np.linalg.inv(deep_preconditioner(w, L, delta))
        assert np.linalg.norm(deep_potential(L, delta).hessian(w) - warped) <= 1e-12 * np.linalg.norm(warped)


def test_at_zero():
    zero = np.zeros(2)
    for delta in (0.0, 1.0, 1e8):
        assert single_neuron_potential(delta).value(zero) == 0
        assert not single_neuron_potential(delta).gradient(zero).any()
    assert np.allclose(single_neuron_potential(2.0).hessian(zero), np.eye(2), rtol=1e-15)
    assert np.allclose(deep_potential(3, -4.0).hessian(zero), np.eye(2) / 8, rtol=1e-15)
    assert not deep_potential(2).gradient(zero).any() and not deep_potential(2, -1.0).gradient(zero).any()
    with pytest.raises(lr.InvalidInput, match="beta must not be zero: this potential has no gradient there"):
        single_neuron_potential(-1.0).gradient(zero)
    for potential in (
        single_neuron_potential(-1.0),
        single_neuron_potential(0.0),
        deep_potential(1),
        deep_potential(3),
    ):
        with pytest.raises(
            lr.InvalidInput, match="beta must not be zero: this potential has no second derivative there"
        ):
            potential.hessian(zero)


def test_limits_of_delta():
    """δ → ∞: ‖β‖²/√(2δ), no preference but for small norm; δ → −∞: √(2|δ|)‖β‖, and only the direction counts."""
    beta = np.array([3.0, 4.0])
    assert np.isclose(single_neuron_potential(1e10).value(beta), 25 / np.sqrt(2e10), rtol=1e-9)
    assert np.isclose(single_neuron_potential(-1e10).value(beta), 5 * np.sqrt(2e10), rtol=1e-9)
    # deep and lazy: ‖β‖²/(2|δ|^{L/2})
    assert np.isclose(deep_potential(2, -1e10).value(beta), 25 / 2e10, rtol=1e-9)


def test_hyperbolic_entropy_at_all_scales():
    for delta in (d for d in DELTAS if d):
        ours = hyperbolic_entropy(np.array([0.0, *SIZES]), delta)
        for i, x in enumerate((0.0, *SIZES)):
            D, x = abs(mpf(delta)), mpf(x)
            assert close(ours.value[i], (2 * x * mp.asinh(2 * x / D) - mp.sqrt(4 * x**2 + D**2) + D) / 4)
            assert close(ours.slope[i], mp.asinh(2 * x / D) / 2)
            assert close(ours.curvature[i], 1 / mp.sqrt(4 * x**2 + D**2))
    assert np.isclose(hyperbolic_entropy(3.0, 1e9).value, 9 / 2e9, rtol=1e-12)  # ℓ2
    near = [hyperbolic_entropy(x, 1e-300).value / (x * np.log(1e300) / 2) for x in (1.0, 2.0)]
    assert np.allclose(near, 1, atol=1e-2)  # ℓ1, slowly
    with pytest.raises(lr.InvalidInput, match="delta must not be zero: the hyperbolic entropy"):
        hyperbolic_entropy(1.0, 0.0)


def test_spectral_potential_and_its_gradient():
    with mp.workdps(40):
        for seed in range(10):
            rng = np.random.default_rng((32, seed))
            shape, delta = tuple(int(n) for n in rng.integers(1, 4, size=2)), float(rng.normal() * 2)
            W, direction = rng.normal(size=shape), rng.normal(size=shape)
            if seed == 0:
                W = np.eye(*shape)  # equal singular values

            def phi(t, W=W, direction=direction, delta=delta):
                s = mp.svd_r(mp.matrix(W.tolist()) + t * mp.matrix(direction.tolist()), compute_uv=False)
                D = abs(mpf(delta))
                return sum((2 * x * mp.asinh(2 * x / D) - mp.sqrt(4 * x**2 + D**2) + D) / 4 for x in s)

            h = mpf(10) ** -12
            assert close(spectral_potential(W, delta), phi(mpf(0)))
            gradient = spectral_gradient(W, delta)
            assert abs(mpf(float(np.sum(gradient * direction))) - (phi(h) - phi(-h)) / (2 * h)) <= 1e-12 * max(
                1, np.linalg.norm(gradient)
            )


def test_singular_values_follow_the_mirror_flow():
    """Theorem 11: σ̇ = uᵀẆv, with Ẇ of Theorem 3, is −uᵀ∇L v over the curvature of q_δ."""
    for seed in SEEDS:
        rng = np.random.default_rng((33, seed))
        shape, delta = tuple(int(n) for n in rng.integers(1, 6, size=2)), float(rng.normal() * 3)
        W, gradient = rng.normal(size=shape), rng.normal(size=shape)
        U, s, Vt = np.linalg.svd(W, full_matrices=False)
        velocity = -isotropic_preconditioner(W, delta).apply(gradient)
        slopes = np.einsum("oi,op,ip->i", U, gradient, Vt)
        speeds = np.einsum("oi,op,ip->i", U, velocity, Vt)
        expected = -slopes / hyperbolic_entropy(s, delta).curvature
        assert np.abs(speeds - expected).max() <= 1e-12 * np.linalg.norm(velocity)


def test_sentences():
    for call, sentence in (
        (lambda: deep_potential(0), "hidden_layers must be at least 1"),
        (lambda: deep_potential(2, 1.0), "delta must not be above 0, and it is 1"),
        (lambda: single_neuron_potential(1.0).value([[1.0]]), r"beta must be a vector, and it has shape \(1, 1\)"),
    ):
        with pytest.raises(lr.InvalidInput, match=sentence):
            call()
