"""What of a teacher is seen through the noise: singular value and overlaps, formula over draws."""

import numpy as np

from lazyrich._progress import progress
from lazyrich.papers.base.figure import Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.lampinen2019 import formulas
from lazyrich.plot import style
from lazyrich.tasks import noisy_teacher

TITLE = "A teacher seen through noise: a threshold, inflated singular values, turned vectors"
ABOUT = (
    "A linear teacher of rank one answers with noise of variance 1 to as many white samples as there are inputs; "
    "dots are what the samples show of it (200 inputs, 100, 200 or 400 outputs, means of 20 draws with their spread), "
    "dotted lines the limit of infinitely many inputs. "
    "A teacher weaker than the fourth root of the aspect ratio leaves no trace; above it the strongest singular value "
    "is too large, and its vectors turn towards the teacher's. "
    "Near the threshold 200 inputs are few: there the transition is rounded, and draws differ."
)
CALLS = ("lr.tasks.noisy_teacher",)
CHECKS = {
    "singular_values": Check("singular values against the limit, largest relative difference", at_most=0.035),
    "overlaps": Check("overlaps against the limit, from 1.7 thresholds on, largest difference", at_most=0.04),
    "below": Check("overlaps below 0.6 thresholds, the largest", at_most=0.06),
}
QUICK = {"draws": 6, "count": 8}

_COLOURS = ("blue", "orange", "green")
_OVERLAPS = ("output", "input")


def compute(
    *, d_in: int = 200, aspects: tuple[float, ...] = (0.5, 1.0, 2.0), draws: int = 20, count: int = 16, seed: int = 0
) -> Dataset:
    """Singular value and squared overlaps of the strongest mode, for strengths from 0.3 to 4 thresholds."""
    share = np.append(np.linspace(0.3, 1.5, count // 2), np.linspace(1.7, 4.0, count - count // 2))
    seen = np.empty((len(aspects), count, draws, 3))
    limit = np.empty((len(aspects), count, 3))
    with progress(seen[..., 0].size, "draws") as move_on:
        for i, A in enumerate(aspects):
            for j, s in enumerate(share * formulas.threshold(A)):
                limit[i, j] = formulas.inflated(s, A), formulas.output_overlap(s, A), formulas.input_overlap(s, A)
                for k in range(draws):
                    rng = np.random.default_rng((seed, i, j, k))
                    taught = noisy_teacher(rng, d_in=d_in, d_out=round(A * d_in), strengths=[s])
                    U, values, V = taught.train.modes
                    overlaps = (U[:, 0] @ taught.U[:, 0]) ** 2, (V[:, 0] @ taught.V[:, 0]) ** 2
                    seen[i, j, k] = values[0], *overlaps
                    move_on(1)
    mean = seen.mean(axis=2)
    off = np.abs(mean - limit)
    return dataset(
        {"seen": (("aspect", "share", "draw", "what"), seen), "limit": (("aspect", "share", "what"), limit)},
        {"aspect": list(aspects), "share": share, "what": ["singular value", *_OVERLAPS]},
        {
            "singular_values": float((off[..., 0] / limit[..., 0]).max()),
            "overlaps": float(off[:, share >= 1.7, 1:].max()),
            "below": float(mean[:, share < 0.6, 1:].max()),
        },
    )


def draw(data: Dataset) -> Picture:
    """Singular value, overlap of the outputs, overlap of the inputs, over the strength in units of the threshold."""
    figure = style.new_figure(12.0, 3.9)
    panels = figure.subplots(1, 3)
    fine = np.linspace(float(data.share[0]), float(data.share[-1]), 400)
    functions = (formulas.inflated, formulas.output_overlap, formulas.input_overlap)
    for A, colour in zip(data.aspect.values, _COLOURS, strict=False):
        at = data.sel(aspect=A)
        for panel, what, function in zip(panels, data.what.values, functions, strict=True):
            seen = at.seen.sel(what=what)
            look: style.Look = {"color": style.COLOURS[colour], "linestyle": "none", "marker": "o", "markersize": 4}
            panel.errorbar(at.share, seen.mean("draw"), seen.std("draw"), elinewidth=1.0, **look, label=f"A = {A:g}")
            panel.plot(fine, function(fine * formulas.threshold(A), A), **style.THEORY)
    panels[0].plot([], [], **style.THEORY, label="limit of many inputs")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    titles = ("Strongest singular value", "Overlap of output vectors", "Overlap of input vectors")
    for panel, title, words in zip(panels, titles, ("ŝ", "(ûᵀu)²", "(v̂ᵀv)²"), strict=True):
        panel.axvline(1.0, **style.LIMIT)
        panel.set(xlabel="strength of the teacher / threshold", ylabel=words, title=title)
    return figure


FIGURE = Figure("lampinen2019/spectrum", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
