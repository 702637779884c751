"""Batch normalisation that has seen no batch yet, as in every new network: what stands in for its running statistics.

They begin as 0 and 1, which training, by the batch, never uses, and then change faster than anything that is learned. A
kernel that was measured with them would be held against something that no step of training has begun with. So the
statistics of the samples stand in for them, at every checkpoint with its own parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    State = dict[str, Tensor]


class Untried:
    """Those modules whose statistics are 0 and 1 in a first checkpoint, after no batch."""

    def __init__(self, names: Mapping[Module, str], first: Mapping[str, Tensor]) -> None:
        nn = import_module("torch.nn")
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        self._parts: dict[Module, tuple[str, str]] = {}  # what mean and variance are called in a state_dict
        for part, name in names.items():
            if not isinstance(part, kinds) or part.running_mean is None:
                continue
            place = f"{name}." if name else ""
            mean, variance, count = (f"{place}{end}" for end in ("running_mean", "running_var", "num_batches_tracked"))
            if first[count] == 0 and not first[mean].any() and (first[variance] == 1).all():
                self._parts[part] = mean, variance
        self.blank: State = {name: first[name] for both in self._parts.values() for name in both}
        self.notes: tuple[str, ...] = ()
        if self._parts:
            which = names[next(iter(self._parts))] or "the model"
            self.notes = (
                f"{which}, a batch normalisation, had seen no batch at first: here the statistics of batch "
                "normalisation are those of the samples, at every checkpoint.",
            )

    def __bool__(self) -> bool:
        return bool(self._parts)

    @contextmanager
    def seen(self) -> Iterator[State]:
        """While the model is called once, layer after layer takes the statistics of what it is given."""
        found: State = {}

        def see(part: Module, given: tuple[Tensor, ...]) -> None:
            axes = [axis for axis in range(given[0].ndim) if axis != 1]
            mean, variance = self._parts[part]
            found[mean] = part.running_mean.copy_(given[0].mean(axes))
            found[variance] = part.running_var.copy_(given[0].var(axes, correction=0))  # as training divides

        handles = [part.register_forward_pre_hook(see) for part in self._parts]
        try:
            yield found
        finally:
            for handle in handles:
                handle.remove()
