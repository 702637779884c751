"""What depth prefers among the matrices that agree with the measurements: rank that grows greedily, not a norm.

From a small balanced initialisation, depth 1 never moves what no measurement sees. At depth L ≥ 2 large singular values
grow faster than small ones, σ̇ = −L σ^{2−2/L} uᵀ∇v: they rise one after the other, and the flow stops at the first rank
at which it meets the measurements (Li, Luo and Lyu 2020; Jacot et al. 2021). `rank_growth` measures this. No norm
explains where it ends:

- the nuclear norm is least there, among positive semidefinite matrices, at every depth ≥ 2, where measurements commute
  and the initial layers are identities (Gunasekar et al. 2017; unstable from depth 3 on, see `commuting_measurements`),
  and not in general (`li_luo_lyu`);
- the Schatten-2/L quasi-norm is not, even where measurements commute. There the eigenvalues x of W follow the mirror
  flow of φ(x) = −L x^{2/L}/(2(L−2)), L > 2, and from x = ε they end in argmin Σ_i (φ(x_i) − φ'(ε) x_i): as φ'(ε) goes
  to −∞ with ε → 0, Σx decides, and the power 2/L, with a minus sign, only what Σx leaves open;
- all norms may go to infinity (`razin_cohen`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float, Rng
from lazyrich.bias.factorisation import Factorisation, cell, factorise, schatten, small_init
from lazyrich.bias.measurements import Measurements, as_measurements, least_nuclear_norm
from lazyrich.laziness.course import first_time
from lazyrich.observables.representations import effective_rank_of


class RankGrowth(NamedTuple):
    """When each singular value that is learned rises: an entry per value, the largest first."""

    begun: Float[Array, " r"]  # passes a tenth of its end
    half: Float[Array, " r"]
    done: Float[Array, " r"]  # passes nine tenths
    plateau: Float[Array, " r"]  # the pause after the rise before, as a share of what the two rises span


def rank_growth(run: Factorisation, *, cutoff: float = 0.01) -> RankGrowth:
    """The times at which the first, second, … singular value passes a tenth, half and nine tenths of its end.

    The plateau before value r is
    begun_r − done_{r−1}, divided by the time from the start of the first to the end of the last of these two rises (the
    zeroth is done at t = 0): near 1 where they come one at a time, below 0 where they overlap, −1 where they are one,
    nan where both are there from the first. Times are interpolated between records.

    Parameters
    ----------
    run : what `factorise` returns
    cutoff : of the largest singular value in the end: smaller ones do not count

    Returns
    -------
    RankGrowth : `begun`, `half`, `done` and `plateau`, one entry per singular value, the largest first

    >>> problem = lr.bias.completion([[4.0, 0.0], [0.0, 1.0]])
    >>> run = lr.bias.factorise(problem, lr.bias.small_init((2, 2), depth=2, epsilon=1e-6))
    >>> lr.bias.rank_growth(run).half.round(2)
    array([1.9 , 6.91])
    """
    if not isinstance(run, Factorisation):
        raise InvalidInput(f"run must be a Factorisation, and it is a {type(run).__name__}: factorise makes one.")
    end = run.singular_values[-1]
    learned = run.singular_values[:, end > _check.positive("cutoff", cutoff) * end[0]]
    begun, half, done = (
        np.array([first_time(run.times, s, share * s[-1])[0] for s in learned.T]) for share in (0.1, 0.5, 0.9)
    )
    before = np.concatenate([[[0.0], [0.0]], [begun[:-1], done[:-1]]], axis=1)
    span = np.maximum(done, before[1]) - np.minimum(begun, before[0])
    pause = begun - before[1]
    return RankGrowth(begun, half, done, np.divide(pause, span, out=np.full(len(span), np.nan), where=span > 0))


class Result(NamedTuple):
    """Where one flow ended, or a matrix to compare it with."""

    name: str
    W: Array
    loss: float
    test_error: float
    effective_rank: float
    nuclear_norm: float
    quasi_norms: tuple[float, ...]  # Schatten-2/L of each depth L > 2 compared
    status: str


@dataclass(frozen=True)
class Comparison:
    """Ends of flows by depth and initial size, then the least nuclear norm, then the truth where it is known."""

    depths: tuple[int, ...]
    results: tuple[Result, ...]

    def __str__(self) -> str:
        powers = "".join(f" {f'Schatten-2/{L}':>12}" for L in self.depths if L > 2)
        rows = [f"{'':<24} {'loss':>9} {'test error':>10} {'eff. rank':>9} {'nuclear':>9}{powers}"]
        for r in self.results:
            norms = "".join(f" {norm:12.4g}" for norm in r.quasi_norms)
            remark = "" if r.status == "converged" else f"  {r.status}"
            rows.append(
                f"{r.name:<24} {r.loss:9.2e} {cell(r.test_error):>10} {r.effective_rank:9.3f} "
                f"{r.nuclear_norm:9.4g}{norms}{remark}"
            )
        return "\n".join(rows)


def compare_depths(
    measurements: Measurements,
    *,
    depths: Sequence[int] | int = (1, 2, 3, 4),
    epsilons: Sequence[float] | float = (1e-2, 1e-4),
    rng: Rng | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 200_000,
) -> Comparison:
    """Where the flows of several depths end, from several initial sizes, against the least nuclear norm.

    A quasi-norm is refuted as what the flow minimises by any row with a smaller one at the same (zero) loss.

    Parameters
    ----------
    measurements : of the matrix
    depths : numbers of layers
    epsilons : sizes of the initial product, see `small_init`
    rng : for random balanced layers, the same draw for all of a seed; without it identities
    tolerance, max_steps : as in `factorise`

    Returns
    -------
    Comparison : `results` in the order above, each with its norms, loss and `test_error`; a table in print

    >>> ends = lr.bias.compare_depths(lr.bias.commuting_measurements(), depths=[3], epsilons=[1e-6])
    >>> [round(result.quasi_norms[0], 2) for result in ends.results]  # the truth has less, and is not reached
    [2.54, 2.54, 2.4]
    """
    as_measurements(measurements)
    depths = tuple(_check.count("depths", L) for L in np.atleast_1d(depths))
    scales = np.atleast_1d(_check.as_array("epsilons", epsilons)).tolist()
    least = least_nuclear_norm(measurements)
    ends = [(least.W, "least nuclear norm", least.status)]
    if measurements.truth is not None:
        ends.append((measurements.truth, "truth", "converged"))
    flows = []
    for L in depths:
        for epsilon in scales:
            network = small_init(measurements.shape, depth=L, epsilon=epsilon, rng=rng)
            run = factorise(measurements, network, tolerance=tolerance, max_steps=max_steps)
            flows.append((run.W[-1], f"depth {L}, ε = {epsilon:g}", run.status))
    return Comparison(depths, tuple(_result(measurements, depths, *end) for end in flows + ends))


def _result(measurements: Measurements, depths: tuple[int, ...], W: Array, name: str, status: str) -> Result:
    s = np.linalg.svd(W, compute_uv=False)
    error, quasi_norms = float(measurements.test_error(W)), tuple(float(schatten(s, 2 / L)) for L in depths if L > 2)
    rank, nuclear = float(effective_rank_of(s)), float(s.sum())
    return Result(name, W, float(measurements.loss(W)), error, rank, nuclear, quasi_norms, status)
