"""Who is at which block: a small file in `claims/`, so that two processes on one folder do not compute a block twice.

Whoever creates the file has the block, and touches it from time to time. A claim is void when its process is known to
be dead, or nobody has touched it for a while. Times are those of the file system, which all machines share. Where two
find the same claim void at the same moment, both may compute the block: it then gives the same bytes twice.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = "claims"
_TOUCHED = 10.0  # seconds between two touches
_VOID = 90.0  # seconds without a touch
_WRITTEN = 10.0  # by when a claim says whose it is


@contextmanager
def claimed(out: Path, name: str) -> Iterator[bool]:
    """Whether the block is ours until the end of the `with` block."""
    path = out / FOLDER / name
    if not (_take(path) or (_void(path) and _remove_void(path) and _take(path))):
        yield False
        return
    over = threading.Event()
    toucher = threading.Thread(target=_touch, args=(path, over), daemon=True)
    toucher.start()
    try:
        yield True
    finally:
        over.set()
        toucher.join()
        path.unlink(missing_ok=True)


def others(out: Path) -> list[str]:
    """The claims that stand, by name."""
    folder = out / FOLDER
    return sorted(path.name for path in folder.iterdir() if not _void(path)) if folder.is_dir() else []


def _take(path: Path) -> bool:
    whose = json.dumps({"host": platform.node(), "process": os.getpid()}).encode()
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return False
    try:
        os.write(handle, whose)
    except OSError:  # the disk is full: a claim of nobody would keep others waiting
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    return True


def _touch(path: Path, over: threading.Event) -> None:
    while not over.wait(_TOUCHED):
        with suppress(OSError):
            os.utime(path)


def _void(path: Path) -> bool:
    try:
        age = _now(path.parent) - path.stat().st_mtime
        text = path.read_text()
    except FileNotFoundError:  # given back meanwhile: the next look finds it free
        return False
    if age > _VOID:
        return True
    try:
        whose = json.loads(text)
    except ValueError:  # just being written, or left so
        return age > _WRITTEN
    return whose["host"] == platform.node() and not _alive(whose["process"])


def _now(folder: Path) -> float:
    """By the clock of the file system."""
    mark = folder.parent / "partial" / f"clock-{uuid.uuid4().hex}"
    mark.touch()
    try:
        return mark.stat().st_mtime
    finally:
        mark.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    if os.name == "nt":  # there a signal 0 would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return not _has_ended(process)


def _has_ended(process: int) -> bool:
    """Whether it is only waiting for its parent to look (Linux says so)."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    return False


def _remove_void(path: Path) -> bool:
    """Of those who see it void, one."""
    try:
        os.rename(path, path.parent.parent / "partial" / f"void-{uuid.uuid4().hex}")
    except FileNotFoundError:
        return False
    return True
