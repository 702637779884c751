"""Stories show what they say: the numbers of their prose, and the right answer to each question."""

from __future__ import annotations

import itertools
import re
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.citations import BIBTEX
from lazyrich.explorer.captions import captions
from lazyrich.explorer.state import State
from lazyrich.explorer.stories import STORIES, Story, story_json, story_named
from lazyrich.explorer.view import View, view

from .browsing import STATES, state_of

NAMES = ("staircase", "lazy-rich", "delayed", "forgetting", "saddle")
by_story = pytest.mark.parametrize("story", STORIES, ids=NAMES)


def told(state: dict[str, Any]) -> tuple[View, dict[str, Any]]:
    return _told(tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in state.items()))


@cache
def _told(pairs: tuple[tuple[str, Any], ...]) -> tuple[View, dict[str, Any]]:
    state = State.from_dict(dict(pairs))
    picture = view(state)
    return picture, captions(state, picture)


def shown(name: str) -> tuple[View, dict[str, Any]]:
    return told(STATES[name])


def halves(state: dict[str, Any]) -> dict[tuple[int, int], float]:
    return {(mark["stage"], mark["mode"]): mark["time"] for mark in told(state)[1]["half_times"]}


def learning_time(name: str) -> float:
    """When the loss has fallen by 99 of 100 parts."""
    arrays = shown(name)[0].arrays
    loss = arrays["loss"][:, 0]
    return float(arrays["times"][np.argmax(loss - loss[-1] <= 0.01 * (loss[0] - loss[-1]))])


@by_story
def test_a_story_has_three_to_five_steps_that_ask_and_show(story: Story) -> None:
    assert 3 <= len(story.steps) <= 5 and {"seed", "scale"} <= set(story.state)
    assert any(step.question for step in story.steps) and set(story.sources) <= set(BIBTEX)
    assert story.states() and story_named(story.name) is story
    for step in story.steps:
        prose = step.text + (step.question.answer if step.question else "")
        assert {"①②③④⑤".index(mark) for mark in re.findall("[①-⑤]", prose)} == set(range(len(step.marks)))
        if step.question:
            assert 2 <= len(step.question.options) <= 4 and 0 <= step.question.right < len(step.question.options)
            assert step.question.seen < 1 or step.question.reveal
            assert "\\n" not in prose


@by_story
def test_formulas_are_typeset(story: Story) -> None:
    """As MathML, of which nothing is left in LaTeX."""
    formulas = []
    for step in story_json(story)["steps"]:
        texts = [step["text"], *((step["question"]["ask"], step["question"]["answer"]) if step["question"] else ())]
        formulas += [part["math"] for text in texts for part in text if isinstance(part, dict) and "math" in part]
        assert not any("$" in part for text in texts for part in text if isinstance(part, str))
    assert formulas
    for formula in formulas:
        root = ElementTree.fromstring(formula)
        assert root.tag.endswith("math") and "\\" not in "".join(root.itertext())


def test_an_unknown_story_gets_a_sentence() -> None:
    with pytest.raises(lr.InvalidInput, match="there is no story 'x': try staircase, lazy-rich"):
        story_named("x")


# the numbers of the prose -----------------------------------------------------------------------------------


def test_the_order_of_modes_and_the_wait_are_as_told() -> None:
    first, small = halves(state_of("staircase")), halves(state_of("staircase", scale=1e-6))
    groups = [max(first[0, k] for k in group) for group in ((0, 1), (2, 3), (4, 5, 6, 7))]
    starts = [min(first[0, k] for k in group) for group in ((0, 1), (2, 3), (4, 5, 6, 7))]
    assert groups[0] < starts[1] and groups[1] < starts[2]
    assert first[0, 0] == pytest.approx(22.7, abs=0.05) and small[0, 0] == pytest.approx(34.5, abs=0.05)
    s = lr.tasks.semantic_hierarchy().modes.s
    c = 1 / 8
    np.testing.assert_allclose(lr.tasks.semantic_hierarchy().sigma_xx, c * np.eye(8), atol=1e-12)
    strength = s[0] / c  # of the target; modes.s are those of the correlations
    assert np.log(1e4) / (2 * c * strength) == pytest.approx(11.8, abs=0.06)
    assert small[0, 0] - first[0, 0] == pytest.approx(11.8, abs=0.06)


def test_lazy_and_rich_are_as_told() -> None:
    words = [told(state_of("lazy-rich", step))[1]["sentence"] for step in range(4)]
    assert words[0].startswith("lazy: the kernel moves by 1.9 %")
    assert words[1].startswith("rich: the kernel moves by 100 %")
    assert words[3].startswith("rich: the kernel moves by 59 %")


def test_a_neuron_the_other_way_round_is_lazy_and_far_sooner() -> None:
    late, soon = halves(state_of("delayed")), halves(state_of("delayed", lam=20.0))
    assert late[0, 0] > 300 * soon[0, 0]
    moved = told(state_of("delayed", lam=20.0))[0].arrays["movement"]
    assert moved.max() < 0.01


def test_forgetting_in_numbers() -> None:
    loss = told(state_of("forgetting"))[0].arrays["loss"]
    assert loss[0, 0] == pytest.approx(3.03, abs=0.005) and loss[-1, 0] == pytest.approx(3.57, abs=0.005)
    again = halves(state_of("forgetting", 1))
    begin = told(state_of("forgetting", 1))[0].header["boundaries"][1]
    assert max(again[0, k] for k in range(8)) == pytest.approx(8.5, abs=0.06)
    assert max(again[2, k] - begin for k in range(8) if (2, k) in again) == pytest.approx(3.5, abs=0.06)
    stuck, free = told(state_of("forgetting", 2))[0], told(state_of("forgetting", 3))[0]
    assert stuck.arrays["loss"][-1, 1] == pytest.approx(2.2, abs=0.02)  # what zero has
    assert stuck.script["task"].loss(np.zeros((8, 8))) == pytest.approx(2.2, abs=0.02)
    assert free.arrays["loss"][-1, 1] < 1e-2


def test_a_nudge_saves_the_time_that_is_told() -> None:
    weak, strong = (told(state_of("saddle", 2, nudge=nudge)) for nudge in (1e-6, 1e-3))
    assert weak[0].arrays["loss"][-1, 0] < 1e-3 and strong[0].arrays["loss"][-1, 0] < 1e-3
    half = [next(mark["time"] for mark in each[1]["half_times"] if mark["mode"] == 1) for each in (weak, strong)]
    assert half[0] - half[1] == pytest.approx(np.log(1000) / 2, abs=0.05)
    ends = [told(state_of("saddle", seed=seed))[0].arrays["loss"][-1, 0] for seed in (0, 1, 4, 5)]
    np.testing.assert_allclose(ends, [0, 0, 2, 2], atol=5e-3)


# the states -------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", STATES)
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
