"""The picture of a network between its limits shows what the three are, as long as something happens."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr
from lazyrich import InvalidInput

HIERARCHY = lr.tasks.semantic_hierarchy()


def curves(figure):
    """Name → times and values."""
    (panel,) = figure.axes
    return {line.get_label().partition(",")[0].partition(" (")[0]: line.get_data() for line in panel.lines}


def test_a_small_start_has_all_three():
    problem = lr.Problem(HIERARCHY, lr.inits.gaussian(0, sizes=(8, 14, 8), scale=1e-3))
    found = curves(lr.plot.limits(problem))
    assert list(found) == ["network", "lazy limit", "saddle-to-saddle limit"]
    times, loss = found["network"]
    assert loss[-1] < 0.01 * loss[0] and loss[len(loss) // 2] > 0.01 * loss[0]  # learned, and not long before the end
    assert np.abs(loss - lr.flow(problem, times).loss).max() < 1e-9
    assert np.array_equal(found["lazy limit"][1], lr.lazy_limit(problem, times).loss)
    when, levels = found["saddle-to-saddle limit"]
    sigma = np.linalg.svd(HIERARCHY.sigma_yx, compute_uv=False)  # inputs are white, c = 1/8
    assert levels[0] == pytest.approx(HIERARCHY.loss(np.zeros((8, 8))), rel=1e-12)
    assert np.sort(levels[:-2] - levels[1:-1])[::-1] == pytest.approx(sigma**2 * 8 / 2, rel=1e-9)
    half_times = np.sort(lr.landscape.plateau_times(problem).times)
    assert np.all((when[1:-1] < half_times) & (when[1:-1] > 0.85 * half_times))


def test_a_step_is_where_half_of_the_loss_of_a_mode_is_gone():
    task = lr.Task.from_correlations(np.diag([4.0, 1.0]))
    problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=3, strengths=1e-8))
    when, levels = curves(lr.plot.limits(problem))["saddle-to-saddle limit"]
    assert lr.solve(problem, when[1:3]).loss == pytest.approx((levels[:2] + levels[1:3]) / 2, rel=1e-6)


def test_a_mode_that_never_comes_has_no_step_and_deep_modes_have_theirs():
    task = lr.Task.from_correlations(np.diag([4.0, 1.0]))
    one = lr.Problem(task, lr.inits.aligned(0, task, hidden=1, strengths=1e-8))
    assert len(curves(lr.plot.limits(one))["saddle-to-saddle limit"][0]) == 3
    deep = lr.Problem(task, lr.inits.aligned(0, task, hidden=(3, 3), strengths=1e-4))
    when, _ = curves(lr.plot.limits(deep))["saddle-to-saddle limit"]
    assert when[1:3] == pytest.approx(lr.landscape.plateau_times(deep).times)


@pytest.mark.long
def test_a_large_start_has_two_that_lie_together():
    problem = lr.Problem(HIERARCHY, lr.inits.gaussian(0, sizes=(8, 200, 8), scale=1.0))
    figure = lr.plot.limits(problem)
    found = curves(figure)
    assert list(found) == ["network", "lazy limit"]
    network, lazy = found["network"][1], found["lazy limit"][1]
    assert np.abs(network - lazy).max() < 0.05 * network[0]
    gap = lr.observables.linearisation_gap(lr.flow(problem, found["network"][0])).max()
    assert f"{100 * gap:.2g}%" in figure.axes[0].get_title(loc="left")


@pytest.mark.parametrize("tau", [0.05, 3.0])
def test_of_a_relu_both_are_seen_to_fall(tau, rng):
    X = rng.normal(size=(30, 4))
    problem = lr.Problem(lr.Task.from_data(X, np.abs(X[:, :1])), lr.inits.symmetrised(0, sizes=(4, 40, 1), tau=tau))
    _, loss = curves(lr.plot.limits(problem))["network"]
    assert np.ptp(loss[: len(loss) // 10]) < 0.95 * np.ptp(loss) and loss[-30] - loss[-1] < 0.03 * np.ptp(loss)


def test_a_limit_that_is_not_seen_to_fall_says_when_it_does():
    problem = lr.Problem(HIERARCHY, lr.inits.gaussian(0, sizes=(8, 14, 8), scale=1e-3))
    words = [text.get_text() for text in lr.plot.limits(problem).axes[0].get_legend().get_texts()]
    half = float(words[1].partition("t = ")[2])
    first, at_half, limit = lr.lazy_limit(problem, [0.0, half, np.inf]).loss
    assert (at_half - limit) / (first - limit) == pytest.approx(0.5, abs=0.01)


def test_where_nothing_moves_it_says_so():
    figure = lr.plot.limits(lr.Problem(HIERARCHY, lr.Network([np.zeros((4, 8)), np.zeros((8, 4))])))
    assert "neither moves" in figure.axes[0].get_title(loc="left")


def test_times_of_ones_own_and_refusals():
    problem = lr.Problem(HIERARCHY, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    assert curves(lr.plot.limits(problem, [0.0, 5.0, 9.0]))["network"][0].tolist() == [0.0, 5.0, 9.0]
    with pytest.raises(InvalidInput, match="times must be finite"):
        lr.plot.limits(problem, [0.0, np.inf])
    with pytest.raises(InvalidInput, match="lazy_limit has no weight decay"):
        lr.plot.limits(lr.Problem(HIERARCHY, problem.network, weight_decay=0.1))


def entries(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


@pytest.mark.parametrize("activation", ["linear", "relu", "tanh"])
@pytest.mark.parametrize("tau", [1.0, 5.0])
def test_networks_with_biases(activation, tau, rng):
    network = lr.inits.pytorch(0, sizes=(4, 10, 2), activation=activation)
    parts = network.state_dict()
    layers, biases = ([parts[f"{i}.{name}"] for i in range(2)] for name in ("weight", "bias"))
    task = lr.Task.from_data(rng.normal(size=(30, 4)), rng.normal(size=(30, 2)))
    problem = lr.Problem(task, lr.Network(layers, activation, multiplier=tau, biases=biases))
    found = curves(lr.plot.limits(problem))
    assert list(found) == ["network", "lazy limit"]
    assert np.array_equal(found["lazy limit"][1], lr.lazy_limit(problem, found["lazy limit"][0]).loss)
    assert found["network"][1][0] == pytest.approx(found["lazy limit"][1][0], rel=1e-12)


@pytest.mark.long
def test_a_staircase_is_drawn_where_modes_begin_small_and_else_the_legend_says_why_not():
    task = lr.Task.from_correlations(np.diag([4.0, 1.0]))
    for strength, seen in ((0.049, True), (0.051, False)):
        problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=3, strengths=[1e-6, strength]))
        figure = lr.plot.limits(problem)
        assert ("saddle-to-saddle limit" in curves(figure)) is seen
        assert ("no staircase: modes begin at 0.051 of their limit" in entries(figure)) is not seen
    large = lr.Problem(HIERARCHY, lr.inits.gaussian(0, sizes=(8, 40, 8), scale=1.0))
    assert not any("staircase" in entry for entry in entries(lr.plot.limits(large)))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) * [2.0, 1.0, 1.0, 0.5]
    task, W = (
        lr.Task.from_data(X, X @ rng.normal(size=(4, 2))),
        lr.inits.gaussian(0, sizes=(4, 5, 2), scale=0.05).weights,
    )
    for network, why in (
        (lr.Network(W, biases=[np.zeros(5), np.zeros(2)]), "only without biases"),
        (lr.Network(W, "relu"), "only for linear layers"),
        (lr.Network(W), "only on white inputs"),
    ):
        words = entries(lr.plot.limits(lr.Problem(task, network), [0.0, 1.0]))
        assert f"no staircase: its times are known {why}" in words
    relu = lr.Problem(HIERARCHY, lr.Network(large.network.weights, "relu"))  # none was to be expected
    assert len(entries(lr.plot.limits(relu, [0.0, 1.0]))) == 2


def test_axes_of_ones_own_keep_their_title_and_scales(recwarn):
    from matplotlib.figure import Figure

    problem = lr.Problem(HIERARCHY, lr.inits.gaussian(0, sizes=(8, 14, 8), scale=1e-3))
    wanted = lr.plot.limits(problem).axes[0].get_title(loc="left")
    for scales in ({}, {"xscale": "log", "yscale": "log"}):
        panel = Figure().subplots()
        panel.set(title="mine", **scales)
        figure = lr.plot.limits(problem, axes=panel)
        figure.canvas.draw()
        assert [panel.get_title(loc=loc) for loc in ("left", "center", "right")] == ["", "mine", ""]
        words = panel.get_legend().get_title().get_text()
        assert "of the way apart" in words and wanted.endswith(words)
        assert len(panel.lines) == 3 and (panel.get_ylim()[0] > 0) == bool(scales)
        assert not scales or panel.get_ylim()[0] > 1e-6  # not down to the rounding of a loss of zero
    assert not recwarn.list
