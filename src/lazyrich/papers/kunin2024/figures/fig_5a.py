"""Kunin et al. 2024, Fig. 5a: how far kernel, activation patterns and parameters of LeNet-5 move, by α."""

from lazyrich.papers.base.figure import Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.kunin2024.figures._experiment import caption, curves, over_seeds, records_along, results
from lazyrich.papers.kunin2024.figures._grid import ratio
from lazyrich.plot import style

TITLE = "LeNet-5 on digits: how far kernel, activation patterns and parameters move, by α"
ABOUT = (
    "LeNet-5 learns handwritten digits from one He initialisation with its first layer ÷ α and its last × α, which "
    "leaves the function as it is: distances from the start of the tangent kernel, of binarised hidden activations "
    "(Hamming) and of the parameters, and test accuracy, means over seeds with bands of one standard deviation. "
    "The line above the panels says which networks are drawn: without `store` those of a preset, trained now, on "
    "digits of 8 × 8 pixels; `lazyrich experiment lenet --preset paper --out DIR` and `lazyrich figure kunin2024/5a "
    "--set store=DIR` make the published ones, on MNIST with eight seeds. "
    "The paper finds that the kernel moves with the activation patterns rather than with the parameters, further from "
    "upstream initialisations (large α) and less from downstream ones: kernel and Hamming distance are in the order of "
    "α here too."
)
CALLS = ("lr.papers.experiment", "lr.sweeps.run", "lr.sweeps.open")
CHECKS = {
    "kernel": Check("kernel distance at the end, largest α over smallest", at_least=1.5),
    "hamming": Check("Hamming distance at the end, largest α over smallest", at_least=1.5),
    "start": Check("largest difference of test accuracy between α at the start", at_most=0.02),
    "missing": Check("part of the networks without a result", at_most=0.0),
}
QUICK = {"preset": "quick"}

_PANELS = {
    "kernel_distance": "kernel distance S(0, t)",
    "hamming_distance": "Hamming distance of activations",
    "parameter_distance": "parameter distance (L2)",
    "test_accuracy": "test accuracy",
}


def compute(*, store: str = "", preset: str = "laptop") -> Dataset:
    """Distances and accuracy over (α, epoch), of the experiment in the folder `store` or of a preset."""
    stored = results("lenet", ("alpha", "seed"), store, preset)
    data = dataset()
    for name in _PANELS:
        data[name], data[f"{name}_spread"] = over_seeds(stored[name])
    return data.assign_attrs(stored.attrs | _numbers(data))


def _numbers(data: Dataset) -> dict[str, float]:
    start, end = data.isel(epoch=0), data.isel(epoch=-1)
    upstream, downstream = end.isel(alpha=-1), end.isel(alpha=0)
    return {
        "kernel": ratio(upstream["kernel_distance"], downstream["kernel_distance"]),
        "hamming": ratio(upstream["hamming_distance"], downstream["hamming_distance"]),
        "start": float(start["test_accuracy"].max() - start["test_accuracy"].min()),
    }


def draw(data: Dataset) -> Picture:
    """Four panels over epochs, a curve per α."""
    figure = style.new_figure(10.4, 6.4)
    panels = figure.subplots(2, 2, sharex=True)
    for panel, (name, label) in zip(panels.flat, _PANELS.items(), strict=True):
        curves(panel, data, name, "epoch", marker="o", markersize=3.5)
        records_along(panel, data["epoch"].values, "epoch")
        panel.set(title=label, xlabel="" if panel in panels[0] else panel.get_xlabel())
        panel.set_ylim(0, 1.03 if name == "test_accuracy" else None)
    panels[0, -1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True)
    caption(figure, data)
    return figure


FIGURE = Figure("kunin2024/5a", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
