"""Kunin et al. 2024, section 5: the activation regions of a ReLU network over training, two-coloured.

The paper draws such a partition without giving its settings; these are ours. A constant third input stands for the
bias, so that regions are polygons and not only wedges. The start is not symmetrised: pairs of equal neurons would
flip together, and the parity of active neurons would tell nothing.
"""

from typing import Any

import numpy as np

from lazyrich import Network, Problem, Task, descend
from lazyrich._typing import Array, Float
from lazyrich.inits import rescaled
from lazyrich.observables.balance import neuron_balance
from lazyrich.observables.distances import hamming_distance
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.kunin2024.figures._shared import as_text
from lazyrich.plot import style
from lazyrich.tasks.teacher import unit_vectors

TITLE = "Activation regions of a ReLU network over training, in two colours"
ABOUT = (
    "A ReLU network of 16 neurons, with biases, learns exclusive or from 40 points in the plane (filled: +1, "
    "open: −1), from one initialisation of small scale τ = .1 at three balances δ. "
    "Grey and white are regions with an odd and an even number of active neurons, so that neighbours always "
    "differ; the green line is where the network's output is zero. "
    "Upstream the partition turns and collapses at once, balanced it does so before the loss falls, downstream it"
    " hardly moves while the data are fitted."
)
CALLS = ("lr.Network", "lr.descend", "lr.observables.hamming_distance", "lr.observables.neuron_balance")
CHECKS = {
    "drift_delta": Check("largest drift of a neuron's δ, which the flow conserves", at_most=2e-3),
    "changed_rich": Check(
        "share of activations changed at the end, the lesser of upstream and balanced", at_least=0.18
    ),
    "changed_downstream": Check("share of activations changed at the end, downstream", at_most=0.09),
    "aligned_before_fit": Check(
        "balanced: part of the loss left when over a tenth of activations changed", at_least=0.8
    ),
    "loss_left": Check("largest part of the loss left at the end", at_most=0.1),
}
QUICK = {"rate": 1e-2}

_REACH = 1.2  # of the plane that is drawn
_BIAS = 0.6  # the constant input
_ROWS = {1: "upstream", 0: "balanced", -1: "downstream"}
_ALIGNED = 0.1


def compute(
    *,
    deltas: tuple[float, ...] = (1.0, 0.0, -1.0),
    tau: float = 0.1,
    moments: tuple[float, ...] = (0.0, 3.0, 10.0, 30.0),
    hidden: int = 16,
    samples: int = 40,
    rate: float = 1e-3,
    seed: int = 0,
) -> Dataset:
    """Weights of all neurons at the moments to draw, for each δ."""
    rng = np.random.default_rng(seed)
    corners = np.repeat([[0.6, 0.6], [-0.6, -0.6], [0.6, -0.6], [-0.6, 0.6]], samples // 4, axis=0)
    points = corners + 0.18 * rng.normal(size=corners.shape)
    labels = np.sign(corners[:, 0] * corners[:, 1])
    task = Task.from_data(_with_bias(points), labels[:, None])
    w, a = unit_vectors(rng, hidden, 3), rng.choice([-1.0, 1.0], size=hidden)
    stops = np.round(np.array(moments) / rate).astype(int)
    at = np.unique(np.append(stops, np.linspace(0, stops[-1], 101).astype(int)))
    shown = np.searchsorted(at, stops)
    weights, out, losses, changed, drift = [], [], [], [], []
    for delta in deltas:
        student = rescaled(Network([w, a[None]], "relu"), tau=tau, delta=delta)
        run = descend(Problem(task, student), rate, int(stops[-1]), at=at)
        weights.append(run.weights[0][shown])
        out.append(run.weights[1][shown, 0])
        losses.append(run.loss)
        changed.append(hamming_distance(run))
        balance = neuron_balance(run)
        drift.append(np.abs(balance - balance[0]).max())
    left, moved = np.array(losses) / np.array(losses)[:, :1], np.array(changed)
    balance_of = np.array(deltas)
    begun = np.argmax(moved > _ALIGNED, axis=1)
    left_then = np.take_along_axis(left, begun[:, None], axis=1)[:, 0]
    numbers = {
        "drift_delta": float(np.max(drift)),
        "changed_rich": float(np.min(moved[balance_of >= 0, -1], initial=np.inf)),
        "changed_downstream": float(np.max(moved[balance_of < 0, -1], initial=0.0)),
        "aligned_before_fit": float(np.min(left_then[balance_of == 0], initial=np.inf)),
        "loss_left": float(left[:, -1].max()),
    }
    return dataset(
        {
            "w": (("delta", "moment", "neuron", "input"), np.array(weights)),
            "a": (("delta", "moment", "neuron"), np.array(out)),
            "loss": (("delta", "moment"), np.array(losses)[:, shown]),
            "point": (("sample", "coordinate"), points),
            "label": ("sample", labels),
        },
        coords={"delta": list(deltas), "moment": list(moments)},
        attrs=numbers,
    )


def _with_bias(points: Float[Array, "*P two"]) -> Float[Array, "*P three"]:
    return np.concatenate([points, np.full((*points.shape[:-1], 1), _BIAS)], axis=-1)


def draw(data: Dataset) -> Picture:
    """A row per δ, a column per moment."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    rows, columns = data.sizes["delta"], data.sizes["moment"]
    figure = style.new_figure(2.6 * columns + 0.5, 2.75 * rows + 0.4)
    panels = figure.subplots(rows, columns, squeeze=False)
    for row, delta in zip(panels, data.delta.values, strict=True):
        for panel, moment in zip(row, data.moment.values, strict=True):
            one = data.sel(delta=delta, moment=moment)
            seen = _draw_partition(panel, one)
            panel.set_xlabel(f"loss {float(one.loss):.3f}, ≈ {seen} regions")
        row[0].set_ylabel(f"{_ROWS[int(np.sign(delta))]}, δ = {as_text(delta)}", fontweight="bold")
    for panel, moment in zip(panels[0], data.moment.values, strict=True):
        panel.set_title(f"t = {as_text(moment)}")
    handles = [
        Patch(facecolor="#CFCFCF", edgecolor="black", label="odd number of active neurons"),
        Patch(facecolor="white", edgecolor="black", label="even"),
        Line2D([], [], color=style.COLOURS["green"], label="output zero"),
        Line2D([], [], **_point(1), label="target +1"),
        Line2D([], [], **_point(-1), label="target −1"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _point(label: int) -> dict[str, Any]:
    colour = style.COLOURS["orange"] if label > 0 else style.COLOURS["blue"]
    fill = {"markerfacecolor": colour if label > 0 else "white"}
    return {"linestyle": "none", "marker": "o", "markersize": 4, "color": colour, "zorder": 4} | fill


def _draw_partition(panel: Axes, one: Dataset) -> int:
    """The plane in two colours; returns how many regions it shows."""
    line = np.linspace(-_REACH, _REACH, 401)
    x, y = np.meshgrid(line, line)
    inward = _with_bias(np.stack([x, y], axis=-1)) @ one.w.values.T
    active = inward > 0
    shade = np.where(np.sum(active, axis=-1) % 2, 0.81, 1.0)
    extent = (-_REACH, _REACH, -_REACH, _REACH)
    panel.imshow(np.repeat(shade[..., None], 3, axis=-1), extent=extent, origin="lower", interpolation="antialiased")
    panel.contour(x, y, np.maximum(inward, 0.0) @ one.a.values, levels=[0.0], colors=style.COLOURS["green"])
    for label in (1, -1):
        panel.plot(*one.point.values[one.label.values == label].T, **_point(label))
    panel.grid(False)
    panel.spines[:].set_visible(True)
    panel.set(xticks=[], yticks=[])
    return len(np.unique(active @ 2.0 ** np.arange(active.shape[-1])))  # a number per activation pattern


FIGURE = Figure("kunin2024/regions", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
