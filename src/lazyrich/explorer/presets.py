"""Six presets to click through, from the staircase to the saddle.

Each names its seed and its scale, also where they are the defaults, so that it shows the same when those change.
`text` says what there is to see, `watch` where to look first.
"""

from __future__ import annotations

from typing import TypedDict


class Preset(TypedDict):
    name: str
    title: str
    text: str
    state: dict[str, object]
    page: dict[str, object]  # axes
    watch: str


PRESETS: tuple[Preset, ...] = (
    {
        "name": "staircase",
        "title": "Staircase",
        "text": "From small balanced weights, a network learns a tree of eight living things level by level, and the "
        "loss falls in three steps. Each mode waits long and then rises fast, the stronger the sooner.",
        "state": {"seed": 32, "scale": 1e-4},
        "page": {},
        "watch": "The mode strengths: two rise together, then two, then four, and each group is a step of the loss.",
    },
    {
        "name": "lazy",
        "title": "Lazy",
        "text": "With λ = 20 the last layer is large and hardly moves, so the network learns like linear regression: "
        "all modes at once, exponentially. The kernel stays within two percent of what it was at initialisation.",
        "state": {"seed": 32, "scale": 0.01, "start": "lambda_balanced", "lam": 20.0},
        "page": {},
        "watch": "The kernel distance, which stays at zero while the loss falls; then drag λ towards 0.",
    },
    {
        "name": "rich-fast",
        "title": "Rich but fast",
        "text": "Large weights learn many times faster than the staircase, and yet the kernel moves by more than half, "
        "because the layers are balanced. It is the balance that makes a network lazy, not the size of its weights.",
        "state": {"seed": 32, "scale": 0.44},
        "page": {},
        "watch": "The time axis against that of the staircase, and the kernel distance, which rises all the same.",
    },
    {
        "name": "delayed",
        "title": "Delayed rich",
        "text": "One neuron with δ = −20 has large first weights that hardly turn: its output weight fits what their "
        "direction allows, and the loss rests on a plateau. Only much later the first weights turn to the target.",
        "state": {
            "seed": 32,
            "scale": 2.0,
            "task": "own",
            "matrix": "2 0",
            "start": "single_neuron",
            "lam": -20.0,
            "angle": 92.0,
        },
        "page": {"logTime": True},
        "watch": "The two falls of the loss, and the path in parameter space: first a alone, much later w turns.",
    },
    {
        "name": "forgetting",
        "title": "Forgetting",
        "text": "The network learns the eight things by kind, and then the same things sorted by colour. While it "
        "learns the second order, the loss of the first rises above where it had started.",
        "state": {"seed": 32, "scale": 0.35, "then": ["colour_hierarchy"]},
        "page": {},
        "watch": "The loss of both tasks: one falls while the other rises, and the forgetting matrix says by how much.",
    },
    {
        "name": "saddle",
        "title": "Stuck at the saddle",
        "text": "Half of all balanced square initialisations never learn everything: det W₂W₁ has the other sign than "
        "that of the target, and the flow cannot change it. The strong mode is learned, and the weak one never.",
        "state": {"seed": 4, "scale": 0.05, "task": "own", "matrix": "3 0; 0 2", "width": 4},
        "page": {},
        "watch": "The loss, which comes to rest far above zero; seed 0 sets the network free.",
    },
)
