"""Kernel distances along a trajectory against forming the kernels: CPU time, and peak memory of a fresh process.

    python benchmarks/kernel.py [--inputs 784] [--hidden 100] [--outputs 10] [--samples 2000] [--times 100]

Weights are random and move along a line. "matrices" forms the (samples × outputs)² kernel from its factors, block by
block, in memory that is there already and with XXᵀ given, and takes two inner products of it; it keeps one kernel at
a time, and so does less than a distance needs. "Jacobian" multiplies the Jacobian of all outputs by its transpose, as
automatic differentiation would. Both are measured at one time, and multiplied. ReLU networks have 1 to 3 outputs and
a tenth of the times.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import lazyrich as lr
from lazyrich.observables.kernels.along import kernel_distance, kernel_distances


def trajectory(args: argparse.Namespace) -> lr.Trajectory:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(args.samples, args.inputs)), rng.normal(size=(args.samples, args.outputs))
    weights = []
    for shape in ((args.hidden, args.inputs), (args.outputs, args.hidden)):
        start, way = rng.normal(size=shape) / np.sqrt(shape[1]), rng.normal(size=shape) / np.sqrt(shape[1])
        weights.append(start + np.linspace(0, 1, args.times)[:, None, None] * way)
    network = lr.Network([W[0] for W in weights], args.activation)
    problem = lr.Problem(lr.Task.from_data(X, Y), network)
    return lr.Trajectory(problem, np.arange(float(args.times)), "flow", {"weights": weights})


def gram_alone(traj: lr.Trajectory) -> lr.Trajectory:
    """As a closed form would hand it over, filled time by time."""
    n = traj.problem.task.d_in + traj.problem.task.d_out
    gram = np.empty((len(traj.times), n, n))
    for i, (W1, W2) in enumerate(zip(*traj.weights, strict=True)):
        Q = np.concatenate([W1.T, W2])
        gram[i] = Q @ Q.T
    return lr.Trajectory(traj.problem, traj.times, "flow", {"gram": gram})


def matrices(traj: lr.Trajectory) -> Callable[[], float]:
    X, (W1, W2) = traj.problem.task.inputs, (W[0] for W in traj.weights)
    G, K, linear = X @ X.T, np.zeros((len(W2), len(X)) * 2), traj.problem.network.activation == "linear"
    K += 1.0  # every page of it is there

    def work() -> float:
        z = W1 @ X.T
        c = np.ones_like(z) if linear else (z > 0).astype(float)
        second = (c * z).T @ (c * z)
        for o, p in np.ndindex(len(W2), len(W2)):
            np.multiply(G, W2[o] @ W2[p] if linear else (c * (W2[o] * W2[p])[:, None]).T @ c, out=K[o, :, p, :])
            if o == p:
                K[o, :, p, :] += second
        return float(np.vdot(K, K) / np.vdot(K, K))

    return work


def jacobian(traj: lr.Trajectory) -> Callable[[], float]:
    """Of a ReLU network with one output."""
    X, (W1, W2) = traj.problem.task.inputs, (W[0] for W in traj.weights)

    def work() -> float:
        c = (X @ W1.T > 0).astype(float)
        J = np.concatenate([((W2 * c)[:, :, None] * X[:, None, :]).reshape(len(X), -1), c * (X @ W1.T)], axis=1)
        K = J @ J.T
        return float(np.vdot(K, K) / np.vdot(K, K))

    return work


#: Name → set-up, which is not timed, and returns the work that is.
WAYS: dict[str, Callable[[lr.Trajectory], Callable[[], object]]] = {
    "kernel_distance": lambda traj: lambda: kernel_distance(traj),
    "kernel_distance, from gram": lambda traj: lambda: kernel_distance(traj),
    "kernel_distances, all pairs": lambda traj: lambda: kernel_distances(traj),
    "matrices": matrices,
    "Jacobian": jacobian,
}


def alone(way: str, args: argparse.Namespace) -> dict[str, float]:
    """CPU seconds for all times, and peak memory of this process in MiB, the trajectory included."""
    once = way in ("matrices", "Jacobian")
    traj = trajectory(argparse.Namespace(**{**vars(args), "times": 1 if once else args.times}))
    traj = gram_alone(traj) if way.endswith("gram") else traj
    work, seconds = WAYS[way](traj), np.inf
    for _ in range(2 if once else 1):  # the first time, fresh memory costs more than the work
        start = time.process_time()
        work()
        seconds = min(seconds, time.process_time() - start)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return {"seconds": seconds * (args.times if once else 1), "peak": peak}


def in_a_fresh_process(way: str, args: argparse.Namespace) -> dict[str, float]:
    sizes = [f"--{name}={getattr(args, name)}" for name in ("inputs", "hidden", "outputs", "samples", "times")]
    command = [sys.executable, __file__, *sizes, f"--activation={args.activation}", f"--way={way}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def table(args: argparse.Namespace, ways: list[str]) -> None:
    sizes = f"{args.inputs}-{args.hidden}-{args.outputs}"
    print(f"\n{args.activation} {sizes}, {args.samples} samples, {args.times} times")
    print(f"{'':<32}{'CPU, s':>10}{'peak, MiB':>12}{'matrices take':>16}")
    rows = {way: in_a_fresh_process(way, args) for way in ways}
    for way, row in rows.items():
        ratio = f"{rows['matrices']['seconds'] / row['seconds']:.3g} ×"
        print(f"{way:<32}{row['seconds']:>10.3g}{row['peak']:>12.0f}{ratio:>16}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in {"inputs": 784, "hidden": 100, "outputs": 10, "samples": 2000, "times": 100}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--activation", choices=("linear", "relu"), default="linear", help=argparse.SUPPRESS)
    parser.add_argument("--way", choices=tuple(WAYS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        print(json.dumps(alone(args.way, args)))
        return
    ours = ["kernel_distance", "kernel_distance, from gram", "kernel_distances, all pairs"]
    table(args, [*ours, "matrices"])
    args.activation, args.times = "relu", max(args.times // 10, 1)
    for args.outputs in (1, 2, 3):
        table(args, [ours[0], ours[2], "matrices", *(["Jacobian"] if args.outputs == 1 else [])])


if __name__ == "__main__":
    main()
