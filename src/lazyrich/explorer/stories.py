"""Stories to click through, in steps of one idea each: prose tied to marks on the figure, a prediction to make before
it is seen, formulas.

In a text, $…$ is LaTeX, which is typeset here and not in the browser, and ①, ② … point at the marks of the step, in
their order. A story names its seed and its scale, so that it shows the same when the defaults change. `vary` are the
values that a page without a server has for its sliders (`recording`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lazyrich._check import InvalidInput, shown
from lazyrich._version import __version__
from lazyrich.citations import BIBTEX
from lazyrich.explorer.state import State

Choices = Mapping[str, object]  # by the names of a state, or of what only a page knows (axes)


@dataclass(frozen=True)
class Mark:
    """A place on the figure: a panel of its own, or a point on a curve, where it is half way or at a share of the "
    "time."""

    panel: str  # "loss", "modes", "kernel"; or "network", "points", "neuron", "phase"
    mode: int = 0  # which curve, from 0
    share: float | None = None  # of the axis of time; None: where the mode is half way


@dataclass(frozen=True)
class Question:
    """A prediction. Until it is made, curves are hidden beyond the share `seen` of the axis, and all of the panel
    `hides`; then `reveal` is chosen."""

    ask: str
    options: tuple[str, ...]
    right: int  # of them
    answer: str
    seen: float = 1.0
    hides: str = ""
    reveal: Choices = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One idea. `state` and `page` are changes to those of the story; `tries` are buttons: words, and what they "
    "choose."""

    text: str
    state: Choices = field(default_factory=dict)
    page: Choices = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    question: Question | None = None
    tries: tuple[tuple[str, Choices], ...] = ()


@dataclass(frozen=True)
class Story:
    """Three to five steps from one state."""

    name: str
    title: str
    state: Choices
    steps: tuple[Step, ...]
    page: Choices = field(default_factory=dict)
    vary: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()  # keys of `lazyrich.citations`

    def states(self) -> list[State]:
        """Of all steps, of what they reveal, and of what they offer to try."""
        found = []
        for step in self.steps:
            revealed = () if step.question is None else (step.question.reveal,)
            for more in ({}, *revealed, *(choices for _, choices in step.tries)):
                found.append(State.from_dict({**self.state, **step.state, **more}))
        return list(dict.fromkeys(found))


_STAIRCASE = Story(
    "staircase",
    "Staircase",
    {"seed": 32, "scale": 1e-4},
    vary={"scale": (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.44, 1.0), "seed": (1, 32)},
    sources=("saxe2014", "saxe2019", "braun2022"),
    steps=(
        Step(
            "Eight living things go in, and what each of them has and does comes out. The first weights are tiny, of "
            "size $10^{-4}$. For a long time nothing seems to happen ①; then the loss falls fast, rests, and falls "
            "again ②. Nothing is switched on: this is plain gradient descent with a small learning rate.",
            marks=(Mark("loss", share=0.1), Mark("loss", share=0.38)),
        ),
        Step(
            "The task has modes, the pairs of singular vectors $u_k, v_k$ of $\\Sigma_{yx}$. The network has learned "
            "so much of mode $k$: $a_k = u_k^\\top W_2 W_1 v_k$. It is to become $s_k$ (dashed). Mode 1 is half way "
            "at ①.",
            marks=(Mark("modes", 0), Mark("modes", 2), Mark("modes", 7)),
            question=Question(
                "Mode 1 and mode 2 have just been learned. And the others?",
                ("All others follow together", "The strongest that is left comes next", "The weakest comes next"),
                1,
                "Modes 3 and 4 are next ②, and the four weakest come last ③. Each mode grows in proportion to itself, "
                "$\\dot a = 2c\\,a\\,(s - a)$ with $c = 1/8$, the variance of an input: at first $a$ grows like "
                "$e^{2cst}$, and so the strong ones are first. Each group is one step of the loss.",
                seen=0.33,
            ),
        ),
        Step(
            "Each curve is logistic, and it is half way at $t_{1/2} = \\frac{1}{2cs}\\ln\\left(\\frac{s}{a_0} - "
            "1\\right)$. The rings mark these times. They are known before any training: ① is that of mode 1.",
            marks=(Mark("modes", 0),),
            question=Question(
                "Now all first weights are a hundred times smaller. How long does mode 1 take?",
                ("A hundred times as long", "Ten times as long", "Half as long again"),
                2,
                "From $t = 22.7$ it goes to $t = 34.5$. The wait grows with the logarithm of $a_0$ alone, and $a_0$ "
                "is the product of two layers: $\\ln(100^2) / (2cs_1) = 11.8$ more.",
                reveal={"scale": 1e-6},
            ),
        ),
        Step(
            "The hidden layer sorts as it learns. In the tree ① two things part where the distance of their hidden "
            "representations is. First plants part from animals, then birds from fish and flowers from trees, and "
            "single kinds come last: the order of the steps is the order of the tree. Drag the time and watch it "
            "grow.",
            page={"cursor": 0.42},
            marks=(Mark("points"),),
            tries=(("Other first weights", {"seed": 1}), ("Large first weights", {"scale": 0.44})),
        ),
    ),
)

_LAZY_TO_RICH = Story(
    "lazy-rich",
    "Lazy to rich",
    {"seed": 32, "scale": 0.01, "start": "lambda_balanced", "width": 8},
    vary={
        "lam": (-20.0, -10.0, -5.0, -2.0, -1.0, -0.3, -0.1, 0.0, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 20.0),
        "scale": (1e-4, 1e-3, 0.01, 0.1, 0.44, 1.0),
    },
    sources=("domine2025", "kunin2024", "chizat2019"),
    steps=(
        Step(
            "The layers need not be of one size. Here $W_2^\\top W_2 - W_1 W_1^\\top = \\lambda I$ with $\\lambda = "
            "20$: the last layer is large and the first one small. Training conserves $\\lambda$. All modes rise at "
            "once ①.",
            state={"lam": 20.0},
            marks=(Mark("modes", 4), Mark("kernel", share=0.5)),
            question=Question(
                "The tangent kernel says what the network takes for similar. How far does it move while all this is "
                "learned?",
                ("By all of its size", "By half of its size", "Hardly at all"),
                2,
                "By 1.9 % ②. A network whose kernel stays learns like linear regression on features that it was given, "
                "each mode exponentially and all at the same speed. That is called lazy.",
                seen=0.35,
                hides="kernel",
            ),
        ),
        Step(
            "The same task and the same function at first, almost zero. But now $\\lambda = 0$, and both layers are "
            "small.",
            state={"lam": 0.0},
            marks=(Mark("loss", share=0.08), Mark("kernel", share=0.6)),
            question=Question(
                "What does the network do now?",
                ("The same, more slowly", "It waits, and then learns mode after mode", "It learns faster"),
                1,
                "It waits ①, and then learns mode after mode. Both layers have to grow, $\\dot a \\propto a$, and as "
                "they grow they take up the task: the kernel moves by all of its size ②. That is called rich.",
                seen=0.05,
            ),
        ),
        Step(
            "Between the two there is no wall. Mode $k$ obeys $\\dot a = c\\sqrt{\\lambda^2 + 4a^2}\\,(s_k - a)$: it "
            "is lazy where $|\\lambda|$ is large against $2s_k$, and rich where it is small. The map ① says so for "
            "every scale and every $\\lambda$: drag λ, or click into the map.",
            state={"lam": 2.0},
            marks=(Mark("phase"),),
            tries=tuple((f"λ = {lam:g}", {"lam": lam}) for lam in (0.1, 1.0, 5.0, 10.0, 20.0)),
        ),
        Step(
            "Large weights are often called lazy. Here both layers are large and $\\lambda = 0$. Learning begins at "
            "once ①.",
            state={"lam": 0.0, "scale": 0.44},
            marks=(Mark("loss", share=0.02), Mark("kernel", share=0.9)),
            question=Question(
                "Is this network lazy?",
                ("Yes, large weights hardly need to move", "No, the kernel moves far all the same"),
                1,
                "The kernel moves by more than half of its size ②: rich, and fast. It is the balance of the layers "
                "that makes this network lazy or rich, more than the size of its weights.",
                seen=0.03,
                hides="kernel",
            ),
        ),
    ),
)

_DELAYED = Story(
    "delayed",
    "Delayed rich",
    {"seed": 32, "scale": 2.0, "task": "own", "matrix": "2 0", "start": "single_neuron", "lam": -20.0, "angle": 92.0},
    page={"logTime": True},
    vary={"lam": (-20.0, -10.0, -5.0, -2.0, 0.0, 2.0, 5.0, 10.0, 20.0), "scale": (0.5, 1.0, 2.0)},
    sources=("kunin2024",),
    steps=(
        Step(
            "One neuron, $f(x) = a\\,w^\\top x$. Training conserves $\\delta = a^2 - \\lVert w \\rVert^2$, and here "
            "$\\delta = -20$: the input weights $w$ are large. At once the output weight $a$ fits what it can, and "
            "the loss comes to rest ①.",
            marks=(Mark("loss", share=0.55), Mark("loss", share=0.9)),
            question=Question(
                "The loss has not moved for a long time. Is this the end?",
                ("Yes, it has found its minimum", "No, it falls a second time"),
                1,
                "It falls again ②. The first time only $a$ has changed and the kernel has stayed, as in a lazy "
                "network. Only much later $w$ turns to the target, and then the kernel moves: delayed rich.",
                seen=0.72,
            ),
        ),
        Step(
            "All that this neuron can be lies on one surface, $a^2 - \\lVert w \\rVert^2 = \\delta$ ①. The path goes "
            "down first, where $a$ changes alone, and then slowly round the waist, where $w$ turns ②. Drag the "
            "picture to turn it.",
            marks=(Mark("neuron"), Mark("loss", share=0.9)),
        ),
        Step(
            "Now turn it about: $\\delta = +20$, so the output weight is large and the input weights are small.",
            marks=(Mark("kernel", share=0.8),),
            question=Question(
                "The same function at first, the same target. What will happen?",
                (
                    "The loss falls in two stages again",
                    "The loss falls once, and the kernel stays",
                    "Nothing is learned",
                ),
                1,
                "It falls once, hundreds of times sooner, and the kernel moves by less than 1 % ①: lazy. Small "
                "input weights can turn at once. Which layer is the large one decides, so put the large weights last.",
                reveal={"lam": 20.0},
            ),
        ),
    ),
)

_FORGETTING = Story(
    "forgetting",
    "Forgetting",
    {"seed": 32, "scale": 0.35, "then": ["colour_hierarchy"]},
    vary={"scale": (0.1, 0.35, 1.0), "seed": (1, 32)},
    sources=("braun2022", "domine2025"),
    steps=(
        Step(
            "The network learns the eight things by kind. Half way, at the dotted line, the targets change: the same "
            "things are now sorted by colour, and nobody practises the kinds any more.",
            marks=(Mark("loss", 0, share=0.9), Mark("loss", 1, share=0.9)),
            question=Question(
                "What becomes of the loss of the first task?",
                ("It stays where it is", "It rises a little", "It rises above where it began"),
                2,
                "It ends at 3.57 ①, and it began at 3.03: worse than before it had learned anything. The second task ② "
                "overwrites the function in every direction that it uses, and the first one used them too.",
                seen=0.5,
            ),
        ),
        Step(
            "Now the kinds come back, as a third stage. The function is wrong again, but the hidden layer ① has been "
            "here before.",
            state={"then": ["colour_hierarchy", "semantic_hierarchy"]},
            marks=(Mark("network"), Mark("loss", 0, share=0.72)),
            question=Question(
                "Are the kinds learned faster than the first time?",
                ("As fast as the first time", "Faster", "More slowly"),
                1,
                "The last mode took 8.5 the first time, and takes 3.5 now ②. Not because the network remembers "
                "kinds: its weights are no longer small in any direction, and mode speeds are in proportion to them.",
                seen=0.667,
            ),
        ),
        Step(
            "Another change: every target turns its sign. As the new task counts them, modes have to go from $-s$ to "
            "$s$, and nothing else changes.",
            state={"then": ["reversal"]},
            marks=(Mark("modes", 0, share=0.75), Mark("loss", 1, share=0.75)),
            question=Question(
                "Is that quickly learned?",
                ("Quickly, for only signs change", "It takes about as long as before", "It gets stuck on the way"),
                2,
                "They go quickly to zero ①, and there they stay: $\\dot a \\propto |a|$ at $\\lambda = 0$, "
                "and at zero is a saddle. The loss rests where a network that says nothing has it ②.",
                seen=0.5,
            ),
        ),
        Step(
            "The way through zero is what stops it. Where the layers are not balanced, $\\dot a = c\\sqrt{\\lambda^2 + "
            "4a^2}\\,(s - a)$ does not vanish there.",
            state={"then": ["reversal"], "start": "lambda_balanced", "width": 8, "lam": 5.0},
            marks=(Mark("modes", 0, share=0.6),),
            question=Question(
                "With λ = 5, is the reversal learned?",
                ("No, the saddle is still there", "Yes, at once"),
                1,
                "At once ①: off balance, a mode passes through zero at a speed of its own, $c|\\lambda|s$. The "
                "lazier the start, the easier the reversal.",
                seen=0.5,
            ),
        ),
    ),
)

_SADDLE = Story(
    "saddle",
    "Stuck at the saddle",
    {"seed": 4, "scale": 0.05, "task": "own", "matrix": "3 0; 0 2", "width": 4},
    vary={"seed": (0.0, 1.0, 4.0, 5.0), "scale": (0.01, 0.05, 0.2)},
    sources=("braun2022", "tu2024"),
    steps=(
        Step(
            "Two modes, of strengths 3 and 2, and a network with room for both. Mode 1 is learned, as it should be ①.",
            marks=(Mark("modes", 0), Mark("loss", share=0.9)),
            question=Question(
                "And mode 2?",
                ("It follows a little later", "It follows much later", "It is never learned"),
                2,
                "Never. The loss rests at $\\frac{1}{2} \\cdot 2^2 = 2$ ②: the flow has come to a saddle, and stays "
                "there. The page knew from the first weights.",
                seen=0.36,
            ),
        ),
        Step(
            "Gradient flow of balanced layers cannot change the sign of $\\det W_2 W_1$. Where it differs from that "
            "of the target, one mode would have to pass through zero, and none can. Half of all seeds begin on the "
            "wrong side, and their mode 2 ends at zero ①.",
            tries=tuple((f"Seed {seed}", {"seed": seed}) for seed in (0, 1, 4, 5)),
            marks=(Mark("modes", 1, share=0.9),),
        ),
        Step(
            "The saddle is a mountain pass: the least push to the side, and the network leaves it. Here the first "
            "weights were pushed by one part in a million. It stays until ①, and then mode 2 is learned after all.",
            state={"nudge": 1e-6},
            marks=(Mark("modes", 1),),
            question=Question(
                "How much sooner does it leave after a push a thousand times as strong?",
                ("A thousand times sooner", "3.5 sooner", "At the same time"),
                1,
                "It leaves 3.5 sooner: the push grows like $e^{s_2 t} = e^{2t}$, so a thousand times as much saves "
                "$\\ln(1000)/2 = 3.5$. Noise of real training is such a push: plateaus in practice are "
                "saddles that are left late.",
                reveal={"nudge": 1e-3},
            ),
        ),
    ),
)

STORIES = (_STAIRCASE, _LAZY_TO_RICH, _DELAYED, _FORGETTING, _SADDLE)


def story_named(name: str) -> Story:
    """One of them, or one sentence."""
    for story in STORIES:
        if story.name == name:
            return story
    raise InvalidInput(f"there is no story {shown(name)}: try {', '.join(story.name for story in STORIES)}.")


# for a page -------------------------------------------------------------------------------------------------


def cited(stories: Iterable[Story]) -> str:
    """BibTeX of the library and of what these stories are from."""
    entry = f"  author  = {{The lazyrich authors}},\n  title   = {{lazyrich}},\n  version = {{{__version__}}}\n"
    sources = dict.fromkeys(key for story in stories for key in story.sources)
    return "\n\n".join([f"@software{{lazyrich,\n{entry}}}", *(BIBTEX[key] for key in sources)])


def story_json(story: Story) -> dict[str, object]:
    """A story as a page reads it: its texts are lists of words, of {"math": …} and of {"mark": number from 0}."""
    return {
        "name": story.name,
        "title": story.title,
        "state": dict(story.state),
        "page": dict(story.page),
        "steps": [_step(step) for step in story.steps],
    }


def _step(step: Step) -> dict[str, object]:
    asked = step.question
    return {
        "text": _typeset(step.text),
        "state": dict(step.state),
        "page": dict(step.page),
        "marks": [{"panel": mark.panel, "mode": mark.mode, "share": mark.share} for mark in step.marks],
        "tries": [{"words": words, "state": dict(choices)} for words, choices in step.tries],
        "question": asked
        and {
            "ask": _typeset(asked.ask),
            "options": list(asked.options),
            "right": asked.right,
            "answer": _typeset(asked.answer),
            "seen": asked.seen,
            "hides": asked.hides,
            "reveal": dict(asked.reveal),
        },
    }


def _typeset(text: str) -> list[object]:
    from latex2mathml.converter import convert  # here, so that a state can be read without it

    parts: list[object] = []
    for part in re.split(r"(\$[^$]+\$|[①-⑤])", text):
        if part.startswith("$"):
            parts.append({"math": convert(part.strip("$"))})
        elif part and part in "①②③④⑤":
            parts.append({"mark": "①②③④⑤".index(part)})
        elif part:
            parts.append(part)
    return parts
