"""Width is free: after set-up, a hidden layer of 4096 costs what one of 64 does (d_in = d_out = 64).

python benchmarks/width.py
"""

from __future__ import annotations

import time

import numpy as np

import lazyrich as lr


def main() -> None:
    task = lr.tasks.random_regression(0, d_in=64, d_out=64, samples=192)
    times = np.geomspace(1e-2, 1e3, 200)
    first = None
    print(f"{'hidden':>8}{'set-up, s':>12}{'200 points, s':>16}{'ratio':>8}")
    for h in (64, 256, 1024, 4096):
        problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(64, h, 64), scale=1e-3))
        start = time.perf_counter()
        solution = lr.solve(problem, times).solution
        setup = time.perf_counter() - start
        seconds = np.inf
        for _ in range(5):
            start = time.perf_counter()
            solution.function(times)
            seconds = min(seconds, time.perf_counter() - start)
        first = first or seconds
        print(f"{h:>8}{setup:>12.3f}{seconds:>16.4f}{seconds / first:>8.2f}")


if __name__ == "__main__":
    main()
