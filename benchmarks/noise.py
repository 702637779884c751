"""Whether one seed gives the same noise on a GPU as on a CPU, and how far the runs are apart.

    JAX_PLATFORMS=cpu python benchmarks/noise.py --save cpu.npz
    python benchmarks/noise.py --against cpu.npz

Each kind of noise in `descend` and in `batch.descend`, linear, tanh and with cross-entropy, float64. Printed for each:
the largest difference of weights relative to the largest weight, over all records; and whether a network alone has the
bits that it has in a batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import jax
import numpy as np

import lazyrich as lr

NOISES = {
    "mini-batches": lr.Noise(batch=5),
    "mini-batches, with replacement": lr.Noise(batch=5, replacement=True),
    "labels": lr.Noise(labels=0.3),
    "weights": lr.Noise(weights=0.2),
    "all three": lr.Noise(batch=5, labels=0.3, weights=0.2),
}
RATE, STEPS, NETWORKS = 0.05, 500, 8


def problems(activation: str, loss: str) -> list[lr.Problem]:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(24, 6)), rng.integers(4, size=24)
    task = lr.Task.from_labels(X, labels, classes=range(4)) if loss == "cross_entropy" else None
    task = task or lr.Task.from_data(X, X @ rng.normal(size=(6, 4)))
    starts = (lr.inits.gaussian(i, sizes=(6, 9, 4), scale=0.3, activation=activation) for i in range(NETWORKS))
    return [lr.Problem(task, start, loss=loss) for start in starts]


def runs() -> Iterator[tuple[str, np.ndarray, bool]]:
    """Name, the last layer of every network at every record, and whether the first network has the same bits alone."""
    for activation, loss in (("linear", "squared"), ("tanh", "squared"), ("linear", "cross_entropy")):
        many = problems(activation, loss)
        for name, noise in NOISES.items():
            together = lr.batch.descend(many, RATE, STEPS, noise=noise, seed=7)
            alone = lr.descend(many[0], RATE, STEPS, noise=noise, seed=7)
            weights = np.stack([run.weights[-1] for run in together])
            yield f"{activation}, {loss}: {name}", weights, bool(np.array_equal(weights[0], alone.weights[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--save", metavar="FILE", help="keep the runs")
    what.add_argument("--against", metavar="FILE", help="compare with runs that were kept")
    wish = parser.parse_args()
    found = {name: (weights, same) for name, weights, same in runs()}
    print(f"{STEPS} steps of {NETWORKS} networks on {jax.devices()[0].device_kind}")
    if wish.save:
        np.savez(wish.save, **{name: weights for name, (weights, _) in found.items()})
        for name, (_, same) in found.items():
            print(f"{name:<60} alone and in a batch: {'same bits' if same else 'DIFFERENT'}")
        return
    with np.load(wish.against) as kept:
        for name, (weights, same) in found.items():
            off = np.abs(weights - kept[name]).max() / np.abs(kept[name]).max()
            print(f"{name:<60} {off:.1e}   alone and in a batch: {'same bits' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
