"""The tangent kernel of a network, held whole or as a sketch, and how far another one is from it.

K = JJᵀ has a row for each sample and output. J is asked for in blocks, and what is kept is K alone:

- *whole*, from J or from few blocks of it, where that fits;
- with *folded* gradients where the network is large: parameters get random signs, and every 32,749th of them is added
  up (a count sketch), so that J̃J̃ᵀ is K on average, with an error of about √(2/32,749) of ‖K‖ for a kernel of one
  direction. J is computed once, block by block, and never held;
- between random *combinations* of the outputs where these are many: rows belong to 16 of them, columns to 16 others, so
  that ⟨K̃, K̃'⟩ is ⟨K, K'⟩ on average.

All kernels of one run are sketched alike, so that most of the error is common to them and leaves their ratios. What
is left is told as a standard error, by the jackknife: eight parts of the columns, and each combination, are left out in
turn. A kernel held whole has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from lazyrich import _engines, _progress
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.laziness.tangent import compare, product

_HELD = 2**27  # numbers of a Jacobian at once: 512 MiB in float32, and there are two
_FOLDED = 2**25  # the same where each block is folded at once
_LARGEST = 2**29  # numbers of one gradient
_BLOCKS = 4  # of a Jacobian that is not folded: of b blocks, (b + 1)/2 Jacobians are computed
_ROWS = 4096  # of a kernel
_COLUMNS = 32_749  # a prime: no layer is folded in its own period
_GROUPS, _COMBINATIONS = 8, 16
_CHUNK = 2**22  # entries of two kernels that are compared at a time

Jacobian = Any  # a matrix of any array library, on the device where the model is
JacobianOf = Callable[[slice, "Float[Array, 'outputs r'] | None"], Jacobian]  # of combinations of outputs at samples
Kernel = list[Any]  # matrices whose sum is K: one, or one for each group of folded columns


class Change(NamedTuple):
    """From a first kernel to another, with standard errors that are 0 where nothing is sketched."""

    norm: float  # ‖K‖
    change: float  # ‖K − K_0‖
    distance: float  # S; nan where one of the two is zero
    movement_error: float = 0.0
    distance_error: float = 0.0


@dataclass(frozen=True, eq=False)
class Plan:
    """How the kernels of one run are computed, the same for all its checkpoints.

    >>> small, large = Plan.of(64, 10, 4_810), Plan.of(64, 10, 11_000_000)
    >>> small.columns, large.columns, Plan.of(64, 50_000, 4_810).combinations.shape
    (0, 32749, (50000, 32))
    """

    samples: int
    outputs: int
    parameters: int
    columns: int  # that gradients are folded into; 0: they are not
    combinations: Float[Array, "outputs r"] | None  # a half for the rows, the other for the columns
    seed: int

    @classmethod
    def of(cls, samples: int, outputs: int, parameters: int, seed: int = 0, columns: int | None = None) -> Plan:
        """What fits; `columns`, where given, are taken, and more than there are parameters fold nothing."""
        if parameters > _LARGEST:
            raise InvalidInput(
                f"model must have at most {_LARGEST:,} parameters for its tangent kernel, and it has {parameters:,}."
            )
        drawn = None
        if samples * outputs > _ROWS:
            count = max(2, min(_COMBINATIONS, _ROWS // 2 // samples))
            drawn = np.random.default_rng((seed, 1)).normal(size=(outputs, 2 * count)) / np.sqrt(count)
        rows = outputs if drawn is None else drawn.shape[1]
        if columns is None:
            fits = samples <= _BLOCKS * (_HELD // (rows * parameters))
            columns = 0 if fits and (drawn is None or samples * rows * parameters <= _HELD) else _COLUMNS
        return cls(samples, outputs, parameters, columns if columns < parameters else 0, drawn, seed)

    @property
    def exact(self) -> bool:
        return not self.columns and self.combinations is None

    @property
    def rows(self) -> int:
        """Gradients for each sample."""
        return self.outputs if self.combinations is None else self.combinations.shape[1]

    def kernel(self, jacobian: JacobianOf) -> Kernel:
        """K of one checkpoint."""
        at_once = max(1, (_FOLDED if self.columns else _HELD) // (self.rows * self.parameters))
        if not self.exact or at_once >= self.samples:
            return self._from_all(jacobian, at_once)
        slices = _slices(self.samples, at_once)
        blocks: dict[tuple[int, int], Any] = {}
        with _progress.progress(len(slices) * (len(slices) + 1) / 2, "tangent kernel") as tick:
            for i, one in enumerate(slices):
                A = jacobian(one, None)
                for j, other in enumerate(slices[i:], start=i):
                    block = product(A, A if i == j else jacobian(other, None))
                    blocks[i, j], blocks[j, i] = block, block.T
                    tick(1)
        xp = array_api_compat.array_namespace(block)
        row = [xp.concat([blocks[i, j] for j in range(len(slices))], axis=1) for i in range(len(slices))]
        return [xp.concat(row, axis=0)]

    def _from_all(self, jacobian: JacobianOf, at_once: int) -> Kernel:
        """From gradients that are all held, as they are or folded."""
        signs, parts = None, []
        with _progress.progress(self.samples, "tangent kernel") as tick:
            for some in _slices(self.samples, at_once):
                for combined in self._combined(at_once):
                    J = jacobian(some, combined)
                    if self.columns:
                        signs = _signs_like(J, self.seed) if signs is None else signs
                        J = _folded(J, signs, self.columns)
                    parts.append(J)
                tick(some.stop - some.start)
        J = parts[0] if len(parts) == 1 else array_api_compat.array_namespace(parts[0]).concat(parts, axis=0)
        left, right = J, J
        if self.combinations is not None:
            both = J.reshape(self.samples, 2, self.rows // 2, J.shape[1])
            left, right = (both[:, side].reshape(-1, J.shape[1]) for side in (0, 1))
        if not self.columns:
            return [product(left, right)]
        return [product(left[:, g::_GROUPS], right[:, g::_GROUPS]) for g in range(_GROUPS)]

    def _combined(self, at_once: int) -> Iterator[Float[Array, "outputs r"] | None]:
        """All rows of some samples; or of one, few at a time, where they are too many."""
        few = max(1, _FOLDED // self.parameters)
        if at_once > 1 or few >= self.rows or not self.columns:
            yield self.combinations
            return
        every = np.eye(self.outputs) if self.combinations is None else self.combinations
        yield from (every[:, some] for some in _slices(self.rows, few))

    def compared(self, first: Kernel, other: Kernel) -> Change:
        """How far `other` is from the first."""
        one, two = reduce(lambda a, b: a + b, first), reduce(lambda a, b: a + b, other)
        sums = _sums(one, two, 1 if self.combinations is None else self.rows // 2)
        norm, change, distance, _ = _numbers(_joined(sums.reshape(-1, 3)))
        variance = np.zeros(2)
        if self.columns:
            variance += _jackknifed(
                [_joined(_sums(one - A, two - B, 1).reshape(-1, 3)) for A, B in zip(first, other, strict=True)]
            )
        if self.combinations is not None:
            for axis in (0, 1):
                without = (np.delete(sums, i, axis).reshape(-1, 3) for i in range(sums.shape[axis]))
                variance += _jackknifed([_joined(some) for some in without])
        return Change(norm, change, distance, *(float(error) for error in np.sqrt(variance)))


def _slices(count: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


# folding -----------------------------------------------------------------------------------------------------


def _signs_like(J: Jacobian, seed: int) -> Any:
    """±1 for each parameter, in the library and on the device of J."""
    signs = 1 - 2 * np.random.default_rng((seed, 2)).integers(0, 2, J.shape[1], dtype=np.int8)
    xp = array_api_compat.array_namespace(J)
    return xp.asarray(signs.astype(np.float32), dtype=J.dtype, device=array_api_compat.device(J))


def _folded(J: Jacobian, signs: Any, columns: int) -> Jacobian:
    """Σ of the columns k, k + d, k + 2d, …, each with its sign."""
    if array_api_compat.is_jax_array(J):
        return _in_jax()(J, signs, columns)
    xp = array_api_compat.array_namespace(J)
    folded = xp.zeros((J.shape[0], columns), dtype=J.dtype, device=array_api_compat.device(J))
    for some in _slices(J.shape[1], columns):
        folded[:, : some.stop - some.start] += J[:, some] * signs[some]
    return folded


@cache
def _in_jax() -> Callable[..., Any]:
    """Compiled: nothing is written in place there."""
    jax = _engines.load("jax", "a tangent kernel")

    def folded(J: Any, signs: Any, columns: int) -> Any:
        padded = jax.numpy.pad(J * signs, ((0, 0), (0, -J.shape[1] % columns)))
        return padded.reshape(len(J), -1, columns).sum(axis=1)

    return jax.jit(folded, static_argnums=2)


# comparing ---------------------------------------------------------------------------------------------------


def _sums(K_0: Any, K: Any, combinations: int) -> Float[Array, "a b three"]:
    """p = ‖K_0‖², c = ⟨K_0, K⟩/p and R = ‖K − cK_0‖² of each pair of combinations; or of some rows at a time."""
    r = combinations
    if r > 1:
        return np.array([[compare(K_0[a::r, b::r], K[a::r, b::r]) for b in range(r)] for a in range(r)])
    some = _slices(len(K), max(1, _CHUNK // K.shape[1]))
    return np.array([[compare(K_0[rows], K[rows])] for rows in some])


def _joined(sums: Float[Array, "blocks three"]) -> Float[Array, " three"]:
    """p, c and R of all blocks together, as regressions are joined."""
    p, c, R = sums.T
    whole = p.sum()
    slope = np.sum(p * c) / whole if whole > 0 else 0.0
    return np.array([whole, slope, R.sum() + np.sum(p * (c - slope) ** 2)])


def _numbers(joined: Float[Array, " three"]) -> tuple[float, float, float, float]:
    """‖K‖, ‖K − K_0‖, S and the movement."""
    p, c, R = joined
    with np.errstate(invalid="ignore", divide="ignore"):
        norm, change = np.sqrt(c**2 * p + R), np.sqrt((c - 1) ** 2 * p + R)
        distance = (R / norm**2) / (1 + c * np.sqrt(p) / norm) if p > 0 else np.nan
        movement = change / np.maximum(norm, np.sqrt(p))
    return float(norm), float(change), float(distance), float(movement)


def _jackknifed(without: Sequence[Float[Array, " three"]]) -> Float[Array, " two"]:
    """The variance of the movement and of S, from what they are without each part."""
    found = np.array([[numbers[3], numbers[2]] for numbers in map(_numbers, without)])
    return (len(found) - 1) * found.var(axis=0)
