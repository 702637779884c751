"""The result of `measure`: what has moved since the first checkpoint, layer by layer, and the regime it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lazyrich import _engines
from lazyrich._typing import Array, Float
from lazyrich.laziness.definition import Judgement, RegimeName
from lazyrich.laziness.scaling import Scaling, suggestion
from lazyrich.laziness.words import as_table, in_one_sentence

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False)
class Laziness:
    """What has moved since the first checkpoint. Arrays over checkpoints (T); nan where a layer is silent.

    >>> W = np.eye(2)
    >>> found = lr.laziness.measure([lr.Network([W, W]), lr.Network([W, np.diag([1.0, 3.0])])], W)
    >>> found.regime, found.kernel_movement.round(3), found.kernel_distance.round(3), found.parameter_distance
    ('rich', array([0.   , 0.784]), array([0.   , 0.168]), array([0., 2.]))
    """

    judgement: Judgement  # the regime, with the numbers and thresholds behind it
    until_learned: bool  # whether the loss is known and falls, so that what the kernel does afterwards does not count
    kernel_movement: Float[Array, " T"]  # ‖K_t − K_0‖/max(‖K_t‖, ‖K_0‖) of the tangent kernel over all outputs
    kernel_distance: Float[Array, " T"]  # S(0, t) of the same, its rotation
    kernel_movement_error: Float[Array, " T"]  # standard errors, where the kernel is a sketch; 0 where it is whole
    kernel_distance_error: Float[Array, " T"]
    function_distance: Float[Array, " T"]  # ‖f_t − f_0‖, relative to the larger of the two
    parameter_distance: Float[Array, " T"]
    relative_parameter_distance: Float[Array, " T"]  # relative to the norm at initialisation
    hamming_distance: Float[Array, " T"]  # share of (sample, unit) that is above zero at one of the two only
    layers: tuple[str, ...]  # that hold parameters
    layer_distance: Float[Array, "T layer"]
    relative_layer_distance: Float[Array, "T layer"]
    hidden: tuple[str, ...]  # layers whose activity was seen
    representation_distance: Float[Array, "T hidden"]  # S(0, t) of the Gram matrix of centred activity: 1 − CKA
    layer_hamming_distance: Float[Array, "T hidden"]
    delta: Mapping[str, Float[Array, "2 units"]]  # of each unit of a layer, at the first and at the last checkpoint
    delta_drift: Mapping[str, float]  # mean change of δ, relative to that of ‖outgoing‖² + ‖incoming‖² at first
    scaling: Scaling | None
    linear: bool  # a network known to have no activation functions
    normalisations: tuple[str, ...]  # layers that undo the scale of what they follow
    samples: int  # that were used
    of: int  # that there were
    seed: int  # with which they were drawn
    outputs: int
    parameters: int
    notes: tuple[str, ...]  # what was left out, and why

    @property
    def regime(self) -> RegimeName:
        """ "lazy" or "rich" by the movement of the kernel, or "unknown"; a Trajectory may be "delayed rich"."""
        return self.judgement.name

    @property
    def verdict(self) -> str:
        """One sentence: the regime, and what it stands on."""
        return in_one_sentence(self)

    @property
    def suggestion(self) -> str:
        """Which layers to multiply before training for another regime, and how far to trust that."""
        drift = float(np.mean(list(self.delta_drift.values()))) if self.delta_drift else 0.0
        return suggestion(self.scaling, self.linear, self.normalisations, drift)

    def __str__(self) -> str:
        return as_table(self)

    def to_xarray(self) -> xarray.Dataset:
        """All arrays, with named dimensions."""
        xarray = _engines.load("xarray", "to_xarray", "sweeps")
        kernel = ("kernel_movement", "kernel_distance", "kernel_movement_error", "kernel_distance_error")
        whole = (*kernel, "function_distance", "hamming_distance")
        names = {
            (): (*whole, "parameter_distance", "relative_parameter_distance"),
            ("layer",): ("layer_distance", "relative_layer_distance"),
            ("hidden_layer",): ("representation_distance", "layer_hamming_distance"),
        }
        data = {name: (("checkpoint", *axes), getattr(self, name)) for axes, some in names.items() for name in some}
        data["delta"] = (("end", "unit"), np.concatenate([np.empty((2, 0)), *self.delta.values()], axis=1))
        owners = [layer for layer, values in self.delta.items() for _ in values[0]]
        coordinates = {
            "checkpoint": np.arange(len(self.kernel_distance)),
            "layer": np.array(self.layers, str),
            "hidden_layer": np.array(self.hidden, str),
            "end": ["first", "last"],
            "unit_layer": ("unit", np.array(owners, str)),
        }
        facts = {name: getattr(self, name) for name in ("samples", "of", "seed", "outputs", "parameters")}
        about = {"regime": str(self.regime), "lazy_below": self.judgement.thresholds.lazy}
        about |= {"verdict": self.verdict, "notes": "\n".join(self.notes)}
        return xarray.Dataset(data, coords=coordinates, attrs=facts | about)
