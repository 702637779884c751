"""Subjects with parameters of their own, and the group that they are from.

Subjects scatter around the group's mean as N(μ, τ²), independently in each coordinate (logarithms, mostly), and what
is measured of subject i says L_i(θ):

    L(μ, τ) = Π_i ∫ L_i(θ) N(θ; μ, τ²) dθ

A subject whose likelihood is flat or open in some direction says little or nothing of it, and none is left out. Each
L_i is taken for a sum of normal densities, Σ_a π_a N(θ; m_a, C_a), around places on its profiles, so ridges may bend;
π, m and C are fitted to L_i by one round of importance sampling. The integrals are then known:
Σ_a π_a N(m_a; μ, C_a + τ²). At the bounds likelihoods are reflected, so that nothing is pushed away from them. What is
approximate here: these sums; and that parameters scatter independently of each other. The interval of μ is where the
best of all else is within n/2 ln(1 + F/(n − 1)) of the top, which is Student's where subjects are known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.fit.likelihood import Likelihood
from lazyrich.fit.profiles import LEVEL, Interval, Profile
from lazyrich.fit.result import Fit

_DRAWS = 6000  # places at which the likelihood of a subject is looked at
_DOWN = 6.0  # how far below the top of a profile densities are put
_WIDEST = 0.07  # of the bounds: the widest density, where a direction is flat; profiles have places that near
_REACH = 3.0  # standard deviations
_MEANS = 25  # tried for each μ
_LEAST = 1e-3  # of the bounds: the least spread


@dataclass(frozen=True, eq=False)
class Mixture:
    """A likelihood as a sum of normal densities."""

    logs: Float[Array, " a"]  # ln π
    means: Float[Array, "a d"]
    covariances: Float[Array, "a d d"]


def group_fit(each: list[Fit], together: Likelihood) -> Fit:
    """The fit of a group from those of its subjects."""
    first, rng = each[0], np.random.default_rng(0)
    free = first.likelihood.space.free
    best, spread, profiles = _Group([mixture_of(fit, rng) for fit in each]).found() if free else ((), (), [])
    within, intervals, made = _within(len(each)), {}, []
    for i, (coordinate, (means, height)) in enumerate(zip(free, profiles, strict=True)):
        inside = np.flatnonzero(height >= height.max() - within)
        ends = [
            _crossing(means, height, int(inside[0]), -1, within),
            _crossing(means, height, int(inside[-1]), 1, within),
        ]
        (low, low_open), (high, high_open) = sorted((float(coordinate.value(at)), at in (0.0, 1.0)) for at in ends)
        intervals[coordinate.name] = Interval(low, high, low_open, high_open)
        path = np.tile(best, (len(means), 1))
        path[:, i] = means
        made.append(Profile(coordinate.name, np.asarray(coordinate.value(means)), height, path))
    values = {one.name: float(one.value(place)) for one, place in zip(free, best, strict=True)}
    widths = [abs(float(one.stretched(one.high) - one.stretched(one.low))) for one in free]
    return replace(
        first,
        estimates=values,
        intervals=intervals,
        spread={one.name: one.spread(float(width * sd)) for one, width, sd in zip(free, widths, spread, strict=True)},
        log_likelihood=sum(fit.log_likelihood for fit in each),
        parameters=sum(fit.parameters for fit in each),
        count=sum(fit.count for fit in each),
        likelihood=together,
        profiles=tuple(made),
        optima=(values,),
        trade_offs=tuple(dict.fromkeys(pair for fit in each for pair in fit.trade_offs)),
        within=within,
        notes=_notes(each, intervals),
        subjects=tuple(each),
    )


def _notes(each: list[Fit], intervals: dict[str, Interval]) -> tuple[str, ...]:
    notes = []
    for name, one in intervals.items():
        if not one.identified:
            notes.append(f"{name} is not identified in the group, so its estimate says nothing")
        elif left := sum(name in fit.unidentified for fit in each):
            notes.append(f"{name} is not identified in {left} of {len(each)} subjects, who say nothing of it")
    shared = [note for note in each[0].notes if "sign of lam" in note]
    return tuple([*notes, *shared])


def _within(n: int) -> float:
    from scipy.stats import f  # here: it is slow to load

    return float(n / 2 * np.log1p(f.ppf(LEVEL, 1, n - 1) / (n - 1)))


def _crossing(means: Array, height: Array, edge: int, way: int, within: float) -> float:
    """Where a profile passes its level beyond the last place inside, by the root of what is lost; a bound if never."""
    beyond = edge + way
    if not 0 <= beyond < len(means):
        return float(means[edge])
    root = np.sqrt(height.max() - height[[edge, beyond]])
    share = (np.sqrt(within) - root[0]) / (root[1] - root[0])
    return float(means[edge] + share * (means[beyond] - means[edge]))


def mixture_of(fit: Fit, rng: np.random.Generator) -> Mixture:
    """The likelihood of one subject, with densities around what its profiles went through."""
    likelihood, top = fit.likelihood, fit.log_likelihood
    anchors = np.concatenate([one.path[one.log_likelihood > top - _DOWN] for one in fit.profiles])
    anchors = anchors[np.unique(np.round(anchors, 3), axis=0, return_index=True)[1]]
    d = anchors.shape[1]
    C = 1.5 * np.linalg.inv(likelihood.scored(anchors)[1] + np.eye(d) / _WIDEST**2)
    anchors, C = _mirrored(anchors, C)
    root = np.linalg.cholesky(C)
    which = rng.integers(len(anchors), size=_DRAWS)
    drawn = anchors[which] + np.einsum("nij,nj->ni", root[which], rng.normal(size=(_DRAWS, d)))
    each = np.exp(_log_normal(drawn[:, None] - anchors, C))  # (draws, A): what they were drawn from
    share = each / each.sum(axis=1, keepdims=True)
    weight = np.exp(likelihood(1 - np.abs(1 - drawn % 2)) - top) / each.sum(axis=1)  # reflected at 0 and 1
    mass = share * weight[:, None]
    total = mass.sum(axis=0)
    kept = total > 1e-9 * total.sum()
    mass, total = mass[:, kept] / total[kept], total[kept]
    means = mass.T @ drawn
    off = drawn[:, None] - means
    spread = np.einsum("na,nai,naj->aij", mass, off, off)
    # few draws make a density too narrow; it is at least a tenth of what was drawn from
    return Mixture(np.log(total / total.sum()), means, spread + 0.01 * C[kept])


def _mirrored(anchors: Float[Array, "a d"], C: Float[Array, "a d d"]) -> tuple[Array, Array]:
    """Beside each that reaches over a bound its mirror image."""
    for i in range(anchors.shape[1]):
        reach = _REACH * np.sqrt(C[:, i, i])
        flip = np.where(np.arange(anchors.shape[1]) == i, -1.0, 1.0)
        images, spreads = [anchors], [C]
        for bound in (0.0, 1.0):
            near = np.abs(anchors[:, i] - bound) < reach
            image = anchors[near].copy()
            image[:, i] = 2 * bound - image[:, i]
            images.append(image[np.abs(image[:, i] - bound) > 0])
            spreads.append((C[near] * flip * flip[:, None])[np.abs(image[:, i] - bound) > 0])
        anchors, C = np.concatenate(images), np.concatenate(spreads)
    return anchors, C


def _log_normal(off: Float[Array, "*n d"], C: Float[Array, "*a d d"]) -> Float[Array, "*n"]:
    """ln N(off; 0, C)."""
    solved = np.linalg.solve(C, off[..., None])[..., 0]
    _, size = np.linalg.slogdet(C)
    return -0.5 * (np.sum(off * solved, axis=-1) + size + off.shape[-1] * np.log(2 * np.pi))


class _Group:
    """ln L(μ, τ) of all subjects, its slopes, and where it is highest."""

    def __init__(self, mixtures: list[Mixture]) -> None:
        self.n, self.d = len(mixtures), mixtures[0].means.shape[1]
        self.logs, self.means, self.covariances = (
            np.concatenate([getattr(one, part) for one in mixtures]) for part in ("logs", "means", "covariances")
        )
        self.starts = np.cumsum([0] + [len(one.logs) for one in mixtures[:-1]])
        self.owner = np.repeat(np.arange(self.n), [len(one.logs) for one in mixtures])

    def __call__(self, x: Float[Array, " p"]) -> tuple[float, Float[Array, " p"]]:
        """−ln L and its slope, at (μ, ln τ)."""
        mean, tau = x[: self.d], np.exp(x[self.d :])
        C = self.covariances + np.diag(tau**2)
        off = self.means - mean
        inverse = np.linalg.inv(C)
        solved = np.einsum("aij,aj->ai", inverse, off)
        logs = self.logs + _log_normal(off, C)
        top = np.maximum.reduceat(logs, self.starts)
        raised = np.exp(logs - top[self.owner])
        total = np.add.reduceat(raised, self.starts)
        share = raised / total[self.owner]
        by_mean = share @ solved
        by_tau = share @ (solved**2 - np.einsum("aii->ai", inverse)) * tau**2
        return -float(np.sum(top + np.log(total))), -np.concatenate([by_mean, by_tau])

    def found(self) -> tuple[Float[Array, " d"], Float[Array, " d"], list[tuple[Array, Array]]]:
        """μ and τ, and the profile of each μ."""
        tries = [self._best(np.full(self.d, np.nan), np.concatenate([self._middle(), np.full(self.d, np.log(tau))]))
                 for tau in (0.02, 0.2)]  # fmt: skip
        low, x = min(tries, key=lambda one: one[0])
        profiles = []
        for i in range(self.d):
            means = np.unique(np.append(np.linspace(0, 1, _MEANS), self._near(x, i)))
            height = np.full(len(means), -low)
            middle = int(np.searchsorted(means, x[i]))
            for order in (range(middle, len(means)), range(middle - 1, -1, -1)):
                at = x
                for k in order:
                    held = np.full(self.d, np.nan)
                    held[i] = means[k]
                    value, at = self._best(held, at)
                    height[k] = -value
            profiles.append((means, np.minimum(height, -low)))
        return x[: self.d], np.exp(x[self.d :]), profiles

    def _middle(self) -> Array:
        """The mean of all subjects."""
        return np.add.reduceat(np.exp(self.logs)[:, None] * self.means, self.starts).mean(axis=0)

    def _near(self, x: Array, i: int) -> Array:
        """Where the profile is looked at besides: as wide about the top as subjects make it."""
        width = np.sqrt((np.exp(2 * x[self.d + i]) + np.median(self.covariances[:, i, i])) / self.n)
        around = x[i] + width * np.array([-4, -3, -2.5, -2, -1.5, -1, 0, 1, 1.5, 2, 2.5, 3, 4])
        return around[(around >= 0) & (around <= 1)]

    def _best(self, held: Array, start: Array) -> tuple[float, Array]:
        """The highest from here; means that are held stay."""
        from scipy.optimize import minimize  # here: it is slow to load

        fixed = ~np.isnan(held)
        start = np.concatenate([np.where(fixed, held, start[: self.d]), start[self.d :]])
        box = [(v, v) if f else (0.0, 1.0) for v, f in zip(held, fixed, strict=True)]
        done = minimize(self, start, jac=True, method="L-BFGS-B", bounds=box + [(np.log(_LEAST), 0.0)] * self.d)
        return float(done.fun), np.asarray(done.x)
