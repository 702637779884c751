"""Figures of the experiments, from stores with numbers of our own: what is read off them, drawn, and refused.

That each is true and drawn at its quick preset, trained for the purpose, is in test_catalogue.
"""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray

import lazyrich as lr
from lazyrich.cli import main
from lazyrich.papers import Experiment
from lazyrich.papers import experiment as preset
from lazyrich.papers import figure as entry
from lazyrich.papers.kunin2024.figures import _experiment, _kept
from lazyrich.sweeps import Sweep
from lazyrich.sweeps.grid import STATUS, Result
from lazyrich.sweeps.store import Store

pytestmark = [pytest.mark.figures, pytest.mark.timeout(120)]

PENDING, COMPLETE, STOPPED, _ = range(len(STATUS))
FIGURES = {"lenet": "kunin2024/5a", "filters": "kunin2024/5b", "rhm": "kunin2024/5c", "grokking": "kunin2024/5d"}
ALPHAS = (0.1, 1.0, 10.0)
AXES = {
    "lenet": {"seed": range(3), "alpha": ALPHAS},
    "filters": {"seed": range(3), "alpha": ALPHAS},
    "rhm": {"points": (128, 512, 2048), "seed": range(3), "alpha": ALPHAS},
    "grokking": {"tau": (0.5, 1.0), "seed": range(3), "alpha": ALPHAS},
}
SETTINGS = {"filters": {"channels": [5, 4, 4, 4], "kernel": 5}}
AT = (0, 10, 100, 1000)
EPOCHS = (0, 1, 4, 20)


def experiment_of(kind, axes=None, name="mine", **settings):
    at = AT if kind == "grokking" else EPOCHS
    axes = axes or AXES[kind]
    given = {**SETTINGS.get(kind, {}), **settings}
    return Experiment(name, kind, axes=axes, at=at, settings=given, block={axis: 10 for axis in axes})


def drawn(rng, experiment):
    """Random values over (axes, records, …); steps to an accuracy are known once they have come, and some never do."""
    values = {
        name: rng.uniform(0.1, 0.95, size=(*experiment.shape, len(experiment.at), *variable.shape))
        for name, variable in experiment.variables().items()
    }
    for part in ("train", "validation") if experiment.experiment == "grokking" else ():
        when = rng.choice([5.0, 50.0, 60.0, 70.0, 500.0, 600.0, 5000.0], size=(*experiment.shape, 1))
        values[f"steps_to_{part}"] = np.where(when <= np.array(experiment.at), when, np.nan)
    return {name: value.astype(np.float32).astype(float) for name, value in values.items()}


def with_gaps(experiment, values, status):
    """As a run leaves them: nothing of what is pending, and what has stopped ends after its second record."""
    kept = {name: value.copy() for name, value in values.items()}
    for value in kept.values():
        value[status == PENDING] = np.nan
        value[status == STOPPED, 2:] = np.nan
    return kept


def keep(out, experiment, values, status=None):
    """A store of these values."""
    store = Store.open_or_create(out, experiment)
    status = np.full(experiment.shape, COMPLETE) if status is None else status
    for number in range(store.grid.blocks):
        block = store.grid.block_at(number)
        numbers = {name: value[block.region].astype(np.float32) for name, value in values.items()}
        store.write(block, Result(numbers, status[block.region].astype(np.int8), {}), 0.1)
    return str(out)


def computed(kind, folder):
    """The data of a figure, written and read again."""
    data = entry(FIGURES[kind]).compute({"store": folder})
    return xarray.open_dataset(io.BytesIO(bytes(data.to_netcdf(engine="scipy"))), engine="scipy").load()


def picture(kind, data):
    return entry(FIGURES[kind]).draw(data)


def some_status(rng, experiment):
    """Every kind of fate, one whole α without any network, and one network alone at another."""
    status = rng.choice([COMPLETE, COMPLETE, STOPPED, PENDING], size=experiment.shape)
    status[..., 1] = PENDING
    status[..., 2], status.reshape(-1, 3)[-1, 2] = PENDING, COMPLETE
    status.reshape(-1, 3)[0, 0] = COMPLETE
    return status


def in_order(values, experiment, name):
    """(alpha, …, seed, records, …), with further axes of the grid between."""
    others = [axis for axis in experiment.axes if axis not in ("alpha", "seed")]
    order = [list(experiment.axes).index(axis) for axis in ("alpha", *others, "seed")]
    return np.moveaxis(values[name], order, range(len(order)))


def mean_and_spread(numbers):
    """By hand, of those that are there."""
    there = [float(number) for number in numbers if not np.isnan(number)]
    if not there:
        return np.nan, np.nan
    mean = sum(there) / len(there)
    spread = (sum((x - mean) ** 2 for x in there) / (len(there) - 1)) ** 0.5 if len(there) > 1 else np.nan
    return mean, spread


class TestMeans:
    @pytest.mark.parametrize(
        ("kind", "names"),
        [
            ("lenet", ["kernel_distance", "hamming_distance", "parameter_distance", "test_accuracy"]),
            ("filters", ["smoothness", "train_accuracy", "test_accuracy"]),
            ("rhm", ["test_accuracy"]),
        ],
    )
    def test_are_those_of_loops_over_the_seeds_that_are_there(self, kind, names, rng, tmp_path):
        experiment = experiment_of(kind)
        status = some_status(rng, experiment)
        values = with_gaps(experiment, drawn(rng, experiment), status)
        data = computed(kind, keep(tmp_path / "s", experiment, values, status))
        for name in names:
            source = in_order(values, experiment, name)
            # (alpha, points, seed) at the end of training, or (alpha, epoch, seed)
            source = source[..., -1] if kind == "rhm" else np.moveaxis(source, 1, -1)
            for i, k in np.ndindex(source.shape[:2]):
                mean, spread = mean_and_spread(source[i, k])
                assert float(data[name][i, k]) == pytest.approx(mean, rel=1e-12, nan_ok=True)
                assert float(data[f"{name}_spread"][i, k]) == pytest.approx(spread, rel=1e-9, abs=1e-12, nan_ok=True)
        assert data.attrs["missing"] == pytest.approx(np.mean(status != COMPLETE))

    def test_axes_in_any_order_are_the_same(self, rng, tmp_path):
        one = experiment_of("rhm")
        values = drawn(rng, one)
        other = experiment_of("rhm", {"alpha": (10.0, 0.1, 1.0), "points": (512, 128, 2048), "seed": range(3)})
        turned = {
            name: np.moveaxis(value[:, :, [2, 0, 1]][[1, 0, 2]], (0, 1, 2), (1, 2, 0)) for name, value in values.items()
        }
        found = [computed("rhm", keep(tmp_path / n, e, v)) for n, e, v in (("a", one, values), ("b", other, turned))]
        assert found[0].drop_attrs().equals(found[1].drop_attrs())
        assert found[0].attrs["ratio"] == found[1].attrs["ratio"]

    def test_the_filters_are_those_at_both_ends_of_alpha(self, rng, tmp_path):
        experiment = experiment_of("filters")
        values, status = drawn(rng, experiment), np.full(experiment.shape, COMPLETE)
        status[:, 0], status[0, 2] = PENDING, STOPPED  # what is left are α = 1, and seeds 1 and 2 of α = 10
        data = computed("filters", keep(tmp_path / "s", experiment, with_gaps(experiment, values, status), status))
        assert data["shown_alpha"].values.tolist() == [1.0, 1.0, 10.0]
        for shown, place in enumerate([(0, 1, 0), (0, 1, -1), (1, 2, -1)]):
            np.testing.assert_array_equal(data["filters"][shown], values["filters"][place])


class TestGrokking:
    def test_steps_are_those_by_which_half_of_the_trained_seeds_got_there(self, rng, tmp_path):
        experiment = experiment_of("grokking", {"tau": (0.5, 1.0), "seed": range(4), "alpha": ALPHAS})
        status = some_status(rng, experiment)
        status[1] = COMPLETE  # an even number of seeds
        values = with_gaps(experiment, drawn(rng, experiment), status)
        data = computed("grokking", keep(tmp_path / "s", experiment, values, status))
        for tau, alpha in np.ndindex(2, 3):
            seeds = [k for k in range(4) if status[tau, k, alpha] != PENDING]
            assert int(data["seeds"][tau, alpha]) == len(seeds)
            for part in ("train", "validation"):
                records = [values[f"steps_to_{part}"][tau, k, alpha] for k in seeds]
                steps = sorted(min([x for x in record if not np.isnan(x)], default=np.inf) for record in records)
                wanted = next((x for x in steps if 2 * sum(y <= x for y in steps) >= len(steps)), np.nan)
                np.testing.assert_equal(float(data[f"steps_to_{part}"][tau, alpha]), wanted)

    def test_networks_that_are_done_count_as_they_were(self, rng, tmp_path):
        experiment = experiment_of("grokking")
        values, status = drawn(rng, experiment), np.full(experiment.shape, COMPLETE)
        values["train_accuracy"][0, 0, 0, 2:] = np.nan  # all that trained together had learned everything
        status[0, 1, 0] = STOPPED  # of one that diverged nothing is known
        values = with_gaps(experiment, values, status)
        data = computed("grokking", keep(tmp_path / "s", experiment, values, status))
        first, other = values["train_accuracy"][0, 0, 0], values["train_accuracy"][0, 2, 0]
        wanted = [(first[min(k, 1)] + other[k]) / 2 for k in range(4)]  # the median of two
        np.testing.assert_allclose(data["train_accuracy_median"][0, 0], wanted, rtol=1e-6)
        np.testing.assert_array_equal(data["train_accuracy"][0, 0], [first, [np.nan] * 4, other])


class TestDrawn:
    def test_kernel_curves_are_the_means(self, rng, tmp_path):
        experiment = experiment_of("lenet")
        values = drawn(rng, experiment)
        figure = picture("lenet", computed("lenet", keep(tmp_path / "s", experiment, values)))
        names = ["kernel_distance", "hamming_distance", "parameter_distance", "test_accuracy"]
        for panel, name in zip(figure.axes, names, strict=True):
            assert [line.get_label() for line in panel.get_lines()] == ["α = 0.1", "α = 1", "α = 10"]
            for i, line in enumerate(panel.get_lines()):
                np.testing.assert_array_equal(line.get_xdata(), EPOCHS)
                np.testing.assert_allclose(line.get_ydata(), values[name][:, i].mean(axis=0), rtol=1e-12)
        assert figure.get_suptitle() == "mine: 3 α, 3 seeds each; mean ± standard deviation over seeds"

    def test_colours_go_from_downstream_to_upstream(self):
        blue, grey, orange = (np.array(colour) for colour in _experiment.alpha_colours(ALPHAS))
        assert blue[2] > blue[0] and orange[0] > orange[2] and np.ptp(grey) < 1e-9

    def test_filters_are_bright_colours_with_grey_for_zero(self, rng, tmp_path):
        experiment = experiment_of("filters")
        values = drawn(rng, experiment)
        values["filters"][0, :, :, 2] *= -3
        values["filters"][0, :, :, 3, 1, 2, 2] = 0.0
        values["filters"][0, 2, -1, 4] = 0.0  # a dead one
        figure = picture("filters", computed("filters", keep(tmp_path / "s", experiment, values)))
        at_start, _, at_end = (np.asarray(panel.images[0].get_array()) for panel in figure.axes[:3])
        assert at_start.shape == (11, 17, 3)  # five filters of 5 × 5, three in a row, with lines between
        for image, filters in ((at_start, values["filters"][0, 0, 0]), (at_end, values["filters"][0, 2, -1])):
            for channel, (row, column) in enumerate([(0, 0), (0, 6), (0, 12), (6, 0), (6, 6)]):
                w = filters[channel].transpose(1, 2, 0)
                wanted = 0.5 + w / (2 * np.abs(w).max()) if w.any() else np.full_like(w, 0.5)
                np.testing.assert_allclose(image[row : row + 5, column : column + 5], wanted, rtol=0, atol=1e-6)
            assert (image[5] == 1).all() and (image[:, 5] == 1).all() and (image[6:, 12:] == 1).all()
        assert at_start[6 + 2, 2, 1] == 0.5

    def test_smoothness_and_accuracies_are_the_means(self, rng, tmp_path):
        experiment = experiment_of("filters")
        values = drawn(rng, experiment)
        figure = picture("filters", computed("filters", keep(tmp_path / "s", experiment, values)))
        means = {name: value.mean(axis=0) for name, value in values.items()}  # (alpha, epoch)
        over_training, smoothness, accuracy = figure.axes[3:]
        for i, line in enumerate(over_training.get_lines()):
            np.testing.assert_allclose(line.get_ydata(), means["smoothness"][i], rtol=1e-12)
        for panel, rings, dots in (
            (smoothness, means["smoothness"][:, 0], means["smoothness"][:, -1]),
            (accuracy, means["train_accuracy"][:, -1], means["test_accuracy"][:, -1]),
        ):
            lines = [line.get_ydata() for line in panel.get_lines() if len(line.get_xdata()) == 3]
            np.testing.assert_allclose(lines[0], rings, rtol=1e-12)
            np.testing.assert_allclose(lines[1], dots, rtol=1e-12)

    def test_samples_are_read_off_where_the_mean_passes_the_target(self, rng, tmp_path):
        experiment = experiment_of("rhm")
        values = drawn(rng, experiment)
        ends = np.array([[0.3, 0.5, 0.8], [0.5, 0.9, 1.0], [0.8, 0.9, 1.0]])  # (alpha, points)
        values["test_accuracy"][..., -1] = ends.T[:, None]
        data = computed("rhm", keep(tmp_path / "s", experiment, values))
        at_target = [512 * 4 ** (2 / 3), 128 * 4**0.5]
        np.testing.assert_allclose(data["needed_least"], [*at_target, 0.0], rtol=1e-6)
        np.testing.assert_allclose(data["needed_most"], [*at_target, 128.0], rtol=1e-6)
        assert data.attrs["ratio"] == pytest.approx(at_target[0] / 128, rel=1e-6)
        assert data.attrs["gain"] == pytest.approx(np.mean(ends[2] - ends[0]), rel=1e-6)
        accuracy, needed = picture("rhm", data).axes
        curves = [line for line in accuracy.get_lines() if line.get_label().startswith("α")]
        for line, row in zip(curves, ends, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), [128, 512, 2048])
            np.testing.assert_allclose(line.get_ydata(), row, rtol=1e-6)
        (marks,) = (line for line in accuracy.get_lines() if line.get_markerfacecolor() == "white")
        np.testing.assert_allclose(marks.get_xdata(), [*at_target, np.nan], rtol=1e-6)
        assert [text.get_text() for text in needed.texts] == ["1,290", "256", "128"]
        assert [line.get_marker() for line in needed.get_lines()[1:]] == ["o", "o", "v"]  # the last: at most

    def test_maps_hold_the_steps_and_say_where_there_are_none(self, rng, tmp_path):
        experiment = experiment_of("grokking")
        values, status = drawn(rng, experiment), np.full(experiment.shape, COMPLETE)
        steps = np.array([[[50.0, 60.0, 70.0]] * 3, [[600.0, 60.0, np.nan], [np.nan] * 3, [5.0, np.nan, np.nan]]])
        values["steps_to_validation"][:] = np.nan
        values["steps_to_validation"][..., -1] = steps.transpose(0, 2, 1)  # given as (tau, alpha, seed)
        status[0, :, 0] = PENDING
        values = with_gaps(experiment, values, status)
        data = computed("grokking", keep(tmp_path / "s", experiment, values, status))
        _, panel, *_ = picture("grokking", data).axes
        drawn_map = np.ma.filled(panel.collections[0].get_array(), np.nan).reshape(2, 3)
        np.testing.assert_array_equal(drawn_map, [[np.nan, 60.0, 60.0], [600.0, np.nan, np.nan]])
        assert sorted(patch.get_xy() for patch in panel.patches) == [(1, 1), (2, 1)]
        said = ["none", "60", "60", "600\n2 of 3", "> 1,000\n0 of 3", "> 1,000\n1 of 3"]
        assert [text.get_text() for text in panel.texts] == said

    def test_one_tau_is_points_over_alpha(self, rng, tmp_path):
        experiment = experiment_of("grokking", {"seed": range(3), "alpha": ALPHAS}, tau=0.75)
        values = drawn(rng, experiment)
        data = computed("grokking", keep(tmp_path / "s", experiment, values))
        assert data["tau"].values.tolist() == [0.75] and data.attrs["made_of"] == "mine: 3 α, 3 seeds each"
        steps, accuracy = picture("grokking", data).axes
        for part, height in (("train", 1.25), ("validation", 1.6)):
            when = values[f"steps_to_{part}"][..., -1].T  # (alpha, seed)
            for alpha, row in zip(ALPHAS, when, strict=True):
                marks = [line for line in steps.get_lines() if set(np.atleast_1d(line.get_xdata())) == {alpha}]
                found = {float(y) for line in marks if line.get_marker() == "o" for y in line.get_ydata()}
                assert found >= set(row[~np.isnan(row)])
                late = [line for line in marks if line.get_marker() == "^" and line.get_ydata()[0] == height * 1000]
                assert sum(len(line.get_xdata()) for line in late) == np.isnan(row).sum()
        (line,) = (line for line in accuracy.get_lines() if line.get_label() == "α = 10, validation")
        middle = np.sort(values["validation_accuracy"][:, -1], axis=0)[1]  # of three seeds
        np.testing.assert_allclose(line.get_ydata(), middle, rtol=1e-6)
        assert accuracy.get_title(loc="left") == "accuracy at τ = 0.75"

    @pytest.mark.figures
    @pytest.mark.parametrize("kind", FIGURES)
    def test_unfinished_stores_say_how_much_is_there_and_what_it_shows(self, kind, rng, tmp_path):
        experiment, known = experiment_of(kind), entry(FIGURES[kind])
        status = some_status(rng, experiment)
        values = with_gaps(experiment, drawn(rng, experiment), status)
        data = computed(kind, keep(tmp_path / "s", experiment, values, status))
        there = f"; {np.count_nonzero(status == COMPLETE)} of {status.size} networks are there"
        assert data.attrs["made_of"].endswith(there) and not known.checks["missing"].holds(
            known.numbers(data)["missing"]
        )
        figure = picture(kind, data)
        figure.savefig(io.BytesIO(), format="png", dpi=40)
        assert there in figure.get_suptitle()
        assert data.attrs["says"] and figure.get_supxlabel().split() == data.attrs["says"].split()


class TestNumbers:
    def right(self, kind, experiment):
        """Values in the order that the paper finds, the same for all seeds."""
        shape = (*experiment.shape, len(experiment.at))
        names = [*experiment.axes, "record"]
        along = dict(zip(names, np.ogrid[tuple(slice(n) for n in shape)], strict=True))
        rank, record = along["alpha"], along["record"] > 0
        full = lambda value: np.broadcast_to(value, shape).astype(float)
        if kind == "lenet":
            moved = full(record * (0.1 + 0.1 * rank))
            names = ("kernel_distance", "hamming_distance", "parameter_distance")
            return dict.fromkeys(names, moved) | dict.fromkeys(
                ("train_loss", "train_accuracy", "test_accuracy"), full(0.1 + 0.8 * record)
            )
        if kind == "rhm":
            accuracy = full(np.minimum(0.3 + 0.15 * rank + 0.25 * along["points"], 1))
            return dict.fromkeys(experiment.variables(), accuracy)
        if kind == "filters":
            filters = np.ones((*shape, 5, 3, 5, 5))
            accuracies = dict.fromkeys(("train_loss", "train_accuracy", "test_accuracy"), full(0.5))
            return accuracies | {"smoothness": full(4.0 - 1.5 * record * rank), "filters": filters}
        steps = full(np.where(along["record"] == 3, 900.0 - 300 * rank, np.nan))
        found = {"steps_to_train": full(np.where(record, 9.0, np.nan)), "steps_to_validation": steps}
        found |= {"train_accuracy": full(record * 1.0), "validation_accuracy": full((along["record"] == 3) * 1.0)}
        return found | dict.fromkeys(("train_loss", "validation_loss"), full(1.0))

    @pytest.mark.parametrize("kind", FIGURES)
    def test_what_the_paper_finds_keeps_every_bound(self, kind, tmp_path):
        experiment, known = experiment_of(kind), entry(FIGURES[kind])
        numbers = known.numbers(computed(kind, keep(tmp_path / "s", experiment, self.right(kind, experiment))))
        assert {name: check.holds(numbers[name]) for name, check in known.checks.items()} == dict.fromkeys(
            known.checks, True
        ), numbers

    @pytest.mark.parametrize(
        ("kind", "broken"),
        [
            ("lenet", {"kernel", "hamming"}),
            ("filters", {"smoother"}),
            ("rhm", {"ratio", "gain"}),
            ("grokking", {"sooner"}),
        ],
    )
    def test_the_other_way_round_keeps_none_about_alpha(self, kind, broken, tmp_path):
        experiment, known = experiment_of(kind), entry(FIGURES[kind])
        axis = list(experiment.axes).index("alpha")
        turned = {name: np.flip(value, axis) for name, value in self.right(kind, experiment).items()}
        numbers = known.numbers(computed(kind, keep(tmp_path / "s", experiment, turned)))
        assert {name for name, check in known.checks.items() if not check.holds(numbers[name])} == broken

    def test_starts_that_differ_and_pairs_that_are_never_fitted_are_seen(self, tmp_path):
        for kind, name, number in (("lenet", "test_accuracy", "start"), ("filters", "smoothness", "start")):
            experiment, known = experiment_of(kind), entry(FIGURES[kind])
            values = self.right(kind, experiment)
            values[name] = values[name].copy()
            values[name][:, 1, 0] *= 1.5
            numbers = known.numbers(computed(kind, keep(tmp_path / kind, experiment, values)))
            assert not known.checks[number].holds(numbers[number])
        experiment = experiment_of("grokking")
        values = self.right("grokking", experiment) | {"train_accuracy": np.full((*experiment.shape, 4), 0.1)}
        data = computed("grokking", keep(tmp_path / "g", experiment, values))
        assert not entry("kunin2024/5d").checks["gap"].holds(float(data.attrs["gap"]))


class TestAxes:
    def test_what_is_no_axis_has_the_value_of_its_setting(self, rng, tmp_path):
        experiment = experiment_of("rhm", {"points": (128, 512)}, alpha=3.0, seed=7)
        values = drawn(rng, experiment)
        data = computed("rhm", keep(tmp_path / "s", experiment, values))
        assert data["alpha"].values.tolist() == [3.0] and data.attrs["made_of"] == "mine: 2 numbers of samples, 1 seed"
        np.testing.assert_array_equal(data["test_accuracy"][0], values["test_accuracy"][:, -1])
        picture("rhm", data)

    def test_what_is_neither_has_the_published_value(self, rng, tmp_path):
        experiment = experiment_of("grokking", {"seed": range(2)})
        data = computed("grokking", keep(tmp_path / "s", experiment, drawn(rng, experiment)))
        assert data["alpha"].values.tolist() == [1.0] and data["tau"].values.tolist() == [1.0]
        assert data.attrs["made_of"] == "mine: one α, 2 seeds each"
        picture("grokking", data)

    def test_an_axis_of_ones_own_may_have_one_value(self, rng, tmp_path):
        one = experiment_of("lenet", {**AXES["lenet"], "rate": (0.1,)})
        data = computed("lenet", keep(tmp_path / "s", one, drawn(rng, one)))
        assert data["kernel_distance"].dims == ("alpha", "epoch")

    def test_more_than_one_value_is_refused(self, rng, tmp_path):
        two = experiment_of("lenet", {**AXES["lenet"], "rate": (0.1, 0.2)})
        folder = keep(tmp_path / "s", two, drawn(rng, two))
        with pytest.raises(lr.InvalidInput) as error:
            entry("kunin2024/5a").compute({"store": folder})
        assert str(error.value) == (
            "store must vary alpha, seed alone, and it varies rate too (0.1, 0.2): train with one of these values to "
            "draw it."
        )


class TestRefused:
    @pytest.mark.parametrize("kind", FIGURES)
    def test_another_experiment(self, kind, rng, tmp_path):
        other = experiment_of("rhm" if kind != "rhm" else "grokking")
        folder = keep(tmp_path / "s", other, drawn(rng, other))
        with pytest.raises(lr.InvalidInput) as error:
            entry(FIGURES[kind]).compute({"store": folder})
        assert str(error.value) == (
            f"store must hold an experiment of the kind {kind}, and {folder} holds one of the kind {other.experiment}: "
            f"lazyrich experiment {kind} --out DIR makes one that does."
        )

    def test_a_sweep(self, tmp_path):
        sweep = Sweep("linear", "random_regression", axes={"seed": [0, 1]}, at=[0, 2], method="solve")
        Store.open_or_create(tmp_path / "s", sweep)
        with pytest.raises(lr.InvalidInput, match=r"kind rhm, and .*s holds the sweep 'linear': lazyrich experiment"):
            entry("kunin2024/5c").compute({"store": str(tmp_path / "s")})

    def test_nothing_there_yet(self, tmp_path):
        Store.open_or_create(tmp_path / "s", experiment_of("rhm"))
        with pytest.raises(lr.InvalidInput, match=r"^store must hold trained networks, and none of the 27 of .* is\.$"):
            entry("kunin2024/5c").compute({"store": str(tmp_path / "s")})

    def test_no_such_preset(self):
        with pytest.raises(lr.InvalidInput, match=r"^preset must be one of 'paper', .*, and it is 'small'"):
            entry("kunin2024/5c").compute({"preset": "small"})

    @pytest.mark.parametrize("folder", ["nowhere", "empty", "file"])
    def test_no_store_at_all_is_one_sentence_of_the_command(self, folder, tmp_path, capsys):
        (tmp_path / "empty").mkdir()
        (tmp_path / "file").write_text("x")
        arguments = ["figure", "kunin2024/5d", "--set", f"store={tmp_path / folder}", "--out", str(tmp_path / "out")]
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert str(tmp_path / folder) in said and said.count("\n") == 1


class TestPresets:
    @pytest.mark.parametrize("kind", FIGURES)
    def test_without_a_store_a_preset_is_trained_by_a_process_for_each_core(self, kind, rng, monkeypatch):
        asked = []

        def keeping(experiment, out, *, workers):
            asked.append((experiment, workers))
            values = drawn(rng, experiment)
            keep(out, experiment, {name: value.clip(0, 1) for name, value in values.items()})
            return SimpleNamespace(failed_blocks={})

        monkeypatch.setattr(_experiment, "run", keeping)
        monkeypatch.setattr("lazyrich.sweeps.local.accelerated", lambda: False)
        monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(64)), raising=False)
        data = entry(FIGURES[kind]).compute(quick=True)
        ((experiment, workers),) = asked
        assert experiment == preset(kind, "quick") and workers == experiment.blocks
        assert data.attrs["made_of"].startswith(f"{kind}-quick") and data.attrs["published"] == 0
        usual = "paper" if f"{kind}-paper" in _kept.kept() else "laptop"
        assert entry(FIGURES[kind]).settings == {"store": "", "preset": usual}

    @pytest.mark.figures
    @pytest.mark.parametrize("kind", ["rhm", "grokking"])
    def test_the_published_networks_are_kept_and_keep_every_bound(self, kind, monkeypatch):
        monkeypatch.setattr(_experiment, "run", None)  # nothing is trained
        known, data = entry(FIGURES[kind]), entry(FIGURES[kind]).compute()
        assert data.attrs["published"] == 1 and data.attrs["missing"] == 0
        assert data.attrs["made_of"].startswith(f"{kind}-paper: ")
        assert all(check.holds(known.numbers(data)[key]) for key, check in known.checks.items())
        picture(kind, data)

    @pytest.mark.figures
    @pytest.mark.parametrize(
        ("change", "lost", "published"),
        [({}, None, 1), ({}, PENDING, 0), ({"seed": [0, 1, 2]}, None, 0), ({"width": 32}, None, 0)],
    )
    def test_a_store_is_published_if_all_of_the_published_networks_are_there(
        self, change, lost, published, rng, tmp_path
    ):
        experiment = preset("rhm", "paper").changed(**change)
        status = np.full(experiment.shape, COMPLETE)
        if lost is not None:
            status[0, 0, 0] = lost
        values = with_gaps(experiment, drawn(rng, experiment), status)
        assert computed("rhm", keep(tmp_path / "s", experiment, values, status)).attrs["published"] == published

    def test_a_block_that_cannot_be_trained_is_no_figure(self, monkeypatch):
        failed = SimpleNamespace(failed_blocks={0: "MemoryError: too large"})
        monkeypatch.setattr(_experiment, "run", lambda experiment, out, *, workers: failed)
        with pytest.raises(RuntimeError, match="rhm-quick could not be trained: MemoryError: too large"):
            entry("kunin2024/5c").compute(quick=True)


def test_gallery_shows_the_pictures_of_what_was_trained_and_not_kept(rng, tmp_path, monkeypatch):
    """Beside them stand the numbers of a laptop, called that; nothing of it is drawn."""
    from lazyrich.papers import gallery

    monkeypatch.setattr(gallery, "figures", lambda: ["kunin2024/5a"])
    experiment = experiment_of("lenet")
    data = computed("lenet", keep(tmp_path / "s", experiment, drawn(rng, experiment))).assign_attrs(seconds=2.0)
    data.to_netcdf(tmp_path / "kunin2024-5a.nc", engine="scipy")
    page = gallery.write(tmp_path, tmp_path).read_text(encoding="utf-8")
    assert "(../experiments/kunin2024-5a.png)" in page and "Shown: LeNet-5 on MNIST for 500 epochs" in page
    assert "On a laptop, which is what the command trains:" in page and not (tmp_path / "kunin2024-5a.png").exists()
    docs = Path(__file__).parents[3] / "docs"
    assert all((docs / "gallery" / gallery._picture(name)).resolve().is_file() for name in gallery._PICTURES)


def test_command_draws_a_store(tmp_path, capsys):
    experiment = experiment_of("rhm")
    folder = keep(tmp_path / "s", experiment, TestNumbers().right("rhm", experiment))
    assert main(["figure", "kunin2024/5c", "--set", f"store={folder}", "--out", str(tmp_path)]) == 0
    assert {file.suffix for file in tmp_path.glob("kunin2024-5c.*")} == {".png", ".nc"}
    said = capsys.readouterr().out
    assert said.count("holds") == len(entry("kunin2024/5c").checks) and "FAILS" not in said


@pytest.mark.figures
def test_bounds_bind_a_store_that_holds_the_published_networks(rng, tmp_path, capsys):
    """Values in no order: the exit status tells programs, as it does without a store, but not of other networks."""
    whole, other = preset("rhm", "paper"), preset("rhm", "paper").changed(seed=[0, 1])
    for experiment, status in ((whole, 1), (other, 0)):
        folder = keep(tmp_path / str(status), experiment, drawn(rng, experiment))
        assert main(["figure", "kunin2024/5c", "--set", f"store={folder}", "--out", str(tmp_path)]) == status
        said = capsys.readouterr().out
        assert "FAILS" in said and ("bounds are those of the published settings" in said) == (not status)
