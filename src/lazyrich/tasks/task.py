"""A task: all that gradient descent on squared error sees of a data set.

For linear networks that is three matrices (theory: section 0)

    Σxx = mean xxᵀ,   Σyx = mean yxᵀ,   Σyy = mean yyᵀ      (or sums)

    loss(W) = ½ tr(W Σxx Wᵀ) − tr(W Σyxᵀ) + ½ tr Σyy

and the samples themselves are kept where they were given, since nonlinear networks need them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float


class Modes(NamedTuple):
    """Σyx = U diag(s) Vᵀ, strongest first, with s below the rank cut-off set to zero.

    >>> U, s, V = lr.Task.from_correlations([[0.0, 3.0], [1.0, 0.0]]).modes
    >>> s, bool(np.allclose(U * s @ V.T, [[0.0, 3.0], [1.0, 0.0]]))
    (array([3., 1.]), True)
    """

    U: Float[Array, "out m"]
    s: Float[Array, " m"]
    V: Float[Array, "in m"]


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned. Build one with `Task.from_data` or `Task.from_correlations`.

    >>> task = lr.Task.from_correlations([[3.0, 0.0], [0.0, 1.0]])
    >>> task.modes.s
    array([3., 1.])
    """

    sigma_yx: Float[Array, "out in"]
    sigma_xx: Float[Array, "in in"]
    sigma_yy: Float[Array, "out out"]
    inputs: Float[Array, "P in"] | None = None
    targets: Float[Array, "P out"] | None = None
    reduction: str = "mean"
    input_map: Float[Array, "in original"] | None = None  # whitened x = input_map @ original x
    eps: float = field(default=float(np.finfo(np.float64).eps), repr=False)  # precision the numbers came in
    name: str = ""
    constant: bool = False  # the last input is always 1: what biases are weights from

    def __post_init__(self) -> None:
        for name in ("sigma_yx", "sigma_xx", "sigma_yy", "inputs", "targets", "input_map"):
            array = getattr(self, name)
            if array is not None and not (isinstance(array, np.ndarray) and not array.flags.writeable):
                object.__setattr__(self, name, _check.read_only(_check.as_matrix(name, array)))  # a copy of its own

    @classmethod
    def from_data(cls, inputs: ArrayLike, targets: ArrayLike, *, reduction: str = "mean", name: str = "") -> Task:
        """A task from samples.

        Parameters
        ----------
        inputs, targets : P × d_in and P × d_out; rows are samples
        reduction : "mean" or "sum" over samples
        name : for people

        Returns
        -------
        Task
        """
        X, Y = _check.as_matrix("inputs", inputs), _check.as_matrix("targets", targets)
        if len(X) != len(Y):
            raise InvalidInput(
                f"targets must have one row per row of inputs ({len(X)}), and it has {len(Y)}; rows are samples."
            )
        reduction = _check.choice("reduction", reduction, ("mean", "sum"))
        _check.memory("Σxx, Σyx and Σyy", (X.shape[1] + Y.shape[1]) ** 2, "fewer inputs and outputs")
        weight = 1 / len(X) if reduction == "mean" else 1.0
        largest = max(np.abs(X).max(), np.abs(Y).max())
        if not X.any():
            raise InvalidInput("inputs must not all be zero: nothing can be learned from them.")
        if largest > 1e150:
            raise InvalidInput(
                f"inputs and targets must be below 1e150, or their squares overflow, and the largest is {largest:.3g}."
            )
        sigma_xx = weight * (X.T @ X)
        if not sigma_xx.any():
            raise InvalidInput(f"inputs must have squares above 0, and the largest input is {np.abs(X).max():.3g}.")
        X, Y = _check.read_only(X), _check.read_only(Y)
        return cls(
            sigma_yx=weight * (Y.T @ X),
            sigma_xx=sigma_xx,
            sigma_yy=weight * (Y.T @ Y),
            inputs=X,
            targets=Y,
            reduction=reduction,
            eps=_check.eps_of(inputs, targets),
            name=name,
        )

    @classmethod
    def from_correlations(
        cls,
        sigma_yx: ArrayLike,
        sigma_xx: ArrayLike | None = None,
        sigma_yy: ArrayLike | None = None,
        *,
        name: str = "",
    ) -> Task:
        """A task from correlations alone.

        Parameters
        ----------
        sigma_yx : Σyx, d_out × d_in
        sigma_xx : Σxx; the identity if not given
        sigma_yy : Σyy; that of targets without noise if not given
        name : for people

        Returns
        -------
        Task
        """
        S = _check.as_matrix("sigma_yx", sigma_yx)
        _check.memory("Σxx, Σyx and Σyy", float(sum(S.shape)) ** 2, "fewer inputs and outputs")
        given = [array for array in (sigma_yx, sigma_xx, sigma_yy) if array is not None]
        if np.abs(S).max() > 1e100:
            raise InvalidInput(f"sigma_yx must be below 1e100, and its largest entry is {np.abs(S).max():.3g}.")
        xx = np.eye(S.shape[1]) if sigma_xx is None else _correlation("sigma_xx", sigma_xx, S.shape[1])
        if not xx.any():
            raise InvalidInput("sigma_xx must not be zero: nothing can be learned from inputs that are.")
        T = S @ _pseudo_inverse(xx)
        if np.linalg.norm(T @ xx - S) > 1e-6 * np.linalg.norm(S):
            raise InvalidInput(
                "sigma_yx must vanish on the directions where sigma_xx does, and it does not: no data set has these."
            )
        yy = S @ T.T if sigma_yy is None else _correlation("sigma_yy", sigma_yy, S.shape[0])
        floor = np.linalg.eigvalsh(yy - S @ T.T)[0]
        if floor < -1e-6 * np.sum(S * T):
            raise InvalidInput(
                f"sigma_yy must be at least Σyx Σxx⁻¹ Σyxᵀ, and it is {-floor:.3g} too small: no data set has these."
            )
        return cls(sigma_yx=S, sigma_xx=xx, sigma_yy=(yy + yy.T) / 2, eps=_check.eps_of(*given), name=name)

    @property
    def d_in(self) -> int:
        return int(self.sigma_yx.shape[1])

    @property
    def d_out(self) -> int:
        return int(self.sigma_yx.shape[0])

    @cached_property
    def modes(self) -> Modes:
        """Singular modes of Σyx, the order in which they are learned from small weights."""
        U, s, Vt = np.linalg.svd(self.sigma_yx, full_matrices=False)
        cutoff = max(self.sigma_yx.shape) * self.eps * s[0]
        return Modes(*map(_check.read_only, (U, np.where(s > cutoff, s, 0.0), Vt.T)))

    @cached_property
    def target(self) -> Float[Array, "out in"]:
        """T = Σyx Σxx⁻¹, the best linear map (least norm where Σxx is singular)."""
        if self.whitening_error == 0:
            return _check.read_only(self.sigma_yx / self.input_scale)
        if self.inputs is not None and self.targets is not None:  # by Σxx, the condition number would be squared
            cutoff = max(self.inputs.shape) * np.finfo(np.float64).eps
            return _check.read_only(np.asarray(np.linalg.lstsq(self.inputs, self.targets, rcond=cutoff)[0].T))
        return _check.read_only(self.sigma_yx @ _pseudo_inverse(self.sigma_xx))

    @property
    def input_scale(self) -> float:
        """c of the nearest Σxx = c·I."""
        return float(np.trace(self.sigma_xx) / self.d_in)

    @cached_property
    def whitening_error(self) -> float:
        """‖Σxx − c·I‖ / c: how far from whitened the inputs are (0: whitened)."""
        c = self.input_scale
        off = self.sigma_xx - c * np.eye(self.d_in)
        if not off.any():
            return 0.0
        return float(np.linalg.norm(off, 2) / c) if c else np.inf

    @cached_property
    def loss_floor(self) -> float:
        """The least loss any linear map reaches, ½ tr(Σyy − T Σxx Tᵀ), by residuals where samples are known."""
        if self.inputs is not None and self.targets is not None:
            squares = np.sum((self.targets - self.inputs @ self.target.T) ** 2)
            return float(squares / 2 / (len(self.inputs) if self.reduction == "mean" else 1))
        return float(max(np.trace(self.sigma_yy) - np.sum(self.sigma_yx * self.target), 0.0) / 2)

    def loss(self, function: Float[Array, "*T out in"]) -> Any:  # a number for one map, an array for many
        """Loss of one or many linear maps, written so that it is accurate near the minimum too."""
        if np.shape(function)[-2:] != self.target.shape:
            raise InvalidInput(
                f"function must be {self.d_out} × {self.d_in} (outputs × inputs),"
                f" and it has shape {np.shape(function)}."
            )
        if self.whitening_error == 0 and np.ndim(function) == 3:  # one map at a time: many need no more memory than one
            squares = np.array([np.vdot(error := W - self.target, error) for W in function])
            return squares * (self.input_scale / 2) + self.loss_floor
        error = function - self.target
        return np.sum((error @ self.sigma_xx) * error, axis=(-2, -1)) / 2 + self.loss_floor

    def whitened(self) -> Task:
        """The same task for inputs `input_map @ x`, whose Σxx is the identity.

        A network W learned on it is `W @ input_map` on the inputs as they were.
        """
        eigenvalues, V = np.linalg.eigh(self.sigma_xx)
        cutoff = self.d_in * max(self.eps, np.finfo(np.float64).eps) * eigenvalues[-1]
        rank = int(np.sum(eigenvalues > cutoff))
        if rank < self.d_in:
            raise InvalidInput(
                f"inputs cannot be whitened: Σxx has rank {rank} and {self.d_in} would be needed; "
                "drop dependent inputs or project onto the directions that vary first."
            )
        if self.inputs is None or self.targets is None:
            M = (V / np.sqrt(eigenvalues)) @ V.T
            return Task(
                sigma_yx=self.sigma_yx @ M, sigma_xx=np.eye(self.d_in), sigma_yy=self.sigma_yy,
                reduction=self.reduction, input_map=self._map(M), eps=self.eps, name=self.name,
            )  # fmt: skip
        # From the samples themselves: squaring them first would square the condition number.
        left, S, Vt = np.linalg.svd(self.inputs, full_matrices=False)
        size = np.sqrt(len(self.inputs)) if self.reduction == "mean" else 1.0
        white = Task.from_data(size * left @ Vt, self.targets, reduction=self.reduction, name=self.name)
        M = size * (Vt.T / S) @ Vt
        return Task(
            sigma_yx=white.sigma_yx, sigma_xx=np.eye(self.d_in), sigma_yy=self.sigma_yy, inputs=white.inputs,
            targets=self.targets, reduction=self.reduction, input_map=self._map(M), eps=self.eps, name=self.name,
        )  # fmt: skip

    def with_constant(self) -> Task:
        """The same task with a last input that is always 1, as networks with biases see it; `Problem` asks for it.

        >>> lr.Task.from_data([[2.0], [4.0]], [[1.0], [1.0]]).with_constant().sigma_xx
        array([[10.,  3.],
               [ 3.,  1.]])
        """
        if self.constant:
            return self
        if self.inputs is None or self.targets is None:
            raise InvalidInput(
                "task must hold samples where the network has biases, which learn the means, and it holds correlations "
                "only: try Task.from_data(inputs, targets), or a network without biases."
            )
        inputs = np.concatenate([self.inputs, np.ones((len(self.inputs), 1))], axis=1)
        task = Task.from_data(inputs, self.targets, reduction=self.reduction, name=self.name)
        M = self.input_map
        if M is not None:
            M = np.block([[M, np.zeros((len(M), 1))], [np.zeros((1, M.shape[1])), np.ones((1, 1))]])
        return replace(task, constant=True, eps=self.eps, input_map=M)

    def _map(self, M: Float[Array, "in in"]) -> Float[Array, "in original"]:
        return M if self.input_map is None else M @ self.input_map

    def __repr__(self) -> str:
        samples = f", {len(self.inputs)} samples" if self.inputs is not None else ""
        label = f" {self.name!r}" if self.name else ""
        inputs = f"{self.d_in - 1} inputs and a constant" if self.constant else f"{self.d_in} inputs"
        return f"<Task{label}: {inputs}, {self.d_out} outputs{samples}>"


def _correlation(name: str, value: ArrayLike, size: int) -> Float[Array, "d d"]:
    """A symmetric positive semi-definite matrix, or a sentence."""
    C = _check.as_matrix(name, value, (size, size))
    scale = np.abs(C).max()
    if np.abs(C - C.T).max() > 1e-6 * scale:
        raise InvalidInput(
            f"{name} must be symmetric, and it differs from its transpose by {np.abs(C - C.T).max():.3g}."
        )
    C = (C + C.T) / 2
    least = np.linalg.eigvalsh(C)[0]
    if least < -1e-6 * scale:
        raise InvalidInput(f"{name} must have no negative eigenvalue, and its least is {least:.3g}.")
    return C


def _pseudo_inverse(C: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Inverse on the directions that the inputs excite, zero elsewhere."""
    return np.linalg.pinv(C, rcond=len(C) * np.finfo(np.float64).eps, hermitian=True)


def as_task(value: object) -> Task:
    """A task, or a sentence."""
    if not isinstance(value, Task):
        raise InvalidInput(f"task must be a lazyrich Task, and it is a {type(value).__name__}: try Task.from_data.")
    return value
