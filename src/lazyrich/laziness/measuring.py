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

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lazyrich import _check, _progress
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float, Tree
from lazyrich.landscape.regime import regime
from lazyrich.laziness.checkpoints import Jacobian, Run, is_torch_module, layer_of, neighbours
from lazyrich.laziness.course import Course
from lazyrich.laziness.definition import USUAL, Judgement, Thresholds, judge
from lazyrich.laziness.result import Laziness
from lazyrich.laziness.scaling import SAME, Scaling, scaled, unit_squares
from lazyrich.laziness.tangent import KernelChanges, kernel_changes
from lazyrich.networks import Network
from lazyrich.observables.distances import unit_activity
from lazyrich.trajectory import Trajectory

_HELD = 2**27  # numbers of a Jacobian at once: 512 MiB in float32, and there are two
_LARGEST = 2**29  # numbers of the Jacobian of one sample
_TRIAL = 4.0  # a power of two: multiplying by it rounds nothing


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
    samples, seed = _check.count("samples", samples, least=2), _check.count("seed", seed, least=0)
    inputs = _check.from_any_library("inputs", inputs)
    if inputs.dtype.kind not in "fiub":
        _check.as_array("inputs", inputs)  # says why not
    if inputs.ndim == 0 or len(inputs) < 2:
        raise InvalidInput(
            f"inputs must hold two samples at least, along the first axis, and it has shape {inputs.shape}."
        )
    chosen = np.arange(len(inputs))
    if len(inputs) > samples:
        chosen = np.sort(np.random.default_rng(seed).choice(len(inputs), samples, replace=False))
    trajectory = model if isinstance(model, Trajectory) else None
    if trajectory is not None and loss is not None:
        raise InvalidInput("loss must be left out where the model is a Trajectory, which has its own.")
    run = _as_run(model, _as_inputs(inputs[chosen]), checkpoints, hidden)
    loss = _as_losses(loss if trajectory is None else trajectory.loss, run.count)
    with run.precision():
        return _Measurement(run, len(chosen), loss, thresholds, trajectory).result(of=len(inputs), seed=seed)


class _Measurement:
    """One run, measured. The first checkpoint is at hand, and another beside it."""

    def __init__(
        self,
        run: Run,
        samples: int,
        loss: Float[Array, " T"] | None,
        thresholds: Thresholds,
        trajectory: Trajectory | None,
    ) -> None:
        self.run, self.samples, self.loss, self.thresholds, self.trajectory = run, samples, loss, thresholds, trajectory
        self.first, self.first_outputs, self.first_hidden = run.leaves(0), run.outputs(0), run.hidden(0)
        self.layers = tuple(dict.fromkeys(map(layer_of, self.first)))
        self.hidden = tuple(self.first_hidden)
        self.size = sum(leaf.size for leaf in self.first.values())
        self.notes = list(run.notes)

    def result(self, of: int, seed: int) -> Laziness:
        rows = [self.compared(t) for t in range(self.run.count)]
        function, layers, representation, flips = (np.array([row[i] for row in rows]) for i in range(4))
        kernel = self.kernel()
        norms = np.array([self.norm(self.first, layer) for layer in self.layers])
        units = np.array([part.shape[1] for part in self.first_hidden.values()], float)
        if not self.hidden:
            self.notes.append("representation and Hamming distances are left out: hidden= says where activity is.")
        delta, drift = self.balance()
        with np.errstate(invalid="ignore", divide="ignore"):
            whole = np.linalg.norm(layers, axis=1)
            return Laziness(
                judgement=self.judged_as_a_whole() or self.judged(kernel),
                until_learned=self.loss is not None and bool(self.loss.min() < self.loss[0]),
                kernel_movement=kernel.movement,
                kernel_distance=kernel.distance,
                function_distance=function,
                parameter_distance=whole,
                relative_parameter_distance=whole / np.linalg.norm(norms),
                hamming_distance=flips @ (units / units.sum()) if self.hidden else np.full(len(rows), np.nan),
                layers=self.layers,
                layer_distance=layers,
                relative_layer_distance=layers / norms,
                hidden=self.hidden,
                representation_distance=representation,
                layer_hamming_distance=flips,
                delta=delta,
                delta_drift=drift,
                scaling=self.scaling(),
                linear=self.linear,
                normalisations=self.run.normalisations,
                samples=self.samples,
                of=of,
                seed=seed,
                outputs=self.first_outputs.shape[1],
                parameters=self.size,
                notes=tuple(self.notes),
            )

    @property
    def linear(self) -> bool:
        nonlinear = any(stage.kind == "activation" for stage in self.run.course)
        return self.run.sequential and not nonlinear and self.run.affine()

    def judged_as_a_whole(self) -> Judgement | None:
        """A trajectory, between its records too, where its kernel has a formula."""
        if self.trajectory is None:
            return None
        try:
            return regime(self.trajectory, self.thresholds).judgement
        except (InvalidInput, np.linalg.LinAlgError):  # no formula; or so close to the separatrix that digits end
            return None

    def judged(self, kernel: KernelChanges) -> Judgement:
        """By the checkpoints whose kernel is finite; the first must be, for it is what the others are held against."""
        seen = np.isfinite(kernel.change)
        if not seen[0]:
            return judge(np.nan, np.nan, thresholds=self.thresholds)
        loss = None if self.loss is None else self.loss[seen]
        change, norm, turned = kernel.change[seen], kernel.norm[seen], kernel.distance[seen]
        course = Course.of(np.flatnonzero(seen), change, norm, turned, loss, self.thresholds)
        return judge(course.movement, course.rotation, thresholds=self.thresholds)

    def kernel(self) -> KernelChanges:
        """In blocks: as many samples at a time as their Jacobian fits into what is held."""
        row = self.first_outputs.shape[1] * self.size
        if row > _LARGEST:
            raise InvalidInput(
                f"model must have at most {_LARGEST:,} gradients (outputs × parameters) for its tangent kernel, and it "
                f"has {row:,}: try a model that gives fewer of its outputs."
            )
        most = min(_HELD // row, math.isqrt(_HELD) // self.first_outputs.shape[1])  # J of a block, and K of two
        rows = min(self.samples, max(1, most))
        blocks = -(-self.samples // rows)
        with _progress.progress(self.run.count * blocks**2, "tangent kernels") as tick:

            def jacobian(t: int, some: slice) -> Jacobian:
                tick(1)
                return self.run.jacobian(t, some)

            return kernel_changes(jacobian, self.run.count, self.samples, rows=rows)

    def compared(self, t: int) -> tuple[float, list[float], list[float], list[float]]:
        """Outputs, parameters by layer, representations and activation patterns, against the first checkpoint."""
        leaves, outputs, hidden = self.run.leaves(t), self.run.outputs(t), self.run.hidden(t)
        if not np.isfinite(outputs).all():
            raise InvalidInput(
                f"the outputs of the model must be finite, and at checkpoint {t} they are not: leave it out."
            )
        moved = {name: np.subtract(leaf, self.first[name], dtype=np.float64) for name, leaf in leaves.items()}
        pairs = [(hidden[name], self.first_hidden[name]) for name in self.hidden]
        return (
            _relative_change(outputs, self.first_outputs),
            [self.norm(moved, layer) for layer in self.layers],
            [self.turned(now, before) for now, before in pairs],
            [float(np.mean((now > 0) != (before > 0))) for now, before in pairs],
        )

    def norm(self, leaves: Mapping[str, Array], layer: str) -> float:
        parts = [
            np.linalg.norm(np.asarray(leaf, np.float64)) for name, leaf in leaves.items() if layer_of(name) == layer
        ]
        return float(np.linalg.norm(parts))

    def turned(self, now: Array, before: Array) -> float:
        """The Gram matrix of activity is a kernel too: its factor is the activity, centred as for `observables.cka`."""
        states = (unit_activity(before), unit_activity(now))
        found = kernel_changes(lambda i, some: states[i][some], 2, self.samples, rows=self.samples)
        return float(found.distance[1])

    def balance(self) -> tuple[dict[str, Array], dict[str, float]]:
        """δ at both ends and its drift, of layers that are known to follow each other."""
        end = self.run.leaves(self.run.count - 1)
        delta: dict[str, Array] = {}
        drift: dict[str, float] = {}
        for one, other in neighbours(self.run.course):
            incoming, outgoing = unit_squares(self.first, one, other, follows=True)
            homogeneous = self.change_by({one: _TRIAL, other: 1 / _TRIAL}) < SAME
            if len(incoming) != len(outgoing) or not (homogeneous or self.run.sequential):
                self.notes.append(f"δ of {one} is left out: its units cannot be traced into {other}.")
                continue
            if not homogeneous:
                self.notes.append(f"δ of {one} need not be conserved: what follows is not positively homogeneous.")
            first, last = outgoing - incoming, np.subtract(*unit_squares(end, one, other, follows=True)[::-1])
            size = float(np.mean(incoming + outgoing))
            delta[one] = np.stack([first, last])
            drift[one] = float(np.mean(np.abs(last - first))) / size if size else float("nan")
        if not neighbours(self.run.course):
            self.notes.append("δ is left out: no two dense or convolutional layers are known to follow each other.")
        return delta, drift

    def scaling(self) -> Scaling | None:
        kinds = [stage.kind for stage in self.run.course if stage.kind != "activation"]
        order = [stage.name for stage in self.run.course if stage.kind == "layer"]
        if len(order) < 2 or kinds[0] != "layer" or kinds[-1] != "layer":
            return None
        incoming, outgoing = unit_squares(self.first, order[0], order[-1], follows=len(kinds) == 2)
        change = self.change_by({order[0]: 1 / _TRIAL, order[-1]: _TRIAL})
        return Scaling(tuple(order), float(incoming.mean()), float(outgoing.mean()), change)

    def change_by(self, factors: Mapping[str, float]) -> float:
        """What multiplying layers of the first checkpoint makes of the outputs, relative to them."""
        order = [stage.name for stage in self.run.course if stage.kind == "layer"]
        return _relative_change(self.run.outputs(0, scaled(self.first, factors, order)), self.first_outputs)


def _relative_change(now: Array, before: Array) -> float:
    now, before = np.asarray(now, np.float64), np.asarray(before, np.float64)
    size = max(np.linalg.norm(now), np.linalg.norm(before))
    return float(np.linalg.norm(now - before) / size) if size else 0.0


# what came in ------------------------------------------------------------------------------------------------


def _as_inputs(value: Array) -> Array:
    """Finite numbers; whole ones (tokens) stay what they are."""
    checked = _check.as_array("inputs", value)
    return value if value.dtype.kind in "iub" else checked


def _as_losses(value: ArrayLike | None, count: int) -> Float[Array, " T"] | None:
    if value is None:
        return None
    losses = _check.as_array("loss", value, ndim=1)
    if len(losses) != count:
        raise InvalidInput(f"loss must have one number for each of the {count} checkpoints, and it has {len(losses)}.")
    return losses


def _as_run(model: Tree, inputs: Array, checkpoints: object, hidden: object) -> Run:
    """The run of any kind of model."""
    if is_torch_module(model):
        from lazyrich.laziness.torch_models import TorchRun

        return TorchRun(model, _sequence("checkpoints", checkpoints, "state_dicts or paths"), inputs, hidden)
    from lazyrich.laziness.jax_models import JaxRun, as_equinox

    if checkpoints is not None:
        if not callable(model):
            raise InvalidInput(
                "model must be a function f(parameters, x) or a PyTorch module where checkpoints are given, and it is "
                f"a {type(model).__name__}."
            )
        return JaxRun(model, _sequence("checkpoints", checkpoints, "pytrees of parameters"), inputs, hidden)
    if isinstance(model, Trajectory):
        model = [model.network(t) for t in range(len(model.times))]
    states = _sequence("model", model, "models")
    for t, state in enumerate(states):
        if is_torch_module(state):
            raise InvalidInput(
                "model must be one PyTorch module, with checkpoints=[…] a state_dict for each, and it is a sequence of "
                "modules."
            )
        if not callable(state) and not isinstance(state, Network):
            raise InvalidInput(
                f"checkpoint {t} must be a model that can be called on a sample, and it is a {type(state).__name__}: "
                "try a function of its parameters, with checkpoints=[…]."
            )
    return JaxRun(
        None, [as_equinox(state) if isinstance(state, Network) else state for state in states], inputs, hidden
    )


def _sequence(name: str, value: object, what: str) -> list[Tree]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise InvalidInput(f"{name} must be a list of {what}, one per checkpoint, and it is a {type(value).__name__}.")
    if len(value) < 2:
        raise InvalidInput(
            f"{name} must hold two checkpoints at least, the initialisation first, and it holds {len(value)}."
        )
    return list(value)
