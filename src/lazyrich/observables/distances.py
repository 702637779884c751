"""How far a network has gone from where it was at a reference time: weights, activation patterns, representation,
function."""

from __future__ import annotations

from itertools import islice

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.observables._reading import as_hidden_layer, samples
from lazyrich.observables.regions import patterns
from lazyrich.observables.representations import features
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory, as_trajectory

_ROUNDING = 8  # times the precision of numbers: what taking off the mean leaves of equal ones


@observable(long_name="distance of the weights from the first time")
def parameter_distance(traj: Trajectory, reference: int = 0, relative: bool = False) -> Float[Array, " T"]:
    """√Σ_ℓ‖W_ℓ(t) − W_ℓ(t_ref)‖², or that divided by √Σ_ℓ‖W_ℓ(t_ref)‖².

    Parameters
    ----------
    traj : of any network
    reference : index of the time it is measured from
    relative : to the norm at the reference

    Returns
    -------
    array : one number per time

    >>> traj = lr.solve(lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.5]]])), [0.0, 100.0])
    >>> lr.observables.parameter_distance(traj), lr.observables.parameter_distance(traj, relative=True)
    (array([0. , 1.5]), array([0., 3.]))
    """
    at = _check.index("reference", reference, len(as_trajectory(traj).times))
    relative = _check.flag("relative", relative)
    weights = traj.problem.network.free([np.asarray(W) for W in traj.weights])
    distance = _length([W - W[at] for W in weights])
    if not relative:
        return distance
    size = float(_length([W[at, None] for W in weights])[0])
    if size == 0:
        raise InvalidInput("relative=True needs weights that are not all zero at the reference: try relative=False.")
    return distance / size


@observable(long_name="fraction of activation signs that have changed")
def hamming_distance(traj: Trajectory, reference: int = 0) -> Float[Array, " T"]:
    """The fraction of all (sample, hidden unit) whose activation is positive at one of the two times only.

    All hidden layers count. In linear networks the units are those of the given hidden basis, and the samples of a
    task of correlations alone are one item per input.

    Parameters
    ----------
    traj : of any network with hidden layers
    reference : index of the time it is measured from

    Returns
    -------
    array : one number per time

    >>> task = lr.Task.from_correlations([[-1.0]])
    >>> traj = lr.Trajectory(lr.Problem(task, lr.Network([[[1.0], [1.0]], [[0.0, 0.0]]])), np.arange(2.0), "flow",
    ...     {"weights": [np.array([[[1.0], [1.0]], [[-1.0], [1.0]]]), np.zeros((2, 1, 2))]})
    >>> lr.observables.hamming_distance(traj)
    array([0. , 0.5])
    """
    at = _check.index("reference", reference, len(as_trajectory(traj).times))
    before = next(islice(patterns(traj, "hamming_distance"), at, None))
    return np.array([np.mean(active != before) for active in patterns(traj, "hamming_distance")])


@observable(long_name="linear CKA with the first time")
def cka(traj: Trajectory, reference: int = 0, layer: int = 1, centred: bool = True) -> Float[Array, " T"]:
    """⟨K, K'⟩/(‖K‖‖K'‖) of K = HHᵀ at the two times, H the activity of hidden layer ℓ, a sample per row.

    1: the same representation up to rotation and scale.

    Parameters
    ----------
    traj : of any network with hidden layers
    reference : index of the time it is measured from
    layer : ℓ of a hidden layer, from 1
    centred : take the mean over the samples off first, as is usual (Kornblith et al. 2019)

    Returns
    -------
    array : one number per time, nan where a layer is silent, or the same for all samples

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> lr.observables.cka(lr.solve(problem, [0.0, 20.0, 1e4])).round(3)
    array([1.   , 0.518, 0.713])
    """
    at = _check.index("reference", reference, len(as_trajectory(traj).times))
    layer, centred = as_hidden_layer(traj.problem, layer, "cka"), _check.flag("centred", centred)
    if centred and traj.problem.task.inputs is None:
        raise InvalidInput(
            "cka needs the samples of the task to centre on them, and this task holds correlations only: "
            "centred=False compares one item per input."
        )
    H0 = unit_activity(next(islice(features(traj, layer, "cka"), at, None)), centred)
    return np.array([_inner(unit_activity(H, centred), H0) for H in features(traj, layer, "cka")])


@observable(long_name="distance of the function from the first time, root mean square")
def function_distance(traj: Trajectory, reference: int = 0) -> Float[Array, " T"]:
    """√ mean‖ŷ(t) − ŷ(t_ref)‖² over the samples (the sum, where the task's loss is one); ‖W − W_ref‖_Σxx if linear.

    Parameters
    ----------
    traj : of any network
    reference : index of the time it is measured from

    Returns
    -------
    array : one number per time

    >>> traj = lr.solve(lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.5]]])), [0.0, 100.0])
    >>> lr.observables.function_distance(traj)
    array([0. , 1.5])
    """
    at = _check.index("reference", reference, len(as_trajectory(traj).times))
    network, task = traj.problem.network, traj.problem.task
    if network.activation.linear:
        W = np.asarray(traj.function)
        return np.linalg.norm((W - W[at]) @ input_root(task).T, axis=(1, 2))
    count = len(samples(traj.problem, "function_distance")) if task.reduction == "mean" else 1
    outputs = np.asarray(traj.outputs)
    return np.linalg.norm(outputs - outputs[at], axis=(1, 2)) / np.sqrt(count)


def _length(parts: list[Array]) -> Float[Array, " T"]:
    """Norm over all layers, at each time."""
    return np.linalg.norm(np.stack([np.linalg.norm(part, axis=(1, 2)) for part in parts]), axis=0)


def unit_activity(H: Float[Array, "P h"], centred: bool = True) -> Float[Array, "P h"]:
    """Activities of a layer, a sample per row, as their similarity is compared: the mean over the samples taken off
    every unit, and ‖HHᵀ‖ = 1; nan where nothing is left but rounding."""
    rounding = _ROUNDING * float(np.finfo(H.dtype).eps) if H.dtype.kind == "f" else 0.0
    H = np.asarray(H, dtype=np.float64)
    size = np.abs(H).max()
    H = H / size if size else H
    H = H - H.mean(axis=0) if centred else H
    norm = np.sqrt(_inner(H, H))
    return H / (np.sqrt(norm) if norm > H.size * rounding**2 else np.nan)


def _inner(H: Float[Array, "P h"], other: Float[Array, "P h2"]) -> float:
    """⟨HHᵀ, H'H'ᵀ⟩, by samples or by units, whichever are fewer."""
    samples, units = len(H), max(H.shape[1], other.shape[1])
    if samples <= units:
        return float(np.sum((H @ H.T) * (other @ other.T)))
    return float(np.sum((H.T @ other) ** 2))


def input_root(task: Task) -> Float[Array, "r in"]:
    """R with RᵀR = Σxx, from the samples where they are known: squaring them would lose digits."""
    if task.inputs is not None:
        weight = np.sqrt(len(task.inputs)) if task.reduction == "mean" else 1.0
        return np.asarray(np.linalg.qr(task.inputs, mode="r")) / weight
    values, vectors = np.linalg.eigh(task.sigma_xx)
    return (vectors * np.sqrt(np.maximum(values, 0.0))).T
