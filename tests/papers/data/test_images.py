"""Images by name: what they hold, where they come from, and one sentence where they are not."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import sklearn.datasets

from lazyrich import InvalidInput
from lazyrich.papers.data import Images, folder_of, images
from lazyrich.papers.data.embedded import read_digits, read_photographs

from .writing import BATCHES, archive, binary_batch, cifar_like, gzipped, idx, mnist_like


@pytest.mark.parametrize("name", ["digits", "photographs"])
def test_embedded_images(name):
    found = images(name)
    assert isinstance(found, Images) and images(name) is found
    for x, y in ((found.train_x, found.train_y), (found.test_x, found.test_y)):
        assert x.dtype == np.float32 and y.dtype == np.int32 and x.flags.c_contiguous
        assert x.ndim == 4 and y.shape == (len(x),)
        assert x.min() == 0 and x.max() == 1
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 0
        with pytest.raises(ValueError, match="read-only"):
            y[0] = 0


# digits -----------------------------------------------------------------------------------------------------


def test_every_digit_is_there_once():
    found, original = images("digits"), sklearn.datasets.load_digits()
    assert (len(found.train_y), len(found.test_y)) == (1500, 297)
    pixels = np.concatenate([found.train_x, found.test_x]).reshape(1797, 64) * 16
    rows = np.column_stack([pixels, np.concatenate([found.train_y, found.test_y])])
    wanted = np.column_stack([original.data, original.target])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, wanted.tolist()))
    assert min(np.bincount(found.test_y)) > 20  # and all ten are in both parts


# photographs ------------------------------------------------------------------------------------------------


def places(scene, patch):
    """Rows at which a patch stands in a photograph, turned any way."""
    rows = []
    for quarters in range(4):
        turned = np.rot90(patch, quarters)
        corners = np.argwhere((scene[:-31, :-31] == turned[0, 0]).all(-1))
        rows += [r for r, c in corners if np.array_equal(scene[r : r + 32, c : c + 32], turned)]
    return rows


def test_patches_are_of_the_photographs_and_no_pixel_is_in_both_parts(rng):
    found, scenes = images("photographs"), sklearn.datasets.load_sample_images().images
    for x, first, last in ((found.train_x, 0, 320), (found.test_x, 320, 427)):
        for patch in np.rint(x[rng.choice(len(x), 8, replace=False)] * 255).astype(np.uint8):
            rows = [row for scene in scenes for row in places(scene, patch)]
            assert rows and min(rows) >= first and max(rows) + 32 <= last


def direction(patch):
    """Which way the edges of a patch run, from the slopes between its pixels: another way to the same answer."""
    grey = patch.mean(-1)
    smooth = sum(grey[i : i + 29, j : j + 29] for i in range(4) for j in range(4))
    right, down = np.diff(smooth, axis=1)[:-1], np.diff(smooth, axis=0)[:, :-1]
    twice = np.angle(np.sum((right + 1j * down) ** 2))  # the angle of the slope, doubled: π where it goes down or up
    return round(2 - twice / (np.pi / 2)) % 4


def test_labels_say_which_way_edges_run():
    found = images("photographs")
    assert found.train_x.shape == (6000, 32, 32, 3) and found.test_x.shape == (1000, 32, 32, 3)
    for x, y in ((found.train_x[:1000], found.train_y[:1000]), (found.test_x, found.test_y)):
        seen = np.array([direction(patch) for patch in x])
        assert np.mean(seen == y) > 0.9


def test_as_many_patches_of_each_kind():
    for labels in (images("photographs").train_y, images("photographs").test_y):
        assert np.mean(labels % 2) == 0.5  # straight and slanting
        assert np.abs(np.bincount(labels, minlength=4) / len(labels) - 0.25).max() < 0.03


def test_no_linear_map_will_do():
    """A patch and its negative have the same edges: least squares on the greys is little better than chance."""
    found = images("photographs")
    train, test = (x.mean(-1).reshape(len(x), -1) - 0.5 for x in (found.train_x, found.test_x))
    gram = train.T @ train + 10 * np.eye(1024, dtype=np.float32)
    weights = np.linalg.solve(gram, train.T @ (np.eye(4, dtype=np.float32)[found.train_y] - 0.25))
    assert np.mean((test @ weights).argmax(1) == found.test_y) < 0.45


@pytest.mark.parametrize(
    "read, missing, package",
    [
        (read_digits, "sklearn.datasets", "scikit-learn"),
        (read_photographs, "sklearn.datasets", "scikit-learn"),
        (read_photographs, "PIL", "Pillow"),
    ],
)
def test_a_missing_package(monkeypatch, read, missing, package):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"need {package}: pip install 'lazyrich\[experiments\]'\.$"):
        read()


# standard files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_files(tmp_path, monkeypatch, rng, name):
    arrays = mnist_like(rng)
    (tmp_path / name).mkdir()
    for file, array in arrays.items():
        (tmp_path / name / f"{file}.gz").write_bytes(gzipped(idx(array)))
    monkeypatch.setenv("LAZYRICH_DATA", str(tmp_path))
    found = images(name)
    assert images(name) is found
    np.testing.assert_array_equal(
        found.train_x[..., 0], np.float32(arrays["train-images-idx3-ubyte"]) / np.float32(255)
    )
    np.testing.assert_array_equal(found.test_y, arrays["t10k-labels-idx1-ubyte"])
    assert found.train_x.dtype == np.float32 and found.test_y.dtype == np.int32


def test_cifar10(tmp_path, monkeypatch, rng):
    batches = cifar_like(rng)
    (tmp_path / "cifar10").mkdir()
    files = {f"cifar-10-batches-bin/{name}.bin": binary_batch(*batches[name]) for name in BATCHES}
    (tmp_path / "cifar10" / "cifar-10-binary.tar.gz").write_bytes(archive(files))
    monkeypatch.setenv("LAZYRICH_DATA", str(tmp_path))
    found = images("cifar10")
    assert found.train_x.shape == (15, 32, 32, 3) and found.train_x.flags.c_contiguous
    np.testing.assert_array_equal(
        found.test_x[2, 5, 7], np.float32(batches["test_batch"][0][2, :, 5, 7]) / np.float32(255)
    )


def test_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LAZYRICH_DATA", raising=False)
    assert folder_of("mnist") == tmp_path / ".cache" / "lazyrich" / "mnist"
    monkeypatch.setenv("LAZYRICH_DATA", "")
    assert folder_of("mnist") == tmp_path / ".cache" / "lazyrich" / "mnist"
    monkeypatch.setenv("LAZYRICH_DATA", "~/data")
    assert folder_of("mnist") == tmp_path / "data" / "mnist"


@pytest.mark.parametrize("name, file", [("mnist", "train-images-idx3-ubyte.gz"), ("cifar10", "cifar-10-binary.tar.gz")])
def test_files_that_are_not_there(tmp_path, monkeypatch, name, file):
    monkeypatch.setenv("LAZYRICH_DATA", str(tmp_path))
    for _ in range(2):  # without the folder, and with it
        with pytest.raises(InvalidInput) as caught:
            images(name)
        assert str(caught.value) == (
            f"{tmp_path / name} has no {file}: lazyrich.papers.data.download({name!r}) fetches it, "
            f"or LAZYRICH_DATA may be set to a folder whose {name} has it."
        )
        (tmp_path / name).mkdir(exist_ok=True)


def test_an_unknown_name(unchecked_shapes):
    with pytest.raises(InvalidInput, match=r"name must be one of 'digits', .* \(did you mean 'cifar10'\?\)\.$"):
        images("cifar-10")
    with pytest.raises(InvalidInput, match="name must be one of"):
        images(7)
