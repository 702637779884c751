"""PyTorch while a training run is measured: as it was afterwards, and able to differentiate in the meantime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import device


@contextmanager
def undisturbed(on: device) -> Iterator[None]:
    """Random numbers go on as if nothing had been drawn, and gradients are known even inside of inference_mode.

    Half precision is not mixed in.
    """
    torch = import_module("torch")
    with (
        _same_draws(on),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(on.type, enabled=False),
        _plain_attention(),
    ):
        yield


@contextmanager
def _same_draws(on: device) -> Iterator[None]:
    torch = import_module("torch")
    if on.type != "mps":
        with torch.random.fork_rng([] if on.type == "cpu" else [on], device_type=on.type):
            yield
        return
    drawn = torch.mps.get_rng_state()  # one generator, which fork_rng does not know
    try:
        with torch.random.fork_rng([]):
            yield
    finally:
        torch.mps.set_rng_state(drawn)


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Without the fused kernels of attention, which have no forward derivatives and are not mapped over samples."""
    torch = import_module("torch")
    attention, whole = torch.nn.attention, torch.backends.mha
    fast = whole.get_fastpath_enabled()
    whole.set_fastpath_enabled(False)
    try:
        with attention.sdpa_kernel(attention.SDPBackend.MATH):
            yield
    finally:
        whole.set_fastpath_enabled(fast)
