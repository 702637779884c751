"""What the explorer says: true to the numbers, for every state that has a view; and the help that it links to.

Oracles: marks are looked up on the exact curve at their own time, or computed from the logistic curve by hand; signs of
determinants, strengths and forgetting come from NumPy and the tasks alone.
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lazyrich as lr
from lazyrich.explorer import script
from lazyrich.explorer.captions import captions
from lazyrich.explorer.state import CONTROLS, State, packed
from lazyrich.explorer.view import view
from lazyrich.explorer.wire import decoded, encoded

TASKS = ("semantic_hierarchy", "revised_kingdom", "binary_tree", "random_regression", "linear_teacher", "own")
MATRICES = ("3 0; 0 1", "0 0; 0 0", "2", "-1.5", "0 0 0", "1; 2; 3", "1 1; 1 1", "1e6 0; 0 1e-6", "1 0 0; 0 1 0; 0 0 1")
INTEGRATED = {"task": "own", "matrix": "2 0; 0 1", "width": 2, "start": "gaussian", "scale": 0.3}  # one to compile
OTHERS = ("reversal", "another", "semantic_hierarchy", "colour_hierarchy")


def told(**chosen: Any) -> dict[str, Any]:
    state = State.from_dict(chosen)
    return captions(state, view(state))


def correlated() -> str:
    """Data whose inputs are not white."""
    X = np.random.default_rng(0).normal(size=(30, 2)) * [1.0, 2.0]
    task = lr.Task.from_data(X, X @ [[1.0, 0.0], [0.5, -1.0]])
    return packed(task.sigma_yx, task.sigma_xx, task.sigma_yy)


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for entry in value.values() for text in texts(entry)]
    if isinstance(value, list | tuple):
        return [text for entry in value for text in texts(entry)]
    return [value] if isinstance(value, str) else []


def check_form(state: State, found: dict[str, Any], shown: Any) -> None:
    """Plain values, whole sentences, marks on the axes of the view."""
    names = "kind sentence regime end half_times theorem refused equation certificate forgetting"
    assert set(found) == set(names.split())
    json.dumps(found, allow_nan=False)
    assert decoded(encoded(found))[0]["sentence"] == found["sentence"]
    for text in texts(found):
        assert not re.search(r"\b(nan|inf|none|None)\b(?! of)", text.replace("none of", "")), text
        assert "\n" not in text
    assert found["regime"] in (None, "lazy", "rich", "delayed rich")
    assert set(found["theorem"]) == {"name", "title", "statement", "why", "citation", "anchor"}
    assert found["theorem"]["name"] == shown.header["method"]
    starts = [0.0, *shown.header["boundaries"]]
    for mark in found["half_times"]:
        assert starts[mark["stage"]] <= mark["time"] <= starts[mark["stage"] + 1]
        assert 0 <= mark["mode"] < shown.arrays["modes"].shape[1]
    assert (found["forgetting"] is None) == (not state.then)


# every state that has a view has captions --------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=60)
@given(
    st.fixed_dictionaries(
        {
            "task": st.sampled_from(TASKS),
            "matrix": st.sampled_from(MATRICES),
            "d_in": st.integers(1, 6),
            "d_out": st.integers(1, 5),
            "levels": st.integers(1, 3),
            "depth": st.sampled_from((1, 2, 2, 2)),
            "width": st.sampled_from((1, 2, 3, 8, 20)),
            "start": st.sampled_from(("zero_balanced", "lambda_balanced", "aligned", "single_neuron", "prior")),
            "scale": st.sampled_from((1e-6, 1e-3, 0.1, 1.0, 10.0)),
            "lam": st.sampled_from((0.0, 1e-9, 0.5, -3.0, 40.0, -40.0)),
            "angle": st.sampled_from((0.0, 45.0, 90.0, 180.0)),
            "prior": st.sampled_from(OTHERS),
            "seed": st.integers(0, 9999),
            "rates": st.sampled_from(((), (1.0, 1.0), (2.0, 2.0), (0.01, 100.0))),
            "weight_decay": st.sampled_from((0.0, 0.0, 0.1, 1.0)),
            "horizon": st.sampled_from((0.0, 0.0, 1e-3, 3.0, 1e6)),
            "then": st.sampled_from(((), (), (), ("reversal",), ("another", "reversal"))),
        }
    )
)
def test_every_state_of_a_closed_form_has_captions(chosen: dict[str, Any]) -> None:
    state = State.from_dict(chosen)
    assume(state.depth == 2 or not state.then)
    try:
        assume(script.prepared(state)["problem"].facts.method is not None)
        shown = view(state)
    except lr.InvalidInput:
        assume(False)
    assume(shown.header["exact"])
    check_form(state, captions(state, shown), shown)


@pytest.mark.parametrize(
    "chosen",
    [
        {"task": "own", "matrix": "0 0; 0 0"},
        {"task": "own", "matrix": "0", "start": "single_neuron", "angle": 180.0},
        {"task": "own", "matrix": "1"},
        {"task": "own", "matrix": "2 0", "start": "single_neuron", "angle": 0.0},
        {"task": "own", "matrix": "2 0", "start": "single_neuron", "angle": 180.0},
        {"task": "own", "matrix": "2 0", "start": "single_neuron", "angle": 180.0, "lam": 40.0},
        {"task": "own", "matrix": "1 0 0; 0 1 0; 0 0 1"},
        {"task": "own", "matrix": "2; 1", "width": 2, "scale": 0.1, "rates": (0.01, 100.0)},  # method "family"
        {"width": 1, "scale": 1e-6},
        {"start": "lambda_balanced", "lam": 40.0, "scale": 1e-6, "width": 64},
        {"start": "lambda_balanced", "lam": -40.0, "scale": 10.0},
        {"start": "aligned", "depth": 4, "width": 2, "scale": 10.0, "horizon": 5.0},
        {"start": "aligned", "rates": [0.01, 100.0]},
        {"weight_decay": 1.0},
        {"task": "own", "matrix": "0 0; 0 0", "start": "prior", "prior": "reversal", "then": ["reversal"]},
        {"task": "uploaded", "data": correlated(), "depth": 1},
        {"horizon": 1e-9},
    ],
    ids=str,
)
@pytest.mark.long
def test_degenerate_states_have_captions(chosen: dict[str, Any]) -> None:
    state = State.from_dict(chosen)
    shown = view(state)
    check_form(state, captions(state, shown), shown)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "chosen",
    [
        INTEGRATED,
        {**INTEGRATED, "depth": 3, "weight_decay": 1.0},
        {"task": "uploaded", "data": correlated(), "width": 2, "then": ["reversal"]},
    ],
    ids=["gaussian", "deep", "correlated"],
)
def test_integrated_states_have_captions(chosen: dict[str, Any]) -> None:
    state = State.from_dict(chosen)
    shown = view(state)
    found = captions(state, shown)
    check_form(state, found, shown)
    assert found["theorem"]["name"] == "flow" and found["theorem"]["why"].startswith("Integrated, for the closed form")
    assert found["end"] is None


# the marks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen",
    [
        {"seed": 32, "scale": 1e-4},
        {"seed": 32, "scale": 0.44},
        {"seed": 32, "scale": 1e-4, "horizon": 1e6},  # all in the first of the drawn intervals
        {"start": "lambda_balanced", "lam": 20.0},
        {"seed": 32, "scale": 0.35, "then": ["colour_hierarchy"]},
        {"weight_decay": 0.2},
        {"width": 3},
        {"depth": 1},
    ],
    ids=str,
)
def test_half_way_is_half_way_on_the_exact_curve(chosen: dict[str, Any]) -> None:
    state = State.from_dict(chosen)
    shown = view(state)
    found = captions(state, shown)
    assert found["half_times"]
    starts = [0.0, *shown.header["boundaries"]]
    for mark in found["half_times"]:
        problem = shown.script.parts[mark["stage"]].problem
        U, _, V = problem.task.modes
        at = np.array([0.0, mark["time"] - starts[mark["stage"]], 1e200])
        curve = np.einsum("o,toi,i->t", U[:, mark["mode"]], lr.solve(problem, at).function, V[:, mark["mode"]])
        assert curve[1] == pytest.approx((curve[0] + curve[2]) / 2, abs=1e-6 * np.abs(curve).max())
        assert mark["strength"] == pytest.approx(curve[1], abs=1e-6 * np.abs(curve).max())


def test_half_way_of_the_logistic_curve_by_hand() -> None:
    found = told(task="own", matrix="3 0; 0 1", start="aligned", scale=1e-3)
    by_hand = [np.log((s / 1e-3 - 1) / (s / ((s + 1e-3) / 2) - 1)) / (2 * s) for s in (3.0, 1.0)]
    assert [mark["mode"] for mark in found["half_times"]] == [0, 1]
    np.testing.assert_allclose([mark["time"] for mark in found["half_times"]], by_hand, rtol=1e-9)


def test_modes_of_equal_strength_are_marked_on_the_curves_that_are_drawn() -> None:
    state = State.from_dict({"task": "own", "matrix": "1 0 0; 0 1 0; 0 0 1", "scale": 0.3, "seed": 1})
    shown = view(state)
    marks = captions(state, shown)["half_times"]
    assert marks
    problem = shown.script.parts[0].problem
    U, _, V = problem.task.modes  # of the curves that are drawn
    W = lr.solve(problem, [mark["time"] for mark in marks]).function
    for i, mark in enumerate(marks):
        assert mark["strength"] == pytest.approx(U[:, mark["mode"]] @ W[i] @ V[:, mark["mode"]], abs=1e-6)


def test_times_beyond_the_view_are_told_and_not_marked() -> None:
    found = told(seed=32, scale=1e-4, horizon=30.0)
    assert {mark["mode"] for mark in found["half_times"]} == {0, 1}
    assert "half way at t = 51.8 (beyond this view, which ends at 30)" in found["sentence"]


# the sentence -----------------------------------------------------------------------------------------------


def test_the_determinant_obstruction() -> None:
    chosen = {"task": "own", "matrix": "3 0; 0 2", "width": 4, "scale": 0.05, "seed": 4}
    network = script.prepared(State.from_dict(chosen))["network"]
    assert np.linalg.det(network.function) < 0
    found = told(**chosen)
    assert "1 of 2 modes is learned" in found["sentence"]
    assert "ends in the saddle that misses mode 2: the signs of det W₂W₁ and det Σyx differ" in found["sentence"]
    assert found["end"] == "the saddle that misses mode 2 (s = 2)"
    assert told(**{**chosen, "seed": 0})["end"] == "the global minimum"


def test_lazy_and_rich() -> None:
    state = State(start="lambda_balanced", lam=20.0)
    shown = view(state)
    found = captions(state, shown)
    traj = shown.script.parts[0]
    falling = traj.loss > 0.01 * traj.loss[0]  # to its limit, which is 0
    moved = 100 * lr.observables.kernel_movement(traj)[falling].max()
    lazy = f"lazy: the kernel moves by {moved:.2g} % of its size (lazy below 10 %) until the loss has fallen and turns"
    assert found["sentence"].startswith(lazy)
    assert "all 8 modes are learned, the last half way at t = 0.27" in found["sentence"]
    assert found["regime"] == "lazy" and found["end"] == "the global minimum"
    rich = "rich: the kernel moves by 100 % of its size (lazy below 10 %) and turns by S = 0.14"
    assert told(seed=32)["sentence"].startswith(rich)
    assert told(depth=1)["sentence"].startswith("lazy: one layer has a kernel that never moves; all 8 modes are")


def test_delayed_rich_tells_of_its_two_phases() -> None:
    found = told(task="own", matrix="2 0", start="single_neuron", lam=-20.0, angle=100.0, scale=1.0)
    assert found["regime"] == "delayed rich"
    assert re.match(r"delayed rich: the kernel stays until t = 1\.99 while the loss falls by 34 %", found["sentence"])


def test_bottleneck_weight_decay_and_nothing_to_learn() -> None:
    assert "3 of 8 modes are learned, for the hidden layer has room for 3" in told(width=3)["sentence"]
    strengths = lr.tasks.semantic_hierarchy().modes.s
    assert np.count_nonzero(strengths <= 0.2) == 4
    assert "γ = 0.2 outweighs the pull of modes 5 to 8, 0.18 or less" in told(weight_decay=0.2)["sentence"]
    assert told(weight_decay=1.0)["sentence"].startswith("nothing is learned; weight decay γ = 1 outweighs")
    assert told(task="own", matrix="0 0; 0 0")["sentence"].startswith("nothing to learn: the target is zero")
    assert told(task="own", matrix="0 0; 0 0")["regime"] is None
    known = told(start="prior", prior="semantic_hierarchy")
    assert (
        known["sentence"] == "the initialisation knows the task already: nothing is left to learn"
        and known["regime"] is None
    )


def test_a_reversed_start_cannot_cross_zero() -> None:
    found = told(start="prior", prior="reversal")
    assert (
        "none of 8 modes is learned; ends in the saddle that misses modes 1 to 8: the initialisation has the wrong sign"
        in (found["sentence"])
    )


def test_forgetting_follows_from_the_tasks() -> None:
    first, second = lr.tasks.semantic_hierarchy(), lr.tasks.colour_hierarchy()
    risen = np.sum((first.target - second.target) ** 2) / 8 / 2
    found = told(seed=32, scale=0.01, then=["colour_hierarchy"], horizon=300.0)
    assert found["forgetting"][0][1] is None and found["forgetting"][1][0] == pytest.approx(risen, rel=1e-6)
    assert f"after task 2, the loss of task 1 has risen by {risen:.2g}: it is forgotten" in found["sentence"]
    assert found["sentence"].startswith("task 1 is rich (the kernel moves by 100 %)")
    revised = told(seed=32, scale=0.01, then=["revised_kingdom"])
    assert "the loss of task 1 has risen by 0.13: it is partly forgotten" in revised["sentence"]
    again = told(seed=32, scale=0.01, then=["semantic_hierarchy"])
    assert "task 2 brings nothing new" in again["sentence"]
    assert "the loss of task 1 is what it was: it is kept" in again["sentence"]


def test_what_is_kept_is_judged_by_what_the_task_has_to_give() -> None:
    """Task 2 is learned from a start far worse than none, so its loss on arrival says nothing."""
    state = State(then=("another", "reversal", "semantic_hierarchy"), scale=0.3)
    shown = view(state)
    task, loss = shown.script.parts[1].problem.task, shown.arrays["loss"][:, 1]
    nothing, best = np.trace(task.sigma_yy) / 2, task.loss(task.target)
    before, after = loss[2 * script.TIMES - 1], loss[-1]
    assert before - best < 0.02 * (nothing - best) and after - before > 0.9 * (nothing - best)
    assert "the loss of task 2 has risen by 0.099: it is forgotten" in captions(state, shown)["sentence"]


@pytest.mark.compiles
def test_a_task_that_is_not_learned_by_its_end_is_told() -> None:
    found = told(seed=32, scale=0.35, then=["reversal"], horizon=20.0)["sentence"]
    assert re.search(r"^task 1 is rich \(the kernel moves by \d+ %\); task 2 is rich \([^)]*\), not learned", found)
    assert "learned by its end" not in told(seed=32, scale=0.01, then=["colour_hierarchy"], horizon=300.0)["sentence"]
    partly = told(seed=32, scale=0.01, width=3, then=["semantic_hierarchy"], horizon=300.0)["sentence"]
    assert re.search(r"^task 1 is rich \([^)]*\), only partly learned by its end; task 2 teaches", partly)
    never = told(seed=32, scale=0.35, then=["reversal", "colour_hierarchy"], horizon=20.0)["sentence"]
    assert re.search(r"; after task 3, the loss of task 2 has risen by [\d.]+$", never)  # nothing to forget


def test_a_saddle_that_rounding_may_have_made_is_told_with_care() -> None:
    found = told(seed=32, scale=0.01, then=["reversal"], horizon=60.0)["sentence"]
    assert "task 2 is rich (the kernel moves by 100 %) and heads for the saddle" in found
    assert "as far as rounding lets us see, not learned by its end" in found
    first = told(seed=4, scale=0.05, task="own", matrix="3 0; 0 2", width=4, then=["reversal"])["sentence"]
    assert "task 1 is rich (the kernel moves by 100 %) and heads for the saddle that misses mode 2, only" in first


@pytest.mark.parametrize(
    "chosen",
    [
        {"task": "own", "matrix": "2 0", "start": "single_neuron", "scale": 0.5, "angle": 180.0},
        {"weight_decay": 1.0, "scale": 0.5},
        {"start": "prior", "prior": "reversal"},
    ],
    ids=str,
)
def test_a_kernel_that_will_vanish_turns_as_far_as_it_has_while_there(chosen: dict[str, Any]) -> None:
    words = (
        r"rich: the kernel moves by \d+ % of its size \(lazy below 10 %\) and turns by S = [\d.]+, half of it by t = "
    )
    assert re.match(words, told(**chosen)["sentence"])


def test_an_integrated_curve_says_why_and_how_far() -> None:
    found = told(**INTEGRATED)
    assert "both modes are learned by t =" in found["sentence"]
    assert (
        "of the largest, for the closed form needs layers with W2ᵀW2 − W1W1ᵀ = λI, from which these are"
        in found["sentence"]
    )
    assert found["certificate"].startswith("integrated: flow equation within")
    assert [entry["name"] for entry in found["refused"]] == ["modes", "riccati", "family", "shallow", "deep_modes"]


@pytest.mark.compiles
def test_an_integration_that_stops_early_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "MOST_STEPS", 40)
    found = told(**INTEGRATED, then=["reversal"])
    assert "only 1 of 2 tasks were reached" in found["sentence"]


def test_a_fate_that_rounding_hides_leaves_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(problem: lr.Problem, *_: Any) -> lr.Fate:
        raise np.linalg.LinAlgError("Singular matrix")

    state = State(seed=32)
    monkeypatch.setattr(lr, "predict", hidden)
    monkeypatch.setattr(lr, "fate", hidden)
    shown = view(state)
    found = captions(state, shown)
    check_form(state, found, shown)
    assert "so close to the separatrix that rounding" in found["sentence"] and "integrated" not in found["sentence"]


# theorem and equation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "name", "citation"),
    [
        ({}, "riccati", "Fukumizu 1998; Braun et al. 2022; Dominé et al. 2025"),
        ({"start": "aligned"}, "modes", "Saxe et al. 2014; Dominé et al. 2025"),
        ({"start": "aligned", "depth": 3, "width": 8, "horizon": 20.0}, "deep_modes", "Saxe et al. 2014"),
        ({"depth": 1}, "shallow", "Saxe et al. 2019"),
        (INTEGRATED, "flow", ""),
    ],
)
def test_each_method_has_its_theorem_and_its_help(chosen: dict[str, Any], name: str, citation: str) -> None:
    theorem = told(**chosen)["theorem"]
    assert theorem["name"] == name and theorem["citation"] == citation
    assert theorem["anchor"][1:] in _help().anchors


def test_why_it_applies_has_numbers() -> None:
    assert re.search(r"Σxx = 0\.125·I \(exactly\); the layers are balanced, λ = 0 \(within \de-1\d\)", _why())
    assert "δ = −20" in told(task="own", matrix="2 0", start="single_neuron", lam=-20.0)["theorem"]["why"]


def _why() -> str:
    why: str = told()["theorem"]["why"]
    return why


def test_equations_have_their_present_values() -> None:
    assert told(start="aligned", lam=0.5, scale=0.01)["equation"] == [
        "ȧ = c·√(λ² + 4a²)·(s − a)  for each mode",
        "λ = 0.5, s = 3.11, 2.97, 2.07 …, c = 0.125, |a₀| ≤ 0.01",
    ]
    assert told(start="aligned", depth=3, width=8, horizon=20.0)["equation"][1].startswith("L = 3, s = 3.11, 2.97")
    riccati = told(start="lambda_balanced", lam=-6.0, task="own", matrix="4 0; 0 1")["equation"]
    assert riccati[2].startswith("λ = −6, s = 4, 1, c = 1, |a₀| ≤ ")
    assert riccati[3].endswith("w = √(s² + λ²/4) = 5, 3.16")
    assert (
        told(weight_decay=0.2)["equation"][1] == "F = [[−λ/2·I, Tᵀ], [T, λ/2·I]] − γ/c·I,  T has the singular values s"
    )
    assert told(depth=1)["equation"][1] == "T: s = 3.11, 2.97, 2.07 …, ηΣxx: 0.125, 0.125, 0.125 …"


def test_with_layer_rates_the_equation_is_in_units_that_take_them_up() -> None:
    """ȧ of the curve, by differences, is what the printed law gives for the printed numbers."""
    chosen = {"task": "own", "matrix": "3", "start": "aligned", "scale": 0.5, "lam": 1.0, "rates": [4.0, 0.25]}
    lines = told(**chosen)["equation"]
    values = {name: float(value.replace("−", "-")) for name, value in re.findall(r"(\S+) [=≤] ([−\d.e]+)", lines[1])}
    assert "k = 0.5, 2 for W_ℓ" in lines[2]
    gain, step = 0.5 * 2.0, 1e-6
    problem = script.prepared(State.from_dict(chosen))["problem"]
    a = gain * lr.solve(problem, [0.0, step]).function[:, 0, 0]
    assert values["|a₀|"] == pytest.approx(a[0], rel=5e-3)
    law = values["c"] * np.sqrt(values["λ"] ** 2 + 4 * a[0] ** 2) * (values["s"] - a[0])
    assert (a[1] - a[0]) / step == pytest.approx(law, rel=5e-3)


def test_the_certificate_is_one_line() -> None:
    assert re.match(
        r"exact to rounding: flow equation within \de-1\d, conserved quantity within ", told()["certificate"]
    )


# the help ---------------------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """Anchors, links and texts of a page, with its tags counted off against each other."""

    VOID = ("meta", "link", "br", "!doctype")

    def __init__(self) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.terms: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert (
            tag not in ("style", "script") and "style" not in given and not any(name.startswith("on") for name in given)
        )
        self.anchors += [str(given["id"])] if "id" in given else []
        self.links += [str(value) for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "dt":
            self.terms += [term.strip() for term in data.split(",")]


def _help() -> _Page:
    page = _Page()
    page.feed((files("lazyrich.explorer") / "page" / "help.html").read_text(encoding="utf-8"))
    page.close()
    assert page.open == []
    return page


def test_the_help_has_every_anchor_once_and_stays_at_home() -> None:
    page = _help()
    wanted = {"riccati", "modes", "deep_modes", "shallow", "flow", "fate", "regime", "kernel", "phase", "forgetting"}
    assert wanted <= set(page.anchors) and len(page.anchors) == len(set(page.anchors))
    for link in page.links:
        assert link[1:] in page.anchors if link.startswith("#") else link.startswith("/") and not link.startswith("//")


def test_the_help_explains_every_control() -> None:
    assert {control.label for control in CONTROLS} <= set(_help().terms)
