"""Results of published size, which take a GPU, kept beside the figures: one file `kept/NAME.nc` for each.

    python -m lazyrich.papers.kunin2024.figures._kept DIR     # keeps what the store in DIR holds, under its own name

A file has the labelled arrays of its store, in single precision: every cell, its status, and the configuration it was
computed with. So what is kept is judged as any other store is: `is_published` compares the configuration with that of
the paper, entry by entry.
"""

import json
import sys
from pathlib import Path
from typing import Any

from lazyrich._files import write_atomically
from lazyrich.papers.base.figure import Dataset
from lazyrich.sweeps.configuration import configuration, differences
from lazyrich.sweeps.grid import STATUS, Grid
from lazyrich.sweeps.store import load_store

_FOLDER = Path(__file__).parent / "kept"


def kept() -> list[str]:
    """The sweeps and experiments that are kept, by name.

    >>> kept()
    ['grokking-paper', 'kunin2024-1b', 'kunin2024-1b-supporting', 'rhm-paper']
    """
    return sorted(path.stem for path in _FOLDER.glob("*.nc"))


def load_kept(name: str) -> Dataset:
    """What is kept under that name, as `open_store` gives it."""
    import xarray

    with xarray.open_dataset(_FOLDER / f"{name}.nc", engine="scipy", decode_cf=False) as data:
        return data.load()


def configuration_of(data: Dataset) -> dict[str, Any]:
    """What the cells of a store were computed with."""
    found: dict[str, Any] = json.loads(data.attrs["configuration"])
    return found


def is_published(data: Dataset, grid: Grid) -> bool:
    """Whether a store has the configuration of that grid, but for its name and blocks, and every cell is complete."""
    stored = configuration_of(data)
    asked = configuration(grid) | {"block": stored["block"]}
    return not differences(stored, asked) and bool((data["status"] == STATUS.index("complete")).all())


def keep(store: Path) -> Path:
    """Writes what a store holds into one file, with its configuration, its versions and its day."""
    data = load_store(store)
    versions = {name: version for name, version in json.loads(data.attrs["versions"]).items() if name != "platform"}
    about = {"configuration": data.attrs["configuration"], "versions": json.dumps(versions)}
    about["created"] = data.attrs["created"]
    values = {name: data[name].astype("float32") for name in data.data_vars if name != "status"}
    encoded = data.assign(values).drop_attrs().assign_attrs(about).to_netcdf(engine="scipy")
    path = _FOLDER / f"{configuration_of(data)['name']}.nc"
    write_atomically(path, lambda stream: stream.write(bytes(encoded)))
    return path


if __name__ == "__main__":
    print(keep(Path(sys.argv[1])))
