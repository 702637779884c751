"""Tries claims: many random problems each, on every core, and the verdict that follows.

A statement holds if its error stays within the tolerance on every draw, and on its counterexample if there is one. If
it does not, and what should hold instead of it does, the verdict is the one on record. Anything else fails.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

import numpy as np

from lazyrich import _check
from lazyrich._progress import progress
from lazyrich._threads import one_blas_thread
from lazyrich.papers.base.claim import Check, Claim, Verdict
from lazyrich.papers.base.oracles import relative_error
from lazyrich.papers.base.types import Pair
from lazyrich.papers.shelf import chosen, ledger


@dataclass(frozen=True)
class Finding:
    """What was measured of one claim: errors of the printed statement and of its amendment, one for each seed.

    >>> (finding,) = lr.papers.try_claims(["post/equation-9"], seeds=2)
    >>> print(finding.measured, finding.changed, finding.worst < 1e-9)
    holds False True
    """

    claim: Claim
    printed: tuple[float, ...]
    amended: tuple[float, ...]
    refutation: Pair | None  # what is printed, and the truth, on the counterexample
    faults: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def worst(self) -> float:
        """The largest error of the printed statement over all draws."""
        return _largest(self.printed)

    @property
    def worst_amended(self) -> float | None:
        """The largest error of what holds instead."""
        return _largest(self.amended) if self.amended else None

    @property
    def refuted_by(self) -> float | None:
        """The error of the printed statement on the counterexample."""
        return None if self.refutation is None else relative_error(*self.refutation)

    @property
    def failing(self) -> int:
        """On how many draws the printed statement is not true."""
        return sum(not error <= self.claim.tolerance for error in self.printed)

    @property
    def margin(self) -> float:
        """By what factor the error of what holds stays below the tolerance."""
        error = self.worst if self.worst_amended is None else self.worst_amended
        return self.claim.tolerance / error if error > 0 else np.inf

    @property
    def measured(self) -> Verdict:
        """The verdict that the numbers give."""
        within = self.claim.tolerance
        refuted = self.refuted_by is not None and not self.refuted_by <= within
        if self.faults:
            return Verdict.FAILS
        if self.worst <= within and not refuted:
            return Verdict.HOLDS
        if self.worst_amended is not None and self.worst_amended <= within and refuted:
            return self.claim.verdict
        return Verdict.FAILS

    @property
    def changed(self) -> bool:
        """Whether that differs from the verdict on record."""
        return self.measured != self.claim.verdict


@dataclass(frozen=True)
class _Trial:
    """One seed of one claim, or its counterexample."""

    printed: float | None = None
    amended: float | None = None
    refutation: Pair | None = None
    fault: str | None = None
    seconds: float = 0.0


def try_claims(
    names: object = None, *, source: str | None = None, seeds: int | None = None, workers: int = 1
) -> list[Finding]:
    """Tries the named claims, or all of a source, or all, on `seeds` random problems each.

    None is as many for each as its entry asks for, three or more, so that a broken formula is noticed. A number is
    taken as it is: more makes a stronger trial, and fewer a look that may miss what the claim's own number would not.

    With `workers` above 1 that many processes share the work; a script that asks for them needs the usual
    `if __name__ == "__main__":`. The numbers are the same.

    >>> findings = lr.papers.try_claims(source="saxe2014", seeds=1)
    >>> any(finding.changed for finding in findings)
    False
    """
    claims = chosen(names, source)
    seeds = None if seeds is None else _check.count("seeds", seeds)
    workers = _check.count("workers", workers)
    trials: dict[str, dict[int, _Trial]] = {claim.identifier: {} for claim in claims}
    work = [(claim.identifier, seed) for claim in claims for seed in range(seeds or claim.seeds)]
    work += [(claim.identifier, -1) for claim in claims if claim.refutation]
    with progress(len(work), "claims") as advance:
        for identifier, seed, trial in _tried(work, workers):
            trials[identifier][seed] = trial
            advance(1)
    return [_finding(claim, trials[claim.identifier]) for claim in claims]


def _tried(work: list[tuple[str, int]], workers: int) -> Iterator[tuple[str, int, _Trial]]:
    if workers <= 1:
        yield from (_try(identifier, seed) for identifier, seed in work)
        return
    # not forked: a process that has threads, JAX's for one, may not be
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,  # Ctrl-C is ours to deal with
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        for done in as_completed([pool.submit(_try, identifier, seed) for identifier, seed in work]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # what is under way takes less than a second


def _try(identifier: str, seed: int) -> tuple[str, int, _Trial]:
    """One draw, the same in every process and every order; seed −1 is the counterexample."""
    claim, start = ledger(identifier.partition("/")[0])[identifier], time.process_time()
    try:
        with one_blas_thread(), np.errstate(all="ignore"):
            if seed < 0:
                assert claim.refutation is not None
                printed, truth = claim.refutation.values()
                trial = _Trial(refutation=(np.asarray(printed).tolist(), np.asarray(truth).tolist()))
            else:
                amended = None if claim.amendment is None else _error(claim.amendment.check, identifier, seed)
                trial = _Trial(printed=_error(claim.check, identifier, seed), amended=amended)
    except Exception as error:  # of any kind: one broken entry must not hide the others
        trial = _Trial(fault=f"{type(error).__name__}: {' '.join(str(error).split())}")
    return identifier, seed, _Trial(**vars(trial) | {"seconds": time.process_time() - start})


def _error(check: Check, identifier: str, seed: int) -> float:
    return float(check(np.random.default_rng([zlib.crc32(identifier.encode()), seed])))


def _finding(claim: Claim, trials: dict[int, _Trial]) -> Finding:
    ordered = [trials[seed] for seed in sorted(trials)]
    faults = dict.fromkeys(trial.fault for trial in ordered if trial.fault is not None)  # each once
    return Finding(
        claim,
        printed=tuple(trial.printed for trial in ordered if trial.printed is not None),
        amended=tuple(trial.amended for trial in ordered if trial.amended is not None),
        refutation=next((trial.refutation for trial in ordered if trial.refutation is not None), None),
        faults=tuple(faults),
        seconds=sum(trial.seconds for trial in ordered),
    )


def _largest(errors: tuple[float, ...]) -> float:
    return float(np.max(errors)) if errors else np.nan  # NaN stays, and is within no tolerance
