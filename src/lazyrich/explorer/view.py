"""What a page draws first: curves over all times, and matrices at as many of them as a message may hold.

A sequence of tasks is one long run: times go on, mode strengths are those of the task in training, kernel distances
count from the start of each task.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import lazyrich as lr
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.explorer.script import Script, descended, prepared, solved
from lazyrich.explorer.state import State
from lazyrich.explorer.wire import Header

_VANISHED = 1e-9  # of the largest kernel so far: what is left has the direction of rounding
_NUMBERS = 150_000  # of all matrices in a message: 0.6 MB


class View(NamedTuple):
    """The header and the arrays of a message, in double precision, and the script behind them."""

    header: Header
    arrays: dict[str, Array]
    script: Script


def view(state: State, script: Script | None = None, *, thin: bool = True) -> View:
    """Loss, modes, kernel, function, QQᵀ and representations of a state, whose `script` may be prepared already.

    Thin, it has matrices at as many times as a message may hold, and otherwise at all.
    """
    script = solved(state, script)
    parts, problem, run = script.parts, script.problem, script.run
    ends = np.cumsum([float(part.times[-1]) for part in parts])
    starts = np.append(0.0, ends[:-1])
    times = np.concatenate([start + part.times for start, part in zip(starts, parts, strict=True)])
    function = np.concatenate([part.function for part in parts])
    arrays = {
        "times": times,
        "loss": parts[0].loss[:, None] if run is None else run.losses,
        "modes": np.concatenate([lr.observables.mode_strengths(part) for part in parts]),
        "targets": np.stack([_strengths(part.problem.task) for part in parts]),
    }
    kernel = _kernel(parts)
    if kernel is not None:
        arrays["kernel"] = kernel
    frames = _frames(len(times), problem) if thin else np.arange(len(times))
    arrays |= {"frames": frames, "function": function[frames], **_hidden(parts, problem, frames)}
    if state.start == "single_neuron":
        arrays["neuron"] = _neuron(parts, problem)
    header: Header = {
        "kind": "view",
        "method": parts[0].method,
        "exact": all(part.method != "flow" for part in parts),
        "methods": [part.method for part in parts],
        "sizes": problem.network.sizes,
        "balance": problem.facts.lam[0] if problem.network.depth == 2 else None,
        "boundaries": ends,
        "tasks": [part.problem.task.name for part in parts],
        "notes": [*script.notes, *(part.status.what for part in parts if part.status.end != "complete")],
        "remarks": parts[0].notes if run is None else run.notes,  # of the library
        "floor": problem.task.loss_floor,
    }
    if "neuron" in arrays:
        header["neuron_target"] = float(np.linalg.norm(problem.canonical.gain * problem.task.target))
    return View(header, arrays, script)


def descent(state: State) -> View:
    """Gradient descent on the (first) problem, over the same times as far as its steps go."""
    script = prepared(state)
    traj, steps = descended(state, script)
    arrays = {"times": traj.times, "loss": traj.loss[:, None], "modes": lr.observables.mode_strengths(traj)}
    header = {"kind": "descent", "rate": state.rate, "steps": steps, "end": traj.status.end}
    return View(header, arrays, script)


def _strengths(task: lr.Task) -> Float[Array, " m"]:
    """Where the modes of a task end when it is learned: uᵀTv, with T its best linear map."""
    U, _, V = task.modes
    return np.einsum("om,oi,im->m", U, task.target, V)


def _kernel(parts: tuple[lr.Trajectory, ...]) -> Float[Array, " T"] | None:
    try:
        return np.concatenate([_turned(part) for part in parts])
    except InvalidInput:  # no formula for this kernel
        return None


def _turned(part: lr.Trajectory) -> Float[Array, " T"]:
    """The kernel distance; where the kernel has vanished and has no direction left, the last that it had."""
    distance, norm = lr.observables.kernel_distance(part), lr.observables.kernel_norm(part)
    there = np.isfinite(distance) & (norm >= _VANISHED * np.maximum.accumulate(norm))
    return distance[np.maximum.accumulate(np.where(there, np.arange(len(norm)), 0))]


def _frames(count: int, problem: lr.Problem) -> Array:
    """The times at which matrices are sent: all, or as many as fit, first and last among them."""
    task = problem.task
    numbers = task.d_in * task.d_out + task.d_in * 2
    if problem.network.depth == 2:
        numbers += (task.d_in + task.d_out) ** 2
    return np.unique(np.linspace(0, count - 1, min(count, max(2, _NUMBERS // numbers))).round().astype(int))


def _hidden(parts: tuple[lr.Trajectory, ...], problem: lr.Problem, frames: Array) -> dict[str, Array]:
    """QQᵀ of two layers, and what the first layer makes of each input, in the plane of the task's two main contrasts.

    W1ᵀW1 is known where W1 is known only up to a rotation. Its symmetric root holds the same distances between inputs,
    and changes smoothly. The plane is the one of the learned representation, so it stays when the initialisation is
    changed.
    """
    found: dict[str, Array] = {}
    task, depth = problem.task, problem.network.depth
    if depth == 2:
        gram = np.concatenate([part.gram for part in parts])[frames]
        found["gram"], inner = gram, gram[:, : task.d_in, : task.d_in]
    else:
        inner = np.concatenate([lr.observables.input_gram(part) for part in parts])[frames]
    values, vectors = np.linalg.eigh(inner)
    roots = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None]) @ vectors.transpose(0, 2, 1)
    centred = task.target - task.target.mean(axis=1, keepdims=True)
    plane = np.linalg.svd(centred, full_matrices=True)[2][:2].T
    if task.d_in == 1:
        plane = np.array([[1.0, 0.0]])
    found["points"] = roots @ plane
    return found


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
