"""What a monitor has seen: records over steps, the verdict on them, files, and the line that a terminal shows."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich import _engines
from lazyrich._check import InvalidInput
from lazyrich._files import output_path, write_atomically
from lazyrich.laziness.course import Course
from lazyrich.laziness.definition import Judgement, Thresholds, judge, percent

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

PREFIX = "lazyrich/"
_NAN = float("nan")
_SHOWN = 3  # layers in the line of a terminal


@dataclass(frozen=True)
class Record:
    """One measurement."""

    step: int
    loss: float  # nan: it was not given
    values: Mapping[str, float]
    features: Mapping[str, float]  # 1 − CKA of each hidden layer
    norm: float  # ‖K‖
    change: float  # ‖K − K_0‖

    def named(self) -> dict[str, float]:
        """Flat, for loggers."""
        named = {f"{PREFIX}{name}": value for name, value in self.values.items()}
        return named | {f"{PREFIX}feature_distance/{layer}": value for layer, value in self.features.items()}

    def row(self) -> dict[str, float]:
        """With step and loss, for files."""
        return {"step": self.step, "loss": self.loss} | self.named()

    def diverged(self, step: int, loss: float) -> Record:
        """The same names, and no numbers."""
        return Record(step, loss, dict.fromkeys(self.values, _NAN), dict.fromkeys(self.features, _NAN), _NAN, _NAN)

    def plain(self) -> dict[str, Any]:
        """As a checkpoint of training holds it."""
        return {**vars(self), "values": dict(self.values), "features": dict(self.features)}


@dataclass
class Records:
    """Of one run, in the order of their steps.

    >>> W = np.eye(2)
    >>> monitor = lr.laziness.Monitor(lr.Network([W, W]), W)
    >>> for step, c in ((0, 1.0), (10, 1.5), (20, 2.0)):
    ...     found = monitor.update(lr.Network([W, c * W]), step, loss=(c - 2) ** 2)
    >>> print(monitor.records)
    step 20: the kernel moved by 60% and turned by S = 0; the features by 0 (layers.0): rich so far
    >>> monitor.records.to_xarray().kernel_movement.values.round(2)
    array([0.  , 0.38, 0.6 ])
    """

    hidden: tuple[str, ...]
    thresholds: Thresholds
    first_norm: float = _NAN  # ‖K_0‖
    seen: list[Record] = field(default_factory=list)

    def append(self, record: Record) -> None:
        """The newest; those of later steps are of a run that was taken up again before them, and are dropped."""
        self.seen = [*(one for one in self.seen if one.step < record.step), record]

    @property
    def judgement(self) -> Judgement:
        """Lazy or rich so far, with the numbers behind it."""
        seen = [one for one in self.seen if math.isfinite(one.change)]
        if not seen:
            return judge(_NAN, _NAN, thresholds=self.thresholds)
        start = (seen[0].step - 1, seen[0].loss, self.first_norm, 0.0, 0.0)
        rows = [(one.step, one.loss, one.norm, one.change, one.values["kernel_distance"]) for one in seen]
        steps, loss, norm, change, turned = np.array([start, *rows]).T
        told = np.isfinite(loss)
        known = np.interp(steps, steps[told], loss[told]) if told.sum() > 1 else None
        course = Course.of(steps, change, norm, turned, known, self.thresholds)
        return judge(course.movement, course.rotation, thresholds=self.thresholds)

    def __str__(self) -> str:
        if not self.seen:
            return "nothing has been measured yet"
        last = self.seen[-1]
        if not math.isfinite(last.norm):
            return f"step {last.step}: not finite; {self.judgement.name} before"
        moved, turned = (last.values.get(f"kernel_{name}", _NAN) for name in ("movement", "distance"))
        words = f"step {last.step}: the kernel moved by {percent(moved)} and turned by S = {round(turned, 12):.2g}"
        some = list(last.features.items())[:_SHOWN]
        if some:
            words += "; the features by " + ", ".join(f"{round(value, 12):.2g} ({layer})" for layer, value in some)
            words += ", …" * (len(last.features) > _SHOWN)
        return f"{words}: {self.judgement.name} so far"

    # files and pictures ----------------------------------------------------------------------------------------

    def to_xarray(self) -> xarray.Dataset:
        """All records, over `step`; hidden layers have an axis of their own."""
        xarray = _engines.load("xarray", "to_xarray", "sweeps")
        rows = _some(self.seen)
        names = dict.fromkeys(name for one in rows for name in one.values)
        data: dict[str, Any] = {name: ("step", [one.values.get(name, _NAN) for one in rows]) for name in names}
        data["loss"] = ("step", [one.loss for one in rows])
        features = [[one.features.get(layer, _NAN) for layer in self.hidden] for one in rows]
        data["feature_distance"] = (("step", "hidden_layer"), np.array(features).reshape(len(rows), -1))
        about = {"regime": str(self.judgement.name), "lazy_below": self.thresholds.lazy}
        axes = {"step": [one.step for one in rows], "hidden_layer": np.array(self.hidden, str)}
        return xarray.Dataset(data, axes, about)

    def to_json(self, path: str | Path | None = None) -> str:
        """The records and the verdict as JSON, with null for what is not a number; into a file too, if one is named."""
        rows = [
            {name: value if math.isfinite(value) else None for name, value in one.row().items()} for one in self.seen
        ]
        about = {"regime": str(self.judgement.name), "verdict": str(self.judgement), "records": rows}
        return _written(json.dumps(about, indent=1, ensure_ascii=False), path, "laziness.json")

    def to_csv(self, path: str | Path | None = None) -> str:
        """A row for each record; into a file too, if one is named."""
        rows = [one.row() for one in _some(self.seen)]
        names = dict.fromkeys(name for row in rows for name in row)
        stream = io.StringIO()
        writer = csv.DictWriter(stream, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return _written(stream.getvalue(), path, "laziness.csv")

    def plot(self) -> Figure:
        """Kernel, features by layer and loss, over steps."""
        from lazyrich.plot.laziness import laziness

        return laziness(_some(self.seen), self.hidden, self.judgement)


def _some(seen: Sequence[Record]) -> Sequence[Record]:
    if not seen:
        raise InvalidInput("nothing has been measured yet: call update first, at a step where it is due.")
    return seen


def _written(text: str, path: str | Path | None, name: str) -> str:
    if path is not None:
        write_atomically(output_path(path, name), lambda stream: stream.write(text.encode()))
    return text
