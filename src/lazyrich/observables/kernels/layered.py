"""The tangent kernel of layers with any activation between them, from what goes forwards and what comes back.

With h_ℓ(x) the activity that enters layer ℓ, z_ℓ = W_ℓ h_ℓ, and D_ℓ^o(x) = ∂f_o/∂z_ℓ, the gradient of f_o by W_ℓ is
D_ℓ^o h_ℓᵀ, and

    K^{op} = Σ_ℓ η_ℓ (h_ℓh_ℓᵀ) ∘ (D_ℓ^o D_ℓ^pᵀ),     D_ℓ^o = (D_{ℓ+1}^o W_{ℓ+1}) ∘ σ'(z_ℓ),     D_L^o = e_o,

where h and D hold a sample in each row. With biases, the constant units have no weights that move
(`networks.biases`): D leaves them out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.networks import Activation
from lazyrich.observables.kernels.algebra import Inputs
from lazyrich.observables.kernels.blocks import BlockKernel


class LayeredKernel(BlockKernel):
    """The kernel of a network on samples.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_data([[1.0, 0.0], [0.0, 2.0]], [[1.0], [1.0]])
    >>> problem = lr.Problem(task, lr.Network([[[1.0, -1.0]], [[2.0]], [[3.0]]], activation="relu"))
    >>> lr.observables.kernels(lr.descend(problem, rate=0.1, steps=1))[0].matrix()
    array([[49.,  0.],
           [ 0.,  0.]])
    """

    def __init__(
        self,
        inputs: Inputs,
        layers: Sequence[Float[Array, "_ _"]],
        *,
        activation: Activation,
        rates: tuple[float, ...],
        biased: bool,
    ) -> None:
        self.inputs, self.d_out, self.rates = inputs, len(layers[-1]), rates
        self.h, slopes = [inputs.R], []
        for W in layers[:-1]:
            z = self.h[-1] @ W.T
            slopes.append(activation.derivative(z))
            self.h.append(activation(z))
        back = np.broadcast_to(np.eye(self.d_out)[:, None], (self.d_out, len(inputs.R), self.d_out))
        self.D = [back]
        for W, slope in zip(layers[:0:-1], slopes[::-1], strict=True):
            back = (back @ W) * slope
            self.D.insert(0, back[..., :-1] if biased else back)

    @property
    def trace(self) -> float:
        each = (np.sum(h**2, axis=1) @ np.sum(D**2, axis=(0, 2)) for h, D in zip(self.h, self.D, strict=True))
        return float(np.dot(self.rates, list(each)))

    def _apply(self, V: Float[Array, "k out r"]) -> Float[Array, "k out r"]:
        result = np.zeros_like(V)
        for rate, h, D in zip(self.rates, self.h, self.D, strict=True):
            gradients = np.einsum("kon,onu,ni->kui", V, D, h, optimize=True)
            result += rate * np.einsum("kui,onu,ni->kon", gradients, D, h, optimize=True)
        return result

    def _blocks(
        self, rows: slice = slice(None), columns: slice = slice(None)
    ) -> Iterator[tuple[int, int, Float[Array, "a b"]]]:
        activity = [rate * h[rows] @ h[columns].T for rate, h in zip(self.rates, self.h, strict=True)]
        for o, p in itertools.combinations_with_replacement(range(self.d_out), 2):
            parts = (S * (D[o, rows] @ D[p, columns].T) for S, D in zip(activity, self.D, strict=True))
            yield o, p, np.sum(list(parts), axis=0)

    def _pieces(self, at_once: int = 1) -> Iterator[Float[Array, "a b"]]:
        """All rows, since K^{op} of two outputs is not symmetric: K^{po} is its transpose."""
        for start, step in self._steps(at_once):
            for o, p, block in self._blocks(slice(start, start + step)):
                yield block if o == p else np.sqrt(2) * block
