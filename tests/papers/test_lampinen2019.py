"""A noisy teacher: the published formulas against draws of two hundred inputs, and where they meet."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import brentq

import lazyrich as lr
from lazyrich.papers.lampinen2019 import formulas


@pytest.mark.long
@pytest.mark.parametrize(("d_out", "s"), [(200, 2.0), (200, 4.0), (100, 2.0), (100, 3.0), (400, 2.5), (400, 4.0)])
def test_formulas_are_the_means_of_fifty_draws(d_out, s):
    found, A, rng = [], d_out / 200, np.random.default_rng(d_out)
    for _ in range(50):
        u, v = (x / np.linalg.norm(x) for x in (rng.normal(size=d_out), rng.normal(size=200)))
        M = s * np.outer(u, v) + rng.normal(size=(d_out, 200)) / np.sqrt(200)
        (value,), vectors = eigh(M.T @ M, subset_by_index=[199, 199])
        right, left = vectors[:, 0], M @ vectors[:, 0]
        found.append((np.sqrt(value), (left @ u) ** 2 / (left @ left), (right @ v) ** 2))
    known = formulas.inflated(s, A), formulas.output_overlap(s, A), formulas.input_overlap(s, A)
    np.testing.assert_allclose(np.mean(found, axis=0), known, rtol=0.03)


def test_a_drawn_teacher_is_one_of_them():
    taught = lr.tasks.noisy_teacher(0, d_in=100, d_out=60, strengths=[5.0, 3.0])
    u, s, v = taught.train.modes
    np.testing.assert_allclose(s[:2], formulas.inflated([5.0, 3.0], 0.6), rtol=0.06)
    np.testing.assert_allclose(
        np.sum(u[:, :2] * taught.U, axis=0) ** 2, formulas.output_overlap([5.0, 3.0], 0.6), atol=0.08
    )
    np.testing.assert_allclose(
        np.sum(v[:, :2] * taught.V, axis=0) ** 2, formulas.input_overlap([5.0, 3.0], 0.6), atol=0.08
    )
    assert s[2] < 1.1 * formulas.edge(0.6)


@pytest.mark.parametrize("A", [0.3, 1.0, 2.5])
def test_formulas_meet_at_the_threshold(A):
    s = formulas.threshold(A) * (1 + 1e-9)
    assert formulas.inflated(s, A) == pytest.approx(formulas.edge(A), rel=1e-12)
    assert formulas.output_overlap(s, A) < 1e-8 and formulas.input_overlap(s, A) < 1e-8
    below = formulas.threshold(A) / 2
    assert formulas.inflated(below, A) == formulas.edge(A) and formulas.output_overlap(below, A) == 0
    assert formulas.inflated(1e6, A) == pytest.approx(1e6) and formulas.input_overlap(1e6, A) == pytest.approx(1)


@pytest.mark.parametrize("A", [0.4, 1.7])
def test_inputs_and_outputs_exchange_roles(A):
    """Transposed, noise of variance 1/N_out is √A times as weak beside the teacher."""
    s = 3.0
    assert formulas.input_overlap(s, A) == pytest.approx(formulas.output_overlap(s / np.sqrt(A), 1 / A), rel=1e-12)
    assert formulas.inflated(s, A) == pytest.approx(np.sqrt(A) * formulas.inflated(s / np.sqrt(A), 1 / A), rel=1e-12)


def test_error_of_modes_is_least_where_each_is_at_its_best():
    s, A = np.array([3.0, 2.0]), 1.5
    b = formulas.wanted(s, A)

    def slope(a, i):
        step = 1e-6 * np.eye(2)[i]
        ahead, behind = (formulas.test_error(b + (a - b[i]) * np.eye(2)[i] + k * step, b, 4.0) for k in (1, -1))
        return ahead - behind

    for i in (0, 1):
        assert brentq(slope, 0.0, 5.0, args=(i,)) == pytest.approx(b[i], rel=1e-6)


@pytest.mark.long
def test_error_of_a_drawn_teacher_is_that_of_the_limit():
    strengths, off = np.array([4.0, 2.5]), []
    for seed in range(10):
        train, truth, _, _ = lr.tasks.noisy_teacher(seed, d_in=200, d_out=150, strengths=strengths)
        u, s, v = train.modes
        a = np.linspace(0, 1, 5)[:, None] * s
        errors = [np.sum((u * row @ v.T - truth.target) ** 2) for row in a]
        b = np.append(formulas.wanted(strengths, 0.75), np.zeros(len(s) - 2))
        off.append(formulas.test_error(a, b, float(np.linalg.norm(strengths))) - errors)
    assert np.abs(np.mean(off, axis=0)).max() < 0.03 * np.sum(strengths**2)


def test_interpolation_has_no_mean_at_the_peak():
    assert formulas.interpolation(40, 40, 1.0, 0.1) == formulas.interpolation(41, 40, 1.0, 0.1) == np.inf
    assert formulas.interpolation(0, 40, 2.0, 1.0) == 2.0
    assert formulas.interpolation(10**7, 40, 1.0, 1.0) == pytest.approx(40e-7, rel=1e-4)
