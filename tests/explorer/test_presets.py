"""The six presets show what their titles promise, by the numbers and in their own sentences."""

from __future__ import annotations

import itertools
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer.captions import captions
from lazyrich.explorer.presets import PRESETS
from lazyrich.explorer.state import State
from lazyrich.explorer.view import View, view

NAMES = ("staircase", "lazy", "rich-fast", "delayed", "forgetting", "saddle")


@cache
def shown(name: str) -> tuple[View, dict[str, Any]]:
    preset = next(entry for entry in PRESETS if entry["name"] == name)
    state = State.from_dict(preset["state"])
    picture = view(state)
    return picture, captions(state, picture)


def learning_time(name: str) -> float:
    """When the loss has fallen by 99 of 100 parts."""
    arrays = shown(name)[0].arrays
    loss = arrays["loss"][:, 0]
    return float(arrays["times"][np.argmax(loss - loss[-1] <= 0.01 * (loss[0] - loss[-1]))])


def test_there_are_six_in_their_order() -> None:
    assert tuple(preset["name"] for preset in PRESETS) == NAMES
    for preset in PRESETS:
        assert set(preset) == {"name", "title", "text", "state", "page", "watch"}
        assert preset["text"].count(". ") + preset["text"].endswith(".") == 2  # sentences
        assert {"seed", "scale"} <= set(preset["state"])
        State.from_dict(preset["state"])


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_each_is_exact(name: str) -> None:
    assert shown(name)[0].header["exact"]
    assert shown(name)[1]["certificate"].startswith("exact to rounding")


def test_the_staircase_has_three_steps_and_learns_all() -> None:
    picture, told = shown("staircase")
    times, loss = picture.arrays["times"], picture.arrays["loss"][:, 0]
    speed = -np.diff(loss) / np.diff(times)
    peaks = [i for i in range(1, len(speed) - 1) if speed[i - 1] < speed[i] >= speed[i + 1]]
    assert len(peaks) == 3
    for before, after in itertools.pairwise(peaks):  # between two steps the loss all but rests
        assert speed[before:after].min() < 0.4 * min(speed[before], speed[after])
    halves = [mark["time"] for mark in told["half_times"]]
    assert max(halves[:2]) < min(halves[2:4]) - 5 and max(halves[2:4]) < min(halves[4:]) - 5
    assert "all 8 modes are learned" in told["sentence"] and told["end"] == "the global minimum"
    np.testing.assert_allclose(picture.arrays["modes"][-1], picture.arrays["targets"][0], rtol=1e-3)


def test_lazy_is_lazy() -> None:
    picture, told = shown("lazy")
    assert told["regime"] == "lazy" and told["sentence"].startswith("lazy: the kernel moves by 1.9 %")
    assert lr.observables.kernel_movement(picture.script.parts[0]).max() < 0.03
    halves = [mark["time"] for mark in told["half_times"]]
    assert max(halves) < 1.1 * min(halves)  # all modes at once


def test_rich_but_fast() -> None:
    picture, told = shown("rich-fast")
    assert told["regime"] == "rich" and "all 8 modes are learned" in told["sentence"]
    assert learning_time("rich-fast") < learning_time("staircase") / 3
    assert lr.observables.kernel_movement(picture.script.parts[0]).max() > 0.5


def test_delayed_rich_falls_twice_with_a_rest_between() -> None:
    picture, told = shown("delayed")
    assert told["regime"] == "delayed rich" and told["sentence"].startswith("delayed rich: ")
    times, loss = picture.arrays["times"], picture.arrays["loss"][:, 0]
    at = np.interp([1.0, 6.0, 20.0, 40.0], times, loss) / loss[0]
    assert at[0] < 0.5 and at[0] - at[1] < 0.01 and at[1] - at[2] > 0.2 and at[3] < 0.01
    along, across, a = picture.arrays["neuron"].T
    turned = np.degrees(np.unwrap(np.arctan2(across, along)))
    early, moved = times <= 1.0, np.abs(a - a[0])
    assert np.abs(turned[early] - turned[0]).max() < 2 and moved[early].max() > 0.5 * moved.max()


def test_forgetting_forgets() -> None:
    picture, told = shown("forgetting")
    first = picture.arrays["loss"][:, 0]
    assert told["forgetting"][1][0] > 3 and first[-1] > first[0]
    assert told["sentence"].endswith("after task 2, the loss of task 1 has risen by 3.6: it is forgotten")
    assert picture.arrays["loss"][-1, 1] < 1e-3


def test_the_saddle_is_one_by_determinant() -> None:
    picture, told = shown("saddle")
    network, task = picture.script["network"], picture.script["task"]
    assert np.linalg.det(network.function) * np.linalg.det(task.target) < 0
    assert "misses mode 2: the signs of det W₂W₁ and det Σyx differ" in told["sentence"]
    assert picture.arrays["loss"][-1, 0] == pytest.approx(2.0, rel=1e-3)  # ½·2², of the mode that is missed
    np.testing.assert_allclose(picture.arrays["modes"][-1], [3.0, 0.0], atol=1e-2)


def test_the_seed_that_sets_the_network_free_does() -> None:
    preset = PRESETS[NAMES.index("saddle")]
    (seed,) = re.findall(r"seed (\d+) sets the network free", preset["watch"])
    free = view(State.from_dict(preset["state"] | {"seed": int(seed)}))
    np.testing.assert_allclose(free.arrays["modes"][-1], [3.0, 2.0], rtol=0.05)
