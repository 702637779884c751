"""Kunin et al. 2024, Fig. 5d: steps until a transformer has fitted its pairs, and until it groks, over (τ, α)."""

from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Look
from lazyrich.papers.kunin2024.experiments.grokking import REACHED
from lazyrich.papers.kunin2024.figures._experiment import (
    alpha_colours,
    by_alpha,
    caption,
    counted,
    records_along,
    results,
)
from lazyrich.papers.kunin2024.figures._shared import as_text
from lazyrich.plot import style
from lazyrich.sweeps.grid import STATUS

TITLE = "Grokking: steps to fit and to generalise, over embeddings ÷ α and logits × τ"
ABOUT = (
    "A transformer of one layer learns modular arithmetic from half of all pairs, with its embeddings divided by α at "
    "the start, its logits multiplied by τ and its rate divided by τ²: the step by which half of the seeds had 99 % "
    "of the training pairs right, and of the others, with accuracies over training at the τ that groks soonest. "
    "These are the published five τ, five α and five seeds for at most 30,000 steps: trained by `lazyrich experiment "
    "grokking --preset paper --out DIR`, four minutes on an H200, and kept with the figure (`--set store=DIR` draws "
    "networks of your own, `--set preset=laptop` trains smaller ones). "
    "The paper finds the fastest grokking for small embeddings (large α) in the rich regime: here too, where networks "
    "grok within the steps that they are given, those with smaller embeddings do so sooner, while the steps to fit the "
    "training pairs differ much less."
)
CALLS = ("lr.papers.experiment", "lr.sweeps.run", "lr.sweeps.open")
CHECKS = {
    "gap": Check(
        "training minus validation accuracy, medians over seeds, mean over (τ, α), at its largest", at_least=0.3
    ),
    "sooner": Check(
        "steps to grok or to the end, smallest α over largest, geometric mean over τ; 1 where none groks", at_least=1.0
    ),
    "missing": Check("part of the networks without a result", at_most=0.0),
}
QUICK = {"preset": "quick"}

_PARTS = {"train": "steps to fit the training pairs", "validation": "steps to grok the other pairs"}
_BARE = "#D9D9D9"  # where no network is


def compute(*, store: str = "", preset: str = "paper") -> Dataset:
    """Steps to 99 % over (τ, α), and accuracies, of the experiment in the folder `store` or of a preset.

    Steps are infinite where the accuracy was not reached within the record, nan where no network is.
    """
    stored = results("grokking", ("tau", "alpha", "seed"), store, preset)
    trained = stored["train_accuracy"].isel(step=0, drop=True).notnull()
    complete = stored["status"] == STATUS.index("complete")
    found: dict[str, Any] = {"seeds": trained.sum("seed")}
    for part in _PARTS:
        each = stored[f"steps_to_{part}"].max("step").astype(float).fillna(np.inf).where(trained)
        found |= {f"each_{part}": each, f"steps_to_{part}": (("tau", "alpha"), _by_half(each.values))}
        accuracy = stored[f"{part}_accuracy"].where(complete)
        found |= {f"{part}_accuracy": accuracy, f"{part}_accuracy_median": _carried(accuracy).median("seed")}
    data = dataset(found)
    return data.assign_attrs(stored.attrs | _numbers(data) | {"says": _in_words(data)})


def _by_half(steps: Float[Array, "tau alpha seed"]) -> Float[Array, "tau alpha"]:
    """When half of the seeds that were trained had got there: the median, the lower one of two."""
    half = (np.count_nonzero(~np.isnan(steps), axis=-1, keepdims=True) - 1) // 2
    return np.take_along_axis(np.sort(steps, axis=-1), np.maximum(half, 0), axis=-1)[..., 0]  # nan come last


def _carried(accuracy: DataArray) -> DataArray:
    """Training ends where all networks of a block have learned everything: from there on they count as they were."""
    values = accuracy.values
    last = np.maximum.accumulate(np.where(np.isnan(values), 0, np.arange(values.shape[-1])), axis=-1)
    return accuracy.copy(data=np.take_along_axis(values, last, axis=-1))


def _numbers(data: Dataset) -> dict[str, float]:
    gap, capped = data["train_accuracy_median"] - data["validation_accuracy_median"], _capped(data)
    return {
        "gap": float(gap.mean(("tau", "alpha")).max()),
        "sooner": float(np.exp(np.log(capped.isel(alpha=0) / capped.isel(alpha=-1)).mean())),
    }


def _capped(data: Dataset) -> DataArray:
    """Steps to grok, and the last step where that takes longer."""
    return data["steps_to_validation"].clip(max=float(data["step"].max()))


def _ends(data: Dataset) -> Dataset:
    """The smallest and the largest α that are there, at the τ where networks grok soonest."""
    at_tau = data.isel(tau=int(np.nanargmin(_capped(data).mean("alpha"))))
    there = np.flatnonzero(at_tau["seeds"])
    return at_tau.isel(alpha=sorted({int(there[0]), int(there[-1])}))


def _in_words(data: Dataset) -> str:
    ends, last = _ends(data), int(data["step"].max())
    steps = [
        f"{'more than ' if value > last else ''}{min(value, last):,.0f} at α = {as_text(alpha)}"
        for alpha, value in zip(ends["alpha"].values, ends["steps_to_validation"].values, strict=True)
    ]
    where = f"τ = {as_text(float(ends['tau']))}" + ", where it is soonest" * (data.sizes["tau"] > 1)
    return f"Steps by which half of the seeds have grokked: {', '.join(steps)} ({where})."


def draw(data: Dataset) -> Picture:
    """Maps over (τ, α), or points over α where there is one τ; and accuracies over training at one τ."""
    several = data.sizes["tau"] > 1
    figure = style.new_figure(14.6 if several else 10.6, 4.6)
    *panels, last = figure.subplots(1, 3 if several else 2)
    if several:
        for panel, part in zip(panels, _PARTS, strict=True):
            _draw_map(panel, data, part)
    else:
        _draw_points(panels[0], data)
    _draw_accuracies(last, data)
    caption(figure, data)
    return figure


def _draw_map(panel: Axes, data: Dataset, part: str) -> None:
    """Colours where half of the seeds got there, hatching where fewer did, with what is known written on it."""
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    steps, last = data[f"steps_to_{part}"].values, int(data["step"].max())
    reached, seeds = np.isfinite(data[f"each_{part}"]).sum("seed").values, data["seeds"].values
    known = steps[np.isfinite(steps)]
    norm = LogNorm(*((known.min(), max(known.max(), 1.01 * known.min())) if known.size else (1, last or 2)))
    image = panel.pcolormesh(
        np.where(np.isfinite(steps), steps, np.nan), norm=norm, cmap="viridis", edgecolors="white", linewidth=1
    )
    panel.set_facecolor(_BARE)
    for (row, column), n in np.ndenumerate(seeds):
        value = steps[row, column]
        if n and np.isinf(value):
            panel.add_patch(Rectangle((column, row), 1, 1, fc="white", ec="#B0B0B0", hatch="////", lw=0.5))
        text = f"> {last:,}" if np.isinf(value) else f"{value:,.0f}" if n else "none"
        text += f"\n{reached[row, column]} of {n}" if reached[row, column] < n else ""
        dark = np.isfinite(value) and norm(value) < 0.6
        look: Look = {"ha": "center", "va": "center", "fontsize": 8, "color": "white" if dark else "black"}
        look |= {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}} if np.isinf(value) else {}
        panel.text(column + 0.5, row + 0.5, text, **look)
    for name, axis, label in (("alpha", panel.xaxis, "α (embeddings ÷ α)"), ("tau", panel.yaxis, "τ (logits × τ)")):
        axis.set_ticks(np.arange(data.sizes[name]) + 0.5, [as_text(value) for value in data[name].values])
        axis.set_label_text(label)
    panel.grid(False)
    panel.set_title(_PARTS[part])
    counted(style.figure_of(panel).colorbar(image, ax=panel, location="bottom", pad=0.02, aspect=40).ax.xaxis)


def _draw_points(panel: Axes, data: Dataset) -> None:
    """Every seed, and a line through the steps by which half of them had got there; triangles for those who did not."""
    alphas, last, grey = data["alpha"].values, float(data["step"].max()) or 1.0, style.COLOURS["grey"]
    here = data.isel(tau=0)
    looks = {"train": ("training pairs", (0, (2, 1.2)), "white", 1.25), "validation": ("other pairs", "-", None, 1.6)}
    for part, (words, dashes, inside, height) in looks.items():
        half = here[f"steps_to_{part}"].values
        panel.plot(alphas, np.where(np.isinf(half), np.nan, half), color=grey, linestyle=dashes, linewidth=1.2)
        for alpha, colour, steps in zip(alphas, alpha_colours(alphas), here[f"each_{part}"].values, strict=True):
            look: Look = {"color": colour, "markerfacecolor": inside or colour, "markersize": 6.5, "zorder": 3}
            got, late = steps[np.isfinite(steps)], np.isinf(steps)
            panel.plot(np.full_like(got, alpha), got, "o", **look)
            panel.plot(np.full(late.sum(), alpha), np.full(late.sum(), height * last), "^", **look)
        panel.plot([], [], "o", color=grey, markerfacecolor=inside or grey, linestyle=dashes, label=words)
    panel.axhline(last, **style.LIMIT)
    reached = [values[np.isfinite(values)] for values in (data["each_train"].values, data["each_validation"].values)]
    panel.set_yscale("log")
    panel.set_ylim(np.min(np.concatenate(reached), initial=last / 10) / 1.3, 2 * last)
    counted(panel.yaxis)
    by_alpha(panel, alphas)
    panel.set(title=f"steps to {REACHED:.0%} accuracy (▲: not within {last:,.0f})", ylabel="step")
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)


def _draw_accuracies(panel: Axes, data: Dataset) -> None:
    """The smallest and the largest α, at the τ where networks grok soonest: every seed thin, and their median."""
    ends = _ends(data)
    for alpha, colour in zip(ends["alpha"].values, alpha_colours(ends["alpha"].values), strict=True):
        for part, dashes in (("train", (0, (2, 1.2))), ("validation", "-")):
            words, dashed = f"α = {as_text(alpha)}, {part}", Look(color=colour, linestyle=dashes)
            each, half = (ends[f"{part}_accuracy{kind}"].sel(alpha=alpha) for kind in ("", "_median"))
            panel.plot(data["step"], each.transpose("step", "seed"), **dashed, linewidth=0.8, alpha=0.4)
            panel.plot(data["step"], half, **dashed, label=words)
    panel.axhline(REACHED, **style.LIMIT)
    records_along(panel, data["step"].values, "step")
    panel.set_ylim(0, 1.03)
    panel.set(title=f"accuracy at τ = {as_text(float(ends['tau']))}", ylabel="accuracy (thick: median)")
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


FIGURE = Figure("kunin2024/5d", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
