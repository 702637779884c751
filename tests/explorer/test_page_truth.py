"""What the page draws is what the library says: distances, verdicts, headlines, numbers of modes, levels, sizes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import pdist

import lazyrich as lr
from lazyrich.explorer.script import prepared
from lazyrich.explorer.state import State

from .browsing import STATES, Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

LAMBDA = {"start": "lambda_balanced", "lam": 5.0, "scale": 0.1}


def problem_of(state: dict[str, Any]) -> lr.Problem:
    return prepared(State.from_dict(state)).problem


# representations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cursor"), [("staircase", 1.0), ("staircase", 0.42), ("lazy", 1.0), ("forgetting", 0.5)]
)
def test_branches_join_at_the_hidden_distances(page: Page, name: str, cursor: float) -> None:
    """By scipy's average linkage of the columns of W1; what a tree cannot say of them is told."""
    page.open(STATES[name], cursor=cursor).settle()
    read = "() => [...document.querySelectorAll('#points .branch')].map(b => +b.dataset.height).sort((a, b) => a - b)"
    heights = page.tab.evaluate(read)
    traj = lr.solve(problem_of({**STATES[name], "then": []}), [page.cursor_time()])
    apart = pdist(traj.weights[0][0].T)
    tree = linkage(apart, "average")
    np.testing.assert_allclose(heights, np.sort(tree[:, 2]), rtol=0.02, atol=1e-3 * apart.max())
    off = np.abs(cophenet(tree) - apart).max() / apart.max()
    told = re.search(r"off by up to ([\d.]+) %", page.tab.inner_text("#points-caption"))
    assert (told is None) == (off <= 0.01) or abs(off - 0.01) < 0.002
    assert told is None or float(told[1]) / 100 == pytest.approx(off, rel=0.1)
    for one, other in (("salmon", "oak"), ("robin", "rose")):  # as far apart as any: not at one place
        assert (
            page.tab.locator("#points .name", has_text=one).bounding_box()
            != page.tab.locator("#points .name", has_text=other).bounding_box()
        )


def test_branches_are_drawn_as_long_as_they_say(page: Page) -> None:
    page.open(STATES["staircase"]).settle()
    place = "b => [+b.dataset.height, b.getBBox().x + b.getBBox().width]"
    read = f"() => [...document.querySelectorAll('#points .branch')].map({place})"
    height, right = np.array(page.tab.evaluate(read)).T
    ticks = "() => [...document.querySelectorAll('#points .axis')].map(p => p.getBBox().x)"
    (zero, *_), labels = page.tab.evaluate(ticks), page.tab.locator("#points text").all_text_contents()
    assert "0" in labels
    unit = (right - zero) / height
    np.testing.assert_allclose(unit, unit[0], rtol=0.01)


# lazy or rich -----------------------------------------------------------------------------------------------


def hue(fill: str) -> str:
    r, g, b = map(int, re.findall(r"\d+", fill))
    return "lazy" if b > r else "delayed rich" if b > g else "rich"


@pytest.mark.parametrize("state", [LAMBDA, STATES["delayed"]], ids=["lambda", "delayed"])
def test_the_colour_of_a_cell_is_its_verdict(page: Page, state: dict[str, Any]) -> None:
    page.open(state).settle()
    cells = page.tab.evaluate(
        "() => [...document.querySelectorAll('#phase rect:not(.bar)')]"
        ".map(c => [c.getAttribute('fill'), c.dataset.verdict, c.textContent])"
    )
    assert len(cells) == 15 * 21 and {verdict for _, verdict, _ in cells} >= {"lazy", "rich"}
    for fill, verdict, _ in cells:
        assert hue(fill) == verdict
    rng = np.random.default_rng(1)
    for fill, _, title in [cells[i] for i in rng.choice(len(cells), 12, replace=False)]:
        found = re.match(r"\S+ (\S+), \S+ (\S+): the kernel moves by ([\d.]+) %", title)
        assert found is not None
        scale, lam = float(found[1]), float(found[2])
        scale, lam = min(page_scales, key=lambda s: abs(s - scale)), min(page_lams, key=lambda x: abs(x - lam))
        start = state["start"] if state["start"] == "single_neuron" else "lambda_balanced"
        regime = lr.fate(problem_of({**state, "start": start, "scale": float(scale), "lam": float(lam)})).regime
        assert hue(fill) == regime.name
        assert float(found[3]) / 100 == pytest.approx(regime.kernel_movement, rel=0.06)


page_scales = np.geomspace(1e-4, 3.0, 21)
page_lams = np.concatenate([-np.geomspace(0.1, 20.0, 7)[::-1], [0.0], np.geomspace(0.1, 20.0, 7)])


def test_the_axis_of_lambda_is_labelled_where_it_says(page: Page) -> None:
    """A label stands at the row of its λ, by the logarithm; the present point stands beside its number."""
    page.open({**LAMBDA, "lam": 20.0}).settle()
    middle = "e => { const b = e.getBoundingClientRect(); return b.y + b.height / 2 }"
    ticks = page.tab.locator("#phase text.tick[text-anchor=end]")
    place = {
        text: ticks.filter(has_text=re.compile(f"^{text}$")).first.evaluate(middle)
        for text in ("20", "5", "1", "0", "−1", "−5", "−20")
    }
    rows = page.tab.evaluate(
        "() => [...document.querySelectorAll('#phase rect:not(.bar)')].filter((_, i) => i % 21 === 0)"
        ".map(c => { const b = c.getBoundingClientRect(); return b.y + b.height / 2 })"
    )
    for text in place:
        lam = float(text.replace("−", "-"))
        row = np.interp(np.arcsinh(lam / 0.05), np.arcsinh(page_lams / 0.05), rows)
        assert place[text] == pytest.approx(row, abs=3)
    assert page.tab.locator("#phase circle.here").evaluate(middle) == pytest.approx(place["20"], abs=3)
    small = page.tab.evaluate(
        "() => [...document.querySelectorAll('.panel svg text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(size for size in small if size) >= 11  # pixels, with what hangs below the line
    assert {"lazy", "rich", "10 %"} <= set(page.tab.locator("#phase text").all_text_contents())


# the headline and the curves --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STATES)
def test_the_number_of_the_headline_is_on_the_curve(page: Page, name: str) -> None:
    page.open(STATES[name]).settle()
    page.tab.wait_for_timeout(200)
    told = [float(n) for n in re.findall(r"moves by ([\d.]+) %", page.tab.inner_text("#sentence"))]
    rings = page.rings("kernel")
    assert len(told) == len(rings) > 0
    np.testing.assert_allclose(100 * rings[:, 1], told, rtol=0.02)
    threshold = page.dashed("kernel")[0]
    assert threshold.tolist() == [lr.laziness.USUAL.lazy] * 2
    assert ("lazy" in page.tab.inner_text("#sentence").split(":")[0].split()) == (rings[0, 1] < threshold[0])


def test_both_falls_of_delayed_rich_are_seen(page: Page) -> None:
    """On either axis: the first is over by t = 0.1 of 48."""
    page.open(STATES["delayed"], logTime=True).settle()
    times, (loss,) = page.times(), page.drawn("loss")
    left = page.tab.evaluate("() => document.getElementById('plot').drawn.time.range[0]")
    seen = loss[times >= left * 0.999]
    assert seen[0] - 2.0 > 0.8 * (loss[0] - 2.0) and np.abs(np.diff(seen)).max() < 0.25 * np.ptp(seen)
    traj = lr.solve(problem_of(STATES["delayed"]), times)
    np.testing.assert_allclose(loss, traj.loss, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["staircase", "saddle"])
def test_modes_have_the_numbers_and_half_times_of_the_fate(page: Page, name: str) -> None:
    page.open(STATES[name]).settle()
    page.tab.wait_for_timeout(200)
    fate = lr.fate(problem_of(STATES[name]))
    for k, curve in enumerate(page.drawn("modes")):
        assert curve[0] == pytest.approx(fate.initial[k], abs=1e-6)
        assert curve[-1] == pytest.approx(fate.limit[k], abs=0.02 * fate.s[0])
    when = fate.half_times[np.isfinite(fate.half_times)]
    np.testing.assert_allclose(page.rings("modes")[:, 0], when, rtol=1e-6)
    words = "filter(t => t.kind === 'words').map(t => [t.text, t.y[0]])"
    text = f"() => document.getElementById('plot').drawn.traces.{words}"
    missed = [[f"mode {k + 1} is not learned", fate.s[k]] for k in fate.missed]
    assert page.tab.evaluate(text) == [[words, pytest.approx(level)] for words, level in missed]
    for k in fate.missed:
        assert f"misses mode {k + 1}" in page.tab.inner_text("#sentence")


def test_the_level_of_a_missed_mode_is_seen_on_its_grid_line(page: Page) -> None:
    """It is at 2, where a line of the grid is; the grid's colour is another, and thinner."""
    page.open(STATES["saddle"]).settle()
    lines = page.tab.evaluate(
        "() => [getComputedStyle(document.querySelector('#plot .axis')).stroke, "
        "...document.getElementById('plot').drawn.traces.filter(t => t.dash === 'dash' && t.panel === 'modes')"
        ".map(t => [t.color, t.width, t.y[0]])]"
    )
    grid, *levels = lines
    ((shade, width, _),) = [level for level in levels if level[2] == pytest.approx(2.0)]
    assert shade != grid and width >= 2


@pytest.mark.parametrize("name", STATES)
def test_nothing_lies_over_the_curves(page: Page, name: str) -> None:
    page.open({**STATES[name], "descent": not STATES[name].get("then")}).settle()
    over = page.tab.evaluate(
        """() => { const box = (node) => node.getBoundingClientRect();
        const plots = [...document.querySelectorAll('#plot clipPath rect')].map(box);
        return ['#key', '#legend', '#readout', ...['loss', 'modes', 'kernel', 'time'].map(n => `.title.${n}`)]
        .filter(s => { const b = document.querySelector(s).getBoundingClientRect(); return b.width && plots.some(p =>
          b.left < p.right && p.left < b.right && b.top + 2 < p.bottom && p.top + 2 < b.bottom) }) }"""
    )
    assert over == []


@pytest.mark.parametrize("page_state", [{}, {"logLoss": True, "logTime": True}], ids=["linear", "logarithmic"])
def test_curves_lie_where_their_values_are(page: Page, page_state: dict[str, Any]) -> None:
    """Pixels of every curve against its numbers, by the two ticks of each axis that lie farthest apart."""
    page.open(STATES["staircase"], **page_state).settle()
    drawn = page.tab.evaluate(
        """() => { const read = (t) => [+t.getAttribute('x'), +t.getAttribute('y') - 4, t.textContent,
          t.getAttribute('text-anchor')];
        return { ticks: [...document.querySelectorAll('#plot .tick')].map(read),
          paths: ['loss', 'modes', 'kernel'].map(n =>
            [...document.querySelectorAll(`#plot [data-panel=${n}] path`)].map(p => p.getAttribute('d'))) } }"""
    )
    values = [(x, y, number_on(text), anchor) for x, y, text, anchor in drawn["ticks"]]
    across = [(x, value) for x, _, value, anchor in values if anchor == "middle"]
    frame = page.tab.locator("#plot").bounding_box()["height"] - 54
    for paths, name, (bottom, top) in zip(
        drawn["paths"], ("loss", "modes", "kernel"), [(0.69, 1), (0.29, 0.62), (0, 0.22)], strict=True
    ):
        low, high = 12 + (1 - top) * frame - 1, 12 + (1 - bottom) * frame + 1
        down = [(y, value) for _, y, value, anchor in values if anchor == "end" and low <= y <= high]
        curves = [np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", path), dtype=float) for path in paths]
        expected = page.drawn(name)
        times = page.times()
        for curve in expected:
            log_x, log_y = page_state.get("logTime", False), page_state.get("logLoss", False) and name == "loss"
            there = times >= (times[times > 0][0] if log_x else 0)
            x, y = on_axis(across, times[there], log_x), on_axis(down, curve[there], log_y)
            near = [np.abs(c - np.stack([x, y], axis=1)).max() for c in curves if c.shape == (len(x), 2)]
            assert min(near) < 0.3


def number_on(text: str) -> float:
    """What a tick says: 0.5, 20 %, 10⁻³, 2·10⁵."""
    text, raised = text.replace("−", "-"), str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    if found := re.fullmatch(r"(?:([-\d.]+)·)?10([⁻⁰-⁹¹²³]+)", text):
        return float(found[1] or 1) * 10.0 ** int(found[2].translate(raised))
    return float(text.removesuffix(" %")) / (100 if text.endswith("%") else 1)


def on_axis(ticks: list[tuple[float, float]], values: np.ndarray, log: bool) -> np.ndarray:
    (p, a), (q, b) = min(ticks, key=lambda t: t[1]), max(ticks, key=lambda t: t[1])
    scale = np.log if log else np.asarray
    return p + (q - p) * (scale(values) - scale(a)) / (scale(b) - scale(a))


# sizes ------------------------------------------------------------------------------------------------------


def test_hidden_units_shown_are_those_of_the_network(page: Page) -> None:
    for state in LAMBDA, {}, {**LAMBDA, "lam": -3.0, "task": "own", "matrix": "1 2 3; 0 1 1"}:
        page.open(state)
        h = problem_of(state).network.sizes[1]
        field = '[data-name="width"] input'
        assert [page.tab.locator(field).nth(k).input_value() for k in (0, 1)] == [str(h)] * 2
        assert f"-{h}-" in page.tab.inner_text("#told")


def test_one_more_layer_stays_interactive_and_is_exact(page: Page) -> None:
    page.open()
    before = page.times()[-1]
    for depth in (3, 4, 5, 3, 2):
        page.tab.locator('[data-name="depth"] input[type=range]').fill(str(depth))
        page.tab.wait_for_timeout(50)
        page.rest()
        page.settle()
        assert "theory, exact" in page.tab.inner_text("#legend")
        assert before / 3 < page.times()[-1] < 3 * before  # the plateau is about as long
        (loss,) = page.drawn("loss")
        assert np.abs(np.diff(loss)).max() < 0.2 * np.ptp(loss) and loss[-1] < 1e-3 * loss[0]
        shown = problem_of(page.state)
        assert shown.network.depth == depth
        traj = lr.solve(shown, page.times())
        np.testing.assert_allclose(loss, traj.loss, rtol=1e-4, atol=1e-5)


# one's own data ---------------------------------------------------------------------------------------------


def test_buttons_for_ones_own_inputs(page: Page, tmp_path: Any) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3)) * [1.0, 2.0, 0.5] + [1.0, 0.0, 0.0]
    Y = X @ rng.normal(size=(3, 2)) + 1.0
    table = np.column_stack([X, Y])
    np.savetxt(tmp_path / "mine.csv", table, delimiter=",", header="a,b,c,y1,y2", comments="")
    page.open({"scale": 0.1, "width": 6})
    page.tab.select_option("#control-task", "uploaded")
    page.tab.set_input_files("#control-data", tmp_path / "mine.csv")
    page.tab.wait_for_selector("text=60 samples")
    page.settle()
    X, Y = (np.array(part, dtype=float) for part in (table[:, :3], table[:, 3:]))
    network = lr.inits.zero_balanced(State().seed, sizes=(3, 6, 2), scale=0.1)

    def shown_is(task: lr.Task, known: str) -> None:
        page.settle()
        assert known in page.tab.inner_text("#legend")
        found = lr.predict(lr.Problem(task, network), page.times())
        loss = found.trajectory.loss
        np.testing.assert_allclose(page.drawn("loss")[0], loss, rtol=1e-4, atol=1e-5 * loss[0])
        assert page.times()[-1] == pytest.approx(lr.predict(lr.Problem(task, network)).trajectory.times[-1], rel=1e-5)

    task = lr.Task.from_data(X, Y)
    shown_is(task, "integrated (function_space, to ")
    page.tab.click("text=Whiten")
    shown_is(task.whitened(), "exact (riccati)")
    page.tab.click("text=Centre")
    shown_is(task.centred().whitened(), "exact (riccati)")
    page.tab.click("text=Whiten")
    shown_is(task.centred(), "integrated")
    page.tab.click("text=Use as it is")
    shown_is(task, "integrated")
