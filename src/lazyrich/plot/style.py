"""The one look of all figures: colours that colour-blind readers can tell apart, quiet axes, readable type.

Nothing global is touched: figures are `Figure` objects without pyplot, and the settings hold inside
`styled()` only. Matplotlib is imported here and nowhere else, when something is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._engines import load
from lazyrich._files import output_path, write_atomically
from lazyrich._typing import Array, ArrayLike, Float
from lazyrich.plot.legends import uncover as uncover  # papers draw with it too

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

#: Okabe and Ito's palette.
COLOURS = {
    "green": "#009E73",
    "pink": "#CC79A7",
    "blue": "#0072B2",
    "orange": "#D55E00",
    "grey": "#6E6E6E",
}
Look = dict[str, Any]  # options of matplotlib
Colour = Any  # all that it takes for one
_SIDES = {-1: "blue", 0: "grey", 1: "orange"}
TIME, STRENGTH = "time (learning rate × steps)", "mode strength uᵀWv"
#: Theory is dotted, over what it predicts; dashed where it is the flow, integrated.
THEORY: Look = {"color": "black", "linestyle": (0, (1, 1.6)), "linewidth": 1.5, "zorder": 3}
INTEGRATED: Look = THEORY | {"linestyle": (0, (5, 3)), "linewidth": 1.2}
#: A training run below theory is wide and pale, so that both are seen. The mark tells its lines from others.
RUN: Look = {"alpha": 0.4, "linewidth": 6.0, "zorder": 1.5, "gid": "run", "solid_capstyle": "butt"}
MARK: Look = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 6,
    "color": "white",
    "markeredgecolor": "black",
    "zorder": 4,
}
LIMIT: Look = {"color": COLOURS["grey"], "linestyle": (0, (6, 3)), "linewidth": 1.0, "zorder": 1}

_FORMATS = (".png", ".pdf", ".svg")
_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "lines.linewidth": 2.2,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.dpi": 160,
    "pdf.fonttype": 42,  # TrueType, which journals and editors of drawings can read
    "ps.fonttype": 42,
    "svg.hashsalt": "lazyrich",
}


@contextmanager
def styled() -> Iterator[None]:
    """The settings of all figures, for as long as one is drawn or saved."""
    with _matplotlib().rc_context(_SETTINGS):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that many inches, which notebooks show by themselves."""
    _matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure._repr_png_ = lambda: _as_png(figure)  # type: ignore[attr-defined]  # what a notebook asks an object for
    return figure


@contextmanager
def drawn_on(axes: Axes | None) -> Iterator[Axes]:
    """The axes to draw on, in the look of all figures: those given, or those of a new figure."""
    with styled():
        if axes is None:
            yield (axes := new_figure(6.0, 3.9).subplots())
            uncover(figure_of(axes))
        elif not isinstance(axes, _matplotlib().axes.Axes):
            raise InvalidInput(f"axes must be axes of a matplotlib figure, and it is a {type(axes).__name__}.")
        else:
            yield axes


def figure_of(axes: Axes) -> Figure:
    """The figure that axes belong to."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def _as_png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    with styled():
        figure.savefig(stream, format="png", dpi=100)
    return stream.getvalue()


def figure_path(given: str | Path, default_name: str) -> Path:
    """Where a figure will be written; what would prevent that is said before anything is computed."""
    _matplotlib()
    path = output_path(given, default_name)
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInput(f"{path} must end in {', '.join(_FORMATS)} to be written as a figure.")
    return path


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format its name says."""
    with styled():
        write_atomically(path, lambda stream: figure.savefig(stream, format=path.suffix[1:].lower()))


def mode_colours(count: int) -> list[Colour]:
    """One colour per mode, dark for strong, without the palest end."""
    return list(_matplotlib().colormaps["viridis"](np.linspace(0.0, 0.88, count)))


def series_colours(count: int) -> list[Colour]:
    """One colour per curve: the palette, or shades from dark to light where it does not go round."""
    palette = [COLOURS[name] for name in ("blue", "orange", "green", "pink", "grey")]
    return palette[:count] if count <= len(palette) else mode_colours(count)


def diverging_colours(values: ArrayLike) -> list[Colour]:
    """One colour per signed value: blue below zero, grey at it, orange above, paler towards it."""
    values = np.asarray(values, dtype=float)
    reach = float(np.abs(values).max()) or 1.0
    rgb = {sign: np.array(_matplotlib().colors.to_rgb(COLOURS[name])) for sign, name in _SIDES.items()}
    full = {value: 0.4 + 0.6 * abs(value) / reach if value else 1.0 for value in values}
    return [tuple(1 - full[value] * (1 - rgb[int(np.sign(value))])) for value in values]


def draw_matrix(axes: Axes, matrix: Float[Array, "rows columns"], bound: float | None = None) -> AxesImage:
    """A heat map, white at zero; returns what a colour bar needs."""
    bound = bound or float(np.abs(matrix).max()) or 1.0
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-bound, vmax=bound, interpolation="nearest", aspect="auto")
    axes.grid(False)
    axes.spines[:].set_visible(True)
    axes.locator_params(integer=True)
    return image


def draw_gram(axes: Axes, gram: Float[Array, "n n"], d_in: int, bound: float | None = None) -> AxesImage:
    """QQᵀ as a heat map, with its blocks marked: W1ᵀW1 and W2W2ᵀ on the diagonal, W2W1 below it."""
    image = draw_matrix(axes, gram, bound)
    axes.set_aspect("equal")
    axes.axhline(d_in - 0.5, color="black", linewidth=0.8)
    axes.axvline(d_in - 0.5, color="black", linewidth=0.8)
    middle = [(d_in - 1) / 2, (len(gram) + d_in - 1) / 2]
    axes.set_xticks(middle, ["inputs", "outputs"])
    axes.set_yticks(middle, ["inputs", "outputs"], rotation=90, va="center")
    axes.tick_params(length=0)
    return image


def _matplotlib() -> ModuleType:
    for part in ("axes", "colors"):
        load(f"matplotlib.{part}", "a figure", "figures")
    return load("matplotlib", "a figure", "figures")
