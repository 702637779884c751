"""The exact solution against what users would use instead: time, error, and gradient evaluations per point.

    python benchmarks/exact.py [--sizes 8 64 256] [--task regression|even] [--reference N]

Each size: d_in = size + 1, hidden = d_out = size, zero-balanced start of scale 1e-3, 200 log-spaced times
to three times the half time of the slowest mode. Task "regression" is the random regression of Braun et al.
2022 (3 × size samples), whose slow modes make long horizons; "even" has singular values from 1 to 0.2, a
short horizon that favours the integrators, and a solution known to hundreds of digits: with `--reference N`
the errors at N of the times are measured against it (`reference.py`; minutes at 256). Without, they are
differences from the exact solution, whose own error is the largest figure of its certificate. Compile times
are listed apart.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import reference
from scipy.integrate import solve_ivp

import lazyrich as lr

TIMES = 200


class Case(NamedTuple):
    problem: lr.Problem
    times: np.ndarray
    s: np.ndarray


def case(size: int, task: str) -> Case:
    rng = np.random.default_rng(size)
    if task == "even":
        sigma, s = reference.even_task(size)
        chosen = lr.Task.from_correlations(sigma)
    else:
        chosen = lr.tasks.random_regression(rng, d_in=size + 1, d_out=size, samples=3 * size)
        s = chosen.modes.s
    network = lr.inits.zero_balanced(rng, sizes=(size + 1, size, size), scale=1e-3)
    slowest = 0.5 * float(np.log(s[-1] / 1e-6 + 1)) / s[-1]  # half time of the slowest mode from strength 1e-6
    return Case(lr.Problem(chosen, network), np.geomspace(1e-2, 3 * slowest, TIMES), s)


def timed(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Best of a few: the machine's other work only ever adds."""
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def gradient(problem: lr.Problem) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The flow of a whitened two-layer network as a user would write it: three matrix products."""
    target = problem.task.sigma_yx

    def velocity(W1: np.ndarray, W2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        E = target - W2 @ W1
        return W2.T @ E, E @ W1.T

    return velocity


def scipy_run(c: Case, method: str, rtol: float) -> tuple[float, np.ndarray, int]:
    W1, W2 = c.problem.network.weights
    velocity, cut = gradient(c.problem), W1.size

    def flat(_: float, y: np.ndarray) -> np.ndarray:
        d1, d2 = velocity(y[:cut].reshape(W1.shape), y[cut:].reshape(W2.shape))
        return np.concatenate([d1.ravel(), d2.ravel()])

    y0 = np.concatenate([W1.ravel(), W2.ravel()])
    seconds, run = timed(
        lambda: solve_ivp(flat, (0, c.times[-1]), y0, method, t_eval=c.times, rtol=rtol, atol=rtol * 1e-3)
    )
    ends = run.y.T
    function = np.array([y[cut:].reshape(W2.shape) @ y[:cut].reshape(W1.shape) for y in ends])
    return seconds, function, run.nfev


def diffrax_run(c: Case) -> tuple[float, float, np.ndarray]:
    import diffrax
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        target, start = (
            jnp.asarray(c.problem.task.sigma_yx),
            tuple(map(jnp.asarray, c.problem.network.weights)),
        )

        def velocity(_: Any, y: Any, __: Any) -> Any:
            E = target - y[1] @ y[0]
            return y[1].T @ E, E @ y[0].T

        @jax.jit
        def run(y: Any, times: Any) -> Any:
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(velocity), diffrax.Tsit5(), 0.0, times[-1], None, y,
                saveat=diffrax.SaveAt(ts=times, fn=lambda t, y, args: y[1] @ y[0]),
                stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-11), max_steps=10_000_000,
            )  # fmt: skip
            return solution.ys

        times = jnp.asarray(c.times)
        compiling, compiled = timed(lambda: run.lower(start, times).compile())
        seconds, function = timed(lambda: np.asarray(compiled(start, times)))
    return seconds, compiling, function


def descent_run(c: Case) -> tuple[float, float, int]:
    """Seconds to the horizon at a twentieth of the stability limit, from a run of at most 500 steps."""
    rate = 0.05 / c.s[0]
    steps = int(np.ceil(c.times[-1] / rate))
    sample = min(steps, 500)
    run = lambda: lr.descend(c.problem, rate=rate, steps=sample, record=("loss",), at=[0, sample])  # noqa: E731
    compiling, _ = timed(run)
    seconds, _ = timed(run)
    return seconds * steps / sample, max(compiling - seconds, 0.0), steps


def worst(function: np.ndarray, truth: np.ndarray) -> float:
    """Largest relative error over the times, in Frobenius norm."""
    return float(np.max(np.linalg.norm(function - truth, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2))))


def report(size: int, task: str, references: int) -> None:
    c = case(size, task)
    lr.solve(c.problem, c.times[:2])  # loads the libraries
    setup, _ = timed(lambda: lr.solve(lr.Problem(c.problem.task, c.problem.network), c.times).solution, 3)

    def solve() -> lr.Trajectory:
        trajectory = lr.solve(lr.Problem(c.problem.task, c.problem.network), c.times)
        assert len(trajectory.function) == TIMES and len(trajectory.loss) == TIMES
        return trajectory

    whole, trajectory = timed(solve, 3)
    loss_only, _ = timed(lambda: lr.solve(lr.Problem(c.problem.task, c.problem.network), c.times).loss, 3)
    one, _ = timed(lambda: [gradient(c.problem)(*c.problem.network.weights) for _ in range(20)], 5)
    evaluation = one / 20
    exact = trajectory.function
    print(f"\n{size + 1}-{size}-{size}, {task}: horizon {c.times[-1]:.4g}, s from {c.s[0]:.3g} to {c.s[-1]:.3g}")
    print(f"  set-up {setup * 1e3:.1f} ms; one gradient evaluation {evaluation * 1e3:.3f} ms")
    function_seconds, _ = timed(lambda: trajectory.solution.function(c.times), 3)
    point = function_seconds / TIMES
    print(f"  one exact point (function) {point * 1e3:.3f} ms = {point / evaluation:.2f} gradient evaluations")
    truth, own = exact, trajectory.certificate().worst
    chosen = (
        np.linspace(TIMES // 2, TIMES - 1, references + 2).astype(int)[1:-1] if references and task == "even" else None
    )
    if chosen is not None:
        truth = np.array([reference.function(*c.problem.network.weights, c.s, float(c.times[i])) for i in chosen])
        own = worst(exact[chosen], truth)
    error = lambda f: worst(f if chosen is None else f[chosen], truth)  # noqa: E731
    print(f"  {'method':<28}{'seconds':>10}{'compile':>10}{'error':>12}{'slower':>10}{'error ratio':>14}")
    print(f"  {'solve, function and loss':<28}{whole:>10.4f}{'':>10}{own:>12.1e}")
    print(f"  {'solve, loss alone':<28}{loss_only:>10.4f}")
    line = lambda name, s, e, comp="", extra="": print(  # noqa: E731
        f"  {name:<28}{s:>10.4f}{comp:>10}{e:>12.1e}{s / whole:>9.1f}×{e / own:>14.1e}{extra}"
    )
    for name, rtol in (("RK45", 1e-6), ("DOP853", 1e-10)):
        seconds, function, evaluations = scipy_run(c, name, rtol)
        line(f"scipy {name} rtol {rtol:.0e}", seconds, error(function), extra=f"   {evaluations} evaluations")
    seconds, compiling, function = diffrax_run(c)
    line("diffrax Tsit5 rtol 1e-08", seconds, error(function), f"{compiling:.2f}")
    seconds, compiling, steps = descent_run(c)
    print(
        f"  {'gradient descent':<28}{seconds:>10.4f}{compiling:>10.2f}{'':>12}{seconds / whole:>9.1f}×   {steps} steps"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--task", choices=("regression", "even"), nargs="+", default=["regression", "even"])
    parser.add_argument(
        "--reference", type=int, default=0, metavar="N", help="times at which to compute the true solution"
    )
    options = parser.parse_args()
    for task in options.task:
        for size in options.sizes:
            report(size, task, options.reference)


if __name__ == "__main__":
    main()
