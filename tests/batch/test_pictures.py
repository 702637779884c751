"""`plot.ensemble` and `plot.fates`: what they draw is what the numbers say."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import lazyrich as lr
from lazyrich._check import InvalidInput


@pytest.fixture(scope="module")
def problems():
    task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
    return [lr.Problem(task, lr.inits.zero_balanced(seed, sizes=(3, 4, 3), scale=0.05)) for seed in range(30)]


@pytest.fixture(scope="module")
def many(problems):
    return lr.batch.solve(problems, np.linspace(0.0, 8.0, 40))


@pytest.fixture(scope="module")
def fates(problems):
    return lr.batch.fate(problems)


def test_the_mean_the_band_and_single_curves(many):
    panel = lr.plot.ensemble(many, single=7, quantiles=(0.25, 0.75)).axes[0]
    losses = np.array([traj.loss for traj in many])
    *single, mean = panel.lines
    assert len(single) == 7
    np.testing.assert_array_equal([line.get_ydata() for line in single], losses[:7])
    np.testing.assert_allclose(mean.get_ydata(), losses.mean(axis=0), rtol=1e-13)
    corners = panel.collections[0].get_paths()[0].vertices
    low, high = np.quantile(losses, (0.25, 0.75), axis=0)
    assert {tuple(point) for point in zip(many[0].times, low, strict=True)} <= {tuple(point) for point in corners}
    assert {tuple(point) for point in zip(many[0].times, high, strict=True)} <= {tuple(point) for point in corners}
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["25 to 75 %", "mean of 30"]


def test_modes_and_other_observables(many):
    panel = lr.plot.ensemble(many, "mode_strengths", single=0).axes[0]
    strengths = np.array([lr.observables.mode_strengths(traj) for traj in many])
    np.testing.assert_allclose([line.get_ydata() for line in panel.lines], strengths.mean(axis=0).T, atol=1e-13)
    assert panel.get_ylabel() == "mode strength uᵀWv"
    assert lr.plot.ensemble(many[:3], "kernel_distance").axes[0].get_ylabel().startswith("kernel distance")


def test_forever_is_not_drawn_and_axes_are_taken(problems):
    forever, before = lr.batch.solve(problems[:4], [0.0, 1.0, np.inf]), dict(matplotlib.rcParams)
    axes = Figure().subplots()
    assert lr.plot.ensemble(forever, axes=axes, log=True) is axes.figure
    assert len(axes.lines[-1].get_xdata()) == 2 and axes.get_yscale() == "log"
    assert dict(matplotlib.rcParams) == before


def test_ends_and_half_times(fates):
    ends, times = lr.plot.fates(fates).axes
    minimum = sum(fate.kind == "global minimum" for fate in fates)
    assert 0 < minimum < len(fates)
    assert [bar.get_width() for bar in ends.patches] == [minimum, len(fates) - minimum]
    assert [label.get_text() for label in ends.get_yticklabels()] == ["global minimum", "misses 3"]
    halves = np.array([fate.half_times for fate in fates])
    medians = [line.get_xdata()[0] for line in times.lines if len(line.get_xdata()) == 1]
    np.testing.assert_allclose(medians, np.nanmedian(halves, axis=0))
    assert any("% learn it" in text.get_text() for text in times.texts)


def test_many_ends_are_told_together(fates):
    from dataclasses import replace

    saddles = [replace(fates[0], kind="saddle", missed=(i, j)) for i in range(4) for j in range(i + 1, 5)]
    labels = [label.get_text() for label in lr.plot.fates([*fates, *saddles]).axes[0].get_yticklabels()]
    assert len(labels) == 8 and labels[-1].endswith("other saddles")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda many, fates: lr.plot.ensemble([]), "trajectories is empty"),
        (lambda many, fates: lr.plot.ensemble(many[0]), "trajectories must be a list of trajectories"),
        (lambda many, fates: lr.plot.ensemble([many[0], many[0].at([1.0])]), "trajectories must share their times"),
        (lambda many, fates: lr.plot.ensemble(many, "nothing"), "quantity must be one of"),
        (lambda many, fates: lr.plot.ensemble(many, "gram_matrix"), "quantity must be one of"),
        (lambda many, fates: lr.plot.ensemble(many, quantiles=(0.9, 0.1)), "quantiles must be two growing fractions"),
        (lambda many, fates: lr.plot.ensemble(many, quantiles=0.5), "quantiles must be two growing fractions"),
        (lambda many, fates: lr.plot.ensemble(many, single=-1), "single must be"),
        (lambda many, fates: lr.plot.fates([]), "fates is empty"),
        (lambda many, fates: lr.plot.fates(fates[0]), "fates must be a list of fates"),
        (lambda many, fates: lr.plot.fates([fates[0], 3]), r"fates\[1\] must be a Fate"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_messages(many, fates, call, message):
    with pytest.raises(InvalidInput, match=message):
        call(many, fates)


def test_one_time_one_network_and_no_time_at_all(problems):
    panel = lr.plot.ensemble(lr.batch.solve(problems, [1.0])).axes[0]
    _, labels = panel.get_legend_handles_labels()
    (bar,) = panel.collections[0].get_segments()
    losses = [traj.loss[0] for traj in lr.batch.solve(problems, [1.0])]
    np.testing.assert_allclose(bar[:, 1], np.quantile(losses, (0.1, 0.9)), rtol=1e-13)
    assert set(labels) == {"mean of 30", "10 to 90 %"}
    alone = lr.plot.ensemble(lr.batch.solve(problems[:1], [0.0, 1.0])).axes[0]
    assert len(alone.collections) == 0 and alone.get_legend_handles_labels()[1] == ["1 network"]
    with pytest.raises(InvalidInput, match="must have a finite time to be drawn at"):
        lr.plot.ensemble(lr.batch.solve(problems, [np.inf]))


def test_where_nothing_is_learned_the_picture_says_so(problems):
    nothing = lr.Problem(problems[0].task, lr.Network([np.zeros((3, 3))] * 2))
    panel = lr.plot.fates(lr.batch.fate([nothing] * 3)).axes[1]
    assert [text.get_text() for text in panel.texts] == ["no mode is learned on the way"]
