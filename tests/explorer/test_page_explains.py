"""The page as an explainer: the network that moves, what the first screen holds, what plays, what keys do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer.script import prepared
from lazyrich.explorer.state import State
from lazyrich.explorer.stories import STORIES, Story

from .browsing import NEURON, STATES, Page, shows, state_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

LINES = """() => [...document.querySelectorAll('#network line')].map(
    l => l.getAttribute('visibility') === 'hidden' ? [0, 0] : [+l.getAttribute('stroke-width'),
    getComputedStyle(l).stroke === getComputedStyle(document.querySelector('h1 span')).color ? 1 : -1])"""


@pytest.mark.parametrize("state", [{"scale": 0.05}, {"start": "aligned", "depth": 3, "width": 5, "scale": 0.01}])
@pytest.mark.parametrize("cursor", [0.0, 0.4, 1.0])
def test_the_network_has_the_weights_of_the_library(page: Page, state: dict[str, Any], cursor: float) -> None:
    """Thick as they are large, and coloured by their sign, at the time of the cursor."""
    page.open(state, cursor=cursor).settle()
    problem = prepared(State.from_dict(state)).problem
    kept = page.times()[np.unique(np.linspace(0, len(page.times()) - 1, 60).astype(int))]
    traj = lr.solve(problem, kept)
    most = max(np.abs(W).max() for W in traj.weights)
    time = np.argmin(np.abs(kept - page.cursor_time()))
    wanted = np.concatenate([W[time].ravel() for W in traj.weights]) / most
    drawn = np.array(page.tab.evaluate(LINES))
    assert len(drawn) == len(wanted)
    signed = drawn[:, 0] * drawn[:, 1] / 4.5
    clear = np.abs(wanted) > 0.03  # less is not drawn
    np.testing.assert_allclose(signed[clear], wanted[clear], atol=0.01)
    assert np.all(signed[np.abs(wanted) < 0.01] == 0)
    names = page.tab.locator("#network .name").all_text_contents()
    assert names == ["salmon", "sunfish", "robin", "canary", "rose", "daisy", "oak", "pine"]


def test_a_network_without_weights_says_so(page: Page) -> None:
    page.open({"start": "gaussian", "width": 40, "scale": 0.3}).settle()
    assert "QQᵀ is followed" in page.tab.inner_text("#network")
    page.open({"width": 30}).settle()
    assert "16 of 30 hidden" in page.tab.locator("#network text").all_text_contents()


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("story", ["", "staircase"])
def test_the_first_screen_holds_the_whole_figure(page: Page, name: str, story: str) -> None:
    page.tab.set_viewport_size({"width": 1440, "height": 900})
    try:
        page.open(STATES[name], story=story).settle()
        page.tab.wait_for_timeout(200)
        bar = page.tab.locator("#time-bar").bounding_box()["y"]
        boxes = [page.tab.locator(name) for name in ("#plot", "#network", "#phase-caption", "#function", "#gram")]
        boxes.append(page.tab.locator("#neuron" if name == "delayed" else "#points"))
        for part in boxes:
            box = part.bounding_box()
            assert box["height"] > 14 and box["y"] + box["height"] <= bar
        for part in page.tab.locator(".picture svg text").all():
            box = part.bounding_box()
            assert box is None or box["y"] + box["height"] <= bar
        lam = page.tab.locator('[data-name="lam"]')
        assert lam.is_visible() and lam.bounding_box()["y"] + lam.bounding_box()["height"] <= bar
    finally:
        page.tab.set_viewport_size({"width": 1300, "height": 1000})


def test_lambda_is_there_from_the_first_and_makes_lazy(page: Page) -> None:
    page.open({"scale": 0.01})
    page.tab.locator('[data-name="lam"] input[type=number]').fill("20")
    page.rest()
    page.settle()
    assert page.state == {"scale": 0.01, "start": "lambda_balanced", "lam": 20}
    assert page.tab.inner_text("#sentence").startswith("lazy")


def test_it_plays_on_load_and_holds_still_where_that_is_wished(browser: Any, address: str) -> None:
    for motion, moves in ("no-preference", True), ("reduce", False):
        page = Page(browser, address, reduced_motion=motion)
        page.tab.goto(f"{address}/")
        page.tab.wait_for_selector("body[data-drawn]")
        page.tab.wait_for_timeout(600)
        share = int(page.tab.input_value("#time"))
        assert (0 < share < 1000) == moves and (page.tab.get_attribute("#play", "aria-pressed") == "true") == moves
        page.check()
        page.context.close()
    page = Page(browser, address, reduced_motion="no-preference")
    page.tab.goto(f"{address}/#cursor=0.5")  # an address with a time in it stays there
    page.tab.wait_for_selector("body[data-drawn]")
    page.tab.wait_for_timeout(400)
    assert page.tab.input_value("#time") == "500"
    page.context.close()


def test_values_are_read_under_the_pointer(page: Page) -> None:
    page.open(cursor=1).settle()
    box = page.tab.locator("#plot-frame").bounding_box()
    page.tab.mouse.move(box["x"] + 58 + 0.5 * (box["width"] - 72), box["y"] + 60)
    told = page.tab.inner_text("#readout")
    times, (loss,) = page.times(), page.drawn("loss")
    k = int(np.argmin(np.abs(times - times[-1] / 2)))
    assert f"t = {times[k]:.3g}" in told and f"loss {loss[k]:.3g}" in told
    page.tab.mouse.move(5, 5)
    assert f"t = {times[-1]:.3g}" in page.tab.inner_text("#readout")


def test_keys_reach_everything_and_discard_nothing(page: Page) -> None:
    page.open({"seed": 7})
    page.tab.locator('[data-name="scale"] input[type=range]').focus()
    page.tab.keyboard.press("2")  # on a slider it opens no story
    assert page.state == {"seed": 7}
    page.tab.click("#export > summary")
    page.tab.keyboard.press("Escape")
    assert page.tab.locator("#export[open]").count() == 0
    page.open({"start": "lambda_balanced", "lam": 1.0, "scale": 0.01}).settle()
    page.tab.focus("#phase")
    page.tab.keyboard.press("ArrowUp")
    told = page.tab.get_attribute("#phase", "aria-label")
    page.tab.keyboard.press("Enter")
    page.rest()
    assert f"λ {page.state['lam']:.2g}".rstrip("0").rstrip(".") in told and "the kernel moves by" in told
    page.open(NEURON).settle()
    page.tab.focus("#neuron")
    before = page.tab.locator("#neuron path.path").get_attribute("d")
    page.tab.keyboard.press("ArrowRight")
    assert page.tab.locator("#neuron path.path").get_attribute("d") != before


def test_the_back_button_undoes(page: Page) -> None:
    page.open({"seed": 5}, cursor=0.5)
    field = page.tab.locator('[data-name="scale"] input[type=number]')
    for value in ("0.2", "0.3"):
        field.fill(value)
        page.rest()
        assert page.state == {"seed": 5, "scale": float(value), "cursor": 0.5}
    for before in {"seed": 5, "scale": 0.2}, {"seed": 5}:
        page.tab.go_back()
        page.tab.wait_for_timeout(100)
        page.rest()
        assert page.state == {**before, "cursor": 0.5}
        shows(page, before)


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_a_story_is_told_live(page: Page, story: Story) -> None:
    """Every step by keys, with the numbers of its state, before and after the prediction."""
    page.open()
    page.tab.click(f'[data-story="{story.name}"]')
    for number, step in enumerate(story.steps):
        page.tab.wait_for_function(f"document.getElementById('story-count').textContent.startsWith('{number + 1} of')")
        page.rest()
        page.settle()
        if step.question:
            page.tab.click(f"#story-options button:nth-child({step.question.right + 1})")
            page.rest()
            page.settle()
            assert page.tab.inner_text("#story-answer") and page.tab.is_visible("#sentence")
        reveal = step.question.reveal if step.question else {}
        page.tab.wait_for_timeout(200)
        shows(page, state_of(story.name, number, **reveal))
        page.tab.evaluate("() => document.activeElement.blur()")
        page.tab.keyboard.press("PageDown")
    page.tab.click("#story-close")
    assert page.tab.locator("#story[hidden]").count() == 1 and "story" not in page.state


def test_pinned_curves_stay_beside_those_of_another_start(page: Page) -> None:
    page.open({"seed": 5})
    (before,) = page.drawn("loss")
    page.tab.click("#pin")
    page.tab.locator('[data-name="scale"] input[type=number]').fill("0.01")
    page.rest()
    shows(page, {"seed": 5, "scale": 0.01})
    kept = "document.getElementById('plot').drawn.traces.find(t => t.pinned && t.panel === 'loss')"
    np.testing.assert_array_equal(page.tab.evaluate(f"() => Array.from({kept}.y)"), before)
    assert "pinned" in page.tab.inner_text("#key")
    page.tab.click("#pin")
    assert not page.tab.evaluate(f"() => Boolean({kept})")
