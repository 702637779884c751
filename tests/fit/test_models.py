"""The curves of every model, against integration and against trajectories of the library."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multinomial, norm

import lazyrich as lr
from lazyrich.fit.measurements import as_measurements
from lazyrich.fit.models import MODELS, Deep, Shallow, mode_strengths
from lazyrich.fit.noise import Counts, Gaussian

from .simulating import softmax, strengths

TASK = lr.tasks.semantic_hierarchy()
TIMES = np.linspace(0.0, 40.0, 9)
VALUES = {"scale": 0.02, "lam": 0.7, "rate": 0.6, "temperature": 0.8, "lapse": 0.1}


@given(st.floats(0.05, 3.0), st.floats(1e-5, 5.0), st.floats(0.0, 30.0))
def test_a_mode_follows_its_equation(s, a0, lam):
    times = np.linspace(0.0, 10.0, 7)
    assert np.abs(mode_strengths(s, a0, lam, times) - strengths([s], a0, lam, times)[:, 0]).max() < 1e-9 * max(s, a0)


@pytest.mark.parametrize("s", [0.0, 1e-9, 2.0])
@pytest.mark.parametrize("lam", [0.0, 1e-12, 1e3])
@pytest.mark.parametrize("a0", [1e-12, 3.0])
def test_a_mode_at_extremes(s, lam, a0):
    """Against `methods.modes`, right to the last digit; all that is promised here is 1e-15 of the larger of λ and s."""
    from lazyrich.methods.modes import mode_strength

    times = np.array([0.0, 1e-9, 1.0, 1e6])
    off = np.abs(mode_strengths(s, a0, lam, times) - mode_strength(s, a0, lam, times)).max()
    assert off < 2e-15 * max(s, lam, a0)


@pytest.mark.parametrize("sizes", [(8, 14, 8), (8, 3, 8)])
@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("lam", [0.0, 1.5, -1.5])
def test_curves_are_those_of_the_trajectory(name, lam, sizes):
    model, values = MODELS[name](TASK, sizes), VALUES | {"lam": lam if name == "deep" else 0.0}
    curves = model.curves({key: np.full(2, value) for key, value in values.items()}, TIMES)
    traj = model.trajectory(values, TIMES)
    X = TASK.inputs
    assert np.abs(curves.loss()[1] - traj.loss).max() < 1e-13
    assert np.abs(curves.modes()[0] - lr.observables.mode_strengths(traj)).max() < 1e-13
    Y = X @ np.swapaxes(traj.function, 1, 2)
    assert np.abs(curves.outputs(X)[0] - Y).max() < 1e-13
    assert np.abs(curves.similarity(X, "outputs")[0] - Y @ np.swapaxes(Y, 1, 2)).max() < 1e-12
    if name != "shallow":
        assert np.abs(curves.similarity(X, "hidden")[0] - lr.observables.rsm_in(traj)).max() < 1e-12


def test_tasks_that_are_not_square_and_have_noise(rng):
    inputs = np.linalg.qr(rng.normal(size=(30, 4)))[0] * np.sqrt(30)
    task = lr.Task.from_data(inputs, rng.normal(size=(30, 3)))
    model = Deep(task, (4, 5, 3))
    curves = model.curves({key: np.float64(value) for key, value in VALUES.items()}, TIMES)
    assert np.abs(curves.loss() - model.trajectory(VALUES, TIMES).loss).max() < 1e-13


def measured(**given):
    return as_measurements(TASK, TIMES, given, None, None, "hidden")


class TestLikelihoods:
    """One number after the other, by SciPy's densities."""

    def test_of_choices(self, rng):
        task = lr.Task.from_labels(np.eye(3), ["a", "b", "c"])
        model = Deep(task, (3, 4, 3))
        curves = model.curves({key: np.float64(value) for key, value in VALUES.items()}, TIMES)
        counts = rng.multinomial(12, np.ones(3) / 3, size=(2, 9, 3)).astype(float)
        counts[0, 2, 1] = np.nan
        (readout,) = as_measurements(task, TIMES, {"choices": counts}, None, None, "hidden").readouts()
        traj = model.trajectory(VALUES, TIMES)
        p = softmax(np.swapaxes(traj.function, 1, 2), 0.8, 0.1)
        expected = readout.expected(curves, {key: np.float64(value) for key, value in VALUES.items()})
        assert np.abs(expected - p).max() < 1e-13
        pooled = np.nansum(counts, axis=0)
        each = [multinomial.logpmf(pooled[t, i], pooled[t, i].sum(), p[t, i]) for t in range(9) for i in range(3)]
        assert abs(readout.noise.log_likelihood(expected) - sum(each)) < 1e-9

    @pytest.mark.parametrize("sd", [0.3, None])
    def test_of_curves_with_several_subjects_and_missing_trials(self, rng, sd):
        y, mean = rng.normal(size=(3, 9)), rng.normal(size=9)
        y[0, :4] = y[2, 5] = np.nan
        noise, seen = Gaussian.of(y, sd), ~np.isnan(y)
        off = (y - mean)[seen]
        size = sd or np.sqrt(np.mean(off**2))
        assert abs(noise.log_likelihood(mean) - norm.logpdf(off, scale=size).sum()) < 1e-9
        assert noise.count == seen.sum()
        assert abs(noise.spread(mean) - size) < 1e-7

    def test_a_gain_is_the_best_there_is(self, rng):
        y, mean = rng.normal(size=(2, 9, 4)), rng.normal(size=(9, 4))
        noise = Gaussian.of(y, gain=True)
        tried = [Gaussian.of(y).log_likelihood(k * mean) for k in np.linspace(-2, 2, 4001)]
        assert 0 <= noise.log_likelihood(mean) - max(tried) < 1e-4

    @pytest.mark.parametrize("noise", ["gauss", "known", "gain", "counts"])
    def test_slopes(self, rng, noise):
        if noise == "counts":
            made, mean = Counts.of(rng.multinomial(9, [0.2, 0.5, 0.3], size=(2, 4, 2)).astype(float)), None
            mean = np.tile([0.3, 0.3, 0.4], (4, 2, 1))
        else:
            made = Gaussian.of(rng.normal(size=(2, 9)), 0.4 if noise == "known" else None, gain=noise == "gain")
            mean = rng.normal(size=9)
        direction, h = rng.normal(size=mean.shape), 1e-6
        slope, _ = made.scored(mean)
        moved = (made.fitted(mean + h * direction) - made.fitted(mean - h * direction)) / (2 * h)
        rise = made.log_likelihood(mean + h * direction) - made.log_likelihood(mean - h * direction)
        assert abs(np.sum(slope * moved) - rise / (2 * h)) < 1e-5 * max(1, abs(rise / (2 * h)))


def test_the_sign_of_lam_shows_in_the_hidden_layer_alone():
    values = {key: np.float64(value) for key, value in VALUES.items()}
    one, other = (Deep(TASK, (8, 14, 8)).curves(values | {"lam": np.float64(lam)}, TIMES) for lam in (0.7, -0.7))
    np.testing.assert_array_equal(one.modes(), other.modes())
    hidden = [curves.similarity(TASK.inputs, "hidden") for curves in (one, other)]
    assert np.abs(hidden[0] - hidden[1]).max() > 0.1


def test_lazy_networks_learn_as_shallow_ones():
    """|λ| → ∞ with rate |λ| held: why data cannot tell them apart."""
    slow, values = 1e6, {"scale": np.float64(0.1)}
    deep = Deep(TASK, (8, 14, 8)).curves(values | {"lam": np.float64(slow), "rate": np.float64(1 / slow)}, TIMES)
    shallow = Shallow(TASK, (8, 8)).curves(values | {"rate": np.float64(1.0)}, TIMES)
    assert np.abs(deep.loss() - shallow.loss()).max() < 1e-8
