"""A task: all that gradient descent on squared error sees of a data set.

For linear networks that is three matrices (theory: section 0)

    Σxx = mean xxᵀ,   Σyx = mean yxᵀ,   Σyy = mean yyᵀ      (or sums)

    loss(W) = ½ tr(W Σxx Wᵀ) − tr(W Σyxᵀ) + ½ tr Σyy

and the samples themselves are kept where they were given, since nonlinear networks need them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._rounding import present
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


class Residuals(NamedTuple):
    """The loss of a linear map as a sum of squares, ½‖B − WRᵀ‖² + rest with RᵀR = Σxx; NumPy's arrays or JAX's.

    Accurate near the minimum too, and where inputs are nearly collinear, so that the best map T is huge.

    >>> parts = lr.Task.from_data([[1.0], [2.0]], [[1.0], [2.0]]).residuals
    >>> float(parts.loss(np.array([[1.0]])).round(12)), float(parts.loss(np.array([[3.0]])).round(12))
    (0.0, 5.0)
    """

    B: Float[Any, "out in"]
    R: Any  # in × in, or a number r where it is r·I
    rest: Any

    def loss(self, W: Float[Any, "*T out in"]) -> Any:  # a number for one map, an array for many
        error = self.B - (W @ self.R.T if self.R.ndim else self.R * W)
        return (error**2).sum((-2, -1)) / 2 + self.rest


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
    classes: tuple[Any, ...] = ()  # of labels, in the order of the outputs
    items: tuple[str, ...] = ()  # names of the samples, in their order, where they have names

    def __post_init__(self) -> None:
        for name in ("sigma_yx", "sigma_xx", "sigma_yy", "inputs", "targets", "input_map"):
            array = getattr(self, name)
            if array is not None and not (isinstance(array, np.ndarray) and not array.flags.writeable):
                object.__setattr__(self, name, _check.read_only(_check.as_matrix(name, array)))  # a copy of its own

    @classmethod
    def from_data(
        cls,
        inputs: ArrayLike,
        targets: ArrayLike,
        *,
        reduction: str = "mean",
        name: str = "",
        items: Sequence[str] = (),
    ) -> Task:
        """A task from samples.

        Parameters
        ----------
        inputs, targets : P × d_in and P × d_out; rows are samples, and a vector of P targets is one output. Numbers are
            targets, whole ones too: classes are for `from_labels`
        reduction : "mean" or "sum" over samples
        name : for people
        items : names of the samples, by which figures and groups know them; none without

        Returns
        -------
        Task
        """
        X, Y = _check.as_matrix("inputs", inputs), _check.as_array("targets", targets)
        Y = _check.as_matrix("targets", Y[:, None] if Y.ndim == 1 else Y)
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
            items=() if isinstance(items, tuple) and not items else _check.words("items", items, len(X)),
        )

    @classmethod
    def from_labels(
        cls,
        inputs: ArrayLike,
        labels: ArrayLike,
        *,
        classes: object = None,
        reduction: str = "mean",
        name: str = "",
    ) -> Task:
        """A task of classes: one output for each, whose target is 1 for samples of that class and 0 for others.

        `task.classes` has them in the order of the outputs.

        Parameters
        ----------
        inputs : P × d_in; rows are samples
        labels : P whole numbers or words
        classes : all classes in the order of the outputs, or how many there are, of the labels 0, 1, …; without them
            those that occur, sorted
        reduction, name : as in `from_data`

        Returns
        -------
        Task

        >>> task = lr.Task.from_labels([[1.0], [2.0], [3.0]], ["dog", "cat", "dog"])
        >>> task.classes, task.targets.tolist()
        (('cat', 'dog'), [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
        """
        given = _check.as_labels("labels", labels)
        if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
            classes = range(_check.count("classes", classes))
        if classes is not None and (isinstance(classes, str) or not isinstance(classes, Iterable)):
            raise InvalidInput(f"classes must be a list of labels, and it is {_check.shown(classes)}: try range(3).")
        known: list[Any] = list(np.unique(given).tolist()) if classes is None else list(classes)
        if not all(isinstance(label, str | int | float | np.generic) and label == label for label in known):
            raise InvalidInput(f"classes must be labels, numbers or words, and they are {_check.shown(known)}.")
        place = {label: i for i, label in enumerate(known)}
        if len(place) != len(known) or len(known) < 2:
            raise InvalidInput(f"classes must be two or more, each named once, and they are {_check.shown(known)}.")
        if unknown := [label for label in given if label not in place]:
            raise InvalidInput(f"labels must be among the classes, and {_check.shown(unknown[0])} is not.")
        targets = np.eye(len(known))[[place[label] for label in given]]
        task = cls.from_data(inputs, targets, reduction=reduction, name=name)
        return replace(task, eps=_check.eps_of(inputs), classes=tuple(known))

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
        there = present(s, self.sigma_yx.shape, self.eps)
        return Modes(*map(_check.read_only, (U, np.where(there, s, 0.0), Vt.T)))

    @cached_property
    def target(self) -> Float[Array, "out in"]:
        """T = Σyx Σxx⁻¹, the best linear map (least norm where Σxx is singular)."""
        if self.whitening_error == 0:
            return _check.read_only(self.sigma_yx / self.input_scale)
        if self.inputs is not None and self.targets is not None:
            (B, _, _), (U, S, V) = self.residuals, self._directions()
            seen = self._noise(self.inputs) * S[0] < S
            return _check.read_only((B @ U[:, seen] / S[seen]) @ V[:, seen].T)
        roots, V, _ = self._spectrum()
        return _check.read_only(((self.sigma_yx @ V) / roots**2) @ V.T)

    @cached_property
    def residuals(self) -> Residuals:
        """The loss of linear maps; from samples themselves, for Σxx has the square of their condition number."""
        d, weight = self.d_in, 1.0
        if self.inputs is not None and self.targets is not None and self.reduction == "mean":
            weight = 1 / len(self.inputs)
        if self.whitening_error == 0:
            r = np.sqrt(np.array(self.input_scale))
            return Residuals(r * self.target, r, self._floor(weight))
        B, R = np.zeros(self.sigma_yx.shape), np.zeros(self.sigma_xx.shape)
        if self.inputs is None or self.targets is None:
            roots, V, _ = self._spectrum()
            B[:, : len(roots)], R[: len(roots)] = (self.sigma_yx @ V) / roots, roots[:, None] * V.T
            return Residuals(B, R, self._floor(weight))
        both = np.asarray(np.linalg.qr(np.sqrt(weight) * np.concatenate([self.inputs, self.targets], axis=1), mode="r"))
        rows = min(d, len(both))
        B[:, :rows], R[:rows] = both[:rows, d:].T, both[:rows, :d]
        return Residuals(B, R, np.asarray(np.sum(both[d:, d:] ** 2) / 2))

    def _floor(self, weight: float) -> Float[Array, ""]:
        """½ tr(Σyy − T Σxx Tᵀ), by residuals where samples are known."""
        if self.inputs is not None and self.targets is not None:
            return np.asarray(weight * np.sum((self.targets - self.inputs @ self.target.T) ** 2) / 2)
        return np.asarray(max(np.trace(self.sigma_yy) - np.sum(self.sigma_yx * self.target), 0.0) / 2)

    @property
    def plain_xx(self) -> Float[Array, "..."]:
        """Σxx, or the number c where it is c·I."""
        return self.sigma_xx if self.whitening_error else np.asarray(self.sigma_xx[0, 0])

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
        """The least loss any linear map reaches, ½ tr(Σyy − T Σxx Tᵀ)."""
        B, _, rest = self.residuals
        if self.whitening_error == 0 or self.inputs is None or self.targets is None:
            return float(rest)
        U, S, _ = self._directions()  # not the loss at T, which may be huge
        return float(rest + np.sum((B @ U[:, self._noise(self.inputs) * S[0] >= S]) ** 2) / 2)

    def _directions(self) -> tuple[Float[Array, "in in"], Float[Array, " in"], Float[Array, "in in"]]:
        """U, S, V of the inputs' R."""
        U, S, Vt = np.linalg.svd(self.residuals.R)
        return U, S, Vt.T

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
        return self.residuals.loss(np.asarray(function))

    @property
    def rank(self) -> int:
        """Number of directions that the inputs have: that of `support`, for less where Σxx shows that it has all."""
        values = np.linalg.eigvalsh(self.sigma_xx) if self.whitening_error else np.ones(1)
        clear = values[0] > 1e-6 * values[-1] and self.eps < 1e-4
        return self.d_in if clear else self.support.shape[1]

    @cached_property
    def support(self) -> Float[Array, "in r"]:
        """An orthonormal basis of the directions that the inputs have; one beyond rounding of the data counts.

        >>> lr.Task.from_data([[1.0, 1.0], [2.0, 2.0]], [[1.0], [1.0]]).support.shape
        (2, 1)
        """
        if self.whitening_error == 0:
            return _check.read_only(np.eye(self.d_in))
        return _check.read_only(self._spectrum()[1])

    def _spectrum(self) -> tuple[Float[Array, " r"], Float[Array, "in r"], Float[Array, "P r"] | None]:
        """Roots of the eigenvalues of Σxx that are not zero, the directions V they belong to, and of samples the U in
        X = U S Vᵀ. From samples themselves: squaring them first would square the condition number."""
        eps = float(np.finfo(np.float64).eps)
        if self.inputs is None:
            values, V = np.linalg.eigh(self.sigma_xx)
            seen = values > self.d_in * max(self.eps, eps) * values[-1]
            return np.sqrt(values[seen]), V[:, seen], None
        U, S, Vt = np.linalg.svd(self.inputs, full_matrices=False)
        seen = self._noise(self.inputs) * S[0] < S
        size = np.sqrt(len(self.inputs)) if self.reduction == "mean" else 1.0
        return S[seen] / size, Vt[seen].T, U[:, seen]

    def _noise(self, inputs: Float[Array, "P in"]) -> float:
        """The share of their largest singular value that is not theirs: rounding of every entry, of whatever size the
        data are, leaves 2 eps; the rest is the SVD's own."""
        return 8 * self.eps + max(inputs.shape) * float(np.finfo(np.float64).eps)

    def whitened(self) -> Task:
        """The same task for inputs `input_map @ x`, whose Σxx is the identity on the directions that the inputs have.

        Where these are not all, Σxx is the projector onto them: `problem.on_support()` leaves the others out. A network
        W learned on it is `W @ input_map` on the inputs as they were.

        >>> task = lr.Task.from_data([[2.0, 0.0], [0.0, 3.0], [-2.0, 0.0]], [[1.0], [0.0], [1.0]])
        >>> task.whitened().sigma_xx
        array([[1., 0.],
               [0., 1.]])
        """
        if self.constant:
            raise InvalidInput(
                "task must be whitened before it is given to a network with biases, and a constant is among its inputs "
                "already: try Problem(task.whitened(), network)."
            )
        roots, V, U = self._spectrum()
        full = len(roots) == self.d_in
        M = (V / roots) @ V.T
        about: dict[str, Any] = {
            "sigma_xx": np.eye(self.d_in) if full else V @ V.T, "sigma_yy": self.sigma_yy, "eps": self.eps,
            "reduction": self.reduction, "input_map": self._map(M), "name": self.name, "classes": self.classes,
            "items": self.items,
        }  # fmt: skip
        if U is None or self.targets is None:
            return Task(sigma_yx=self.sigma_yx @ M, **about)
        size = np.sqrt(len(U)) if self.reduction == "mean" else 1.0
        white = Task.from_data(size * U @ V.T, self.targets, reduction=self.reduction)
        return Task(sigma_yx=white.sigma_yx, inputs=white.inputs, targets=self.targets, **about)

    def seen_through(self, V: Float[Array, "in r"]) -> Task:
        """The task of the inputs Vᵀx, V a basis of directions (orthonormal, and all that the inputs have)."""
        xx = V.T @ self.sigma_xx @ V
        white = np.abs(xx - np.eye(len(xx))).max() <= 8 * len(xx) * np.finfo(np.float64).eps
        return replace(
            self,
            sigma_yx=self.sigma_yx @ V,
            sigma_xx=np.eye(len(xx)) if white and self.input_map is not None else (xx + xx.T) / 2,
            inputs=None if self.inputs is None else self.inputs @ V,
            input_map=V.T if self.input_map is None else V.T @ self.input_map,
        )

    def centred(self) -> Task:
        """The same task with the means taken off inputs and targets.

        >>> lr.Task.from_data([[1.0], [3.0]], [5.0, 7.0]).centred().inputs
        array([[-1.],
               [ 1.]])
        """
        if self.inputs is None or self.targets is None:
            raise InvalidInput(
                "task must hold samples to be centred, and it holds correlations only: try Task.from_data(inputs, "
                "targets)."
            )
        X, Y = self.inputs - self.inputs.mean(axis=0), self.targets - self.targets.mean(axis=0)
        task = Task.from_data(X, Y, reduction=self.reduction, name=self.name)
        return replace(task, eps=self.eps, input_map=self.input_map, classes=self.classes, items=self.items)

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
        return replace(task, constant=True, eps=self.eps, input_map=M, classes=self.classes, items=self.items)

    def without_constant(self) -> Task:
        """The task before `with_constant`."""
        if not self.constant:
            return self
        assert self.inputs is not None and self.targets is not None  # a constant is added to samples only
        task = Task.from_data(self.inputs[:, :-1], self.targets, reduction=self.reduction, name=self.name)
        M = None if self.input_map is None else self.input_map[:-1, :-1]
        return replace(task, eps=self.eps, input_map=M, classes=self.classes, items=self.items)

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


def as_task(value: object, name: str = "task") -> Task:
    """A task, or a sentence."""
    if not isinstance(value, Task):
        raise InvalidInput(f"{name} must be a lazyrich Task, and it is a {type(value).__name__}: try Task.from_data.")
    return value
