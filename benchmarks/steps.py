"""How far predicted half times are off those of gradient descent, before and after the correction for the step.

    python benchmarks/steps.py [--seeds 3] [--kinds 1 2 PyTorch 3 4]

Four depths, rates of 1e-3 and up to half of the largest stable one, without momentum and with both kinds: the median
over modes and seeds of |predicted/trained − 1|. White inputs; weights small, balanced, not aligned with the task;
of depth 2 PyTorch's own beside them.
"""

from __future__ import annotations

import argparse

import numpy as np

import lazyrich as lr

TASK = lr.tasks.random_regression(0, d_in=6, d_out=5, samples=60).whitened()
HOWS: dict[str, dict[str, object]] = {
    "none": {},
    "heavy ball 0.9": {"momentum": 0.9},
    "Nesterov 0.9": {"momentum": 0.9, "nesterov": True},
}


def network(kind: str, seed: int) -> lr.Network:
    if kind == "PyTorch":
        return lr.inits.pytorch(seed, sizes=(6, 50, 5), biases=False)
    depth = int(kind)
    if depth == 1:
        return lr.inits.gaussian(seed, sizes=(6, 5), scale=0.05)
    return lr.inits.lambda_balanced(seed, sizes=(6, *[10] * (depth - 1), 5), lam=0.0, scale=0.01 if depth == 2 else 0.1)


def reached(times: np.ndarray, a: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Steps to half way, linear between steps; of modes that go a tenth of the longest way."""
    found = np.full(len(limit), np.nan)
    way = np.abs(limit - a[0])
    for i in np.flatnonzero(way > 0.1 * way.max()):
        level, up = (a[0, i] + limit[i]) / 2, np.sign(limit[i] - a[0, i])
        k = int(np.argmax(up * (a[:, i] - level) >= 0))
        if k:
            found[i] = k - 1 + (level - a[k - 1, i]) / (a[k, i] - a[k - 1, i])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=["1", "2", "PyTorch", "3", "4"], help="depths, or PyTorch")
    wish = parser.parse_args()
    seeds = wish.seeds
    print(f"{'depth':<8} {'momentum':<15} {'rate':>9} {'of stable':>10} {'before':>9} {'after':>9}")
    for kind in wish.kinds:
        for name, how in HOWS.items():
            for part in (None, 0.05, 0.5):
                before, after, rates = [], [], []
                for seed in range(seeds):
                    problem = lr.Problem(TASK, network(kind, seed))
                    largest = lr.predict(problem, rate=1e-3, **how).steps.largest_rate
                    rate = 1e-3 if part is None else part * largest
                    found = lr.predict(problem, rate=rate, **how)
                    beta = float(how.get("momentum", 0.0))
                    last = int(1.3 * np.nanmax(found.steps.half_steps)) + 60
                    run = lr.descend(problem, rate=rate, steps=last, at=range(last + 1), record="function", **how)
                    seen = reached(run.times, found.strengths_of(run), found.limit)
                    before.append(np.abs(found.half_times * (1 - beta) / rate / seen - 1))
                    after.append(np.abs(found.steps.half_steps / seen - 1))
                    rates.append(rate / largest)
                row = f"{kind:<8} {name:<15} {rate:9.4f} {np.mean(rates):10.3f}"
                print(f"{row} {np.nanmedian(before):9.2%} {np.nanmedian(after):9.2%}", flush=True)


if __name__ == "__main__":
    main()
