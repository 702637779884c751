"""Tasks of other structures: covariances counted and drawn, modes against singular values by NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import lazyrich as lr

t = lr.tasks


def as_known(task, modes):
    """Closed-form modes against the singular values of the task, and against the task itself."""
    s = np.linalg.svd(np.asarray(task.sigma_yx), compute_uv=False)
    known = np.zeros_like(s)
    known[: len(modes.s)] = modes.s
    np.testing.assert_allclose(known, s, atol=1e-14)
    np.testing.assert_allclose(modes.U * modes.s @ modes.V.T, task.sigma_yx, atol=1e-14)
    for frame in (modes.U, modes.V):
        np.testing.assert_allclose(frame.T @ frame, np.eye(len(modes.s)), atol=1e-13)
    assert np.all(np.diff(modes.s) <= 1e-15)


@pytest.mark.parametrize("items", [3, 4, 5, 8, 13])
@pytest.mark.parametrize("spread", [0.3, 1.0, 20.0])
def test_rings_and_orders_have_waves_for_modes(items, spread):
    as_known(t.ring(items=items, spread=spread), t.ring_modes(items=items, spread=spread))
    as_known(t.order(items=items, spread=spread), t.order_modes(items=items, spread=spread))


def test_an_order_of_two_is_one_contrast():
    as_known(t.order(items=2), t.order_modes(items=2))


@pytest.mark.parametrize(
    ("count", "size", "within", "between"),
    [(3, 3, 1.0, 0.1), (2, 5, 2.0, 0.0), (1, 4, 1.0, 0.5), (4, 1, 1.0, 0.3), (2, 3, 0.2, 0.9), (2, 2, 0.0, 0.0)],
)
def test_clusters_have_contrasts_for_modes(count, size, within, between):
    options = {"count": count, "size": size, "within": within, "between": between, "spread": 2.0}
    as_known(t.clusters(**options), t.clusters_modes(**options))


@pytest.mark.parametrize("branches", [(2,), (2, 2, 2), (3, 2), (2, 1, 4), (5,), (1, 3)])
@pytest.mark.parametrize("flip", [0.0, 0.1, 0.5, 0.8])
def test_trees_have_contrasts_for_modes(branches, flip):
    as_known(t.tree(branches=branches, flip=flip), t.tree_modes(branches=branches, flip=flip))


def test_a_tree_has_the_covariance_of_all_histories():
    """A feature down a tree of two levels: all 2⁷ histories with their probabilities, one after another."""
    flip, C = 0.2, np.zeros((4, 4))
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]  # nodes: the root, two children, four leaves
    for root, *changes in product([1, -1], *[[False, True]] * 6):
        values, p = {0: root}, 0.5
        for (parent, child), change in zip(edges, changes, strict=True):
            values[child] = -values[parent] if change else values[parent]
            p *= flip if change else 1 - flip
        leaves = np.array([values[node] for node in (3, 4, 5, 6)])
        C += p * np.outer(leaves, leaves)
    task = t.tree(branches=(2, 2), flip=flip)
    np.testing.assert_allclose(task.targets @ task.targets.T, C, atol=1e-14)


def test_a_binary_tree_of_many_features_is_the_tree():
    drawn = [t.binary_tree(seed, levels=3, features=500, flip=0.15).targets for seed in range(100)]
    known = t.tree(branches=(2, 2, 2), flip=0.15).targets
    C = np.mean([Y @ Y.T for Y in drawn], axis=0) / 500
    np.testing.assert_allclose(C, known @ known.T, atol=6 / np.sqrt(50_000))  # of ±1, six standard errors at most


@pytest.mark.parametrize("weight", [1.0, 0.6, 3.0])
@pytest.mark.parametrize("second", ["ring", "tree", "kingdom"])
def test_what_cuts_across_has_the_modes_of_both(weight, second):
    first = t.tree(branches=(2, 2))
    other = {"ring": t.ring(items=5), "tree": t.tree(branches=(3,)), "kingdom": t.semantic_hierarchy()}[second]
    as_known(t.cross_cutting(first, other, weight=weight), t.cross_cutting_modes(first, other, weight=weight))


def test_an_item_of_two_ways_has_the_features_of_both():
    first, second = t.ring(items=3), t.order(items=2)
    both = t.cross_cutting(first, second, weight=2.0)
    for i, j in product(range(3), range(2)):
        np.testing.assert_array_equal(both.targets[2 * i + j], [*first.targets[i], *(2 * second.targets[j])])
    assert both.items == () and both.name == "ring × order"


def test_links_that_are_stronger_make_alike():
    """Three items, weights 2 and 1: the inverse written out by hand."""
    task = t.graph([[0, 2, 0], [2, 0, 1], [0, 1, 0]], spread=1.0)
    L = np.array([[2.0, -2.0, 0.0], [-2.0, 3.0, -1.0], [0.0, -1.0, 1.0]]) + np.eye(3)
    C = task.targets @ task.targets.T
    np.testing.assert_allclose(C @ L, np.eye(3), atol=1e-14)
    assert C[0, 1] > C[1, 2] > C[0, 2] > 0


def test_random_graphs_are_the_same_for_the_same_seed_and_know_no_links_of_probability_zero():
    assert np.array_equal(t.random_graph(3).targets, t.random_graph(3).targets)
    assert not np.array_equal(t.random_graph(3).targets, t.random_graph(4).targets)
    np.testing.assert_allclose(t.random_graph(0, links=0.0, spread=2.0).targets, 2 * np.eye(8), atol=1e-14)
    all_linked = t.clusters(count=1, size=6, spread=1.5)
    np.testing.assert_allclose(t.random_graph(0, items=6, links=1.0, spread=1.5).targets, all_linked.targets)


def test_random_features_have_the_covariance_on_average():
    task = t.ring(items=5, spread=1.0)
    drawn = [t.with_random_features(seed, task, features=500) for seed in range(100)]
    C = task.targets @ task.targets.T
    mean = np.mean([one.targets @ one.targets.T for one in drawn], axis=0)
    np.testing.assert_allclose(mean, C, atol=6 * C.max() * np.sqrt(2 / 50_000))  # six standard errors of a variance
    assert drawn[0].d_out == 500 and np.array_equal(drawn[0].inputs, task.inputs)


def test_a_covariance_without_full_rank_has_a_task():
    task = t.from_covariance(np.ones((3, 3)), items=["a", "b", "c"])
    np.testing.assert_allclose(task.targets @ task.targets.T, np.ones((3, 3)), atol=1e-14)
    assert task.rank == 3 and np.linalg.matrix_rank(task.targets, tol=1e-7) == 1


def test_names_of_items_stay_with_them():
    task = lr.Task.from_data(np.eye(2) + 1, np.eye(2), items=["oak", "salmon"])
    for changed in (
        task,
        task.whitened(),
        task.centred(),
        task.with_constant(),
        task.with_constant().without_constant(),
    ):
        assert changed.items == ("oak", "salmon")
    assert t.with_random_features(0, task, features=3).items == ("oak", "salmon")
    assert lr.Task.from_data(np.eye(2), np.eye(2)).items == ()


ANIMALS = {"items": ["a", "a"]}
SAYS = {
    r"^items must be at least 3, and it is 2\.": lambda: t.ring(items=2),
    r"^items must be a whole number, and it is 4\.5\.": lambda: t.order(items=4.5),
    r"^spread must be above 0, and it is 0\.": lambda: t.ring(spread=0.0),
    r"^between must be at least 0, and it is -1\.": lambda: t.clusters(between=-1.0),
    r"^count × size must be at least 2, and it is 1\.": lambda: t.clusters(count=1, size=1),
    r"^count × size must be at most 4,096, and it is 10,000\.": lambda: t.clusters(count=100, size=100),
    r"^branches must be whole numbers, such as \(2, 2, 2\), and they are 3\.": lambda: t.tree(branches=3),
    r"^branches must be whole numbers, .* and they are \(\)\.": lambda: t.tree(branches=()),
    r"^each of branches must be at least 1, and it is 0\.": lambda: t.tree(branches=(2, 0)),
    r"^the number of leaves must be at most 4,096, and it is 1,048,576\.": lambda: t.tree(branches=(2,) * 20),
    r"^flip must be a probability between 0 and 1, and it is 1\.5\.": lambda: t.tree_modes(flip=1.5),
    r"^links must be a probability between 0 and 1, and it is -0\.1\.": lambda: t.random_graph(0, links=-0.1),
    r"^rng must be a seed .* and it is None\.": lambda: t.random_graph(None),
    r"^weights must be square, up to 4,096 items, and they are 2 × 3\.": lambda: t.graph(np.ones((2, 3))),
    r"^weights must not be negative, and the least is -1\.": lambda: t.graph([[0, -1], [-1, 0]]),
    r"^weights must be symmetric, and they differ by 1 across\.": lambda: t.graph([[0, 1], [0, 0]]),
    r"^covariance must be square, and it has 1 × 2 entries\.": lambda: t.from_covariance([[1.0, 2.0]]),
    r"^covariance must be symmetric, and it differs from its transpose by 1\.": lambda: t.from_covariance(
        [[1.0, 1.0], [0.0, 1.0]]
    ),
    r"^covariance must have no negative eigenvalue, and its least is -1\.": lambda: t.from_covariance(
        [[0.0, 1.0], [1.0, 0.0]]
    ),
    r"^covariance must not be zero: items without": lambda: t.from_covariance(np.zeros((2, 2))),
    r"^first must have one-hot inputs, one item for each, and it has others: try": lambda: t.cross_cutting(
        lr.Task.from_correlations(np.eye(2)), t.ring()
    ),
    r"^second must be a lazyrich Task, and it is a int": lambda: t.cross_cutting(t.ring(), 3),
    r"^weight must be above 0, and it is -1\.": lambda: t.cross_cutting(t.ring(), t.ring(), weight=-1.0),
    r"^first must have what all items share as a mode of its own": lambda: t.cross_cutting_modes(
        lr.Task.from_data(np.eye(2), [[1.0], [0.0]]), t.ring()
    ),
    r"^the number of pairs of items must be at most 4,096, and it is 6,400": lambda: t.cross_cutting(
        t.ring(items=80), t.ring(items=80)
    ),
    r"^task must hold samples, which are its items": lambda: t.with_random_features(
        0, lr.Task.from_correlations(np.eye(2))
    ),
    r"^features must be at least 1, and it is 0": lambda: t.with_random_features(0, t.ring(), features=0),
    r"^items must name each sample in its own way, and 'a' is there twice": lambda: t.graph(np.ones((2, 2)), **ANIMALS),
    r"^items must hold one name per sample \(2\), and it holds 1\.": lambda: t.graph(np.ones((2, 2)), items=["a"]),
    r"^items must be a list of words, and it is 'ab'\.": lambda: t.graph(np.ones((2, 2)), items="ab"),
    r"^items must be a list of words, and it is \[1, 2\]\.": lambda: t.graph(np.ones((2, 2)), items=[1, 2]),
}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("says", SAYS)
def test_bad_input_is_one_sentence(says):
    with pytest.raises(lr.InvalidInput, match=says) as caught:
        SAYS[says]()
    assert "\n" not in str(caught.value)
