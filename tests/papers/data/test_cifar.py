"""CIFAR-10 from both versions of its batches and from both archives; whatever else they hold is one sentence."""

from __future__ import annotations

import gzip
import io
import tarfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazyrich import InvalidInput
from lazyrich.papers.data.cifar import read_cifar10

from .writing import BATCHES, archive, binary_batch, cifar_like, gzipped, memory_below, python_batch

VERSIONS = {
    "binary": (binary_batch, ".bin", "cifar-10-batches-bin"),
    "python": (python_batch, "", "cifar-10-batches-py"),
}


def members(batches, version, folder=""):
    """The files of a version by name, with others that come along."""
    write, suffix, _ = VERSIONS[version]
    files = {f"{folder}{name}{suffix}": write(*batch) for name, batch in batches.items()}
    return {f"{folder}readme.html": b"<html>", **files, f"{folder}batches.meta": b"c__builtin__\nexit\n(tR."}


def check(read, batches):
    """Image by image and colour by colour."""
    train_x, train_y, test_x, test_y = read
    pixels = [image for name in BATCHES[:5] for image in batches[name][0]]
    assert train_x.shape == (len(pixels), 32, 32, 3)
    for image, wanted in zip(train_x, pixels, strict=True):
        for colour in range(3):
            np.testing.assert_array_equal(image[..., colour], wanted[colour])
    assert train_y.tolist() == [label for name in BATCHES[:5] for label in batches[name][1].tolist()]
    np.testing.assert_array_equal(test_x[1, 2, 3], batches["test_batch"][0][1, :, 2, 3])
    assert test_y.tolist() == batches["test_batch"][1].tolist()


def refusal(folder):
    with pytest.raises(InvalidInput) as caught:
        read_cifar10(folder)
    message = str(caught.value)
    assert "\n" not in message and str(folder) in message
    return message


# real ones --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("beside", [False, True], ids=["in a folder", "beside others"])
def test_batches(tmp_path, rng, version, beside):
    batches, folder = cifar_like(rng), tmp_path if beside else tmp_path / VERSIONS[version][2]
    folder.mkdir(exist_ok=True)
    for name, content in members(batches, version).items():
        (folder / name).write_bytes(content)
    check(read_cifar10(tmp_path), batches)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["ustar", "gnu", "pax"]
)
def test_archives(tmp_path, rng, version, kind):
    batches = cifar_like(rng)
    files = {"a long name " * 20: b"1234", **members(batches, version, f"{VERSIONS[version][2]}/")}
    if kind == tarfile.USTAR_FORMAT:
        files.pop("a long name " * 20)
    (tmp_path / f"cifar-10-{version}.tar.gz").write_bytes(archive(files, kind))
    check(read_cifar10(tmp_path), batches)
    assert [path.name for path in tmp_path.iterdir()] == [f"cifar-10-{version}.tar.gz"]  # nothing is unpacked


# damaged ones -----------------------------------------------------------------------------------------------


def test_nothing_there(tmp_path):
    assert refusal(tmp_path) == f"{tmp_path} has no cifar-10-binary.tar.gz"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_is_missing(tmp_path, rng, version):
    files = members(cifar_like(rng), version)
    missing = next(name for name in files if "data_batch_4" in name)
    content = files.pop(missing)
    for name in files:
        (tmp_path / name).write_bytes(files[name])
    assert f"{missing} cannot be read: No such file" in refusal(tmp_path)
    (tmp_path / missing).mkdir()
    assert f"{missing} cannot be read: Is a directory" in refusal(tmp_path)
    (tmp_path / missing).rmdir()
    (tmp_path / missing).write_bytes(content)
    read_cifar10(tmp_path)


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"", "must have 1 to 34,000,000 bytes"),
        (bytes(3073 * 2 + 1), "must have 3,073 bytes for each image, and it has 6,147 in all"),
        (bytes(3073) + b"\x0a" + bytes(3072), "must have labels below 10, and the largest is 10"),
        (bytes(3073 * 10_001), "must have 1 to 10,000 images, and it has 10,001"),
        (bytes(34_000_001), "and it has 34,000,001"),
    ],
)
def test_binary_batches_that_do_not_fit(tmp_path, content, sentence):
    (tmp_path / "data_batch_1.bin").write_bytes(content)
    assert sentence in refusal(tmp_path)


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"\x80\x02}.", "must have a matrix of bytes with 3,072 columns under the name data"),
        (b"\x80\x02}U\x04dataU\x04datas.", "must have a matrix of bytes"),
        (python_batch(np.zeros((2, 3, 32, 31), np.uint8), np.zeros(2, int)), "must have a matrix of bytes"),
        (python_batch(np.zeros((2, 3, 32, 32), np.uint8), np.zeros(3, int)), "must have a list of 2 whole numbers"),
        (python_batch(np.zeros((2, 3, 32, 32), np.uint8), np.array([1, 10])), "must have a list of 2 whole numbers"),
        (python_batch(np.zeros((2, 3, 32, 32), np.uint8), np.array([1, -1])), "must have a list of 2 whole numbers"),
        (
            python_batch(np.zeros((0, 3, 32, 32), np.uint8), np.zeros(0, int)),
            "must have 1 to 10,000 images, and it has 0",
        ),
        (b"cos\nsystem\n(S'true'\ntR.", "asks for 'os system'"),
        (b"\x80\x02", "data_batch_1 is no batch of CIFAR-10: it is damaged"),
    ],
)
def test_python_batches_that_do_not_fit(tmp_path, content, sentence):
    (tmp_path / "data_batch_1").write_bytes(content)
    assert sentence in refusal(tmp_path)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """An archive, written again and again."""
    return tmp_path_factory.mktemp("cifar") / "cifar-10-binary.tar.gz"


TAR = gzip.decompress(archive(members(cifar_like(np.random.default_rng(0), count=1), "binary")))


@settings(max_examples=50)
@given(data=st.data())
def test_torn_archives(path, data):
    packed = gzipped(TAR)
    path.write_bytes(packed[: data.draw(st.integers(0, len(packed) - 1))])
    refusal(path.parent)


@settings(max_examples=100)
@given(data=st.data())
def test_a_changed_header_is_refused_or_read(path, data):
    content = bytearray(TAR)
    headers = [at for at in range(0, len(TAR), 512) if TAR[at + 257 : at + 262] == b"ustar"]
    content[data.draw(st.sampled_from(headers)) + data.draw(st.integers(0, 511))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(gzipped(bytes(content)))
    try:
        assert len(read_cifar10(path.parent)[0]) == 5
    except InvalidInput as error:
        assert "\n" not in str(error)


def tar_of(*infos):
    """An archive, plain, of headers with contents; headers may say anything."""
    content = b"".join(info.tobuf(tarfile.GNU_FORMAT) + data for info, data in infos)
    return content + bytes(1024)


def member(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info


@pytest.mark.parametrize(
    "content, sentence",
    [
        (tar_of((member("data_batch_1.bin", 3072), bytes(3072))), "must have 3,073 bytes for each image"),
        (tar_of((member("data_batch_1.bin", 0), b"")), "data_batch_1.bin in"),
        (tar_of((member("data_batch_1.bin", 8_000_000_000), b"")), "must unpack to at most 268,435,456 bytes"),
        (tar_of((member("data_batch_1.bin", 2**40), b"")), "damaged or not a valid .tar.gz file"),
        (tar_of((member("data_batch_1.bin", 200_000_000), b"")), "must have 1 to 34,000,000 bytes"),
        (tar_of((member("data_batch_1.bin", 3073), b"")), "is torn"),
        (tar_of((member("x", 2**33 - 1, tarfile.XHDTYPE), b"")), "must unpack to at most"),
        (tar_of((member("data_batch_1.bin", 0, tarfile.SYMTYPE), b"")), "must hold six batches, and data_batch_1 and"),
        (tar_of(*2 * [(member("data_batch_1.bin", 3073), bytes(3584))]), "holds data_batch_1 twice"),
        (TAR + b"more", "goes on after its end"),
        (b"PK\3\4" + bytes(600), "the checksum of a member is not that of its header"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzipped])
def test_archives_that_do_not_fit(path, content, sentence, pack):
    path.write_bytes(pack(content))
    assert sentence in refusal(path.parent)


def test_an_archive_that_unpacks_to_much_fills_no_memory(path):
    """A header as `tarfile` would take into memory whole: 200 MB that are packed into 200 kB."""
    zeros, packed = bytes(2**20), io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as stream:
        stream.write(member("x", 200 * 2**20, tarfile.XHDTYPE).tobuf(tarfile.GNU_FORMAT))
        for _ in range(200):
            stream.write(zeros)
        stream.write(bytes(1024))
    path.write_bytes(packed.getvalue())
    with memory_below(8 * 2**20):
        assert "must hold six batches" in refusal(path.parent)
