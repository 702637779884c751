"""The result of `continual`: one trajectory per stage, and the loss of every task along all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.networks import Network
from lazyrich.observables.held_out import loss_on
from lazyrich.problem import loss_of, needs_squared_loss
from lazyrich.sequences.forecast import forgetting, limits, loss_matrix, losses_of, since_own_training
from lazyrich.sequences.penalty import Penalty
from lazyrich.sequences.schedule import Schedule
from lazyrich.sequences.settings import Setting
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False)
class Continual:
    """A network that learns one task after another, or what a schedule mixes. Stage i trains task i, or mixture i of
    `schedule`; in print from 1, in arrays from 0.

    `predicted_…` follows from the tasks alone, `limit_…` from this network trained on each task for ever; both are
    known before training, and describe runs in which each task comes to its end.

    >>> tasks = [lr.Task.from_correlations([[1.0]]), lr.Task.from_correlations([[3.0]])]
    >>> run = lr.continual(tasks, lr.Network([[[0.1]], [[0.1]]]), [0.0, 40.0])
    >>> run.loss_matrix.round(12), run.times
    (array([[0., 2.],
           [2., 0.]]), array([ 0., 40., 40., 80.]))
    """

    schedule: Schedule
    settings: tuple[Setting, ...]  # rates and weight decay of each stage
    trajectories: tuple[Trajectory, ...]  # one per stage; fewer where one could not go on
    ends: tuple[Network, ...]  # the network after each stage that came to its end
    rebalanced: tuple[
        float, ...
    ]  # departure from the conserved D taken off before each stage, relative to the largest weights
    notes: tuple[str, ...]  # what a reader should know, stage by stage
    penalty: Penalty | None = None  # in all stages but the first

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Whose losses are told."""
        return self.schedule.tasks

    @property
    def methods(self) -> tuple[str, ...]:
        """How each stage was had: the name of an exact solution, "flow", "penalised" or "descend"."""
        return tuple(trajectory.method for trajectory in self.trajectories)

    @property
    def boundaries(self) -> Float[Array, " stage"]:
        """When each stage ends, counted from the first."""
        return np.cumsum([float(trajectory.times[-1]) for trajectory in self.trajectories])

    @property
    def times(self) -> Float[Array, " T"]:
        """The times of all stages, counted from the first; a boundary may come twice, as an end and as a beginning."""
        begun = np.append(0.0, self.boundaries[:-1])
        return np.concatenate([t + part.times for t, part in zip(begun, self.trajectories, strict=True)])

    @property
    def training(self) -> Array:  # (T,)
        """The stage at each of the times: the task in training, or the mixture."""
        return np.repeat(np.arange(len(self.trajectories)), [len(part.times) for part in self.trajectories])

    @cached_property
    def losses(self) -> Float[Array, "T task"]:
        """Loss of every task at each of the times."""
        rows = [[loss_on(trajectory, task) for task in self.tasks] for trajectory in self.trajectories]
        return np.concatenate([np.stack(columns, axis=1) for columns in rows])

    @property
    def initial_losses(self) -> Float[Array, " task"]:
        """Loss of every task before any training."""
        first = self.trajectories[0].problem
        network = first.network
        return np.array([loss_of(task, network.weights, network.activation, first.loss) for task in self.tasks])

    @cached_property
    def loss_matrix(self) -> Float[Array, "stage task"]:
        """Loss of task j (column) at the end of stage i (row)."""
        last = np.cumsum([len(part.times) for part in self.trajectories]) - 1
        return self.losses[last]

    @property
    def loss_changes(self) -> Float[Array, "stage task"]:
        """By how much the loss of task j (column) changes during stage i (row).

        Stage 0 changes the losses before any training; where task j is in training its loss falls. The amount of
        forgetting of Braun et al. 2022, L_a(T_c) − L_a(T_b), is column a where stage c follows stage b.

        >>> tasks = [lr.Task.from_correlations([[1.0]]), lr.Task.from_correlations([[3.0]])]
        >>> lr.continual(tasks, lr.Network([[[1.0]], [[0.5]]]), [0.0, 40.0]).loss_changes
        array([[-0.125, -1.125],
               [ 2.   , -2.   ]])
        """
        return np.diff(self.loss_matrix, axis=0, prepend=self.initial_losses[None])

    @property
    def forgetting(self) -> Float[Array, "stage task"]:
        """By how much the loss of task j (column) has risen at the end of stage i (row) since its own training.

        Negative where later tasks helped, nan where task j is still to come. Of a schedule, its own training is the
        first stage in which it has a share.
        """
        return since_own_training(self.loss_matrix, self.schedule.first_met)

    @property
    def transfer(self) -> Float[Array, "stage task"]:
        """By how much the loss of a task j still to come has changed at the end of stage i since before any training.

        Negative where earlier tasks helped, nan from its own training on.
        """
        later = np.arange(len(self.loss_matrix))[:, None] < self.schedule.first_met
        return np.where(later, self.loss_matrix - self.initial_losses, np.nan)

    @property
    def predicted_loss_matrix(self) -> Float[Array, "stage task"]:
        """`loss_matrix` from the tasks alone, as if each were learned completely."""
        self._told_by_tasks()
        return loss_matrix(self.schedule)

    @property
    def predicted_loss_changes(self) -> Float[Array, "stage task"]:
        """`loss_changes` from the initialisation and the tasks, as if each were learned completely."""
        return np.diff(self.predicted_loss_matrix, axis=0, prepend=self.initial_losses[None])

    @property
    def predicted_forgetting(self) -> Float[Array, "stage task"]:
        """`forgetting` from the tasks alone, as if each were learned completely."""
        self._told_by_tasks()
        return forgetting(self.schedule)

    def _told_by_tasks(self) -> None:
        """A sentence where the tasks alone do not tell where a stage ends."""
        needs_squared_loss(self.trajectories[0].problem, "the predicted forgetting")
        if self.penalty is not None:
            raise InvalidInput(
                "the predicted forgetting belongs to runs without a penalty, which moves the end of each stage, and "
                f"this one has {self.penalty}: try run.limit_loss_matrix, where the penalty is on outputs."
            )

    @cached_property
    def limit_loss_matrix(self) -> Float[Array, "stage task"]:
        """`loss_matrix` of this network trained on each task for ever: bottleneck, saddles, weight decay and all."""
        first = self.trajectories[0].problem
        needs_squared_loss(first, "the limit of each task")
        functions = limits(self.schedule.stages, first.network, self.settings, self.penalty)
        return losses_of(self.tasks, functions)

    def network(self, stage: int = -1) -> Network:
        """The network after a stage."""
        return self.ends[_check.index("stage", stage, len(self.ends))]

    def to_xarray(self) -> xarray.Dataset:
        """Losses over time, task in training, and the matrices, with named dimensions."""
        xarray = _engines.load("xarray", "to_xarray", "sweeps")
        kept = np.unique(self.times, return_index=True)[1]  # a boundary comes as an end and as a beginning
        both = ("stage", "task")
        data = {
            "loss": (("time", "task"), self.losses[kept], _about("loss of every task")),
            "training": ("time", self.training[kept], _about("stage")),
            "share": (both, self.schedule.shares[: len(self.trajectories)], _about("share of the task in training")),
            "method": ("stage", np.array(self.methods), _about("method")),
            "rebalanced": ("stage", np.array(self.rebalanced), _about("departure from balance taken off")),
            "loss_matrix": (both, self.loss_matrix, _about("loss at the end of a stage")),
            "loss_changes": (both, self.loss_changes, _about("change of the loss during a stage")),
            "forgetting": (both, self.forgetting, _about("rise of the loss since own training")),
            "transfer": (both, self.transfer, _about("change of the loss by earlier tasks")),
        }
        coordinates = {
            "time": ("time", self.times[kept], {"long_name": "time", "units": "learning rate × steps"}),
            "task": ("task", np.arange(len(self.tasks)), _about("task")),
            "stage": ("stage", np.arange(len(self.trajectories)), _about("stage")),
            "name": ("task", np.array([task.name for task in self.tasks]), _about("name of the task")),
        }
        return xarray.Dataset(data, coords=coordinates, attrs={"notes": "\n".join(self.notes)})

    def __str__(self) -> str:
        """Losses at the ends of the stages, with the forgetting below."""
        head = f"{'':<24}" + "".join(f"{f'task {j + 1}':>12}" for j in range(len(self.tasks)))
        lines = [f"loss{head[4:]}", _row("before", self.initial_losses)]
        ends = [f"after {i}, {method}" for i, method in enumerate(self.methods, start=1)]
        lines += [_row(end, row) for end, row in zip(ends, self.loss_matrix, strict=True)]
        lines += [f"forgetting{head[10:]}"]
        lines += [_row(end, row) for end, row in zip(ends, self.forgetting, strict=True)]
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        count = len(self.settings)
        plain = np.array_equal(self.schedule.shares, np.eye(len(self.tasks)))
        stages = f"{count} tasks" if plain else f"{count} stages of {len(self.tasks)} tasks"
        return f"<Continual: {len(self.trajectories)} of {stages}, {', '.join(self.methods)}>"


def _about(name: str) -> dict[str, str]:
    return {"long_name": name, "units": "1"}


def _row(label: str, values: Float[Array, " task"]) -> str:
    return f"  {label:<22}" + "".join(f"{'–' if np.isnan(value) else f'{value:.5g}':>12}" for value in values)
