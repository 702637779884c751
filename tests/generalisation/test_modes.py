"""What each mode adds to the test loss, and when it begins to hurt; the table and the picture."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

curve = lr.generalisation.curve


def correlated(rng, d_in, d_out):
    mix = rng.normal(size=(d_in, d_in))
    return lr.Task.from_data(rng.normal(size=(9, d_in)) @ mix, rng.normal(size=(9, d_out)))


@pytest.mark.parametrize("white", [True, False])
def test_parts_make_the_whole(rng, white):
    train, truth = lr.tasks.noisy_teacher(rng, d_in=4, d_out=3, strengths=[3.0, 1.0])[:2]
    test = truth if white else correlated(rng, 4, 3)
    found = curve(lr.Problem(train, lr.inits.zero_balanced(rng, sizes=(4, 5, 3), scale=0.3)), test)
    modes, W = found.by_mode, np.asarray(found.prediction.trajectory.function)
    np.testing.assert_allclose(modes.added.sum(axis=1) + modes.rest + found.test[0], found.test, rtol=1e-12)
    U, _, V = train.modes
    for t in (0, 57, 200):  # the network of the diagonal alone has these parts and no rest, whatever the test inputs
        alone, first = (U @ np.diag(np.diag(U.T @ A @ V)) @ V.T for A in (W[t], W[0]))
        assert modes.added[t].sum() == pytest.approx(float(test.loss(alone) - test.loss(first)), rel=1e-10, abs=1e-12)
        for i, (u, v) in enumerate(zip(U.T, V.T, strict=True)):  # and each mode is what it is without the others
            single = float(test.loss(u @ W[t] @ v * np.outer(u, v)) - test.loss(u @ W[0] @ v * np.outer(u, v)))
            assert modes.added[t, i] == pytest.approx(single, rel=1e-10, abs=1e-12)
    if white:
        np.testing.assert_allclose(modes.wanted, np.diag(U.T @ test.target @ V), atol=1e-13)


def test_an_aligned_network_has_no_rest():
    train = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
    test = correlated(np.random.default_rng(0), 3, 3)
    found = curve(lr.Problem(train, lr.inits.aligned(0, train, hidden=4, strengths=0.1)), test)
    assert np.abs(found.by_mode.rest).max() < 1e-12 * found.test.max()


def test_begins_to_hurt_when_it_passes_what_is_asked_for():
    s, a0, wanted = np.array([3.0, 2.0, 1.0, 0.5]), 1e-3, np.array([1.0, 2.5, -0.3, 0.4])
    train, test = lr.Task.from_correlations(np.diag(s)), lr.Task.from_correlations(np.diag(wanted))
    found = curve(lr.Problem(train, lr.inits.aligned(0, train, hidden=4, strengths=a0)), test)
    with np.errstate(invalid="ignore"):
        when = np.log((s / a0 - 1) / (s / wanted - 1)) / (2 * s)
    when[1], when[2] = np.inf, 0.0  # never so strong; asked for the other sign
    np.testing.assert_allclose(found.by_mode.hurts_from, when, rtol=1e-12)


@pytest.mark.parametrize("width", [9, 60])
def test_of_what_is_integrated_too(width):
    train, test = lr.tasks.noisy_teacher(1, d_in=4, d_out=4, strengths=[3.0, 1.5])[:2]
    known = [
        curve(lr.Problem(train, network), test).by_mode.hurts_from
        for start in [lr.inits.gaussian(0, sizes=(4, width, 4), scale=0.3)]
        for network in (start, lr.Network([start.weights[0], start.weights[1] * (1 + 1e-9)]))
    ]
    np.testing.assert_allclose(*known, rtol=1e-4)


def test_directions_that_the_test_lacks_add_nothing():
    train = lr.Task.from_correlations(np.diag([2.0, 1.0]))
    test = lr.Task.from_data([[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]])
    modes = curve(lr.Problem(train, lr.Network([np.zeros((2, 2))])), test).by_mode
    assert modes.weight[1] == 0 and np.abs(modes.added[:, 1]).max() < 1e-15 and np.isinf(modes.hurts_from[1])


def test_table_and_picture(tmp_path):
    train, test = lr.tasks.noisy_teacher(0, d_in=14, d_out=14, strengths=[4.0, 2.0])[:2]
    problem = lr.Problem(train, lr.inits.zero_balanced(0, sizes=(14, 14, 14), scale=0.01))
    found = curve(problem, test)
    lines = str(found).splitlines()
    assert lines[1].startswith("known by      riccati (exact)") and "stop at t =" in lines[4]
    assert "and 2 weaker modes" in str(found) and "outside the modes" in lines[-1]
    assert repr(found).startswith("<Curve: exact, best Stopping(time=")
    figure = found.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 10_000 and len(figure.axes) == 2
    never = curve(lr.Problem(train, lr.Network([np.zeros((14, 14))])), train)
    assert never.plot().axes[0].get_title(loc="left").startswith("Never stop")
    with pytest.raises(lr.InvalidInput, match=r"^times must hold a finite one to be drawn"):
        curve(problem, test, [np.inf]).plot()
