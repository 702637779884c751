"""Images by name, as the experiments want them: brightness from 0 to 1, and classes as whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lazyrich import InvalidInput, _check, _files
from lazyrich._typing import Array, Float
from lazyrich.papers.data.cifar import read_cifar10
from lazyrich.papers.data.embedded import read_digits, read_photographs
from lazyrich.papers.data.files import FOLDER_VARIABLE, Missing, folder_of
from lazyrich.papers.data.idx import read_idx_images

Arrays = tuple[Array, Array, Array, Array]  # as in `Images`

_EMBEDDED: dict[str, tuple[Callable[[], Arrays], int]] = {
    "digits": (read_digits, 16),
    "photographs": (read_photographs, 255),
}
_STORED: dict[str, Callable[[Path], Arrays]] = {
    "mnist": read_idx_images,
    "fashion-mnist": read_idx_images,
    "cifar10": read_cifar10,
}


class Images(NamedTuple):
    """Images (count, rows, columns, colours), float32 in [0, 1], and their classes, int32. Not to be written to."""

    train_x: Float[Array, "train rows columns colours"]
    train_y: Array
    test_x: Float[Array, "test rows columns colours"]
    test_y: Array


def images(name: str) -> Images:
    """The images to train and to test on: "digits", "photographs", "mnist", "fashion-mnist" or "cifar10".

    The first two come with scikit-learn. The others are read from the folder $LAZYRICH_DATA/<name>, or
    ~/.cache/lazyrich/<name>, where `download` puts them. They are read once, and kept.

    >>> digits = images("digits")
    >>> digits.train_x.shape, digits.test_x.shape
    ((1500, 8, 8, 1), (297, 8, 8, 1))
    >>> digits.train_x.dtype, float(digits.train_x.max()), digits.train_y.dtype, int(digits.train_y.max())
    (dtype('float32'), 1.0, dtype('int32'), 9)
    >>> images("photographs").train_x.shape
    (6000, 32, 32, 3)
    """
    name = _check.choice("name", name, (*_EMBEDDED, *_STORED))
    return _embedded(name) if name in _EMBEDDED else _stored(name, folder_of(name))


def enough_images(name: str, samples: int) -> Images:
    """The images, if there are so many to train on."""
    found = images(name)
    if len(found.train_y) < samples:
        raise InvalidInput(
            f"samples must be at most {len(found.train_y):,}, as {name} has them, and it is {samples:,}."
        )
    return found


@lru_cache
def _embedded(name: str) -> Images:
    read, white = _EMBEDDED[name]
    return _as_images(read(), white)


@lru_cache(maxsize=2)  # CIFAR-10 takes 740 MB
def _stored(name: str, folder: Path) -> Images:
    try:
        with _files.faults_of(folder, name):
            return _as_images(_STORED[name](folder), 255)
    except Missing as missing:
        raise InvalidInput(
            f"{missing}: lazyrich.papers.data.download({name!r}) fetches it, or {FOLDER_VARIABLE} may be set to a "
            f"folder whose {name} has it."
        ) from None


def _as_images(raw: tuple[Array, Array, Array, Array], white: int) -> Images:
    train_x, train_y, test_x, test_y = raw
    made = Images(
        _brightness(train_x, white), train_y.astype(np.int32), _brightness(test_x, white), test_y.astype(np.int32)
    )
    for array in made:
        array.flags.writeable = False  # everybody gets the same ones
    return made


def _brightness(pixels: Array, white: int) -> Array:
    return np.divide(pixels, white, dtype=np.float32, order="C")
