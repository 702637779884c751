"""The page in a real Chromium for everybody: screen readers, light and dark, windows of any size, hostile addresses.

Each test ends by looking at the
browser's console (no error) and at every request that was made (none to another host).
"""

from __future__ import annotations

import re
import urllib.parse
import urllib.request
from typing import Any

import numpy as np
import pytest

from .browsing import NEURON, Page, shows

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


# for everybody ----------------------------------------------------------------------------------------------


def test_everything_has_a_name_for_a_screen_reader(page: Page) -> None:
    page.open(NEURON).settle()
    nameless = page.tab.evaluate(
        """() => [...document.querySelectorAll('input, select, textarea, button, summary, a, [role=img]')]
        .filter(e => e.checkVisibility())
        .filter(e => !(e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim()))
        .map(e => e.outerHTML)"""
    )
    assert nameless == []
    assert page.tab.get_attribute("html", "lang") == "en"
    assert page.tab.get_attribute("#sentence", "aria-live") == "polite"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser: Any, address: str, scheme: str) -> None:
    page = Page(browser, address, color_scheme=scheme).open()
    paper = "() => getComputedStyle(document.querySelector('header')).backgroundColor"
    dark = sum(map(int, re.findall(r"\d+", page.tab.evaluate(paper))[:3])) < 200
    assert dark == (scheme == "dark")
    page.settle()
    page.tab.wait_for_timeout(200)
    marks = page.rings("modes")
    page.tab.click("#theme")
    assert len(marks) and np.array_equal(page.rings("modes"), marks)
    assert (sum(map(int, re.findall(r"\d+", page.tab.evaluate(paper))[:3])) < 200) != dark
    page.check()
    page.context.close()


def test_the_figure_follows_the_window(browser: Any, address: str) -> None:
    page = Page(browser, address).open()
    for width in (800, 1400, 390):
        page.tab.set_viewport_size({"width": width, "height": 900})
        page.tab.wait_for_timeout(400)
        drawn, frame = (page.tab.locator(name).first.bounding_box() for name in ("#plot .figure", "#plot-frame"))
        assert (drawn["width"], drawn["height"]) == (pytest.approx(frame["width"], abs=1), frame["height"])
    page.check()
    page.context.close()


def test_descent_that_diverges_says_so_and_leaves_the_axes(page: Page) -> None:
    page.open({"seed": 3, "scale": 2, "rate": 1, "descent": True, "horizon": 60}).settle()
    most = page.tab.evaluate("() => document.getElementById('plot').drawn.panels.loss.range[1]")
    assert most < 2 * np.max(page.drawn("loss")[0])
    assert re.search(r"gradient descent \(dotted\): \w+", page.tab.inner_text("#key"))


def test_typed_values_beyond_a_bound_are_shown_as_they_were_taken(page: Page) -> None:
    page.open()
    field = page.tab.locator('[data-name="scale"] input[type=number]')
    field.fill("50")
    field.press("Tab")
    page.rest()
    assert page.state == {"scale": 10} and field.input_value() == "10"


def test_the_space_bar_ticks_a_box(page: Page) -> None:
    page.open()
    page.tab.focus("#log-loss")
    page.tab.keyboard.press(" ")
    assert page.tab.is_checked("#log-loss") and page.tab.get_attribute("#play", "aria-pressed") == "false"


@pytest.mark.parametrize("hostile", ["depth=20000", "depth=1e10", "cursor=1e999", "horizon=1e-300", "then=[1,2,3,4,5]"])
def test_hostile_addresses_leave_the_page_alive(page: Page, hostile: str) -> None:
    change = "history.replaceState(null, '', address); dispatchEvent(new HashChangeEvent('hashchange'))"
    page.tab.evaluate(f"address => {{ {change} }}", f"#{hostile}&logTime=true")
    page.settle()
    assert not re.search("NaN|Infinity", page.tab.inner_text("#time-out"))
    page.open()
    shows(page, {})


def test_a_phone(browser: Any, address: str) -> None:
    page = Page(browser, address, is_mobile=True, has_touch=True)
    page.tab.set_viewport_size({"width": 390, "height": 844})
    page.open()
    wide = page.tab.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    page.check()
    page.context.close()


def test_help_has_every_anchor_that_is_linked(page: Page) -> None:
    with urllib.request.urlopen(f"{page.address}/help") as answer:
        text = answer.read().decode()
    page.open().settle()
    for name in ("riccati", "modes", "deep_modes", "shallow", "flow"):
        assert f'id="{name}"' in text
    href = page.tab.get_attribute("#theorem-title a", "href")
    assert f'id="{href.split("#")[1]}"' in text


def test_slow_requests_leave_the_page_alive(page: Page) -> None:
    page.open()
    page.tab.select_option("#control-start", "gaussian")  # integrated, compiled at first
    page.tab.select_option("#control-start", "zero_balanced")
    page.rest()
    shows(page, {})
