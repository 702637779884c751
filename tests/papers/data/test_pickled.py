"""The Python batches of CIFAR-10: read as pickle would read them, and hostile ones run nothing and fill no memory.

Each hostile pickle would leave a file behind if it were unpickled; that it would is tried on one of them.
"""

from __future__ import annotations

import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazyrich import InvalidInput
from lazyrich.papers.data import pickled
from lazyrich.papers.data.pickled import read_pickled

from .writing import Python2, memory_below, python_batch


@pytest.fixture
def batch(rng):
    """Pixels and labels of three images."""
    return rng.integers(256, size=(3, 3, 32, 32), dtype=np.uint8), np.array([9, 0, 4], np.uint8)


def refusal(content):
    """The message with which a pickle is refused: one sentence, on one line."""
    with pytest.raises(InvalidInput) as caught:
        read_pickled(content, "data_batch_1")
    message = str(caught.value)
    assert message.startswith("data_batch_1 ") and message.endswith(".") and "\n" not in message
    assert len(message) < 400
    return message


# real ones --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy's, of the name that these files use
def test_as_pickle_reads_it(batch, by_columns):
    content = python_batch(*batch, by_columns=by_columns)
    read, loaded = read_pickled(content, "a"), pickle.loads(content, encoding="bytes")
    assert read.keys() == loaded.keys() == {b"batch_label", b"labels", b"data", b"filenames"}
    np.testing.assert_array_equal(read[b"data"], loaded[b"data"])
    np.testing.assert_array_equal(read[b"data"], batch[0].reshape(3, -1))
    for name in (b"batch_label", b"labels", b"filenames"):
        assert read[name] == loaded[name] and type(read[name]) is type(loaded[name])


def test_a_batch_of_full_size_has_few_enough_opcodes():
    """10,000 names of files and labels; the pixels are one opcode, however many they are."""
    pixels, labels = np.zeros((10_000, 1), np.uint8), np.arange(10_000).astype(np.uint8) % 10
    read = read_pickled(python_batch(pixels, labels), "a")
    assert read[b"labels"] == labels.tolist() and len(read[b"filenames"]) == 10_000


def test_single_items():
    """SETITEM and APPEND, which Python 2 writes where there is one; constants; and the memo read back."""
    assert read_pickled(b"\x80\x02}q\x01U\x06labels]q\x02K\x07as.", "a") == {b"labels": [7]}
    near = b"\x80\x02}(U\x01aq\x01\x88U\x01bh\x01U\x01cNu."
    assert read_pickled(near, "a") == {b"a": True, b"b": b"a", b"c": None}
    far = b"\x80\x02}U\x01ar\x00\x00\x00\xffj\x00\x00\x00\xffM\x00\x01\x86s."
    assert read_pickled(far, "a") == {b"a": (b"a", 256)}


# hostile ones -----------------------------------------------------------------------------------------------


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def command(path) -> bytes:
    """The text of the command as an opcode."""
    text = f"touch {path}".encode()
    return b"T" + struct.pack("<i", len(text)) + text


HOSTILE = {
    "GLOBAL and REDUCE": lambda run: b"\x80\x02cos\nsystem\n" + run + b"\x85R.",
    "the same inside a dictionary": lambda run: b"\x80\x02}U\x04datacos\nsystem\n" + run + b"\x85Rs.",
    "STACK_GLOBAL": lambda run: b"\x80\x04\x8c\x02os\x8c\x06system\x93" + run + b"\x85R.",
    "INST": lambda run: b"(" + run + b"ios\nsystem\n.",
    "OBJ": lambda run: b"(cos\nsystem\n" + run + b"o.",
    "NEWOBJ": lambda run: b"\x80\x02cos\nsystem\n" + run + b"\x85\x81.",
    "NEWOBJ_EX": lambda run: b"\x80\x04cos\nsystem\n" + run + b"\x85}\x92.",
    "BUILD with __setstate__": lambda run: b"\x80\x02cnumpy\nndarray\n}U\x0c__setstate__cos\nsystem\nsb" + run + b"b.",
    "REDUCE of what is not called": lambda run: b"\x80\x02cnumpy\nndarray\n" + run + b"\x85R.",
    "EXT1": lambda run: b"\x80\x02\x82\x01" + run + b"\x85R.",
    "PERSID": lambda run: b"Pos.system\n.",
    "BINPERSID": lambda run: run + b"Q.",
    "another name of NumPy": lambda run: b"\x80\x02cnumpy.testing._private.utils\nrunstring\n(" + run + b"}tR.",
    "eval": lambda run: b"\x80\x02c__builtin__\neval\n" + run + b"\x85R.",
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_nothing_is_run(tmp_path, hostile):
    message = refusal(hostile(command(tmp_path / "made")))
    assert "nothing in it was run" in message and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_run_in_any_protocol(tmp_path, protocol):
    content = pickle.dumps({"data": Touch(tmp_path / "made")}, protocol=protocol)
    refusal(content)
    assert list(tmp_path.iterdir()) == []
    pickle.loads(content)  # whereas this
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_arrays_of_objects_are_refused(batch):
    """An array of objects holds a pickle of its own."""
    hostile = Python2()
    hostile.put(b"}")
    hostile.text(b"data")
    hostile.matrix(batch[0].reshape(3, -1), dtype=b"O8")
    assert "something else than an array of bytes" in refusal(bytes(hostile.content + b"s."))


def four_bytes(shape: bytes, fields: bytes = b"N") -> bytes:
    """A matrix of the four bytes abcd, with its shape and the fields of its dtype as opcodes."""
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NN" + fields + b"tb"
    return b"\x80\x02}U\x04data" + array + b"(K\x01" + shape + kind + b"\x89U\x04abcdtbs."


@pytest.mark.parametrize("shape", [b"K\x01K\x04\x86", b"\x8a\x01\x01K\x04\x86"])
def test_shapes_that_fit(shape):
    np.testing.assert_array_equal(read_pickled(four_bytes(shape), "a")[b"data"], [[97, 98, 99, 100]])


@pytest.mark.parametrize(
    "shape",
    [
        b"K\x02K\x05\x86",
        b"J\xff\xff\xff\xffJ\xfc\xff\xff\xff\x86",
        b"K\x04\x85",
        b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86",
        b"\x88K\x04\x86",
        b"N",
    ],
)
def test_shapes_that_do_not_fit(shape):
    assert "its array is no matrix of bytes, or torn" in refusal(four_bytes(shape))


def test_fields_are_refused():
    assert "it sets the state of something else" in refusal(four_bytes(b"K\x01K\x04\x86", fields=b"}"))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x80\x02" + b"]" * 10**6 + b".", id="lists"),
        pytest.param(b"\x80\x02" + b"(" * 10**6 + b".", id="marks"),
        pytest.param(b"\x80\x02N" + b"\x85" * 10**6 + b".", id="tuples in tuples"),
        pytest.param(b"\x80\x02N" + b"\x85" * 2500 + b".", id="tuples in tuples, but not too many"),
        pytest.param(b"\x80\x02]" + b"q\x00h\x00\x86" * 800 + b".", id="each level twice the one before"),
        pytest.param(b"\x80\x02}]q\x00(" + b"h\x00" * 2500 + b"e.", id="a list of itself"),
        pytest.param(b"\x80\x02]" + b"r\xff\xff\xff\xff" * 2500 + b".", id="the far end of the memo"),
        pytest.param(b"\x80\x02T\xff\xff\xff\x7fabc.", id="a text that announces 2 GiB"),
        pytest.param(b"\x80\x02T\xff\xff\xff\xffabc.", id="a text of negative length"),
        pytest.param(b"\x80\x05\x96" + b"\xff" * 7 + b"\x7f.", id="a bytearray of 8 EiB"),
        pytest.param(b"\x80\x02\x8b\xff\xff\xff\x7f\x01.", id="a number of 2 GiB"),
        pytest.param(b"L" + b"9" * 10**6 + b"L\n.", id="a number of many digits"),
        pytest.param(b"I" + b"x" * 10**5 + b"\n.", id="a number of many letters"),
        pytest.param(b"c" + b"x" * 10**5 + b"\nx\n.", id="a name of many letters"),
    ],
)
def test_memory_is_bounded(monkeypatch, content):
    """In proportion to the number of opcodes that is let through, and that is cut down here."""
    monkeypatch.setattr(pickled, "_MOST_OPCODES", 3000)
    with memory_below(4 * 2**20):
        refusal(content)


@pytest.mark.parametrize(
    "content, why",
    [
        (b"", "it is damaged ("),
        (b"\x80\x02", "it is damaged ("),
        (b"\x80\x02].", "it holds no dictionary"),
        (b"\x80\x02}}.", "it holds no dictionary"),
        (b"\x80\x02.", "it holds no dictionary"),
        (b"\x80\x02}.abc", "3 bytes follow its end"),
        (b"\x80\x02}K\x01K\x02s.", "a name in it is no text"),
        (b"\x80\x02K\x01K\x02a.", "it adds to something that is no list"),
        (b"\x80\x02](U\x01aK\x02u.", "it adds to something that is no dict"),
        (b"\x80\x02}(U\x01au.", "it is damaged ("),
        (b"\x80\x02}h\x07.", "it is damaged ("),
        (b"\x80\x02}e.", "it is damaged ("),
        (b"\x80\x03}C\x04dataK\x01s.", "it uses the opcode SHORT_BINBYTES"),
    ],
)
def test_what_makes_no_sense(content, why):
    assert why in refusal(content)


@given(data=st.data())
def test_a_changed_byte_is_refused_or_read(data):
    content = bytearray(python_batch(np.zeros((2, 3, 2, 2), np.uint8), np.array([1, 2])))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(read_pickled(bytes(content), "a"), dict)
    except InvalidInput as error:
        assert "\n" not in str(error)
