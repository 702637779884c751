"""What `fit` returns: estimates with intervals, what trades off, how models compare, and what to do with it next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float, Rng
from lazyrich.fit.likelihood import Likelihood
from lazyrich.fit.profiles import Interval, Profile
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from lazyrich.fit.recovery import Recovery

__all__ = ["Comparison", "Fit", "Interval"]


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Parameters of one model, fitted. `print(fit)` has one table, `.plot()` draws it.

    Where subjects have parameters of their own, `subjects` has the fit of each, `estimates` and `intervals` are those
    of the group's mean (of logarithms, but for lapse), and `spread` is their standard deviation between subjects.

    >>> task, times = lr.tasks.semantic_hierarchy(), np.linspace(0.0, 100.0, 60)
    >>> start = lr.inits.aligned(0, task, hidden=14, strengths=0.01)
    >>> curve = lr.solve(lr.Problem(task, start, rates=0.5), times).loss + 0.02 * np.sin(997.0 * np.arange(60))
    >>> found = lr.fit(task, (8, 14, 8), times, loss=curve, free={"scale": (1e-4, 0.5), "rate": (0.05, 5.0)})
    >>> {name: round(value, 2) for name, value in found.estimates.items()}, 0.5 in found.intervals["rate"]
    ({'scale': 0.01, 'rate': 0.5}, True)
    """

    model: str
    estimates: dict[str, float]
    intervals: dict[str, Interval]  # 95 %
    log_likelihood: float
    parameters: int  # estimated, those of the noise among them
    count: int  # of measurements
    likelihood: Likelihood  # of all that was measured
    profiles: tuple[Profile, ...]
    optima: tuple[dict[str, float], ...]  # the best first, and others that are not much lower
    trade_offs: tuple[tuple[str, str], ...]  # pairs of parameters of which one can make up for the other
    within: float  # of the highest log-likelihood: values of a profile that are in the interval
    notes: tuple[str, ...]  # what a reader should know
    names: tuple[Any, ...] = ()  # of the subjects
    subjects: tuple[Fit, ...] = ()
    spread: Mapping[str, float] | None = None
    others: tuple[Fit, ...] = ()  # other models of the same measurements

    @property
    def aic(self) -> float:
        """Akaike's criterion: less is better."""
        return 2 * self.parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion: less is better; it asks more of a model with more parameters."""
        return self.parameters * float(np.log(self.count)) - 2 * self.log_likelihood

    @property
    def unidentified(self) -> tuple[str, ...]:
        """Free parameters of which the measurements say nothing within the bounds."""
        return tuple(name for name, interval in self.intervals.items() if not interval.identified)

    @cached_property
    def problem(self) -> Problem:
        """The model at its estimates, as a problem whose time is that of the measurements."""
        return self.likelihood.model.problem(self.values)

    @cached_property
    def trajectory(self) -> Trajectory:
        """What it does at the times of the measurements."""
        return self.likelihood.model.trajectory(self.values, self.likelihood.times)

    @property
    def values(self) -> dict[str, float]:
        """The estimates, and the parameters that were held."""
        return {**{name: float(value) for name, value in self.likelihood.space.held.items()}, **self.estimates}

    @cached_property
    def predicted(self) -> dict[str, Array]:
        """What each readout would be without noise, at the estimates."""
        return self.predicted_at(self.likelihood.times)

    def predicted_at(self, times: Float[Array, " t"]) -> dict[str, Array]:
        """The same at other times, none of them after the last measurement."""
        likelihood = self.likelihood
        here, there = likelihood.expected(self.values), replace(likelihood, times=times).expected(self.values)
        return {
            one.name: one.noise.gain_of(mean) * other
            for one, mean, other in zip(likelihood.readouts, here, there, strict=True)
        }

    @cached_property
    def noise(self) -> dict[str, float]:
        """The standard deviation of each Gaussian readout; of a group around the subjects' own curves, pooled."""
        if self.subjects:
            counts = [one.likelihood.counts for one in self.subjects]
            return {
                name: float(np.sqrt(np.average([one.noise[name] ** 2 for one in self.subjects], weights=weights)))
                for name in self.subjects[0].noise
                for weights in [[one[name] for one in counts]]
            }
        pairs = zip(self.likelihood.readouts, self.likelihood.expected(self.values), strict=True)
        sizes = {one.name: one.noise.spread(mean) for one, mean in pairs}
        return {name: sd for name, sd in sizes.items() if not np.isnan(sd)}

    def compare(self) -> Comparison:
        """This model beside the others that were fitted to the same measurements, the best first.

        >>> task, times = lr.tasks.semantic_hierarchy(), np.linspace(0.0, 100.0, 60)
        >>> curve = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=14, strengths=0.01)), times).loss
        >>> free = {"scale": (1e-4, 0.5), "rate": (0.05, 5.0)}
        >>> found = lr.fit(task, (8, 14, 8), times, loss=curve, noise=0.05, free=free, models=("deep", "shallow"))
        >>> [row.model for row in found.compare().rows]
        ['deep', 'shallow']
        """
        fits = sorted((self, *self.others), key=lambda one: one.bic)
        return Comparison(tuple(Row(one.model, one.parameters, one.log_likelihood, one.aic, one.bic) for one in fits))

    def jax_log_likelihood(self) -> Callable[[Mapping[str, Any]], Any]:
        """The log-likelihood as a JAX function of a dictionary of parameters, for samplers and optimisers.

        Parameters that are not in the dictionary keep their values here. Noise whose size was not given has its best
        size at all of them: it is profiled out, not a parameter. Bounds are not looked at: a prior has them.
        Call it where JAX computes in double precision: inside `with jax.enable_x64(True):`, say.

        Returns
        -------
        function : of {name: number or traced array} with a scalar value; `jax.grad`, `jit` and `vmap` go through it

        >>> import jax
        >>> task, times = lr.Task.from_correlations([[2.0]]), np.linspace(0.0, 3.0, 20)
        >>> curve = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=1, strengths=0.01)), times).loss
        >>> found = lr.fit(task, (1, 1, 1), times, loss=curve, noise=0.1, free={"scale": (1e-3, 0.1)})
        >>> with jax.enable_x64(True):
        ...     value, slope = jax.value_and_grad(found.jax_log_likelihood())({"scale": 0.01})
        ...     bool(abs(value - found.log_likelihood) < 1e-6), bool(abs(slope["scale"]) < 1e-3)
        (True, True)
        """
        jnp = _engines.load("jax.numpy", "jax_log_likelihood")
        if self.subjects:
            raise InvalidInput(
                "jax_log_likelihood is that of one subject, and this fit is of a group: try "
                "fit.subjects[0].jax_log_likelihood()."
            )
        known = tuple(self.values)

        def log_likelihood(values: Mapping[str, Any]) -> Any:
            if jnp.zeros(0).dtype != np.float64:
                raise InvalidInput(
                    "the likelihood computes in float64, and JAX is set to float32 here: try it inside "
                    "`with jax.enable_x64(True):`."
                )
            for name in values:
                _check.choice("each parameter of the likelihood", name, known)
            given = {name: jnp.asarray(value) for name, value in (self.values | dict(values)).items()}
            return self.likelihood.of_values(given, jnp)

        return log_likelihood

    def recovery(self, n: int = 100, *, rng: Rng = 0, over: str = "estimates") -> Recovery:
        """Whether the same measurements, simulated from known parameters, give these back: errors and coverage.

        Parameters
        ----------
        n : data sets to simulate and to fit
        rng : a seed, or a NumPy Generator
        over : "estimates", or "bounds" to draw the truth of each from all of the bounds, evenly in their coordinates

        Returns
        -------
        Recovery

        >>> task, times = lr.Task.from_correlations(np.diag([2.0, 1.0])), np.linspace(0.0, 10.0, 40)
        >>> start = lr.inits.aligned(0, task, hidden=2, strengths=0.01)
        >>> curve = lr.solve(lr.Problem(task, start), times).loss
        >>> free = {"scale": (1e-4, 0.5), "rate": (0.1, 10.0)}
        >>> again = lr.fit(task, (2, 2, 2), times, loss=curve, noise=0.1, free=free).recovery(20)
        >>> again.truths["rate"].shape, bool(again.coverage["rate"] > 0.7)
        ((20,), True)
        """
        from lazyrich.fit.recovery import recover

        return recover(self, n, rng, over)

    def plot(self, path: str | Path | None = None) -> Figure:
        """What was measured with the fit through it, the profile of every parameter, and the ridge if two trade off.

        Parameters
        ----------
        path : where to write it, if at all

        Returns
        -------
        Figure
        """
        from lazyrich.plot import fit as picture
        from lazyrich.plot import style

        figure = picture.draw(self)
        if path is not None:
            style.save(figure, style.figure_path(path, "fit.png"))
        return figure

    def to_xarray(self) -> xarray.Dataset:
        """Estimates and intervals by parameter, and what was measured and predicted over time."""
        xarray = _engines.load("xarray", "to_xarray", "sweeps")
        names = list(self.estimates)
        ends = [[self.intervals[name].low, self.intervals[name].high] for name in names]
        open_ends = [[self.intervals[name].low_open, self.intervals[name].high_open] for name in names]
        data: dict[str, Any] = {
            "estimate": ("parameter", [self.estimates[name] for name in names], {"long_name": "estimate"}),
            "interval": (("parameter", "end"), np.reshape(ends, (-1, 2)), {"long_name": "95 % interval"}),
            "open": (("parameter", "end"), np.reshape(open_ends, (-1, 2)), {"long_name": "end is only a bound"}),
        }
        for one in self.likelihood.readouts:
            axes = ["time", *(f"{one.name}_{i}" for i in range(one.noise.mean.ndim - 1))]
            data[one.name] = (axes, one.noise.mean, {"long_name": f"{one.words}, measured"})
            data[f"{one.name}_predicted"] = (axes, self.predicted[one.name], {"long_name": f"{one.words}, fitted"})
        coordinates: dict[str, Any] = {"parameter": names, "end": ["low", "high"], "time": self.likelihood.times}
        if self.subjects:
            each = [[one.estimates[name] for name in names] for one in self.subjects]
            data["subject_estimate"] = (("subject", "parameter"), each, {"long_name": "estimate of each subject"})
            coordinates["subject"] = list(self.names)
        about = {"model": self.model, "log_likelihood": self.log_likelihood, "aic": self.aic, "bic": self.bic}
        return xarray.Dataset(data, coordinates, about | {"notes": "\n".join(self.notes)})

    def __str__(self) -> str:
        what = ", ".join(one.words for one in self.likelihood.readouts)
        noise = "; ".join(f"noise of {name} {sd:.3g}" for name, sd in self.noise.items())
        who = f", {len(self.names)} subjects" if len(self.names) > 1 else ""
        lines = [
            f"model         {self.likelihood.model.words}",
            f"measured      {what} at {len(self.likelihood.times)} times{who}{f' ({noise})' if noise else ''}",
            f"{'':<14}{'estimate':<12}{'95 % interval':<28}{'between subjects' if self.spread else ''}".rstrip(),
        ]
        for name, value in self.estimates.items():
            spread = "" if self.spread is None else _between(self, name)
            lines.append(f"{name:<14}{value:<12.4g}{self.intervals[name]!s:<28}{spread}".rstrip())
        lines += [f"{name:<14}{value:<12.4g}held" for name, value in self.values.items() if name not in self.estimates]
        lines.append(f"log-likelihood {self.log_likelihood:.2f}, AIC {self.aic:.2f}, BIC {self.bic:.2f}")
        if self.others:
            lines += str(self.compare()).splitlines()
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {value:.3g}" for name, value in self.estimates.items())
        return f"<Fit: {self.model}, {told}>"


def _between(fit: Fit, name: str) -> str:
    """The spread as people read it: a factor, where logarithms were averaged."""
    assert fit.spread is not None
    axis = {one.name: one.axis for one in fit.likelihood.space.free}[name]
    return f"± {fit.spread[name]:.3g}" if axis == "linear" else f"× {np.exp(fit.spread[name]):.3g}"


@dataclass(frozen=True)
class Row:
    """One model in a comparison."""

    model: str
    parameters: int
    log_likelihood: float
    aic: float
    bic: float


@dataclass(frozen=True)
class Comparison:
    """Models of the same measurements, the best (by BIC) first. `print(comparison)` has one table."""

    rows: tuple[Row, ...]

    @property
    def weights(self) -> Float[Array, " models"]:
        """How likely each is among them: e^{−BIC/2}, normalised."""
        raised = np.exp(-0.5 * np.array([row.bic - self.rows[0].bic for row in self.rows]))
        return np.asarray(raised / raised.sum())

    def __str__(self) -> str:
        head = f"{'model':<14}{'parameters':>10}{'log-lik.':>12}{'AIC':>12}{'BIC':>12}{'weight':>9}"
        rows = [
            f"{row.model:<14}{row.parameters:>10}{row.log_likelihood:>12.2f}{row.aic:>12.2f}{row.bic:>12.2f}{weight:>9.3f}"
            for row, weight in zip(self.rows, self.weights, strict=True)
        ]
        return "\n".join([head, *rows])
