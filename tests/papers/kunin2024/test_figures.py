"""What single figures of Kunin et al. 2024 say of the paper, against numbers that share no code with them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from lazyrich.papers import figure as entry
from lazyrich.papers.kunin2024.figures import fig_1a

pytestmark = [pytest.mark.figures, pytest.mark.timeout(120)]


def test_teacher_and_student_run_for_the_published_time_and_teachers_are_apart():
    """The authors descend 10⁶ steps of 10⁻⁴ on the mean square, whose gradient is twice that of our loss."""
    settings = entry("kunin2024/1a").settings
    assert settings["rate"] * settings["steps"] == pytest.approx(2 * 1e-4 * 1_000_000)
    w = fig_1a._setting(settings["seed"], 50, 3, 20).w_teacher
    angles = np.sort(np.degrees(np.arctan2(w[:, 1], w[:, 0])) % 360)
    assert np.diff(np.append(angles, angles[0] + 360)).min() > 60


def test_hyperboloids_are_those_of_the_authors():
    assert entry("kunin2024/2").settings["surfaces"] == (-2.0, 0.0, 2.0)


def path(a0, w0, target, times):
    def slope(_, state):
        w, a = state[:2], state[2]
        return np.append(a * (target - a * w), w @ (target - a * w))

    return solve_ivp(slope, (0, times[-1]), [*w0, a0], t_eval=times, rtol=1e-8, atol=1e-10).y


def distance(a, w, middle):
    """S(0, t) from the kernels a²I + wwᵀ, with the published slip if `middle` is a(0)."""
    kernels = [x**2 * np.eye(2) + np.outer(v, v) for x, v in zip(a, w.T, strict=True)]
    norms = [np.linalg.norm(K) for K in kernels]
    sizes = np.sum(w**2, axis=0)
    slipped = np.sqrt(np.square(norms) + 2 * (middle**2 - a**2) * sizes)
    return 1 - np.array([np.sum(kernels[0] * K) for K in kernels]) / (norms[0] * slipped)


def test_published_kernel_distances_are_off_by_what_is_said():
    """For the starts of the figure, and for 400 random ones, integrated here."""
    times, rng, worst = np.linspace(0, 20, 201), np.random.default_rng(0), []
    for _ in range(400):
        delta, target, start = rng.uniform(-4, 4), rng.normal(size=2), rng.normal(size=2)
        worst.append((delta, target, start))
    figure = [(delta, np.array([0.0, 1.0]), np.array([-1.0, 0.0])) for delta in (-4, -2, -1, 0, 1, 2, 4)]
    found = {}
    for name, draws in (("figure", figure), ("random", worst)):
        off = []
        for delta, target, start in draws:
            a = np.sqrt((delta + np.hypot(delta, 2 * np.linalg.norm(start))) / 2)
            y = path(a, start / a, target, times)
            off.append(np.abs(distance(y[2], y[:2], y[2, 0]) - distance(y[2], y[:2], y[2])).max())
        found[name] = max(off)
    about = entry("kunin2024/3").about
    assert f"{found['figure']:.2f} for these seven initialisations" in about
    assert f"{found['random']:.2f} for 400 random" in about


def test_layer_rates_are_layer_scales_by_another_integrator():
    """One neuron with rates, integrated here, against the figure's curve of unit rates and scaled layers."""
    data = entry("kunin2024/rates").compute(quick=True)
    times, eta = data.time.values, float(data.eta[0])

    def slope(_, state):
        w, a = state[:2], state[2]
        miss = np.array([0.0, 1.0]) - a * w
        return np.append(eta * a * miss, w @ miss / eta)

    y = solve_ivp(slope, (0, times[-1]), [-1.0, 0.0, 1.0], t_eval=times, rtol=1e-10, atol=1e-12).y
    loss = np.sum((np.array([[0.0], [1.0]]) - y[2] * y[:2]) ** 2, axis=0) / 2
    by_scales = data.curves.sel(eta=eta, source="scales", quantity="loss")
    np.testing.assert_allclose(by_scales, loss, atol=1e-7)
    kernels = [x**2 * eta * np.eye(2) + np.outer(v, v) / eta for x, v in zip(y[2], y[:2].T, strict=True)]
    cosines = [np.sum(kernels[0] * K) / np.linalg.norm(kernels[0]) / np.linalg.norm(K) for K in kernels]
    moved = data.curves.sel(eta=eta, source="scales", quantity="S")
    np.testing.assert_allclose(moved, 1 - np.array(cosines), atol=1e-7)
