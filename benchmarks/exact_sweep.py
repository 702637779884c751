"""Exact sweeps at the speed of ensembles: 100,000 cells of 8-14-8 networks, 50 times each, into a folder.

    python benchmarks/exact_sweep.py [--cells 100000] [--workers 2]

Prints wall time, processor time of all processes, the load of the machine meanwhile, and the memory of the largest
worker in the first quarter of the run and at the most: flat means that both are the same. On a machine that computes
something else too, the processor time is what counts: over the number of workers it is the wall time of an idle one.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import threading
import time
from pathlib import Path

import psutil

from lazyrich.sweeps import Sweep, run


def sweep_of(cells: int) -> Sweep:
    return Sweep(
        "exact",
        "hierarchy",
        axes={"seed": range(cells // 10), "scale": {"logspace": [-2, 0, 10]}},
        at=range(0, 500, 10),
        rate=0.1,
        method="solve",
        observables=["loss"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    sweep, held, over = sweep_of(args.cells), [], threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            children = psutil.Process().children()
            held.append(max((child.memory_info().rss for child in children if child.is_running()), default=0) / 2**20)

    with tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=watch, daemon=True).start()
        start, own = time.perf_counter(), time.process_time()
        summary = run(sweep, Path(folder) / "out", workers=args.workers)
        seconds, own = time.perf_counter() - start, time.process_time() - own
        over.set()
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = own + used.ru_utime + used.ru_stime
    early = max(held[: len(held) // 4], default=0)
    print(f"{summary.complete:,} of {sweep.cells:,} cells complete, {len(sweep.at)} times each, {size / 2**20:.0f} MiB")
    print(f"wall {seconds:.0f} s with {args.workers} workers; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"processor {processor:.0f} s ({own:.1f} s here): {processor / args.workers:.0f} s for each worker")
    print(f"memory of the largest worker: {early:.0f} MiB in the first quarter, {max(held):.0f} MiB at the most")


if __name__ == "__main__":
    main()
