"""Matrix factorisation: the gradient flow of W = W_L … W_1 on linear measurements of W, any depth and shape.

    Ẇ_ℓ = −∂/∂W_ℓ ½ Σ_m (⟨A_m, W⟩ − y_m)²

The layers are integrated as they are, in double precision, by Tsit5; a small balanced initialisation is usual. Singular
values then follow σ̇ = −L σ^{2−2/L} uᵀ∇v (Arora et al. 2019). Where W grows without bound, or the measurements are
nearly blind to some direction, the end is approached slowly and stiffly, and steps are many. What depth prefers among
the solutions is for `depths`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from typing import Any

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._typing import Array, Float, JaxArray, Rng, Tree
from lazyrich.bias.measurements import Measurements, as_measurements, as_shape, residual
from lazyrich.inits import zero_balanced
from lazyrich.networks import Network
from lazyrich.observables.representations import effective_rank_of

_STEPS = 512  # in one call of the compiled loop
_NEVER = 1e300  # a time that no flow reaches
_MOVED, _LATER = 1 / 300, 1 / 50  # what W, relative to its norm, and t must have moved by for another record


def small_init(shape: object, *, depth: int, epsilon: float, rng: Rng | None = None) -> Network:
    """Balanced layers whose product has largest singular value ε: W_ℓ = ε^{1/L} I, or zero-balanced from `rng`.

    Hidden layers are as wide as the narrower side of W: no rank is excluded, and to balanced layers more width adds
    nothing.

    Parameters
    ----------
    shape : (d_out, d_in) of W
    depth : number of layers L
    epsilon : ε
    rng : a seed, or a NumPy Generator; without it layers are multiples of the identity

    Returns
    -------
    Network

    >>> lr.bias.small_init((2, 3), depth=2, epsilon=0.01).function
    array([[0.01, 0.  , 0.  ],
           [0.  , 0.01, 0.  ]])
    """
    d_out, d_in = as_shape(shape)
    depth, epsilon = _check.count("depth", depth), _check.positive("epsilon", epsilon)
    sizes = (d_in, *[min(d_in, d_out)] * (depth - 1), d_out)
    if rng is None:
        return Network([epsilon ** (1 / depth) * np.eye(*layer) for layer in zip(sizes[1:], sizes[:-1], strict=True)])
    drawn = zero_balanced(rng, sizes=sizes, scale=1.0)
    factor = (epsilon / np.linalg.norm(drawn.function, 2)) ** (1 / depth)
    return Network([factor * W for W in drawn.weights])


@dataclass(frozen=True, eq=False)
class Factorisation:
    """The flow of a factorisation: times, W at each of them, the layers at the end, and how it ended."""

    measurements: Measurements
    times: Float[Array, " T"]
    W: Float[Array, "T out in"]
    network: Network  # where it ended
    status: str  # "converged", "complete", or what stopped it

    @cached_property
    def singular_values(self) -> Float[Array, "T m"]:
        return np.linalg.svd(self.W, compute_uv=False)

    @cached_property
    def loss(self) -> Float[Array, " T"]:
        return self.measurements.loss(self.W)

    @cached_property
    def test_error(self) -> Float[Array, " T"]:
        """Root mean square error in the hidden entries (see `Measurements.test_error`)."""
        return self.measurements.test_error(self.W)

    @property
    def effective_rank(self) -> Float[Array, " T"]:
        return effective_rank_of(self.singular_values)

    @property
    def nuclear_norm(self) -> Float[Array, " T"]:
        return self.schatten(1.0)

    def schatten(self, p: float) -> Float[Array, " T"]:
        """(Σσ^p)^{1/p}: a norm for p ≥ 1, a quasi-norm below."""
        return schatten(self.singular_values, p)

    def __str__(self) -> str:
        """A table of a few moments, evenly spread over the records."""
        rows = [f"{'time':>10} {'loss':>9} {'test error':>10} {'eff. rank':>9} {'nuclear':>9}  singular values"]
        for i in np.unique(np.linspace(0, len(self.times) - 1, 8).astype(int)):
            values = " ".join(f"{s:.3g}" for s in self.singular_values[i, :5])
            rows.append(
                f"{self.times[i]:10.4g} {self.loss[i]:9.2e} {cell(self.test_error[i]):>10} "
                f"{self.effective_rank[i]:9.3f} {self.nuclear_norm[i]:9.4g}  {values}"
            )
        return "\n".join([*rows, self.status])


def schatten(singular_values: object, p: float) -> Any:
    """(Σσ^p)^{1/p} over the last axis, p > 0: the nuclear norm at p = 1, Frobenius' at p = 2.

    Parameters
    ----------
    singular_values : along the last axis
    p : above 0

    Returns
    -------
    number : or an array, one for each set of singular values

    >>> lr.bias.schatten(np.array([[1.0, 4.0]]), 0.5)
    array([9.])
    """
    p, s = _check.positive("p", p), np.atleast_1d(_check.as_array("singular_values", singular_values))
    if s.min() < 0:
        raise InvalidInput(f"singular_values must not be negative, and the least is {s.min():g}.")
    largest = s.max(axis=-1, keepdims=True)
    relative = s / np.where(largest > 0, largest, 1.0)  # powers of what is huge would overflow
    return largest[..., 0] * (relative**p).sum(axis=-1) ** (1 / p)


def cell(number: float) -> str:
    """A number in a table; a dash for what is not known."""
    return "–" if np.isnan(number) else f"{number:.3g}"


def factorise(
    measurements: Measurements,
    network: Network,
    times: object = None,
    *,
    tolerance: float = 1e-10,
    rtol: float = 1e-9,
    max_steps: int = 200_000,
) -> Factorisation:
    """Gradient flow of the layers on the measurements, integrated in double precision.

    Without times it runs until it fits, and is recorded at those steps of the integrator where W or t has moved
    noticeably, so that every rise of a singular value is resolved.

    Parameters
    ----------
    measurements : of the matrix, such as a `completion`
    network : the layers at initialisation, such as `small_init`
    times : when to look; without them until it fits
    tolerance : of the loss, relative to that of W = 0, beyond the least there is
    rtol : of the integration
    max_steps : after about so many it ends where it is, and `status` says so

    Returns
    -------
    Factorisation : `times`, `W` at each of them, the last `network`, `status`, `singular_values`, `loss` …

    >>> problem = lr.bias.li_luo_lyu(2.0)
    >>> run = lr.bias.factorise(problem, lr.bias.small_init(problem.shape, depth=3, epsilon=1e-4))
    >>> run.status, run.effective_rank[-1].round(2), run.nuclear_norm[-1].round(2)
    ('converged', np.float64(1.0), np.float64(10.0))
    """
    as_measurements(measurements)
    if not isinstance(network, Network) or not network.activation.linear or network.biased:
        raise InvalidInput(f"network must be a linear lazyrich Network without biases, and it is {network!r}.")
    if (network.sizes[-1], network.sizes[0]) != measurements.shape:
        rows, columns = measurements.shape
        raise InvalidInput(
            f"network must have {columns} inputs and {rows} outputs, as the matrix has columns and rows, and it has "
            f"{network.sizes[0]} and {network.sizes[-1]}."
        )
    stops = None if times is None else _check.as_times(times)
    tolerance, rtol = _check.positive("tolerance", tolerance), _check.positive("rtol", rtol)
    if not 1e-14 <= rtol < 1:
        raise InvalidInput(f"rtol must lie between 1e-14 and 1, and it is {rtol:g}.")
    max_steps = _check.count("max_steps", max_steps)
    enough = 0.0
    if stops is None:
        enough = measurements.least_loss + tolerance * float(measurements.loss(np.zeros(measurements.shape)))
    flow = _Flow(measurements, network.weights, enough, rtol, max_steps)
    records = list(_until_converged(flow) if stops is None else _at(stops, flow))
    reached, W = np.array([t for t, _ in records]), np.array([W for _, W in records])
    return Factorisation(measurements, reached, W.reshape(-1, *measurements.shape), Network(flow.layers), flow.status)


_Record = tuple[float, Array]  # t, W


def _at(stops: Float[Array, " T"], flow: _Flow) -> Iterator[_Record]:
    """The records at these times, as far as the flow gets."""
    with progress(float(stops[-1]), "factorise") as move_on:
        for stop in stops.tolist():
            while flow.now < stop:
                before = flow.now
                if not flow.advance(stop):
                    return
                move_on(flow.now - before)
            yield flow.now, _product(flow.layers)


def _until_converged(flow: _Flow) -> Iterator[_Record]:
    """Steps that differ noticeably from the record before, and the last."""
    t, W = flow.now, _product(flow.layers)
    yield t, W
    with progress(np.log(max(flow.loss / flow.enough, 1.0)), "factorise") as move_on:
        while flow.now < _NEVER and flow.status == "complete" and (before := flow.loss) >= flow.enough:
            for t_next, W_next in flow.advance(_NEVER):
                if t_next > (1 + _LATER) * t or np.linalg.norm(W_next - W) > _MOVED * np.linalg.norm(W_next):
                    t, W = t_next, W_next
                    yield t, W
            move_on(np.log(before / max(flow.loss, flow.enough)))
    if t < flow.now:
        yield flow.now, _product(flow.layers)
    if flow.loss < flow.enough:
        flow.status = flow.converged
    elif flow.now >= _NEVER:
        flow.status = f"stands still at loss {flow.loss:.3g}: try an initialisation that is not zero"


class _Flow:
    """An integration under way: the layers now, and what ended it."""

    def __init__(
        self, measurements: Measurements, layers: Sequence[Array], enough: float, rtol: float, max_steps: int
    ) -> None:
        self.now, self.layers, self.status, self.enough = 0.0, tuple(layers), "complete", enough
        self._measurements, self._steps_left = measurements, max_steps
        end = float(np.abs(measurements.y).max() / np.abs(measurements.A).max()) ** (1 / len(layers))
        self._tolerances = rtol, 1e-3 * rtol * min([end, *(float(np.abs(W).mean()) for W in layers if W.any())])

    @property
    def loss(self) -> float:
        return float(self._measurements.loss(_product(self.layers)))

    @property
    def converged(self) -> str:
        """The status of a flow that has come to its end."""
        least = self._measurements.least_loss
        if 2 * least < self.enough:  # rounding
            return "converged"
        return f"converged to loss {least:.3g}, the least there is: the measurements contradict each other"

    def advance(self, stop: float) -> list[_Record]:
        """Some steps, at most as far as `stop` or until the loss is low enough; none where the flow cannot go on."""
        if self._steps_left <= 0:
            self.status = f"stopped at t = {self.now:.6g}, loss {self.loss:.3g}: try a larger max_steps"
            return []
        A, y = self._measurements.A, self._measurements.y
        with _engines.double_precision("factorise"):
            reached = _compiled()(self.layers, self.now, stop, A, y, self.enough, *self._tolerances)
        layers, now, taken, times, W = reached[0], *map(np.asarray, reached[1:])
        layers = tuple(np.asarray(layer) for layer in layers)
        if now == self.now or not all(np.isfinite(layer).all() for layer in layers):
            self.status = f"stalled at t = {self.now:.6g}, where no step is small enough or numbers overflow"
            return []
        self.layers, self.now, self._steps_left = layers, float(now), self._steps_left - int(taken)
        accepted = np.isfinite(times)
        return list(zip(times[accepted].tolist(), W[accepted], strict=True))


def _product(layers: Sequence[JaxArray]) -> Tree:
    """W_L … W_1, in NumPy or JAX."""
    return reduce(lambda W, layer: layer @ W, layers)


@cache
def _compiled() -> Tree:
    """One call: from a state through some steps, each with its time and W."""
    jax, diffrax = _engines.load("jax", "factorise"), _engines.load("diffrax", "factorise")
    rms = _engines.load("optimistix", "factorise").rms_norm

    def loss(layers: JaxArray, A: JaxArray, y: Tree) -> Tree:
        return (residual(A, y, _product(layers)) ** 2).sum() / 2

    def velocity(_: JaxArray, layers: JaxArray, args: JaxArray) -> Tree:
        A, y, _ = args
        return jax.tree.map(jax.numpy.negative, jax.grad(loss)(layers, A, y))

    def low_enough(_: JaxArray, layers: JaxArray, args: JaxArray, **__: JaxArray) -> Tree:
        A, y, enough = args
        return loss(layers, A, y) < enough

    def error_norm(error: JaxArray) -> Tree:
        """Infinite for a step that overflows: the controller then tries a smaller one, and after nan it could not."""
        return jax.numpy.nan_to_num(rms(error), nan=jax.numpy.inf, posinf=jax.numpy.inf)

    def advance(
        layers: JaxArray,
        now: JaxArray,
        stop: JaxArray,
        A: JaxArray,
        y: Tree,
        enough: JaxArray,
        rtol: JaxArray,
        atol: JaxArray,
    ) -> Tree:
        steps = diffrax.SubSaveAt(steps=True, fn=lambda t, layers, args: _product(layers))
        run = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            diffrax.Tsit5(),
            t0=now,
            t1=stop,
            dt0=None,
            y0=layers,
            args=(A, y, enough),
            saveat=diffrax.SaveAt(subs={"steps": steps, "end": diffrax.SubSaveAt(t1=True)}),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol, norm=error_norm),
            event=diffrax.Event(low_enough),
            adjoint=diffrax.ForwardMode(),  # a plain loop: nobody differentiates through it
            max_steps=_STEPS,
            throw=False,
        )
        end = tuple(layer[0] for layer in run.ys["end"])
        return end, run.ts["end"][0], run.stats["num_steps"], run.ts["steps"], run.ys["steps"]

    return jax.jit(advance)
