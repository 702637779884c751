"""The training loop: the same numbers as a plain loop in NumPy, many networks at once, and none spoils another."""

from __future__ import annotations

from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lazyrich.papers.kunin2024.experiments.loop import Program, next_batch, train

pytestmark = pytest.mark.timeout(120)


def descent(done: Any = None) -> Program:
    """Gradient descent on (shared − w)²/2 with a member's rate; the state also counts, in whole numbers."""
    return Program(
        init=lambda target, rate: {"w": jnp.zeros_like(target), "steps": jnp.int32(0)},
        step=lambda target, rate, state, i: {
            "w": state["w"] + rate * (target - state["w"]),
            "steps": state["steps"] + 1,
        },
        measure=lambda target, rate, state: {"w": state["w"], "steps": state["steps"]},
        done=done,
    )


TARGET = np.array([1.0, -2.0, 3.0], np.float32)
RATES = np.array([0.1, 0.5, 0.9], np.float32)
AT = (0, 1, 7, 130)


def by_hand(rate: float, at: tuple[int, ...]) -> np.ndarray:
    """In closed form: w = (1 − (1 − η)^t) target."""
    return np.stack([(1 - (1 - float(rate)) ** t) * TARGET.astype(float) for t in at])


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("pace", [1, 3])
def test_every_network_takes_every_step(together: bool, pace: int) -> None:
    ticks: list[float] = []
    outcomes = train(descent(), jnp.array(TARGET), jnp.array(RATES), AT, ticks.append, together=together, pace=pace)
    assert len(outcomes) == 3 and sum(ticks) == pytest.approx(3)
    for rate, outcome in zip(RATES, outcomes, strict=True):
        assert outcome.cause == ""
        assert outcome.values["steps"].tolist() == [pace * t for t in AT]
        np.testing.assert_allclose(outcome.values["w"], by_hand(rate, tuple(pace * t for t in AT)), rtol=1e-5)


def test_one_that_diverges_ends_there_and_the_others_go_on() -> None:
    rates = jnp.array([0.5, 1e6], jnp.float32)
    good, bad = train(descent(), jnp.array(TARGET), rates, (0, 1, 100, 200), unit="epoch")
    assert good.cause == "" and np.isfinite(good.values["w"]).all()
    assert bad.cause == "diverged by epoch 100: try a smaller rate"
    assert np.isfinite(bad.values["w"][:2]).all() and np.isnan(bad.values["w"][2:]).all()
    assert bad.values["steps"][:2].tolist() == [0, 1] and np.isnan(bad.values["steps"][2:]).all()


def test_training_ends_when_all_are_done_and_not_before() -> None:
    near = lambda state: jnp.abs(state["w"] - TARGET).max() < 0.1
    at = (0, 1, 60, 80, 1000)  # at rate 0.1 the error is 3·0.9^t: below 0.1 from t = 33
    ticks: list[float] = []
    outcomes = train(descent(near), jnp.array(TARGET), jnp.array(RATES), at, ticks.append)
    for outcome in outcomes:
        assert outcome.cause == ""
        assert outcome.values["steps"][:3].tolist() == [0, 1, 60] and np.isnan(outcome.values["steps"][3:]).all()
    assert sum(ticks) == pytest.approx(3)
    never = train(descent(lambda state: jnp.bool_(False)), jnp.array(TARGET), jnp.array(RATES), at)
    assert all(np.isfinite(outcome.values["w"]).all() for outcome in never)


def test_the_start_alone() -> None:
    ticks: list[float] = []
    (outcome,) = train(descent(), jnp.array(TARGET), jnp.array([0.5]), (0,), ticks.append)
    assert outcome.values["w"].tolist() == [[0.0, 0.0, 0.0]] and sum(ticks) == 1


def batches(seed: int, samples: int, size: int, steps: int) -> list[list[int]]:
    order, found = jnp.arange(samples), []
    advance = jax.jit(lambda order, i: next_batch(jax.random.key(seed), order, i, size))
    for i in range(steps):
        order, chosen = advance(order, i)
        found.append(np.asarray(chosen).tolist())
    return found


@pytest.mark.compiles
@pytest.mark.parametrize(("samples", "size"), [(12, 4), (13, 4), (5, 5), (6, 1)])
def test_an_epoch_takes_each_sample_once_at_most_and_the_next_in_another_order(samples: int, size: int) -> None:
    per_epoch = samples // size
    found = batches(0, samples, size, 3 * per_epoch)
    epochs = [list(chain(*found[k * per_epoch : (k + 1) * per_epoch])) for k in range(3)]
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch) == per_epoch * size and set(epoch) <= set(range(samples))
    assert epochs[0] != epochs[1] != epochs[2]
    assert found == batches(0, samples, size, 3 * per_epoch) and found != batches(1, samples, size, 3 * per_epoch)
