"""The errors of the closed form as tables in Markdown, from the data of the figure.

lazyrich figure tu2024/random_errors --out DIR
python -m lazyrich.papers.tu2024.table DIR/tu2024-random_errors.nc
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from lazyrich.papers.base.figure import DataArray, Dataset
from lazyrich.papers.tu2024.random_starts import SAID


def tables(data: Dataset) -> Iterator[str]:
    """Lines: per task a table, whose rows are what is off and from which initialisation; widths go across."""
    halves = data.half_time_error.stack(every=("seed", "mode"))
    parts: dict[str, DataArray] = {
        "modes": data.mode_error.median("seed"),
        "half times": halves.median("every"),
        "worst half time": halves.max("every"),
    }
    for task in data.task.values:
        hidden = data.hidden.sel(task=task).values
        yield f"| {task} | weights | " + " | ".join(f"h = {h}" for h in hidden) + " |"
        yield "|---|---|" + "---|" * len(hidden)
        for name, errors in parts.items():
            for kind in data.initialisation.values:
                for scale in data.scale.values:
                    row = errors.sel(task=task, initialisation=kind, scale=scale).transpose("width", "told")
                    cells = " | ".join(cell(*map(float, pair)) for pair in row.values)
                    yield f"| {name} | {SAID[str(kind)]}{f' × {scale:g}' if scale != 1 else ''} | {cells} |"
        yield ""


def cell(closed: float, corrected: float) -> str:
    """Both errors in percent.

    >>> from lazyrich.papers.tu2024.table import cell
    >>> cell(0.0123, 0.00045), cell(0.456, 0.1)
    ('1.2 / 0.045', '46 / 10')
    """
    return " / ".join(f"{100 * error:.2g}" if error < 0.095 else f"{100 * error:.0f}" for error in (closed, corrected))


if __name__ == "__main__":
    from xarray import load_dataset

    print("\n".join(tables(load_dataset(sys.argv[1], engine="scipy"))))
