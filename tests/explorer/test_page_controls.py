"""The page in a real Chromium: every control, and input that is none.

Numbers are read off the drawn figure and compared with the library called directly. Each test ends by looking at the
browser's console (no error) and at every request that was made (none to another host).
"""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer.state import CONTROLS, State

from .browsing import NEURON, Page, free_port, shows, started

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


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
        traj = lr.solve(problem, page.times())
        np.testing.assert_allclose(page.drawn("loss")[0], traj.loss, rtol=1e-6, atol=1e-12)
        modes = np.einsum("toi,om,im->tm", traj.function, task.modes.U, task.modes.V)
        np.testing.assert_allclose(np.array(page.drawn("modes")).T, modes, rtol=1e-6, atol=1e-7)
        assert traj.times[-1] == 12.5
        np.testing.assert_allclose(page.dashed("kernel")[1], lr.observables.kernel_distance(traj), rtol=1e-5, atol=1e-9)


# controls ---------------------------------------------------------------------------------------------------

#: control → (the state it is tried in, what a user does, the state after it)
_RANDOM = {"task": "random_regression"}
TRIED: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "task": ({}, "colour_hierarchy", {"task": "colour_hierarchy"}),
    "d_in": (_RANDOM, 6, {"d_in": 6}),
    "d_out": (_RANDOM, 2, {"d_out": 2}),
    "levels": ({"task": "binary_tree", "d_out": 12}, 2, {"levels": 2}),
    "matrix": ({"task": "own"}, "2 1; 0 3; 1 1", {"matrix": "2 1; 0 3; 1 1"}),
    "then": ({}, "reversal", {"then": ["reversal"]}),
    "depth": ({"start": "aligned", "scale": 0.3}, 3, {"depth": 3, "scale": 0.243}),
    "width": ({}, 3, {"width": 3}),
    "start": ({}, "aligned", {"start": "aligned"}),
    "scale": ({}, 0.2, {"scale": 0.2}),
    "lam": ({"start": "lambda_balanced", "width": 8}, -1.5, {"lam": -1.5}),
    "angle": (NEURON, 30, {"angle": 30}),
    "prior": ({"start": "prior"}, "revised_kingdom", {"prior": "revised_kingdom"}),
    "nudge": ({"seed": 4, "scale": 0.05, "task": "own", "matrix": "3 0; 0 2", "width": 4}, 0.001, {"nudge": 0.001}),
    "seed": ({}, 11, {"seed": 11}),
    "rates": ({"start": "aligned"}, 2, {"start": "aligned", "rates": [2, 1]}),
    "weight_decay": ({}, 0.03, {"weight_decay": 0.03}),
    "horizon": ({}, 25, {"horizon": 25}),
}


@pytest.mark.parametrize("name", TRIED)
def test_a_control_changes_what_it_should(page: Page, name: str) -> None:
    before, action, change = TRIED[name]
    page.open(before)
    was = page.drawn("loss")
    box = page.tab.locator(f'[data-name="{name}"]')
    select, number, text = box.locator("select"), box.locator("input[type=number]"), box.locator("textarea")
    if select.count():
        select.first.select_option(str(action))
    else:
        (number if number.count() else text).first.fill(str(action))
    page.rest()
    assert page.state == {**before, **change}
    shows(page, {**before, **change})
    now = page.drawn("loss")
    assert len(now) != len(was) or any(not np.array_equal(a, b) for a, b in zip(now, was, strict=True))


def test_every_control_is_tried_here() -> None:
    elsewhere = {"data", "centre", "whiten", "descent", "rate"}  # uploads, and gradient descent below
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
    traces = "document.getElementById('plot').drawn.traces.filter(t => t.dash === 'dot')"
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
    process, url = started(port := free_port())
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
