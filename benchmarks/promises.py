"""What we promise about speed beside what is measured here, as ratios, in about ten minutes: `make bench`.

    python benchmarks/promises.py [--only exact,cores] [--json build/bench.json]

Times are noisy and machines differ, so each promise is a ratio of two things measured in turn, in one run: ours against
what one would use instead, or against a bare `import numpy, scipy.linalg`. The least of several runs counts. Nothing
fails here: a row says whether the promise holds, and the JSON file keeps the numbers for comparison with another day.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import published
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._threads import one_blas_thread

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
    limit: str  # what keeps it from being faster

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
    yield Row(
        "import lazyrich and one solve",
        solve,
        bare + 0.3,
        "import numpy, scipy.linalg, and 0.3 s",
        1.0,
        "modules loaded",
    )
    yield Row("lazyrich --help", help_, 0.5, "half a second", 1.0, "Python itself, and argparse")


def long_times(problem: lr.Problem) -> np.ndarray:
    """200, to three times the half time of the slowest mode from strength 1e-6."""
    s = problem.task.modes.s
    return np.geomspace(1e-2, 1.5 * float(np.log(s[-1] / 1e-6 + 1)) / s[-1], 200)


LIMITS = {  # of QQᵀ; docs/accuracy.md has the profile
    16: "a hundred calls of NumPy on a few hundred numbers each: none takes more than an eighth",
    32: "calls of NumPy on small blocks, and page faults of the result",
    64: "four passes over the numbers of Q, and LAPACK's factor at a tenth of the speed of a product",
    128: "products: 15 k³ operations against 19 of the formula",
    256: "products: 13 k³ operations against 19 of the formula",
}


def exact() -> Iterator[Row]:
    """One core: inside the block nothing is spread over others."""
    for size, limit in LIMITS.items():
        problem = problem_of(size)
        times, sigma = long_times(problem), problem.task.sigma_yx
        W1, W2 = problem.network.weights
        solution = lr.solve(problem, times).solution
        with one_blas_thread():
            formula, gram, function, loss = least(
                lambda W1=W1, W2=W2, sigma=sigma, times=times: published.gram(W1, W2, sigma, times),
                lambda solution=solution, times=times: solution.gram(times),
                lambda solution=solution, times=times: solution.function(times),
                lambda solution=solution, times=times: solution.loss(times),
                rounds=10 if size < 100 else 3,
            )
        name, against = f"at 200 times, {size + 1}-{size}-{size}", "the published formula, in NumPy"
        yield Row(f"QQᵀ {name}", gram, formula, against, 1 / 2.5, limit)
        yield Row(f"function {name}", function, formula, against, 1 / 4, limit)
        yield Row(f"loss {name}", loss, formula, against, 1 / 4, limit)


def cores() -> Iterator[Row]:
    for size in (64, 128, 256):
        problem = problem_of(size)
        times = long_times(problem)
        solution = lr.solve(problem, times).solution
        for part in ("gram", "function"):
            work = getattr(solution, part)

            def alone(work: Callable[[np.ndarray], object] = work, times: np.ndarray = times) -> None:
                with one_blas_thread():
                    work(times)

            all_cores, one = least(lambda work=work, times=times: work(times), alone, rounds=8 if size < 200 else 3)
            limit = "the interpreter's lock between calls, or no free core: see the load of the machine"
            yield Row(f"{part} at 200 times on all cores, {size}", all_cores, one, "one core", 1 / 1.6, limit)


def integration() -> Iterator[Row]:
    for size, goal in ((8, 5), (32, 5), (64, 40)):
        problem = problem_of(size)
        times, flow = long_times(problem), velocity(problem)
        start = np.concatenate([W.ravel() for W in problem.network.weights])
        ours, integrated = least(
            lambda problem=problem, times=times: lr.solve(problem, times).loss,
            lambda flow=flow, start=start, times=times: solve_ivp(
                flow, (0, times[-1]), start, "DOP853", times, rtol=1e-10, atol=1e-12
            ),
            rounds=3,
        )
        limit = "set-up, and products of this size: see QQᵀ"
        name = f"loss at 200 times with set-up, {size + 1}-{size}-{size}"
        yield Row(name, ours, integrated, "SciPy's DOP853", 1 / goal, limit)


def velocity(problem: lr.Problem) -> Callable[[float, np.ndarray], np.ndarray]:
    task, (W1, W2) = problem.task, problem.network.weights

    def right_side(_: float, y: np.ndarray) -> np.ndarray:
        A, B = y[: W1.size].reshape(W1.shape), y[W1.size :].reshape(W2.shape)
        E = task.sigma_yx - B @ A @ task.sigma_xx
        return np.concatenate([(B.T @ E).ravel(), (E @ A.T).ravel()])

    return right_side


def flows() -> Iterator[Row]:
    """Two linear layers that no closed form covers. Before, width was integrated too, and stability limited the steps:
    0.54 s at h = 1000, predictions stopped at t = 5.8e4 after 40,000 steps, and 784-128-10 took 5.2 s."""
    rng = np.random.default_rng(0)
    task = lr.Task.from_data(rng.normal(size=(60, 10)), rng.normal(size=(60, 8)))
    wide = lr.Problem(task, lr.inits.gaussian(0, sizes=(10, 1000, 8), scale=0.03))
    start, flow = np.concatenate([W.ravel() for W in wide.network.weights]), velocity(wide)
    times = np.linspace(0.0, 20.0, 50)
    lr.flow(wide, times, record="function")  # compiled
    ours, scipys = least(
        lambda: lr.flow(wide, times, record="function"),
        lambda: solve_ivp(flow, (0, 20.0), start, "DOP853", times, rtol=1e-9, atol=1e-12),
        rounds=3,
    )
    yield Row("flow, 10-1000-8", ours, scipys, "SciPy's DOP853 of all weights", 0.2, "steps of the same method, in JAX")
    X = rng.normal(size=(60, 8)) * np.geomspace(1, 1e-3, 8)
    stiff = lr.Task.from_data(X, X @ rng.normal(size=(8, 8)))
    network = lr.inits.gaussian(0, sizes=(8, 14, 8), scale=0.1)
    for end, decay in ((1e6, 0.0), (1e8, 0.0), (1e8, 1e-3)):
        late = lr.Problem(stiff, network, weight_decay=decay)
        lr.flow(late, [0.0, 1.0, end])
        name = f"to t = {end:.0e}, variances 1 to 1e-6" + (", decay" if decay else "")
        for method in (lr.flow, lr.predict):
            (seconds,) = least(lambda late=late, end=end, method=method: method(late, [0.0, 1.0, end]), rounds=1)
            limit = "a few hundred implicit steps of 4 ms, and as many at the times to record"
            yield Row(f"{method.__name__} {name}", seconds, 5.0, "5 s", 1.0, limit)
    white = lr.Task.from_correlations(rng.normal(size=(10, 784)) / 28)
    large = lr.Problem(white, lr.inits.pytorch(0, sizes=(784, 128, 10), biases=False))
    with one_blas_thread():
        (seconds,) = least(lambda: lr.predict(large), rounds=1)
    yield Row("predict, 784-128-10, white, one thread", seconds, 5.0, "5 s", 1.0, "weights at 201 times, turned back")


def questions() -> Iterator[Row]:
    problem = problem_of(32)
    times = np.linspace(0.0, 100.0, 200)
    function, fate, certificate = least(
        lambda: lr.solve(problem, times).function,
        lambda: lr.fate(problem),
        lambda: lr.solve(problem, times).certificate(),
        rounds=3,
    )
    against = "the function at 200 times"
    yield Row("fate, 33-32-32", fate, function, against, 40.0, "small calls, more than half of them for the regime")
    yield Row("certificate, 33-32-32", certificate, function, against, 10.0, "SciPy's integration of the rotation")
    for size, goal in ((64, 0.05), (256, 2.0)):
        large = problem_of(size)
        (seconds,) = least(lambda large=large: lr.fate(large), rounds=3)
        limit = "one evaluation for each time looked at: 180 at 64, 290 at 256, and 50 kernels"
        yield Row(f"fate, {size + 1}-{size}-{size}", seconds, goal, f"{goal:g} s", 1.0, limit)
    large = problem_of(256)
    (seconds,) = least(lambda: lr.solve(large, times).weights, rounds=1)
    limit = "the state at each time, and sixteen for each step of the rotation"
    yield Row("weights at 200 times, 257-256-256", seconds, 5.0, "5 s", 1.0, limit)


def memory() -> Iterator[Row]:
    """Refused at once, or held by a machine that large."""
    problem = lr.Problem(
        lr.Task.from_correlations(np.eye(200)), lr.inits.zero_balanced(0, sizes=(200, 200, 200), scale=0.1)
    )
    for count in (20_000, 2_000_000):  # 26 GiB, which some machines have, or 2.6 TiB
        traj = lr.solve(problem, np.linspace(0.0, 10.0, count), method="riccati")
        start = time.perf_counter()
        if count == 20_000 and _check._free_memory() > 27 * 2**30:
            continue
        try:
            traj.gram  # noqa: B018
        except InvalidInput as refused:
            seconds, what = time.perf_counter() - start, f"QQᵀ at {count:,} times, 200-200-200"
            yield Row(what, seconds, 0.1, str(refused), 1.0, "nothing is computed")
            return


def batches() -> Iterator[Row]:
    task = lr.tasks.semantic_hierarchy()
    problems = [lr.Problem(task, lr.inits.gaussian(seed, sizes=(8, 14, 8), scale=0.1)) for seed in range(30)]
    once: dict[str, object] = {"rate": 0.1, "steps": 2000, "at": [0, 2000]}
    lr.batch.descend(problems, **once), lr.descend(problems[0], **once)  # compiled
    together, apart = least(
        lambda: lr.batch.descend(problems, **once), lambda: [lr.descend(p, **once) for p in problems], rounds=3
    )
    limit = "small products of a batch, one after the other on a CPU"
    yield Row("descent of 30 networks together", together, apart, "one after the other", 0.7, limit)
    yield from ensembles(task)


def ensembles(task: lr.Task) -> Iterator[Row]:
    """New problems in every round: what they know of themselves is computed once."""
    times = np.linspace(0.0, 200.0, 50)

    def starts(count: int) -> list[lr.Problem]:
        return [lr.Problem(task, lr.inits.zero_balanced(s, sizes=(8, 14, 8), scale=0.1)) for s in range(count)]

    def read(trajectories: Iterable[lr.Trajectory]) -> None:
        for traj in trajectories:
            traj.function, traj.loss  # noqa: B018

    read(lr.batch.solve(starts(50), times))
    rounds = [(starts(2000), starts(200)) for _ in range(3)]
    waiting = [iter(rounds), iter(rounds)]
    together, apart = least(
        lambda: read(lr.batch.solve(next(waiting[0])[0], times)),
        lambda: read(lr.solve(problem, times) for problem in next(waiting[1])[1]),
        rounds=3,
    )
    limit = "of 0.25 ms each on one core, 0.15 are the evaluation, 0.06 the set-up, 0.04 objects and reading"
    yield Row("batch.solve, 2,000 starts of 8-14-8, 50 times", together, 10 * apart, "lr.solve, from 200", 0.1, limit)
    fresh = iter([starts(500) for _ in range(3)])
    (seconds,) = least(lambda: lr.batch.fate(next(fresh)), rounds=3)
    limit = "the search for the regime, start by start in Python: 40 %; evaluation 20 %, half times and modes 30 %"
    yield Row("batch.fate, 500 starts of 8-14-8", seconds, 1.0, "1 s", 1.0, limit)


PARTS = (starting, exact, cores, integration, flows, questions, memory, batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ",".join(part.__name__ for part in PARTS)
    parser.add_argument("--only", default=names, help="parts, with commas between (default: %(default)s)")
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), help="file to write (default: %(default)s)"
    )
    chosen = parser.parse_args()
    path: Path = chosen.json
    if unknown := set(chosen.only.split(",")) - set(names.split(",")):
        parser.error(f"no part is called {', '.join(sorted(unknown))}: there are {names}")
    rows = []
    print(f"{'what':<44} {'ours':>9} {'other':>9} {'ratio':>7} {'promised':>9}  load  against")
    for part in PARTS:
        if part.__name__ not in chosen.only.split(","):
            continue
        for row in part():
            load = os.getloadavg()[0]
            rows.append(asdict(row) | {"measured": row.measured, "holds": row.holds, "load": load})
            verdict = "" if row.holds else f"  NOT KEPT: {row.limit}"
            numbers = f"{row.ours:8.3g}s {row.other:8.3g}s {row.measured:7.2f} {row.promised:9.2f} {load:5.1f}"
            print(f"{row.what:<44} {numbers}  {row.against}{verdict}", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processor": platform.processor(),
        "cores": os.cpu_count(),
    }
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1), encoding="utf-8")
    print(f"\n{sum(row['holds'] for row in rows)} of {len(rows)} promises kept; numbers in {path}")


if __name__ == "__main__":
    main()
