"""How long a large ensemble takes where JAX computes, a GPU if there is one, and what limits it.

    python benchmarks/ensembles.py [--starts 100000] [--times 50] [--sizes 8 14 8]

Prints seconds for making the starts, their set-up in NumPy (facts, spectrum, echelon), the transfer of its constants,
the compilation, the evaluation of W2W1 and the loss at all times (with what the arithmetic and the memory of the device
would take at least), and the way back of the losses; and the same in NumPy on this machine's cores.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np

import lazyrich as lr
from lazyrich.batch.device import OnDevice
from lazyrich.batch.ensemble import ensembles
from lazyrich.methods.riccati.evaluation import constants_of
from lazyrich.methods.riccati.method import scale_of

Value = TypeVar("Value")


def timed(told: dict[str, float], name: str, call: Callable[[], Value]) -> Value:
    start = time.perf_counter()
    value = jax.block_until_ready(call())
    told[name] = time.perf_counter() - start
    print(f"{name:<52} {told[name]:9.3f} s", flush=True)
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--sizes", type=int, nargs=3, default=[8, 14, 8])
    parser.add_argument("--json", help="file to write the numbers to")
    wish = parser.parse_args()
    d_in, _, d_out = wish.sizes
    task = lr.tasks.semantic_hierarchy()
    if (d_in, d_out) != (task.d_in, task.d_out):
        task = lr.Task.from_correlations(np.random.default_rng(0).normal(size=(d_out, d_in)))
    grid, told = np.linspace(0.0, 200.0, wish.times), dict[str, float]()
    where = jax.devices()[0]
    print(f"{wish.starts:,} starts of {'-'.join(map(str, wish.sizes))} at {wish.times} times on {where.device_kind}")

    def starts() -> list[lr.Problem]:
        rng = np.random.default_rng(1)
        draws = (lr.inits.zero_balanced(rng, sizes=tuple(wish.sizes), scale=0.1) for _ in range(wish.starts))
        return [lr.Problem(task, network) for network in draws]

    problems = timed(told, "problems made", starts)
    (many,) = timed(told, "set-up in NumPy, all cores", lambda: ensembles(problems, grid[None]))
    together = sum(len(piece.members) for piece in many.pieces)
    print(f"  {together:,} in {len(many.pieces)} patterns of pivots, {wish.starts - together} for lr.solve one by one")
    with jax.enable_x64(True):
        there = OnDevice(many, jax.numpy.asarray(grid))
        large, scale = max(many.pieces, key=lambda piece: len(piece.members)).graded, scale_of(problems[0])
        constants = jax.block_until_ready(constants_of(large, scale, there.array))
        part = f"constants of the largest pattern ({len(large.L):,}), made and moved"
        timed(told, part, lambda: constants_of(large, scale, there.array))
        moved = sum(array.nbytes for array in constants)
        print(f"  {moved:.3g} bytes")
        timed(told, "W2W1, compiled and evaluated", lambda: there.compute("function"))
        functions = timed(told, "W2W1, transfer and evaluation", lambda: there.compute("function"))
        there._results["function"] = functions
        timed(told, "loss, compiled and evaluated", lambda: there.compute("loss"))
        losses = timed(told, "loss, evaluated", lambda: there.compute("loss"))
        timed(told, "losses to the host", lambda: [np.asarray(loss) for loss in losses])
    points, n, k = together * wish.times, d_in + d_out, len(many.pieces[0].graded.pivots)
    multiplications = points * (n * k * k + k**3 / 6 + n * k * k / 2 + n * n * k + d_out * d_in * k)
    print(f"  {2 * multiplications:.3g} operations, {8 * points * n * k:.3g} bytes in each array of n × k per point")
    print(f"  {1e9 * told['W2W1, transfer and evaluation'] / points:.0f} ns a point")
    timed(told, "W2W1 and loss in NumPy, all cores", lambda: many.part("function", int(many.pieces[0].members[0])))
    objects = dict(timed(told, "trajectories made, as batch.solve does", lambda: list(many.trajectories(grid[None]))))
    assert len(objects) == together
    if wish.json:
        with open(wish.json, "w", encoding="utf-8") as file:
            json.dump({"device": str(where.device_kind), "starts": wish.starts, "seconds": told}, file, indent=1)


if __name__ == "__main__":
    main()
