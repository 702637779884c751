"""Figures drawn from a store: means over the seeds that are there, the numbers read off them, and what is refused."""

from __future__ import annotations

import dataclasses
import io
from importlib import import_module

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.cli import main
from lazyrich.papers import figure as entry
from lazyrich.papers import sweep as published
from lazyrich.papers.kunin2024.figures import _grid, _kept
from lazyrich.sweeps import Sweep
from lazyrich.sweeps.grid import STATUS, Result
from lazyrich.sweeps.store import Store

pytestmark = [pytest.mark.figures, pytest.mark.timeout(120)]

NAMES = ["kunin2024/1b", "kunin2024/1b_supporting"]
OBSERVABLES = published("kunin2024/1b").observables
TINY = {"d": 4, "h": 4, "n": 8, "test": 5}
PENDING, COMPLETE, STOPPED, FAILED = range(len(STATUS))


def sweep_of(
    seeds=3, tau=(0.1, 0.5, 2.0), delta=(-1.0, 0.0, 1.0), at=(0, 10, 100, 1000), observables=OBSERVABLES, **more
):
    axes = {"seed": range(seeds), "tau": tau, "delta": delta}
    return Sweep("mine", "teacher_student", axes=axes, at=at, observables=observables, settings=TINY, **more)


def keep(out, sweep, values, status=None):
    """A store with numbers of our own: `values` are (seed, tau, delta, step) by name; blocks that are all pending
    are not written."""
    store = Store.open_or_create(out, dataclasses.replace(sweep, block={"seed": 1}))
    status = np.full(sweep.shape, COMPLETE, np.int8) if status is None else np.asarray(status, np.int8)
    for number in range(store.grid.blocks):
        block = store.grid.block_at(number)
        if status[block.region].any():
            numbers = {name: np.asarray(values[name], float)[block.region] for name in sweep.observables}
            store.write(block, Result(numbers, status[block.region], {}), 0.1)
    return str(out)


def drawn(rng, sweep):
    return {name: rng.uniform(0.1, 1.0, size=(*sweep.shape, len(sweep.at))) for name in sweep.observables}


def in_order(sweep):
    """Values that keep every bound, as smooth functions of τ, δ and the step, with the seeds apart."""
    seed, tau, delta, step = np.meshgrid(*sweep.axes.values(), sweep.at, indexing="ij")
    late = np.minimum(np.log10(np.maximum(step, 1)) / np.log10(sweep.at[-2]), 1.01)
    small = tau < 0.3
    downstream = small & (delta < 0)
    start = np.where(delta > 0, 0.2, np.where(delta < 0, 0.001, 0.02))
    turned = np.where(small, np.where(step > sweep.at[1], 0.25, start), 0.01)
    return {
        "kernel_distance": turned * (1 + 0.01 * seed),
        "test_loss": np.where(small, np.where(downstream, 1e-3, 1e-4), 1e-2) * (1 + 0.01 * seed) * (1 + 0.1 * late),
        "hamming_distance": np.where(small & (delta >= 0), 0.4, 0.05) * late,
        "parameter_distance": np.where(delta > 0, 0.5, 2.0) * late,
        "loss": 1e-4 / np.maximum(step, 1),
    }


@pytest.mark.parametrize("name", NAMES)
class TestReading:
    def test_means_and_errors_are_those_of_loops_over_complete_seeds(self, name, rng, tmp_path):
        sweep = sweep_of(seeds=4)
        values, status = drawn(rng, sweep), rng.choice([COMPLETE, COMPLETE, STOPPED, FAILED], size=sweep.shape)
        status[:, 0, 0], status[:, 0, 1], status[1:, 0, 2] = FAILED, COMPLETE, STOPPED
        status[0, 0, 2] = COMPLETE  # one seed alone has a mean and no error
        data = entry(name).compute({"store": keep(tmp_path / "s", sweep, values, status)})
        assert data.step.values.tolist() == [10, 100, 1000]
        for i, j in np.ndindex(3, 3):
            there = [seed for seed in range(4) if status[seed, i, j] == COMPLETE]
            assert int(data.seeds[i, j]) == len(there)
            for row in import_module(f"lazyrich.papers.kunin2024.figures.fig_{name.partition('/')[2]}")._ROWS:
                got, error = data[row.observable], data[f"{row.observable}_error"]
                for k in (1, 2, 3):
                    numbers = [float(values[row.observable][seed, i, j, k]) for seed in there]
                    spread = np.std(numbers, ddof=1) / len(there) ** 0.5 if len(there) > 1 else np.nan
                    mean = sum(numbers) / len(there) if there else np.nan
                    assert float(got[i, j, k - 1]) == pytest.approx(mean, rel=1e-13, nan_ok=True)
                    assert float(error[i, j, k - 1]) == pytest.approx(spread, rel=1e-12, nan_ok=True)

    @pytest.mark.figures
    def test_an_unfinished_sweep_says_how_much_is_there_and_is_drawn(self, name, rng, tmp_path):
        sweep = sweep_of()
        status = np.full(sweep.shape, COMPLETE)
        status[1:] = PENDING
        status[0, 1, 1] = FAILED  # a place without any cell
        data = entry(name).compute({"store": keep(tmp_path / "s", sweep, drawn(rng, sweep), status)})
        assert data.attrs["made_of"].startswith("mine: 3 × 3 × 3 students (τ, δ, seed), d = 4, h = 4, n = 8, test = 5")
        assert data.attrs["made_of"].endswith("; 8 of 27 cells are there")
        assert np.isnan(data.test_loss[1, 1]).all() and np.isfinite(data.test_loss[0]).all()
        stream = io.BytesIO()
        figure = entry(name).draw(data)
        figure.savefig(stream, format="png")
        assert stream.tell() > 5000 and figure.get_suptitle() == data.attrs["made_of"]

    def test_a_whole_sweep_says_nothing_of_cells(self, name, rng, tmp_path):
        sweep = sweep_of()
        data = entry(name).compute({"store": keep(tmp_path / "s", sweep, drawn(rng, sweep))})
        assert data.attrs["made_of"].endswith("test = 5")

    def test_axes_in_any_order_are_the_same(self, name, rng, tmp_path):
        sweep = sweep_of()
        values = drawn(rng, sweep)
        turned = sweep_of(delta=(1.0, -1.0, 0.0))
        moved = {key: value[:, :, [2, 0, 1]] for key, value in values.items()}
        one, other = (
            entry(name).compute({"store": keep(tmp_path / folder, grid, numbers)})
            for folder, grid, numbers in (("a", sweep, values), ("b", turned, moved))
        )
        assert one.equals(other)
        assert entry(name).numbers(one) == entry(name).numbers(other)


@pytest.mark.parametrize("name", NAMES)
class TestNumbers:
    def test_a_grid_as_described_keeps_every_bound(self, name, tmp_path):
        sweep = sweep_of()
        known, data = entry(name), entry(name).compute({"store": keep(tmp_path / "s", sweep, in_order(sweep))})
        assert {key: check.holds(known.numbers(data)[key]) for key, check in known.checks.items()} == dict.fromkeys(
            known.checks, True
        ) | {"missing": False}  # another grid than the published one

    def test_nothing_that_moves_keeps_no_bound_and_is_no_error(self, name, tmp_path):
        sweep = sweep_of()
        still = {key: np.full((*sweep.shape, len(sweep.at)), float("loss" in key)) for key in OBSERVABLES}
        known, data = entry(name), entry(name).compute({"store": keep(tmp_path / "s", sweep, still)})
        kept = {key for key, check in known.checks.items() if check.holds(known.numbers(data)[key])}
        assert kept == {"lazy_kernel", "kernel_change", "hamming_change"} & set(known.checks)
        known.draw(data).savefig(io.BytesIO(), format="png")

    def test_each_bound_is_broken_by_a_grid_that_is_not(self, name, tmp_path):
        """Upside down in δ, back to front in τ, the same at all steps, and the last step far from the one before."""
        sweep, broken = sweep_of(), set()
        right = in_order(sweep)
        wrong = {
            "delta": {key: value[:, :, ::-1] for key, value in right.items()},
            "tau": {key: value[:, ::-1] for key, value in right.items()},
            "still": {key: value[..., [0, 3, 3, 3]] for key, value in right.items()},
            "moved": {key: value * [1.0, 1.0, 1.0, 3.0] for key, value in right.items()},
        }
        known = entry(name)
        for folder, values in wrong.items():
            numbers = known.numbers(known.compute({"store": keep(tmp_path / folder, sweep, values)}))
            broken |= {key for key, check in known.checks.items() if not check.holds(numbers[key])}
        assert broken == set(known.checks)


class TestPublished:
    """Only the published grid, all of it, counts as published; what is missing is counted in cells of that grid."""

    sweep = published("kunin2024/1b")

    def computed(self, folder, sweep, status=None):
        values = {key: np.full((*sweep.shape, len(sweep.at)), 0.5) for key in sweep.observables}
        return entry("kunin2024/1b").compute({"store": keep(folder, sweep, values, status)}).attrs

    def test_the_whole_grid_does(self, tmp_path):
        about = self.computed(tmp_path / "s", dataclasses.replace(self.sweep, name="under another name"))
        assert about["published"] == 1 and about["missing"] == 0

    @pytest.mark.parametrize("lost", [PENDING, FAILED])
    def test_half_of_the_seeds_do_not(self, lost, tmp_path):
        status = np.full(self.sweep.shape, COMPLETE)
        status[::2] = lost
        about = self.computed(tmp_path / "s", self.sweep, status)
        assert about["published"] == 0 and about["missing"] == 0.5
        assert not entry("kunin2024/1b").checks["missing"].holds(about["missing"])

    def test_a_single_cell_that_failed_is_noticed(self, tmp_path):
        status = np.full(self.sweep.shape, COMPLETE)
        status[3, 5, 7] = FAILED
        about = self.computed(tmp_path / "s", self.sweep, status)
        assert about["published"] == 0 and about["missing"] == pytest.approx(1 / 4624, rel=1e-9)

    @pytest.mark.parametrize(
        ("change", "missing"),
        [
            ({"seed": range(8)}, 0.5),
            ({"seed": range(100, 116)}, 1.0),
            ({"delta": [-1.0, 0.0, 1.0]}, 14 / 17),
            ({"seed": range(17)}, 0.0),  # all that was published is there, and more: these are other means
        ],
    )
    def test_another_grid_does_not(self, change, missing, tmp_path):
        other = dataclasses.replace(self.sweep, axes={**self.sweep.axes, **change})
        about = self.computed(tmp_path / "s", other)
        assert about["published"] == 0 and about["missing"] == pytest.approx(missing, abs=1e-12)

    def test_other_settings_do_not(self, tmp_path):
        other = dataclasses.replace(self.sweep, settings={**self.sweep.settings, "n": 500})
        about = self.computed(tmp_path / "s", other)
        assert about["published"] == 0 and about["missing"] == 1.0

    @pytest.mark.parametrize("name", NAMES)
    def test_what_is_kept_is_the_published_grid_and_keeps_every_bound(self, name):
        known, data = entry(name), entry(name).compute()
        assert data.attrs["published"] == 1 and int(data.seeds.min()) == int(data.seeds.max()) == 16
        assert all(check.holds(known.numbers(data)[key]) for key, check in known.checks.items())
        assert data.attrs["settings"] == "store=, preset=paper"

    @pytest.mark.parametrize("name", NAMES)
    def test_what_is_kept_has_the_largest_kernel_distances_that_the_authors_print(self, name):
        """Of their notebook, for seeds of their own: 0.2385, 0.5370, 0.6102 and 0.6150 at 100 to 100 000 steps."""
        largest = entry(name).compute().kernel_distance.max(("tau", "delta")).values[:4]
        np.testing.assert_allclose(largest, [0.2385, 0.5370, 0.6102, 0.6150], atol=0.025)


def test_a_store_is_kept_in_single_precision_with_its_configuration(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(_kept, "_FOLDER", tmp_path)
    sweep = sweep_of()
    values = drawn(rng, sweep)
    keep(tmp_path / "s", sweep, values)
    assert _kept.keep(tmp_path / "s") == tmp_path / "mine.nc"
    data = _kept.load_kept("mine")
    assert _kept.kept() == ["mine"] and _kept.is_published(data, sweep)
    assert not _kept.is_published(data, sweep_of(seeds=4))
    for name in sweep.observables:
        np.testing.assert_array_equal(data[name], values[name].astype(np.float32))
    assert "host" not in data.attrs and "platform" not in data.attrs["versions"]


class TestMaps:
    def words(self, figure):
        return [[text.get_text() for text in axes.texts] for axes in figure.axes if axes.texts]

    def test_regimes_are_named_where_the_numbers_say_so(self):
        known = entry("kunin2024/1b")
        figure = known.draw(known.compute())
        assert self.words(figure) == [["rich", "lazy so far", "lazy"]] * 2 + [["rich", "delayed rich", "lazy"]] * 2

    def test_nothing_that_moves_is_lazy_everywhere(self, tmp_path):
        sweep = sweep_of()
        still = {key: np.full((*sweep.shape, len(sweep.at)), float("loss" in key)) for key in OBSERVABLES}
        known = entry("kunin2024/1b")
        figure = known.draw(known.compute({"store": keep(tmp_path / "s", sweep, still)}))
        assert {word for words in self.words(figure) for word in words} == {"lazy"}

    def test_ticks_are_numbers_that_people_write(self):
        known = entry("kunin2024/1b_supporting")
        figure = known.draw(known.compute())
        figure.draw_without_rendering()
        ticks = {a.get_ylabel(): [t.get_text() for t in a.get_yticklabels()] for a in figure.axes}
        assert ticks["test loss"] == ["0.0001", "0.0002", "0.0005", "0.001", "0.002", "0.005", "0.01"]
        assert ticks["training loss"] == ["10⁻¹⁰", "10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²"]
        lowest = next(a for a in figure.axes if a.get_xlabel() == "scale τ")
        assert [t.get_text() for t in lowest.get_xticklabels()] == ["0.1", "0.2", "0.5", "1", "2"]


def test_parts_of_the_published_grid():
    """τ below .2 and from 1 on, four values each; nine δ from 0 on, five up to −.5."""
    import xarray

    axes = published("kunin2024/1b").axes
    grid = xarray.Dataset(coords={"tau": list(axes["tau"]), "delta": list(axes["delta"])})
    rich, downstream, lazy = (part.transpose("tau", "delta").values for part in _grid.parts_of(grid))
    assert rich.sum() == 4 * 9 and rich[:4, 8:].all()
    assert downstream.sum() == 4 * 5 and downstream[:4, :5].all()
    assert lazy.sum() == 4 * 17 and lazy[-4:].all()


@pytest.mark.parametrize("name", NAMES)
def test_the_small_version_is_the_published_sweep_in_small(name, rng, monkeypatch):
    whole, asked = published(name.replace("_", "-")), []

    def keeping(sweep, out):
        asked.append(sweep)
        keep(out, sweep, drawn(rng, sweep))

    monkeypatch.setattr(_grid, "run", keeping)
    monkeypatch.setitem(_grid._SMALL, "laptop", _grid._Size(points=3, seeds=2, d=10, h=6, n=20))
    data = entry(name).compute({"preset": "laptop"})
    (small,) = asked
    assert data.attrs["missing"] == 0 and data.attrs["published"] == 0
    assert small.shape == (2, 3, 3) and small.at == whole.at and small.method == "flow"
    assert small.rate == pytest.approx(whole.rate / 10, rel=1e-15)
    for axis in ("tau", "delta"):
        np.testing.assert_allclose(np.array(small.axes[axis])[[0, -1]], np.array(whole.axes[axis])[[0, -1]], rtol=1e-15)
    assert small.settings == {**whole.settings, "d": 10, "h": 6, "n": 20, "test": 1000}
    assert data.attrs["made_of"].startswith("small version: 3 × 3 × 2 students (τ, δ, seed), d = 10, h = 6")


def test_training_loss_is_drawn_from_the_floor_on(rng, tmp_path):
    sweep = sweep_of()
    values = drawn(rng, sweep) | {"loss": np.geomspace(1e-20, 1e-2, 108).reshape(3, 3, 3, 4)}
    known = entry("kunin2024/1b_supporting")
    figure = known.draw(known.compute({"store": keep(tmp_path / "s", sweep, values)}))
    (bar,) = [axes for axes in figure.axes if axes.get_ylabel() == "training loss"]
    assert bar.get_ylim()[0] == pytest.approx(1e-10)


class TestRefused:
    @pytest.mark.parametrize(
        ("sweep", "sentence"),
        [
            (
                sweep_of(observables=("loss", "kernel_distance")),
                "store must hold test_loss over seed, tau, delta and step, and {folder} holds the sweep 'mine', which "
                "does not: lazyrich sweep kunin2024/1b --out DIR makes one that does.",
            ),
            (
                Sweep("other", "teacher_student", axes={"seed": [0, 1, 2]}, at=[0, 5], observables=OBSERVABLES),
                "store must hold test_loss over seed, tau, delta and step, and {folder} holds the sweep 'other', which "
                "has it over seed, step: lazyrich sweep kunin2024/1b --out DIR makes one that does.",
            ),
            (
                sweep_of(at=(0, 7)),
                "store must hold two steps after 0, and {folder} holds the sweep 'mine', which does not: lazyrich "
                "sweep kunin2024/1b --out DIR makes one that does.",
            ),
        ],
    )
    def test_another_sweep(self, sweep, sentence, rng, tmp_path):
        folder = keep(tmp_path / "s", sweep, drawn(rng, sweep))
        with pytest.raises(lr.InvalidInput) as error:
            entry("kunin2024/1b").compute({"store": folder})
        assert str(error.value) == sentence.format(folder=folder)

    def test_nothing_there_yet(self, tmp_path):
        Store.open_or_create(tmp_path / "s", sweep_of())
        with pytest.raises(lr.InvalidInput) as error:
            entry("kunin2024/1b").compute({"store": str(tmp_path / "s")})
        assert str(error.value) == "store must hold complete cells, and none of its 27 is."

    def test_no_such_preset(self):
        with pytest.raises(
            lr.InvalidInput, match=r"^preset must be one of 'paper', 'laptop', 'quick', and it is 'big'"
        ):
            entry("kunin2024/1b").compute({"preset": "big"})

    @pytest.mark.parametrize("folder", ["nowhere", "empty", "file"])
    def test_no_store_at_all_is_one_sentence_of_the_command(self, folder, tmp_path, capsys):
        (tmp_path / "empty").mkdir()
        (tmp_path / "file").write_text("x")
        arguments = ["figure", "kunin2024/1b", "--set", f"store={tmp_path / folder}", "--out", str(tmp_path / "out")]
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert str(tmp_path / folder) in said and said.count("\n") == 1


def test_command_draws_a_store(tmp_path, capsys):
    sweep = sweep_of()
    folder = keep(tmp_path / "s", sweep, in_order(sweep))
    assert main(["figure", "kunin2024/1b", "--set", f"store={folder}", "--out", str(tmp_path)]) == 0
    assert {file.suffix for file in tmp_path.glob("kunin2024-1b.*")} == {".png", ".nc"}
    said = capsys.readouterr().out
    assert said.count("holds") == len(entry("kunin2024/1b").checks) - 1 and "bounds are those of the published" in said
    assert "FAILS: part of the students asked for, seeds included, without a result (≤ 0), measured 1" in said
