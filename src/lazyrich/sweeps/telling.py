"""What a run tells of each block that it has computed: to Weights & Biases, MLflow, or whoever follows it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.sweeps.grid import in_one_line
from lazyrich.sweeps.store import Store, open_store

if TYPE_CHECKING:
    import xarray


class Finished(NamedTuple):
    """A block that has been computed.

    >>> import tempfile
    >>> sweep = lr.sweeps.Sweep("tiny", "random_regression", axes={"seed": [0, 1]}, at=[0, 10], method="solve")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.sweeps.run(sweep, folder, tell=lambda block: print(block.computed, dict(block.data.loss.sizes)))
    1 {'seed': 1, 'step': 2}
    2 {'seed': 1, 'step': 2}
    """

    data: xarray.Dataset  # its cells, as `lr.sweeps.open` gives them
    computed: int  # cells, by this run so far


Tell = Callable[[Finished], object]


class Teller:
    """Calls a function of the user's with each block. What goes wrong there is said once, and stops nothing."""

    def __init__(self, store: Store, tell: Tell) -> None:
        if not callable(tell):
            raise InvalidInput(f"tell must be a function of a finished block, and it is {_check.shown(tell)}.")
        self._grid, self._tell = store.grid, tell
        self._data, self._complained = open_store(store.out), False  # what is in it is read when it is asked for

    def block(self, number: int, computed: int) -> None:
        region = self._grid.block_at(number).region
        axes = zip(self._grid.axes.items(), region, strict=True)
        try:
            data = self._data.sel({axis: list(values[where]) for (axis, values), where in axes}).load()
            self._tell(Finished(data, computed))
        except Exception as error:
            if not self._complained:
                print(f"lazyrich: tell has failed, and the sweep goes on: {in_one_line(error)}.", file=sys.stderr)
            self._complained = True
