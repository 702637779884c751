"""The neural tangent kernel of one network, without ever forming it (theory: sections 4 and 8).

K = Σ_ℓ η_ℓ J_ℓJ_ℓᵀ, with J_ℓ the Jacobian of the outputs on all samples with respect to layer ℓ; outputs are the outer
index and samples the inner one. X holds the samples in rows. Linear networks of any depth have one Kronecker product
per layer,

    K = Σ_ℓ η_ℓ B_ℓ ⊗ XA_ℓXᵀ,     B_ℓ = W_{L:ℓ+1}W_{L:ℓ+1}ᵀ,     A_ℓ = W_{ℓ−1:1}ᵀW_{ℓ−1:1},

so that ⟨K, K'⟩ = Σ_{ℓm} η_ℓη_m tr(B_ℓB'_m) tr(S_ℓS'_m) with S_ℓ = RA_ℓRᵀ, where X = ER, E has orthonormal columns and R
no more rows than there are inputs or samples. Two layers with a piecewise linear activation are in `piecewise`. With
biases, the constant unit has no weights that move (`networks.biases`): B_ℓ leaves it out. Where a task holds
correlations only, K stands for the kernel divided by the number of samples: it has norms, distances, eigenvalues and an
alignment, but no matrix.

Small distances keep their digits: with d = ‖K − K'‖ from differences of the factors,
1 − cos = (d² − (‖K‖ − ‖K'‖)²)/(2‖K‖‖K'‖) has an error of about 1e-16·d²/(‖K‖‖K'‖), or 1e-16 where that is less.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.tasks import Task

_MATRIX = 2**31  # bytes above which no matrix is formed
_TABLE = 2**24  # entries of the blocks of all kernels at once
_DENSE = 64  # rows up to which all eigenvalues are as quick as one


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the kernels of a task share: X = ER with orthonormal columns in E, and the targets Y in the same basis."""

    task: Task
    E: Float[Array, "n r"] | None  # None: the identity
    R: Float[Array, "r in"]
    Y: Float[Array, "r out"]

    @classmethod
    def of_samples(cls, task: Task) -> Inputs:
        return cls(task, None, _samples(task), np.asarray(task.targets))

    @classmethod
    def reduced(cls, task: Task) -> Inputs:
        """R of at most d_in rows; without samples any R with RᵀR = Σxx will do, and the Y with YᵀR = Σyx."""
        if task.inputs is None:
            eigenvalues, V = np.linalg.eigh(task.sigma_xx)
            seen = eigenvalues > task.d_in * np.finfo(np.float64).eps * eigenvalues[-1]  # Σyx vanishes on the others
            root = np.sqrt(eigenvalues, where=seen, out=np.zeros_like(eigenvalues))[:, None]
            Y = np.divide((task.sigma_yx @ V).T, root, where=seen[:, None], out=np.zeros((task.d_in, task.d_out)))
            return cls(task, None, root * V.T, Y)
        if len(task.inputs) <= task.d_in:
            return cls.of_samples(task)
        E, R = np.linalg.qr(task.inputs)
        return cls(task, E, R, E.T @ task.targets)

    @cached_property
    def bare(self) -> Float[Array, "r r"]:
        """RRᵀ: S of the first layer."""
        return self.R @ self.R.T

    @cached_property
    def squared(self) -> Float[Array, "r r"]:
        """RRᵀ, every entry squared."""
        return self.bare**2

    def same_as(self, other: Inputs) -> bool:
        X, X2 = self.task.inputs, other.task.inputs
        if X is None or X2 is None:
            return X is X2 and np.array_equal(self.R, other.R)
        return X is X2 or np.array_equal(X, X2)


def _samples(task: Task) -> Float[Array, "n in"]:
    if task.inputs is None:
        raise InvalidInput(
            "task must hold samples, since the kernel has one row per output and sample, and it holds correlations "
            "only: try Task.from_data(inputs, targets)."
        )
    return task.inputs


class Comparison(NamedTuple):
    """Two kernels side by side: numbers, or arrays of them where one is a stack, of NumPy or JAX."""

    norm: Any
    other_norm: Any
    inner: Any  # ⟨K, K'⟩
    change: Any  # ‖K − K'‖
    along: Any  # ⟨K − K', K⟩

    @classmethod
    def of_blocks(cls, sums: Iterable[Any]) -> Comparison:
        """From the sums of `block_products` over all blocks of two kernels."""
        norm, other_norm, inner, change, along = sums
        return cls(norm**0.5, other_norm**0.5, inner, change**0.5, along)

    @property
    def distance(self) -> Any:
        """1 − cos of the angle; 0 between kernels that are both zero, nan where one is."""
        xp, size = array_namespace(self.norm, self.other_norm), self.norm * self.other_norm
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = (2 * self.along - self.change**2) / (self.norm + self.other_norm)  # ‖K‖ − ‖K'‖, without cancellation
            near, far = (self.change - gap) * (self.change + gap) / (2 * size), 1 - self.inner / size
        apart = xp.maximum(xp.where(self.change**2 >= size, far, near), 0.0)
        return xp.where(size > 0, apart, xp.where(self.norm == self.other_norm, 0.0, np.nan))[()]

    @property
    def movement(self) -> Any:
        """‖K − K'‖ / max(‖K‖, ‖K'‖), from 0 to √2; 0 between kernels that are both zero."""
        largest = np.maximum(self.norm, self.other_norm)
        return self.change / np.where(largest > 0, largest, 1.0)


def block_products(K: Any, other: Any, dot: Callable[[Any, Any], Any]) -> list[Any]:
    """What a block of two kernels adds to the sums that compare them; `dot` is ⟨A, B⟩ in their array library."""
    apart = K - other
    return [dot(A, B) for A, B in ((K, K), (other, other), (K, other), (apart, apart), (apart, K))]


def _dot(A: Float[Array, "... n m"], B: Float[Array, "... n m"]) -> Any:
    """⟨A, B⟩ of two matrices, or of each in a stack."""
    return np.vecdot(A.reshape(*A.shape[:-2], -1), B.reshape(*B.shape[:-2], -1))


def _multiple_of_one(M: Float[Array, "n n"]) -> bool:
    """Up to rounding."""
    size = abs(float(M[0, 0]))
    return bool(np.abs(M - M[0, 0] * np.eye(len(M))).max() <= 64 * np.finfo(np.float64).eps * size)


class Kernel(ABC):
    """The tangent kernel of one network on one set of inputs; `kernels(traj)` makes them."""

    inputs: Inputs
    d_out: int

    @property
    @abstractmethod
    def trace(self) -> float:
        """tr K."""

    @abstractmethod
    def inner(self, other: Any) -> Any:
        """⟨K, K'⟩ = tr KK'."""

    @abstractmethod
    def compare(self, other: Any) -> Comparison:
        """Norms, inner product, distance and difference of two kernels."""

    @abstractmethod
    def _apply(self, V: Float[Array, "k out r"]) -> Float[Array, "... k out r"]:
        """K on vectors in the basis E."""

    @abstractmethod
    def _blocks(self) -> Iterator[tuple[int, int, Float[Array, "n n"]]]:
        """Outputs o ≤ p and K^{op}."""

    @cached_property
    def norm(self) -> Any:
        """‖K‖, Frobenius."""
        return np.sqrt(np.maximum(self.inner(self), 0.0))

    @property
    def alignment(self) -> Any:
        """⟨K, yyᵀ⟩/(‖K‖‖y‖²) with the targets y, from 0 to 1; nan where the kernel or the targets are zero."""
        task, Y = self.inputs.task, self.inputs.Y.T
        size = self.norm * float(np.trace(task.sigma_yy) if task.targets is None else np.sum(task.targets**2))
        with np.errstate(invalid="ignore"):  # 0/0
            return _dot(self._apply(Y[None])[..., 0, :, :], Y) / size

    def distance(self, other: Kernel) -> float:
        """S = 1 − ⟨K, K'⟩/(‖K‖‖K'‖), from 0 to 1; 0 between kernels that are both zero, nan where one is."""
        return float(self.compare(other).distance)

    def change(self, other: Kernel) -> float:
        """‖K − K'‖, to about 1e-16 of the larger norm."""
        return float(self.compare(other).change)

    def matvec(self, vector: Any) -> Array:
        """Kv of a vector, or of the columns of a matrix, with one row per output and sample, samples within outputs."""
        (n, size), v = self._shape, _check.as_array("vector", vector)
        if v.ndim > 2 or v.shape[:1] != (size,):
            raise InvalidInput(
                f"vector must have {size} rows ({self.d_out} outputs × {n} samples), and it has shape {v.shape}."
            )
        V, E = v.T.reshape(-1, self.d_out, n), self.inputs.E
        return (self._apply(V) if E is None else self._apply(V @ E) @ E.T).reshape(v.T.shape).T

    def matrix(self) -> Float[Array, "rows rows"]:
        """K itself."""
        n, size = self._shape
        if 8 * size**2 > _MATRIX:
            raise InvalidInput(
                f"matrix would have {size} × {size} entries ({8 * size**2 / 2**30:.3g} GiB), and 2 GiB are the most: "
                "matvec, inner, norm and largest_eigenvalue do without it."
            )
        K = np.empty((self.d_out, n, self.d_out, n))
        for o, p, block in self._blocks():
            K[p, :, o, :] = block.T
            K[o, :, p, :] = block
        return K.reshape(size, size)

    def largest_eigenvalue(self) -> float:
        """By Lanczos iteration, to rounding. In the basis E, which leaves out eigenvalues zero only."""
        shape = (-1, self.d_out, len(self.inputs.Y))
        size = shape[1] * shape[2]

        def apply(v: Array) -> Array:
            return self._apply(v.reshape(shape)).reshape(v.shape)

        if self.trace == 0:
            return 0.0
        if size <= _DENSE:
            return float(np.linalg.eigvalsh(apply(np.eye(size)))[-1])
        from scipy.sparse.linalg import LinearOperator, eigsh

        K, start = LinearOperator((size, size), apply, dtype=np.float64), np.random.default_rng(0).normal(size=size)
        return float(eigsh(K, k=1, which="LA", v0=start, return_eigenvectors=False)[0])

    @property
    def _shape(self) -> tuple[int, int]:
        """Numbers of samples and of rows."""
        n = len(_samples(self.inputs.task))
        return n, n * self.d_out

    def _match(self, other: Any) -> Any:
        if type(other) is type(self) and other.d_out == self.d_out and other.inputs.same_as(self.inputs):
            return other
        raise InvalidInput(f"other must be a {type(self).__name__} on the same inputs, and it is {other!r}.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.d_out} outputs on {self.inputs.task!r}>"


class KroneckerKernel(Kernel):
    """Σ_ℓ B_ℓ ⊗ XA_ℓXᵀ of a linear network, the rates in B_ℓ; or a stack of such kernels, one per time.

    Factors of a stack that differ have an axis of times in front, and so have its numbers: trace, norm, alignment, and
    what comes of comparing it. The rest is for one kernel.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_data([[1.0, 0.0], [0.0, 2.0]], [[1.0], [1.0]])
    >>> traj = lr.flow(lr.Problem(task, lr.Network([[[1.0, 1.0]], [[3.0]]])), [0.0])
    >>> lr.observables.kernels(traj)[0].matrix()
    array([[10.,  2.],
           [ 2., 40.]])
    """

    def __init__(
        self, inputs: Inputs, B: Sequence[Float[Array, "... out out"]], S: Sequence[Float[Array, "... r r"]]
    ) -> None:
        self.inputs, self.d_out, self.terms = inputs, inputs.task.d_out, list(zip(B, S, strict=True))

    @property
    def trace(self) -> Any:
        return sum(np.linalg.trace(B) * np.linalg.trace(S) for B, S in self.terms)

    def largest_eigenvalue(self) -> float:
        """Of two layers on white inputs the sum of the two terms' own, for these share their eigenvectors."""
        if len(self.terms) == 2 and _multiple_of_one(self.terms[0][1]) and _multiple_of_one(self.terms[1][0]):
            return float(sum(np.linalg.eigvalsh(B)[-1] * np.linalg.eigvalsh(S)[-1] for B, S in self.terms))
        return super().largest_eigenvalue()

    def inner(self, other: Any) -> Any:
        its = self._match(other).terms
        return sum(_dot(B, B2) * _dot(S, S2) for B, S in self.terms for B2, S2 in its)

    def compare(self, other: Any) -> Comparison:
        inner = self.inner(other)
        if len(other.terms) != len(self.terms):
            raise InvalidInput(f"other must have {len(self.terms)} layers too, and it has {len(other.terms)}.")
        apart = self._minus(other)
        return Comparison(self.norm, other.norm, inner, apart.norm, apart.inner(self))

    def _minus(self, other: KroneckerKernel) -> KroneckerKernel:
        """K − K' = Σ_ℓ (B_ℓ − B'_ℓ) ⊗ (S_ℓ + S'_ℓ)/2 + (B_ℓ + B'_ℓ)/2 ⊗ (S_ℓ − S'_ℓ): terms as small as the change.

        Along a trajectory, the first layer's S and the last layer's B stay the same and add none.
        """
        apart: list[tuple[Array, Array]] = []
        for (B, S), (B2, S2) in zip(self.terms, other.terms, strict=True):
            same = S is S2 or np.array_equal(S, S2)
            if not np.array_equal(B, B2):
                apart.append((B - B2, S if same else (S + S2) / 2))
            if not same:
                apart.append(((B + B2) / 2, S - S2))
        return KroneckerKernel(self.inputs, [B for B, _ in apart], [S for _, S in apart])

    def _apply(self, V: Float[Array, "k out r"]) -> Float[Array, "... k out r"]:
        return np.asarray(sum(B[..., None, :, :] @ V @ S[..., None, :, :] for B, S in self.terms))

    def _blocks(self) -> Iterator[tuple[int, int, Float[Array, "n n"]]]:
        E = self.inputs.E
        on_samples = [(B, S if E is None else E @ S @ E.T) for B, S in self.terms]
        for o, p in itertools.combinations_with_replacement(range(self.d_out), 2):
            yield o, p, np.asarray(sum(B[o, p] * M for B, M in on_samples))

    @staticmethod
    def inner_table(many: list[Any]) -> Float[Array, "T T"]:
        """⟨K_s, K_t⟩ of all pairs, by products of large matrices."""
        terms = [term for K in many for term in K.terms]
        count, r = len(terms), len(terms[0][1])
        step = max(1, _TABLE // (count * r))
        B, of_S = np.array([B for B, _ in terms]).reshape(count, -1), np.zeros((count, count))
        for start in range(0, r, step):
            rows = np.array([S[start : start + step] for _, S in terms]).reshape(count, -1)
            of_S += rows @ rows.T
        return (B @ B.T * of_S).reshape(len(many), -1, len(many), count // len(many)).sum(axis=(1, 3))
