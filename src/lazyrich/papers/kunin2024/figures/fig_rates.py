"""Kunin et al. 2024, sections 3 to 5: layer rates do what layer scales do. The paper has no figure of it; this is ours.

With rates η1 and η2 the weights v_ℓ = √(η1η2)/√η_ℓ · W_ℓ follow the flow of unit rates, towards a target √(η1η2)
times as large (theory: section 0). Here η1η2 = 1, so that nothing is left but v1 = W1/√η1 and v2 = √η1 W2: a first
layer that learns η1 times as fast is one that starts √η1 times as small, with a second layer that much larger.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyrich import Network, Problem, Task, Trajectory, descend, flow, solve
from lazyrich._typing import Array
from lazyrich.inits import single_neuron
from lazyrich.observables import kernel_distance
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Colour
from lazyrich.papers.kunin2024.figures._shared import START, TARGET, as_text
from lazyrich.plot import style
from lazyrich.tasks.teacher import unit_vectors

TITLE = "Layer rates and layer scales do the same: only their product counts"
ABOUT = (
    "Left, one neuron with β* = (0, 1) and β0 = (−1, 0): the flow from one balanced initialisation with five pairs of "
    "layer rates, η of the first layer and 1/η of the second, and dotted the exact solution at unit rates of an "
    "initialisation whose first layer is divided by √η and whose second is multiplied by it. "
    "C is the exact kernel distance at the end over both: it is the same along lines of equal product, so that a fast "
    "first layer and a small one are one and the same upstream initialisation, δ = η_w a² − η_a‖w‖² > 0. "
    "D is a ReLU student, of which no exact solution is known: gradient descent with rates and with scales (dotted) "
    "still agree step by step, up to rounding. "
    "An optimiser that divides by the size of a gradient, such as Adam, does not keep that identity."
)
CALLS = ("lr.Problem", "lr.solve", "lr.flow", "lr.descend", "lr.observables.kernel_distance")
CHECKS = {
    "deviation": Check(
        "A, B: largest difference of loss or S, flow with rates against exact with scales", at_most=1e-8
    ),
    "product": Check("C: largest difference of S where η · q is the same", at_most=1e-11),
    "effect": Check("C: largest S minus least", at_least=0.5),
    "relu": Check("D: largest relative difference of loss, or difference of S, rates against scales", at_most=1e-10),
    "relu_delay": Check("D: steps until S = 0.1, slowest first layer over fastest", at_least=5.0),
}
QUICK = {"times": 40, "points": 5, "relu_steps": 3000}

_MOVED = 0.1


def compute(
    *,
    etas: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0),
    horizon: float = 100.0,
    times: int = 300,
    points: int = 33,
    inputs: int = 10,
    hidden: int = 20,
    samples: int = 100,
    scale: float = 0.1,
    relu_rate: float = 0.05,
    relu_steps: int = 20_000,
    seed: int = 5,
) -> Dataset:
    """Loss and S(0, t) of one neuron and of a ReLU student by rates and by scales, and S at the end over both."""
    neuron, task = single_neuron(list(START), delta=0.0), Task.from_correlations([list(TARGET)])
    grid = np.append(0.0, np.geomspace(1e-4, 1.0, times) * horizon)
    curves = np.array(
        [
            [
                _measure(flow(Problem(task, neuron, rates=(eta, 1 / eta)), grid, rtol=1e-10)),
                _measure(solve(Problem(task, _scaled(neuron, eta)), grid)),
            ]
            for eta in etas
        ]
    )
    both = np.geomspace(min(etas), max(etas), points)
    at_end = _ends(task, neuron, both, horizon)
    relu = _relu(etas, inputs, hidden, samples, scale, relu_rate, relu_steps, seed)
    steps = _steps(relu_steps)
    first = [steps[np.argmax(moved >= _MOVED)] for moved in relu[[0, -1], 0, 1]]
    numbers = {
        "deviation": float(np.abs(curves[:, 0] - curves[:, 1]).max()),
        "product": max(float(np.ptp(np.diagonal(np.fliplr(at_end), k))) for k in range(1 - points, points)),
        "effect": float(np.ptp(at_end)),
        "relu": max(_apart(relu[:, :, 0], relative=True), _apart(relu[:, :, 1])),
        "relu_delay": float(first[0] / first[1]),
    }
    return dataset(
        {
            "curves": (("eta", "source", "quantity", "time"), curves),
            "at_end": (("rates", "scales"), at_end),
            "relu": (("eta", "source", "quantity", "step"), relu),
        },
        coords={
            "eta": list(etas),
            "source": ["rates", "scales"],
            "quantity": ["loss", "S"],
            "time": grid,
            "rates": both,
            "scales": both,
            "step": steps,
        },
        attrs=numbers,
    )


def _scaled(network: Network, eta: float) -> Network:
    """What unit rates make of these rates: v1 = W1/√η, v2 = √η W2."""
    W1, W2 = network.weights
    return Network([W1 / np.sqrt(eta), W2 * np.sqrt(eta)], network.activation)


def _measure(run: Trajectory) -> list[Array]:
    return [np.asarray(run.loss), np.asarray(kernel_distance(run))]


def _ends(task: Task, neuron: Network, both: Array, horizon: float) -> Array:
    """S(0, t) at the horizon: rates η and 1/η of an initialisation that is scaled as by q."""
    problems = [[Problem(task, _scaled(neuron, q), rates=(eta, 1 / eta)) for q in both] for eta in both]
    return np.array([[kernel_distance(solve(problem, [0.0, horizon]))[-1] for problem in row] for row in problems])


def _steps(last: int) -> Array:
    return np.unique(np.append(0, np.geomspace(1, last, 120).astype(int)))


def _relu(
    etas: tuple[float, ...], inputs: int, hidden: int, samples: int, scale: float, rate: float, steps: int, seed: int
) -> Array:
    """Loss and S(0, t) of one ReLU student, by rates and by scales: (eta, source, quantity, step)."""
    rng = np.random.default_rng(seed)
    teacher, half = unit_vectors(rng, 3, inputs), unit_vectors(rng, hidden // 2, inputs)
    signs, X = rng.choice([-1.0, 1.0], size=hidden // 2), unit_vectors(rng, samples, inputs)
    task = Task.from_data(X, np.maximum(X @ teacher.T, 0.0) @ np.array([[1.0], [1.0], [-1.0]]))
    student = Network([scale * np.vstack([half, half]), scale * np.append(signs, -signs)[None]], "relu")  # f = 0
    found = []
    for eta in etas:
        problems = (Problem(task, student, rates=(eta, 1 / eta)), Problem(task, _scaled(student, eta)))
        found.append([_measure(descend(problem, rate, steps, at=_steps(steps))) for problem in problems])
    return np.array(found)


def _apart(values: Array, relative: bool = False) -> float:
    by_rates, by_scales = values[:, 0], values[:, 1]
    return float((np.abs(by_rates - by_scales) / (np.abs(by_scales) if relative else 1.0)).max())


def draw(data: Dataset) -> Picture:
    """Loss and kernel distance of one neuron, the map, and the ReLU student."""
    from matplotlib.lines import Line2D

    figure = style.new_figure(13.4, 3.9)
    panels = figure.subplots(1, 4, width_ratios=[1, 1, 1.2, 1])
    colours = style.diverging_colours(np.log(data.eta.values))
    _draw_curves(panels[0], data.curves.sel(quantity="loss"), "time", colours)
    panels[0].set_title("A  one neuron: loss")
    _draw_curves(panels[1], data.curves.sel(quantity="S"), "time", colours)
    panels[1].set_title("B  one neuron: kernel distance")
    _draw_map(panels[2], data)
    _draw_curves(panels[3], data.relu.sel(quantity="S"), "step", colours)
    panels[3].set_title("D  ReLU: kernel distance")
    handles: list[Any] = [
        Line2D([], [], color=colour, label=f"rates {as_text(eta)} and {as_text(round(1 / eta, 2))}")
        for eta, colour in zip(data.eta.values, colours, strict=True)
    ]
    handles += [Line2D([], [], **style.THEORY, label="unit rates, scales ÷ √η and × √η")]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _draw_curves(panel: Axes, values: DataArray, along: str, colours: Sequence[Colour]) -> None:
    for eta, colour in zip(values.eta.values, colours, strict=True):
        by_rates, by_scales = values.sel(eta=eta).values
        panel.plot(values[along][1:], by_rates[1:], color=colour, linewidth=3.0)
        panel.plot(values[along][1:], by_scales[1:], **style.THEORY)
    panel.set(xscale="log", xlabel=along)
    panel.set_ylim(bottom=0.0)
    panel.margins(x=0.01)


def _draw_map(panel: Axes, data: Dataset) -> None:
    """Both axes logarithmic, so that equal products lie on straight lines."""
    from matplotlib.patheffects import withStroke

    x, y = data["scales"].values, data["rates"].values
    image = panel.pcolormesh(x, y, data.at_end.values, shading="nearest", cmap="viridis", rasterized=True)
    bar = style.figure_of(panel).colorbar(image, ax=panel, pad=0.02, aspect=24)
    bar.set_label(f"S(0, t) at t = {as_text(float(data.time[-1]))}")
    ends = np.array([x[0], x[-1]])
    for product in (0.1, 1.0, 10.0):
        panel.plot(ends, product / ends, color="white", linewidth=1.0, linestyle=(0, (4, 3)))
        at = min(max(product / y[-1], x[0]) * 1.25, x[-1])
        word = panel.annotate(f"ηq = {as_text(product)}", (at, product / at), (3, 2), textcoords="offset points")
        word.set(color="white", fontsize=8.5, path_effects=[withStroke(linewidth=2.0, foreground="black")])
    ticks = data.eta.values
    panel.set(xscale="log", yscale="log", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    panel.set_xticks(ticks, [as_text(tick) for tick in ticks])
    panel.set_yticks(ticks, [as_text(tick) for tick in ticks])
    panel.minorticks_off()
    panel.grid(False)
    panel.set(xlabel="scales: W₁ ÷ √q and W₂ × √q", ylabel="rates: η and 1/η")
    panel.set_title("C  one neuron: both at once")


FIGURE = Figure("kunin2024/rates", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
