"""Kunin et al. 2024, supporting figure of 1b: the same grid for ten times as long, with three more measurements."""

import numpy as np

from lazyrich.papers.base.figure import Check, Dataset, Figure, Picture
from lazyrich.papers.kunin2024.figures._grid import PAPER, measured, parts_of, ratio
from lazyrich.papers.kunin2024.figures._maps import Row, draw_rows

TITLE = "Rich and lazy students: activations, weights and training loss, ten times as long"
ABOUT = (
    "The grid of Fig. 1b to 1 000 000 steps, integrated as a flow: Hamming distance of the activations, distance of "
    "the parameters and training loss (drawn from 1e-10 on) beside test loss and kernel distance. "
    "All 4 624 students are there: computed by `lazyrich sweep kunin2024/1b-supporting --out DIR`, a minute on an "
    "H200, and kept with the figure (`--set store=DIR` draws a sweep of your own, `--set preset=laptop` computes a "
    "small one). "
    "Upstream initialisations of small scale change most activations while their weights move least. "
    "Between the last two columns the training loss still falls; all else hardly changes."
)
CALLS = (
    "lr.papers.sweep",
    "lr.sweeps.Sweep",
    "lr.observables.hamming_distance",
    "lr.observables.parameter_distance",
    "lr.observables.kernel_distance",
)
CHECKS = {
    "hamming_gap": Check("Hamming distance at the last step, small τ with δ ≥ 0 minus large τ", at_least=0.2),
    "parameter_ratio": Check("parameter distance at the last step, least τ, δ = 0 over largest δ", at_least=1.5),
    "train_falls": Check("fall of log10 training loss (from 1e-10 on) in the last tenfold of steps", at_least=0.3),
    "test_stays": Check("the same over the change of log10 test loss", at_least=5.0),
    "kernel_change": Check("change of the kernel distance in the last tenfold of steps", at_most=0.03),
    "hamming_change": Check("change of the Hamming distance in the last tenfold of steps", at_most=0.03),
    "missing": Check("part of the students asked for, seeds included, without a result", at_most=0.0),
}
QUICK = {"preset": "quick"}

_FLOOR = 1e-10
_ROWS = (
    Row("test_loss", "test loss", logarithmic=True, colours="coolwarm"),
    Row("kernel_distance", "kernel distance S(0, t)"),
    Row("hamming_distance", "Hamming distance"),
    Row("parameter_distance", "parameter distance", logarithmic=True),
    Row("loss", "training loss", logarithmic=True, least=_FLOOR),
)


def compute(*, store: str = "", preset: str = PAPER) -> Dataset:
    """Means and standard errors over seeds: of the sweep in the folder `store`, or of a preset ("paper" is kept)."""
    data = measured("kunin2024/1b-supporting", [row.observable for row in _ROWS], store, preset)
    return data.assign_attrs(_numbers(data))


def _numbers(data: Dataset) -> dict[str, float]:
    rich, _, lazy = parts_of(data)
    before, end = data.isel(step=-2), data.isel(step=-1)
    middle = int(np.argmin(np.abs(data["delta"].values)))
    balanced, upstream = (end["parameter_distance"].isel(tau=0, delta=i) for i in (middle, -1))
    fall = float((np.log10(before["loss"].clip(_FLOOR)) - np.log10(end["loss"].clip(_FLOOR))).mean())
    return {
        "hamming_gap": float(end["hamming_distance"].where(rich).mean() - end["hamming_distance"].where(lazy).mean()),
        "parameter_ratio": ratio(balanced, upstream),
        "train_falls": fall,
        "test_stays": ratio(fall, np.abs(np.log10(end["test_loss"] / before["test_loss"])).mean()),
        "kernel_change": float(np.abs(end["kernel_distance"] - before["kernel_distance"]).mean()),
        "hamming_change": float(np.abs(end["hamming_distance"] - before["hamming_distance"]).mean()),
    }


def draw(data: Dataset) -> Picture:
    """A row per measurement, a column per step."""
    return draw_rows(data, _ROWS)


FIGURE = Figure("kunin2024/1b_supporting", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
