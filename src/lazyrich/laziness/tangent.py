"""How far tangent kernels have moved, for any network: in blocks of samples, so that no kernel is ever held whole.

The kernel of a state is K = JJᵀ, J the Jacobian of all outputs at all samples by all parameters. Its distance from
the first one (Fort et al. 2020; Kunin et al. 2024, Fig. 5A),

    S(0, t) = 1 − ⟨K_0, K_t⟩/(‖K_0‖‖K_t‖)      in Frobenius norm,

needs sums over entries alone, so J comes block by block from the caller (JAX, PyTorch or NumPy) and K is formed block
by block. For small S the difference from 1 would lose its digits. What is summed instead is what a multiple of K_0
leaves of K_t: a block gives p = ‖K_0‖², the best multiple c = ⟨K_0, K_t⟩/p and the rest R = ‖K_t − cK_0‖², and two
blocks are joined as two regressions are,

    c = (p₁c₁ + p₂c₂)/(p₁ + p₂)        R = R₁ + R₂ + (c₁ − c₂)² p₁p₂/(p₁ + p₂).

Then ‖K_t‖² = c²p + R, ‖K_t − K_0‖² = (c − 1)²p + R, cos = c√p/‖K_t‖, and S = 1 − cos = R/‖K_t‖²/(1 + cos). Nothing
cancels. Products are in the type
of J and sums in float64. Measured: from Jacobians in float32, S = 3e-7 has five digits, 3e-11 three, and kernels that
are the same but for rounding are 1e-14 apart, where 1 − cos in float32 has no digit left at 3e-7; in float64 they are
1e-30 apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, combinations_with_replacement
from types import ModuleType
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float, JaxArray, Tree
from lazyrich.laziness.checkpoints import Jacobian, described

Kernel = Any  # a block of K, in the array library of the Jacobians
JacobianOf = Callable[[int, slice], Jacobian]  # of a state, at some samples


class KernelChanges(NamedTuple):
    """The kernel of each state beside the first one; nan where it is not finite."""

    norm: Float[Array, " states"]  # ‖K_t‖
    change: Float[Array, " states"]  # ‖K_t − K_0‖
    distance: Float[Array, " states"]  # S(0, t); nan where one of the two is zero, too

    @property
    def movement(self) -> Float[Array, " states"]:
        """‖K_t − K_0‖/max(‖K_t‖, ‖K_0‖), from 0 to √2; nan where both are zero."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.change / np.maximum(self.norm, self.norm[0])


def kernel_changes(jacobian: JacobianOf, states: int, samples: int, *, rows: int) -> KernelChanges:
    """How far the kernels of the states t = 0 … states − 1 are from the first.

    `jacobian(t, some)` gives J_t at the samples of a slice: a matrix of (samples of the slice × outputs) rows and one
    column per parameter. At most `rows` samples are asked for at a time; two such matrices and two blocks of kernels
    are held at once, on the device where the matrices are. All of J_t is asked for about samples/rows times: larger
    blocks are faster.

    >>> J = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]])  # two states, two samples, one output
    >>> found = kernel_changes(lambda t, some: J[t, some], states=2, samples=2, rows=1)
    >>> found.change, found.movement.round(3)
    (array([0., 1.]), array([0.   , 0.707]))
    """
    states, samples, rows = (
        _check.count(name, n) for name, n in (("states", states), ("samples", samples), ("rows", rows))
    )
    p, c, R = np.zeros((3, states))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for one, other in _pairs(samples, rows):
            K_0 = _block(jacobian, 0, one, other)
            later = (_block(jacobian, t, one, other) for t in range(1, states))
            found = np.array([compare(K_0, K) for K in chain([K_0], later)])
            times = 1 if one == other else 2  # the block beyond the diagonal is the same
            p_b, c_b, R_b = found.T * np.array([[times], [1], [times]])
            share = np.where(p_b > 0, p_b / (p + p_b), 0.0)
            R += R_b + (c_b - c) ** 2 * p * share
            c += (c_b - c) * share
            p += p_b
        R[0] = 0.0  # in so many digits
        norm, change = np.sqrt(c**2 * p + R), np.sqrt((c - 1) ** 2 * p + R)
        change[0] *= 0.0  # nan where it is not finite
        distance = np.where(p > 0, (R / norm**2) / (1 + c * np.sqrt(p) / norm), np.nan)
        return KernelChanges(norm, change, distance)


def jax_jacobian(f: Callable[[Tree, JaxArray], JaxArray], states: Sequence[Tree], inputs: JaxArray) -> JacobianOf:
    """The `jacobian` of `kernel_changes` for f(parameters, input) → outputs of one sample, written in JAX.

    `states` holds parameters: pytrees of the same structure, such as equinox modules (then f = `lambda m, x: m(x)`).
    The columns are all their floating-point entries; `inputs` has one sample per entry of its first axis.
    """
    jacobian = compiled_jacobian()
    return lambda t, some: jacobian(f, states[t], inputs[some])


@cache
def compiled_jacobian() -> Callable[..., JaxArray]:
    """(f, parameters, inputs, combinations of outputs or None) → J: compiled once for each f and each shape."""
    jax, eqx = _engines.load("jax", "jax_jacobian"), _engines.load("equinox", "jax_jacobian")

    def jacobian(
        f: Callable[[Tree, JaxArray], JaxArray], parameters: Tree, inputs: JaxArray, combined: JaxArray | None = None
    ) -> JaxArray:
        moving, still = eqx.partition(parameters, eqx.is_inexact_array)

        def outputs(leaves: Tree, x: JaxArray) -> JaxArray:
            found = f(eqx.combine(leaves, still), x).ravel()
            return found if combined is None else found @ combined.astype(found.dtype)

        gradients = jax.vmap(jax.jacrev(outputs), in_axes=(None, 0))(moving, inputs)
        leaves = [leaf.reshape(leaf.shape[0] * leaf.shape[1], -1) for leaf in jax.tree.leaves(gradients)]
        return jax.numpy.concatenate(leaves, axis=1)

    return eqx.filter_jit(jacobian)


def _pairs(samples: int, rows: int) -> Iterator[tuple[slice, slice]]:
    """The blocks of a symmetric matrix that lie on the diagonal and above it."""
    slices = [slice(first, min(first + rows, samples)) for first in range(0, samples, rows)]
    return combinations_with_replacement(slices, 2)


def _block(jacobian: JacobianOf, t: int, one: slice, other: slice) -> Kernel:
    """K_t between two slices of the samples."""
    A = _checked(jacobian(t, one), one)
    B = A if one == other else _checked(jacobian(t, other), other)
    return product(A, B)


def product(A: Jacobian, B: Jacobian) -> Kernel:
    """ABᵀ, in the precision of its factors."""
    if array_api_compat.is_jax_array(A):  # whose products of float32 are coarser on a GPU, unless told otherwise
        return _in_jax()[0](A, B)
    return A @ B.T


def _checked(J: Jacobian, some: slice) -> Jacobian:
    if array_api_compat.is_torch_array(J):
        J = J.detach()  # no graph is needed here
    samples = some.stop - some.start
    if not array_api_compat.is_array_api_obj(J) or J.ndim != 2 or J.shape[0] % samples:
        raise InvalidInput(
            "jacobian must give a matrix with one row per sample and output, and for "
            f"{samples} samples it gave {described(J)}."
        )
    return J


def compare(K_0: Kernel, K: Kernel) -> Array:
    """p = ‖K_0‖², c = ⟨K_0, K⟩/p and R = ‖K − cK_0‖² of a block."""
    if array_api_compat.is_jax_array(K):
        with _engines.double_precision("kernel_changes"):
            return np.asarray(_in_jax()[1](K_0, K))
    if array_api_compat.is_torch_array(K) and K.device.type == "mps":  # which has no double precision
        K_0, K = K_0.cpu(), K.cpu()
    return np.array([float(number) for number in _sums(array_api_compat.array_namespace(K), K_0, K)])


def _sums(xp: ModuleType, K_0: Kernel, K: Kernel) -> tuple[Kernel, Kernel, Kernel]:
    K_0, K = xp.astype(K_0, xp.float64), xp.astype(K, xp.float64)
    p = xp.sum(K_0 * K_0)
    c = xp.sum(K_0 * K) / xp.where(p > 0, p, xp.ones_like(p))
    return p, c, xp.sum((K - c * K_0) ** 2)


@cache
def _in_jax() -> tuple[Callable[..., JaxArray], Callable[..., JaxArray]]:
    """The product and the sums, compiled: the blocks stay on the device, three numbers leave it."""
    import jax
    import jax.numpy as jnp

    product = jax.jit(lambda A, B: jnp.matmul(A, B.T, precision="highest"))
    return product, jax.jit(lambda K_0, K: jnp.stack(_sums(jnp, K_0, K)))
