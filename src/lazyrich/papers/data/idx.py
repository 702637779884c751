"""IDX files, the format of MNIST and Fashion-MNIST, plain or compressed with gzip.

    2 bytes    zero
    1 byte     the kind of number
    1 byte     how many dimensions
    4 bytes    the size of each of them
    …          the numbers, the last dimension running fastest

All numbers are big-endian. A set is four such files: images (count, 28, 28) and labels (count,), of bytes, to train
and to test on. They are known under two names, train-images-idx3-ubyte and train-images.idx3-ubyte.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from lazyrich import InvalidInput, _check, _files
from lazyrich._typing import Array
from lazyrich.papers.data.files import Missing, bytes_of, first_of, opened, refuse_more

SIDE, CLASSES = 28, 10  # of MNIST and of Fashion-MNIST
MOST_BYTES = 2**28  # of numbers in one file: MNIST has 47 million
_MOST_DIMENSIONS = 8
_KINDS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | Path) -> Array:
    """The array of an IDX file, in the byte order of this machine.

    >>> content = bytes([0, 0, 0x0B, 2]) + bytes([0, 0, 0, 1]) + bytes([0, 0, 0, 3]) + bytes([0, 1, 0, 2, 255, 255])
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(content), file.flush()
    ...     read_idx(file.name)
    array([[ 1,  2, -1]], dtype=int16)
    """
    path = _check.as_path("path", path)
    with _files.faults_of(path, "valid IDX"), opened(path) as stream:
        zero_1, zero_2, kind, dimensions = bytes_of(stream, 4, str(path)).tolist()
        if zero_1 or zero_2 or kind not in _KINDS or not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise InvalidInput(
                f"{path} must begin with two zeros, a kind of number ({', '.join(map(hex, _KINDS))}) and 1 to "
                f"{_MOST_DIMENSIONS} dimensions to be an IDX file, and it begins with "
                f"{zero_1}, {zero_2}, {kind:#x}, {dimensions}."
            )
        shape = bytes_of(stream, 4 * dimensions, str(path)).view(">u4").tolist()
        dtype = np.dtype(_KINDS[kind])
        size = math.prod(shape) * dtype.itemsize
        if not 0 < size <= MOST_BYTES:
            raise InvalidInput(
                f"{path} must announce 1 to {MOST_BYTES:,} bytes of numbers, and it announces {size:,} "
                f"({' × '.join(map(str, shape))})."
            )
        content = bytes_of(stream, size, str(path))
        refuse_more(stream, str(path), size)
    return content.view(dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def names_of(split: str, what: str) -> tuple[str, ...]:
    """The names under which a file is known; `split` is train or t10k, `what` is images or labels."""
    kind = {"images": "idx3-ubyte", "labels": "idx1-ubyte"}[what]
    return tuple(f"{split}-{what}{mark}{kind}{packed}" for mark in "-." for packed in (".gz", ""))


def read_idx_images(folder: Path) -> tuple[Array, Array, Array, Array]:
    """Bytes of the four files of a folder: images (count, 28, 28, 1) and labels to train on, and to test on."""
    paths = [_path(folder, split, what) for split in ("train", "t10k") for what in ("images", "labels")]
    return *_split(*paths[:2]), *_split(*paths[2:])


def _path(folder: Path, split: str, what: str) -> Path:
    names = names_of(split, what)
    path = first_of(folder, names)
    if path is None:
        raise Missing(f"{folder} has no {names[0]}")
    return path


def _split(images_path: Path, labels_path: Path) -> tuple[Array, Array]:
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.dtype != np.uint8 or images.shape[1:] != (SIDE, SIDE):
        raise InvalidInput(
            f"{images_path} must hold bytes of shape (count, {SIDE}, {SIDE}), and it holds {images.dtype} of shape "
            f"{images.shape}."
        )
    if labels.dtype != np.uint8 or labels.shape != (len(images),) or labels.max() >= CLASSES:
        raise InvalidInput(
            f"{labels_path} must hold one byte below {CLASSES} for each of the {len(images):,} images, and it holds "
            f"{labels.dtype} of shape {labels.shape}, up to {labels.max()}."
        )
    return images[..., None], labels
