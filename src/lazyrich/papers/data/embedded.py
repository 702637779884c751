"""Two sets of images that come with scikit-learn, so that the experiments run offline.

`digits` are 1,797 handwritten digits, 8 × 8 pixels of 17 greys: a small MNIST.

`photographs` stand in for CIFAR-10 where first-layer filters are looked at. They are 32 × 32 colour patches of two
photographs, a temple and a flower, and the class is which way their edges run: level, rising, upright or falling. A
patch and its negative are of one class, so no linear map of the pixels will do, and oriented features will. (Which way
up a patch is would be a harder question: much of a flower has no up, and a network that learned it by heart was right
on three in ten of other patches.) The upper three quarters of each photograph give the patches to train on, and the
rest those to test on: no pixel is in both.

The direction is read off the slope of brightness (u to the right, v downwards, blurred over 1.5 pixels), as sums over a
patch: level edges have Σ v² above Σ u², upright ones below; edges that rise to the right have Σ 2uv above 0, falling
ones below. Divided by Σ u² + v², both differences lie between −1 and 1. Patches are taken where one outweighs the other
clearly, half of them straight and half of them slanting, and are then turned by any number of quarters.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from lazyrich._typing import Array

TRAIN_DIGITS = 1500  # the other 297 are to test on
TRAIN_PATCHES, TEST_PATCHES = 6000, 1000
PATCH_SIDE = 32
TRAIN_ROWS = 320  # of 427
EDGES = ("level", "rising", "upright", "falling")  # the classes; a quarter turn goes two on

_SEED = 0  # the data are the same for everybody
_BLUR = 1.5  # pixels
_CLEAR = 0.2  # by which one direction must outweigh the other
_STEEP = 0.01  # brightness per pixel, as a root mean square: where it is less, there is little to be seen


def read_digits() -> tuple[Array, Array, Array, Array]:
    """Greys from 0 to 16 and labels, in an order of their own: writers follow each other in scikit-learn's."""
    found = _package("sklearn.datasets", "digits", "scikit-learn").load_digits()
    order = np.random.default_rng(_SEED).permutation(len(found.images))
    images, labels = found.images[order, ..., None].astype(np.uint8), found.target[order]
    return images[:TRAIN_DIGITS], labels[:TRAIN_DIGITS], images[TRAIN_DIGITS:], labels[TRAIN_DIGITS:]


def read_photographs() -> tuple[Array, Array, Array, Array]:
    """Bytes of patches (count, 32, 32, 3) and which of `EDGES` they have, to train on and to test on."""
    _package("PIL", "photographs", "Pillow")  # with which scikit-learn opens them
    scenes = _package("sklearn.datasets", "photographs", "scikit-learn").load_sample_images().images
    rng = np.random.default_rng(_SEED)
    train = _patches(rng, [scene[:TRAIN_ROWS] for scene in scenes], TRAIN_PATCHES)
    test = _patches(rng, [scene[TRAIN_ROWS:] for scene in scenes], TEST_PATCHES)
    return *train, *test


def _patches(rng: np.random.Generator, parts: Sequence[Array], count: int) -> tuple[Array, Array]:
    """As many patches from each part, straight and slanting, at random places of which no two are the same."""
    found: list[tuple[Array, Array]] = []
    for part in parts:
        windows = np.lib.stride_tricks.sliding_window_view(part, (PATCH_SIDE, PATCH_SIDE), axis=(0, 1))
        level, rising, steep = _edges(part)
        for first, (ours, others) in enumerate([(level, rising), (rising, level)]):
            clear = np.argwhere((abs(ours) - abs(others) >= _CLEAR) & (steep >= _STEEP))
            place = tuple(rng.choice(clear, count // (2 * len(parts)), replace=False).T)
            found.append((windows[place], first + 2 * (ours[place] < 0)))
    patches, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order, turns = rng.permutation(count), rng.integers(4, size=count)
    patches, labels = patches.transpose(0, 2, 3, 1)[order], (labels[order] + 2 * turns) % len(EDGES)
    for quarters in range(4):
        patches[turns == quarters] = np.rot90(patches[turns == quarters], quarters, axes=(1, 2))
    return patches, labels


def _edges(part: Array) -> tuple[Array, Array, Array]:
    """For each place of a patch: level against upright edges, rising against falling ones, and how steep they are."""
    grey = part.mean(axis=-1) / 255
    u, v = (gaussian_filter(grey, _BLUR, order=order, mode="nearest") for order in ((0, 1), (1, 0)))
    uu, vv, uv = (_sums(product) for product in (u * u, v * v, u * v))
    total = uu + vv + 1e-12  # some of the sky is all white
    return (vv - uu) / total, 2 * uv / total, np.sqrt(total) / PATCH_SIDE


def _sums(values: Array) -> Array:
    """Sums over all patches, by differences of sums from the corner."""
    corner = np.pad(values.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    side = PATCH_SIDE
    return corner[side:, side:] - corner[:-side, side:] - corner[side:, :-side] + corner[:-side, :-side]


def _package(module: str, wanted_by: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"the images {wanted_by!r} need {package}: pip install 'lazyrich[experiments]'.") from None
