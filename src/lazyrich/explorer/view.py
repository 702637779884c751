"""What a page draws first: curves over all times, and matrices at as many of them as a message may hold.

A sequence of tasks is one long run: times go on, mode strengths are those of the task in training, kernel distances
count from the start of each task.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import lazyrich as lr
from lazyrich._typing import Array, Float
from lazyrich.explorer.script import Script, descended, solved
from lazyrich.explorer.stages import Stage, stages_of
from lazyrich.explorer.state import State
from lazyrich.explorer.wire import Header

_VANISHED = 1e-9  # of the largest kernel so far: what is left has the direction of rounding
_NUMBERS = 150_000  # of all matrices in a message: 0.6 MB
_DRAWINGS = 60  # times at which the network is drawn


class View(NamedTuple):
    """The header and the arrays of a message, in double precision, and the script behind them."""

    header: Header
    arrays: dict[str, Array]
    script: Script
    stages: list[Stage]


def view(state: State, script: Script | None = None, *, thin: bool = True) -> View:
    """Loss, modes, kernel, function and the Gram matrices of a state, whose `script` may be prepared already.

    Thin, it has matrices at as many times as a message may hold, and otherwise at all.
    """
    script = solved(state, script)
    stages, parts, problem, run = stages_of(script), script.parts, script.problem, script.run
    times = np.concatenate([stage.start + stage.part.times for stage in stages])
    frames = _frames(len(times), problem) if thin else np.arange(len(times))
    arrays = {
        "times": times,
        "loss": parts[0].loss[:, None] if run is None else run.losses,
        "modes": np.concatenate([stage.strengths for stage in stages]),
        "targets": np.stack([stage.targets for stage in stages]),
        "kernel": np.concatenate([_turned(part) for part in parts]),
        "movement": np.concatenate([_moved(stage) for stage in stages]),
        "frames": frames,
        "function": np.concatenate([part.function for part in parts])[frames],
        **_hidden(parts, problem, frames),
    }
    if state.start == "single_neuron":
        arrays["neuron"] = _neuron(parts, problem)
    header: Header = {
        "kind": "view",
        "method": parts[0].method,
        "exact": all(stage.exact for stage in stages),
        "predicted": all(stage.fate is not None for stage in stages),  # and not read off the curves
        "error": stages[0].error,
        "methods": [part.method for part in parts],
        "sizes": problem.network.sizes,
        "balance": problem.facts.lam[0] if problem.network.depth == 2 else None,
        "boundaries": [stage.start + stage.end for stage in stages],
        "starts": np.cumsum([0, *(len(part.times) for part in parts[:-1])]).tolist(),  # places in `times`, of each task
        "tasks": [part.problem.task.name for part in parts],
        "items": problem.task.items or [f"x{i}" for i in range(1, problem.task.d_in + 1)],
        "unlearned": stages[0].unlearned if run is None else [],  # modes, from 0
        "lazy_below": lr.laziness.USUAL.lazy,
        "learned_by": [None if stage.regime is None else stage.start + stage.regime.learned_by for stage in stages],
        "notes": [*script.notes, *(part.status.what for part in parts if part.status.end != "complete")],
        "remarks": parts[0].notes if run is None else run.notes,  # of the library
        "floor": problem.task.loss_floor,
    }
    if "neuron" in arrays:
        header["neuron_target"] = float(np.linalg.norm(problem.canonical.gain * problem.task.target))
    return View(header, arrays, script, stages)


def descent(state: State, script: Script | None = None) -> View:
    """Gradient descent until the end of the view, whose `script` may be there already, as far as its steps go."""
    script = script or solved(state)
    traj, steps = descended(state, script)
    of = lr.observables.mode_strengths if script.prediction is None else script.prediction.strengths_of
    arrays = {"times": traj.times, "loss": traj.loss[:, None], "modes": of(traj)}
    header = {"kind": "descent", "rate": state.rate, "steps": steps, "end": traj.status.end}
    return View(header, arrays, script, [])


def weights(shown: View, drawings: int = _DRAWINGS) -> tuple[Header, dict[str, Array]]:
    """Every layer at few times, for the drawing of the network: exact weights cost more than all else of a view.

    A network wider than its inputs and outputs together may have no more than its Gram matrix.
    """
    parts, times = shown.script.parts, shown.arrays["times"]
    if not all(part.knows("weights") for part in parts):
        return {"kind": "weights", "layers": 0}, {}
    each = max(2, drawings // len(parts))
    some = [np.unique(np.linspace(0, len(part.times) - 1, each).astype(int)) for part in parts]
    few = [part.at(part.times[places]) for part, places in zip(parts, some, strict=True)]
    first = np.cumsum([0, *(len(part.times) for part in parts[:-1])])
    frames = np.concatenate([start + places for start, places in zip(first, some, strict=True)])
    layers = [np.concatenate([part.weights[layer] for part in few]) for layer in range(parts[0].problem.network.depth)]
    arrays = {f"W{layer}": W for layer, W in enumerate(layers, start=1)}
    return {"kind": "weights", "layers": len(layers)}, {"times": times[frames], **arrays}


def _moved(stage: Stage) -> Float[Array, " T"]:
    """‖K − K(0)‖ as the regime measures it, relative to the larger of ‖K‖ at first and when the loss has fallen."""
    moved, norm = lr.observables.kernel_movement(stage.part), lr.observables.kernel_norm(stage.part)
    change = moved * np.maximum(norm, norm[0])
    by = stage.end if stage.regime is None else stage.regime.learned_by
    size = max(norm[0], float(np.interp(by, stage.part.times, norm)))
    return np.nan_to_num(change / size) if size else np.zeros(len(norm))


def _turned(part: lr.Trajectory) -> Float[Array, " T"]:
    """The kernel distance; where the kernel has vanished and has no direction left, the last that it had."""
    distance, norm = lr.observables.kernel_distance(part), lr.observables.kernel_norm(part)
    there = np.isfinite(distance) & (norm >= _VANISHED * np.maximum.accumulate(norm))
    return distance[np.maximum.accumulate(np.where(there, np.arange(len(norm)), 0))]


def _frames(count: int, problem: lr.Problem) -> Array:
    """The times at which matrices are sent: all, or as many as fit, first and last among them."""
    task = problem.task
    hidden = task.d_in + task.d_out if problem.network.depth == 2 else task.d_in
    numbers = task.d_in * task.d_out + hidden**2
    return np.unique(np.linspace(0, count - 1, min(count, max(2, _NUMBERS // numbers))).round().astype(int))


def _hidden(parts: tuple[lr.Trajectory, ...], problem: lr.Problem, frames: Array) -> dict[str, Array]:
    """QQᵀ of two layers, of others W1ᵀW1: how far apart the first layer holds two inputs."""
    if problem.network.depth == 2:
        return {"gram": np.concatenate([part.gram for part in parts])[frames]}
    return {"inner": np.concatenate([lr.observables.input_gram(part) for part in parts])[frames]}


def _neuron(parts: tuple[lr.Trajectory, ...], problem: lr.Problem) -> Float[Array, "T three"]:
    """w along the target, w across it, and a: the flow of white inputs stays in this space, on one hyperboloid.

    Layers are those of unit rates (k_ℓ W_ℓ), for which a² − ‖w‖² is conserved.
    """
    k1, k2 = problem.canonical.k
    w = k1 * np.concatenate([part.weights[0][:, 0] for part in parts])
    a = k2 * np.concatenate([part.weights[1][:, 0, 0] for part in parts])
    target = problem.task.target[0]
    size = float(np.linalg.norm(target))
    along = target / size if size else np.eye(len(target))[0]
    rest = w - np.outer(w @ along, along)
    farthest = rest[np.argmax(np.linalg.norm(rest, axis=1))]
    length = float(np.linalg.norm(farthest))
    across = rest @ farthest / length if length > 1e-12 * (size + 1) else np.zeros(len(w))
    return np.stack([w @ along, across, a], axis=1)
