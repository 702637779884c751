"""Multidimensional scaling: items as points in a plane, in which they are as far apart as in the hidden layer.

Classical scaling takes the strongest directions of the centred hidden activities and leaves out the others. A tree has
more directions than a plane: of two families in one kingdom it then shows one pair of species, and of the other
nothing. Lowering the stress

    Σ_{i<j} (‖z_i − z_j‖ − d_ij)²

from there (SMACOF: de Leeuw 1977) shows all items, none of them quite as far as it is; there may be several ways to do
so, and where one of them ends, paths jump to another. A configuration may be turned and mirrored at will: each is
turned onto the one after it, from the last one back, so that items move and axes do not.
"""

from __future__ import annotations

import numpy as np

from lazyrich import _check
from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.observables._reading import as_hidden_layer
from lazyrich.observables.representations import features
from lazyrich.trajectory import Trajectory, as_trajectory

_STEPS, _SETTLED = 500, 1e-7  # of SMACOF at most; until points move by no more than this, of the largest


@observable("sample", "axis", long_name="items by multidimensional scaling", items=("input", "axis"))
def mds(traj: Trajectory, dimensions: int = 2, layer: int = 1, stress: bool = False) -> Float[Array, "T P d"]:
    """Items as points, in which distances are those of the hidden layer as far as so many dimensions can show them.

    Parameters
    ----------
    traj : of any network
    dimensions : of the points
    layer : ℓ of a hidden layer, from 1
    stress : classical scaling, or from there on down in stress, which shows what classical scaling leaves out

    Returns
    -------
    array : (times, items, dimensions), each centred, and turned onto the next (Procrustes); the axes are the principal
        ones of the last time

    >>> task = lr.Task.from_data(np.eye(3), np.diag([1.0, 2.0, 3.0]))
    >>> traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=3, strengths=0.01)), [0.0, 100.0])
    >>> points = lr.observables.mds(traj)[-1]
    >>> float(np.linalg.norm(points[0] - points[2]).round(6))  # √(1 + 3): three points lie in a plane
    2.0
    """
    layer = as_hidden_layer(as_trajectory(traj).problem, layer, "mds")
    d, stress = _check.count("dimensions", dimensions), _check.flag("stress", stress)
    activities = list(features(traj, layer, "mds"))
    placed = [classical(H, d) for H in activities]
    if stress:
        placed = _course([distances(H) for H in activities], shaken(placed[-1]))
    placed[-1] = principal(placed[-1])
    for k in range(len(placed) - 2, -1, -1):
        placed[k] = turned(placed[k], placed[k + 1])
    return np.stack(placed)


def _course(wanted: list[Array], Z: Float[Array, "n d"]) -> list[Array]:
    """Points of least stress for each of the distances, from the last back, on, and back again, each from where its
    neighbour is: once is not enough, for the last one's nearest least may be one that no other leads to."""
    placed = [Z] * len(wanted)
    there = range(len(wanted))
    for way in (reversed(there), there, reversed(there)):
        for k in way:
            placed[k] = relaxed(wanted[k], Z)
            Z = placed[k] if wanted[k].any() else Z  # from a single point no item would ever leave
    return placed


def classical(H: Float[Array, "n h"], dimensions: int) -> Float[Array, "n d"]:
    """The principal coordinates of points, strongest first; zeros where the points have fewer directions."""
    X = H - H.mean(axis=0)
    values, vectors = np.linalg.eigh(X @ X.T)
    found = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :dimensions]
    return np.pad(found, ((0, 0), (0, dimensions - found.shape[1])))


def relaxed(
    wanted: Float[Array, "n n"], Z: Float[Array, "n d"], steps: int = _STEPS, settled: float = _SETTLED
) -> Float[Array, "n d"]:
    """Points of less stress, from Z on: each step goes to the least of a bound on the stress from above."""
    for _ in range(steps):
        apart = distances(Z)
        ratio = np.divide(wanted, apart, out=np.zeros_like(wanted), where=apart > 1e-12 * apart.max())
        moved = (ratio.sum(axis=1)[:, None] * Z - ratio @ Z) / len(Z)
        if np.abs(moved - Z).max() <= settled * np.abs(moved).max():
            return moved
        Z = moved
    return Z


def stress_of(wanted: Float[Array, "n n"], Z: Float[Array, "n d"]) -> float:
    """What of the distances points do not show, relative to all (Kruskal's stress 1 with the distances as norm)."""
    return float(np.sqrt(np.sum((distances(Z) - wanted) ** 2) / np.sum(wanted**2)))


def shaken(Z: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Points a little moved, for items that coincide would never part."""
    return Z + 1e-3 * np.random.default_rng(0).normal(size=Z.shape) * np.abs(Z).max()


def turned(Z: Float[Array, "n d"], to: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Z turned and mirrored so that it lies on other points as far as that goes (Procrustes)."""
    left, _, right = np.linalg.svd(Z.T @ to)
    return Z @ (left @ right)


def principal(Z: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Z on its own principal axes, the largest coordinate on each positive."""
    found = Z @ np.linalg.svd(Z - Z.mean(axis=0), full_matrices=True)[2].T
    return found * np.where(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])] < 0, -1.0, 1.0)


def distances(Z: Float[Array, "n d"]) -> Float[Array, "n n"]:
    """‖z_i − z_j‖ of any two."""
    return np.linalg.norm(Z[:, None] - Z, axis=2)
