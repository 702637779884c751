"""Kernels that are read in blocks: pairs of outputs, some rows of samples at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.observables.kernels.algebra import Comparison, Kernel, block_products

KEPT = 2**26  # entries up to which what many blocks or kernels need is kept
_BLOCK = 2**17  # entries of a block of rows: they stay in the cache
_TABLE = 2**24  # entries of the blocks of all kernels at once


class BlockKernel(Kernel):
    """What `_blocks` alone gives."""

    @abstractmethod
    def _blocks(
        self, rows: slice = slice(None), columns: slice = slice(None)
    ) -> Iterator[tuple[int, int, Float[Array, "a b"]]]:
        """Outputs o ≤ p and K^{op}, or a part of it."""

    @cached_property
    def norm(self) -> float:
        return float(np.sqrt(sum(np.vdot(K, K) for K in self._pieces())))

    def inner(self, other: Any) -> float:
        pairs = zip(self._pieces(), self._match(other)._pieces(), strict=True)
        return float(sum(np.vdot(K, K2) for K, K2 in pairs))

    def compare(self, other: Any) -> Comparison:
        sums = np.zeros(5)
        for K, K2 in zip(self._as_reference(), self._match(other)._pieces(), strict=True):
            sums += block_products(K, K2, np.vdot)
        return Comparison.of_blocks(sums)

    def _pieces(self, at_once: int = 1) -> Iterator[Float[Array, "a b"]]:
        """Blocks of rows from the diagonal to the right, × √2 what stands for two: ⟨K, K'⟩ is the sum over them. For
        K^{op} that are symmetric."""
        n = len(self.inputs.R)
        for start, step in self._steps(at_once):
            for o, p, block in self._blocks(slice(start, start + step), slice(start, n)):
                block[:, len(block) :] *= np.sqrt(2)
                yield block if o == p else np.multiply(block, np.sqrt(2), out=block)

    def _steps(self, at_once: int) -> Iterator[tuple[int, int]]:
        """Where blocks of rows begin, and how many rows they have."""
        n = len(self.inputs.R)
        step = max(1, min(_BLOCK, _TABLE // at_once) // n)
        yield from ((start, step) for start in range(0, n, step))

    def _as_reference(self) -> Iterable[Float[Array, "a b"]]:
        """Its pieces, kept where they are few, since all other kernels are compared with them."""
        few = (len(self.inputs.R) * self.d_out) ** 2 <= KEPT
        return self._kept_pieces if few else self._pieces()

    @cached_property
    def _kept_pieces(self) -> list[Float[Array, "a b"]]:
        return list(self._pieces())

    @staticmethod
    def inner_table(many: list[Any]) -> Float[Array, "T T"]:
        """⟨K_s, K_t⟩ of all pairs, by products of large matrices."""
        table = np.zeros((len(many), len(many)))
        for pieces in zip(*(K._pieces(at_once=len(many)) for K in many), strict=True):
            rows = np.array(pieces).reshape(len(many), -1)
            table += rows @ rows.T
        return table
