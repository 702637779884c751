"""How lazy or rich a training run was: any network in JAX or PyTorch, measured at checkpoints against the first one.

Lazy learning fits the data with the tangent kernel of the initialisation, rich learning moves it, by turning weights
and by changing which units are active; `lazyrich.laziness.definition` says where one ends and the other begins. Kunin
et al. (2024, Fig. 5A) measure this for a LeNet; here it is done for any network: how far the kernel over all outputs
moves and turns, the distances of the hidden representations, of the activation patterns and of the parameters, and for
every hidden unit δ = ‖outgoing weights‖² − ‖incoming weights‖². What δ is at initialisation says which layers would
have to be multiplied to learn in another regime: their theory is one of two layers, and a rule of thumb for deeper
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lazyrich import _progress
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float, Tree
from lazyrich.landscape.regime import regime
from lazyrich.laziness.checkpoints import Run
from lazyrich.laziness.course import Course
from lazyrich.laziness.definition import USUAL, Judgement, Thresholds, judge
from lazyrich.laziness.kernel import Change
from lazyrich.laziness.reference import Reference
from lazyrich.laziness.result import Laziness
from lazyrich.laziness.runs import as_losses, as_run, as_samples
from lazyrich.trajectory import Trajectory


def measure(
    model: Tree,
    inputs: ArrayLike,
    checkpoints: Sequence[Tree] | None = None,
    *,
    hidden: Sequence[str] | Callable[..., Tree] | None = None,
    loss: ArrayLike | None = None,
    samples: int = 200,
    seed: int = 0,
    thresholds: Thresholds = USUAL,
) -> Laziness:
    """How far a network has moved from its first checkpoint: kernel, representation, parameters, activations, δ.

    `model` is one of
    - a sequence of equinox modules, one per checkpoint, each called on one sample;
    - a function f(parameters, x) of one sample, in JAX, with `checkpoints` a sequence of pytrees of parameters;
    - a PyTorch module, called on a batch, with `checkpoints` a sequence of state_dicts or paths of .safetensors files;
    - a `Trajectory` with a few records, or a sequence of `Network`s.

    Dropout is off and batch normalisation as in use. A `Trajectory` knows its loss, and its regime is the one of
    `lr.regime`, on the inputs of its task.

    Parameters
    ----------
    model : as above
    inputs : samples along the first axis
    checkpoints : parameters of each, the initialisation first, where the model has none of its own
    hidden : where hidden activity is, if no MLP, Sequential or activation module tells: in JAX a function (model, x) →
        list or dictionary of activations of one sample, in PyTorch names of submodules
    loss : at each checkpoint; without it the whole run counts, and not only until the loss has fallen
    samples, seed : how many are drawn from more inputs, and with which seed
    thresholds : where lazy ends

    Returns
    -------
    Laziness : distances over checkpoints, the regime, and what would change it

    >>> W, x = np.array([[1.0, -0.5], [0.3, 0.8]]), np.array([[1.0, 0.2], [0.4, -1.0], [0.7, 0.7]])
    >>> first, last = (lr.Network([c * W, [[1.0, -1.0]]], "relu") for c in (1.0, 1.2))
    >>> found = lr.laziness.measure([first, last], x)
    >>> found.regime, found.kernel_movement.round(3), found.kernel_distance.round(3), found.hamming_distance
    ('rich', array([0.   , 0.141]), array([0.   , 0.002]), array([0., 0.]))
    """
    chosen, of = as_samples(inputs, samples, seed)
    trajectory = model if isinstance(model, Trajectory) else None
    if trajectory is not None and loss is not None:
        raise InvalidInput("loss must be left out where the model is a Trajectory, which has its own.")
    run = as_run(model, chosen, checkpoints, hidden)
    loss = as_losses(loss if trajectory is None else trajectory.loss, run.count)
    with run.undisturbed():
        return _Measurement(run, len(chosen), seed, loss, thresholds, trajectory).result(of)


class _Measurement:
    """One run, measured. The first checkpoint is at hand, and another beside it."""

    def __init__(
        self,
        run: Run,
        samples: int,
        seed: int,
        loss: Float[Array, " T"] | None,
        thresholds: Thresholds,
        trajectory: Trajectory | None,
    ) -> None:
        self.run, self.seed, self.loss, self.thresholds, self.trajectory = run, seed, loss, thresholds, trajectory
        self.first = Reference(run, samples, seed)

    def result(self, of: int) -> Laziness:
        first = self.first
        rows = [first.moved(t) for t in range(self.run.count)]
        function, layers, representation, flips = (np.array([row[i] for row in rows]) for i in range(4))
        kernel = self.kernel()
        delta, drift = first.balance(self.run.count - 1)
        norms = np.array([first.norm(first.leaves, layer) for layer in first.layers])
        movement_error, distance_error = (np.array([seen[i] for seen in kernel]) for i in (3, 4))
        with np.errstate(invalid="ignore", divide="ignore"):
            whole, sizes = np.linalg.norm(layers, axis=1), np.array([seen.norm for seen in kernel])
            return Laziness(
                judgement=self.judged_as_a_whole() or self.judged(kernel),
                until_learned=self.loss is not None and bool(self.loss.min() < self.loss[0]),
                kernel_movement=np.array([seen.change for seen in kernel]) / np.maximum(sizes, sizes[0]),
                kernel_distance=np.array([seen.distance for seen in kernel]),
                kernel_movement_error=movement_error,
                kernel_distance_error=distance_error,
                function_distance=function,
                parameter_distance=whole,
                relative_parameter_distance=whole / np.linalg.norm(norms),
                hamming_distance=flips @ (first.units / first.units.sum())
                if first.hidden
                else np.full(len(rows), np.nan),
                layers=first.layers,
                layer_distance=layers,
                relative_layer_distance=layers / norms,
                hidden=first.hidden,
                representation_distance=representation,
                layer_hamming_distance=flips,
                delta=delta,
                delta_drift=drift,
                scaling=first.scaling,
                linear=first.linear,
                normalisations=self.run.normalisations,
                samples=first.samples,
                of=of,
                seed=self.seed,
                outputs=first.outputs.shape[1],
                parameters=first.size,
                notes=(*self.run.notes, *first.notes, *_on_errors(kernel, first)),
            )

    def judged_as_a_whole(self) -> Judgement | None:
        """A trajectory, between its records too, where its kernel has a formula."""
        if self.trajectory is None:
            return None
        try:
            return regime(self.trajectory, self.thresholds).judgement
        except (InvalidInput, np.linalg.LinAlgError):  # no formula; or so close to the separatrix that digits end
            return None

    def judged(self, kernel: Sequence[Change]) -> Judgement:
        """By the checkpoints whose kernel is finite; the first must be, for it is what the others are held against."""
        change, norm, turned = np.array([seen[:3] for seen in kernel]).T[[1, 0, 2]]
        seen = np.isfinite(change)
        if not seen[0]:
            return judge(np.nan, np.nan, thresholds=self.thresholds)
        loss = None if self.loss is None else self.loss[seen]
        course = Course.of(np.flatnonzero(seen), change[seen], norm[seen], turned[seen], loss, self.thresholds)
        return judge(course.movement, course.rotation, thresholds=self.thresholds)

    def kernel(self) -> list[Change]:
        """Of each checkpoint; the first is where it is, in so many digits."""
        with _progress.progress(self.run.count, "tangent kernels") as tick:
            self.first.remembered()
            found = [self.first.plan.compared(self.first.kernel, self.first.kernel)]
            tick(1)
            for t in range(1, self.run.count):
                found.append(self.first.kernel_change(t))
                tick(1)
            return found


def _on_errors(kernel: Sequence[Change], first: Reference) -> list[str]:
    if first.plan.exact:
        return []
    moved, turned = (max(seen[i] for seen in kernel) for i in (3, 4))
    how = [f"gradients folded into {first.plan.columns:,} columns"] if first.plan.columns else []
    how += [f"{first.plan.rows} random combinations of the outputs"] if first.plan.combinations is not None else []
    return [
        f"the kernel is a sketch ({' and '.join(how)}): its movement is known with a standard error of {moved:.1g}, "
        f"and S with one of {turned:.1g}."
    ]
