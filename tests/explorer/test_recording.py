"""Recordings: what is packed comes out as it went in, to the digits that are promised; which states there are."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer.one_page import PAGE, page_with, script
from lazyrich.explorer.recording import own_story, recorded, states_of
from lazyrich.explorer.script import prepared
from lazyrich.explorer.state import State
from lazyrich.explorer.stories import STORIES, Step, Story


def unpacked(text: str) -> tuple[dict[str, Any], Any]:
    """Read from the description in `recording` alone: the content, and a function that reads a list of arrays."""
    data = gzip.decompress(base64.b64decode(text))
    (size,) = struct.unpack("<I", data[:4])
    planes = data[4 + size :]
    count = len(planes) // 3
    whole = [planes[i] + 256 * planes[count + i] + 65536 * planes[2 * count + i] for i in range(count)]
    whole = [value - 2**24 if value >= 2**23 else value for value in whole]

    def read(listed: list[Any]) -> dict[str, np.ndarray]:
        found = {}
        for name, shape, unit, start in listed:
            n = int(np.prod(shape))
            rows = np.cumsum(np.array(whole[start : start + n]).reshape(shape[0], -1), axis=0).ravel()
            if unit is None:
                values = np.array(struct.unpack(f"<{n}f", struct.pack(f"<{n}i", *(int(v) << 9 for v in rows))))
            else:
                values = unit * rows
            found[name] = values.reshape(shape)
        return found

    return json.loads(data[4 : 4 + size]), read


SMALL = Story(
    "small",
    "Small",
    {"seed": 4, "scale": 0.05, "task": "own", "matrix": "3 0; 0 2", "width": 4},
    (Step("One."), Step("Two.", state={"nudge": 1e-3})),
    vary={"scale": (0.01, 0.05), "seed": (0.0, 4.0)},
    sources=("braun2022",),
)


@pytest.mark.long
def test_numbers_are_those_of_the_library() -> None:
    states = states_of([SMALL])
    assert len(states) == 8
    seen: list[float] = []
    content, read = unpacked(recorded([SMALL], states, seen.append))
    assert seen == [1] * 8 and len(content["views"]) == 8
    for state, entry in zip(states, content["views"], strict=True):
        assert State.from_dict(entry["state"]) == state
        arrays, layers = read(entry["view"]["arrays"]), read(entry["weights"]["arrays"])
        problem = prepared(state).problem
        push = {"on_separatrix": "perturb", "perturbation": state.nudge} if state.nudge else {}
        traj = lr.solve(problem, arrays["times"], **push)
        np.testing.assert_allclose(arrays["loss"][:, 0], traj.loss, rtol=1e-3, atol=1e-6)  # times are rounded, too
        few = lr.solve(problem, layers["times"], **push)
        for W, layer in zip(few.weights, (layers["W1"], layers["W2"]), strict=True):
            np.testing.assert_allclose(layer, W, atol=3e-4 * np.abs(W).max())
        np.testing.assert_allclose(arrays["times"][arrays["frames"].astype(int)], layers["times"], rtol=1e-4)
    assert "braun2022" in content["hello"]["cite"] and "@software{lazyrich" in content["hello"]["cite"]
    assert {control["name"] for control in content["hello"]["controls"]} == {"scale", "lam", "seed", "nudge"}


def test_every_step_of_every_story_is_there() -> None:
    states = states_of(STORIES)
    assert len(states) == len(set(states)) < 300
    for story in STORIES:
        assert set(story.states()) <= set(states)
        for name, values in story.vary.items():
            for value in values:
                assert any(getattr(state, name) == value for state in states_of([story]))


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ({"start": "lambda_balanced", "lam": 0.7, "scale": 0.2}, {"scale", "lam", "seed"}),
        ({"scale": 0.2}, {"scale", "seed"}),
        ({"start": "prior"}, {"seed"}),
    ],
)
def test_a_view_of_ones_own_has_its_sliders(state: dict[str, Any], names: set[str]) -> None:
    story = own_story(State.from_dict(state))
    assert set(story.vary) == names
    states = states_of([story])
    assert State.from_dict(state) in states
    assert {one.seed for one in states} == {32, 33, 34}


def test_the_page_has_every_module_once_and_asks_for_nothing() -> None:
    text = page_with("recording")
    assert "import " not in script("main.js").replace("// ", "") or "\nimport" not in script("main.js")
    for file in PAGE.glob("*.js"):
        if file.name != "main.js":
            assert text.count(f'modules["{file.name}"] = await') == 1
    assert 'src="' not in text and 'href="/page' not in text and "\nexport " not in text
    assert "default-src 'none'" in text
