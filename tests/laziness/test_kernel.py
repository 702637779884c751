"""Kernels held whole or as sketches: against JJᵀ of random Jacobians, and errors against what they say of them."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.laziness.kernel import Plan

module = importlib.import_module("lazyrich.laziness.kernel")
N, O, P = 6, 12, 400  # samples, outputs, parameters


def jacobians(rng, rank=3):
    """Of two states, near each other, with a few strong directions as tangent kernels have them."""
    J = rng.normal(size=(N * O, rank)) @ rng.normal(size=(rank, P)) + 0.3 * rng.normal(size=(N * O, P))
    return J, J + 0.3 * rng.normal(size=(N * O, rank)) @ rng.normal(size=(rank, P))


def asked(J):
    """Blocks of it, or of combinations of its outputs."""
    by_sample = J.reshape(N, O, -1)

    def some(part, combined):
        block = by_sample[part]
        block = block if combined is None else np.einsum("nop,or->nrp", block, combined)
        return block.reshape(-1, J.shape[1])

    return some


def whole(J_0, J):
    K_0, K = J_0 @ J_0.T, J @ J.T
    norms = np.linalg.norm(K_0), np.linalg.norm(K)
    return np.linalg.norm(K - K_0) / max(norms), 1 - np.vdot(K_0, K) / norms[0] / norms[1], norms[1]


def compared(plan, J_0, J):
    first = plan.kernel(asked(J_0))
    found = plan.compared(first, plan.kernel(asked(J)))
    return found.change / max(found.norm, plan.compared(first, first).norm), found


@pytest.mark.parametrize("held", [2**27, 2 * O * P, O * P])
def test_whole_kernels_in_blocks(rng, monkeypatch, held):
    monkeypatch.setattr(module, "_HELD", held)
    monkeypatch.setattr(module, "_BLOCKS", N)
    J = jacobians(rng)
    plan = Plan.of(N, O, P)
    movement, found = compared(plan, *J)
    assert plan.exact and (movement, found.distance, found.norm) == pytest.approx(whole(*J), rel=1e-12)
    assert (found.movement_error, found.distance_error) == (0.0, 0.0)
    assert np.allclose(plan.kernel(asked(J[1]))[0], J[1] @ J[1].T, rtol=1e-13)


@pytest.mark.parametrize("folded", [2**26, 2 * O * P, 2 * P, P])
def test_folding_gives_the_same_in_any_blocks(rng, monkeypatch, folded):
    """Of samples; and of outputs, where one sample is too much."""
    J = jacobians(rng)[0]
    expected = Plan.of(N, O, P, columns=97).kernel(asked(J))
    monkeypatch.setattr(module, "_FOLDED", folded)
    found = Plan.of(N, O, P, columns=97).kernel(asked(J))
    assert len(found) == 8 and all(np.allclose(a, b, rtol=1e-12) for a, b in zip(found, expected, strict=True))


def test_as_many_columns_as_parameters_fold_nothing(rng):
    assert Plan.of(N, O, P, columns=P).exact and not Plan.of(N, O, P, columns=P - 1).exact


SKETCHES = {"folded": (97, 4096), "combined": (None, 71), "both": (97, 71)}


@pytest.mark.parametrize("sketch", SKETCHES)
def test_errors_are_as_large_as_the_sketch_says(rng, monkeypatch, sketch):
    """Over 150 seeds: the median of error over standard error is near that of normal numbers."""
    columns, rows = SKETCHES[sketch]
    monkeypatch.setattr(module, "_ROWS", rows)
    J = jacobians(rng)
    true = whole(*J)
    ratios, sizes = [], []
    for seed in range(150):
        plan = Plan.of(N, O, P, seed, columns)
        assert not plan.exact
        movement, found = compared(plan, *J)
        errors = np.array([movement - true[0], found.distance - true[1]])
        ratios.append(errors / [found.movement_error, found.distance_error])
        sizes.append(found.movement_error)
    spread = np.sqrt(np.median(np.square(ratios), axis=0)) / 0.6745  # of normal numbers: 1
    assert np.all((spread > 0.6) & (spread < 1.6)), spread
    assert np.median(sizes) < 0.25 * true[0] if sketch == "folded" else np.isfinite(sizes).all()


def test_more_columns_are_more_exact(rng):
    J = jacobians(rng)
    true = whole(*J)[0]
    off = [
        np.sqrt(np.mean([(compared(Plan.of(N, O, P, seed, columns), *J)[0] - true) ** 2 for seed in range(100)]))
        for columns in (31, 127)
    ]
    assert 1.3 < off[0] / off[1] < 4  # half at four times as many


def test_many_outputs_are_combined(rng):
    plan = Plan.of(64, 1000, 4_810, seed=2)
    assert plan.combinations.shape == (1000, 32) and plan.rows * 32 <= 4096
    first, second = np.split(plan.combinations, 2, axis=1)
    assert abs(np.mean(first**2) * 16 - 1) < 0.05 and abs(np.sum(first * second)) < 30


@pytest.mark.compiles
def test_libraries_fold_alike(rng):
    jax = pytest.importorskip("jax")
    J = jacobians(rng)[0].astype(np.float32)
    plan = Plan.of(N, O, P, columns=97)
    expected = sum(plan.kernel(asked(J)))
    found = plan.kernel(lambda some, combined: jax.numpy.asarray(asked(J)(some, combined)))
    assert np.allclose(sum(map(np.asarray, found)), expected, rtol=1e-5, atol=1e-3)


@pytest.mark.torch
def test_pytorch_folds_alike(rng):
    torch = pytest.importorskip("torch")
    J = jacobians(rng)[0]
    plan = Plan.of(N, O, P, columns=97)
    found = plan.kernel(lambda some, combined: torch.tensor(asked(J)(some, combined)))
    assert np.allclose(sum(part.numpy() for part in found), sum(plan.kernel(asked(J))), rtol=1e-10)


def test_measure_keeps_the_first_kernel_from_call_to_call(rng, monkeypatch):
    """Of the same initialisation, samples and code alone."""
    pytest.importorskip("equinox")
    first, last = (lr.Network([c * rng.normal(size=(3, 4)), rng.normal(size=(2, 3))], "tanh") for c in (1.0, 2.0))
    X, counted = rng.normal(size=(5, 4)), []
    compute = Plan.kernel
    monkeypatch.setattr(Plan, "kernel", lambda *arguments: counted.append(1) or compute(*arguments))
    for states, inputs, kernels in (
        ([first, last], X, 2),
        ([first, last], X, 1),
        ([first, first, last], X, 2),
        ([last, first], X, 2),
        ([last, first], X + 1, 2),
    ):
        counted.clear()
        lr.laziness.measure(states, inputs)
        assert len(counted) == kernels
