"""What a sweep is: it comes back from a file as it went in, covers its grid once, and refuses all else in one sentence.

The run-time shape checks of the test suite are switched off here, so that the messages are those that users see.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazyrich as lr
from lazyrich.papers import sweep as published
from lazyrich.papers import sweeps
from lazyrich.sweeps import Cell, Sweep, axes
from lazyrich.sweeps import problems as factories
from lazyrich.sweeps.problems import PROBLEMS

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

NAN, INF, HUGE, DATE = math.nan, math.inf, 10**400, datetime.date(2024, 6, 1)
SMALL = {"name": "small", "problem": "random_regression", "axes": {"seed": [0, 1], "lam": [0.0, 1.0]}, "at": [0, 2, 5]}
EVERYTHING = """
name = "everything"
about = "every entry is there"
problem = "teacher_student"
method = "flow"
rate = 5e-3
rtol = 2e-3
at = [0, 1_000, 1_000_000]
observables = ["test_loss", "loss"]
precision = "float32"

[axes]
seed = { range = [3, 6] }
tau = { logspace = [-1, 1, 3] }
delta = { linspace = [-1, 1, 5] }
h = [4, 2]

[settings]
d = 4
slope = 0.1

[block]
tau = 2
seed = 1
"""


def build(**changes):
    """A right sweep but for what a case replaces; `...` leaves an entry out."""
    return Sweep.from_dict({name: value for name, value in (SMALL | changes).items() if value is not ...})


def custom(seed, width=3, **others):
    """A factory of one's own."""
    return lr.Problem(
        lr.tasks.random_regression(seed, d_in=2, d_out=2, samples=5),
        lr.inits.gaussian(seed, sizes=(2, width, 2), scale=1.0),
    )


# there and back ---------------------------------------------------------------------------------------------


def test_every_entry_of_a_file_is_read(tmp_path):
    (tmp_path / "a.toml").write_text(EVERYTHING)
    sweep = Sweep.from_toml(tmp_path / "a.toml")
    assert sweep.axes == {"seed": (3, 4, 5), "tau": (0.1, 1.0, 10.0), "delta": (-1, -0.5, 0, 0.5, 1), "h": (4, 2)}
    assert (sweep.name, sweep.about, sweep.problem) == ("everything", "every entry is there", "teacher_student")
    assert (sweep.method, sweep.rate, sweep.rtol, sweep.precision) == ("flow", 5e-3, 2e-3, "float32")
    assert (sweep.at, sweep.observables) == ((0, 1000, 1_000_000), ("test_loss", "loss"))
    assert (sweep.settings, sweep.block) == ({"d": 4, "slope": 0.1}, {"tau": 2, "seed": 1})
    assert (sweep.shape, sweep.cells, sweep.block_shape) == ((3, 3, 5, 2), 90, (1, 2, 5, 2))


def test_the_name_is_the_file_s_unless_it_says_otherwise(tmp_path):
    (tmp_path / "my-sweep.toml").write_text(EVERYTHING.replace('name = "everything"', ""))
    assert Sweep.from_toml(tmp_path / "my-sweep.toml").name == "my-sweep"


@pytest.mark.parametrize("name", sweeps())
def test_published_sweeps_come_back_from_json(name):
    sweep = published(name)
    assert Sweep.from_dict(json.loads(json.dumps(sweep.as_dict()))) == sweep


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5, unique=True),
    steps=st.sets(st.integers(0, 2**53), min_size=1, max_size=5),
    block=st.dictionaries(st.sampled_from(["seed", "lam"]), st.integers(1, 10)),
    words=st.lists(st.text(), max_size=4, unique=True),
    rate=st.floats(1e-300, 1e300),
)
def test_as_dict_and_back_is_the_same_sweep(values, steps, block, words, rate):
    axes = {"seed": range(3), "lam": values} | ({"activation": words} if words else {})
    sweep = build(axes=axes, at=sorted(steps), block=block, rate=rate, settings={"scale": values[0]})
    assert Sweep.from_dict(json.loads(json.dumps(sweep.as_dict(), allow_nan=False))) == sweep
    assert (sweep.axes["lam"], sweep.at) == (tuple(values), tuple(sorted({0} | steps)))


def test_numpy_s_numbers_become_plain_ones():
    sweep = build(
        axes={"seed": np.arange(2), "lam": np.linspace(0, 1, 3)}, at=np.array([0, 5]), settings={"h": np.int64(3)}
    )
    assert Sweep.from_dict(json.loads(json.dumps(sweep.as_dict()))) == sweep
    assert [type(value) for value in sweep.axes["seed"]] == [int, int]


def test_a_factory_of_one_s_own():
    sweep = build(problem=custom, axes={"seed": [0, 1], "width": [2, 5]}, settings={"anything": 1})
    assert sweep.as_dict()["problem"] == f"{__name__}:custom"
    assert isinstance(sweep.cell((1, 1)), Cell) and sweep.cell((1, 1)).problem.network.sizes == (2, 5, 2)


# the sizes of the papers (theory: section 9) ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "method", "steps"),
    [("kunin2024/1b", "descend", [1e2, 1e3, 1e4, 1e5]), ("kunin2024/1b-supporting", "flow", [1e2, 1e3, 1e4, 1e5, 1e6])],
)
def test_published_sweeps_have_the_sizes_of_the_paper(name, method, steps):
    sweep = published(name)
    # the published rate is 5e-3 for the mean square, which is twice our loss
    assert (sweep.problem, sweep.method, sweep.precision, sweep.rate) == ("teacher_student", method, "float64", 1e-2)
    assert len(sweep.axes["seed"]) == 16 and sweep.cells == 17 * 17 * 16 and list(sweep.at) == [0, *steps]
    assert np.array_equal(sweep.axes["tau"], np.logspace(-1, 0.3, 17))
    assert np.array_equal(sweep.axes["delta"], np.linspace(-1, 1, 17)) and sweep.axes["delta"][8] == 0
    place = tuple(n // 2 for n in sweep.shape)
    cell, arguments = sweep.cell(place), sweep.arguments(place)
    assert (cell.problem.network.sizes, cell.problem.network.kind) == ((100, 50, 1), "relu")
    assert (cell.problem.task.inputs.shape, cell.test.inputs.shape) == ((1000, 100), (10_000, 100))
    assert arguments["teacher"] == 3 and cell.clock == pytest.approx(arguments["tau"] ** -2, rel=1e-15)


# blocks -----------------------------------------------------------------------------------------------------


@st.composite
def grids(draw):
    """A sweep of up to four axes, of any block sizes."""
    names = ["seed", "lam", "scale", "h"][: draw(st.integers(1, 4))]
    axes = {axis: list(range(draw(st.integers(1, 7)))) for axis in names}
    return build(axes=axes, block=draw(st.dictionaries(st.sampled_from(names), st.integers(1, 9))))


def assert_covered_once(sweep):
    seen = np.zeros(sweep.shape, int)
    chunk = sweep.block_shape
    for number in range(sweep.blocks):
        block = sweep.block_at(number)
        starts = [i * size for i, size in zip(block.place, chunk, strict=True)]
        ends = [min(start + size, n) for start, size, n in zip(starts, chunk, sweep.shape, strict=True)]
        assert block.number == number and block.region == tuple(map(slice, starts, ends))
        seen[block.region] += 1
        places = list(sweep.places(block))
        assert places == sorted(places) and len(places) == math.prod(e - s for s, e in zip(starts, ends, strict=True))
        assert all(s <= i < e for place in places for s, i, e in zip(starts, place, ends, strict=True))
    assert (seen == 1).all()
    assert [sweep.block_at(number).place for number in range(sweep.blocks)] == sorted(
        sweep.block_at(number).place for number in range(sweep.blocks)
    )


@given(sweep=grids())
def test_blocks_cover_the_grid_exactly_once(sweep):
    assert_covered_once(sweep)


@given(sweep=grids(), cells=st.integers(1, 10**4))
def test_with_block_keeps_its_bound_and_fills_the_last_axes_first(sweep, cells):
    cut = sweep.with_block(cells)
    assert_covered_once(cut)
    assert 1 <= math.prod(cut.block_shape) <= cells and list(cut.block) == list(sweep.axes)
    assert (cut.axes, cut.at, cut.name) == (sweep.axes, sweep.at, sweep.name)
    inner = 1  # cells of a block along the axes behind this one
    for size, length in reversed(list(zip(cut.block_shape, cut.shape, strict=True))):
        assert size == min(length, max(1, cells // inner))  # as many as there is room for
        inner *= length


def test_the_last_axis_varies_fastest():
    sweep = build(axes={"seed": [7, 8], "lam": [0.5, -0.5], "activation": ["linear", "tanh"]}, settings={"h": 3})
    (block,) = [sweep.block_at(number) for number in range(sweep.blocks)]
    told = [sweep.arguments(place) for place in sweep.places(block)]
    wanted = itertools.product([7, 8], [0.5, -0.5], ["linear", "tanh"])
    assert told == [{"h": 3, "seed": s, "lam": lam, "activation": word} for s, lam, word in wanted]


# one sentence -----------------------------------------------------------------------------------------------

BAD_AXES = {
    "not a list": (5, "axis seed must list its values, or be like { range = 4 }, and it is 5"),
    "a word": ("0,1", "axis seed must list its values"),
    "none": ([], "axis seed must have at least one value, and it has none"),
    "true": ([True], "axis seed must hold finite numbers, or words, and it holds (True,)"),
    "true among numbers": ([0, True], "axis seed must hold finite numbers, or words"),
    "twice": ([3, 1, 3], "axis seed must hold each value once, and 3 is there more than once"),
    "twice, as a float": ([1, 1.0], "axis seed must hold each value once"),
    "nan": ([0.0, NAN], "axis seed must hold finite numbers, or words"),
    "infinity": ([INF], "axis seed must hold finite numbers, or words"),
    "a number beyond arithmetic": ([HUGE], "axis seed must hold finite numbers, or words"),
    "nested": ([[0, 1]], "axis seed must hold finite numbers, or words, and it holds ([0, 1],)"),
    "numbers and words": ([0, "one"], "axis seed must hold finite numbers, or words, and it holds (0, 'one')"),
    "dates": ([DATE], "axis seed must hold finite numbers, or words"),
    "an empty range": ({}, "axis seed must be one of linspace, logspace, range, and it is {}"),
    "two ranges": ({"range": 4, "linspace": [0, 1, 2]}, "axis seed must be one of linspace, logspace, range"),
    "near miss": ({"Linspace": [0, 1, 2]}, "did you mean 'linspace'?"),
    "range of nothing": ({"range": 0}, "axis seed must have at least one value"),
    "range backwards": ({"range": [5, 2]}, "axis seed must have at least one value"),
    "range of three": ({"range": [0, 9, 3]}, "axis seed: range must be a count, or first and last + 1"),
    "range of a fraction": ({"range": 2.5}, "axis seed: range must be a count, or first and last + 1, and it is 2.5"),
    "range of a word": ({"range": "4"}, "axis seed: range must be a count"),
    "range of true": ({"range": True}, "axis seed: range must be a count"),
    "a range too long": ({"range": 10**12}, "must have at most 10,000,000 values, and it has 1,000,000,000,000"),
    "a range beyond all": ({"range": 10**30}, "axis seed must have at most 10,000,000 values"),
    "a range far away": ({"range": [-(10**30), 10**30]}, "axis seed must have at most 10,000,000 values"),
    "linspace of two": ({"linspace": [0, 1]}, "axis seed: linspace must be [first, last, count], and it is [0, 1]"),
    "linspace of a number": ({"linspace": 3}, "axis seed: linspace must be [first, last, count]"),
    "linspace to infinity": ({"linspace": [0, INF, 3]}, "axis seed: linspace must be [first, last, count]"),
    "linspace of words": ({"linspace": ["a", "b", 3]}, "axis seed: linspace must be [first, last, count]"),
    "linspace too wide": ({"linspace": [-1.7e308, 1.7e308, 3]}, "axis seed must hold finite numbers"),
    "linspace beyond arithmetic": ({"linspace": [0, HUGE, 3]}, "axis seed: linspace must be [first, last, count]"),
    "a fraction of values": ({"linspace": [0, 1, 2.5]}, "the count of axis seed must be a whole number, and it is 2.5"),
    "no values": ({"linspace": [0, 1, 0]}, "the count of axis seed must be at least 1, and it is 0"),
    "linspace too long": ({"linspace": [0, 1, 10**12]}, "axis seed must have at most 10,000,000 values"),
    "the same again": ({"linspace": [1, 1, 3]}, "axis seed must hold each value once, and 1.0 is there more than once"),
    "logspace too wide": ({"logspace": [0, 400, 3]}, "axis seed must hold finite numbers"),
}  # fmt: skip
BAD_ENTRIES = {
    "unknown": ({"obsevables": ["loss"]}, "an entry of the sweep must be one of", "did you mean 'observables'?"),
    "no name": ({"name": ...}, "name is missing, and the sweep needs it"),
    "no problem": ({"problem": ...}, "problem is missing, and the sweep needs it"),
    "no axes": ({"axes": ...}, "axes must name at least one axis"),
    "no steps": ({"at": ...}, "at is missing, and the sweep needs it"),
    "name is a number": ({"name": 5}, "name must be a word for the sweep, and it is 5"),
    "name is empty": ({"name": ""}, "name must be a word for the sweep, and it is ''"),
    "about is a date": ({"about": DATE}, "about must be"),
    "about is nan": ({"about": NAN}, "about must be"),
    "problem": ({"problem": "Random_regresion"}, "problem must be one of", "did you mean 'random_regression'?"),
    "problem is a list": ({"problem": ["hierarchy"]}, "problem must be one of"),
    "problem is no factory": ({"problem": dict}, "problem must be"),
    "axes is a list": ({"axes": [1]}, "axes must be a table of names and values, and it is [1]"),
    "axes is empty": ({"axes": {}}, "axes must name at least one axis"),
    "an axis unknown": ({"axes": {"sede": [0]}}, "takes seed, d_in", "not 'sede' (did you mean 'seed'?)"),
    "too many cells": (
        {"axes": {"seed": {"range": 10**4}, "lam": {"range": 10**4}}},
        "axes must make at most 10,000,000 cells, and they make 100,000,000",
    ),
    "no seed": ({"axes": {"lam": [0.0]}}, "random_regression needs seed, as an axis or a setting, and it is neither"),
    "settings is a word": ({"settings": "d_in"}, "settings must be a table of names and values, and it is 'd_in'"),
    "a setting unknown": ({"settings": {"sample": 5}}, "not 'sample' (did you mean 'samples'?)"),
    "a setting twice": ({"settings": {"lam": 1.0}}, "lam is both an axis and a setting, and it can be one only"),
    "method": ({"method": "descent"}, "method must be one of 'descend', 'flow', 'solve'", "did you mean 'descend'?"),
    "precision": ({"precision": "float16"}, "precision must be one of 'float64', 'float32', 'tf32'"),
    "precision of solve": (
        {"method": "solve", "precision": "float32"},
        "precision must be 'float64' where method is 'solve', and it is 'float32'",
    ),
    "rate of 0": ({"rate": 0}, "rate must be above 0, and it is 0"),
    "rate is nan": ({"rate": NAN}, "rate must be finite"),
    "rate is a word": ({"rate": "fast"}, "rate must be a number, and it is 'fast'"),
    "rate is a list": ({"rate": [0.1]}, "rate must be a number"),
    "rate is true": ({"rate": True}, "rate must be a number, and it is True"),
    "rtol is negative": ({"rtol": -1e-3}, "rtol must be above 0, and it is -0.001"),
    "rtol is true": ({"rtol": True}, "rtol must be a number, and it is True"),
    "no step": ({"at": []}, "at is empty"),
    "steps shrink": ({"at": [3, 2]}, "at must list the steps to record, whole and growing, and it is [3, 2]"),
    "a step twice": ({"at": [2, 2]}, "at must list the steps to record, whole and growing"),
    "a step before the first": ({"at": [-1, 2]}, "at must list the steps to record, whole and growing"),
    "half a step": ({"at": [0, 0.5]}, "at must list the steps to record, whole and growing"),
    "steps in steps": ({"at": [[0, 1]]}, "at must list the steps to record, whole and growing, and it is [[0, 1]]"),
    "too many steps": ({"at": [1e300]}, "at must list the steps to record"),
    "steps are true": ({"at": [True, 2]}, "at must", "True"),
    "steps are words": ({"at": ["0"]}, "at must"),
    "observables": ({"observables": ["Losss"]}, "observables must be one of", "did you mean 'loss'?"),
    "observables is a number": ({"observables": 5}, "observables must list names", "and it is 5"),
    "observables is a table": ({"observables": {"loss": True}}, "observables must list names"),
    "no observables": ({"observables": []}, "observables is empty, and at least one is needed, such as ['loss']"),
    "block is a number": ({"block": 4}, "block must be a table of names and values, and it is 4"),
    "block of 0": ({"block": {"seed": 0}}, "block.seed must be at least 1, and it is 0"),
    "block of a fraction": ({"block": {"seed": 1.5}}, "block.seed must be a whole number, and it is 1.5"),
    "block of true": ({"block": {"seed": True}}, "block.seed must be a whole number, and it is True"),
    "block of no axis": ({"block": {"sed": 2}}, "axis of block must be one of 'seed', 'lam'", "did you mean 'seed'?"),
}  # fmt: skip


def one_sentence(error):
    """The message, which must be one."""
    said = str(error.value)
    assert said.endswith(".") and "\n" not in said and len(said) < 600
    return said


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BAD_AXES)
def test_a_bad_axis_is_one_sentence(case):
    given, says = BAD_AXES[case]
    with pytest.raises(lr.InvalidInput) as error:
        build(axes={"seed": given})
    assert says in one_sentence(error)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BAD_ENTRIES)
def test_a_bad_entry_is_one_sentence(case):
    changes, *says = BAD_ENTRIES[case]
    with pytest.raises(lr.InvalidInput) as error:
        build(**changes)
    assert all(part in one_sentence(error) for part in says)


def test_an_endless_axis_is_refused_before_memory_runs_out(monkeypatch):
    def endless():
        for value in itertools.count():
            assert value < 200, "it goes on asking"
            yield value

    monkeypatch.setattr(axes, "LARGEST", 100)
    with pytest.raises(lr.InvalidInput, match="axis seed must have at most 100 values"):
        build(axes={"seed": endless()})


@pytest.mark.timeout(60)
def test_a_value_that_is_there_twice_is_found_at_once():
    with pytest.raises(lr.InvalidInput, match="each value once, and 299999 is there more than once"):
        build(axes={"seed": [*range(300_000), 299_999]})


def test_a_factory_without_a_name_is_one_sentence():
    class Nameless:
        def __call__(self, seed):
            return custom(seed)

    with pytest.raises(lr.InvalidInput) as error:
        build(problem=Nameless(), axes={"seed": [0]}).as_dict()
    assert "problem must" in one_sentence(error)


@pytest.mark.parametrize("content", [None, 5, "a", ["name"]])
def test_what_is_no_table_is_no_sweep(content):
    with pytest.raises(lr.InvalidInput):
        Sweep.from_dict(content)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "problem is missing, and the sweep needs it."),
        (b"axes = ", "is not TOML: Invalid value (at end of document)."),
        (b"a = 1\na = 2", "is not TOML: Cannot overwrite a value (at "),
        (b"\xff\xfe", "cannot be read: it is not text."),
        (b"a = " + b"[" * 10**5, "is not TOML"),
        (b"at = " + b"9" * 5000, "is not TOML"),
        (b"rate = 1\n[axes]\nseed = 5\n", "problem is missing"),
        (b'problem = "hierarchy"\nat = 5\n[axes]\nseed = 1979-05-27\n', "axis seed must list its values"),
    ],
)
def test_a_bad_file_is_one_sentence_that_names_it(tmp_path, text, says):
    path = tmp_path / "mine.toml"
    path.write_bytes(text)
    with pytest.raises(lr.InvalidInput) as error:
        Sweep.from_toml(path)
    assert says in one_sentence(error) and str(path) in str(error.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    for path in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(lr.InvalidInput, match=f"{re.escape(str(path))} cannot be read: "):
            Sweep.from_toml(path)
    with pytest.raises(lr.InvalidInput, match="did you mean kunin2024/1b or"):
        published("kunin2024/b1")


# What TOML can hold, and what Python can add to it.
scalars = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.text(max_size=5),
    st.dates(),
    st.none(),
    st.sampled_from([HUGE, -HUGE]),
)
nonsense = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ranges = st.dictionaries(
    st.sampled_from(["range", "linspace", "logspace"]), nonsense | st.lists(scalars, max_size=3), max_size=2
)
almost = st.one_of(
    nonsense,
    st.dictionaries(st.sampled_from(["seed", "lam", "h", "scale"]), ranges | nonsense | st.lists(scalars), max_size=3),
    st.lists(st.sampled_from(["loss", "test_loss", 0, 1, 2, 2.0, "solve"]), max_size=3),
)  # fmt: skip


@pytest.mark.filterwarnings("error")
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.dictionaries(
        st.sampled_from(
            [*SMALL, "settings", "method", "rate", "rtol", "observables", "precision", "block", "about", "x"]
        ),
        almost,
        min_size=1,
        max_size=3,
    )
)
def test_nonsense_meets_one_sentence_and_nothing_else(changes):
    try:
        sweep = build(**changes)
    except lr.InvalidInput as error:
        assert str(error).endswith(".")
        return
    assert sweep.cells == math.prod(sweep.shape) >= 1 and Sweep.from_dict(sweep.as_dict()) == sweep
    if "settings" not in changes:  # these are for the factory to judge; the store refuses what it cannot keep
        assert Sweep.from_dict(json.loads(json.dumps(sweep.as_dict(), allow_nan=False))) == sweep


# the factories ----------------------------------------------------------------------------------------------


def numbers(cell):
    """All that a cell is made of."""
    parts = [cell.problem.task.inputs, cell.problem.task.targets, *cell.problem.network.weights, np.array(cell.clock)]
    return parts + ([cell.test.inputs, cell.test.targets] if cell.test else [])


def forget():
    """Empties the caches: what comes next is made anew."""
    for part in vars(factories).values():
        if hasattr(part, "cache_clear"):
            part.cache_clear()


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_factory_needs_a_seed_alone_and_follows_it(name):
    first, other = PROBLEMS[name](seed=3), PROBLEMS[name](seed=4)
    forget()
    again = PROBLEMS[name](seed=3)
    assert isinstance(first, Cell) and isinstance(first.problem, lr.Problem)
    assert all(np.array_equal(a, b) for a, b in zip(numbers(first), numbers(again), strict=True))
    assert not any(map(np.array_equal, first.problem.network.weights, other.problem.network.weights))
    assert name == "hierarchy" or not np.array_equal(first.problem.task.inputs, other.problem.task.inputs)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("seed", [-1, 0.5, "0", True, None, NAN, INF])
def test_a_bad_seed_is_one_sentence(name, seed):
    with pytest.raises(lr.InvalidInput, match="seed must be a whole number, not negative, and it is "):
        PROBLEMS[name](seed=seed)


def test_more_samples_change_neither_start_nor_teacher():
    few, many = (PROBLEMS["teacher_student"](seed=0, d=4, h=4, n=n, test=5) for n in (8, 20))
    assert all(map(np.array_equal, few.problem.network.weights, many.problem.network.weights))
    assert np.array_equal(few.problem.task.targets, many.problem.task.targets[:8])


@given(tau=st.floats(0.05, 20), delta=st.floats(-10, 10), slope=st.sampled_from([0.0, 0.3]), seed=st.integers(0, 50))
def test_every_neuron_has_the_balance_asked_for_and_the_student_predicts_nothing(tau, delta, slope, seed):
    cell = PROBLEMS["teacher_student"](seed=seed, tau=tau, delta=delta, d=4, h=6, n=8, test=5, slope=slope)
    W, a = cell.problem.network.weights
    sizes = a[0] ** 2 + (W**2).sum(axis=1)
    assert np.abs(a[0] ** 2 - (W**2).sum(axis=1) - delta).max() <= 1e-12 * max(1, sizes.max())
    assert np.abs(np.abs(a[0]) * np.linalg.norm(W, axis=1) - tau**2).max() <= 1e-12 * max(1, sizes.max())
    hidden = cell.test.inputs @ W.T
    hidden = np.where(hidden > 0, hidden, slope * hidden)
    assert np.abs(hidden @ a[0]).max() <= 1e-14 * sizes.sum()
    assert cell.clock == pytest.approx(tau**-2, rel=1e-14)


@pytest.mark.parametrize(
    ("problem", "axes", "options"),
    [
        ("teacher_student", {"tau": [0.1, 1.0], "h": [2, 4]}, {"d": 4, "n": 8, "test": 5}),
        ("random_regression", {"scale": [0.1, 1.0], "h": [8, 9]}, {"samples": 9}),
    ],
)
def test_cells_of_one_seed_share_the_very_same_task(problem, axes, options):
    sweep = build(problem=problem, axes={"seed": [0, 1]} | axes, settings=options)
    cells = {place: sweep.cell(place) for place in sweep.places(sweep.block_at(0))}
    for (seed, *_), cell in cells.items():
        same, other = cells[seed, 0, 0], cells[1 - seed, 0, 0]
        assert cell.problem.task is same.problem.task and cell.test is same.test
        assert cell.problem.task is not other.problem.task
