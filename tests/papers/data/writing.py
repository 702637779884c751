"""Small files in the standard formats, written byte by byte and with none of the readers' code."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

BATCHES = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]
IDX_KINDS = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}


@contextmanager
def memory_below(most: int) -> Iterator[None]:
    """At no time may so many bytes be taken."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


def idx(array: np.ndarray) -> bytes:
    """An IDX file, number by number."""
    code = {"uint8": "B", "int8": "b", "int16": "h", "int32": "i", "float32": "f", "float64": "d"}[array.dtype.name]
    header = struct.pack(">BBBB", 0, 0, IDX_KINDS[array.dtype.name], array.ndim)
    header += b"".join(struct.pack(">I", size) for size in array.shape)
    return header + b"".join(struct.pack(f">{code}", number) for number in array.ravel().tolist())


def mnist_like(rng: np.random.Generator, train: int = 7, test: int = 3) -> dict[str, np.ndarray]:
    """Arrays by the names of their files."""
    arrays = {}
    for split, count in (("train", train), ("t10k", test)):
        arrays[f"{split}-images-idx3-ubyte"] = rng.integers(256, size=(count, 28, 28), dtype=np.uint8)
        arrays[f"{split}-labels-idx1-ubyte"] = rng.integers(10, size=count, dtype=np.uint8)
    return arrays


def cifar_like(rng: np.random.Generator, count: int = 3) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pixels (count, 3, 32, 32) and labels of each batch."""
    return {
        name: (rng.integers(256, size=(count, 3, 32, 32), dtype=np.uint8), rng.integers(10, size=count, dtype=np.uint8))
        for name in BATCHES
    }


def binary_batch(pixels: np.ndarray, labels: np.ndarray) -> bytes:
    """A batch of the binary version: a label and 3,072 pixels, image by image."""
    return b"".join(bytes([label]) + image.tobytes() for image, label in zip(pixels, labels.tolist(), strict=True))


def archive(members: dict[str, bytes], kind: int = tarfile.GNU_FORMAT) -> bytes:
    """A .tar.gz file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=kind) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


# pickles, as cPickle of Python 2 wrote them with protocol 2 ------------------------------------------------------


class Python2:
    """Opcodes one after the other; everything that is not a number is put into the memo, from place 1 on."""

    def __init__(self) -> None:
        self.content, self.puts = bytearray(b"\x80\x02"), 0

    def put(self, content: bytes) -> None:
        self.puts += 1
        self.content += content + (
            b"q" + bytes([self.puts]) if self.puts < 256 else b"r" + struct.pack("<I", self.puts)
        )

    def text(self, text: bytes) -> None:
        self.put(b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<i", len(text)) + text)

    def number(self, value: int) -> None:
        if 0 <= value < 256:
            self.content += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self.content += b"M" + struct.pack("<H", value)
        else:
            self.content += b"J" + struct.pack("<i", value)

    def matrix(self, pixels: np.ndarray, *, dtype: bytes = b"u1", by_columns: bool = False) -> None:
        self.put(b"cnumpy.core.multiarray\n_reconstruct\n")
        self.put(b"cnumpy\nndarray\n")
        self.number(0)
        self.put(b"\x85")  # TUPLE1
        self.text(b"b")
        self.put(b"\x87")  # TUPLE3
        self.put(b"R")
        self.content += b"("
        self.number(1)
        for size in pixels.shape:
            self.number(size)
        self.put(b"\x86")  # TUPLE2
        self.put(b"cnumpy\ndtype\n")
        self.text(dtype)
        self.number(0)
        self.number(1)
        self.put(b"\x87")
        self.put(b"R")
        self.content += b"("
        self.number(3)
        self.text(b"|")
        self.content += b"NNN"
        self.number(-1)
        self.number(-1)
        self.number(0)
        self.put(b"t")
        self.content += b"b" + (b"\x88" if by_columns else b"\x89")
        self.text(pixels.tobytes(order="F" if by_columns else "C"))
        self.put(b"t")
        self.content += b"b"

    def items(self, write, values) -> None:
        """A list; cPickle adds to it in lots of a thousand."""
        self.put(b"]")
        for start in range(0, len(values), 1000):
            self.content += b"("
            for value in values[start : start + 1000]:
                write(value)
            self.content += b"e"


def python_batch(pixels: np.ndarray, labels: np.ndarray, *, by_columns: bool = False) -> bytes:
    """A batch of the Python version, with its keys in the order of the original."""
    pickle = Python2()
    pickle.put(b"}")
    pickle.content += b"("
    pickle.text(b"batch_label")
    pickle.text(b"training batch 1 of 5")
    pickle.text(b"labels")
    pickle.items(pickle.number, labels.tolist())
    pickle.text(b"data")
    pickle.matrix(pixels.reshape(len(pixels), int(np.prod(pixels.shape[1:]))), by_columns=by_columns)
    pickle.text(b"filenames")
    pickle.items(pickle.text, [b"image_s_%06d.png" % number for number in range(len(pixels))])
    return bytes(pickle.content + b"u.")
