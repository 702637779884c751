"""What a measured run is in words: one sentence, and a table of its checkpoints and layers."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from lazyrich._typing import Array
from lazyrich.laziness.definition import RegimeName, percent

if TYPE_CHECKING:
    from lazyrich.laziness.result import Laziness

_NOTHING = 0.01  # change of the outputs, relative, below which hardly anything was learned
_SHOWN, _WIDTH = 8, 100  # rows of a table, and characters of a line below it


def in_one_sentence(found: Laziness) -> str:
    """The regime, and what it stands on."""
    if found.regime is RegimeName.UNKNOWN:
        return f"{found.judgement}."
    until = f"until {percent(found.judgement.thresholds.learned)} of the fall of the loss"
    words = [f"{found.judgement}, judged {until if found.until_learned else 'over the whole run'}"]
    whole = "over the whole run " * bool(found.until_learned)
    if found.hidden:
        most, aside = _farthest(found.hamming_distance)
        words.append(f"{whole}{most} of the activations changed sides{aside}")
        whole = ""
    if np.isfinite(found.relative_parameter_distance).any():  # not from weights of zero
        most, aside = _farthest(found.relative_parameter_distance)
        words.append(f"{whole}the parameters moved by {most} of their norm{aside}")
    if found.function_distance.max() < _NOTHING:
        words.append(f"but hardly anything was learned, the outputs changing by {found.function_distance.max():.1%}")
    return f"{'; '.join(words)}."


def _farthest(values: Array) -> tuple[str, str]:
    """The largest over checkpoints, and in brackets, where the last has less, which it is and what the last has."""
    t = int(np.nanargmax(values))
    most, last = f"{values[t]:.1%}", f"{values[-1]:.1%}"
    return (most, "") if most == last else (f"at most {most}", f" (at checkpoint {t}; {last} at the end)")


def as_table(found: Laziness) -> str:
    """Checkpoints, layers, the verdict, the suggestion, and what was left out."""
    count = len(found.kernel_distance)
    drawn = f"{found.samples:,} of {found.of:,} samples (seed {found.seed})"
    lines = [f"{count} checkpoints, {drawn}, {found.outputs:,} outputs, {found.parameters:,} parameters", ""]
    lines.append(_row("checkpoint", "movement", "turn S", "parameters", "Hamming", "outputs"))
    shown = set(np.linspace(0, count - 1, min(count, _SHOWN)).astype(int))
    if np.isfinite(found.kernel_movement).any():
        shown.add(np.nanargmax(found.kernel_movement))  # the regime is told by it
    for t in sorted(shown):
        moved, flipped = found.relative_parameter_distance[t], found.hamming_distance[t]
        kernel = found.kernel_movement[t], found.kernel_distance[t]
        lines.append(_row(str(t), *kernel, moved, flipped, found.function_distance[t]))
    lines += [
        "",
        _row("layer, at the last", "features", "parameters", "Hamming", "δ at first", "at last", "drift"),
    ]
    features = dict(zip(found.hidden, found.representation_distance[-1], strict=True))
    flips = dict(zip(found.hidden, found.layer_hamming_distance[-1], strict=True))
    for i, layer in enumerate(found.layers[:_SHOWN]):
        ends = [*found.delta[layer].mean(axis=1), found.delta_drift[layer]] if layer in found.delta else []
        moved = found.relative_layer_distance[-1, i]
        lines.append(_row(layer, features.get(layer, np.nan), moved, flips.get(layer, np.nan), *ends))
    if len(found.layers) > _SHOWN:
        lines.append(f"… and {len(found.layers) - _SHOWN} more layers")
    return "\n".join([*lines, "", *(fill(words, _WIDTH) for words in (found.verdict, found.suggestion, *found.notes))])


def _row(name: str, *cells: str | float) -> str:
    words = [cell if isinstance(cell, str) else f"{cell:.2g}" if np.isfinite(cell) else "–" for cell in cells]
    return f"{name[:22]:<22}" + "".join(f"{word:>12}" for word in words)
