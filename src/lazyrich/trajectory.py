"""A problem and a method make a trajectory: the one result type, which everything else reads.

Exact trajectories hold their solution and compute a quantity when it is first asked for. Sampled ones
(`flow`, `descend`) hold what was recorded, and derive the rest from the weights where those were. What is handed out
is read-only: copy it to change it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._observable import all_observables
from lazyrich._status import COMPLETE, Status
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich._typing import Array
from lazyrich.certificate import Certificate, certify
from lazyrich.citations import BIBTEX
from lazyrich.methods.base import FOREVER, Solution, TangentModel, notes_on
from lazyrich.networks import Network
from lazyrich.networks.network import forward, product
from lazyrich.networks.run import check_beginning, layers_over_time
from lazyrich.problem import Problem, as_problem, loss_of
from lazyrich.state import State

if TYPE_CHECKING:
    import xarray


_SMALL = 256  # inputs and outputs
NO_NETWORK = (
    "traj must be of a network, whose weights are read here, and this is the lazy limit of one, which has no weights "
    "and whose kernel never moves: try lr.solve or lr.flow."
)


class _Checked(Array):
    """Times of a closed form that have been checked: many trajectories may share them."""


def checked_times(times: Any) -> _Checked:
    """Not negative, sorted, np.inf among them; or a sentence."""
    return _check.as_times(times, forever=True).view(_Checked)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """What a network does over time; its arrays are read-only.

    `parts` maps names ("function", "outputs", "loss", "gram", "weights") to arrays with one state per time, or to
    functions that compute them when they are first asked for.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> traj = lr.solve(problem, [0.0, 50.0, 200.0])
    >>> traj.function.shape, traj.method
    ((3, 8, 8), 'riccati')
    """

    problem: Problem
    times: Any
    method: str
    parts: InitVar[Mapping[str, Any | Callable[[], Any]]]
    citations: InitVar[tuple[str, ...]] = field(default=(), kw_only=True)
    solution: Solution | None = field(default=None, kw_only=True)
    tangent: TangentModel | None = field(default=None, kw_only=True)  # of which it is, if not of the network itself
    status: Status = field(default=COMPLETE, kw_only=True)  # or what stopped the run and when
    stepped: bool = field(default=False, kw_only=True)  # a training run, which theory is drawn over, and no flow
    momentum: float = field(default=0.0, kw_only=True)  # of descent
    notes: tuple[str, ...] = field(default=(), kw_only=True)  # what a reader should know: separatrix, precision
    pushed: float = field(default=0.0, kw_only=True)  # size of the push off the separatrix, 0 if none
    citation: str = field(init=False)
    _sources: tuple[str, ...] = field(init=False)
    _parts: dict[str, Any] = field(init=False)

    def __post_init__(self, parts: Mapping[str, Any], citations: tuple[str, ...]) -> None:
        as_problem(self.problem)
        if isinstance(self.times, _Checked):
            object.__setattr__(self, "times", self.times.view(np.ndarray))
        elif isinstance(self.times, np.ndarray | list | tuple | float | int) and np.size(self.times):
            object.__setattr__(self, "times", _check.as_times(self.times, forever=self._formula))
        elif isinstance(self.times, str) or self.times is None:
            raise InvalidInput(f"times must be a vector of numbers, and it is {_check.shown(self.times)}.")
        if not isinstance(parts, Mapping):
            raise InvalidInput(f"parts must map names to arrays, and it is {_check.shown(parts)}.")
        object.__setattr__(self, "times", _read_only(self.times))
        held = {name: part if callable(part) else self._checked(name, part) for name, part in parts.items()}
        object.__setattr__(self, "_sources", tuple(citations))
        object.__setattr__(self, "citation", _cited(tuple(citations)))
        object.__setattr__(self, "_parts", held)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, of what holds arrays alone."""
        if self.solution is not None or self.tangent is not None or any(map(callable, self._parts.values())):
            raise TypeError(
                "a trajectory that computes what it is asked for cannot be pickled: keep traj.to_xarray() or "
                "traj.weights, or its problem and times, of which lr.solve makes it anew."
            )
        return self.__dict__

    def __copy__(self) -> Trajectory:
        return self  # nothing of it changes

    def __deepcopy__(self, memo: object) -> Trajectory:
        return self

    @classmethod
    def exact(
        cls,
        times: Any,
        method: str,
        solution: Solution,
        *,
        citations: tuple[str, ...] = (),
        pushed: float = 0.0,
        notes: tuple[str, ...] | None = None,
        known: Mapping[str, Callable[[], Any]] | None = None,
    ) -> Trajectory:
        """A solution at the given times, np.inf among them; `pushed` as in `solve`. Where it is one of many that are
        evaluated together, `notes` and what gives its parts are `known`."""
        times = times if isinstance(times, _Checked) else checked_times(times)
        clock, problem = np.minimum(times.view(np.ndarray), FOREVER), solution.problem
        parts: dict[str, Callable[[], Any]] = {
            "function": lambda: solution.function(clock),
            # the function is the larger part of the work, and holds the loss
            "loss": lambda: problem.task.loss(traj.function) if traj.computed("function") else solution.loss(clock),
            "weights": lambda: solution.weights(clock),
        }
        if solution.gives_gram:
            parts["gram"] = lambda: solution.gram(clock)
        parts |= known or {}
        notes = notes_on(solution, pushed, float(clock[-1])) if notes is None else notes
        about: dict[str, Any] = {"citations": citations, "notes": notes, "pushed": pushed}
        traj = cls(problem, times, method, parts, solution=solution, **about)
        return traj

    @classmethod
    def of_tangent_model(cls, times: Any, tangent: TangentModel) -> Trajectory:
        """A tangent model at the given times, np.inf among them."""
        times = _check.as_times(times, forever=True)
        clock = np.minimum(times, FOREVER)
        parts = {name: partial(getattr(tangent, name), clock) for name in tangent.gives}
        notes = ("this is the tangent model at the initialisation, f_0 + J_0 Δθ, and not the network itself",)
        about: dict[str, Any] = {"citations": tangent.citations, "notes": notes}
        return cls(tangent.problem, times, tangent.name, parts, tangent=tangent, **about)

    @classmethod
    def from_weights(
        cls, problem: Problem, times: Any, weights: Any, *, biases: Any = None, method: str = "given"
    ) -> Trajectory:
        """A run of your own.

        Parameters
        ----------
        problem : the task, and the network as it was at t = 0
        times : learning rate × steps
        weights : one array (T, out, in) per layer, first layer first
        biases : one array (T, out) per layer, where the network has them
        method : a word for how it was made

        Weights collected state by state in a training loop go in as `[np.stack(layer) for layer in zip(*states)]`.

        >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
        >>> lr.Trajectory.from_weights(problem, [0.0, 1.0], [[[[0.1]], [[0.5]]], [[[0.1]], [[0.6]]]]).loss.round(4)
        array([1.98 , 1.445])
        """
        network = as_problem(problem).network
        layers = layers_over_time(network, weights, biases)
        traj = cls(problem, _check.as_times(times), method, {"weights": layers}, stepped=True)
        if traj.times[0] == 0:
            check_beginning(network, layers)
        return traj

    def at(self, times: Any) -> Trajectory:
        """The same trajectory at other times.

        Parameters
        ----------
        times : any, np.inf among them, where it has a closed form; of a sampled one those that were recorded

        Returns
        -------
        Trajectory : evaluated there, or with these of its records

        >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
        >>> lr.solve(problem, [0.0]).at([1.0, np.inf]).function.ravel().round(6)
        array([0.430588, 2.      ])
        """
        if self.solution is not None:
            about: dict[str, Any] = {"citations": self._sources, "pushed": self.pushed}
            return Trajectory.exact(times, self.method, self.solution, **about)
        if self.tangent is not None:
            return Trajectory.of_tangent_model(times, self.tangent)
        wanted, known = _check.as_times(times, forever=True), np.asarray(self.times)
        nearest = np.abs(known[None] - wanted[:, None]) if len(known) else np.full((len(wanted), 1), np.inf)
        place = np.argmin(nearest, axis=1)
        rounding = 4 * np.finfo(np.float64).eps * np.where(np.isinf(wanted), 0.0, wanted)  # of a time printed and read
        there = nearest.min(axis=1) <= rounding
        if not np.all(there):
            missing, advice = wanted[~there][0], "record it, or try one of traj.times"
            if np.isinf(missing):
                advice = "try lr.fate(problem) or lr.solve, which know the end where a theorem applies"
            raise InvalidInput(
                f"times must be among those that were recorded, and {missing:g} is not, for this run ({self.method}) "
                f"is known at its records alone: {advice}."
            )
        parts = {
            name: [np.asarray(W)[place] for W in part] if name == "weights" else np.asarray(part)[place]
            for name, part in self._parts.items()
        }
        about = {"citations": self._sources, "status": self.status, "notes": self.notes}
        about |= {"stepped": self.stepped, "momentum": self.momentum}
        return Trajectory(self.problem, wanted, self.method, parts, **about)

    @property
    def clock(self) -> Any:  # (T,)
        """The times as finite numbers: one at which every exponential has ended stands for np.inf."""
        return np.minimum(np.asarray(self.times), FOREVER) if self._formula else self.times

    @property
    def _formula(self) -> bool:
        """Whether any times can be had, np.inf too."""
        return self.solution is not None or self.tangent is not None

    @property
    def state(self) -> State:
        """What observables read: the weights or QQᵀ, whichever is there or costs less."""
        network = self.problem.network
        d_in, *hidden, d_out = network.sizes
        by_gram = network.activation.linear and len(hidden) == 1 and self.knows("gram")
        if by_gram and self.knows("weights"):
            # a closed form gives QQᵀ for less than the weights, but many inputs and few hidden units make it large
            small = d_in + d_out <= max(2 * hidden[0], _SMALL)
            by_gram = not self.computed("weights") and (small or self.computed("gram"))
        if by_gram:
            return State(network.sizes, gram=np.asarray(self.gram))
        if self.tangent is not None:
            raise InvalidInput(NO_NETWORK)
        if not self.knows("weights"):
            raise InvalidInput("traj must hold the weights, and they were not recorded: try record=('weights',).")
        return State(network.sizes, weights=tuple(np.asarray(W) for W in self.weights))

    @property
    def function(self) -> Any:  # (T, d_out, d_in)
        """The input–output map W_L…W_1 at each time."""
        return self._part("function")

    @property
    def outputs(self) -> Any:  # (T, P, d_out)
        """What the network answers to the samples of its task at each time, a sample per row."""
        return self._part("outputs")

    @property
    def loss(self) -> Any:  # (T,)
        """½ mean‖y − ŷ‖² (or the sum), or the same of another `problem.loss`, at each time; without weight decay."""
        return self._part("loss")

    @property
    def gram(self) -> Any:  # (T, n, n)
        """QQᵀ of a two-layer linear network: [[W1ᵀW1, (W2W1)ᵀ], [W2W1, W2W2ᵀ]]."""
        return self._part("gram")

    @property
    def weights(self) -> tuple[Any, ...]:  # per layer (T, out, in)
        """The weights of each layer at each time, in the given hidden basis."""
        return self._part("weights")

    def network(self, index: int = -1) -> Network:
        """The network as it is at one of the times, to start another problem from."""
        index = _check.index("index", index, len(self.times))
        return self.problem.network.with_weights([np.asarray(W[index]) for W in self.weights])

    def certificate(self) -> Certificate:
        """Evidence for this trajectory that is independent of how it was made."""
        return certify(self)

    def knows(self, name: str) -> bool:
        """Whether a quantity was recorded, or can be had."""
        if name in self._parts:
            return True
        applies = name in _PARTS and _PARTS[name][2](self.problem)
        return applies and ("weights" in self._parts or ("gram" in self._parts and name != "weights"))

    def computed(self, name: str) -> bool:
        """Whether a quantity is there already, and asking for it costs nothing."""
        return name in self._parts and not callable(self._parts[name])

    def to_xarray(self, *observables: Any) -> xarray.Dataset:
        """Times, loss, function and (for two layers) the Gram matrix, and the observables asked for.

        Parameters
        ----------
        observables : names of functions of `lr.observables` with one value per time, and "sharpness"

        Returns
        -------
        Dataset : dimensions are named, and each variable has a long name and a unit

        >>> import lazyrich as lr
        >>> task = lr.tasks.semantic_hierarchy()
        >>> problem = lr.Problem(task, lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
        >>> data = lr.solve(problem, [0.0, 50.0, 200.0]).to_xarray("mode_strengths")
        >>> dict(data.mode_strengths.sizes)
        {'time': 3, 'mode': 8}
        """
        try:
            import xarray
        except ImportError:
            raise ImportError("to_xarray needs xarray: pip install 'lazyrich[sweeps]'.") from None
        if len(observables) == 1 and isinstance(observables[0], list | tuple):
            observables = tuple(observables[0])
        known = all_observables() if observables else {}
        wanted = [_check.choice("observables", name, tuple(known)) for name in observables]
        data: dict[str, Any] = {}
        for name, (dims, long_name, _) in _PARTS.items():
            if self.knows(name):
                data[name] = (("time", *dims), np.asarray(getattr(self, name)), {"long_name": long_name, "units": "1"})
        for name in wanted:
            entry = known[name]
            about = {"long_name": entry.long_name, "units": entry.units}
            dims = entry.dims if self.problem.task.inputs is not None else entry.items
            data[name] = (("time", *dims), np.asarray(entry.measure(self)), about)
        attributes = {"method": self.method, "citation": self.citation, "status": self.status}
        attributes["notes"] = "\n".join(self.notes)
        time = ("time", np.asarray(self.times), {"long_name": "time", "units": "learning rate × steps"})
        return xarray.Dataset(data, coords={"time": time}, attrs=attributes)

    def _part(self, name: str) -> Any:
        if name not in self._parts:
            self._parts[name] = self._checked(name, self._derive(name))
        elif callable(self._parts[name]):
            count = len(np.asarray(self.times))
            numbers = sum(float(count) * math.prod(shape) for shape in self._shapes(name))
            smaller = "traj.function" if name in ("gram", "weights") else "traj.loss"
            remedy = f"fewer times, traj.at(some of them), or {smaller}"
            _check.memory(f"{name} at {count:,} times", 1.1 * numbers, remedy)
            self._parts[name] = self._checked(name, self._parts[name]())
        return self._parts[name]

    def _shapes(self, name: str) -> list[tuple[int, ...]]:
        """What one state of a part looks like; of the weights, each layer."""
        network, inputs = self.problem.network, self.problem.task.inputs
        d_in, *_, d_out = network.sizes
        shapes: dict[str, list[tuple[int, ...]]] = {
            "loss": [()],
            "function": [(d_out, d_in)],
            "outputs": [(0 if inputs is None else len(inputs), d_out)],
            "gram": [(d_in + d_out, d_in + d_out)],
            "weights": [W.shape for W in network.weights],
        }
        return shapes[_check.choice("parts", name, tuple(shapes))]

    def _checked(self, name: str, value: Any) -> Any:
        """A part with one state per time, read-only; or a sentence."""
        shapes, count = self._shapes(name), int(self.times.shape[0])
        if name == "weights" and not isinstance(value, list | tuple):
            raise InvalidInput(f"weights must be a list of arrays, one per layer, and it is a {type(value).__name__}.")
        arrays = list(value) if name == "weights" else [value]
        if len(arrays) != len(shapes):
            raise InvalidInput(f"weights must hold {len(shapes)} arrays, one per layer, and there are {len(arrays)}.")
        for i, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
            wanted, came = (count, *shape), tuple(np.shape(array))
            if came != wanted:
                label = f"weights[{i}]" if name == "weights" else name
                raise InvalidInput(
                    f"{label} must hold one state per time ({count}) and have shape {wanted}, and it has shape {came}."
                )
        kept = tuple(_read_only(array) for array in arrays)
        return kept if name == "weights" else kept[0]

    def _derive(self, name: str) -> Any:
        """From the weights, where they were recorded."""
        network = self.problem.network
        if name == "gram" and not _has_gram(self.problem):
            raise AttributeError(
                f"gram belongs to two-layer linear networks without biases, and this one is {network!r}; weights may "
                "be there instead."
            )
        if name == "outputs":
            return self._outputs()
        if name == "function" and not network.activation.linear:
            raise AttributeError(f"function is the matrix of a linear network, and this one is {network!r}.")
        if self.tangent is not None:
            raise AttributeError(NO_NETWORK)
        if "gram" in self._parts and name in ("function", "loss"):
            d_in = self.problem.task.d_in
            return self._loss_of_function() if name == "loss" else self.gram[:, d_in:, :d_in]
        if "function" in self._parts and name == "loss":
            return self._loss_of_function()
        if "weights" not in self._parts:
            kept = ", ".join(self._parts)
            raise AttributeError(
                f"{name} was not recorded (only {kept}): try lr.flow(problem, times, record=({name!r},))."
            )
        if name == "gram":
            W1, W2 = self.weights
            Q = np.concatenate([np.swapaxes(W1, 1, 2), W2], axis=1)
            return Q @ np.swapaxes(Q, 1, 2)
        if name == "function":
            return product(self.weights)
        if network.activation.linear:
            return self._loss_of_function()
        states, task = zip(*self.weights, strict=True), self.problem.task
        with one_blas_thread(max(network.sizes) <= SMALL):
            return np.array([loss_of(task, state, network.activation, self.problem.loss) for state in states])

    def _loss_of_function(self) -> Array:
        return np.asarray(self.problem.loss.of_map(self.problem.task, self.function))

    def _outputs(self) -> Array:
        """From the function, or from the weights where the network is not linear."""
        inputs, network = self.problem.task.inputs, self.problem.network
        if inputs is None:
            raise AttributeError(
                "outputs are those on the samples of the task, and this one holds correlations only: try traj.function."
            )
        if network.activation.linear:
            return inputs @ np.swapaxes(self.function, 1, 2)
        states = zip(*self.weights, strict=True)
        with one_blas_thread(max(network.sizes) <= SMALL):
            return np.array([list(forward(state, network.activation, inputs))[-1] for state in states])

    def __repr__(self) -> str:
        span = f"{len(self.times)} times to {float(self.times[-1]):g}" if len(self.times) else "no times"
        return f"<Trajectory: {self.method}, {span}, {self.status}>"


@cache
def _cited(keys: tuple[str, ...]) -> str:
    return "\n\n".join(BIBTEX[key] for key in keys)


def _read_only(array: Any) -> Any:
    """The same numbers, not to be written to; arrays of other libraries keep their own rules."""
    if not isinstance(array, np.ndarray | list | tuple | float):
        return array
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def as_trajectory(value: Any) -> Trajectory:
    """A trajectory, or a sentence."""
    if not isinstance(value, Trajectory):
        raise InvalidInput(
            f"traj must be a lazyrich Trajectory, and it is a {type(value).__name__}: lr.solve, lr.flow or lr.descend "
            "makes one."
        )
    return value


def _linear(problem: Problem) -> bool:
    return problem.network.activation.linear


def _has_gram(problem: Problem) -> bool:
    return _linear(problem) and problem.network.depth == 2 and not problem.network.biased


#: What every trajectory may hold itself: axes after time, long name, and where it exists.
_PARTS: dict[str, tuple[tuple[str, ...], str, Callable[[Problem], bool]]] = {
    "loss": ((), "loss", lambda problem: True),
    "function": (("output", "input"), "network function W", _linear),
    # many samples are many numbers: only where they are what was computed
    "outputs": (("sample", "output"), "outputs on the samples", lambda problem: False),
    "gram": (
        ("unit", "unit_"),
        "Gram matrix QQᵀ",
        _has_gram,
    ),
}
