"""What observables read of a trajectory: the weights, or of two linear layers QQᵀ, whichever is there or costs less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyrich.networks.network import layers_of_gram


@dataclass(frozen=True, eq=False)
class State:
    """The layers of a network at each time: its weights, or QQᵀ of two linear layers, and None for the other.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> state = lr.solve(problem, [0.0, np.inf]).state
    >>> state.input_gram.ravel().round(6), state.weights is None
    (array([0.01, 2.  ]), True)
    """

    sizes: tuple[int, ...]
    weights: tuple[Any, ...] | None = None  # per layer (T, out, in)
    gram: Any = None  # (T, n, n)

    @property
    def input_gram(self) -> Any:  # (T, in, in)
        """W_1ᵀW_1."""
        if self.weights is None:
            return self.gram[:, : self.sizes[0], : self.sizes[0]]
        return np.swapaxes(self.weights[0], 1, 2) @ self.weights[0]

    @property
    def output_gram(self) -> Any:  # (T, out, out)
        """W_LW_Lᵀ."""
        if self.weights is None:
            return self.gram[:, self.sizes[0] :, self.sizes[0] :]
        return self.weights[-1] @ np.swapaxes(self.weights[-1], 1, 2)

    def some(self, which: slice) -> State:
        """The same at some of the times."""
        weights = None if self.weights is None else tuple(W[which] for W in self.weights)
        return State(self.sizes, weights, None if self.gram is None else self.gram[which])

    def layers(self) -> Iterator[list[Any]]:
        """The weights at one time after the other; from QQᵀ, up to a rotation of the hidden units."""
        if self.weights is None:
            d_in, h, _ = self.sizes
            yield from (layers_of_gram(G, d_in, h) for G in self.gram)
        else:
            yield from (list(layers) for layers in zip(*self.weights, strict=True))
