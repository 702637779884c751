"""What a page may send: every bound of every control, and one sentence for all that is none of its values."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazyrich import InvalidInput
from lazyrich.explorer.state import CONTROLS, MOST_UNITS, State, packed, parsed_matrix, unpacked

BY_NAME = {control.name: control for control in CONTROLS}
NUMBERS = [control for control in CONTROLS if control.kind in ("log", "signed", "number")]
WHOLES = [control for control in CONTROLS if control.kind == "whole"]


def refusal(call, *arguments):
    """The message with which something is refused: one sentence, on one line, not at length."""
    with pytest.raises(InvalidInput) as caught:
        call(*arguments)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message and len(message) < 1000
    return message


def refused(name, value):
    message = refusal(State.from_dict, {name: value})
    assert message.startswith(name)
    return message


# what is taken ----------------------------------------------------------------------------------------------


def test_defaults_pass_their_own_checks():
    assert State.from_dict({}) == State()
    assert State.from_dict(State().to_dict()) == State()
    assert [*State().to_dict()] == [control.name for control in CONTROLS]


def test_a_state_goes_through_json():
    state = State(task="own", matrix="1 2; 3 4", then=("reversal", "another"), rates=(0.5, 2.0), descent=True, lam=-0.1)
    assert State.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_controls_go_through_json():
    for control in CONTROLS:
        told = json.loads(json.dumps(asdict(control)))
        assert told["label"] and told["help"] and told["group"]
        assert set(told["when"]) <= set(BY_NAME)
        for other, values in told["when"].items():
            options = BY_NAME[other].options or ("true", "false")
            assert set(values) <= set(options)


@pytest.mark.parametrize("control", NUMBERS, ids=lambda control: control.name)
def test_numbers_between_their_bounds(control):
    least, most = control.least, control.most
    for value in (least, most, (least + most) / 2):
        assert getattr(State.from_dict({control.name: value}), control.name) == value
    for value in (np.nextafter(least, -np.inf), np.nextafter(most, np.inf), 1e300, -1e300):
        assert "must lie between" in refused(control.name, float(value))


@pytest.mark.parametrize("control", WHOLES, ids=lambda control: control.name)
def test_whole_numbers_between_their_bounds(control):
    least, most = int(control.least), int(control.most)
    for value in (least, most):
        assert getattr(State.from_dict({control.name: value}), control.name) == value
    assert f"at least {least}" in refused(control.name, least - 1)
    assert f"at most {most:,}" in refused(control.name, most + 1)
    for value in (least + 0.5, float(least), str(least)):
        assert "whole number" in refused(control.name, value)


@pytest.mark.parametrize("control", [c for c in CONTROLS if c.kind == "choice"], ids=lambda control: control.name)
def test_choices(control):
    for option in control.options:
        assert getattr(State.from_dict({control.name: option}), control.name) == option
    assert f"did you mean {control.options[0]!r}" in refused(control.name, control.options[0] + "s")


def test_lists():
    assert State.from_dict({"then": ["another"] * 3}).then == ("another",) * 3
    assert State.from_dict({"rates": [0.01, 100, 1, 1, 1]}).rates == (0.01, 100.0, 1.0, 1.0, 1.0)
    assert "at most 3 entries" in refused("then", ["another"] * 4)
    assert "at most 5 entries" in refused("rates", [1.0] * 6)
    assert "must lie between 0.01 and 100" in refused("rates", [1.0, 0.0])
    assert "must be one of 'reversal'" in refused("then", ["prior"])
    for value in ("reversal", {"reversal": 1}, 1, None, True):
        refused("then", value)
        refused("rates", value)


def test_flags_and_texts():
    assert State.from_dict({"descent": True}).descent is True
    for value in (1, 0, "true", None, []):
        assert "must be True or False" in refused("descent", value)
    for name in ("matrix", "data"):
        for value in (1, None, ["1"], "1" * (64 * 1024 + 1)):
            assert "must be a text" in refused(name, value)


@pytest.mark.parametrize("control", NUMBERS + WHOLES, ids=lambda control: control.name)
@pytest.mark.parametrize(
    "value", [True, None, "1", [1], {}, float("nan"), float("inf"), 10**30, -(10**30), 10**400, [[[1]]]]
)
def test_what_is_no_number(control, value):
    refused(control.name, value)


def test_names_that_there_are_not():
    assert "each name in state must be one of 'task'" in refusal(State.from_dict, {"lambda": 1})
    assert "did you mean 'scale'" in refusal(State.from_dict, {"scales": 1})
    for state in (None, 1, "task", [], [["task", "own"]]):
        assert refusal(State.from_dict, state).startswith("state must be an object")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from([*BY_NAME]) | st.text(max_size=8), JSON, max_size=4))
def test_anything_is_a_state_or_a_sentence(values):
    try:
        state = State.from_dict(values)
    except InvalidInput as error:
        message = str(error)
        assert message.endswith(".") and "\n" not in message and len(message) < 1000
        message.encode()  # a page can be told: no halves of characters
        assert message.startswith(tuple(values)) or message.startswith("each name in state")
    else:
        assert State.from_dict(json.loads(json.dumps(state.to_dict()))) == state


# matrices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["1 2; 3 4", "1,2;3,4", " 1 , 2 ;\n\n3 4;", "1 2\n3 4\n", "1 2\r\n3 4", "1.0 2e0; +3 4.", ";1 2;,;3 4"]
)
def test_ways_to_write_a_matrix(text):
    np.testing.assert_array_equal(parsed_matrix(text), [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("text", "words"),
    {
        "": "0 rows",
        " ; ;\n": "0 rows",
        ",": "0 rows",
        ",;,,": "0 rows",
        "1 2; 3": "rows of equal length, and they have [1, 2] numbers",
        "1 x": "must hold numbers",
        "__import__('os')": "must hold numbers",
        "1 nan": "the largest is nan",
        "inf": "the largest is inf",
        "-1e400 0": "the largest is inf",
        "1000001": "at most 1e+06",
        "1;" * (MOST_UNITS + 1): f"{MOST_UNITS + 1} rows of up to 1",
        "1 " * (MOST_UNITS + 1): f"1 rows of up to {MOST_UNITS + 1}",
        "\ud800": "must hold numbers",
        "1" * 60_000: "the largest is inf",
    }.items(),
    ids=lambda text: text[:12].encode("ascii", "replace").decode(),
)
def test_matrices_that_are_none(text, words):
    message = refusal(parsed_matrix, text)
    assert message.startswith("matrix must") and words in message
    message.encode()


@settings(max_examples=150)
@given(st.text(st.sampled_from("0123456789.,;-+eEn \n\r\tx_"), max_size=40) | st.text(max_size=20))
def test_any_text_is_a_matrix_or_a_sentence(text):
    try:
        matrix = parsed_matrix(text)
    except InvalidInput as error:
        assert str(error).startswith("matrix must") and "\n" not in str(error)
    else:
        assert matrix.ndim == 2 and min(matrix.shape) >= 1 and np.abs(matrix).max() <= 1e6


def correlations(rng, d_out, d_in):
    X, Y = rng.normal(size=(50, d_in)), rng.normal(size=(50, d_out))
    return Y.T @ X / 50, X.T @ X / 50, Y.T @ Y / 50


@pytest.mark.parametrize(("d_out", "d_in"), [(1, 1), (1, 5), (3, 2), (MOST_UNITS, MOST_UNITS)])
def test_packed_correlations_are_the_same_to_the_last_bit(rng, d_out, d_in):
    given = correlations(rng, d_out, d_in)
    text = packed(*given)
    assert State.from_dict({"task": "uploaded", "data": text}).data == text
    assert text.isascii() and not set(text) & set(" +/?&#%")  # as it may stand in an address, but for '=' and ':'
    for one, other in zip(unpacked(text)[:3], given, strict=True):
        np.testing.assert_array_equal(one, other)


def test_packed_texts_that_are_none(rng):
    good = packed(*correlations(rng, 2, 3))
    junk = ["", ":", "2x3", "x:", "2x3:", "4x2:" + good[4:], good[:-4], good + "AAAA", good[:-1], "2x3x1:" + good[4:]]
    junk += [
        "0x0:",
        "-2x3:" + good[4:],
        "9" * 5000 + "x1:",
        f"{2**64}x1:",
        "2x3:\ud800",
        "2x3:é",
        good.replace("A", "!"),
    ]
    junk += [f"{MOST_UNITS + 1}x1:", "1e1x1:"]
    for text in junk:
        assert refusal(unpacked, text).startswith("data must be what an upload gave")
    for value in (np.nan, np.inf, 2e6):
        message = refusal(unpacked, packed(np.full((1, 1), value), np.eye(1), np.eye(1)))
        assert message.startswith("data must have entries of at most 1e+06")


@settings(max_examples=150)
@given(st.text(st.sampled_from("0123456789x:ABCab-_=+/"), max_size=40) | st.text(max_size=20))
def test_any_text_is_packed_or_a_sentence(text):
    try:
        yx, xx, yy, *_ = unpacked(text)
    except InvalidInput as error:
        assert str(error).startswith("data must") and "\n" not in str(error)
    else:
        assert yx.shape == (len(yy), len(xx)) and np.isfinite(yx).all()
