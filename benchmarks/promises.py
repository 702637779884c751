"""What we promise about speed beside what is measured here, as ratios, in about five minutes: `make bench`.

    python benchmarks/promises.py [--json build/bench.json]

Times are noisy and machines differ, so each promise is a ratio of two things measured in turn, in one run: ours against
what one would use instead, or against a bare `import numpy, scipy.linalg`. The least of several runs counts. Nothing
fails here: a row says whether the promise holds, and the JSON file keeps the numbers for comparison with another day.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich.papers.braun2022.formulas import theorem_3_1

BARE = "import numpy, scipy.linalg"
ONE_SOLVE = """
import lazyrich as lr
network = lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01)
lr.solve(lr.Problem(lr.tasks.semantic_hierarchy(), network), [0.0, 10.0, 100.0]).loss
"""


@dataclass(frozen=True)
class Row:
    """Ours must take at most `promised` times as long as the other."""

    what: str
    ours: float  # seconds
    other: float
    against: str
    promised: float

    @property
    def measured(self) -> float:
        return self.ours / self.other

    @property
    def holds(self) -> bool:
        return self.measured <= self.promised


def least(*calls: Callable[[], object], rounds: int = 5) -> list[float]:
    """Seconds of each call, the least of several rounds in which they take turns."""
    seconds = np.full((rounds, len(calls)), np.inf)
    for r in range(rounds):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            seconds[r, i] = time.perf_counter() - start
    return [float(s) for s in seconds.min(axis=0)]


def program(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def problem_of(size: int, scale: float = 1e-3) -> lr.Problem:
    task = lr.tasks.random_regression(size, d_in=size + 1, d_out=size, samples=3 * size).whitened()
    return lr.Problem(task, lr.inits.zero_balanced(size, sizes=(size + 1, size, size), scale=scale))


def starting() -> Iterator[Row]:
    bare, solve, help_ = least(
        program(BARE),
        program(ONE_SOLVE),
        lambda: subprocess.run([sys.executable, "-m", "lazyrich", "--help"], check=True, capture_output=True),
    )
    yield Row("import lazyrich and one solve", solve, bare + 0.3, "import numpy, scipy.linalg, and 0.3 s", 1.0)
    yield Row("lazyrich --help", help_, 0.5, "half a second", 1.0)


def exact() -> Iterator[Row]:
    for size in (8, 32, 64):
        problem = problem_of(size)
        times = np.geomspace(1e-2, 3 * float(np.nanmax(lr.fate(problem).half_times)), 200)
        W1, W2 = problem.network.weights
        ours, printed = least(
            lambda problem=problem, times=times: lr.solve(problem, times).gram,
            lambda W1=W1, W2=W2, problem=problem, times=times: theorem_3_1(W1, W2, problem.task.sigma_yx, times),
        )
        yield Row(f"QQᵀ at 200 times, {size + 1}-{size}-{size}", ours, printed, "the formula as printed, in NumPy", 1.2)
        flow = velocity(problem)
        start = np.concatenate([W1.ravel(), W2.ravel()])
        ours, integrated = least(
            lambda problem=problem, times=times: lr.solve(problem, times).loss,
            lambda flow=flow, start=start, times=times: solve_ivp(
                flow, (0, times[-1]), start, "DOP853", times, rtol=1e-10, atol=1e-12
            ),
            rounds=3,
        )
        yield Row(f"function and loss at 200 times, {size + 1}-{size}-{size}", ours, integrated, "SciPy's DOP853", 0.2)


def velocity(problem: lr.Problem) -> Callable[[float, np.ndarray], np.ndarray]:
    task, (W1, W2) = problem.task, problem.network.weights

    def right_side(_: float, y: np.ndarray) -> np.ndarray:
        A, B = y[: W1.size].reshape(W1.shape), y[W1.size :].reshape(W2.shape)
        E = task.sigma_yx - B @ A @ task.sigma_xx
        return np.concatenate([(B.T @ E).ravel(), (E @ A.T).ravel()])

    return right_side


def questions() -> Iterator[Row]:
    problem = problem_of(32)
    times = np.linspace(0.0, 100.0, 200)
    function, fate, certificate = least(
        lambda: lr.solve(problem, times).function,
        lambda: lr.fate(problem),
        lambda: lr.solve(problem, times).certificate(),
        rounds=3,
    )
    yield Row("fate, 33-32-32", fate, function, "the function at 200 times", 40.0)
    yield Row("certificate, 33-32-32", certificate, function, "the function at 200 times", 10.0)


def batches() -> Iterator[Row]:
    task = lr.tasks.semantic_hierarchy()
    problems = [lr.Problem(task, lr.inits.gaussian(seed, sizes=(8, 14, 8), scale=0.1)) for seed in range(30)]
    once: dict[str, object] = {"rate": 0.1, "steps": 2000, "at": [0, 2000]}
    lr.batch.descend(problems, **once), lr.descend(problems[0], **once)  # compiled
    together, apart = least(
        lambda: lr.batch.descend(problems, **once), lambda: [lr.descend(p, **once) for p in problems], rounds=3
    )
    yield Row("descent of 30 networks together", together, apart, "one after the other", 0.7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), help="file to write (default: %(default)s)"
    )
    path: Path = parser.parse_args().json
    rows = []
    print(f"{'what':<44} {'ours':>9} {'other':>9} {'ratio':>7} {'promised':>9}  against")
    for part in (starting, exact, questions, batches):
        for row in part():
            rows.append(row)
            verdict = "" if row.holds else "  NOT KEPT"
            numbers = f"{row.ours:8.3g}s {row.other:8.3g}s {row.measured:7.2f} {row.promised:9.2f}"
            print(f"{row.what:<44} {numbers}  {row.against}{verdict}", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.processor()}
    told = [asdict(row) | {"measured": row.measured, "holds": row.holds} for row in rows]
    path.write_text(json.dumps({"machine": machine, "rows": told}, indent=1), encoding="utf-8")
    print(f"\n{sum(row.holds for row in rows)} of {len(rows)} promises kept; numbers in {path}")


if __name__ == "__main__":
    main()
