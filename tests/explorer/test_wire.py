"""Messages: what a page reads is what was sent, in single precision, where it lies."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazyrich.explorer.state import State
from lazyrich.explorer.view import view
from lazyrich.explorer.wire import decoded, encoded


def read(message):
    """As the page does it, word by word."""
    size = int(np.frombuffer(message[:4], "<u4")[0])
    header = json.loads(message[4 : 4 + size].decode("utf-8"))
    place, arrays = 4 + size, {}
    for name, shape in header["arrays"]:
        assert place % 4 == 0  # a Float32Array must start at a multiple of four
        count = math.prod(shape)
        arrays[name] = np.array(np.frombuffer(message[place : place + 4 * count], "<f4")).reshape(shape)
        place += 4 * count
    assert place == len(message)
    return header, arrays


@pytest.mark.parametrize(
    "state",
    [State(), State(seed=2, then=("reversal",)), State(task="own", matrix="1 2 3", start="single_neuron", lam=-1.0)],
    ids=["default", "sequence", "neuron"],
)
def test_a_view_arrives_in_single_precision(state):
    sent = view(state)
    for reader in (read, decoded):
        header, arrays = reader(encoded(sent.header, sent.arrays))
        assert [*arrays] == [*sent.arrays]
        for name, array in sent.arrays.items():
            assert arrays[name].dtype == np.float32
            np.testing.assert_array_equal(arrays[name], array.astype(np.float32))
        assert header["tasks"] == sent.header["tasks"] and header["sizes"] == [*sent.header["sizes"]]
        assert header["boundaries"] == [float(end) for end in sent.header["boundaries"]]


def test_numbers_that_are_not_finite():
    given = {"a": np.nan, "b": [np.inf, 1.5], "c": {"d": -np.inf}, "e": np.array([np.nan, 2.0]), "f": np.float64("nan")}
    header, arrays = read(encoded(given, {"x": [np.nan, -np.inf, 1.0]}))
    assert {key: header[key] for key in given} == {
        "a": None, "b": [None, 1.5], "c": {"d": None}, "e": [None, 2.0], "f": None,
    }  # fmt: skip
    np.testing.assert_array_equal(arrays["x"], np.float32([np.nan, -np.inf, 1.0]))


def test_numpy_in_a_header():
    header, _ = read(encoded({"n": np.int64(3), "yes": np.True_, "x": np.float32(0.5), "t": (1, 2), 5: "five"}))
    assert (header["n"], header["yes"], header["x"], header["t"], header["5"]) == (3, True, 0.5, [1, 2], "five")


@given(
    st.dictionaries(st.text(max_size=6), st.text(max_size=20) | st.floats() | st.booleans() | st.none(), max_size=4),
    st.dictionaries(st.text(max_size=6), st.lists(st.integers(0, 4), max_size=3), max_size=3),
)
def test_any_header_and_any_shapes(words, shapes):
    words.pop("arrays", None)
    arrays = {name: np.arange(math.prod(shape), dtype=float).reshape(shape) for name, shape in shapes.items()}
    for reader in (read, decoded):
        header, got = reader(encoded(words, arrays))
        assert [*got] == [*arrays]
        for name in arrays:
            np.testing.assert_array_equal(got[name], arrays[name])
        for name, value in words.items():
            finite = not isinstance(value, float) or math.isfinite(value)
            assert header[name] == (value if finite else None)
