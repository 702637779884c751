"""Arrays whose axes have names, Datasets of several axes, and tables with names of items."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.fit.measurements import as_measurements, from_table

xarray = pytest.importorskip("xarray")

TASK = lr.Task.from_data(np.eye(3), np.diag([3.0, 2.0, 1.0]), items=["salmon", "rose", "oak"])
TIMES = np.linspace(0.0, 10.0, 4)


def read(kind, value):
    return as_measurements(TASK, TIMES, {kind: value}, None, None, "hidden").arrays[kind]


def test_a_square_of_times_and_subjects_is_read_by_its_names(rng):
    curves = rng.normal(size=(4, 4))
    for value in (("subject", "time"), curves), (("time", "subject"), curves.T):
        np.testing.assert_array_equal(read("loss", xarray.DataArray(value[1], dims=value[0])), curves)


def test_items_are_read_by_their_names(rng):
    counts = rng.integers(1, 9, size=(4, 3, 3))
    turned = xarray.DataArray(
        counts[:, [2, 0, 1]].transpose(2, 1, 0),
        dims=("output", "sample", "time"),
        coords={"sample": ["oak", "salmon", "rose"], "time": TIMES},
    )
    np.testing.assert_array_equal(read("choices", turned), counts[None])


def test_what_the_observables_write_is_read(rng):
    problem = lr.Problem(TASK, lr.inits.aligned(0, TASK, hidden=3, strengths=0.1))
    written = lr.solve(problem, TIMES).to_xarray("mode_strengths", "rsm_in")
    np.testing.assert_array_equal(read("modes", written.mode_strengths)[0], written.mode_strengths)
    assert read("rsm", written.rsm_in).shape == (1, 4, 6)


@pytest.mark.parametrize(
    ("dims", "coords", "says"),
    [
        (
            ("mouse", "day"),
            {},
            r"loss must have dimensions that are called 'subject', 'time', 'time' at least, and they",
        ),
        (("subject", "time"), {"time": TIMES + 1}, r"times must be those of loss, from 1 to 11 by its coordinate, and"),
    ],
)
def test_other_names_and_other_times_are_refused(dims, coords, says):
    with pytest.raises(lr.InvalidInput, match=says):
        read("loss", xarray.DataArray(np.ones((4, 4)), dims=dims, coords=coords))


@pytest.mark.parametrize("named", [True, False])
def test_a_dataset_of_subjects_and_times(rng, named):
    curves = rng.normal(size=(2, 4))
    curves[1, 2] = np.nan
    coords = {"time": TIMES} | ({"subject": ["a", "b"]} if named else {})
    for dims in ("subject", "time"), ("time", "subject"):
        values = curves if dims[0] == "subject" else curves.T
        found = from_table(TASK, xarray.Dataset({"loss": (dims, values)}, coords), None, None, "hidden")
        np.testing.assert_array_equal(found.arrays["loss"], curves)
        np.testing.assert_array_equal(found.times, TIMES)
        assert found.subjects == (("a", "b") if named else (0, 1))


def test_names_of_items_and_missing_choices():
    table = {
        "time": [0.0, 0.0, 1.0, 1.0, 1.0],
        "item": ["oak", "salmon", "rose", "rose", None],
        "choice": [2.0, 0.0, np.nan, 1.0, 1.0],
    }
    (counts,) = from_table(TASK, table, None, None, "hidden").arrays["choices"]
    want = np.zeros((2, 3, 3))
    want[0, 2, 2] = want[0, 0, 0] = want[1, 1, 1] = 1
    np.testing.assert_array_equal(counts, want)
