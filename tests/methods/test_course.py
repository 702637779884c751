"""One mode with layers of any sizes and rates, against Taylor series of 22 digits, which know the sizes b alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.taylor_mp import deep_sizes_mp

from lazyrich.methods._course import Courses

pytestmark = pytest.mark.filterwarnings("error")


def course(b0, eta, s, d=1.0) -> Courses:
    b0 = np.array(b0, dtype=float)
    return Courses(b0[:, None], np.array(eta, dtype=float), np.array([s]), np.array([d]))


def velocity(b: np.ndarray, eta, s: float, d: float) -> np.ndarray:
    """ḃ at each time, (T, L)."""
    lack = s - d * b.prod(axis=1)
    return np.stack([eta[i] * lack * np.delete(b, i, axis=1).prod(axis=1) for i in range(b.shape[1])], axis=1)


def assert_exact(b0, eta, s, d, times) -> None:
    """Every size to 1e-12 of itself, their rates of change by complex step, and the semigroup."""
    one, times = course(b0, eta, s, d), np.array(times)
    b = one.sizes(times)[:, :, 0]
    truth, state, now = [], list(b0), 0.0
    for t in times:
        state, now = deep_sizes_mp(state, eta, s, d, t - now, digits=22), t
        truth.append([float(x) for x in state])
    # rounding of the time moves a mode that moves
    moved = 1e-15 * times[:, None] * np.abs(velocity(b, eta, s, d))
    assert np.all(np.abs(b - truth) <= 1e-12 * np.abs(truth) + moved)
    h = 1e-30
    change, rates = one.sizes(times + 1j * h).imag[:, :, 0] / h, velocity(b, eta, s, d)
    terms = velocity(np.abs(b), eta, -abs(s), d)  # all terms of one sign: their size
    assert np.all(np.abs(change - rates) <= 1e-12 * np.abs(terms).max(axis=1, keepdims=True))
    again = one.restarted(times[1]).sizes(times[1:] - times[1])[:, :, 0]
    np.testing.assert_allclose(again, b[1:], atol=1e-13 * np.abs(b).max())


CASES = {
    "rising": ([0.1, 0.2, 0.3], 0.9),
    "two layers": ([0.1, 0.4], 0.9),
    "six layers": ([0.5, 0.7, 0.3, 1.1, 0.9, 0.6], 1.2),
    "from above": ([1.0, 1.5, 2.0, 0.8], 0.3),
    "backwards through zero": ([-0.05, 0.2, 0.6], 1.5),
    "backwards, all but barred": ([-0.5, 0.5 + 1e-6, 0.8], 1.5),
    "no target": ([0.7, 0.4, 1.2], 0.0),
    "a target of no digits": ([1.0, 1.0], 5e-324),
    "no target, backwards": ([-0.7, 0.4, 1.2], 0.0),
    "negative target": ([0.3, 0.2, 0.7], -1.1),
    "one layer is zero": ([0.0, 0.4, 0.7], 0.8),
    "two layers are zero": ([0.0, 0.0, 0.7], 0.8),
    "two equal smallest": ([0.2, 0.2, 0.7], 0.8),
    "two equal smallest, backwards": ([0.2, -0.2, 0.7], 0.8),
    "two equal smallest, no target": ([0.2, 0.2, 0.7], 0.0),
    "tiny": ([1e-12, 3e-11, 1.0, 1.0], 1.0),
    "tiny and equal": ([1e-12, 1e-12, 1.0], 1.0),
    "graded": ([1e-9, 1e-6, 1e-3, 10.0], 2.0),
    "at its end but for 1e-9": ([0.5, 1.0, 2.0 + 1e-9], 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_sizes_follow_the_taylor_series(case):
    b0, s = CASES[case]
    assert_exact(b0, [1.0] * len(b0), s, 1.0, [0.0, 0.3, 1.0, 4.0])


@pytest.mark.parametrize("size", [1e-6, 1e3])
def test_in_other_units(size):
    """b → cb, s → c³s and t → t/c⁴ of three layers: tiny and huge weights are not special."""
    b0, eta, times = np.array([0.1, -0.3, 0.5]), [0.5, 1.0, 2.0], np.array([0.0, 0.5, 3.0, 9.0])
    b = course(b0, eta, -1.2).sizes(times)
    scaled = course(size * b0, eta, -1.2 * size**3).sizes(times / size**4)
    np.testing.assert_allclose(scaled / size, b, rtol=1e-12)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.05, 1.5), st.sampled_from([1, -1]), st.floats(0.3, 3)), min_size=2, max_size=6),
    st.floats(0, 2),
    st.floats(0.3, 2),
)
@pytest.mark.long
def test_any_sizes_and_rates(layers, s, d):
    assert_exact([x * sign for x, sign, _ in layers], [eta for _, _, eta in layers], s, d, [0.0, 0.2, 1.5])


def test_for_ever():
    """To s/d; equally small layers backwards, and all without target, to zero; nothing where inputs never come."""
    times = np.array([1e9, 1e200])
    for b0 in ([0.1, 0.2, 0.3], [-1.0, 0.2, 0.3], [0.0, 0.2, 0.3], [5.0, 4.0, 3.0]):
        a = course(b0, [1.0, 2.0, 0.5], 1.5, 0.5).sizes(times).prod(axis=1)
        np.testing.assert_allclose(a, 3.0, rtol=1e-14)
        np.testing.assert_allclose(course(b0, [1.0, 2.0, 0.5], 0.0).sizes(times).prod(axis=1), 0.0, atol=1e-100)
    fading = course([-0.2, 0.2, 0.3], [1.0, 1.0, 1.0], 1.5).sizes(times)[:, :, 0]
    np.testing.assert_allclose(fading, [[0.0, 0.0, np.sqrt(0.05)]] * 2, atol=1e-100)
    unseen = course([0.1, 0.2, 0.3], np.ones(3), 0.0, 0.0).sizes(times)[0, :, 0]
    np.testing.assert_allclose(unseen, [0.1, 0.2, 0.3], rtol=1e-15)


def test_a_power_law_at_late_times():
    """Equal layers without target: a^{2/L−2} grows by (2L − 2)t, to the last digits over 200 orders of magnitude."""
    L, times = 4, np.array([1e3, 1e12, 1e100, 1e199])
    a = course([0.5] * L, np.ones(L), 0.0).sizes(times).prod(axis=1)[:, 0]
    np.testing.assert_allclose(a, (0.5 ** (2 - 2 * L) + (2 * L - 2) * times) ** (-L / (2 * L - 2)), rtol=1e-11)


def test_longer_than_there_are_numbers():
    """(1e-100)^5 is the speed: it stays, and nothing warns."""
    b0 = [1e-100] * 6
    np.testing.assert_allclose(course(b0, np.ones(6), 1.0).sizes(np.array([0.0, 1e200]))[:, :, 0], [b0] * 2, rtol=1e-12)


def test_shorter_than_there_are_numbers():
    """Weights of 1e49 fall at once, and are what they are at the start."""
    b = course([1e49] * 6, np.ones(6), 1.0).sizes(np.array([0.0, 10.0]))[:, :, 0]
    np.testing.assert_allclose(b[0], 1e49, rtol=1e-14)
    np.testing.assert_allclose(b[1], 1.0, rtol=1e-9)


def test_layers_that_rounding_cannot_tell_apart_are_equal():
    """Backwards they fade; taken for unequal the mode would turn round and be learned."""
    b0 = np.array([[-0.3], [0.3 * (1 + 1e-15)], [0.5]])
    one = (np.ones(3), np.ones(1), np.ones(1))
    assert abs(Courses(b0, *one).sizes(np.array([1e3]))[0].prod()) < 1e-20
    assert Courses(b0, *one, 0.0).sizes(np.array([1e3]))[0].prod() == pytest.approx(1.0)


def test_when_is_the_inverse():
    b0 = np.array([[0.01, -0.3, 0.2, 0.2], [0.02, 0.5, -0.2, 0.4], [0.4, 0.6, 0.9, 0.5]])
    courses = Courses(b0, np.array([1.0, 2.0, 1.0]), np.array([1.0, 0.7, 1.0, 0.0]), np.ones(4))
    a = np.array([0.5, 0.3, 0.4, 0.01])
    t = courses.when(a)
    assert np.all(np.isfinite(t))
    found = courses.sizes_of(np.arange(4), t).prod(axis=0)
    np.testing.assert_allclose(found, a, rtol=1e-13)
    never = courses.when(np.array([2.0, -0.5, -0.9, 0.5]))
    assert np.all(np.isnan(never))
