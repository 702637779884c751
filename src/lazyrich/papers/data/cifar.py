"""CIFAR-10 from its standard files: the binary batches, the Python batches, or the archive of either as downloaded.

There are five batches to train on and one to test on, of 10,000 colour images 32 × 32 each. A record of the binary
version is a byte for the label and 3,072 for the pixels: 32 × 32 of red, then green, then blue, row by row. The Python
version has the same bytes in pickles, which are not unpickled: see `pickled`. Batches with fewer records are read too.

Archives are read member by member and never unpacked to disk. `tarfile` is not used for it, since it takes the extended
headers of an archive into memory whole, however long they say they are: these few lines read nothing that is not a
batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from lazyrich import InvalidInput, _files
from lazyrich._typing import Array
from lazyrich.papers.data.files import BLOCK, Missing, bytes_of, first_of, opened
from lazyrich.papers.data.pickled import read_pickled

BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
ARCHIVES = ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz")
CLASSES = 10

_FOLDERS = ("", "cifar-10-batches-bin", "cifar-10-batches-py")  # as the archives unpack
_PIXELS, _MOST_RECORDS = 3 * 32 * 32, 10_000
_MOST_BATCH = 34_000_000  # bytes: a binary batch has 30,730,000, and a Python batch 31,035,704 or a little less
_MOST_ARCHIVE = 2**28  # bytes, unpacked

_TAR = 512  # an archive is headers and contents, each filled up to a multiple of this


def read_cifar10(folder: Path) -> tuple[Array, Array, Array, Array]:
    """Bytes of the batches of a folder: images (count, 32, 32, 3) and labels to train on, and to test on."""
    for place in (folder / name for name in _FOLDERS):
        for suffix in (".bin", ""):
            if first_of(place, (f"{batch}{suffix}" for batch in BATCHES)):
                return _joined({batch: _read_batch(place / f"{batch}{suffix}") for batch in BATCHES})
    archive = first_of(folder, ARCHIVES)
    if archive is None:
        raise Missing(f"{folder} has no {ARCHIVES[0]}")
    with _files.faults_of(archive, "valid .tar.gz"):
        return _joined(_read_archive(archive))


def _joined(batches: Mapping[str, tuple[Array, Array]]) -> tuple[Array, Array, Array, Array]:
    """The batches to train on, in order, and the one to test on, with colours last."""
    *train, test = (batches[batch] for batch in BATCHES)
    pixels, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return _as_images(pixels), labels, _as_images(test[0]), test[1]


def _as_images(pixels: Array) -> Array:
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


# one batch --------------------------------------------------------------------------------------------------


def _read_batch(path: Path) -> tuple[Array, Array]:
    with _files.faults_of(path, "CIFAR-10"):
        _refuse_size(str(path), path.stat().st_size)
        return _batch_of(path.name, np.fromfile(path, np.uint8), str(path))


def _refuse_size(name: str, size: int) -> None:
    if not 0 < size <= _MOST_BATCH:
        raise InvalidInput(f"{name} must have 1 to {_MOST_BATCH:,} bytes to be a batch, and it has {size:,}.")


def _batch_of(file_name: str, content: Array, name: str) -> tuple[Array, Array]:
    """Pixels (count, 3072) and labels (count,) of a batch in the version that its file name says."""
    pixels, labels = (_of_binary if file_name.endswith(".bin") else _of_pickle)(content, name)
    if not 1 <= len(pixels) <= _MOST_RECORDS:
        raise InvalidInput(f"{name} must have 1 to {_MOST_RECORDS:,} images, and it has {len(pixels):,}.")
    if labels.max() >= CLASSES:
        raise InvalidInput(f"{name} must have labels below {CLASSES}, and the largest is {labels.max()}.")
    return pixels, labels


def _of_binary(content: Array, name: str) -> tuple[Array, Array]:
    if content.size % (1 + _PIXELS):
        raise InvalidInput(
            f"{name} must have {1 + _PIXELS:,} bytes for each image, and it has {content.size:,} in all."
        )
    records = content.reshape(-1, 1 + _PIXELS)
    return records[:, 1:], records[:, 0]


def _of_pickle(content: Array, name: str) -> tuple[Array, Array]:
    batch = read_pickled(content.tobytes(), name)
    pixels, labels = batch.get(b"data"), batch.get(b"labels")
    if not isinstance(pixels, np.ndarray) or pixels.shape[1] != _PIXELS:
        raise InvalidInput(f"{name} must have a matrix of bytes with {_PIXELS:,} columns under the name data.")
    if not isinstance(labels, list) or len(labels) != len(pixels) or not all(map(_is_label, labels)):
        raise InvalidInput(f"{name} must have a list of {len(pixels):,} whole numbers below {CLASSES} as its labels.")
    return pixels, np.array(labels, np.uint8)


def _is_label(value: object) -> bool:
    return type(value) is int and 0 <= value < CLASSES


# archives ---------------------------------------------------------------------------------------------------


def _read_archive(path: Path) -> dict[str, tuple[Array, Array]]:
    batches: dict[str, tuple[Array, Array]] = {}
    for file_name, content in _members(path):
        batch = file_name.removesuffix(".bin")
        if batch in batches:
            raise InvalidInput(f"{path} holds {batch} twice.")
        batches[batch] = _batch_of(file_name, content, f"{file_name} in {path}")
    if missing := [batch for batch in BATCHES if batch not in batches]:
        raise InvalidInput(f"{path} must hold six batches, and {' and '.join(missing)} are not there.")
    return batches


def _members(path: Path) -> Iterator[tuple[str, Array]]:
    """The batches of an archive with their file names, as they come."""
    read = 0
    with opened(path) as stream:
        while (header := bytes_of(stream, _TAR, str(path)).tobytes()) != bytes(_TAR):  # zeros after the last member
            file_name, size, is_file = _member(header, path)
            padded = -(-size // _TAR) * _TAR
            read += _TAR + padded
            if read > _MOST_ARCHIVE:
                raise InvalidInput(f"{path} must unpack to at most {_MOST_ARCHIVE:,} bytes, and it has more.")
            if is_file and file_name.removesuffix(".bin") in BATCHES:
                _refuse_size(f"{file_name} in {path}", size)
                yield file_name, bytes_of(stream, size, str(path))
                padded -= size
            for start in range(0, padded, BLOCK):
                bytes_of(stream, min(BLOCK, padded - start), str(path))
        while rest := stream.read(BLOCK):  # more zeros; the checksum is compared at the end
            read += len(rest)
            if any(rest) or read > _MOST_ARCHIVE:
                raise InvalidInput(f"{path} goes on after its end.")


def _member(header: bytes, path: Path) -> tuple[str, int, bool]:
    """File name, size, and whether it is an ordinary file, from the header of a member."""
    checksum = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])  # its own place counts as spaces
    if int(header[148:156].strip(b" \0") or b"0", 8) != checksum:
        raise InvalidInput(f"{path} is damaged, or no archive: the checksum of a member is not that of its header.")
    size = int(header[124:136].strip(b" \0") or b"0", 8)
    if size < 0:
        raise InvalidInput(f"{path} is damaged, or no archive: a member has a size of {size}.")
    full_name = header[:100].split(b"\0", 1)[0].decode("latin-1")
    return full_name.rpartition("/")[2], size, header[156:157] in (b"0", b"\0")
