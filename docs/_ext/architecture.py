"""The house as it is: rooms in layers, drawn from the import graph, and a table with the lines of each.

A box is a folder or file of src/lazyrich. It stands one layer above the highest that it imports, and arrows lead from
it to what it imports in the next layer; what it imports further down is not drawn.
What everything uses (checks, files, engines, types) is one box at the bottom. Two rooms have two floors, because
problems stand on the one and the other reads problems: they are told apart by whether a module imports `problem`, by
whatever way.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import grimp
import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from sphinx.application import Sphinx
from written import write

import lazyrich as lr

SOURCE = Path(lr.__file__).parent
FACE, BASE = "import lazyrich as lr", "checks, files, engines"
FLOORS = {
    "methods": ("methods: closed forms", "methods: solve, flow …"),
    "laziness": ("laziness: of a model", "laziness: of a run"),
}
UPSTAIRS = {  # what of a room stands on rooms that stand on the rest of it
    "lazyrich.batch": "batch: fate",
    "lazyrich.batch.fates": "batch: fate",
    "lazyrich.batch.exact": "batch: solve",
    "lazyrich.batch.device": "batch: solve",
    "lazyrich.laziness.records": "laziness: of a run",  # which draws itself
    "lazyrich.methods.gram": "methods: equations",
    "lazyrich.methods.linearised": "methods: equations",
    "lazyrich.methods.decoupled": "methods: equations",
}
INTERFACE = ("papers", "explorer", "cli")  # above the face: they call what a user calls

Graph = Mapping[str, frozenset[str]]  # room → rooms that it imports


class House(NamedTuple):
    """Rooms by layer, lowest first; the arrows between neighbouring layers; lines of Python by room."""

    layers: list[list[str]]
    arrows: list[tuple[str, str]]
    lines: dict[str, int]


def house() -> House:
    """As the package is now; `graphlib.CycleError`, which names it, where rooms import each other in a circle."""
    modules = grimp.build_graph("lazyrich", exclude_type_checking_imports=True, cache_dir=None)
    reading = modules.find_downstream_modules("lazyrich.problem") | {"lazyrich.problem"}
    room_of = {module: _room(module, module in reading) for module in modules.modules}
    graph: dict[str, set[str]] = {room: set() for room in room_of.values()}
    lines = dict.fromkeys(graph, 0)
    for module, room in room_of.items():
        graph[room] |= {room_of[other] for other in modules.find_modules_directly_imported_by(module)}
        lines[room] += _lines(module)
    graph[FACE] = set(graph).difference(INTERFACE)  # its names are loaded when used: it stands on the whole library
    return House(*_layered({room: frozenset(graph[room] - {room, BASE}) for room in graph if room != BASE}), lines)


def _room(module: str, reads_problems: bool) -> str:
    name = module.partition(".")[2].partition(".")[0]
    if module in UPSTAIRS:
        return UPSTAIRS[module]
    if name in FLOORS:
        return FLOORS[name][reads_problems]
    return BASE if name.startswith("_") or name == "citations" else name or FACE


def _lines(module: str) -> int:
    path = SOURCE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return len(file.read_text(encoding="utf-8").splitlines())


def _layered(graph: Graph) -> tuple[list[list[str]], list[tuple[str, str]]]:
    height: dict[str, int] = {}
    for room in TopologicalSorter(graph).static_order():
        height[room] = 1 + max((height[other] for other in graph[room]), default=-1)
    arrows = [(room, other) for room in graph for other in sorted(graph[room]) if height[room] == height[other] + 1]
    layers = [sorted(room for room in graph if height[room] == level) for level in range(max(height.values()) + 1)]
    return layers, arrows


# the picture ----------------------------------------------------------------------------------------------------------

_WIDTH, _ROW, _BOX, _GAP = 9.2, 0.66, (1.66, 0.42), 0.1  # inches: as wide as the column of text
_WIDE = {"papers": 6.4, FACE: 2.6, BASE: 6.4} | dict.fromkeys((*FLOORS["methods"], *FLOORS["laziness"]), 2.0)
_COLOURS = {"papers": "#fde8cf", FACE: "#e3f1dd", "explorer": "#e3f1dd", "cli": "#e3f1dd", BASE: "#eeeeee"}
_LIBRARY, _INK, _GREY = "#dbe9f6", "#1f2933", "#55606b"


def draw(found: House) -> Figure:
    """Highest layer on top."""
    places = _places(found)
    figure = Figure(figsize=(_WIDTH, _ROW * (len(found.layers) + 1)))
    FigureCanvasSVG(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, _WIDTH), ylim=(-_ROW * 1.5, _ROW * (len(found.layers) - 0.5)))
    axes.set_axis_off()
    for room, other in found.arrows:
        (x, y), (to_x, to_y) = places[room], places[other]
        ends = (x, y - _BOX[1] / 2), (to_x, to_y + _BOX[1] / 2)
        axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=9, color=_GREY, shrinkA=0, shrinkB=1))
    for room, place in places.items():
        _draw_box(axes, room, place, found.lines[room])
    return figure


def _places(found: House) -> dict[str, tuple[float, float]]:
    """Centres of the boxes: in each layer side by side, in the order of what they stand on."""
    places = {BASE: (_WIDTH / 2, -_ROW)}
    for level, layer in enumerate(found.layers):
        under = {room: [places[other][0] for one, other in found.arrows if one == room] for room in layer}
        ordered = sorted(layer, key=lambda room: (sum(under[room]) / max(len(under[room]), 1), room))
        widths = [_WIDE.get(room, _BOX[0]) for room in ordered]
        left = (_WIDTH - sum(widths) - _GAP * (len(widths) - 1)) / 2
        for room, width in zip(ordered, widths, strict=True):
            places[room] = (left + width / 2, _ROW * level)
            left += width + _GAP
    return places


def _draw_box(axes: Axes, room: str, place: tuple[float, float], lines: int) -> None:
    (x, y), width = place, _WIDE.get(room, _BOX[0])
    corner = (x - width / 2, y - _BOX[1] / 2)
    look = {"facecolor": _COLOURS.get(room, _LIBRARY), "edgecolor": _GREY, "linewidth": 0.8}
    axes.add_patch(FancyBboxPatch(corner, width, _BOX[1], boxstyle="round,pad=0,rounding_size=0.06", **look))
    papers = "   ".join(paper.key for paper in lr.papers.papers())
    below = {FACE: "the public names", "papers": f"{papers}   {lines:,} lines"}.get(room, f"{lines:,} lines")
    axes.text(x, y + 0.075, room, ha="center", va="center", fontsize=10.5, color=_INK)
    axes.text(x, y - 0.105, below, ha="center", va="center", fontsize=8, color=_GREY)


# the table ------------------------------------------------------------------------------------------------------------

_WORDS = {
    BASE: "input checks, files, optional engines, progress, threads, shapes, references",
    "tasks": "what is to be learned",
    "losses": "what learning lowers: its value, and its pull on the outputs",
    "noise": "mini-batches, noise on labels and on weights, and their seeds",
    "networks": "what learns",
    "inits": "where learning begins",
    "alignment": "whether network and task share modes",
    "facts": "what is true of a problem, as numbers; refusals as data",
    "methods": "closed forms, one per file; `solve`, `flow` and `descend`, the ways to a trajectory",
    "problem": "a task and a network, with its facts",
    "velocity": "Ẇ of a problem: what a certificate holds a trajectory against",
    "state": "what observables read of a trajectory: Gram matrix or weights, decided once",
    "certificate": "the evidence for a trajectory",
    "trajectory": "the one result type",
    "batch": "many networks at once, in stacked arrays or one compiled program",
    "observables": "functions of a trajectory",
    "bias": "function space, and which of many solutions is reached",
    "landscape": "critical points, fate and regime: where the flow ends, and why",
    "laziness": "what lazy and rich mean, said once; how lazy a model of your own is",
    "sequences": "one task after another",
    "generalisation": "the loss on data that was not trained on",
    "predict": "exact, integrated or estimated: the first call",
    "prediction": "what it returns, with its print and its error",
    "sensitivity": "how all of it moves with the initial weights",
    "jax": "the closed form as JAX functions, with derivatives",
    "fit": "which initialisation a measured curve speaks of",
    "sweeps": "grids of problems: declared, computed in blocks, stored, resumed",
    "plot": "one-line plots, and the look of all figures",
    "papers": "one room per paper: formulas to the letter, claims, figures, experiments, sweeps",
    "explorer": "the web page; calls the public interface only",
    "cli": "the command line",
}


def table(found: House) -> str:
    """Rooms from the top of the picture to its bottom, with what they hold and how long they are."""
    lines: dict[str, int] = {}
    for layer in reversed([[BASE], *found.layers]):
        for room in layer:
            name = room.partition(":")[0]
            lines[name] = lines.get(name, 0) + found.lines[room]
    lines.pop(FACE)
    library = sum(count for name, count in lines.items() if name not in ("papers", *INTERFACE))
    rows = [f"| `{name}` | {_WORDS.get(name, '')} | {count:,} |" for name, count in lines.items()]
    words = f"**all**; the library without papers, explorer and command line: {library:,}"
    total = f"| | {words} | {sum(lines.values()):,} |"
    return "\n".join(["| room | what it holds | lines |", "|---|---|---:|", *rows, total]) + "\n"


def _write(app: Sphinx) -> None:
    found = house()
    write(app, "generated", {"rooms": table(found)})
    with matplotlib.rc_context({"svg.hashsalt": "lazyrich"}):  # the same picture from the same graph
        draw(found).savefig(Path(app.srcdir) / "generated" / "architecture.svg", metadata={"Date": None})


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
