"""Simulated measurements, fitted like real ones: are parameters found again, and do intervals keep their promise?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._threads import one_blas_thread
from lazyrich._typing import Array, Float, Rng
from lazyrich.fit.likelihood import Likelihood
from lazyrich.fit.profiles import Interval
from lazyrich.fit.result import Fit
from lazyrich.fit.single import fit_one


@dataclass(frozen=True, eq=False, repr=False)
class Recovery:
    """Fits of simulated measurements, whose truth is known. `print(recovery)` has a table.

    >>> fits = Recovery({"rate": np.array([1.0, 2.0])}, {"rate": np.array([1.1, 2.0])},
    ...                 {"rate": (Interval(0.5, 1.5), Interval(2.1, 3.0))}, {"rate": False})
    >>> fits.coverage["rate"], round(fits.median_error["rate"], 3)
    (0.5, 0.048)
    """

    truths: Mapping[str, Float[Array, " n"]]
    estimates: Mapping[str, Float[Array, " n"]]
    intervals: Mapping[str, tuple[Interval, ...]]
    evenly: Mapping[str, bool]  # whether errors are differences, or logarithms of a factor

    @property
    def coverage(self) -> dict[str, float]:
        """The share of intervals that hold the truth: 0.95 is what they promise."""
        pairs = {name: zip(self.truths[name], self.intervals[name], strict=True) for name in self.truths}
        return {name: float(np.mean([truth in one for truth, one in pairs[name]])) for name in pairs}

    @property
    def identified(self) -> dict[str, float]:
        """The share of data sets that say anything of a parameter."""
        return {name: float(np.mean([one.identified for one in some])) for name, some in self.intervals.items()}

    @property
    def median_error(self) -> dict[str, float]:
        """Of the estimates, where the parameter is identified: |ln(estimate/truth)|, or the plain difference of what is
        not a matter of factors; nan where it never is."""
        found = {}
        for name, truth in self.truths.items():
            known = np.array([one.identified for one in self.intervals[name]])
            off = self.estimates[name] - truth
            if not self.evenly[name]:
                off = np.log(self.estimates[name] / truth)
            found[name] = float(np.median(np.abs(off[known]))) if known.any() else float("nan")
        return found

    def __str__(self) -> str:
        n = len(next(iter(self.truths.values())))
        lines = [f"{n} simulated data sets", f"{'':<14}{'median error':>14}{'coverage':>10}{'identified':>12}"]
        for name, error in self.median_error.items():
            told = f"{error:.3g}" if self.evenly[name] else _as_factor(error)
            lines.append(f"{name:<14}{told:>14}{self.coverage[name]:>10.2f}{self.identified[name]:>12.2f}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Recovery: {len(next(iter(self.truths.values())))} data sets>"


def _as_factor(error: float) -> str:
    """An error of a logarithm, as people read it."""
    return f"{100 * np.expm1(error):.2g} %" if error < np.log(2) else f"× {np.exp(error):.2g}"


def recover(fit: Fit, n: int, rng: Rng, over: str) -> Recovery:
    """`n` data sets like those of a fit, simulated and fitted."""
    count, generator = _check.count("n", n), _check.as_rng(rng)
    _check.choice("over", over, ("estimates", "bounds"))
    if fit.subjects:
        raise InvalidInput(
            "recovery is that of one subject, and this fit is of a group: try fit.subjects[0].recovery(n)."
        )
    space = fit.likelihood.space
    if not space.free:
        raise InvalidInput("recovery needs a free parameter, and all of them are held: try bounds in free.")
    place = space.places(fit.estimates)
    places = generator.uniform(size=(count, len(place))) if over == "bounds" else np.tile(place, (count, 1))
    fits = []
    with progress(count, "recovery") as advance, one_blas_thread():
        for where in places:
            fits.append(fit_one(simulated(fit.likelihood, where, generator)))
            advance(1)
    truths = space.values(places)
    return Recovery(
        {name: np.asarray(truths[name]) for name in space.names},
        {name: np.array([one.estimates[name] for one in fits]) for name in space.names},
        {name: tuple(one.intervals[name] for one in fits) for name in space.names},
        {one.name: one.evenly for one in space.free},
    )


def simulated(likelihood: Likelihood, place: Float[Array, " d"], rng: np.random.Generator) -> Likelihood:
    """The same readouts measured anew where the parameters are those of a place.

    Noise of unknown size has the size at which the measurements that there are fit best; a gain is theirs too.
    """
    expected = likelihood.expected(likelihood.space.values(place))
    drawn = [one.drawn(mean, rng) for one, mean in zip(likelihood.readouts, expected, strict=True)]
    return replace(likelihood, readouts=tuple(drawn))
