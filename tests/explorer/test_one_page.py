"""The exported page in a real Chromium, from a file: no request, no error, every step of every story played, and its
numbers against the library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist

import lazyrich as lr
from lazyrich.cli import main
from lazyrich.explorer.script import prepared
from lazyrich.explorer.state import State
from lazyrich.explorer.stories import STORIES, Story
from lazyrich.explorer.view import view

from .browsing import Page, state_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

MOST = 3_000_000  # bytes
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "story.html"
    assert main(["export", str(path)]) == 0
    return path


@pytest.fixture
def alone(browser: Any, file: Path) -> Iterator[Page]:
    """A tab with the file in it, and no server anywhere."""
    opened = Page(browser, file.as_uri())
    yield opened
    assert opened.errors == []
    assert {url.partition("#")[0] for url in opened.requests} == {file.as_uri()}
    opened.context.close()


def load(page: Page, **choices: Any) -> None:
    page.tab.goto(page.address + page_fragment(choices))
    page.settle()


def page_fragment(choices: dict[str, Any]) -> str:
    return "#" + "&".join(f"{name}={json.dumps(value)}" for name, value in choices.items())


def is_that_of(page: Page, state: dict[str, Any]) -> None:
    """What is drawn against the library, called for this state."""
    wanted = view(State.from_dict(state)).arrays
    loss = np.array(page.drawn("loss"))[-wanted["loss"].shape[1] :].T
    np.testing.assert_allclose(page.times(), wanted["times"], rtol=4e-5)
    np.testing.assert_allclose(loss, wanted["loss"], rtol=4e-5, atol=1e-30)
    shown = np.append(True, np.diff(wanted["times"]) > 0)
    modes = np.array(page.drawn("modes"))[-wanted["modes"].shape[1] :].T
    np.testing.assert_allclose(modes[shown], wanted["modes"][shown], atol=2e-4 * np.abs(wanted["modes"]).max())
    moved = page.drawn("kernel")[-1]
    np.testing.assert_allclose(moved[shown], wanted["movement"][shown], atol=2e-4 * wanted["movement"].max())


def test_it_is_small(file: Path) -> None:
    assert file.stat().st_size <= MOST


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_every_step_is_played(alone: Page, story: Story) -> None:
    """By keys; what a step hides is seen after the prediction, and all numbers are those of the library."""
    load(alone)
    alone.tab.click(f'[data-story="{story.name}"]')
    for number, step in enumerate(story.steps):
        alone.settle()
        assert alone.tab.inner_text("#story-count") == f"{number + 1} of {len(story.steps)}"
        if not (step.question and step.question.hides):
            is_that_of(alone, state_of(story.name, number))
        assert alone.tab.locator("#story-text math").count() == step.text.count("$") // 2
        if step.question:
            hides = step.question.seen < 1
            asked = step.question.hides
            assert not asked or (alone.drawn(asked) == [] and "kernel" not in alone.tab.inner_text("#readout"))
            assert alone.tab.is_visible("#curtain") == hides and alone.tab.inner_text("#story-answer") == ""
            if hides:
                assert not alone.tab.is_visible("#sentence")
                assert int(alone.tab.input_value("#time")) <= round(1000 * step.question.seen)
                alone.tab.locator("#time").press("End")
                assert int(alone.tab.input_value("#time")) <= round(1000 * step.question.seen)
            alone.tab.click(f"#story-options button:nth-child({step.question.right + 1})")
            alone.settle()
            alone.tab.wait_for_timeout(200)
            is_that_of(alone, state_of(story.name, number, **step.question.reveal))
            assert alone.tab.inner_text("#story-answer") and alone.tab.locator(".right").count() == 1
            assert not alone.tab.is_visible("#curtain") and alone.tab.is_visible("#sentence")
        assert {int(k) for k in alone.tab.evaluate(MARKS)} == set(range(len(step.marks)))
        for words, choices in step.tries:
            alone.tab.click(f'#story-tries button:text-is("{words}")')
            alone.settle()
            is_that_of(alone, state_of(story.name, number, **choices))
        alone.tab.evaluate("() => document.activeElement.blur()")
        alone.tab.keyboard.press("ArrowRight")
    assert alone.tab.is_disabled("#story-next")


#: A student's question → what is clicked, and words of the answer. Choices are those of a student who is right.
QUESTIONS = {
    "Why does nothing happen for so long?": (["staircase"], "For a long time nothing seems to happen"),
    "Which part is learned first, and why?": (["staircase", "→", "1"], "so the strong ones are first"),
    "Would smaller weights take much longer?": (["staircase", "→", "→", "2"], "The wait grows with the logarithm"),
    "What does the hidden layer do meanwhile?": (["staircase", "→", "→", "→"], "plants part from animals"),
    "What does lazy mean?": (["lazy-rich", "2"], "That is called lazy"),
    "What does λ do?": (["lazy-rich", "→", "→"], "rich where it is small"),
    "Are large weights lazy?": (["lazy-rich", "→", "→", "→", "1"], "It is the balance of the layers"),
    "Why does the loss rest, and then fall again?": (["delayed", "1"], "turns to the target"),
    "Why does it forget what it has learned?": (["forgetting", "2"], "overwrites the function"),
    "Why does it get stuck, and does it ever get out?": (["saddle", "2"], "the flow has come to a saddle"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_ten_questions_are_answered_in_so_many_clicks(alone: Page, question: str) -> None:
    clicks, words = QUESTIONS[question]
    load(alone)
    if clicks[0] == "staircase":
        clicks = clicks[1:]  # it is open already
    for click in clicks:
        option = f"#story-options button:nth-child({int(click) + 1})" if click.isdigit() else ""
        alone.tab.click("#story-next" if click == "→" else option or f'[data-story="{click}"]')
    alone.settle()
    assert words in " ".join(alone.tab.inner_text("#story").split())
    (row,) = [line for line in (DOCS / "explorer.md").read_text().splitlines() if line.startswith(f"| {question}")]
    assert row.split("|")[3].split(",")[0].strip() == str(len(clicks))


MARKS = "() => [...document.querySelectorAll('#plot [data-mark], h2 [data-mark]')].map(m => m.dataset.mark)"


def test_sliders_go_from_one_computed_state_to_the_next(alone: Page) -> None:
    story = STORIES[1]
    load(alone, story=story.name, step=2, **state_of(story.name, 2))
    slider = alone.tab.locator("#control-lam")
    assert int(slider.get_attribute("max")) == len(story.vary["lam"]) - 1
    for place in (0, 7, 14):
        slider.fill(str(place))
        alone.settle()
        lam = sorted(story.vary["lam"])[place]
        assert alone.tab.locator('[data-name="lam"] output').inner_text() == f"{lam:g}".replace("-", "−")
        is_that_of(alone, state_of(story.name, 2, lam=lam))
    alone.tab.locator("#phase rect:not(.bar)").nth(3).click()  # λ = -20, which is there; the scale is the nearest one
    alone.settle()
    state = alone.state
    assert state["lam"] == -20 and state["scale"] in story.vary["scale"]
    is_that_of(alone, {**state_of(story.name, 2), "lam": -20, "scale": state["scale"]})


def test_exact_numbers_against_the_closed_form(alone: Page) -> None:
    """Without the explorer's own view: `lr.solve` at the times that are drawn."""
    load(alone, story="lazy-rich", step=2, **state_of("lazy-rich", 2))
    problem = prepared(State.from_dict(state_of("lazy-rich", 2))).problem
    traj = lr.solve(problem, alone.times())
    np.testing.assert_allclose(alone.drawn("loss")[-1], traj.loss, rtol=4e-4, atol=1e-9)
    U, _, V = problem.task.modes
    modes = np.einsum("toi,om,im->tm", traj.function, U, V)
    np.testing.assert_allclose(np.sort(np.array(alone.drawn("modes")).T), np.sort(modes), atol=1e-3)


def test_what_follows_from_the_layers_is_right_and_says_its_time(alone: Page) -> None:
    load(alone, cursor=0.5, story="staircase", **state_of("staircase"))
    told = re.search(r"matrices at t = ([\d.]+), the nearest", alone.tab.inner_text("#drawn-at"))
    assert told is not None and float(told[1]) == pytest.approx(alone.cursor_time(), rel=0.05)
    times = alone.times()
    time = times[np.argmin(np.abs(times - float(told[1])))]
    traj = lr.solve(prepared(State.from_dict(state_of("staircase"))).problem, [time])
    read = "b => +b.dataset.height"
    heights = alone.tab.evaluate(f"() => [...document.querySelectorAll('#points .branch')].map({read})")
    wanted = np.sort(linkage(pdist(traj.weights[0][0].T), "average")[:, 2])
    np.testing.assert_allclose(np.sort(heights), wanted, atol=2e-3 * wanted.max())


def test_it_works_in_a_frame_without_an_origin(alone: Page, file: Path, tmp_path: Path) -> None:
    """As a learning platform embeds it: a frame that may run scripts and nothing else."""
    (tmp_path / "course.html").write_text(
        f'<iframe sandbox="allow-scripts" style="width: 900px; height: 700px" src="{file.as_uri()}"></iframe>'
    )
    alone.tab.goto((tmp_path / "course.html").as_uri())
    frame = alone.tab.frame_locator("iframe")
    frame.locator("body[data-settled]").wait_for()
    frame.locator("#story-next").click()
    assert frame.locator("#story-count").inner_text() == "2 of 4"
    alone.requests[:] = [url for url in alone.requests if "course.html" not in url]
