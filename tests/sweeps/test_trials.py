"""What trials of the sweeps have found, so that it stays found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich.sweeps import Cell, Sweep
from lazyrich.sweeps.compute import STATUS, compute
from lazyrich.sweeps.estimate import estimate, with_blocks
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import failures


def leaves(seed):
    if seed == 1:
        raise SystemExit(0)
    return lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))


def test_a_factory_that_leaves_the_program_fails_its_cell_alone():
    sweep = Sweep("x", leaves, axes={"seed": [0, 1, 2]}, at=[0, 2])
    result = compute(sweep, sweep.block_at(0))
    assert result.status.tolist() == [STATUS.index(word) for word in ("complete", "failed", "complete")]
    assert {place: str(cause) for place, cause in result.causes.items()} == {(1,): "SystemExit: 0"}


@pytest.mark.compiles
def test_blocks_hold_no_more_cells_than_fit():
    few = Sweep("few", "random_regression", axes={"seed": range(2000)}, at=[0, 10])
    many = Sweep("many", "random_regression", axes={"seed": range(2000)}, at=range(10_000))
    assert with_blocks(few).block_shape == (125,)
    assert estimate(many).memory < 1.2 * 2**30 and with_blocks(many).block_shape[0] > 10


def test_the_dry_run_counts_cells_that_cannot_be_made():
    sweep = Sweep("x", "random_regression", axes={"seed": range(3), "lam": [-1.0, 0.0]}, at=[0, 2], settings={"h": 9})
    guess = estimate(sweep)
    assert (guess.tried, guess.impossible) == (6, 3) and guess.cause.startswith("lam = -1 needs a hidden layer no")


TASK = lr.tasks.piecewise_teacher(0, d=3, samples=8).train


def shared_task(noise):
    held_out = lr.Task.from_data(TASK.inputs, TASK.targets + noise)
    return Cell(lr.Problem(TASK, lr.inits.symmetrised(0, sizes=(3, 4, 1))), held_out)


def test_held_out_samples_are_each_cells_own():
    sweep = Sweep("x", shared_task, axes={"noise": [0.0, 10.0]}, at=[0], observables=["test_loss"])
    start = [float(np.mean((cell.test.targets) ** 2) / 2) for cell in map(sweep.cell, [(0,), (1,)])]
    assert compute(sweep, sweep.block_at(0)).values["test_loss"][:, 0] == pytest.approx(start, rel=1e-14)


def test_files_of_others_among_the_records_are_left_alone(tmp_path):
    sweep = Sweep("x", leaves, axes={"seed": [0, 1]}, at=[0, 2])
    run(sweep, tmp_path / "out")
    (tmp_path / "out" / "blocks" / "._0.json").write_bytes(b"\0")
    assert [entry["cause"] for entry in failures(tmp_path / "out")] == ["SystemExit: 0"]


def test_half_a_letter_is_no_word():
    with pytest.raises(lr.InvalidInput, match=r"^axis activation must hold finite numbers, or words"):
        Sweep("x", "random_regression", axes={"seed": [0], "activation": ["relu", "\ud800"]}, at=[0])


@pytest.mark.compiles
@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_a_flow_of_small_movements_is_as_accurate_as_one_of_large(scale, rng):
    """A last layer of zeros and small targets: nothing but the way so far says what is accurate."""
    X, W = rng.normal(size=(6, 2)), rng.normal(size=(3, 2))
    y = scale * rng.normal(size=6)

    def slope(_, flat):
        W, a = flat[:6].reshape(3, 2), flat[6:]
        H = np.tanh(X @ W.T)
        r = (y - H @ a) / 6
        return np.concatenate([(((r[:, None] * a) * (1 - H**2)).T @ X).ravel(), H.T @ r])

    problem = lr.Problem(lr.Task.from_data(X, y[:, None]), lr.Network([W, np.zeros((1, 3))], "tanh"))
    traj = lr.flow(problem, [0.0, 1.0, 10.0])
    truth = solve_ivp(slope, (0, 10), np.append(W.ravel(), np.zeros(3)), "LSODA", [1.0, 10.0], rtol=1e-10, atol=1e-20)
    assert traj.weights[1][1:, 0] == pytest.approx(truth.y[6:].T, abs=5e-3 * np.abs(truth.y[6:]).max())
