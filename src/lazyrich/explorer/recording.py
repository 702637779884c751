"""One page without a server: stories, and what the server would say of them, computed ahead for some values of the
sliders.

A recording holds the same messages as the live page gets, one set for each state. Numbers are packed to be small:

    float     what is drawn on logarithmic axes, with 14 bits behind the first: within three parts in 100,000
    fixed     all else, in 8191 steps of its largest entry; of the layers at some times, from which the page makes
              the function and the Gram matrix

Each row is written as what it adds to the one before, as whole numbers of 24 bits, all first bytes before all second
ones, and the whole is compressed (gzip) and put into the page as text (base64).
"""

from __future__ import annotations

import base64
import gzip
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

import lazyrich as lr
from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.explorer.captions import captions
from lazyrich.explorer.phase import phase, phase_header, phase_key
from lazyrich.explorer.script import prepared
from lazyrich.explorer.state import CONTROLS, State
from lazyrich.explorer.stories import Step, Story, cited, story_json
from lazyrich.explorer.view import View, view, weights
from lazyrich.explorer.wire import Header, plain

_DRAWINGS = 44  # times at which matrices are kept
_FEWEST = 4  # of them, where there are many large matrices
_NUMBERS = 3_000_000  # in the layers of all states, about
_SHIFT = 9  # bits that a single-precision number loses
_STEPS = 8191  # of the largest entry
_FLOATS = ("times", "loss", "scales", "lams")  # what is drawn on logarithmic axes
_VARIED = ("scale", "lam", "seed", "nudge")  # choices that a page without a server has sliders for
_LAMS = (-10.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0, 10.0)
_SCALES = (1e-4, 1e-3, 0.01, 0.1, 0.3, 1.0)

Report = Callable[[float], object]


def states_of(stories: Iterable[Story]) -> list[State]:
    """Of every step, and around each all values that its story has for the sliders; none twice."""
    found: dict[State, None] = {}
    for story in stories:
        for state in story.states():
            own = {name: tuple(dict.fromkeys((*values, getattr(state, name)))) for name, values in story.vary.items()}
            for values in itertools.product(*own.values()):
                found[replace(state, **_typed(zip(own, values, strict=True)))] = None
    return list(found)


def _typed(choices: Iterable[tuple[str, float]]) -> dict[str, Any]:
    return {name: int(value) if name == "seed" else float(value) for name, value in choices}


def own_story(state: State) -> Story:
    """A view of one's own, with the sliders that it has in the explorer."""
    scaled = [name for name in ("scale", "lam") if _has_slider(name, state)]
    if state.start == "zero_balanced" and not state.lam and "lam" in scaled:
        scaled.remove("lam")  # with a λ it would be another initialisation
    vary: dict[str, tuple[float, ...]] = {"scale": _SCALES, "lam": _LAMS}
    grids = {name: vary[name] for name in scaled}
    grids["seed"] = tuple(float(seed) for seed in dict.fromkeys((state.seed, state.seed + 1, state.seed + 2)))
    text = "What this network does, exactly where a theorem applies. Move the sliders, and drag the time."
    step = Step(text, tries=())
    return Story("own", "One view", state.to_dict(), (step,), vary=grids, sources=_sources(state))


def _has_slider(name: str, state: State) -> bool:
    control = next(control for control in CONTROLS if control.name == name)
    return all(getattr(state, other) in values for other, values in control.when.items())


def _sources(state: State) -> tuple[str, ...]:
    method = prepared(state).problem.facts.method
    return {"deep_modes": ("saxe2014",), "shallow": ("saxe2019",), "family": ("tu2024",)}.get(
        method or "", ("braun2022",)
    )


# packing ----------------------------------------------------------------------------------------------------


def recorded(stories: Sequence[Story], states: Sequence[State], moved_on: Report = lambda _: None) -> str:
    """Everything that the page needs, as one text; `moved_on(1)` is called after each state."""
    packing = _Packing()
    views, pictures = [], {}
    wanted = {state for story in stories for state in story.states()}
    for state in states:
        try:
            views.append(_messages(state, packing, len(states)))
        except (InvalidInput, lr.NoExactSolution):
            if state in wanted:
                raise
            moved_on(1)  # a slider leads to where there is no network: it has a gap there
            continue
        key = phase_key(state)
        if key not in pictures:
            found = phase(state, lambda: False)
            pictures[key] = packing.listed(found[1] if found else {})
        moved_on(1)
    content = {"hello": _hello(stories, states), "views": views, "pictures": pictures}
    text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    packed = len(text).to_bytes(4, "little") + text + packing.planes()
    return base64.b64encode(gzip.compress(packed, 9, mtime=0)).decode()


def _hello(stories: Sequence[Story], states: Sequence[State]) -> Header:
    return {
        "version": lr.__version__,
        "controls": [asdict(control) for control in CONTROLS if control.name in _VARIED],
        "defaults": State().to_dict(),
        "stories": [story_json(story) for story in stories],
        "cite": cited(stories),
    }


def _messages(state: State, packing: _Packing, count: int) -> Header:
    """What the live page gets of one of so many states."""
    shown = view(state)
    sizes = shown.script.problem.network.sizes
    size = sum(before * after for before, after in itertools.pairwise(sizes))
    drawings = min(_DRAWINGS, max(_FEWEST, _NUMBERS // (size * count)))
    told, layers = weights(shown, drawings)
    drawn = _thinned(shown, layers, drawings)
    changed = {name: value for name, value in state.to_dict().items() if value != State().to_dict()[name]}
    return {
        "state": changed,
        "view": {"header": shown.header, "arrays": packing.listed(drawn)},
        "captions": captions(state, shown),
        "weights": {"header": told, "arrays": packing.listed(layers)},
        "phase": {"header": phase_header(state)},
    }


def _thinned(shown: View, layers: Mapping[str, Array], drawings: int) -> dict[str, Array]:
    """The arrays of a view with matrices at few times, or without those that follow from the layers."""
    arrays, frames = dict(shown.arrays), shown.arrays["frames"]
    matrices = [name for name in ("function", "gram", "inner") if name in arrays]
    if layers:
        for name in matrices:
            del arrays[name]
        return arrays | {"frames": np.searchsorted(arrays["times"], layers["times"])}
    some = np.unique(np.linspace(0, len(frames) - 1, drawings).astype(int))
    return arrays | {"frames": frames[some]} | {name: arrays[name][some] for name in matrices}


class _Packing:
    """Whole numbers of all arrays, one after the other."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self._count = 0

    def listed(self, arrays: Mapping[str, Array]) -> list[list[object]]:
        """Takes arrays in; their names, shapes, units (none: floating point) and places come back."""
        found: list[list[object]] = []
        for name, array in arrays.items():
            values = np.atleast_1d(np.asarray(array, dtype=np.float64))
            whole, unit = _rounded(values, name in _FLOATS)
            rows = whole.reshape(len(values), -1)
            found.append([name, list(values.shape), unit, self._count])
            self._parts.append(np.diff(rows, axis=0, prepend=0).ravel())
            self._count += rows.size
        return found

    def planes(self) -> bytes:
        whole = np.concatenate(self._parts).astype("<i4").view(np.uint8).reshape(-1, 4)
        return whole[:, :3].T.tobytes()


def _rounded(values: Array, as_floats: bool) -> tuple[Array, float | None]:
    """As whole numbers of 23 bits, and their unit."""
    if as_floats or not np.all(np.isfinite(values)):
        bits = values.astype(np.float32).view(np.int32).astype(np.int64)
        return (bits + (1 << (_SHIFT - 1))) >> _SHIFT, None
    if np.all(values == np.rint(values)) and np.abs(values).max(initial=0) < _STEPS:
        return values.astype(np.int64), 1.0
    unit = float(np.abs(values).max()) / _STEPS
    return np.rint(values / unit).astype(np.int64), unit
