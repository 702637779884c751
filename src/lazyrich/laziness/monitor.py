"""A network watched while it is trained: how far kernel, features, parameters and activations go from where they began.

One `Monitor` for all frameworks: what differs between PyTorch and JAX is behind `Run`, and what differs between
training loops is in `adapters`. The first call of `update` measures the initialisation too, from the copy of the
parameters that was taken when the monitor was made; later ones compute one kernel each, held against the first.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np

from lazyrich import _check, _progress
from lazyrich._check import InvalidInput
from lazyrich._typing import ArrayLike, Tree
from lazyrich.laziness.checkpoints import NotFinite
from lazyrich.laziness.definition import USUAL, Judgement, Thresholds
from lazyrich.laziness.pace import Pace
from lazyrich.laziness.records import Record, Records
from lazyrich.laziness.reference import Reference
from lazyrich.laziness.runs import as_first, as_loss, as_samples
from lazyrich.laziness.scaling import suggestion

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


class Monitor:
    """Laziness of a training run, live.

    What `update` gives, a flat dictionary of numbers for any logger:

    - `lazyrich/kernel_distance`, how far the tangent kernel turned (S), and `lazyrich/kernel_movement`, how far it
      turned and grew, by which a run is lazy or rich; with `…_error`, a standard error, where the kernel is a sketch;
    - `lazyrich/feature_distance/<layer>`, 1 − CKA of the hidden activity, and `lazyrich/hamming`, the share of
      activations that changed sides;
    - `lazyrich/parameter_distance`, of all parameters; `lazyrich/delta_drift`, how far δ is from conserved;
    - `lazyrich/linearisation_gap`, how far the outputs are from those of the tangent model at the initialisation.

    What a network does not have is left out, and `.notes` say why. The names are those of `lr.laziness.measure`. Random
    numbers and the modes of the module go on as if nothing had happened.

    Parameters
    ----------
    model : a PyTorch module, an equinox module, or a function f(parameters, x) of one sample in JAX
    inputs : samples along the first axis
    state : the parameters at initialisation, where the model is a function; or a `state_dict`
    hidden : where hidden activity is, as in `lr.laziness.measure`
    samples, seed : how many are drawn from more inputs, and with which seed
    every : steps between measurements, or a share of the time of training such as "5%"
    sketch : columns that gradients are folded into; left out, only those of large networks are
    live : a line on the terminal, where somebody is looking

    >>> W = np.array([[1.0, -0.5], [0.3, 0.8]])
    >>> first, last = (lr.Network([c * W, [[1.0, -1.0]]], "relu") for c in (1.0, 1.2))
    >>> monitor = lr.laziness.Monitor(first, [[1.0, 0.2], [0.4, -1.0], [0.7, 0.7]])
    >>> found = monitor.update(last, step=10)
    >>> round(found["lazyrich/kernel_movement"], 3), round(found["lazyrich/kernel_distance"], 3)
    (0.141, 0.002)
    """

    def __init__(
        self,
        model: Tree,
        inputs: ArrayLike,
        state: Tree | None = None,
        *,
        hidden: Sequence[str] | Callable[..., Tree] | None = None,
        samples: int = 64,
        seed: int = 0,
        every: int | str = 1,
        sketch: int | None = None,
        thresholds: Thresholds = USUAL,
        live: bool = True,
    ) -> None:
        began = time.perf_counter()
        sketch = None if sketch is None else _check.count("sketch", sketch)
        self._pace, self._live = Pace.of(every), live and _progress.watched()
        chosen, _ = as_samples(inputs, samples, seed)
        self._drawn = hashlib.sha256(chosen.tobytes()).hexdigest()
        self._run = as_first(model, state, chosen, hidden)
        self._about = (len(chosen), seed, sketch)
        with self._run.undisturbed():
            self._first = Reference(self._run, *self._about)
        self.records = Records(self._first.hidden, thresholds)
        self._pace.spent = time.perf_counter() - began

    def update(self, model_or_state: Tree, step: int, loss: SupportsFloat | None = None) -> dict[str, float]:
        """Measures, where it is time to, and gives what to log; empty where it is not, and on all ranks but zero.

        A network that diverged gives nan: training goes on, or stops, as it would have.

        Parameters
        ----------
        model_or_state : as it is now: the module or model, or its parameters
        step : of training, by which records are ordered
        loss : of training now, for the picture and the verdict

        Returns
        -------
        dict : numbers by name

        >>> first, last = (lr.Network([[[c, 0.0]], [[c]]], "relu") for c in (1.0, 2.0))
        >>> monitor = lr.laziness.Monitor(first, [[1.0, 0.0], [2.0, 1.0]], every=100)
        >>> monitor.update(last, step=1), round(monitor.update(last, step=100)["lazyrich/parameter_distance"], 3)
        ({}, 1.414)
        """
        step = _check.count("step", step, least=0)
        if not self._run.leads() or not self._pace.due(step):
            return {}
        value = as_loss(loss)  # which waits for the device
        began = time.perf_counter()
        with self._run.undisturbed():
            self.records.first_norm = self._first.kernel_norm
            once = time.perf_counter() - began
            try:
                self._run.put(1, model_or_state)
                record = self._record(step, value)
            except NotFinite:
                record = self._diverged(step, value)
        self._pace.count(time.perf_counter() - began, once)
        self.records.append(record)
        if self._live:
            sys.stderr.write(f"\r\x1b[K{self}")
            sys.stderr.flush()
        return record.named()

    def _record(self, step: int, loss: float) -> Record:
        first = self._first
        moved, kernel = first.moved(1), first.kernel_change(1)
        drifts, gap = list(first.balance(1)[1].values()), first.linearisation_gap(1)
        size = max(kernel.norm, first.kernel_norm)
        values = {
            "kernel_distance": kernel.distance,
            "kernel_movement": kernel.change / size if size else float("nan"),
            "parameter_distance": float(np.linalg.norm(moved.layers)),
        }
        if not first.plan.exact:
            values["kernel_distance_error"] = kernel.distance_error
            values["kernel_movement_error"] = kernel.movement_error
        if first.hidden:
            values["hamming"] = float(moved.flips @ first.units / first.units.sum())
        if drifts:
            values["delta_drift"] = float(np.mean(drifts))
        if gap is not None:
            values["linearisation_gap"] = gap
        features = dict(zip(first.hidden, moved.representations, strict=True))
        return Record(step, loss, values, features, kernel.norm, kernel.change)

    def _diverged(self, step: int, loss: float) -> Record:
        """The names that there were, or those that there always are."""
        if self.records.seen:
            return self.records.seen[-1].diverged(step, loss)
        values = dict.fromkeys(("kernel_distance", "kernel_movement", "parameter_distance"), 0.0)
        return Record(step, loss, values, dict.fromkeys(self._first.hidden, 0.0), 0.0, 0.0).diverged(step, loss)

    # what has been seen ----------------------------------------------------------------------------------------

    @property
    def judgement(self) -> Judgement:
        """Lazy or rich so far, with the numbers behind it."""
        return self.records.judgement

    @property
    def suggestion(self) -> str:
        """What to multiply before training for another regime, with the learning rate that goes along, and how far δ,
        on which some of it rests, was from conserved in this run.

        >>> W = np.array([[1.0, -0.5], [0.3, 0.8]])
        >>> monitor = lr.laziness.Monitor(lr.Network([W, [[1.0, -1.0]]], "relu"), [[1.0, 0.2], [0.4, -1.0]])
        >>> monitor.suggestion[:52]
        'Richer: all weights ÷ 2, or the outputs ÷ 4; lazier:'
        """
        first, drifts = self._first, [one.values.get("delta_drift", float("nan")) for one in self.records.seen]
        with self._run.undisturbed():
            return suggestion(first.scaling, first.linear, self._run.normalisations, drifts[-1] if drifts else 0.0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is left out, and why."""
        return (*self._run.notes, *self._first.notes)

    def __str__(self) -> str:
        return str(self.records)

    def plot(self) -> Figure:
        """Kernel, features by layer and loss, over steps."""
        return self.records.plot()

    def to_xarray(self) -> xarray.Dataset:
        """All records, over `step`."""
        return self.records.to_xarray()

    def to_json(self, path: str | Path | None = None) -> str:
        """The records and the verdict as JSON; into a file too, if one is named."""
        return self.records.to_json(path)

    def to_csv(self, path: str | Path | None = None) -> str:
        """A row for each record; into a file too, if one is named."""
        return self.records.to_csv(path)

    # saving and resuming ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that another process needs to go on: the first parameters and kernel, the records, and the time spent.

        Arrays are tensors where the model is of PyTorch, as torch.load takes them without unpickling code.
        """
        run, first = self._run, self._first
        with run.undisturbed():
            return {
                "drawn": self._drawn,
                "about": list(self._about),
                "first": run.saved(0),
                "kernel": [run.portable(part) for part in first.kernel] if self.records.seen else [],
                "records": [one.plain() for one in self.records.seen],
                "pace": self._pace.state_dict(),
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state_dict` was taken, on the same samples of the same model.

        >>> first, last = (lr.Network([[[c, 0.0]], [[c]]], "relu") for c in (1.0, 2.0))
        >>> before, after = (lr.laziness.Monitor(net, [[1.0, 0.0], [2.0, 1.0]]) for net in (first, last))
        >>> seen = before.update(last, step=1)
        >>> after.load_state_dict(before.state_dict())
        >>> after.update(last, step=1) == seen
        True
        """
        if not isinstance(state, Mapping) or not {"drawn", "about", "first", "kernel", "records", "pace"} <= set(state):
            raise InvalidInput(f"state must come from Monitor.state_dict(), and it is {_check.shown(state)}.")
        if state["drawn"] != self._drawn or list(state["about"]) != list(self._about):
            raise InvalidInput(
                "state must come from a monitor of the same inputs, samples, seed and sketch, and these differ."
            )
        with self._run.undisturbed():
            self._run.put(0, self._run.restored(state["first"]))
            self._first = Reference(self._run, *self._about)
            if state["kernel"]:
                self._first.kernel = [self._run.like_jacobians(part) for part in state["kernel"]]
                self.records.first_norm = self._first.kernel_norm
        self.records.seen = [Record(**one) for one in state["records"]]
        self._pace.load_state_dict(state["pace"])
