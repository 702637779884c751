"""The gallery: one page with all figures, drawn anew from the data that `lazyrich figure all --out DIR` left in DIR.

    python -m lazyrich.figures.gallery DIR docs/gallery

Per figure: the picture, three sentences, the command, the calls it stands on, and the numbers that make it true.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lazyrich._check import InvalidInput
from lazyrich._files import write_atomically
from lazyrich.figures.catalogue import STORE, Entry, entry, names
from lazyrich.plot import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write"]

_PAPERS = {
    "braun2022": "Braun et al. 2022: exact learning dynamics with prior knowledge",
    "domine2025": "Dominé et al. 2025 and lecture notes: from lazy to rich, saddle to saddle",
    "kunin2024": "Kunin et al. 2024: unbalanced starts",
    "saxe2014": "Saxe et al. 2014: deep linear networks",
}
_DPI = 80


def write(source: Path, target: Path) -> Path:
    """Draws every figure whose data are in `source`, and writes the page into `target`."""
    import xarray

    sections: dict[str, list[str]] = {}
    total = 0.0
    for name in names():
        known, path = entry(name), source / f"{name.replace('/', '-')}.nc"
        if not path.is_file():
            raise InvalidInput(f"{path} is missing: lazyrich figure all --out {source} writes it.")
        with xarray.open_dataset(path, engine="scipy") as data:
            data.load()
        if not data.attrs["published"]:
            raise InvalidInput(f"{path} must hold the published settings, and it has {data.attrs['settings']}.")
        picture = f"{name.replace('/', '-')}.png"
        _save(known.draw(data), target / picture)
        numbers, seconds = known.numbers(data), float(data.attrs["seconds"])
        total += seconds
        sections.setdefault(name.split("/")[0], []).append(_section(known, picture, numbers, seconds))
    lines = ["# Gallery", "", f"Figures of the papers, and some of our own: {total / 60:.1f} minutes on two cores.", ""]
    for paper, parts in sections.items():
        lines += [f"## {_PAPERS[paper]}", "", *parts]
    page = target / "README.md"
    write_atomically(page, lambda stream: stream.write("\n".join(lines).encode()))
    return page


def _save(figure: Figure, path: Path) -> None:
    with style.styled():
        write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=_DPI))


def _section(known: Entry, picture: str, numbers: dict[str, float], seconds: float) -> str:
    checks = [f"- {check}: {numbers[key]:.2g}" for key, check in known.checks.items()]
    calls = ", ".join(f"`{call}`" for call in known.calls)
    stored = f" --set {STORE}=DIR" if STORE in known.settings else ""
    command = f"`lazyrich figure {known.name}{stored}` ({seconds:.0f} s); built on {calls}."
    return "\n".join(
        [f"### {known.title}", "", f"![{known.title}]({picture})", "", known.about, "", command, "", *checks, ""]
    )


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    target.mkdir(parents=True, exist_ok=True)
    print(write(source, target))
