"""Training steps of the experiments against the loop that people write instead: PyTorch, one network at a time.

    python benchmarks/experiments.py [--part rhm|grokking]

Both parts keep to one core and one thread, and need PyTorch. CPU time of a step of one network; what is compiled is
compiled before; repetitions take turns, medians are reported.

rhm       The MLP of the Random Hierarchy Model at published size (64 inputs, three layers of 64, batches of 128): ours
          trains twelve networks together, six α and two seeds; the loop has the same parametrisation and optimiser.
grokking  The one-layer transformer at published size (p 97, width 128, batches of 512), one network: ours computes what
          the answer needs, the loop the whole causal block of torch.nn.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

if hasattr(os, "sched_setaffinity"):  # one core: libraries count them when they are loaded
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PJRT_NPROC"), "1")

import torch
from torch import nn
from torch.nn import functional as F

from lazyrich.papers.kunin2024.experiments import grokking, rhm

REPETITIONS = 3


def seconds(work: Callable[[], object]) -> float:
    """CPU time of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compared(ours: Callable[[], object], our_steps: int, theirs: Callable[[], object], their_steps: int) -> str:
    """Medians of a step of one network, in milliseconds, and their ratio."""
    ours(), theirs()  # compiled, and warm
    times = [(seconds(ours) / our_steps, seconds(theirs) / their_steps) for _ in range(REPETITIONS)]
    mine, other = (1e3 * median(column) for column in zip(*times, strict=True))
    return f"{mine:8.3f} ms    PyTorch {other:8.3f} ms    {other / mine:5.2f} ×"


def hierarchies() -> str:
    """Forty epochs of 2,048 samples; two looks at the accuracies are in it."""
    alphas, points, epochs = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0), 2048, 40
    cells = [rhm.Settings(seed=seed, alpha=alpha, points=points, test=128) for seed in (0, 1) for alpha in alphas]
    steps = points // cells[0].batch * epochs
    member = rhm.member(cells[0])
    x = F.one_hot(torch.tensor(member.tokens.astype(int)), 8).float().flatten(1)
    y = torch.tensor(member.labels.astype(int))
    sizes = (64, 64, 64, 64, 8)
    weights = [torch.randn(n, m, requires_grad=True) for n, m in pairwise(sizes)]
    optimiser = torch.optim.SGD(weights, lr=6.4, momentum=0.9)

    def loop() -> None:
        for _ in range(epochs):
            for chosen in torch.randperm(points).split(128):
                h = x[chosen]
                for W in weights[:-1]:
                    h = F.relu(h @ W / W.shape[0] ** 0.5)
                loss = F.cross_entropy(h @ weights[-1] / 64, y[chosen])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

    return compared(lambda: rhm.train(cells, (0, epochs), lambda _: None), steps * len(cells), loop, steps)


class Whole(nn.Module):
    """Every position through the causal block, as torch.nn has it."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(99, 128), nn.Embedding(4, 128)
        self.norms = nn.ModuleList(nn.LayerNorm(128) for _ in range(3))
        self.attention = nn.MultiheadAttention(128, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))
        self.head = nn.Linear(128, 99, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norms[0](self.tokens(x) + self.positions.weight)
        mask = nn.Transformer.generate_square_subsequent_mask(4)
        h = h + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        h = h + self.mlp(self.norms[1](h))
        return self.head(self.norms[2](h))[:, -1]


def arithmetic() -> str:
    """Two hundred steps; two looks at the accuracies are in it, of which the loop has none."""
    steps, pairs = 200, torch.tensor(grokking.pairs(97, 0)[:4656].astype(int))
    cell = grokking.Settings(seed=0, every=10**6)
    model = Whole()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    sequences = torch.stack([pairs[:, 0], torch.full((4656,), 98), pairs[:, 1], torch.full((4656,), 97)], dim=1)
    labels = pairs[:, 0] * pairs[:, 1] % 97

    def loop() -> None:
        for _ in range(steps):
            chosen = torch.randint(4656, (512,))
            loss = F.cross_entropy(model(sequences[chosen]), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return compared(lambda: grokking.train([cell], (0, steps), lambda _: None), steps, loop, steps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("rhm", "grokking"))
    part = parser.parse_args().part
    torch.set_num_threads(1)
    for name, run in (("rhm", hierarchies), ("grokking", arithmetic)):
        if part in (None, name):
            print(f"{name:<10}{run()}", flush=True)
