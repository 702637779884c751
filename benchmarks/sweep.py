"""Sweeps of two-layer ReLU students (Kunin et al. 2024, Fig. 1b): the step, the flow, and the rate of the device.

    python benchmarks/sweep.py [--part step|flow|device|grid] [--rtol 0.002] [--full] [--seeds 1]
                                [--networks N] [--steps N]

All problems are cells of the published sweep: d 100, h 50, n 1000, float64. Without `--part`, step and flow run in
turn; both keep to one core and one thread.

step    CPU time of one gradient-descent step of one network. Ours goes in stacks as the library makes them; the loops
        take network by network. Repetitions take turns, medians are reported. A step is two matrix products of 10⁷
        operations each: they alone, at NumPy's rate, are listed, and the rate that this core reaches at its best, in a
        product of 1000 × 1000 matrices. That the weights agree after 20 steps is checked first.
flow    Gradients that the flow takes to 10⁵ published steps, over the grid of τ and δ (every fourth of each; `--full`:
        all); what changes where its tolerance is halved; and, on nine cells to 10⁴ published steps, how far gradient
        descent is from a flow of small tolerance, at the published rate, a half and a quarter of it, and how far from
        itself at twice the rate, which no error of the flow enters. The test loss is relative to its start. Some
        ten minutes.
device  Seconds per step of the whole grid wherever JAX computes, in every precision, transfers included. On a CPU,
        `--networks 16 --steps 100` keeps it short.
grid    The sweep itself, to its last step, for some seeds in every precision: minutes, all that is measured included,
        and how far means over the seeds are from those in float64. For a GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

if not {"device", "grid"} & set(sys.argv[1:]):  # one core: libraries count them when they are loaded
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PJRT_NPROC"), "1")

import numpy as np

from lazyrich._engines import device_kind
from lazyrich.batch.api import PRECISIONS, in_precision
from lazyrich.batch.run import descend_stack, flow_stack
from lazyrich.batch.stack import Stack, stacks
from lazyrich.papers import sweep as published
from lazyrich.sweeps.measure import measured_together
from lazyrich.sweeps.problems import Cell

SWEEP = published("kunin2024/1b")
OPERATIONS = 4 * SWEEP.settings["d"] * SWEEP.settings["h"] * SWEEP.settings["n"]  # of a step of one network
REFERENCE = 5e-5  # tolerance of the flow with which gradient descent is compared
NAMES = ("kernel_distance", "hamming_distance", "test_loss")


def cells(taus: Sequence[int], deltas: Sequence[int], seeds: int) -> list[Cell]:
    """By their places on the axes, seed by seed."""
    return [SWEEP.cell((seed, i, j)) for seed in range(seeds) for i in taus for j in deltas]


def stacked(chosen: Sequence[Cell], precision: str = "float64") -> Iterator[tuple[Stack, np.ndarray]]:
    """Stacks as the library makes them, and the published rate of each network."""
    clocks = np.array([cell.clock for cell in chosen])
    for stack in stacks([cell.problem for cell in chosen], np.dtype(PRECISIONS[precision][0])):
        yield stack, SWEEP.rate * clocks[stack.members]


# step -------------------------------------------------------------------------------------------------------


def by_hand(X: Any, y: Any, W: Any, a: Any, rate: float, steps: int) -> Any:
    """Gradient descent as one would write it; on the arrays of NumPy or PyTorch."""
    for _ in range(steps):
        z = X @ W.T
        hidden = z.clip(0)
        error = (y - hidden @ a) / len(X)
        back = error[:, None] * a * (z > 0)
        W, a = W + rate * (back.T @ X), a + rate * (error @ hidden)
    return W, a


def with_autograd(X: Any, y: Any, W: Any, a: Any, rate: float, steps: int) -> Any:
    import torch

    W, a = W.clone().requires_grad_(), a.clone().requires_grad_()
    for _ in range(steps):
        loss = ((y - torch.relu(X @ W.T) @ a) ** 2).mean() / 2
        slopes = torch.autograd.grad(loss, (W, a))
        with torch.no_grad():
            W -= rate * slopes[0]
            a -= rate * slopes[1]
    return W.detach(), a.detach()


def loop(chosen: Sequence[Cell], train: Callable[..., Any], array: Callable[..., Any]) -> Callable[[int], Any]:
    """Network by network: a function of the number of steps, which returns the first layers."""
    parts = []
    for cell in chosen:
        (W, a), task = cell.problem.network.weights, cell.problem.task
        assert task.targets is not None
        parts.append((*map(array, (task.inputs, task.targets[:, 0], W, a[0])), SWEEP.rate * cell.clock))
    return lambda steps: [np.asarray(train(*part, steps)[0]) for part in parts]


def batched(chosen: Sequence[Cell]) -> Callable[[int], Any]:
    prepared = list(stacked(chosen))

    def work(steps: int) -> Any:
        found: list[Any] = [None] * len(chosen)
        for stack, rates in prepared:
            last = descend_stack(stack, rates, (0, steps)).weights[0][-1]
            for place in np.ndindex(stack.members.shape):
                found[stack.members[place]] = last[place]
        return found

    return work


def products(chosen: Sequence[Cell]) -> Callable[[int], Any]:
    """The two matrix products of a step, and nothing else."""
    X, W = chosen[0].problem.task.inputs, chosen[0].problem.network.weights[0]
    assert X is not None
    z, xi = X @ W.T, W.copy()

    def work(steps: int) -> None:
        for _ in range(steps * len(chosen)):
            np.matmul(X, W.T, out=z)
            np.matmul(z.T, X, out=xi)

    return work


def best_rate() -> float:
    """Operations per second of a large product."""
    A = np.random.default_rng(0).normal(size=(1000, 1000))
    return max(2e9 / cpu_seconds(lambda: A @ A) for _ in range(10))


def cpu_seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def step(networks: int, steps: int, repeats: int = 9) -> None:
    chosen = cells(range(0, 17, 4), range(0, 17, 4), 1)[:networks]
    ways = {"lazyrich": batched(chosen), "NumPy": loop(chosen, by_hand, np.array)}
    if find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        ways["PyTorch, by hand"] = loop(chosen, by_hand, torch.tensor)
        ways["PyTorch, autograd"] = loop(chosen, with_autograd, torch.tensor)
    with in_precision("float64"):
        results = {name: np.array(way(20)) for name, way in ways.items()}
        size = np.abs(results["NumPy"]).max(axis=(1, 2), keepdims=True)
        error = max(float((np.abs(W - results["NumPy"]) / size).max()) for W in results.values())
        assert error < 1e-12, f"weights differ by {error:.1e} after 20 steps"
        ways["the two products, NumPy"] = products(chosen)
        for way in ways.values():
            way(steps)  # compiled, and memory is there
        rows: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeats):
            for name, way in ways.items():
                rows[name].append(cpu_seconds(partial(way, steps)) / steps / len(chosen))
    print(f"\nOne step of one network: {len(chosen)} networks, {steps} steps, {repeats} repetitions in turn")
    print(f"weights after 20 steps agree to {error:.0e} of the largest; a product of 1000 × 1000: ", end="")
    print(f"{best_rate() / 1e9:.0f} GFLOP/s" + ("" if find_spec("torch") else "; PyTorch is not installed"))
    print(f"{'':<26}{'CPU, ms':>10}{'from':>9}{'to':>9}{'GFLOP/s':>10}{'lazyrich is faster':>21}")
    for name, seconds in rows.items():
        ratios = np.array(seconds) / rows["lazyrich"]
        line = f"{name:<26}{np.median(seconds) * 1e3:>10.3f}{min(seconds) * 1e3:>9.3f}{max(seconds) * 1e3:>9.3f}"
        print(f"{line}{OPERATIONS / np.median(seconds) / 1e9:>10.1f}{np.median(ratios):>19.2f} ×", flush=True)


# flow -------------------------------------------------------------------------------------------------------


class Runs(NamedTuple):
    """What was seen of networks, in the order of their cells."""

    seen: dict[str, np.ndarray]  # observable → (networks, checkpoints); the test loss relative to its start
    weights: np.ndarray  # (networks, checkpoints, all weights)
    gradients: np.ndarray  # (networks,)


def runs(chosen: Sequence[Cell], at: Sequence[int], rtol: float = 0.0, slower: int = 0) -> Runs:
    """The flow with a tolerance; or gradient descent, so many times slower than published. `at`: published steps."""
    seen: dict[str, list[Any]] = {name: [None] * len(chosen) for name in NAMES}
    weights, gradients = [np.empty(0)] * len(chosen), np.zeros(len(chosen), int)
    with in_precision("float64"):
        for stack, rates in stacked(chosen):
            if slower:
                record = descend_stack(stack, rates / slower, [slower * k for k in at])
            else:
                record = flow_stack(stack, rates[..., None] * np.array(at, float), rtol)
            assert set(record.status) == {"complete"}, record.status
            values = measured_together(stack, record, chosen, NAMES)
            values["test_loss"] = values["test_loss"] / values["test_loss"][0]
            for place in np.ndindex(stack.members.shape):
                member = int(stack.members[place])
                gradients[member] = record.gradients[place]
                weights[member] = np.concatenate([W[:, *place].reshape(len(at), -1) for W in record.weights], axis=1)
                for name in NAMES:
                    seen[name][member] = values[name][:, *place]
    return Runs({name: np.array(rows) for name, rows in seen.items()}, np.array(weights), gradients)


def apart(one: Runs, other: Runs) -> dict[str, np.ndarray]:
    """Largest difference of each network, over the checkpoints; of the weights relative to the way they came."""
    found = {name: np.abs(one.seen[name] - other.seen[name])[:, 1:].max(axis=1) for name in NAMES}
    way = np.linalg.norm(other.weights[:, 1:] - other.weights[:, :1], axis=2)
    return found | {"weights": (np.linalg.norm(one.weights - other.weights, axis=2)[:, 1:] / way).max(axis=1)}


def flow(tolerances: Sequence[float], full: bool, seeds: int) -> None:
    places = range(0, 17, 1 if full else 4)
    chosen, at = cells(places, places, seeds), SWEEP.at
    print(f"\nFlow to {at[-1]:,} published steps: {len(places)} × {len(places)} τ and δ, {seeds} seed(s)")
    heads = ("gradients: least", "median", "largest", "mean", "steps/mean", "steps/largest")
    print(f"{'rtol':<10}" + "".join(f"{head:>17}" for head in heads))
    found = []
    for rtol in tolerances:
        found.append(runs(chosen, at, rtol=rtol))
        n = found[-1].gradients
        line = f"{rtol:<10g}{n.min():>17}{np.median(n):>17.0f}{n.max():>17}{n.mean():>17.0f}"
        print(f"{line}{at[-1] / n.mean():>17.1f}{at[-1] / n.max():>17.1f}", flush=True)
    print(f"\nrtol {tolerances[0]:g} against {tolerances[1]:g}, largest over checkpoints")
    line = f"{'':<18}{'median cell':>13}{'largest cell':>14}{'at τ':>8}{'δ':>8}{'seed':>6}"
    print(f"{line}{'over 1e-3':>15}{'means over seeds':>19}")
    for name, each in apart(*found).items():
        seed, i, j = np.unravel_index(each.argmax(), (seeds, len(places), len(places)))
        tau, delta = SWEEP.axes["tau"][places[i]], SWEEP.axes["delta"][places[j]]
        line = f"{name:<18}{np.median(each):>13.1e}{each.max():>14.1e}{tau:>8.2f}{delta:>8.2f}{seed:>6}"
        line += f"{np.sum(each > 1e-3):>7} of {len(each):<4}"
        if name in NAMES:
            means = [part.seen[name].reshape(seeds, -1, len(at)).mean(axis=0) for part in found]
            line += f"{np.abs(means[0] - means[1]).max():>19.1e}"
        print(line, flush=True)


def against_descent(tolerances: Sequence[float]) -> None:
    chosen, at = cells((0, 8, 16), (0, 8, 16), 1), SWEEP.at[:-1]
    print(f"\nDescent and flow to {at[-1]:,} published steps, τ 0.1, 0.45, 2 × δ −1, 0, 1: median and largest cell")
    print(f"{'':<34}" + "".join(f"{name:>20}" for name in (*NAMES, "weights")))

    def line(name: str, one: Runs, other: Runs) -> None:
        numbers = "".join(f"{np.median(each):>11.1e}{each.max():>9.1e}" for each in apart(one, other).values())
        print(f"{name:<34}{numbers}", flush=True)

    exact = runs(chosen, at, rtol=REFERENCE)
    for rtol in tolerances:
        line(f"flow {rtol:g}, from flow {REFERENCE:g}", runs(chosen, at, rtol=rtol), exact)
    faster = None
    for slower in (1, 2, 4):
        descent = runs(chosen, at, slower=slower)
        line(f"rate / {slower}, from flow {REFERENCE:g}", descent, exact)
        if faster:
            line(f"rate / {slower}, from rate / {slower // 2}", descent, faster)
        faster = descent


# device -----------------------------------------------------------------------------------------------------


def device(networks: int, steps: int) -> None:
    chosen = cells(range(17), range(17), len(SWEEP.axes["seed"]))[:networks]
    print(f"\n{len(chosen)} networks, {steps} steps, on {device_kind()}")
    print(f"{'':<12}{'stacks':>8}{'ms per step':>14}{'TFLOP/s':>10}{'minutes to 1e5 steps':>23}")
    for precision in PRECISIONS:
        with in_precision(precision):
            prepared = list(stacked(chosen, precision))
            for stack, rates in prepared:
                descend_stack(stack, rates, (0, 1))  # compiled
            start = time.perf_counter()
            for stack, rates in prepared:
                descend_stack(stack, rates, (0, steps))
            each = (time.perf_counter() - start) / steps
        line = f"{precision:<12}{len(prepared):>8}{each * 1e3:>14.3f}{OPERATIONS * len(chosen) / each / 1e12:>10.3g}"
        print(f"{line}{each * 1e5 / 60:>23.3g}", flush=True)


def grid(seeds: int, last: int) -> None:
    axes, at = SWEEP.axes | {"seed": range(seeds)}, [step for step in SWEEP.at if step <= last]
    found = {}
    print(f"\n{seeds} × 17 × 17 networks to step {at[-1]:,} on {device_kind()}, made and measured", flush=True)
    for precision in PRECISIONS:
        sweep = replace(SWEEP, axes=axes, at=at, precision=precision).in_blocks({})
        start = time.perf_counter()
        found[precision] = sweep.compute(sweep.block_at(0))
        minutes = (time.perf_counter() - start) / 60
        line = f"{precision:<10}{minutes:>8.2f} min"
        assert not found[precision].causes, "some networks did not get to the end"
        for name in found[precision].values:
            means, exact = (run.values[name].astype(float).mean(axis=0) for run in (found[precision], found["float64"]))
            off = np.abs(means - exact) / (np.abs(exact).max() if name.endswith("loss") else 1.0)
            line += f"   {name} {off.max():.1e} (median {np.median(off):.0e})"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("step", "flow", "device", "grid"))
    parser.add_argument("--rtol", type=float, default=0.002, help="flow: tolerance; the other is half of it")
    parser.add_argument("--full", action="store_true", help="flow: every τ and δ")
    parser.add_argument("--seeds", type=int, default=1, help="flow and grid: how many")
    parser.add_argument("--networks", type=int, help="step: 8; device: all 4,624")
    parser.add_argument("--steps", type=int, help="step: 100; device: 2,000; grid: all")
    args = parser.parse_args()
    if args.part == "device":
        device(args.networks or SWEEP.cells, args.steps or 2000)
    if args.part == "grid":
        grid(args.seeds, args.steps or SWEEP.at[-1])
    if args.part in ("step", None):
        step(args.networks or 8, args.steps or 100)
    if args.part in ("flow", None):
        tolerances = (args.rtol, args.rtol / 2)
        flow(tolerances, args.full, args.seeds)
        against_descent(tolerances)


if __name__ == "__main__":
    main()
