"""Pictures of differentiation: joins are mean distances, names are there, paths are those of the observable."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.plot.concepts import merged


@pytest.fixture(scope="module")
def traj():
    task = lr.tasks.semantic_hierarchy()
    problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=1e-4))
    return lr.solve(problem, np.linspace(0.0, 60.0, 61))


def joins(apart):
    """Average linkage by hand: the two groups that are nearest on average, until one is left."""
    groups, heights = [[i] for i in range(len(apart))], []
    while len(groups) > 1:
        mean = {
            (a, b): np.mean([apart[i, j] for i in groups[a] for j in groups[b]])
            for a in range(len(groups))
            for b in range(a)
        }
        (a, b), height = min(mean.items(), key=lambda pair: pair[1])
        heights.append(height)
        groups = [group for k, group in enumerate(groups) if k not in (a, b)] + [groups[a] + groups[b]]
    return heights


def labels(panel):
    return [text.get_text() for text in panel.get_xticklabels()]


def test_joins_are_at_mean_distances(traj):
    figure = lr.plot.tree(traj, [30, -1])
    for panel, k in zip(figure.axes, (30, 60), strict=True):
        drawn = [line.get_ydata()[1] for line in panel.lines]
        np.testing.assert_allclose(drawn, joins(lr.observables.hidden_distances(traj)[k]), rtol=1e-9)


def test_kinds_are_side_by_side(traj):
    last = labels(lr.plot.tree(traj).axes[-1])
    places = [last.index(name) for name in traj.problem.task.items]
    assert sorted(last) == sorted(traj.problem.task.items)
    assert all(abs(places[i] - places[i + 1]) == 1 for i in (0, 2, 4, 6))
    assert max(places[:4]) < min(places[4:]) or min(places[:4]) > max(places[4:])


def test_earlier_trees_keep_to_the_last_where_they_can(traj):
    figure = lr.plot.tree(traj, [45, -1])
    assert labels(figure.axes[0]) == labels(figure.axes[1])


def test_of_two_branches_the_first_is_left():
    apart = np.array([[0, 3, 1], [3, 0, 3], [1, 3, 0.0]])
    assert merged(apart).leaves == [0, 2, 1] or merged(apart).leaves == [1, 0, 2]
    assert merged(apart, np.array([5, 0, 1])).leaves == [1, 2, 0]
    assert merged(np.zeros((1, 1))).leaves == [0]


def test_four_times_are_shown_unless_others_are_asked_for(traj):
    assert len(lr.plot.tree(traj).axes) == 4
    assert [panel.get_title(loc="left") for panel in lr.plot.tree(traj, [0]).axes] == ["t = 0"]


def test_paths_are_those_of_the_observable(traj):
    (panel,) = lr.plot.mds(traj).axes
    paths = [line for line in panel.lines if len(line.get_xdata()) > 1]
    assert [text.get_text() for text in panel.texts] == list(traj.problem.task.items)
    ends = np.array([[line.get_xdata()[-1], line.get_ydata()[-1]] for line in paths])
    np.testing.assert_allclose(ends, lr.observables.mds(traj, stress=True)[-1], rtol=1e-6)


def test_items_without_names_have_numbers():
    task = lr.tasks.ring(items=5)
    traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=5, strengths=0.01)), [0.0, 40.0])
    assert [text.get_text() for text in lr.plot.mds(traj).axes[0].texts] == list("12345")
    assert set(labels(lr.plot.tree(traj).axes[-1])) == set("12345")


def test_items_that_coincide_share_a_label():
    task = lr.Task.from_data(np.eye(4), [[2.0, 0], [2, 0], [0, 2], [0, -1]], items=["owl", "eagle", "oak", "rose"])
    traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=1e-4)), [0.0, 5.0, 100.0])
    assert [text.get_text() for text in lr.plot.mds(traj).axes[0].texts] == ["owl, eagle", "oak", "rose"]


def test_draws_into_axes_of_ones_own(traj):
    from matplotlib.figure import Figure

    panel = Figure().subplots()
    assert lr.plot.mds(traj, axes=panel) is panel.figure


SAYS = {
    r"^traj must be a lazyrich Trajectory, and it is a int": lambda traj: lr.plot.tree(3),
    r"^traj must be a lazyrich Trajectory": lambda traj: lr.plot.mds(None),
    r"^indices must lie between -61 and 60, and it is 61": lambda traj: lr.plot.tree(traj, [61]),
    r"^indices must name at least one of the times": lambda traj: lr.plot.tree(traj, []),
    r"^layer must be at most 1": lambda traj: lr.plot.mds(traj, layer=3),
    r"^axes must be axes of a matplotlib figure, and it is a int": lambda traj: lr.plot.mds(traj, axes=3),
    r"^the items must be at most 64 to be drawn, and there are 65: try": lambda traj: lr.plot.tree(
        lr.solve(
            lr.Problem(lr.tasks.ring(items=65), lr.inits.zero_balanced(0, sizes=(65, 2, 65), scale=0.1)), [0.0, 1.0]
        )
    ),
}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("says", SAYS)
def test_bad_input_is_one_sentence(says, traj):
    with pytest.raises(lr.InvalidInput, match=says):
        SAYS[says](traj)
