"""What watching a run costs: seconds of processor and memory of an update of `lr.laziness.Monitor`, beside torch.func.

    python benchmarks/monitor.py                     # the table of docs/laziness.md, about half an hour
    python benchmarks/monitor.py LeNet 64            # one row

Each cell is measured in a process of its own, whose memory at most is what counts, PyTorch and network included. The
first update measures the initialisation too. Plain torch.func is what one writes without a library: vmap(jacrev) over
all samples, J Jᵀ, at both checkpoints, each time.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

NETWORKS = {"MLP 64-64-10": (64,), "LeNet": (1, 28, 28), "ResNet-18": (3, 32, 32)}
SAMPLES = (16, 64, 200)
LARGEST = 4 * 2**30  # bytes of a Jacobian that is tried


def network(name: str):
    from torch import nn

    if name.startswith("MLP"):
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    if name == "LeNet":
        return nn.Sequential(
            *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU()),
            *(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()),
            nn.Linear(84, 10),
        )
    return resnet18()


def resnet18():
    """For images of 32 × 32, 11.2 million parameters."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, before: int, channels: int, stride: int) -> None:
            super().__init__()
            self.first, self.norm = nn.Conv2d(before, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels)
            self.second, self.other = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels)
            self.relu, self.end = nn.ReLU(), nn.ReLU()
            self.skip = nn.Identity()
            if before != channels:
                self.skip = nn.Sequential(nn.Conv2d(before, channels, 1, stride), nn.BatchNorm2d(channels))

        def forward(self, x):
            return self.end(self.other(self.second(self.relu(self.norm(self.first(x))))) + self.skip(x))

    stages = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    blocks = [Block(*stage) for stage in [*stages, (512, 512, 1)]]
    begin = (nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    return nn.Sequential(*begin, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def setting(name: str, samples: int):
    """A network, its inputs, and the network a little later."""
    import copy

    import torch

    torch.set_num_threads(1)  # threads that wait for each other count as time of the processor
    torch.manual_seed(0)
    model = network(name)
    inputs = torch.randn(samples, *NETWORKS[name])
    later = copy.deepcopy(model)
    with torch.no_grad():
        for leaf in later.parameters():
            leaf += 0.1 * leaf.std(correction=0) * torch.randn_like(leaf)
    return model, inputs, later


def watched(name: str, samples: int) -> dict[str, object]:
    import lazyrich as lr

    model, inputs, later = setting(name, samples)
    seconds, found = [], {}
    began = time.process_time()
    monitor = lr.laziness.Monitor(model, inputs, samples=samples, live=False)
    for step in (1, 2):
        found = monitor.update(later, step)
        seconds.append(time.process_time() - began)
        began = time.process_time()
    names = ("kernel_movement", "kernel_movement_error", "kernel_distance")
    numbers = {part: found.get(f"lazyrich/{part}", 0.0) for part in names}
    return {"seconds": seconds, **numbers}


def plain(name: str, samples: int) -> dict[str, object]:
    import torch
    from torch.func import functional_call, jacrev, vmap

    model, inputs, later = setting(name, samples)
    size = sum(leaf.numel() for leaf in model.parameters())
    if 4 * 10 * samples * size > LARGEST:
        return {"needs": 4 * 10 * samples * size}
    began = time.process_time()

    def kernel(module):
        leaves = {key: leaf.detach() for key, leaf in module.eval().state_dict().items()}
        learned = {key: leaves[key] for key, _ in module.named_parameters()}
        of_one = jacrev(lambda part, x: functional_call(module, leaves | part, (x[None],))[0])
        J = torch.cat([part.flatten(0, 1).flatten(1) for part in vmap(of_one, (None, 0))(learned, inputs).values()], 1)
        return J @ J.T

    one, other = kernel(model), kernel(later)
    moved = torch.linalg.norm(other - one) / max(torch.linalg.norm(other), torch.linalg.norm(one))
    return {"seconds": [time.process_time() - began], "kernel_movement": moved.item()}


def measured(what: str, name: str, samples: int) -> dict[str, object]:
    command = [sys.executable, __file__, "--child", what, name, str(samples)]
    ended = subprocess.run(command, capture_output=True, text=True)
    return json.loads(ended.stdout.splitlines()[-1]) if ended.returncode == 0 else {"failed": ended.stderr[-300:]}


def row(name: str, samples: int) -> str:
    ours, theirs = measured("watched", name, samples), measured("plain", name, samples)
    if "failed" in ours:
        return f"| {name} | {samples} | {ours['failed']} |"
    first, second = ours["seconds"]
    error = f" ± {ours['kernel_movement_error']:.1g}" if ours["kernel_movement_error"] else ""
    cells = [f"{first:.2g}", f"{second:.2g}", f"{ours['memory']:.2g}", f"{ours['kernel_movement']:.4f}{error}"]
    if "seconds" in theirs:
        cells += [f"{theirs['seconds'][0]:.2g}", f"{theirs['memory']:.2g}", f"{theirs['kernel_movement']:.4f}"]
    else:
        need = theirs["needs"] / 2**30 if "needs" in theirs else float("nan")
        cells += ["–", f"over {need:.0f}", "–"]
    return f"| {name} | {samples} | " + " | ".join(cells) + " |"


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--child"]:
        what, name, samples = arguments[1:]
        found = {"watched": watched, "plain": plain}[what](name, int(samples))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps(found | {"memory": memory}))
        return
    print("| network | samples | first, s | later, s | GiB | movement | torch.func, s | GiB | movement |")
    print("|---|---|---|---|---|---|---|---|---|")
    chosen = [(arguments[0], int(arguments[1]))] if arguments else [(n, s) for n in NETWORKS for s in SAMPLES]
    for name, samples in chosen:
        print(row(name, samples), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
