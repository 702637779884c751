"""The phase picture: the movement of the kernel in every cell, where the present start lies, and what its key knows.

Oracle: the limit of two λ-balanced layers that learn every mode is known (W1ᵀW1 = V(√(λ² + 4S²) − λ)/2·Vᵀ and so on),
and kernels are written out as matrices by Kronecker products.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.explorer import phase as module
from lazyrich.explorer.phase import LAMS, SCALES, phase, phase_header, phase_key
from lazyrich.explorer.script import prepared
from lazyrich.explorer.state import State, packed

HIERARCHY = State(seed=32)
NEURON = State(task="own", matrix="2 0", start="single_neuron", angle=100.0, seed=32)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Fewer cells: the corners, the middle, and what lies half way."""
    monkeypatch.setattr(module, "SCALES", SCALES[::5])
    monkeypatch.setattr(module, "LAMS", LAMS[::7])
    return SCALES[::5], LAMS[::7]


def drawn(state: State) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    found = phase(state, lambda: False)
    assert found is not None
    return found


def kernel(first: np.ndarray, last: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """I ⊗ XAXᵀ + B ⊗ XXᵀ with A = W1ᵀW1 and B = W2W2ᵀ."""
    return np.kron(np.eye(len(last)), inputs @ first @ inputs.T) + np.kron(last, inputs @ inputs.T)


def movement_by_hand(network: lr.Network, task: lr.Task, lam: float) -> float:
    W1, W2 = network.weights
    U, s, Vt = np.linalg.svd(task.target)
    root = np.sqrt(lam**2 + 4 * s**2)
    limit = kernel(Vt.T * (root - lam) / 2 @ Vt, U * (root + lam) / 2 @ U.T, np.eye(task.d_in))
    start = kernel(W1.T @ W1, W2 @ W2.T, np.eye(task.d_in))
    return float(np.linalg.norm(limit - start) / max(np.linalg.norm(limit), np.linalg.norm(start)))


def movement_until_learned(network: lr.Network, task: lr.Task) -> float:
    """How far the kernel goes until 99 of 100 parts of the loss have gone, over the larger of the two norms."""
    problem = lr.Problem(task, network)
    times = np.linspace(0.0, 2 * lr.landscape.horizon(problem), 2001)
    traj = lr.solve(problem, times)
    left = traj.loss - traj.loss[-1]
    last = int(np.argmax(left <= 0.01 * left[0]))
    some = np.unique(np.linspace(0, last, 40).astype(int))
    kernels = [kernel(G[:8, :8], G[8:, 8:], np.eye(8)) for G in traj.gram[some]]
    moved = max(np.linalg.norm(K - kernels[0]) for K in kernels)
    return float(moved / max(np.linalg.norm(kernels[0]), np.linalg.norm(kernels[-1])))


def test_every_cell_is_what_the_sentence_says_there(coarse: tuple[np.ndarray, np.ndarray]) -> None:
    scales, lams = coarse
    header, arrays = drawn(HIERARCHY)
    assert arrays["movement"].shape == (len(lams), len(scales))
    np.testing.assert_array_equal(arrays["scales"], scales)
    np.testing.assert_array_equal(arrays["lams"], lams)
    task = lr.tasks.semantic_hierarchy()
    for row, lam in zip(arrays["movement"], lams, strict=True):
        for found, scale in zip(row, scales, strict=True):
            width = 8 if lam else 14  # λ allows no more
            network = lr.inits.lambda_balanced(32, sizes=(8, width, 8), lam=float(lam), scale=float(scale))
            assert found == pytest.approx(movement_until_learned(network, task), abs=0.01)
            assert found <= movement_by_hand(network, task, float(lam)) * 1.1
    lazy = arrays["verdict"] == header["verdicts"].index("lazy")
    np.testing.assert_array_equal(lazy, arrays["movement"] < header["lazy_below"])


def test_the_picture_holds_the_networks_of_its_states(coarse: tuple[np.ndarray, np.ndarray]) -> None:
    """Also where inputs and outputs differ in number, and with them the width that λ allows."""
    scales, lams = coarse
    state = State(task="random_regression", d_in=3, d_out=6, start="lambda_balanced", seed=5)
    header, arrays = drawn(state)
    for i, j in ((0, 0), (0, 2), (2, 1), (1, 3)):
        there = prepared(replace(state, lam=float(lams[i]), scale=float(scales[j])))["problem"]
        regime = lr.fate(there).regime
        assert arrays["movement"][i, j] == pytest.approx(regime.kernel_movement, abs=1e-6)
        assert header["verdicts"][int(arrays["verdict"][i, j])] == regime.name


def test_lazy_at_large_lambda_rich_in_the_middle(coarse: tuple[np.ndarray, np.ndarray]) -> None:
    _, arrays = drawn(HIERARCHY)
    assert np.all(arrays["movement"][[0, 2], 0] < 0.1) and arrays["movement"][1, 0] > 0.9
    header, arrays = drawn(NEURON)
    assert header["axes"] == ["‖β₀‖", "δ"]
    assert arrays["movement"][0, 0] > 1 and arrays["movement"][2, 0] < 0.1  # δ < 0 turns late, but it turns


def test_the_axes_are_as_wide_as_they_should_be() -> None:
    assert SCALES.shape == (21,) and SCALES[0] == 1e-4 and SCALES[-1] == 3.0
    assert LAMS.shape == (15,) and LAMS[0] == -20.0 and LAMS[-1] == 20.0
    np.testing.assert_allclose(LAMS, -LAMS[::-1])
    assert np.all(np.diff(np.diff(LAMS)[7:]) > 0)  # denser near 0


def test_a_picture_that_nobody_waits_for_is_given_up(coarse: tuple[np.ndarray, np.ndarray]) -> None:
    asked = []

    def stale() -> bool:
        asked.append(True)
        return len(asked) == 2

    assert phase(HIERARCHY, stale) is None
    assert len(asked) == 2


def test_the_point_is_the_present_start() -> None:
    assert phase_header(replace(HIERARCHY, lam=7.0))["point"] == [HIERARCHY.scale, 0.0]  # zero-balanced whatever λ is
    assert phase_header(replace(HIERARCHY, start="lambda_balanced", lam=7.0))["point"] == [HIERARCHY.scale, 7.0]
    assert phase_header(replace(NEURON, lam=-20.0))["point"] == [NEURON.scale, -20.0]
    for start in ("gaussian", "orthogonal", "prior"):
        assert phase_header(replace(HIERARCHY, start=start))["point"] is None


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({}, "until the loss has fallen, for λ-balanced weights on this task."),
        ({"start": "aligned"}, "for aligned weights on this task"),
        ({"start": "lambda_balanced", "lam": 30.0}, "the present one lies outside."),
        ({"scale": 1e-6}, "the present one lies outside."),
        ({"start": "prior"}, "an initialisation that knows another task has no place in it."),
        ({"weight_decay": 0.1}, "drawn without weight decay, with which only λ = 0 has a closed form."),
        ({"then": ("reversal",)}, "for λ-balanced weights on this task."),
    ],
)
def test_captions(chosen: dict[str, Any], words: str) -> None:
    caption = phase_header(replace(HIERARCHY, **chosen))["caption"]
    assert words in caption and caption.endswith(".")


def test_a_start_that_is_not_of_the_family_has_its_mean_balance_told() -> None:
    state = replace(HIERARCHY, start="gaussian", scale=1.0)
    W1, W2 = prepared(state)["network"].weights
    mean = np.trace(W2.T @ W2 - W1 @ W1.T) / 14
    assert f"mean balance λ = {mean:.2g}." in phase_header(state)["caption"]


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"depth": 1}, "this network has one layer."),
        ({"depth": 3}, "this network has 3 layers."),
        ({"rates": (2.0, 1.0)}, "no closed form: it needs layers with η1 W2ᵀW2 − η2 W1W1ᵀ"),
        ({"task": "own", "matrix": "1 2", "rates": (2.0, 1.0)}, "no closed form: it needs layers"),  # but for λ > 0
        (
            {"task": "uploaded", "data": packed(np.eye(2), np.diag([1.0, 2.0]), np.eye(2) * 2)},
            "no closed form: it needs whitened inputs",
        ),
    ],
)
def test_where_there_is_no_picture_the_caption_says_why(chosen: dict[str, Any], words: str) -> None:
    header, arrays = drawn(replace(HIERARCHY, **chosen))
    assert arrays == {} and header["point"] is None
    assert header["caption"].startswith("No picture") and words in header["caption"]


@pytest.mark.parametrize(
    "state",
    [
        replace(NEURON, rates=(4.0, 0.25)),  # one unit is balanced with any rates
        replace(NEURON, angle=180.0),
        replace(NEURON, angle=0.0, depth=4),  # the single neuron has two layers
        replace(HIERARCHY, start="aligned", rates=(4.0, 0.25)),
        State(task="own", matrix="0 0; 0 0"),
        State(task="own", matrix="1", width=1),
        State(task="own", matrix="1 1; 1 1", width=1),
    ],
    ids=["rates", "against", "along", "aligned", "zero", "one", "bottleneck"],
)
def test_pictures_of_degenerate_states_are_complete(state: State, coarse: tuple[np.ndarray, np.ndarray]) -> None:
    _, arrays = drawn(state)
    assert np.all((arrays["movement"] >= 0) & (arrays["movement"] <= np.sqrt(2)))


def test_the_key_knows_what_the_picture_depends_on(coarse: tuple[np.ndarray, np.ndarray]) -> None:
    same = [
        {"scale": 1.0}, {"lam": 3.0}, {"horizon": 5.0}, {"descent": True}, {"rate": 0.1}, {"then": ("reversal",)},
        {"prior": "reversal"}, {"weight_decay": 0.1}, {"start": "lambda_balanced"}, {"start": "gaussian"},
        {"start": "prior"},
    ]  # fmt: skip
    other = [
        {"task": "colour_hierarchy"}, {"seed": 1}, {"width": 3}, {"start": "aligned"}, {"rates": (2.0, 2.0)},
        {"depth": 3},
    ]  # fmt: skip
    key, (_, arrays) = phase_key(HIERARCHY), drawn(HIERARCHY)
    for change in same:
        state = replace(HIERARCHY, **change)
        assert phase_key(state) == key == phase_header(state)["key"]
    for change in ({"scale": 1.0, "lam": 3.0}, {"weight_decay": 0.1, "start": "gaussian", "then": ("reversal",)}):
        np.testing.assert_array_equal(drawn(replace(HIERARCHY, **change))[1]["movement"], arrays["movement"])
    assert len({key, *(phase_key(replace(HIERARCHY, **change)) for change in other)}) == len(other) + 1
    assert phase_key(NEURON) != phase_key(replace(NEURON, angle=10.0))
    assert len(key) <= 32
