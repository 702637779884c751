"""The gallery: one page with all figures, drawn anew from the data that `lazyrich figure all --out DIR` left in DIR.

    python -m lazyrich.papers.gallery DIR docs/gallery             every picture, and the page
    python -m lazyrich.papers.gallery DIR docs/gallery braun2022/3 these pictures alone

Per figure: the picture, three sentences, the command, the calls it stands on, and the numbers that make it true.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._files import write_atomically
from lazyrich.papers.base.figure import Figure
from lazyrich.papers.shelf import figure, figures, paper
from lazyrich.plot import style

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure as Picture
    from PIL.Image import Image


_SHADES = 256
#: Trained at the published size of the network on a GPU, from which the picture was kept and not the results.
_PICTURES = {
    "kunin2024/5a": "LeNet-5 on MNIST for 500 epochs as published, with two of the eight seeds and kernels on 2,000 "
    "images instead of 6,000",
    "kunin2024/5b": "the published network and its 24 epochs, on 6,000 patches of photographs instead of CIFAR-10, "
    "with three α and one seed",
}


def write(source: Path, target: Path) -> Path:
    """Draws every figure whose data are in `source`, and writes the page into `target`."""
    sections: dict[str, list[str]] = {}
    total = 0.0
    for name in figures():
        known, data = draw(name, source, target)
        numbers, seconds = known.numbers(data), float(data.attrs["seconds"])
        total += seconds
        sections.setdefault(name.split("/")[0], []).append(_section(known, numbers, seconds))
    lines = ["# Gallery", "", f"Figures of the papers, and some of our own: {total / 60:.1f} minutes on two cores.", ""]
    for key, parts in sections.items():
        lines += [f"## {paper(key).authors}: {paper(key).title}", "", *parts]
    page = target / "README.md"
    write_atomically(page, lambda stream: stream.write("\n".join(lines).encode()))
    return page


def draw(name: str, source: Path, target: Path) -> tuple[Figure, xarray.Dataset]:
    """Draws one figure from its data in `source` into `target`; returns what the page says of it."""
    import xarray

    known, path = figure(name), source / f"{name.replace('/', '-')}.nc"
    if not path.is_file():
        raise InvalidInput(f"{path} is missing: lazyrich figure {name} --out {source} writes it.")
    with xarray.open_dataset(path, engine="scipy") as data:
        data.load()
    if name in _PICTURES:
        return known, data
    if not data.attrs["published"]:
        raise InvalidInput(f"{path} must hold the published settings, and it has {data.attrs['settings']}.")
    _save(known.draw(data), target / _picture(name))
    return known, data


def _picture(name: str) -> str:
    return f"{'../experiments/' if name in _PICTURES else ''}{name.replace('/', '-')}.png"


def _save(drawing: Picture, path: Path) -> None:
    import PIL.Image

    drawn = io.BytesIO()
    with style.styled():
        drawing.savefig(drawn, format="png")
    picture = _with_palette(PIL.Image.open(drawn).convert("RGB"))
    write_atomically(path, lambda stream: picture.save(stream, format="png", optimize=True))


def _with_palette(picture: Image) -> Image:
    """The picture in 256 colours, a third of the size: half are its most frequent, so that areas keep theirs exactly,
    and half are spread over all that occur, for the edges of letters and curves."""
    import PIL.Image

    red, green, blue = np.moveaxis(np.asarray(picture, dtype=np.uint32), -1, 0)
    packed, place, count = np.unique(red << 16 | green << 8 | blue, return_inverse=True, return_counts=True)
    colours = np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=1).astype(np.int32)
    spread = np.array(picture.quantize(_SHADES // 2, PIL.Image.Quantize.MAXCOVERAGE).getpalette()).reshape(-1, 3)
    frequent = colours[np.argsort(-count)[: _SHADES // 2]]
    palette = np.concatenate([frequent, spread[: _SHADES // 2]])
    nearest = np.argmin([np.sum((colours - shade) ** 2, axis=1) for shade in palette], axis=0).astype(np.uint8)
    indexed = PIL.Image.fromarray(nearest[place].reshape(red.shape), mode="P")
    indexed.putpalette(palette.astype(np.uint8).tobytes())
    return indexed


def _section(known: Figure, numbers: dict[str, float], seconds: float) -> str:
    checks = [f"- {check}: {numbers[key]:.2g}" for key, check in known.checks.items()]
    shown = _PICTURES.get(known.name)
    if shown:
        checks = ["On a laptop, which is what the command trains:", "", *checks]
    calls = ", ".join(f"`{call}`" for call in known.calls)
    command = f"`lazyrich figure {known.name}` ({seconds:.0f} s); built on {calls}."
    picture = f"![{known.title}]({_picture(known.name)})"
    about = f"Shown: {shown}. {known.about}" if shown else known.about
    return "\n".join([f"### {known.title}", "", picture, "", about, "", command, "", *checks, ""])


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    target.mkdir(parents=True, exist_ok=True)
    if chosen := sys.argv[3:]:
        for name in chosen:
            draw(name, source, target)
    else:
        print(write(source, target))
