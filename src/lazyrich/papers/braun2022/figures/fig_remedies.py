"""What follows from section 6: how much the usual remedies help against forgetting, and at what cost. A figure of our
own."""

import numpy as np

from lazyrich.inits import lambda_balanced, zero_balanced
from lazyrich.papers.base.figure import Check, Dataset, Figure, Picture, dataset
from lazyrich.plot.tradeoffs import draw as draw_remedies
from lazyrich.sequences import Remedy, remedies
from lazyrich.tasks import Task

TITLE = "What helps against forgetting, by how much, and at what cost"
ABOUT = (
    "An 8-16-6 network has learned one task and learns another that has something in common with it, on white inputs, "
    "to the end, with each of the usual remedies; losses are parts of what lies between the tasks (settings of "
    "our own, not in the paper). Replay of a fraction ρ forgets (1 − ρ)² and misses ρ², which is on the line that no "
    "network is below. A penalty on all weights alike comes next; that by Fisher information and early stopping of "
    "this rich network are twice as far off, weight decay further. A slower first layer, width and initialisation "
    "change the time alone."
)
CALLS = ("lr.sequences.remedies", "lr.sequences.replay", "lr.sequences.Penalty", "lr.plot.remedies")
CHECKS = {
    "below": Check(
        "how far the lowest of all is below the line, root of forgotten + root of missing − 1", at_most=1e-9
    ),
    "replay_error": Check("largest difference of replay from (1 − ρ)² and ρ²", at_most=1e-5),
    "network_error": Check("largest difference of other networks from forgetting all", at_most=1e-3),
    "stopped_above": Check("how far early stopping is above the line at most", at_least=0.02),
    "weights_above": Check("the same for penalties on weights", at_most=0.05),
}
QUICK = {"others": False}
FRACTIONS = {"1 %": 0.01, "5 %": 0.05, "20 %": 0.2, "50 %": 0.5}


def compute(*, sizes: tuple[int, ...] = (8, 16, 6), scale: float = 0.01, seed: int = 4, others: bool = True) -> Dataset:
    """Each remedy with what is forgotten, what is missing and the time; and the way from old to new without any."""
    d_in, _, d_out = sizes
    common, *own = (
        np.random.default_rng(k).normal(size=(d_out, d_in)) / np.sqrt(d_in) for k in (seed, seed + 1, seed + 2)
    )
    old, new = (Task.from_correlations(common + extra) for extra in own)
    networks = {
        "64 hidden units": zero_balanced(0, sizes=(d_in, 64, d_out), scale=scale),
        "large weights": zero_balanced(0, sizes=sizes, scale=1.0),
        "λ = 2": lambda_balanced(0, sizes=(d_in, d_out, d_out), lam=2.0, scale=scale),
    }
    result = remedies(old, new, zero_balanced(0, sizes=sizes, scale=scale), others=networks if others else None)
    found = result.found
    data = dataset(
        {
            "forgotten": ("remedy", np.array([each.forgetting for each in found])),
            "missing": ("remedy", np.array([each.missing for each in found])),
            "time": ("remedy", np.array([each.time for each in found])),
            "course": (("moment", "task"), result.course),
        },
        coords={
            "kind": ("remedy", [each.kind for each in found]),
            "setting": ("remedy", [each.setting for each in found]),
            "method": ("remedy", [each.method for each in found]),
        },
    )
    return data.assign_attrs(_numbers(found))


def _numbers(found: tuple[Remedy, ...]) -> dict[str, float]:
    def of(kind: str) -> list[Remedy]:
        return [each for each in found if each.kind == kind]

    replayed = [
        (each.forgetting - (1 - FRACTIONS[each.setting]) ** 2, each.missing - FRACTIONS[each.setting] ** 2)
        for each in of("replay")
    ]
    return {
        "below": -min(each.excess for each in found),
        "replay_error": float(np.abs(replayed).max()),
        "network_error": max(abs(each.forgetting - 1) for each in (*of("nothing"), *of("another network"))),
        "stopped_above": max(each.excess for each in of("early stopping")),
        "weights_above": max(each.excess for each in of("penalty on weights")),
    }


def draw(data: Dataset) -> Picture:
    """Forgotten over missing, and over time."""
    columns = (data[name].values for name in ("kind", "setting", "forgotten", "missing", "time", "method"))
    found = [
        Remedy(str(kind), str(setting), float(forgotten), float(missing), float(time), str(method))
        for kind, setting, forgotten, missing, time, method in zip(*columns, strict=True)
    ]
    return draw_remedies(found, data.course.values)


FIGURE = Figure("braun2022/remedies", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
