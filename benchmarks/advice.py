"""Does advice hold? Small real trainings, with and without following it: the tables of docs/laziness.md.

    python benchmarks/advice.py [--seeds 2] [--json results.json]      # ten minutes on one core
    python benchmarks/advice.py --data fashion-mnist                   # as much; files in $LAZYRICH_DATA/fashion-mnist
    python benchmarks/advice.py --networks "MLP, LayerNorm" "CNN, BatchNorm" --data digits fashion-mnist

Data (digits, or Fashion-MNIST at 14 × 14 pixels) × networks (an MLP and a convolutional network, ReLU, as they are or
normalised after each hidden layer) × optimisers (SGD, SGD with momentum, Adam) × losses (squared,
cross-entropy) × seeds. Each is trained as it is and after each advice, until the loss of training is a fifth of that
of a constant answer, or 1,500 steps are over. Advice is right where the tangent kernel has moved by more (richer), or
by less (lazier), than without it, at the same loss; beside that stands the same for how far it turned. Gradient descent
takes a rate that the kernel allows, a quarter of samples/λ_max(K_0), half for cross-entropy: it goes with the advice as
the kernel does. The rate of Adam goes as the weights do.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.func import functional_call, jacrev, vmap

import lazyrich as lr
from lazyrich.papers.data import images as read

OPTIMISERS, LOSSES = ("SGD", "momentum", "Adam"), ("squared", "cross-entropy")
NETWORKS = ("MLP", "CNN", "MLP, LayerNorm", "CNN, BatchNorm")
ADVICE = {  # what is multiplied, by what, and what becomes of Adam's rate
    "tilt, richer": ("tilt", 3.0, 1.0),
    "tilt, lazier": ("tilt", 1 / 3, 1.0),
    "all weights ÷ 2, richer": ("all", 0.5, 0.5),
    "all weights × 2, lazier": ("all", 2.0, 2.0),
    "outputs ÷ 4, richer": ("outputs", 0.25, 4.0),
    "outputs × 4, lazier": ("outputs", 4.0, 0.25),
}
SAMPLES, BATCH, STEPS, LEARNED, PROBE = 512, 64, 1500, 0.2, 30


class Multiplied(nn.Module):
    """τ f."""

    def __init__(self, net: nn.Module, by: float = 1.0) -> None:
        super().__init__()
        self.net, self.by = net, by

    def forward(self, x):
        return self.by * self.net(x)


def dataset(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (count, 1, side, side) and labels."""
    if name == "digits":
        images, labels = load_digits(return_X_y=True)
        images = images.reshape(-1, 1, 8, 8) / 16
    else:
        found = read(name)
        images, labels = found.train_x[:SAMPLES, ..., 0].reshape(-1, 1, 14, 2, 14, 2).mean((3, 5)), found.train_y
    return torch.tensor(images[:SAMPLES], dtype=torch.float32), torch.tensor(labels[:SAMPLES], dtype=torch.int64)


def network(name: str, side: int) -> nn.Sequential:
    kind, _, norm = name.partition(", ")
    if kind == "MLP":
        between = [nn.LayerNorm(64)] if norm else []
        return nn.Sequential(nn.Flatten(), nn.Linear(side**2, 64), *between, nn.ReLU(), nn.Linear(64, 10))
    parts = []
    for before, channels, stride in ((1, 8, 1), (8, 16, 2)):
        parts += [nn.Conv2d(before, channels, 3, stride), *([nn.BatchNorm2d(channels)] if norm else []), nn.ReLU()]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(16 * ((side - 3) // 2) ** 2, 10))


def advised(net: nn.Sequential, what: str, factor: float, inputs: torch.Tensor) -> Multiplied:
    """The network after the advice; a tilt goes from balance, as `suggestion` says."""
    net = copy.deepcopy(net)
    if what == "outputs":
        return Multiplied(net, factor)
    layers = [name for name, part in net.named_modules() if isinstance(part, nn.Linear | nn.Conv2d)]
    if what == "tilt":
        states = [net.state_dict(), {name: leaf + 0.01 for name, leaf in net.state_dict().items()}]
        alpha = factor * lr.laziness.measure(net, inputs[:2], states).scaling.balancing
        net.load_state_dict(lr.laziness.rescaled(net.state_dict(), alpha, order=layers))
        return Multiplied(net)
    state = {name: leaf for name, leaf in net.state_dict().items() if name.rpartition(".")[0] in layers}
    net.load_state_dict(lr.laziness.rescaled(state, dict.fromkeys(layers, factor), order=layers), strict=False)
    return Multiplied(net)


def largest(model: nn.Module, inputs: torch.Tensor) -> float:
    """λ_max of K_0 over the samples that are looked at, per sample."""
    model = copy.deepcopy(model)
    for part in model.modules():
        part.momentum = None  # batch normalisation averages over all it has seen
    with torch.no_grad():
        model.train()(inputs)
    model.eval()
    leaves = {name: leaf.detach() for name, leaf in model.named_parameters()}
    of_one = jacrev(lambda part, x: functional_call(model, part, (x[None],))[0])
    J = torch.cat([part.flatten(0, 1).flatten(1) for part in vmap(of_one, (None, 0))(leaves, inputs).values()], dim=1)
    return float(torch.linalg.matrix_norm(J, 2)) ** 2 / len(inputs)


def trained(model: Multiplied, optimiser: str, loss: str, rate: float, data, seed: int) -> dict[str, float]:
    """How far the kernel is when the loss has fallen, and how much of δ was conserved."""
    inputs, labels = data
    answers = nn.functional.one_hot(labels, 10).float()
    monitor = lr.laziness.Monitor(model, inputs[:PROBE], samples=PROBE, live=False)

    def cost(some=slice(None)):
        out = model(inputs[some])
        if loss == "squared":
            return (out - answers[some]).square().sum(1).mean() / 2
        return nn.functional.cross_entropy(out, labels[some])

    goal = LEARNED * (0.5 if loss == "squared" else 2.303)
    make = {
        "SGD": lambda p: torch.optim.SGD(p, lr=rate),
        "momentum": lambda p: torch.optim.SGD(p, lr=rate / 10, momentum=0.9),
        "Adam": lambda p: torch.optim.Adam(p, lr=rate),
    }
    steps, order = make[optimiser](model.parameters()), torch.Generator().manual_seed(seed)
    for step in range(STEPS + 1):
        if step % 10 == 0:
            with torch.no_grad():  # by the batch, as it learns
                now = float(cost())
            if now <= goal or now != now:
                break
        steps.zero_grad()
        cost(torch.randint(0, len(inputs), (BATCH,), generator=order)).backward()
        steps.step()
    found = monitor.update(model, step)
    return {
        "movement": found["lazyrich/kernel_movement"],
        "turn": found["lazyrich/kernel_distance"],
        "drift": found.get("lazyrich/delta_drift", float("nan")),
        "steps": step,
        "loss": now / goal,
    }


def case(name: str, optimiser: str, loss: str, seed: int, data) -> dict[str, dict[str, float]]:
    torch.manual_seed(seed)
    net = network(name, data[0].shape[-1])
    variants = {"as it is": (Multiplied(net), 1.0)}
    for words, (what, factor, gain) in ADVICE.items():
        if what == "tilt" and "Norm" in name:
            continue  # δ is another one there
        variants[words] = (advised(net, what, factor, data[0]), gain)
    found = {}
    for words, (model, gain) in variants.items():
        allowed = (0.25 if loss == "squared" else 0.5) / largest(model, data[0][:PROBE])
        rate = 1e-3 * gain if optimiser == "Adam" else allowed
        found[words] = trained(copy.deepcopy(model), optimiser, loss, rate, data, seed)
    return found


def right(words: str, found: dict[str, dict[str, float]], what: str = "movement") -> bool:
    before, after = found["as it is"][what], found[words][what]
    return after > before if words.endswith("richer") else after < before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data", nargs="+", default=["digits"], choices=["digits", "fashion-mnist"])
    parser.add_argument("--networks", nargs="+", default=["MLP", "CNN"], choices=NETWORKS)
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cases = {}
    for seed, data, *where in itertools.product(range(args.seeds), args.data, args.networks, OPTIMISERS, LOSSES):
        found = cases[data, *where, seed] = case(*where, seed, dataset(data))
        print(data, *where, seed, {words: f"{one['movement']:.2f}" for words, one in found.items()}, flush=True)
        if args.json:
            with open(args.json, "w") as file:
                json.dump([[*key, found] for key, found in cases.items()], file)
    table(cases)


def table(cases: dict[tuple[object, ...], dict[str, dict[str, float]]]) -> None:
    """Counts for each advice, by optimiser; and how far δ drifted where nothing was changed."""
    tried = [words for words in ADVICE if words in next(iter(cases.values()))]
    print("\n| advice | " + " | ".join(OPTIMISERS) + " | all | turn S |\n|---|" + "---|" * (len(OPTIMISERS) + 2))
    for words in tried:
        cells = []
        for chosen in (*((one,) for one in OPTIMISERS), OPTIMISERS):
            those = [right(words, found) for where, found in cases.items() if where[2] in chosen]
            cells.append(f"{sum(those)} of {len(those)}")
        turned = sum(right(words, found, "turn") for found in cases.values())
        unlearned = sum(not found[words]["loss"] <= 1 for found in cases.values())
        print(
            f"| {words} | " + " | ".join(cells) + f" | {turned} of {len(cases)} |  ({unlearned} ended above the loss)"
        )
    for optimiser in OPTIMISERS:
        drifts = [found["as it is"]["drift"] for where, found in cases.items() if where[2] == optimiser]
        print(f"drift of δ, {optimiser}: {min(drifts):.2g} to {max(drifts):.2g}")


if __name__ == "__main__":
    main()
