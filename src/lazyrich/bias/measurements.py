"""Linear measurements of a matrix, y_m = ⟨A_m, W⟩: what a factorisation W = W_L … W_1 is trained on.

    loss(W) = ½ Σ_m (⟨A_m, W⟩ − y_m)²

Completion, where some entries are observed, is the common case; its A_m are never formed. Fewer measurements than
entries leave many solutions. One of them is the least nuclear norm solution, the conjectured end of depth 2 from
small weights (Gunasekar et al. 2017); `least_nuclear_norm` finds it as a convex programme, with a dual certificate:
every Z = Σ_m ν_m A_m with ‖Z‖ ≤ 1 (largest singular value) bounds the nuclear norm of all solutions from below by yᵀν.

Four problems of the literature tell the explanations of implicit bias apart:

- `commuting_measurements`: from an identity, the flow of any depth ≥ 2 ends in the least nuclear norm, though there
  are solutions of lower rank and smaller Schatten-2/3 and Schatten-1/2 quasi-norm;
- `li_luo_lyu` (2020): the flow ends in the solution of least rank, whose nuclear norm is larger than need be;
- `razin_cohen` (2020): every norm and quasi-norm goes to infinity, while the rank falls to its infimum;
- `random_completion`: a random matrix of low rank.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float, Rng
from lazyrich.inits.random import random_frame


@dataclass(frozen=True, eq=False)
class Measurements:
    """What is known of a matrix; `completion` and `sensing` make one, with its checks.

    A is the mask of observed entries, 0 or 1, and y holds them in their places; or A has shape (M, d_out, d_in),
    one matrix per measurement, and y one value each. `truth` is the matrix that was measured, where it is known.
    """

    A: Array
    y: Array
    truth: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(d_out, d_in) of the matrix."""
        d_out, d_in = self.A.shape[-2:]
        return d_out, d_in

    def loss(self, W: Float[Array, "... out in"]) -> Any:
        """½ Σ_m (⟨A_m, W⟩ − y_m)², of one matrix or of many."""
        return (residual(self.A, self.y, W) ** 2).sum(axis=-1) / 2

    def test_error(self, W: Float[Array, "... out in"]) -> Any:
        """Root mean square distance from the truth in what no measurement sees: in completion, the hidden entries.

        nan where the truth is not known, 0 where nothing is hidden.
        """
        if self.truth is None:
            return np.full(W.shape[:-2], np.nan)
        D = (W - self.truth).reshape(*W.shape[:-2], -1)
        hidden = D[..., self.A.ravel() == 0] if self.A.ndim == 2 else D @ self._unseen.T
        return np.sqrt((hidden**2).sum(axis=-1) / max(hidden.shape[-1], 1))

    @cached_property
    def _unseen(self) -> Float[Array, "k entries"]:
        """An orthonormal basis of what no measurement matrix sees."""
        _, s, rows = np.linalg.svd(self.A.reshape(len(self.A), -1))
        return rows[np.count_nonzero(s > max(rows.shape) * np.finfo(float).eps * s[0]) :]

    @cached_property
    def least_loss(self) -> float:
        """The least loss of any matrix: 0, unless measurements contradict each other."""
        if self.A.ndim == 2:
            return 0.0
        W = np.linalg.lstsq(self.A.reshape(len(self.A), -1), self.y, rcond=None)[0]
        return float(self.loss(W.reshape(self.shape)))


def residual(A: Any, y: Any, W: Any) -> Any:
    """⟨A_m, W⟩ − y_m in one last axis, of one matrix or of many, in NumPy or JAX."""
    lead = W.shape[:-2]
    if A.ndim == 2:
        return (A * W - y).reshape(*lead, -1)
    return W.reshape(*lead, -1) @ A.reshape(len(A), -1).T - y


def completion(matrix: object, observed: object = None) -> Measurements:
    """Some entries of a matrix.

    Parameters
    ----------
    matrix : d_out × d_in; nan where an entry is not known; otherwise it is the truth, for `test_error` alone
    observed : 1 or True where an entry is seen; without it all that are not nan

    Returns
    -------
    Measurements : `A`, `y`, the `truth` where it is known, `loss(W)` and `test_error(W)`

    >>> lr.bias.completion([[1.0, 2.0], [2.0, float("nan")]]).A
    array([[1., 1.],
           [1., 0.]])
    """
    raw = _check.from_any_library("matrix", matrix)
    unknown = np.isnan(raw) if raw.dtype.kind == "f" else np.zeros(raw.shape, bool)
    filled = _check.as_matrix("matrix", np.where(unknown, 0, raw) if unknown.any() else raw)
    mask = (~unknown).astype(float) if observed is None else _check.as_matrix("observed", observed, filled.shape)
    if not np.isin(mask, (0, 1)).all():
        raise InvalidInput("observed must hold 1 (or True) and 0 (or False) alone, and it has other numbers.")
    if missing := int((unknown & (mask == 1)).sum()):
        raise InvalidInput(f"matrix must have numbers where it is observed, and {missing} of these are nan.")
    if not mask.any():
        raise InvalidInput("at least one entry must be observed, and none is.")
    _not_all_zero("observed entries", mask * filled)
    return Measurements(mask, mask * filled, None if unknown.any() else filled)


def sensing(matrices: object, values: object = None, *, truth: object = None) -> Measurements:
    """Any linear measurements.

    Parameters
    ----------
    matrices : A_m, (M, d_out, d_in)
    values : y_m; without them those of the truth
    truth : the matrix, where it is known

    Returns
    -------
    Measurements : as of `completion`

    >>> lr.bias.sensing([np.eye(2)], truth=[[1.0, 5.0], [0.0, 2.0]]).y
    array([3.])
    """
    A = _check.as_array("matrices", matrices)
    if A.ndim != 3:
        raise InvalidInput(f"matrices must have shape (M, d_out, d_in), one per measurement, and it has {A.shape}.")
    if not A.any():
        raise InvalidInput("matrices must not all be zero: they would measure nothing.")
    W = None if truth is None else _check.as_matrix("truth", truth, A.shape[1:])
    if values is None:
        if W is None:
            raise InvalidInput("values are missing, and so is the truth: one of them is needed.")
        y = np.tensordot(A, W)
    else:
        y = _check.as_array("values", values, ndim=1)
        if len(y) != len(A):
            raise InvalidInput(f"values must hold one number per matrix ({len(A)}), and it has {len(y)}.")
    _not_all_zero("values", y)
    return Measurements(A, y, W)


def _not_all_zero(name: str, y: Array) -> None:
    if not y.any():
        raise InvalidInput(f"{name} must not all be zero: W = 0 would be the end of every flow.")


def as_shape(value: Any) -> tuple[int, int]:
    """(d_out, d_in), or a sentence."""
    try:
        d_out, d_in = value
    except (TypeError, ValueError):
        raise InvalidInput(f"shape must be (d_out, d_in), rows and columns, and it is {value!r}.") from None
    return _check.count("shape", d_out), _check.count("shape", d_in)


def as_measurements(value: object) -> Measurements:
    """Measurements, or a sentence."""
    if not isinstance(value, Measurements):
        raise InvalidInput(
            f"measurements must be lazyrich Measurements, and it is a {type(value).__name__}: completion(matrix, "
            "observed) or sensing(matrices, values) makes them."
        )
    return value


class LeastNorm(NamedTuple):
    """The solution of least nuclear norm (one of them, if there are several) and the evidence for it."""

    W: Array
    norm: float
    dual: Array  # Z = Σ ν_m A_m with ‖Z‖ ≤ 1
    gap: float  # (norm − yᵀν)/norm: no solution is smaller by more than this share
    misfit: float  # largest |⟨A_m, W⟩ − y_m|/‖A_m‖, relative to the largest |y_m|/‖A_m‖
    status: str  # "converged", or what the solver says of its accuracy


def least_nuclear_norm(measurements: Measurements) -> LeastNorm:
    """argmin ‖W‖_* s.t. ⟨A_m, W⟩ = y_m, by CVXPY and Clarabel, with its duality gap.

    Parameters
    ----------
    measurements : of the matrix

    Returns
    -------
    LeastNorm : `W`, its `norm`, and the evidence: the `dual`, the `gap`, the `misfit`

    >>> least = lr.bias.least_nuclear_norm(lr.bias.li_luo_lyu(2.0))  # the truth has 10
    >>> round(least.norm, 6), least.gap < 1e-7
    (8.0, True)
    """
    A, y = as_measurements(measurements).A, measurements.y
    try:
        cvxpy = importlib.import_module("cvxpy")
    except ModuleNotFoundError:
        raise ImportError("least_nuclear_norm needs cvxpy: pip install 'lazyrich[bias]'.") from None
    rows, values = _unit_measurements(A, y)
    scale = float(np.abs(values).max())
    X = cvxpy.Variable(measurements.shape)
    constraint = rows @ cvxpy.vec(X, order="C") == values / scale
    programme = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(X)), [constraint])
    with warnings.catch_warnings():  # of an inaccurate solution, which `status` tells
        warnings.simplefilter("ignore")
        programme.solve(solver="CLARABEL")
    if X.value is None:
        raise InvalidInput(f"the measurements have no solution that agrees with all of them ({programme.status}).")
    nu = -np.asarray(constraint.dual_value)
    Z = (rows.T @ nu).reshape(measurements.shape)
    shrink = max(1.0, float(np.linalg.norm(Z, 2)))
    W, bound = scale * X.value, scale * float(values / scale @ nu) / shrink
    norm, misfit = float(np.linalg.norm(W, "nuc")), float(np.abs(rows @ W.ravel() - values).max()) / scale
    status = "converged" if programme.status == "optimal" else f"{programme.status}: gap and misfit tell how far"
    return LeastNorm(W, norm, Z / shrink, (norm - bound) / norm, misfit, status)


def _unit_measurements(A: Array, y: Array) -> tuple[Any, Float[Array, " M"]]:
    """A_m as rows and y_m, both divided by ‖A_m‖: the solver's tolerances know no other scale."""
    if A.ndim == 2:
        from scipy.sparse import eye_array

        seen = A.ravel() == 1
        return eye_array(A.size, format="csr")[seen], y.ravel()[seen]
    rows = A.reshape(len(A), -1)
    largest = np.abs(rows).max(axis=1)
    blind = largest == 0
    if y[blind].any():
        raise InvalidInput("values must be zero where the matrix is: no solution agrees with these measurements.")
    rows, y, largest = rows[~blind], y[~blind], largest[~blind]
    size = np.linalg.norm(rows / largest[:, None], axis=1)
    return rows / largest[:, None] / size[:, None], y / largest / size


def commuting_measurements() -> Measurements:
    """Two commuting measurements of a 3 × 3 matrix: A_m = diag(a_m), a_1 = (1, 0, 1/2.4), a_2 = (0, 1, 0.8/2.4).

    With x for the diagonal of W and y = (1, 0.8), two solutions compete among diagonal matrices: x = (1, 0.8, 0) with
    Σx = 1.8, and the truth x = (0, 0, 2.4), of rank one, with Σx^{2/3} = 1.79 (against 1.86) and Σx^{1/2} = 1.55
    (against 1.89). From W_ℓ = ε^{1/L} I, W stays diagonal, and ends in the first: x_3 is 0.93 ε^{1/4} at depth 2, 64 ε
    at depth 3 and 16 ε at depth 4, to leading order in ε.

    No measurement sees what is off the diagonal. Among all matrices vvᵀ with v = (1, √0.8, 0) is of least nuclear norm
    too, and of least rank. From depth 3 on the diagonal flow is unstable: once w_11 is learned, tilting its singular
    vector is faster than raising another from ε, and balanced random layers end in rank one, in a vvᵀ.

    >>> lr.bias.commuting_measurements().y
    array([1. , 0.8])
    """
    a = np.array([[1, 0, 1 / 2.4], [0, 1, 0.8 / 2.4]])
    return sensing([np.diag(a_m) for a_m in a], [1.0, 0.8], truth=np.diag([0, 0, 2.4]))


def li_luo_lyu(R: float = 2.0) -> Measurements:
    """The completion of Li, Luo and Lyu 2020: [? ? 1 R; ? ? R ?; 1 R ? ?; R ? ? ?], R > 1.

    The least rank is 1, of vvᵀ with v = (1, R, 1, R) and nuclear norm 2 + 2R²; the least nuclear norm is 4R, of
    rank 2 and more. From a small identity the flow ends in vvᵀ.

    Parameters
    ----------
    R : above 1

    Returns
    -------
    Measurements

    >>> int(lr.bias.li_luo_lyu().A.sum())
    6
    """
    R = _check.number("R", R)
    if R <= 1:
        raise InvalidInput(f"R must be above 1, where least rank and least nuclear norm differ, and it is {R:g}.")
    v = np.array([1, R, 1, R])
    observed = np.zeros((4, 4))
    observed[[0, 0, 1], [2, 3, 2]] = 1
    return completion(np.outer(v, v), observed + observed.T)


def razin_cohen() -> Measurements:
    """The completion of Razin and Cohen 2020: [? 1; 1 0].

    From det W > 0, whose sign the flow keeps, |w_11| ≥ w_12 w_21/|w_22| goes to infinity as the loss
    goes to 0, and the effective rank to 1.

    >>> lr.bias.razin_cohen().y
    array([[0., 1.],
           [1., 0.]])
    """
    return completion([[np.nan, 1.0], [1.0, 0.0]])


def random_completion(rng: Rng, shape: object, singular_values: object, *, observed: int) -> Measurements:
    """Some entries of a matrix with random singular vectors.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    shape : (d_out, d_in)
    singular_values : of the matrix
    observed : how many entries are seen

    Returns
    -------
    Measurements

    >>> problem = lr.bias.random_completion(0, (10, 12), [8.0, 4.0, 2.0], observed=80)
    >>> problem.shape, int(problem.A.sum())
    ((10, 12), 80)
    """
    generator, (d_out, d_in) = _check.as_rng(rng), as_shape(shape)
    s = _check.as_array("singular_values", singular_values, ndim=1)
    if s.min() < 0:
        raise InvalidInput(f"singular_values must not be negative, and the least is {s.min():g}.")
    if len(s) > min(d_in, d_out):
        raise InvalidInput(
            f"singular_values must be at most {min(d_in, d_out)}, as the shape has, and they are {len(s)}."
        )
    count = _check.count("observed", observed)
    if count > d_in * d_out:
        raise InvalidInput(f"observed must be at most the {d_in * d_out} entries of the matrix, and it is {count}.")
    truth = (random_frame(generator, d_out, len(s)) * s) @ random_frame(generator, d_in, len(s)).T
    mask = np.zeros(d_in * d_out)
    mask[generator.permutation(mask.size)[:count]] = 1
    return completion(truth, mask.reshape(d_out, d_in))
