"""Kunin et al. 2024, Fig. 2: the balance δ confines one neuron (w, a) to a hyperboloid, and there it learns."""

from typing import Any

import numpy as np

from lazyrich import Trajectory, flow, solve
from lazyrich._typing import Array
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Colour
from lazyrich.papers.kunin2024.figures._shared import DELTAS, SOURCES, START, TARGET, as_text, one_neuron, set_space
from lazyrich.plot import style

TITLE = "One neuron in parameter space: each balance has its own hyperboloid"
ABOUT = (
    "One hidden neuron f(x) = a wᵀx learns β* = (0, 1) from β0 = (−1, 0), and δ = a² − ‖w‖² stays as it is: a "
    "hyperboloid of one sheet (downstream), a double cone (balanced) or two sheets (upstream), coloured by the "
    "loss. "
    "Exact solutions (dotted) lie over the integrated flow, from an initialisation with a > 0 and from its mirror "
    "image. "
    "All points on the grey curve have the same β0, and all minima on the pink one the same β*; D has the seven "
    "published δ in the plane of ‖w‖ and a."
)
CALLS = ("lr.inits.single_neuron", "lr.solve", "lr.flow")
CHECKS = {
    "deviation": Check("largest difference between exact and integrated parameters", at_most=5e-9),
    "off_surface": Check("largest departure of the exact solution from its hyperboloid", at_most=1e-13),
    "off_minima": Check("largest distance of β from β* at the end, for δ ≥ 0", at_most=1e-8),
}
QUICK = {"points": 60, "deltas": (-2.0, 0.0, 2.0)}

_NAMES = {-1: "one sheet: downstream", 0: "double cone: balanced", 1: "two sheets: upstream"}
_REACH = 2.0  # of a, in the picture
_COLOUR = {"minima": style.COLOURS["pink"], "starts": style.COLOURS["grey"]}


def compute(
    *,
    deltas: tuple[float, ...] = DELTAS,
    surfaces: tuple[float, ...] = (-2.0, 0.0, 2.0),
    horizon: float = 20.0,
    points: int = 400,
) -> Dataset:
    """(w1, w2, a) over time, by theory and by integration."""
    import xarray

    known = sorted({*deltas, *surfaces})
    times = np.append(0.0, np.geomspace(1e-3 * horizon, horizon, points))
    paths = []
    for delta in known:
        problem = one_neuron(TARGET, START, delta)
        paths.append([_parameters(solve(problem, times)), _parameters(flow(problem, times, rtol=1e-10))])
    path = xarray.DataArray(
        np.array(paths),
        dims=("delta", "source", "time", "parameter"),
        coords={"delta": known, "source": SOURCES, "time": times, "parameter": ["w1", "w2", "a"]},
    )
    exact = path.sel(source="theory").values
    w, a = exact[..., :2], exact[..., 2]
    balance = a**2 - np.sum(w**2, axis=-1)
    end = (a[..., None] * w)[:, -1][np.array(known) >= 0]
    numbers = {
        "deviation": float(np.abs(path.sel(source="theory") - path.sel(source="flow")).max()),
        "off_surface": float(np.abs(balance - np.array(known)[:, None]).max()),
        "off_minima": float(np.max(np.abs(end - np.array(TARGET)), initial=0.0)),
    }
    shown = {"surface": ("panel", list(surfaces))}
    return dataset({"path": path, **shown}, attrs=numbers)


def _parameters(traj: Trajectory) -> Array:
    W1, W2 = traj.weights
    return np.column_stack([W1[:, 0], W2[:, 0]])


def draw(data: Dataset) -> Picture:
    """Three surfaces in space, and all δ in the plane."""
    from matplotlib.lines import Line2D

    surfaces = data.surface.values
    figure = style.new_figure(13.6, 4.3)
    grid = figure.add_gridspec(1, len(surfaces) + 1, width_ratios=[1.0] * len(surfaces) + [0.9])
    colours = dict(zip(data.delta.values, style.diverging_colours(data.delta.values), strict=True))
    for i, delta in enumerate(surfaces):
        space: Any = figure.add_subplot(grid[0, i], projection="3d", computed_zorder=False)
        image = _draw_surface(space, float(delta))
        _draw_in_space(space, data.path.sel(delta=delta), colours[delta])
        name = f"{_NAMES[int(np.sign(delta))]}, δ = {as_text(delta)}"
        space.set_title(f"{chr(ord('A') + i)}  {name}", pad=0)
    bar = figure.colorbar(image, ax=figure.axes, location="left", shrink=0.55, aspect=24, pad=0.01)
    bar.set_label("loss", labelpad=2)
    _draw_plane(figure.add_subplot(grid[0, -1]), data, colours)
    handles = [
        Line2D([], [], color=_COLOUR["minima"], label="minima: aw = β*"),
        Line2D([], [], color=_COLOUR["starts"], label="same function: aw = β0"),
        Line2D([], [], **style.MARK, label="initialisation"),
        Line2D([], [], **style.THEORY, label="exact, over the flow"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _draw_surface(space: Any, delta: float) -> Any:
    """All (w, a) with that δ, coloured by the loss; returns what a colour bar needs."""
    from matplotlib import cm, colors

    least = np.sqrt(max(delta, 0.0))
    sheets = [(-_REACH, _REACH)] if delta < 0 else [(least, _REACH), (-_REACH, -least)]
    image = cm.ScalarMappable(colors.PowerNorm(0.5, 0.0, 12.0), "viridis_r")
    for low, high in sheets:
        a, angle = np.meshgrid(np.linspace(low, high, 31), np.linspace(0, 2 * np.pi, 61), indexing="ij")
        length = np.sqrt(np.maximum(a**2 - delta, 0.0))
        w1, w2 = length * np.cos(angle), length * np.sin(angle)
        loss = ((a * w1 - TARGET[0]) ** 2 + (a * w2 - TARGET[1]) ** 2) / 2
        face = image.to_rgba(loss)
        face[..., 3] = 0.42
        space.plot_surface(w1, w2, a, facecolors=face, rcount=31, ccount=61, linewidth=0, shade=False, zorder=1)
    return image


def _draw_in_space(space: Any, path: DataArray, colour: Colour) -> None:
    for sign in (1.0, -1.0):
        a = sign * np.geomspace(1 / _REACH, _REACH, 60)
        for (b1, b2), name in ((TARGET, "minima"), (START, "starts")):
            space.plot(b1 / a, b2 / a, a, color=_COLOUR[name], linewidth=2.0, zorder=2)
        space.plot(*(sign * path.sel(source="flow").values.T), color=colour, linewidth=3.0, zorder=4)
        space.plot(*(sign * path.sel(source="theory").values.T), **(style.THEORY | {"zorder": 5}))
        space.plot(*(sign * path.values[0, :1].T), **(style.MARK | {"zorder": 6}))
    set_space(space, (_REACH,) * 3, (1, 1, 1), elev=22, azim=-58, zoom=1.12)


def _draw_plane(panel: Axes, data: Dataset, colours: dict[float, Colour]) -> None:
    """‖w‖ and a: here a trajectory moves along the branch of a hyperbola, down and up again."""
    length = np.linspace(1e-3, 2.6, 200)
    panel.plot(length, 1 / length, color=_COLOUR["minima"])
    for delta, colour in colours.items():
        if delta not in data.delta.values:
            continue
        w = np.linspace(np.sqrt(max(-delta, 0.0)), 2.6, 200)
        panel.plot(w, np.sqrt(np.maximum(w**2 + delta, 0.0)), color=colour, linewidth=0.7, alpha=0.8)
        for source in data.source.values:
            path = data.path.sel(delta=delta, source=source).values
            name = f"δ = {as_text(delta)}"
            look = {"color": colour, "linewidth": 3.0, "label": name} if source == "flow" else style.THEORY
            panel.plot(np.hypot(path[:, 0], path[:, 1]), path[:, 2], **look)
        panel.plot(np.hypot(*path[0, :2]), path[0, 2], **style.MARK)
    panel.set(xlim=(0, 2.6), ylim=(0, 2.6), xlabel="‖w‖", ylabel="a")
    panel.set_aspect("equal")
    panel.set_title(f"{chr(ord('A') + data.sizes['panel'])}  the plane of ‖w‖ and a")
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


FIGURE = Figure("kunin2024/2", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
