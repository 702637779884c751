"""The page in a real Chromium: every control, every story, the cursor, what is taken away, and nothing from outside.

Numbers are read off the drawn figure and compared with the library called directly. Each test ends by looking at the
browser's console (no error) and at every request that was made (none to another host).
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer.presets import PRESETS
from lazyrich.explorer.state import CONTROLS, State
from lazyrich.explorer.view import view

pytestmark = pytest.mark.timeout(240)

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def started(port: int = 0) -> tuple[subprocess.Popen, str]:
    """A server of its own, and its address."""
    command = [sys.executable, "-m", "lazyrich.cli", "explore", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://[\d.:]+\d", line)
    assert found is not None, line
    return process, found.group()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    process, url = started(_free_port())
    yield url
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (0, 130)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("NO BROWSER: the explorer's page was NOT tested; `make browser` says how to install Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield running
        running.close()


class Page:
    """A tab with the explorer in it, and what happened there."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1300, "height": 1000}, **options)
        self.tab, self.address = self.context.new_page(), address
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))

    def open(self, state: dict[str, Any] | None = None, **page: Any) -> Page:
        """As if its address had been opened; a tab that is there already is used again."""
        address = "#" + urllib.parse.urlencode({k: json.dumps(v) for k, v in {**(state or {}), **page}.items()})
        if self.tab.url.startswith(self.address):
            change = "history.replaceState(null, '', address); dispatchEvent(new HashChangeEvent('hashchange'))"
            self.tab.evaluate(f"address => {{ {change} }}", address)
        else:
            self.tab.goto(f"{self.address}/{address}")
        self.rest()
        return self

    def rest(self) -> None:
        """Until the figure is that of what was chosen last."""
        self.tab.wait_for_selector("body[data-drawn]:not(.waiting)", timeout=60_000)

    def settle(self) -> Page:
        """Until everything that was asked for has come: words, descent, and last the phase picture."""
        self.tab.wait_for_selector("body[data-settled]", timeout=60_000)
        return self

    @property
    def state(self) -> dict[str, Any]:
        """What the address says."""
        self.tab.wait_for_timeout(350)
        pairs = urllib.parse.parse_qsl(urllib.parse.urlparse(self.tab.url).fragment)
        return {name: json.loads(value) for name, value in pairs}

    def drawn(self, axis: str) -> list[np.ndarray]:
        """The curves in one of the three panels, without marks and levels."""
        read = "t => [t.yaxis, t.mode, t.line?.dash ?? '', Array.from(t.x), Array.from(t.y)]"
        traces = self.tab.evaluate(f"() => document.getElementById('plot').data.map({read})")
        found = [y for name, kind, dash, _, y in traces if (name, kind, dash) == (axis, "lines", "solid")]
        return [np.array(y, dtype=float) for y in found]

    def check(self) -> None:
        assert self.errors == []
        hosts = {urllib.parse.urlparse(url).netloc for url in self.requests if not url.startswith(("data:", "blob:"))}
        assert hosts == {urllib.parse.urlparse(self.address).netloc}


@pytest.fixture(scope="module")
def tab(browser: Any, address: str) -> Iterator[Page]:
    opened = Page(browser, address)
    yield opened
    opened.context.close()


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """One tab for all: opening a page takes seconds."""
    tab.errors.clear()
    yield tab
    tab.check()


def shows(page: Page, state: dict[str, Any]) -> None:
    """The figure is that of this state."""
    expected = view(State.from_dict({**State().to_dict(), **state})).arrays
    loss, modes = page.drawn("y"), page.drawn("y2")
    np.testing.assert_array_equal(np.array(loss).T, np.float32(expected["loss"]))
    shown = np.append(True, np.diff(expected["times"]) > 0)  # no stroke from one task to the next
    np.testing.assert_array_equal(np.array(modes).T[shown], np.float32(expected["modes"][shown, :16]))
    if "kernel" in expected:
        np.testing.assert_array_equal(page.drawn("y3")[0][shown], np.float32(expected["kernel"][shown]))
    assert np.isnan(np.array(modes).T[~shown]).all()


# numbers ----------------------------------------------------------------------------------------------------


def test_the_numbers_shown_are_those_of_the_library_for_ten_random_states(page: Page) -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        seed, h = int(rng.integers(1000)), int(rng.integers(2, 5))
        lam, scale = float(rng.choice([-3.0, -0.5, 0.0, 0.5, 3.0])), float(f"{10 ** rng.uniform(-3, 0):.3g}")
        task = lr.tasks.random_regression(seed, d_in=5, d_out=4, samples=20)
        network = lr.inits.lambda_balanced(seed, sizes=(5, h, 4), lam=lam, scale=scale)
        problem = lr.Problem(task, network)
        state = {"task": "random_regression", "d_in": 5, "d_out": 4, "width": h, "start": "lambda_balanced"}
        page.open({**state, "lam": lam, "scale": scale, "seed": seed, "horizon": 12.5})
        traj = lr.solve(problem, np.linspace(0.0, 12.5, 200))
        np.testing.assert_allclose(page.drawn("y")[0], traj.loss, rtol=1e-6, atol=1e-12)
        modes = np.einsum("toi,om,im->tm", traj.function, task.modes.U, task.modes.V)
        np.testing.assert_allclose(np.array(page.drawn("y2")).T, modes, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(page.drawn("y3")[0], lr.observables.kernel_distance(traj), rtol=1e-5, atol=1e-9)


# controls ---------------------------------------------------------------------------------------------------

#: control → (the state it is tried in, what a user does, the state after it)
_RANDOM = {"task": "random_regression"}
_NEURON = {"task": "random_regression", "d_in": 2, "start": "single_neuron", "scale": 1, "lam": -2}
TRIED: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "task": ({}, "colour_hierarchy", {"task": "colour_hierarchy"}),
    "d_in": (_RANDOM, 6, {"d_in": 6}),
    "d_out": (_RANDOM, 2, {"d_out": 2}),
    "levels": ({"task": "binary_tree", "d_out": 12}, 2, {"levels": 2}),
    "matrix": ({"task": "own"}, "2 1; 0 3; 1 1", {"matrix": "2 1; 0 3; 1 1"}),
    "then": ({}, "reversal", {"then": ["reversal"]}),
    "depth": ({"start": "aligned", "scale": 0.3}, 3, {"depth": 3}),
    "width": ({}, 3, {"width": 3}),
    "start": ({}, "aligned", {"start": "aligned"}),
    "scale": ({}, 0.2, {"scale": 0.2}),
    "lam": ({"start": "lambda_balanced", "width": 8}, -1.5, {"lam": -1.5}),
    "angle": (_NEURON, 30, {"angle": 30}),
    "prior": ({"start": "prior"}, "revised_kingdom", {"prior": "revised_kingdom"}),
    "seed": ({}, 11, {"seed": 11}),
    "rates": ({"start": "aligned"}, 2, {"start": "aligned", "rates": [2, 1]}),
    "weight_decay": ({}, 0.03, {"weight_decay": 0.03}),
    "horizon": ({}, 25, {"horizon": 25}),
}


@pytest.mark.parametrize("name", TRIED)
def test_a_control_changes_what_it_should(page: Page, name: str) -> None:
    before, action, change = TRIED[name]
    page.open(before)
    was = page.drawn("y")
    box = page.tab.locator(f'[data-name="{name}"]')
    select, number, text = box.locator("select"), box.locator("input[type=number]"), box.locator("textarea")
    if select.count():
        select.first.select_option(str(action))
    else:
        (number if number.count() else text).first.fill(str(action))
    page.rest()
    assert page.state == {**before, **change}
    shows(page, {**before, **change})
    now = page.drawn("y")
    assert len(now) != len(was) or any(not np.array_equal(a, b) for a, b in zip(now, was, strict=True))


def test_every_control_is_tried_here() -> None:
    elsewhere = {"data", "descent", "rate"}  # uploads and gradient descent, below
    assert {control.name for control in CONTROLS} == set(TRIED) | elsewhere


def test_sliders_by_mouse_and_by_key(page: Page) -> None:
    page.open({"start": "lambda_balanced", "width": 8})
    slider = page.tab.locator("#control-lam")
    slider.focus()
    for _ in range(40):
        page.tab.keyboard.press("ArrowRight")
    page.rest()
    lam = page.state["lam"]
    assert lam == pytest.approx(40 * 0.08**3, rel=0.01)
    box = slider.bounding_box()
    page.tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + box["height"] / 2, steps=15)
    page.tab.mouse.up()
    page.rest()
    state = page.state
    assert state["lam"] < -5
    shows(page, state)


def test_gradient_descent_lies_over_the_theory(page: Page) -> None:
    page.open({"seed": 3, "rate": 0.01})
    page.tab.check("#with-descent")
    page.tab.wait_for_selector('[data-name="rate"]:not([hidden])')
    page.settle()
    traces = "document.getElementById('plot').data.filter(t => t.line?.dash === 'dot')"
    times, loss = page.tab.evaluate(f"() => {{ const [t] = {traces}; return [Array.from(t.x), Array.from(t.y)] }}")
    task, (W1, W2) = (
        lr.tasks.semantic_hierarchy(),
        lr.inits.zero_balanced(3, sizes=(8, 14, 8), scale=State().scale).weights,
    )
    descended = []
    for step in range(round(times[-1] / 0.01) + 1):
        if np.isclose(step * 0.01, times[len(descended)]):
            descended.append(task.loss(W2 @ W1))
        E = task.sigma_yx - W2 @ W1 @ task.sigma_xx
        W1, W2 = W1 + 0.01 * W2.T @ E, W2 + 0.01 * E @ W1.T
    np.testing.assert_allclose(loss, descended, rtol=1e-5, atol=1e-6)
    assert page.state["descent"] is True


def test_start_again_restores_the_defaults(page: Page) -> None:
    page.open({"task": "own", "matrix": "5", "scale": 0.5, "start": "aligned"})
    page.tab.click("#reset")
    page.rest()
    assert page.state == {}
    shows(page, {})


# bad input --------------------------------------------------------------------------------------------------


def test_a_bad_matrix_gets_a_sentence_and_the_page_goes_on(page: Page) -> None:
    page.open({"task": "own"})
    field = page.tab.locator("#control-matrix")
    field.fill("1 2; 3")
    page.tab.wait_for_selector("#error:not([hidden])")
    assert "rows of equal length" in page.tab.inner_text("#error")
    field.fill("1 2; 3 4")
    page.rest()
    assert not page.tab.is_visible("#error")
    shows(page, {"task": "own", "matrix": "1 2; 3 4"})


def test_an_address_with_nonsense_still_opens(page: Page) -> None:
    page.tab.goto("about:blank")
    page.tab.goto(f'{page.address}/#task="nothing"&scale=-1&x=y&cursor=%7B&lam=%22a%22')
    page.tab.wait_for_selector("#error:not([hidden])")
    assert "task must be one of" in page.tab.inner_text("#error")
    page.tab.click("#reset")
    page.tab.wait_for_selector("body[data-drawn]")
    shows(page, {})


def test_a_server_that_goes_and_comes_back(browser: Any) -> None:
    process, url = started(port := _free_port())
    page = Page(browser, url).open()
    process.kill()
    process.wait()
    page.tab.wait_for_selector("#error:not([hidden])")
    assert "does not answer" in page.tab.inner_text("#error")
    again, _ = started(port)
    try:
        page.tab.wait_for_selector("#error", state="hidden", timeout=30_000)
        page.tab.locator('[data-name="seed"] input[type=number]').fill("5")
        page.rest()
        shows(page, {"seed": 5})
    finally:
        again.send_signal(signal.SIGINT)
        again.wait(30)
    page.context.close()


# stories ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS, ids=[preset["name"] for preset in PRESETS])
def test_a_story(page: Page, preset: dict[str, Any], tmp_path: Path) -> None:
    page.open()
    page.tab.click(f'[data-preset="{preset["name"]}"]')
    page.settle()
    shows(page, preset["state"])
    assert page.tab.get_attribute(f'[data-preset="{preset["name"]}"]', "aria-pressed") == "true"
    word = {"lazy": "lazy", "rich-fast": "rich", "delayed": "delayed", "forgetting": "forgotten", "saddle": "saddle"}
    assert word.get(preset["name"], "learned") in page.tab.inner_text("#sentence")
    folder = Path(os.environ.get("LAZYRICH_SCREENSHOTS", tmp_path))
    page.tab.screenshot(path=folder / f"{preset['name']}.png", full_page=True)
    assert page.tab.inner_text("#equation") and page.tab.inner_text("#theorem-statement")


def test_keys_choose_stories_and_play(page: Page) -> None:
    page.open()
    page.tab.keyboard.press("2")
    page.rest()
    assert page.tab.get_attribute(f'[data-preset="{PRESETS[1]["name"]}"]', "aria-pressed") == "true"
    page.tab.keyboard.press("ArrowLeft")
    assert page.state["cursor"] == pytest.approx(0.99)
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
        index = round(share * 199)
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
    kinds = "() => { const l = document.getElementById('plot').layout; return [l.yaxis.type, l.xaxis.type] }"
    assert page.tab.evaluate(kinds) == ["log", "log"]


def test_the_neuron_and_its_hyperboloid(page: Page) -> None:
    page.open(_NEURON, cursor=0.5)
    ball = page.tab.locator("#neuron circle.now")
    first = ball.get_attribute("cx"), ball.get_attribute("cy")
    page.tab.locator("#time").focus()
    page.tab.keyboard.press("Home")
    assert (ball.get_attribute("cx"), ball.get_attribute("cy")) != first
    assert "one sheet" in page.tab.get_attribute("#neuron", "aria-label")
    page.open({**_NEURON, "lam": 2})
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
    moved = lr.observables.kernel_movement(lr.solve(problem, [0.0, 1e6]))[-1]
    assert float(found[3]) / 100 == pytest.approx(moved, rel=0.06)


# take away --------------------------------------------------------------------------------------------------


def taken(page: Page, button: str) -> bytes:
    page.tab.click("#take > summary")
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
    url, curves, told = page.tab.url, page.drawn("y2"), page.tab.inner_text("#sentence")
    other = Page(browser, address)
    other.tab.goto(url)
    other.tab.wait_for_selector("body[data-drawn]")
    other.settle()
    assert other.tab.url == url
    np.testing.assert_array_equal(other.drawn("y2"), curves)
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
        page.drawn("y")[0], lr.solve(lr.Problem(task, network), times).loss, rtol=1e-5, atol=1e-9
    )
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n")
    page.tab.set_input_files("#control-data", tmp_path / "bad.csv")
    page.tab.wait_for_timeout(800)
    assert "must" in page.tab.inner_text('[data-name="data"]')
    page.errors[:] = [error for error in page.errors if "status of 4" not in error]  # the browser's own line for a 4xx


# for everybody ----------------------------------------------------------------------------------------------


def test_everything_has_a_name_for_a_screen_reader(page: Page) -> None:
    page.open(_NEURON).settle()
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
    page.tab.click("#theme")
    assert (sum(map(int, re.findall(r"\d+", page.tab.evaluate(paper))[:3])) < 200) != dark
    page.check()
    page.context.close()


def test_the_figure_follows_the_window(browser: Any, address: str) -> None:
    page = Page(browser, address).open()
    for width in (800, 1400, 390):
        page.tab.set_viewport_size({"width": width, "height": 900})
        page.tab.wait_for_timeout(400)
        drawn, frame = (page.tab.locator(name).first.bounding_box() for name in ("#plot .main-svg", "#plot-frame"))
        assert (drawn["width"], drawn["height"]) == (pytest.approx(frame["width"], abs=1), frame["height"])
    page.check()
    page.context.close()


def test_descent_that_diverges_says_so_and_leaves_the_axes(page: Page) -> None:
    page.open({"seed": 3, "scale": 2, "rate": 1, "descent": True, "horizon": 60}).settle()
    most = page.tab.evaluate("() => document.getElementById('plot')._fullLayout.yaxis.range[1]")
    assert most < 2 * np.max(page.drawn("y")[0])
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
