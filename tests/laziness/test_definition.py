"""Lazy and rich are said in one place: what the words mean, and that nothing else in the library has a threshold."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm

import lazyrich as lr
from lazyrich.laziness import USUAL, Course, RegimeName, Thresholds, judge

SOURCE = Path(lr.__file__).parent


@pytest.mark.parametrize(
    "moved, delay, name",
    [
        (0.0, 0.0, "lazy"),
        (0.0999, 1e6, "lazy"),
        (0.1, 0.0, "rich"),
        (1.2, 10.0, "rich"),
        (1.2, 10.01, "delayed rich"),
        (1.2, float("nan"), "rich"),
        (float("nan"), 0.0, "unknown"),
    ],
)
def test_words(moved, delay, name):
    found = judge(moved, 0.3, delay=delay)
    assert found.name == name and isinstance(found.name, RegimeName)
    assert found.thresholds == USUAL == Thresholds(lazy=0.1, learned=0.99, late=10.0)


def test_rotation_never_decides():
    assert judge(0.05, 1.0).name == "lazy" and judge(0.5, 0.0).name == "rich"


@pytest.mark.parametrize(
    "given, words",
    [
        ({"lazy": 0.0}, "lazy must be"),
        ({"lazy": float("nan")}, "lazy must be"),
        ({"learned": 1.0}, "learned must be a share of the fall of the loss below 1, and it is 1: try 0.99."),
        ({"late": -1.0}, "late must be"),
    ],
)
def test_thresholds_are_checked(given, words):
    with pytest.raises(lr.InvalidInput, match=re.escape(words)):
        Thresholds(**given)


def test_a_course_ends_when_the_loss_has_fallen():
    course = Course.of([0.0, 1.0, 2.0, 9.0], [0.0, 0.2, 0.1, 7.0], [1.0, 2.0, 2.0, 9.0], loss=[10.0, 5.0, 0.0, -0.05])
    share = (0.99 * 10.05 - 5) / 5  # of the way from t = 1 to 2
    assert course.learned_by == pytest.approx(1 + share)
    assert course.movement == pytest.approx(0.2 / 2)  # the farthest, though it comes back
    assert course.half_time() == pytest.approx((0.5, 0.0))


def test_a_loss_that_does_not_fall_ends_nothing():
    for loss in (None, [1.0, 1.0, 1.0], [1.0, 2.0, 3.0]):
        course = Course.of([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [1.0, 1.0, 4.0], loss=loss)
        assert course.learned_by == 2.0 and course.movement == 0.5 and np.isnan(course.fallen).all()


def test_a_kernel_that_grows_and_does_not_turn_is_rich():
    """One unit: S = 0, and a sigmoid, far from the exponential of the tangent model. The reason for movement."""
    problem = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[0.1]], [[0.1]]]))
    found = lr.regime(lr.solve(problem, [20.0]))
    assert found.name == "rich" and found.kernel_distance < 1e-15


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(4, 4, 4), (6, 3, 3)], ids=str)
def test_lazy_networks_follow_their_tangent_model(sizes):
    """What lazy means: by the closed form of the tangent model, with exponentials of whole matrices."""
    seen = set()
    for lam in (0.0, 1.0, 3.0, 10.0, 30.0):
        rng = np.random.default_rng(1)
        m = min(sizes[0], sizes[2])
        U, V = (np.linalg.qr(rng.normal(size=(d, m)))[0] for d in (sizes[2], sizes[0]))
        S = U * np.linspace(1, 0.6, m) @ V.T
        network = lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=0.1)
        problem = lr.Problem(lr.Task.from_correlations(S), network)
        found = lr.fate(problem).regime
        seen.add(str(found.name))
        W1, W2 = network.weights
        times = np.linspace(0, found.learned_by, 40)
        tangent = [S - expm(-t * W2 @ W2.T) @ (S - W2 @ W1) @ expm(-t * W1.T @ W1) for t in times]
        apart = np.linalg.norm(lr.solve(problem, times).function - tangent, axis=(1, 2)).max()
        share = apart / np.linalg.norm(S - W2 @ W1)
        assert share < 0.022 if found.name == "lazy" else share > 0.016, (lam, share, found.name)
    assert seen == {"lazy", "rich"}


def test_the_explorer_says_the_same_threshold():
    """Its help is a page of its own, which cannot ask."""
    page = (SOURCE / "explorer" / "page" / "help.html").read_text(encoding="utf-8")
    assert USUAL.lazy == 0.1 and USUAL.learned == 0.99
    assert "until 99 % of the loss has gone, the kernel moves by less than a tenth of its size" in page
    assert "below the grey line a network is" in page
