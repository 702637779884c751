"""One model, one set of measurements: searched, profiled, and what a reader should know of it."""

from __future__ import annotations

import numpy as np

from lazyrich.fit.likelihood import Likelihood
from lazyrich.fit.parameters import Balance
from lazyrich.fit.profiles import Profile, held_up, interval, profiles, threshold, trading
from lazyrich.fit.result import Fit
from lazyrich.fit.search import Optimum, optima

_BY_CHANCE = 1e-4  # that noise of one size looks so uneven
_SEED = 0  # of the places where a search begins: the same measurements give the same fit
_AWAY, _PRESSED = 0.05, 0.5  # an optimum is pressed against a bound if so far from it the likelihood is lower by that


def fit_one(likelihood: Likelihood) -> Fit:
    """One model and one parameter vector."""
    found = optima(likelihood, np.random.default_rng(_SEED))
    made, best = profiles(likelihood, found)
    within = threshold(likelihood)
    intervals = {one.name: interval(one, i, best.log_likelihood, within) for i, one in enumerate(made)}
    trades = trading(made, best.log_likelihood, within)
    space = likelihood.space
    seen = [best, *(other for other in found if other is not best)]
    places = [_values(likelihood, one) for one in seen]
    ours = [{name: values[name] for name in space.names} for values in places]
    unknown = tuple(name for name, one in intervals.items() if not one.identified)
    notes = _notes(likelihood, made, ours, seen, within, unknown, trades)
    about = (likelihood.parameters, likelihood.count, likelihood, made)
    return Fit(
        likelihood.model.name, ours[0], intervals, best.log_likelihood, *about, tuple(ours), trades, within, notes
    )


def _notes(
    likelihood: Likelihood,
    made: tuple[Profile, ...],
    ours: list[dict[str, float]],
    seen: list[Optimum],
    within: float,
    unknown: tuple[str, ...],
    trades: tuple[tuple[str, str], ...],
) -> tuple[str, ...]:
    notes = []
    for name in unknown:
        notes.append(f"{name} is not identified: values all over its bounds fit as well, so its estimate says nothing")
    for one, other in trades:
        notes.append(
            f"{one} and {other} trade off: a change of one makes up for a change of the other (.plot() has the ridge)"
        )
    for lower, values in zip(seen[1:], ours[1:], strict=True):
        below = seen[0].log_likelihood - lower.log_likelihood
        if 0 <= below < within:
            told = ", ".join(f"{name} {value:.3g}" for name, value in values.items())
            notes.append(f"another optimum is about as likely (log-likelihood lower by {below:.2g}): {told}")
    for i, (coordinate, profile) in enumerate(zip(likelihood.space.free, made, strict=True)):
        place = seen[0].place[i]
        away = profile.log_likelihood[np.abs(profile.path[:, i] - place) > _AWAY].max(initial=-np.inf)
        pressed = (place == 0 and coordinate.low != 0) or place == 1
        if pressed and away < seen[0].log_likelihood - _PRESSED:
            notes.append(
                f"{coordinate.name} is at a bound, {ours[0][coordinate.name]:.3g}: wider bounds may fit better"
            )
    for name, end, other in held_up(likelihood, made, seen[0].log_likelihood, within):
        notes.append(f"the interval of {name} ends at {end:.3g} because {other} has come to its bound there")
    best = likelihood.expected(_values(likelihood, seen[0]))
    for readout, expected in zip(likelihood.readouts, best, strict=True):
        factor, chance = readout.noise.unevenness(expected)
        if chance < _BY_CHANCE:
            larger, where = max(factor, 1 / factor), "large" if factor > 1 else "small"
            notes.append(
                f"noise of {readout.words} is {larger:.2g} times as large where that is {where}, and is taken to be of "
                "one size: the intervals are not to be trusted"
            )
    signed = any(isinstance(one, Balance) for one in likelihood.space.free)
    if "lam" in likelihood.space.names and not signed:
        notes.append("the sign of lam cannot be seen here: λ and −λ learn the same function")
    return tuple(notes)


def _values(likelihood: Likelihood, optimum: Optimum) -> dict[str, float]:
    """Of all parameters, by name."""
    return {name: float(value) for name, value in likelihood.space.values(optimum.place).items()}
