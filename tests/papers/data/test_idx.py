"""IDX files: what is written comes back, and whatever else a file may hold is one sentence."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lazyrich import InvalidInput
from lazyrich.papers.data.idx import MOST_BYTES, read_idx, read_idx_images

from .writing import IDX_KINDS, gzipped, idx, memory_below, mnist_like

ARRAYS = st.sampled_from(sorted(IDX_KINDS)).flatmap(
    lambda kind: hnp.arrays(
        kind, hnp.array_shapes(max_dims=4, max_side=5), elements={"allow_nan": False} if "float" in kind else {}
    )
)
PACK = st.sampled_from([bytes, gzipped])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """One file, written again and again."""
    return tmp_path_factory.mktemp("idx") / "file"


def refusal(path, content=None):
    """The message with which a file is refused: one sentence, on one line, that names it."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        read_idx(path)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message and str(path) in message
    return message


# what is written comes back ---------------------------------------------------------------------------------


@given(array=ARRAYS, pack=PACK)
def test_round_trip(path, array, pack):
    path.write_bytes(pack(idx(array)))
    read = read_idx(path)
    assert read.dtype == array.dtype and read.dtype.isnative
    np.testing.assert_array_equal(read, array)


def test_by_hand(path):
    """2 × 3 numbers of 16 bits, as anybody would write them down."""
    path.write_bytes(bytes.fromhex("00 00 0b 02  00000002 00000003  0001 0002 0003  fffe 0000 7fff"))
    np.testing.assert_array_equal(read_idx(str(path)), [[1, 2, 3], [-2, 0, 32767]])


# damage -----------------------------------------------------------------------------------------------------


@given(array=ARRAYS, pack=PACK, data=st.data())
def test_torn_files(path, array, pack, data):
    content = pack(idx(array))
    refusal(path, content[: data.draw(st.integers(0, len(content) - 1))])


@given(array=ARRAYS, more=st.binary(min_size=1, max_size=9))
def test_bytes_left_over(path, array, more):
    assert "goes on after" in refusal(path, idx(array) + more)
    assert "goes on after" in refusal(path, gzipped(idx(array) + more))


@given(array=ARRAYS, pack=PACK, data=st.data())
def test_a_changed_byte_is_refused_or_changes_numbers_alone(path, array, pack, data):
    """A changed header may announce other numbers of the same size; the numbers of a plain file have no checksum."""
    content = bytearray(pack(idx(array)))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        read = read_idx(path)
    except InvalidInput as error:
        assert str(error).endswith(".") and "\n" not in str(error)
    else:
        assert read.nbytes == array.nbytes
        if pack is gzipped:
            np.testing.assert_array_equal(read, array)


@given(content=st.binary(max_size=60))
def test_anything(path, content):
    path.write_bytes(content)
    try:
        assert read_idx(path).nbytes + 8 <= len(content)
    except InvalidInput as error:
        assert str(error).endswith(".") and "\n" not in str(error)


@pytest.mark.parametrize(
    "header, sentence",
    [
        ("01 00 08 01 00000001", "begins with 1, 0, 0x8, 1"),
        ("00 00 0a 01 00000001", "begins with 0, 0, 0xa, 1"),
        ("00 00 08 00", "begins with 0, 0, 0x8, 0"),
        ("00 00 08 09" + "00000001" * 9, "begins with 0, 0, 0x8, 9"),
        ("00 00 08 02 00000000 ffffffff", "announces 0 (0 × 4294967295)"),
        ("00 00 0e 03 ffffffff ffffffff ffffffff", "announces 633,"),
        ("00 00 08 01 00000002 00", "is torn: 2 bytes are announced, and 1 follow"),
        ("00 00 08 02 00000002 00", "is torn: 8 bytes are announced, and 5 follow"),
    ],
)
def test_headers(path, header, sentence):
    assert sentence in refusal(path, bytes.fromhex(header))


def test_a_header_that_announces_the_most_and_has_nothing(path):
    header = b"\0\0\x08\x01" + struct.pack(">I", MOST_BYTES)
    assert "and 1 follow" in refusal(path, header + b"\0")
    assert "and 1 follow" in refusal(path, gzipped(header + b"\0"))
    assert f"announces {MOST_BYTES + 1:,}" in refusal(path, b"\0\0\x08\x01" + struct.pack(">I", MOST_BYTES + 1))


def test_a_file_that_unpacks_to_more_than_it_announces_fills_no_memory(path):
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(idx(np.zeros((2, 2), np.uint8)))
        for _ in range(64):
            stream.write(bytes(2**20))
    with memory_below(4 * 2**20):
        assert "goes on after the 4 bytes" in refusal(path)


def test_no_file(tmp_path):
    assert "does not exist or is not a file" in refusal(tmp_path)
    assert "does not exist or is not a file" in refusal(tmp_path / "absent")


# a folder of four -------------------------------------------------------------------------------------------


def written(folder, arrays, rename=lambda name: name, pack=bytes):
    for name, array in arrays.items():
        (folder / rename(name)).write_bytes(pack(idx(array)))
    return folder


@pytest.mark.parametrize("pack, suffix", [(bytes, ""), (gzipped, ".gz"), (bytes, ".gz"), (gzipped, "")])
@pytest.mark.parametrize("mark", ["-", "."])
def test_both_names_packed_or_not(tmp_path, rng, mark, pack, suffix):
    """A browser may unpack a file and keep its name: the first bytes say what it is."""
    arrays = mnist_like(rng)
    written(tmp_path, arrays, lambda name: name.replace("-idx", f"{mark}idx") + suffix, pack)
    train_x, train_y, test_x, test_y = read_idx_images(tmp_path)
    np.testing.assert_array_equal(train_x[..., 0], arrays["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(train_y, arrays["train-labels-idx1-ubyte"])
    np.testing.assert_array_equal(test_x[..., 0], arrays["t10k-images-idx3-ubyte"])
    np.testing.assert_array_equal(test_y, arrays["t10k-labels-idx1-ubyte"])
    assert train_x.shape == (7, 28, 28, 1) and test_x.shape == (3, 28, 28, 1)


@pytest.mark.parametrize(
    "name, array, sentence",
    [
        ("train-images-idx3-ubyte", np.zeros((7, 28, 27), np.uint8), "must hold bytes of shape (count, 28, 28)"),
        ("train-images-idx3-ubyte", np.zeros((7, 28, 28), np.int8), "it holds int8 of shape (7, 28, 28)"),
        ("train-images-idx3-ubyte", np.zeros(7, np.uint8), "it holds uint8 of shape (7,)"),
        (
            "train-labels-idx1-ubyte",
            np.zeros(6, np.uint8),
            "for each of the 7 images, and it holds uint8 of shape (6,)",
        ),
        ("t10k-labels-idx1-ubyte", np.full(3, 10, np.uint8), "must hold one byte below 10"),
        ("t10k-labels-idx1-ubyte", np.zeros((3, 1), np.uint8), "it holds uint8 of shape (3, 1)"),
    ],
)
def test_files_that_do_not_fit(tmp_path, rng, name, array, sentence):
    written(tmp_path, mnist_like(rng) | {name: array})
    with pytest.raises(InvalidInput) as caught:
        read_idx_images(tmp_path)
    assert sentence in str(caught.value) and name in str(caught.value)


def test_a_file_is_missing(tmp_path, rng):
    written(tmp_path, mnist_like(rng))
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InvalidInput, match="has no t10k-labels-idx1-ubyte"):
        read_idx_images(tmp_path)
