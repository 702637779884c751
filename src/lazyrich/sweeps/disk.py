"""Files of a store: whole or not there, on the disk before anything else happens, and each fault one sentence."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lazyrich._check import InvalidInput
from lazyrich._files import write_atomically


def partial(out: Path, name: str) -> Path:
    """A place in the making, under a name that no other writer has on any machine."""
    return out / "partial" / f"{name}-{uuid.uuid4().hex}"


def put(out: Path, path: Path, content: bytes) -> None:
    """All of a file on the disk; then in its place."""
    made = partial(out, f"{path.parent.name}-{path.name}")
    write_atomically(made, lambda stream: stream.write(content))
    os.replace(made, path)


def sync(*paths: Path) -> None:
    """To the disk, before anything else happens. A folder keeps the names of its files."""
    for path in paths:
        if os.name == "nt" and path.is_dir():  # Windows does that by itself
            continue
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def as_json(content: object) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    with damage_of(path):
        return json.loads(path.read_bytes())


@contextmanager
def faults_of(out: Path) -> Iterator[None]:
    """A full disk, a folder that may not be written or has gone: one sentence."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{out} cannot be used: {error.strerror or error}.") from None


@contextmanager
def damage_of(path: Path) -> Iterator[None]:
    """A file that is not what was written: one sentence, whatever its reader says."""
    try:
        yield
    except Exception as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InvalidInput(f"{path} cannot be read: {reason}.") from None
