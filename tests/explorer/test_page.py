"""The page in a real Chromium: keys, the cursor through all panels, and export.

Each test ends by looking at the
browser's console (no error) and at every request that was made (none to another host).
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer.state import State
from lazyrich.explorer.stories import STORIES
from lazyrich.explorer.view import view

from .browsing import NEURON, Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


# the keys ---------------------------------------------------------------------------------------------------


def test_keys_open_stories_and_play(page: Page) -> None:
    page.open()
    page.tab.keyboard.press("ArrowLeft")
    assert page.state["cursor"] == pytest.approx(0.99)
    page.tab.keyboard.press("2")
    page.rest()
    assert page.state["story"] == STORIES[1].name
    page.tab.keyboard.press("Shift+ArrowLeft")  # in a story plain arrows turn its pages
    assert "step" not in page.state and page.state["cursor"] < STORIES[1].steps[0].question.seen
    page.open(cursor=0.2)  # nearer to the end it would be there at once
    page.tab.evaluate("() => document.activeElement.blur()")
    page.tab.keyboard.press(" ")
    assert page.tab.get_attribute("#play", "aria-pressed") == "true"
    page.tab.keyboard.press(" ")
    assert page.tab.get_attribute("#play", "aria-pressed") == "false"


# the cursor -------------------------------------------------------------------------------------------------


def pixels(page: Page, name: str) -> np.ndarray:
    """The colours of a matrix."""
    size, data = page.tab.evaluate(
        f"() => {{ const c = document.querySelector('#{name} canvas');"
        "return [[c.height, c.width], Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)] }"
    )
    return np.array(data).reshape(*size, 4)[..., :3]


def test_matrices_follow_the_cursor(page: Page) -> None:
    state = {"seed": 3}
    expected = view(State.from_dict(state)).arrays
    for share in (0.2, 0.5, 1.0):
        page.open(state, cursor=share)
        index = int(np.argmin(np.abs(expected["times"] - share * expected["times"][-1])))
        for name in ("function", "gram"):
            red_minus_blue = pixels(page, name)[..., 0].astype(float) - pixels(page, name)[..., 2]
            values = expected[name][index] / np.abs(expected[name]).max()
            shade = np.sign(values) * np.abs(values) ** 0.75
            assert np.corrcoef(red_minus_blue.ravel(), shade.ravel())[0, 1] > 0.97
        assert float(page.tab.inner_text("#time-out").removeprefix("t = ")) == pytest.approx(
            expected["times"][index], rel=0.01
        )


def test_the_cursor_is_dragged_in_the_figure_and_by_its_slider(page: Page) -> None:
    page.open()
    box = page.tab.locator("#plot-frame").bounding_box()
    before = pixels(page, "function")
    page.tab.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 100)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + 58 + 0.25 * (box["width"] - 72), box["y"] + 100, steps=8)
    page.tab.mouse.up()
    assert page.state["cursor"] == pytest.approx(0.25, abs=0.01)
    assert not np.array_equal(pixels(page, "function"), before)
    page.tab.locator("#time").focus()
    page.tab.keyboard.press("Home")
    assert page.state["cursor"] == 0
    drawn = page.tab.get_attribute("body", "data-drawn")
    page.tab.click("#play")
    page.tab.wait_for_timeout(1500)
    page.tab.click("#play")
    assert 0.1 < page.state["cursor"] < 0.6
    assert page.tab.get_attribute("body", "data-drawn") == drawn  # the server was not asked


def test_logarithmic_axes(page: Page) -> None:
    page.open({"seed": 3})
    page.tab.check("#log-loss")
    page.tab.check("#log-time")
    assert page.state == {"seed": 3, "logLoss": True, "logTime": True}
    drawn = "document.getElementById('plot').drawn"
    assert page.tab.evaluate(f"() => [{drawn}.panels.loss.log, {drawn}.time.log]") == [True, True]


def test_the_neuron_and_its_hyperboloid(page: Page) -> None:
    page.open(NEURON, cursor=0.5)
    ball = page.tab.locator("#neuron circle.now")
    first = ball.get_attribute("cx"), ball.get_attribute("cy")
    page.tab.locator("#time").focus()
    page.tab.keyboard.press("Home")
    assert (ball.get_attribute("cx"), ball.get_attribute("cy")) != first
    assert "one sheet" in page.tab.get_attribute("#neuron", "aria-label")
    page.open({**NEURON, "lam": 2})
    assert "two sheets" in page.tab.get_attribute("#neuron", "aria-label")


def test_the_phase_picture_leads_to_the_point_that_is_clicked(page: Page) -> None:
    page.open({"start": "lambda_balanced", "width": 8, "scale": 0.1}).settle()
    cells = page.tab.locator("#phase rect")
    cells.first.wait_for()
    place = page.tab.locator("#phase circle.here")
    before = place.get_attribute("cx")
    title = cells.nth(25).locator("title").text_content()
    cells.nth(25).click()
    page.rest()
    found = re.match(r"scale (\S+), λ (\S+): the kernel moves by (\S+) %", title)
    assert found is not None
    state = page.state
    assert (state["scale"], state["lam"]) == (
        pytest.approx(float(found[1]), rel=0.05),
        pytest.approx(float(found[2]), rel=0.05),
    )
    assert place.get_attribute("cx") != before
    problem = lr.Problem(
        lr.tasks.semantic_hierarchy(),
        lr.inits.lambda_balanced(State().seed, sizes=(8, 8, 8), lam=state["lam"], scale=state["scale"]),
    )
    moved = lr.fate(problem).regime.kernel_movement
    assert float(found[3]) / 100 == pytest.approx(moved, rel=0.06)


# export -----------------------------------------------------------------------------------------------------


def taken(page: Page, button: str) -> bytes:
    page.tab.click("#export > summary")
    with page.tab.expect_download() as download:
        page.tab.click(button)
    return Path(download.value.path()).read_bytes()


def test_data_code_and_figures_are_taken_away(page: Page) -> None:
    state = {"seed": 3, "scale": 0.2}
    page.open(state).settle()
    expected = view(State.from_dict(state)).arrays
    head, *rows = taken(page, "[data-file=csv]").decode().splitlines()
    assert head.split(",")[:2] == ["time", "loss"]
    np.testing.assert_array_equal([float(row.split(",")[1]) for row in rows], expected["loss"][:, 0])
    with np.load(io.BytesIO(taken(page, "[data-file=npz]"))) as archive:
        np.testing.assert_array_equal(archive["function"], expected["function"])
    code = taken(page, "[data-file=py]").decode()
    assert "lr.inits.zero_balanced(3, sizes=[8, 14, 8], scale=0.2)" in code
    svg = xml.etree.ElementTree.fromstring(taken(page, "[data-figure=svg]"))
    assert svg.tag.endswith("svg") and len(list(svg.iter())) > 200
    png = taken(page, "[data-figure=png]")
    assert png.startswith(b"\x89PNG") and len(png) > 50_000


def test_an_address_restores_everything_in_another_window(page: Page, browser: Any, address: str) -> None:
    page.open({"start": "lambda_balanced", "width": 6, "lam": 1.25, "scale": 0.3, "rates": [1, 1]})
    page.tab.check("#log-loss")
    page.tab.locator('[data-name="horizon"] input').fill("7.5")
    page.tab.locator("#time").focus()
    page.tab.keyboard.press("Home")
    page.settle()
    url, curves, told = page.tab.url, page.drawn("modes"), page.tab.inner_text("#sentence")
    other = Page(browser, address)
    other.tab.goto(url)
    other.tab.wait_for_selector("body[data-drawn]")
    other.settle()
    assert other.tab.url == url
    np.testing.assert_array_equal(other.drawn("modes"), curves)
    assert other.tab.inner_text("#sentence") == told
    assert other.tab.is_checked("#log-loss") and other.tab.input_value("#time") == "0"
    other.check()
    other.context.close()


def test_my_own_data(page: Page, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.sqrt(30) * np.linalg.qr(rng.normal(size=(30, 3)))[0]  # white, so that a theorem applies
    T = rng.normal(size=(2, 3))
    np.savez(tmp_path / "mine.npz", inputs=X, targets=X @ T.T)
    page.open()
    page.tab.select_option("#control-task", "uploaded")
    page.tab.set_input_files("#control-data", tmp_path / "mine.npz")
    page.tab.wait_for_selector("text=30 samples")
    page.rest()
    task = lr.Task.from_data(X, X @ T.T)
    network = lr.inits.zero_balanced(State().seed, sizes=(3, 14, 2), scale=State().scale)
    times = view(State.from_dict(page.state)).arrays["times"]
    np.testing.assert_allclose(
        page.drawn("loss")[0], lr.solve(lr.Problem(task, network), times).loss, rtol=1e-5, atol=1e-9
    )
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n")
    page.tab.set_input_files("#control-data", tmp_path / "bad.csv")
    page.tab.wait_for_timeout(800)
    assert "must" in page.tab.inner_text('[data-name="data"]')
    page.errors[:] = [error for error in page.errors if "status of 4" not in error]  # the browser's own line for a 4xx
