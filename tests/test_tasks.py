"""Tasks: correlations and losses against loops over the samples, whitening, and the named tasks of the literature."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import lazyrich as lr

REDUCTIONS = ("mean", "sum")


def samples(rng, P=11, d_in=4, d_out=3):
    return rng.normal(size=(P, d_in)), rng.normal(size=(P, d_out))


def correlation_by_loops(A, B, reduction):
    """mean or sum of a bᵀ over the samples, one sample after another."""
    total = np.zeros((A.shape[1], B.shape[1]))
    for a, b in zip(A, B, strict=True):
        total += np.outer(a, b)
    return total / len(A) if reduction == "mean" else total


def loss_by_loops(W, X, Y, reduction):
    """½ mean or sum of ‖y − Wx‖²."""
    squares = [sum((y_i - w @ x) ** 2 for y_i, w in zip(y, W, strict=True)) for x, y in zip(X, Y, strict=True)]
    return sum(squares) / 2 / (len(X) if reduction == "mean" else 1)


def inputs_of_condition(rng, P, d_in, condition):
    left, right = (np.linalg.qr(rng.normal(size=(n, d_in)))[0] for n in (P, d_in))
    return left * np.geomspace(1, 1 / condition, d_in) @ right.T


@pytest.mark.parametrize("reduction", REDUCTIONS)
class TestFromData:
    def test_correlations(self, rng, reduction):
        X, Y = samples(rng)
        task = lr.Task.from_data(X, Y, reduction=reduction)
        np.testing.assert_allclose(task.sigma_xx, correlation_by_loops(X, X, reduction), rtol=1e-13)
        np.testing.assert_allclose(task.sigma_yx, correlation_by_loops(Y, X, reduction), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(task.sigma_yy, correlation_by_loops(Y, Y, reduction), rtol=1e-13, atol=1e-14)
        assert (task.d_in, task.d_out, task.reduction) == (4, 3, reduction)

    def test_loss(self, rng, reduction):
        X, Y = samples(rng)
        task = lr.Task.from_data(X, Y, reduction=reduction)
        maps = rng.normal(size=(2, 5, 3, 4))
        want = [[loss_by_loops(W, X, Y, reduction) for W in row] for row in maps]
        np.testing.assert_allclose(task.loss(maps), want, rtol=1e-13)
        assert task.loss(maps[0, 0]) == pytest.approx(want[0][0], rel=1e-13)

    def test_target_is_the_best_map_and_the_floor_its_loss(self, rng, reduction):
        X, Y = samples(rng)
        task = lr.Task.from_data(X, Y, reduction=reduction)
        best = np.linalg.lstsq(X, Y)[0].T
        np.testing.assert_allclose(task.target, best, rtol=1e-12)
        floor = loss_by_loops(best, X, Y, reduction)
        constant = np.trace(task.sigma_yy - best @ task.sigma_xx @ best.T) / 2
        assert task.loss_floor == pytest.approx(floor, rel=1e-13)
        assert task.loss_floor == pytest.approx(constant, rel=1e-12)
        assert task.loss(task.target) == pytest.approx(floor, rel=1e-13)

    def test_whitened(self, rng, reduction):
        X, Y = samples(rng)
        task = lr.Task.from_data(X, Y, reduction=reduction)
        white = task.whitened()
        np.testing.assert_array_equal(white.sigma_xx, np.eye(4))
        np.testing.assert_allclose(
            correlation_by_loops(white.inputs, white.inputs, reduction), np.eye(4), rtol=0, atol=1e-14
        )
        np.testing.assert_allclose(white.inputs, X @ white.input_map.T, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(white.sigma_yx, correlation_by_loops(Y, white.inputs, reduction), rtol=0, atol=1e-14)
        W = rng.normal(size=(3, 4))
        assert white.loss(W) == pytest.approx(loss_by_loops(W @ white.input_map, X, Y, reduction), rel=1e-13)
        np.testing.assert_allclose(white.target @ white.input_map, task.target, rtol=1e-12)
        assert (white.reduction, white.loss_floor) == (reduction, pytest.approx(task.loss_floor, rel=1e-12))


class TestFromCorrelations:
    def test_inputs_are_white_and_targets_noiseless_unless_given(self, rng):
        sigma_yx = rng.normal(size=(3, 4))
        task = lr.Task.from_correlations(sigma_yx)
        np.testing.assert_array_equal(task.sigma_xx, np.eye(4))
        np.testing.assert_allclose(task.sigma_yy, sigma_yx @ sigma_yx.T, rtol=1e-14, atol=1e-15)
        np.testing.assert_array_equal(task.target, sigma_yx)
        assert task.loss_floor <= 1e-15
        assert task.inputs is None and task.targets is None

    def test_agrees_with_the_samples(self, rng):
        X, Y = samples(rng)
        data = lr.Task.from_data(X, Y)
        task = lr.Task.from_correlations(data.sigma_yx, data.sigma_xx, data.sigma_yy)
        np.testing.assert_allclose(task.target, np.linalg.lstsq(X, Y)[0].T, rtol=1e-12)
        for W in rng.normal(size=(5, 3, 4)):
            assert task.loss(W) == pytest.approx(loss_by_loops(W, X, Y, "mean"), rel=1e-12)

    def test_noiseless_targets_with_correlated_inputs(self, rng):
        X = rng.normal(size=(9, 4))
        T = rng.normal(size=(2, 4))
        task = lr.Task.from_correlations(T @ X.T @ X / 9, X.T @ X / 9)
        np.testing.assert_allclose(task.target, T, rtol=1e-11)
        W = rng.normal(size=(2, 4))
        assert task.loss(W) == pytest.approx(loss_by_loops(W, X, X @ T.T, "mean"), rel=1e-12)

    def test_inputs_that_never_vary_get_no_weight(self, rng):
        X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 5))
        Y = rng.normal(size=(30, 3))
        for task in (
            lr.Task.from_data(X, Y),
            lr.Task.from_correlations(Y.T @ X / 30, X.T @ X / 30, Y.T @ Y / 30),
        ):
            np.testing.assert_allclose(task.target, (np.linalg.pinv(X) @ Y).T, rtol=0, atol=1e-13)
            assert task.loss_floor == pytest.approx(loss_by_loops(task.target, X, Y, "mean"), rel=1e-12)

    def test_whitened(self, rng):
        X, Y = samples(rng)
        data = lr.Task.from_data(X, Y)
        white = lr.Task.from_correlations(data.sigma_yx, data.sigma_xx, data.sigma_yy).whitened()
        np.testing.assert_array_equal(white.sigma_xx, np.eye(4))
        np.testing.assert_allclose(white.input_map @ data.sigma_xx @ white.input_map.T, np.eye(4), rtol=0, atol=1e-13)
        W = rng.normal(size=(3, 4))
        assert white.loss(W) == pytest.approx(loss_by_loops(W @ white.input_map, X, Y, "mean"), rel=1e-12)


class TestModes:
    def test_are_the_singular_modes(self, rng):
        task = lr.Task.from_correlations(rng.normal(size=(3, 5)))
        U, s, V = task.modes
        np.testing.assert_allclose(U * s @ V.T, task.sigma_yx, rtol=0, atol=1e-14)
        np.testing.assert_allclose(U.T @ U, np.eye(3), rtol=0, atol=1e-14)
        np.testing.assert_allclose(V.T @ V, np.eye(3), rtol=0, atol=1e-14)
        assert np.all(np.diff(s) < 0)

    def test_those_below_the_rank_are_zero(self, rng):
        task = lr.Task.from_correlations(rng.normal(size=(5, 2)) @ rng.normal(size=(2, 6)))
        assert np.count_nonzero(task.modes.s) == 2
        assert np.array_equal(task.modes.s[2:], np.zeros(3))


class TestWhitening:
    def test_of_ill_conditioned_inputs(self, rng):
        """Σxx has condition 1e12, the samples 1e6: what can be lost is 1e6 · 1e-16, and not its square."""
        X, Y = inputs_of_condition(rng, 40, 6, 1e6), rng.normal(size=(40, 2))
        white = lr.Task.from_data(X, Y).whitened()
        np.testing.assert_allclose(white.inputs.T @ white.inputs / 40, np.eye(6), rtol=0, atol=1e-14)
        np.testing.assert_allclose(X @ white.input_map.T, white.inputs, rtol=0, atol=1e-9)
        best = np.linalg.lstsq(X, Y)[0].T
        np.testing.assert_allclose(white.target @ white.input_map, best, rtol=1e-9)
        assert white.loss_floor == pytest.approx(loss_by_loops(best, X, Y, "mean"), rel=1e-12)

    def test_keeps_the_map_from_the_first_inputs(self, rng):
        X, Y = samples(rng)
        once = lr.Task.from_data(X, Y).whitened()
        twice = once.whitened()
        np.testing.assert_allclose(twice.input_map, once.input_map, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(X @ twice.input_map.T, twice.inputs, rtol=0, atol=1e-13)
        np.testing.assert_allclose(twice.sigma_yx, once.sigma_yx, rtol=0, atol=1e-13)

    def test_of_correlations_keeps_it_too(self, rng):
        A = rng.normal(size=(4, 4))
        once = lr.Task.from_correlations(rng.normal(size=(2, 4)), A @ A.T).whitened()
        np.testing.assert_allclose(once.whitened().input_map, once.input_map, rtol=1e-13)

    @pytest.mark.parametrize("rank", [1, 3])
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_of_dependent_inputs_is_on_their_support(self, rng, rank, dtype):
        """Σxx is the projector onto the row space of X, and whitened samples are those of the pseudo-inverse root."""
        X = (rng.normal(size=(20, rank)) @ rng.normal(size=(rank, 4))).astype(dtype)
        Y, tolerance = rng.normal(size=(20, 2)), 1e-12 if dtype == "float64" else 1e-5
        projector = np.linalg.pinv(X, rcond=1e-5) @ X
        for task in (lr.Task.from_data(X, Y), lr.Task.from_correlations(Y.T @ X / 20, X.T @ X / 20)):
            white = task.whitened()
            np.testing.assert_allclose(white.sigma_xx, projector, atol=tolerance)
            M = white.input_map
            np.testing.assert_allclose(M @ (X.T @ X / 20) @ M.T, projector, atol=tolerance)
            np.testing.assert_allclose(M, M.T, atol=tolerance * np.abs(M).max())
            np.testing.assert_allclose(white.sigma_yx, Y.T @ X / 20 @ M, atol=tolerance)
            assert white.rank == white.support.shape[1] == task.rank == rank
            if dtype == "float64":  # what rounding adds to float32 inputs has a best fit of its own
                np.testing.assert_allclose(white.loss_floor, task.loss_floor, atol=1e-10)

    def test_float32_data_keep_small_directions_that_are_theirs(self, rng):
        """A pixel that is on in one sample of two thousand, beside one that is a float32 copy of others."""
        X = rng.uniform(1, 16, size=(2000, 6)).astype("float32")
        X[:, 4] = 0
        X[0, 4] = 1  # 1e-3 of the largest singular value
        X[:, 5] = X[:, 0] / np.float32(3) + X[:, 1] / np.float32(7)  # dependent up to rounding
        assert lr.Task.from_data(X, rng.normal(size=(2000, 1)).astype("float32")).rank == 5

    def test_fewer_samples_than_inputs(self, rng):
        white = lr.Task.from_data(rng.normal(size=(3, 5)), rng.normal(size=(3, 2))).whitened()
        assert white.rank == 3
        np.testing.assert_allclose(white.inputs @ white.inputs.T / 3, np.eye(3), atol=1e-13)

    def test_error_is_relative_to_the_scale_of_the_inputs(self):
        assert lr.Task.from_correlations(np.ones((1, 3)), 7 * np.eye(3)).whitening_error == 0
        task = lr.Task.from_correlations(np.ones((1, 2)), np.diag([1.1, 0.9]) * 1e-3)
        assert task.input_scale == pytest.approx(1e-3, rel=1e-15)
        assert task.whitening_error == pytest.approx(0.1, rel=1e-13)


# Items × features as printed in Braun et al. 2022, once more and not from the library.
KINGDOM = """ 1  1  1  0  1  0  0  0
              1  1  1  0 -1  0  0  0
              1  1 -1  0  0  1  0  0
              1  1 -1  0  0 -1  0  0
              1 -1  0  1  0  0  1  0
              1 -1  0  1  0  0 -1  0
              1 -1  0 -1  0  0  0  1
              1 -1  0 -1  0  0  0 -1"""
COLOUR = """  1 -1  0  1  0  0  1  0
              1  1 -1  0  0 -1  0  0
              1  1  1  0  1  0  0  0
              1 -1  0 -1  0  0  0  1
              1  1 -1  0  0  1  0  0
              1  1  1  0 -1  0  0  0
              1 -1  0 -1  0  0  0 -1
              1 -1  0  1  0  0 -1  0"""
SINGULAR_VALUES = [0.3889, 0.3712, 0.2583, 0.2562, 0.1803, 0.1797, 0.1793, 0.1790]


def matrix(text):
    return np.array([[float(entry) for entry in line.split()] for line in text.splitlines()])


def scaled(features, split=0.1):
    return np.array([[entry * (1 + split / i) for i, entry in enumerate(row, start=1)] for row in features])


class TestHierarchies:
    @pytest.mark.parametrize(
        "task, items",
        [
            (lr.tasks.semantic_hierarchy(), scaled(matrix(KINGDOM))),
            (lr.tasks.revised_kingdom(), scaled(matrix(KINGDOM)) * [1, 1, 1, 1, 1, 1, 1, -1]),
            (lr.tasks.colour_hierarchy(), scaled(matrix(COLOUR))),
            (lr.tasks.semantic_hierarchy(split=0.0), matrix(KINGDOM)),
            (lr.tasks.colour_hierarchy(split=0.3), scaled(matrix(COLOUR), 0.3)),
        ],
        ids=["kingdom", "revised", "colour", "not split", "split further"],
    )
    def test_have_the_printed_matrices(self, task, items):
        np.testing.assert_array_equal(task.inputs, np.eye(8))
        np.testing.assert_allclose(task.targets, items, rtol=1e-15)
        np.testing.assert_allclose(task.sigma_yx, items.T / 8, rtol=1e-15)
        np.testing.assert_array_equal(task.sigma_xx, np.eye(8) / 8)

    @pytest.mark.parametrize("name", ["semantic_hierarchy", "revised_kingdom", "colour_hierarchy"])
    def test_have_the_printed_singular_values(self, name):
        task = getattr(lr.tasks, name)()
        np.testing.assert_allclose(task.modes.s, SINGULAR_VALUES, rtol=0, atol=5.001e-5)  # .25625 is printed .2562
        assert np.min(-np.diff(task.modes.s)) > 1e-4  # split apart

    def test_without_the_split_modes_coincide(self):
        s = lr.tasks.semantic_hierarchy(split=0.0).modes.s * 8
        np.testing.assert_allclose(s**2, [8, 8, 4, 4, 2, 2, 2, 2], rtol=1e-14)

    def test_are_learned_in_full(self):
        task = lr.tasks.semantic_hierarchy()
        assert task.loss_floor <= 1e-30
        np.testing.assert_allclose(task.target, task.targets.T, rtol=1e-15)


class TestBinaryTree:
    def test_correlations_fall_with_the_distance_in_the_tree(self):
        """Two leaves whose common ancestor is k levels up differ by 2k branches: correlation (1 − 2p)^{2k}."""
        levels, flip, rng = 4, 0.1, np.random.default_rng(1)
        draw = lambda: lr.tasks.binary_tree(rng, levels=levels, features=1000, flip=flip).targets
        leaves = np.hstack([draw() for _ in range(20)])
        features = leaves.shape[1]
        for i, j in combinations(range(2**levels), 2):
            k = (i ^ j).bit_length()
            expected = (1 - 2 * flip) ** (2 * k)
            error = np.sqrt((1 - expected**2) / features)
            assert abs(leaves[i] @ leaves[j] / features - expected) < 4.5 * error

    def test_features_are_plus_or_minus_one_and_fair(self):
        task = lr.tasks.binary_tree(2, levels=3, features=2500)
        assert np.array_equal(np.abs(task.targets), np.ones((8, 2500)))
        assert abs(task.targets[0].mean()) < 4.5 / 50

    def test_shapes(self):
        task = lr.tasks.binary_tree(0)
        assert (task.inputs.shape, task.targets.shape) == ((32, 32), (32, 1000))
        np.testing.assert_array_equal(task.inputs, np.eye(32))
        assert task.input_scale == 1 / 32

    def test_of_depth_zero_is_the_root(self):
        task = lr.tasks.binary_tree(0, levels=0, features=5)
        assert (task.d_in, task.d_out, task.inputs.shape) == (1, 5, (1, 1))

    @pytest.mark.parametrize("flip", [0.0, 1.0])
    def test_sure_flips_leave_all_leaves_equal(self, flip):
        leaves = lr.tasks.binary_tree(0, levels=3, features=20, flip=flip).targets
        assert np.array_equal(leaves, np.repeat(leaves[:1], 8, axis=0))
        assert len(np.unique(leaves)) == 2


class TestRegression:
    def test_random_regression_is_white_and_has_the_variance_it_says(self):
        task = lr.tasks.random_regression(0, d_in=7, d_out=5, samples=2000)
        assert (task.inputs.shape, task.targets.shape) == ((2000, 7), (2000, 5))
        np.testing.assert_allclose(task.inputs.T @ task.inputs / 2000, np.eye(7), rtol=0, atol=1e-14)
        np.testing.assert_array_equal(task.sigma_xx, np.eye(7))
        np.testing.assert_allclose(
            task.sigma_yx, correlation_by_loops(task.targets, task.inputs, "mean"), rtol=0, atol=1e-14
        )
        assert np.mean(task.targets**2) * 5 == pytest.approx(1, abs=4.5 * np.sqrt(2 / 10_000))

    def test_as_many_samples_as_inputs_will_do(self):
        task = lr.tasks.random_regression(0, d_in=6, d_out=2, samples=6)
        np.testing.assert_allclose(task.inputs.T @ task.inputs / 6, np.eye(6), rtol=0, atol=1e-14)

    def test_linear_teacher_without_noise_is_the_target(self, rng):
        teacher = rng.normal(size=(3, 5))
        task = lr.tasks.linear_teacher(rng, teacher, samples=30)
        np.testing.assert_allclose(task.target, teacher, rtol=0, atol=1e-14)
        np.testing.assert_allclose(task.targets, task.inputs @ teacher.T, rtol=0, atol=1e-14)
        assert task.loss_floor <= 1e-28

    def test_linear_teacher_with_noise(self, rng):
        teacher, P, noise = rng.normal(size=(3, 5)), 4000, 0.3
        task = lr.tasks.linear_teacher(rng, teacher, samples=P, noise=noise)
        residual = task.targets - task.inputs @ teacher.T
        assert np.sqrt(np.mean(residual**2)) == pytest.approx(noise, rel=4.5 / np.sqrt(2 * 3 * P))
        assert task.loss_floor == pytest.approx(3 * noise**2 / 2 * (1 - 5 / P), rel=4.5 * np.sqrt(2 / (3 * P)))
        np.testing.assert_allclose(task.target, teacher, rtol=0, atol=4.5 * noise / np.sqrt(P))

    def test_reversal_turns_the_labels_and_nothing_else(self, rng):
        X, Y = samples(rng)
        task = lr.Task.from_data(X, Y, reduction="sum", name="data").whitened()
        turned = lr.tasks.reversal(task)
        want = lr.Task.from_data(X, -Y, reduction="sum").whitened()
        for quantity in ("sigma_yx", "sigma_xx", "sigma_yy", "targets", "inputs", "input_map", "target"):
            np.testing.assert_allclose(getattr(turned, quantity), getattr(want, quantity), rtol=0, atol=1e-13)
        assert (turned.name, turned.reduction) == ("data reversed", "sum")
        W = rng.normal(size=(3, 4))
        assert turned.loss(W) == pytest.approx(task.loss(-W), rel=1e-13)
        np.testing.assert_array_equal(lr.tasks.reversal(turned).sigma_yx, task.sigma_yx)

    def test_seeds_and_generators(self):
        draw = lambda rng: lr.tasks.random_regression(rng, d_in=2, d_out=2, samples=5).targets
        np.testing.assert_array_equal(draw(3), draw(np.random.default_rng(3)))
        generator = np.random.default_rng(3)
        assert not np.array_equal(draw(generator), draw(generator))


def test_the_given_arrays_are_copied(rng):
    X, Y = samples(rng)
    task = lr.Task.from_data(X, Y)
    kept = task.inputs.copy(), task.targets.copy()
    X[:], Y[:] = 0, 0
    np.testing.assert_array_equal(task.inputs, kept[0])
    np.testing.assert_array_equal(task.targets, kept[1])


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.uint8, bool, list])
def test_numbers_of_any_kind_are_taken_as_they_are(kind):
    X, Y = [[1, 0], [0, 1], [1, 1]], [[1], [0], [1]]
    given = (X, Y) if kind is list else (np.array(X, dtype=kind), np.array(Y, dtype=kind))
    task = lr.Task.from_data(*given)
    np.testing.assert_allclose(task.sigma_xx, [[2 / 3, 1 / 3], [1 / 3, 2 / 3]], rtol=1e-15)
    assert task.sigma_yx.dtype == task.inputs.dtype == np.float64
    assert task.eps == {np.float32: 2.0**-23, np.float16: 2.0**-10}.get(kind, 2.0**-52)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_subclasses_of_arrays_become_plain_arrays():
    task = lr.Task.from_correlations(np.asmatrix([[2.0, 0.0], [0.0, 1.0]]))
    assert type(task.sigma_yx) is np.ndarray
    assert task.loss(np.ones((2, 2))) == pytest.approx(1.5, rel=1e-15)


def test_repr():
    assert repr(lr.tasks.semantic_hierarchy()) == "<Task 'semantic hierarchy': 8 inputs, 8 outputs, 8 samples>"
    assert repr(lr.Task.from_correlations([[1.0, 2.0]])) == "<Task: 2 inputs, 1 outputs>"


class TestWhatOrdinaryUsersBring:
    def test_a_vector_of_targets_is_one_output(self, rng):
        X, y = rng.normal(size=(9, 3)), rng.normal(size=9)
        np.testing.assert_array_equal(lr.Task.from_data(X, y).sigma_yx, lr.Task.from_data(X, y[:, None]).sigma_yx)
        whole = lr.Task.from_data(X, np.arange(9))  # whole numbers are numbers
        assert whole.d_out == 1 and whole.classes == ()

    @pytest.mark.parametrize("labels", [[2, 0, 2, 5], np.array([2, 0, 2, 5], np.uint8), [2.0, 0.0, 2.0, 5.0]])
    def test_labels_become_one_output_per_class(self, labels):
        task = lr.Task.from_labels(np.eye(4), labels)
        assert task.classes == (0, 2, 5)
        np.testing.assert_array_equal(task.targets, [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        assert task.whitened().classes == task.with_constant().classes == task.centred().classes == task.classes

    def test_words_are_labels_and_classes_may_be_given(self):
        task = lr.Task.from_labels(np.eye(2), ["b", "a"], classes=["c", "b", "a"])
        assert task.classes == ("c", "b", "a")
        np.testing.assert_array_equal(task.targets, [[0, 1, 0], [0, 0, 1]])

    def test_classes_may_be_counted(self):
        task = lr.Task.from_labels(np.eye(2), [2, 0], classes=4)
        assert task.classes == (0, 1, 2, 3)
        np.testing.assert_array_equal(task.targets, [[0, 0, 1, 0], [1, 0, 0, 0]])
        for few, told in ((1, "two or more"), (2, "2 is not"), (True, "a list of labels"), (-3, "at least")):
            with pytest.raises(lr.InvalidInput, match=told):
                lr.Task.from_labels(np.eye(2), [2, 0], classes=few)

    def test_centred(self, rng):
        X, Y = samples(rng)
        task = lr.Task.from_data(X + 3, Y - 1).centred()
        np.testing.assert_allclose(task.inputs.mean(axis=0), 0, atol=1e-14)
        np.testing.assert_allclose(task.sigma_yx, (Y - Y.mean(0)).T @ (X - X.mean(0)) / len(X), atol=1e-13)


@pytest.mark.parametrize("apart", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_loss_keeps_its_digits_where_inputs_are_nearly_collinear(rng, apart, reduction):
    """The best map is as large as 1/apart, and its part of the loss must not cancel."""
    X, Y = rng.normal(size=(40, 4)), rng.normal(size=(40, 2))
    X[:, 3] = X[:, 0] + apart * rng.normal(size=40)
    task, maps = lr.Task.from_data(X, Y, reduction=reduction), rng.normal(size=(5, 2, 4))
    size = 40 if reduction == "mean" else 1
    seen = [np.sum((X @ W.T - Y) ** 2) / 2 / size for W in maps]
    np.testing.assert_allclose(task.loss(maps), seen, rtol=1e-13)
    assert task.loss(maps[0]) == pytest.approx(seen[0], rel=1e-13)
    least = np.sum((Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]) ** 2) / 2 / size
    # rounding turns the direction in which the two differ by eps / apart
    assert task.loss_floor == pytest.approx(least, rel=max(1e-12, 1e-15 / apart))


def test_rounding_of_single_precision_is_no_direction_of_the_inputs(rng):
    X = (rng.normal(size=(100, 3)) @ rng.normal(size=(3, 6))).astype("float32")
    Y = X @ rng.normal(size=(6, 2))
    for task in (lr.Task.from_data(X, Y), lr.Task.from_correlations(Y.T @ X / 100, (X.T @ X / 100))):
        assert task.rank == 3 and np.abs(task.target).max() < 10
