"""Kunin et al. 2024, Fig. 1b: ReLU students over overall scale τ and balance δ, which are rich and which lazy."""

import numpy as np

from lazyrich.papers.base.figure import Check, Dataset, Figure, Picture
from lazyrich.papers.kunin2024.figures._grid import PAPER, measured, parts_of, ratio
from lazyrich.papers.kunin2024.figures._maps import Row, draw_rows

TITLE = "Rich and lazy students over overall scale and balance, by test loss and kernel distance"
ABOUT = (
    "ReLU students, symmetrised to predict 0 at the start, learn a teacher of three neurons on the sphere: means over "
    "16 seeds on a grid of overall scale τ and balance δ = τ²(α² − α⁻²), with rates of 0.01/τ² "
    "(the paper's 0.005/τ² is for the mean square, twice our loss). "
    "All 4 624 students of 100 inputs and 50 neurons are there: computed by `lazyrich sweep kunin2024/1b --out DIR`, "
    "eight minutes on an H200, and kept with the figure (`--set store=DIR` draws a sweep of your own, `--set "
    "preset=laptop` computes a small one). "
    "At small τ the kernel turns at once upstream (δ > 0), later at δ = 0 and late downstream (δ < 0), where students "
    "are lazy at first, fit the data and generalise less, even though their kernel has turned far in the end: delayed "
    "rich. "
    "At large τ the kernel stays, and test losses are the largest; the largest mean kernel distances of the four steps "
    "are 0.23, 0.52, 0.61 and 0.61, where the authors' notebook prints 0.24, 0.54, 0.61 and 0.61 for seeds of its own."
)
CALLS = ("lr.papers.sweep", "lr.sweeps.Sweep", "lr.tasks.piecewise_teacher", "lr.inits.symmetrised")
CHECKS = {
    "kernel_gap": Check("kernel distance at the last step, small τ with δ ≥ 0 minus large τ", at_least=0.1),
    "lazy_kernel": Check("kernel distance at the last step, large τ", at_most=0.03),
    "lazy_test": Check("test loss at the last step, large τ over small τ with δ ≥ 0", at_least=3.0),
    "downstream_test": Check("test loss at the last step, small τ, downstream over δ ≥ 0", at_least=1.5),
    "order": Check("kernel distance at the first step, least τ, largest δ over 0 or 0 over least δ", at_least=2.0),
    "delay": Check("kernel distance, least τ and δ, last step over first", at_least=10.0),
    "missing": Check("part of the students asked for, seeds included, without a result", at_most=0.0),
}
QUICK = {"preset": "quick"}

_ROWS = (
    Row("test_loss", "test loss", logarithmic=True, colours="coolwarm"),
    Row("kernel_distance", "kernel distance S(0, t)"),
)


def compute(*, store: str = "", preset: str = PAPER) -> Dataset:
    """Means and standard errors over seeds: of the sweep in the folder `store`, or of a preset ("paper" is kept)."""
    data = measured("kunin2024/1b", [row.observable for row in _ROWS], store, preset)
    return data.assign_attrs(_numbers(data))


def _numbers(data: Dataset) -> dict[str, float]:
    rich, downstream, lazy = parts_of(data)
    end, middle = data.isel(step=-1), int(np.argmin(np.abs(data["delta"].values)))
    kernel, test = end["kernel_distance"], end["test_loss"]
    column = data["kernel_distance"].isel(tau=0)
    least, zero, largest = (column.isel(delta=i, step=0) for i in (0, middle, -1))
    return {
        "kernel_gap": float(kernel.where(rich).mean() - kernel.where(lazy).mean()),
        "lazy_kernel": float(kernel.where(lazy).mean()),
        "lazy_test": ratio(test.where(lazy).mean(), test.where(rich).mean()),
        "downstream_test": ratio(test.where(downstream).mean(), test.where(rich).mean()),
        "order": min(ratio(largest, zero), ratio(zero, least)),
        "delay": ratio(column.isel(delta=0, step=-1), least),
    }


def draw(data: Dataset) -> Picture:
    """Test loss above, kernel distance below, a column per step."""
    return draw_rows(data, _ROWS)


FIGURE = Figure("kunin2024/1b", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
