"""Zarr's folder of files, with each chunk compared with the record of its block as it is read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from lazyrich._check import InvalidInput
from lazyrich.sweeps import records

_LOOKS, _PAUSE = 20, 0.05  # at a file that does not fit its record, since both may just be written, and seconds between


class CheckedStore(LocalStore):  # type: ignore[misc]
    """What the records say is there, and nothing else."""

    def __init__(self, out: Path, axes: int) -> None:
        super().__init__(out / "data.zarr", read_only=True)
        self._out, self._axes = out, axes

    def with_read_only(self, read_only: bool = False) -> CheckedStore:
        return CheckedStore(self._out, self._axes)

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        prototype = prototype or default_buffer_prototype()
        first, *parts = key.rpartition("/")[2].split(".")
        if first != "c":  # metadata, and axes, whose chunks are called c/0
            return await super().get(key, prototype, byte_range)
        name = ".".join(parts[: self._axes])
        for look in range(_LOOKS):
            if look:
                time.sleep(_PAUSE)
            record = records.read(records.path_of(self._out, name))
            if record is None:
                return None
            try:
                content = (self.root / key).read_bytes()
            except FileNotFoundError:
                continue
            if records.stamp(content) in records.stamps(self._out, name, key):
                return prototype.buffer.from_bytes(content)
        fault = records.fault_of(self.root / key, [*records.stamps(self._out, name, key)], thorough=True)
        raise InvalidInput(
            f"{self.root / key} {fault}: `lazyrich sweep … --out {self._out} --verify` finds and computes again what "
            "is damaged."
        )
