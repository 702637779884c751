"""The noisy teacher: what is learned from is the truth and noise of the size it says."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

noisy_teacher = lr.tasks.noisy_teacher


def test_truth_and_noise():
    taught = noisy_teacher(0, d_in=60, d_out=40, strengths=[2.0, 5.0], samples=240, noise=0.8)
    np.testing.assert_allclose(taught.test.modes.s[:2], [5.0, 2.0], rtol=1e-12)
    np.testing.assert_allclose(taught.U.T @ taught.U, np.eye(2), atol=1e-14)
    np.testing.assert_allclose(taught.test.target, taught.U * [5.0, 2.0] @ taught.V.T, atol=1e-13)
    noise = taught.train.sigma_yx - taught.test.target
    assert np.var(noise) == pytest.approx(0.8**2 / 240, rel=6 * np.sqrt(2 / noise.size))
    assert taught.train.whitening_error == 0 and taught.test.loss_floor < 1e-13
    np.testing.assert_array_equal(taught.train.sigma_xx, np.eye(60))


def test_the_teacher_does_not_depend_on_noise_and_samples():
    one = noisy_teacher(3, d_in=5, d_out=4, rank=2)
    other = noisy_teacher(3, d_in=5, d_out=4, rank=2, samples=50, noise=0.0)
    np.testing.assert_array_equal(one.test.target, other.test.target)
    np.testing.assert_allclose(other.train.sigma_yx, other.test.target, atol=1e-13)
    s = one.test.modes.s
    assert np.count_nonzero(s) == 2 and np.all((s[:2] >= 1) & (s[:2] <= 5)) and len(one.train.inputs) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": -1.0}, "noise must be at least 0, and it is -1"),
        ({"strengths": [1.0], "rank": 1}, "strengths or rank must be given, one of the two"),
        ({"strengths": None}, "strengths or rank must be given, one of the two"),
        ({"strengths": [1.0, 0.0]}, "strengths must be above 0, and the least is 0"),
        ({"strengths": [1.0, 2.0, 3.0]}, r"strengths must be a vector of at most min\(d_in, d_out\) = 2 numbers"),
        ({"strengths": None, "rank": 3}, "rank must be at most 2, and it is 3"),
        ({"samples": 3}, r"samples must be at least d_in \(4\) for whitened inputs, and it is 3"),
        ({"d_out": 0}, "d_out must be at least 1, and it is 0"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_bad_input(options, message):
    with pytest.raises(lr.InvalidInput, match=f"^{message}"):
        noisy_teacher(0, **{"d_in": 4, "d_out": 2, "strengths": [1.0]} | options)
