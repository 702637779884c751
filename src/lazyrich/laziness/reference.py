"""The first checkpoint of a run, which all others are held against; `measure` and `Monitor` both hold one.

Kept are parameters, outputs, hidden activity and the tangent kernel K_0, not its Jacobian. K_0 is computed when it is
first asked for, and the last one that `measure` made serves its next call on the same initialisation and samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.laziness.checkpoints import NotFinite, Run, layer_of, neighbours
from lazyrich.laziness.kernel import Change, Kernel, Plan
from lazyrich.laziness.scaling import SAME, Scaling, scaled, unit_squares
from lazyrich.laziness.tangent import kernel_changes
from lazyrich.observables.distances import unit_activity

_TRIAL = 4.0  # a power of two: multiplying by it rounds nothing
_last_kernel: dict[bytes, Kernel] = {}  # one at most


class Moved(NamedTuple):
    """How far a checkpoint is from the first, apart from its kernel."""

    function: float
    layers: list[float]  # distances of parameters
    representations: list[float]
    flips: list[float]  # shares of activations that changed sides


class Reference:
    """Checkpoint 0 of a run."""

    def __init__(self, run: Run, samples: int, seed: int, columns: int | None = None) -> None:
        self.run, self.samples = run, samples
        self.leaves, self.outputs, self.activity = run.leaves(0), run.outputs(0), run.hidden(0)
        self.layers = tuple(dict.fromkeys(map(layer_of, self.leaves)))
        self.hidden = tuple(self.activity)
        self.size = sum(leaf.size for leaf in self.leaves.values())
        self.plan = Plan.of(samples, self.outputs.shape[1], self.size, seed, columns)
        self.notes = (
            []
            if self.hidden
            else [
                "representation and Hamming distances are left out: hidden= says where activity is, by names of "
                "submodules in PyTorch, by a function in JAX."
            ]
        )

    # the kernel ------------------------------------------------------------------------------------------------

    @cached_property
    def kernel(self) -> Kernel:
        return self.plan.kernel(partial(self.run.jacobian, 0))

    @cached_property
    def kernel_norm(self) -> float:
        """‖K_0‖."""
        return self.plan.compared(self.kernel, self.kernel).norm

    def remembered(self) -> None:
        """Takes K_0 from the call before, where that had the same one."""
        key = hashlib.sha256(repr((self.run.identity, self.plan.seed, self.plan.columns, self.samples)).encode())
        for name, part in [*self.leaves.items(), ("outputs", self.outputs), *self.activity.items()]:
            key.update(name.encode() + str(part.dtype).encode() + np.ascontiguousarray(part).tobytes())
        if key.digest() not in _last_kernel:
            found = self.kernel
            _last_kernel.clear()
            _last_kernel[key.digest()] = found
        self.kernel = _last_kernel[key.digest()]

    def kernel_change(self, t: int) -> Change:
        """‖K_t − K_0‖, ‖K_t‖, and S."""
        return self.plan.compared(self.kernel, self.plan.kernel(partial(self.run.jacobian, t)))

    # everything else -------------------------------------------------------------------------------------------

    def moved(self, t: int) -> Moved:
        """Outputs, parameters by layer, representations and activation patterns."""
        leaves, outputs, hidden = self.run.leaves(t), self.run.outputs(t), self.run.hidden(t)
        if not np.isfinite(outputs).all():
            raise NotFinite(
                f"the outputs of the model must be finite, and at checkpoint {t} they are not: leave it out."
            )
        moved = {name: np.subtract(leaf, self.leaves[name], dtype=np.float64) for name, leaf in leaves.items()}
        pairs = [(hidden[name], self.activity[name]) for name in self.hidden]
        return Moved(
            relative_change(outputs, self.outputs),
            [self.norm(moved, layer) for layer in self.layers],
            [self._turned(now, before) for now, before in pairs],
            [float(np.mean((now > 0) != (before > 0))) for now, before in pairs],
        )

    @property
    def units(self) -> Float[Array, " hidden"]:
        """Of each hidden layer, by which its share of the Hamming distance is weighed."""
        return np.array([part.shape[1] for part in self.activity.values()], float)

    def norm(self, leaves: Mapping[str, Array], layer: str) -> float:
        parts = [
            np.linalg.norm(np.asarray(leaf, np.float64)) for name, leaf in leaves.items() if layer_of(name) == layer
        ]
        return float(np.linalg.norm(parts))

    def _turned(self, now: Array, before: Array) -> float:
        """The Gram matrix of activity is a kernel too: its factor is the activity, centred as for `observables.cka`."""
        states = (unit_activity(before), unit_activity(now))
        found = kernel_changes(lambda i, some: states[i][some], 2, self.samples, rows=self.samples)
        return float(found.distance[1])

    @cached_property
    def balanced(self) -> list[tuple[str, str]]:
        """Layers that are known to follow each other, unit by unit; notes say which are not."""
        found = []
        for one, other in neighbours(self.run.course):
            incoming, outgoing = unit_squares(self.leaves, one, other, follows=True)
            homogeneous = self.change_by({one: _TRIAL, other: 1 / _TRIAL}) < SAME
            if len(incoming) != len(outgoing) or not (homogeneous or self.run.sequential):
                self.notes.append(f"δ of {one} is left out: its units cannot be traced into {other}.")
                continue
            if not homogeneous:
                self.notes.append(f"δ of {one} need not be conserved: what follows is not positively homogeneous.")
            found.append((one, other))
        if not neighbours(self.run.course):
            self.notes.append("δ is left out: no two dense or convolutional layers are known to follow each other.")
        return found

    def balance(self, t: int) -> tuple[dict[str, Array], dict[str, float]]:
        """δ at first and at a checkpoint, and its drift, by layer."""
        end = self.run.leaves(t)
        delta: dict[str, Array] = {}
        drift: dict[str, float] = {}
        for one, other in self.balanced:
            incoming, outgoing = unit_squares(self.leaves, one, other, follows=True)
            first, last = outgoing - incoming, np.subtract(*unit_squares(end, one, other, follows=True)[::-1])
            size = float(np.mean(incoming + outgoing))
            delta[one] = np.stack([first, last])
            drift[one] = float(np.mean(np.abs(last - first))) / size if size else float("nan")
        return delta, drift

    def linearisation_gap(self, t: int) -> float | None:
        """‖f − f_lin‖, relative to the larger of ‖f − f_0‖ and ‖f_lin − f_0‖, of f_lin = f_0 + J_0(θ − θ_0)."""
        linear = self.run.linearised(t)
        if linear is None:
            note = "the linearisation gap is left out: the model has no forward derivatives."
            self.notes += [note] * (note not in self.notes)
            return None
        now, linear, first = (np.asarray(part, np.float64) for part in (self.run.outputs(t), linear, self.outputs))
        size = max(np.linalg.norm(now - first), np.linalg.norm(linear - first))
        return float(np.linalg.norm(now - linear) / size) if size else 0.0

    @property
    def linear(self) -> bool:
        """Whether the network is known to have no activation functions."""
        nonlinear = any(stage.kind == "activation" for stage in self.run.course)
        return self.run.sequential and not nonlinear and self.run.affine()

    @cached_property
    def scaling(self) -> Scaling | None:
        kinds = [stage.kind for stage in self.run.course if stage.kind != "activation"]
        order = [stage.name for stage in self.run.course if stage.kind == "layer"]
        if len(order) < 2 or kinds[0] != "layer" or kinds[-1] != "layer":
            return None
        incoming, outgoing = unit_squares(self.leaves, order[0], order[-1], follows=len(kinds) == 2)
        change = self.change_by({order[0]: 1 / _TRIAL, order[-1]: _TRIAL})
        return Scaling(tuple(order), float(incoming.mean()), float(outgoing.mean()), change)

    def change_by(self, factors: Mapping[str, float]) -> float:
        """What multiplying layers of the first checkpoint makes of the outputs, relative to them."""
        order = [stage.name for stage in self.run.course if stage.kind == "layer" or stage.name in factors]
        return relative_change(self.run.outputs(0, scaled(self.leaves, factors, order)), self.outputs)


def relative_change(now: Array, before: Array) -> float:
    """‖now − before‖ relative to the larger of the two."""
    now, before = np.asarray(now, np.float64), np.asarray(before, np.float64)
    size = max(np.linalg.norm(now), np.linalg.norm(before))
    return float(np.linalg.norm(now - before) / size) if size else 0.0
