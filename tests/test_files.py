"""Files of every format that can be read, and one sentence for each kind that cannot."""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

from lazyrich import InvalidInput, _files
from lazyrich._files import output_path, read_data_file, read_matrix_file, read_network_file, write_atomically


@pytest.fixture
def W(rng):
    """Two layers, 3-4-2."""
    return rng.normal(size=(4, 3)), rng.normal(size=(2, 4))


def refusal(read, *arguments):
    """The message with which something is refused: one sentence, on one line."""
    with pytest.raises(InvalidInput) as caught:
        read(*arguments)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message
    return message


def same(got, want):
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


# networks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("W1", "W2"), ("fc9", "fc10"), ("net.0.weight", "net.2.weight")])
def test_layers_are_ordered_by_their_numbers(tmp_path, W, names):
    np.savez(tmp_path / "a.npz", **dict(zip(reversed(names), reversed(W), strict=True)))
    same(read_network_file(tmp_path / "a.npz").weights, W)
    save_file(dict(zip(reversed(names), reversed(W), strict=True)), tmp_path / "a.safetensors")
    same(read_network_file(tmp_path / "a.safetensors").weights, W)


def test_unnamed_and_compressed_arrays(tmp_path, W):
    np.savez(tmp_path / "a.npz", *W)
    np.savez_compressed(tmp_path / "b.npz", *W)
    same(read_network_file(tmp_path / "a.npz").weights, W)
    same(read_network_file(str(tmp_path / "b.npz")).weights, W)


def test_layers_without_numbers_are_ordered_by_the_only_order_that_fits(tmp_path, W):
    np.savez(tmp_path / "a.npz", decoder=W[1], encoder=W[0])
    same(read_network_file(tmp_path / "a.npz").weights, W)


def test_layers_that_fit_in_two_orders_must_be_named(tmp_path, rng):
    encoder, decoder = rng.normal(size=(4, 3)), rng.normal(size=(3, 4))
    np.savez(tmp_path / "a.npz", decoder=decoder, encoder=encoder)
    assert "fit in more than one order (decoder, encoder): --layers" in refusal(read_network_file, tmp_path / "a.npz")
    same(read_network_file(tmp_path / "a.npz", ["encoder", "decoder"]).weights, (encoder, decoder))
    same(read_network_file(tmp_path / "a.npz", ["decoder", "encoder"]).weights, (decoder, encoder))


def test_numbers_of_different_parts_are_not_compared(tmp_path, rng):
    square = rng.normal(size=(3, 3))
    np.savez(tmp_path / "a.npz", **{"encoder.1": square, "decoder.0": square})
    assert "more than one order" in refusal(read_network_file, tmp_path / "a.npz")


def test_layers_in_no_order_at_all(tmp_path, W):
    np.savez(tmp_path / "a.npz", a=W[0], b=W[0])
    assert "do not say the order" in refusal(read_network_file, tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", W1=W[1], W2=W[0])
    message = refusal(read_network_file, tmp_path / "b.npz")
    assert "do not fit in the order W1, W2: W1 gives 2 numbers and W2 takes 3" in message


def test_many_nameless_layers_are_not_tried_in_all_orders(tmp_path):
    names = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    np.savez(tmp_path / "a.npz", **dict.fromkeys(names, np.eye(2)))
    assert "do not say the order of the layers" in refusal(read_network_file, tmp_path / "a.npz")


def test_layers_named_wrongly(tmp_path, W):
    np.savez(tmp_path / "a.npz", first=W[0], second=W[1])
    assert "did you mean 'second'?" in refusal(read_network_file, tmp_path / "a.npz", ["first", "secnd"])
    assert "once" in refusal(read_network_file, tmp_path / "a.npz", ["first", "first"])
    assert "once" in refusal(read_network_file, tmp_path / "a.npz", [])


@pytest.mark.parametrize(
    "names",
    [
        ("0.weight", "0.bias", "2.weight", "2.bias"),
        ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"),
        ("net.encoder.weight", "net.encoder.bias", "net.decoder.weight", "net.decoder.bias"),
        ("W1", "b1", "W2", "b2"),
        ("weight_1", "bias_1", "weight_2", "bias_2"),
        ("weights1", "biases1", "weights2", "biases2"),
    ],
)
def test_biases_stand_beside_their_layers(tmp_path, rng, W, names):
    b = rng.normal(size=4), rng.normal(size=2)
    state = dict(zip(names, (W[0], b[0], W[1], b[1]), strict=True))
    backwards = dict(reversed(state.items()))
    save_file(backwards, tmp_path / "a.safetensors")
    np.savez(tmp_path / "a.npz", **backwards)
    for path in (tmp_path / "a.safetensors", tmp_path / "a.npz"):
        for layers in (None, [names[0], names[2]]):
            found = read_network_file(path, layers)
            same(found.weights, W)
            same(found.biases, b)


def test_biases_of_some_layers_are_refused(tmp_path, W):
    np.savez(tmp_path / "b.npz", W1=W[0], W2=W[1], b1=np.zeros(4))
    message = refusal(read_network_file, tmp_path / "b.npz")
    assert "must hold a bias for every layer or for none, and it holds b1 and none for W2: try zeros(2)" in message
    np.savez(tmp_path / "c.npz", W1=W[0], W2=W[1], b1=np.zeros(3), b2=np.zeros(2))
    assert "b1 in" in (message := refusal(read_network_file, tmp_path / "c.npz"))
    assert "one number per output of W1 (4), and it has shape (3,)" in message
    np.savez(tmp_path / "d.npz", W1=W[0], W2=W[1], b1=np.zeros(4), b2=np.full(2, np.nan))
    assert "b2 in" in refusal(read_network_file, tmp_path / "d.npz")
    np.savez(tmp_path / "e.npz", b1=np.zeros(4))
    assert "has shape (4,), and layers are matrices" in refusal(read_network_file, tmp_path / "e.npz")


def test_other_parts_of_a_file_may_be_left_aside_by_name(tmp_path, W):
    state = {"net.0": W[0], "net.1": W[1], "norm.bias": np.zeros(4), "conv": np.zeros((2, 2, 2))}
    np.savez(tmp_path / "a.npz", **state)
    same(read_network_file(tmp_path / "a.npz", ["net.0", "net.1"]).weights, W)
    del state["norm.bias"]
    np.savez(tmp_path / "b.npz", **state)
    assert "conv in" in (message := refusal(read_network_file, tmp_path / "b.npz"))
    assert "has shape (2, 2, 2), and layers are matrices" in message


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_precision_of_the_file_is_kept(tmp_path, W, dtype):
    stored = {f"W{i}": layer.astype(dtype) for i, layer in enumerate(W)}
    np.savez(tmp_path / "a.npz", **stored)
    save_file(stored, tmp_path / "a.safetensors")
    for suffix in ("npz", "safetensors"):
        assert [layer.dtype for layer in read_network_file(tmp_path / f"a.{suffix}").weights] == [dtype, dtype]


def test_whole_numbers_become_float64(tmp_path):
    np.savez(tmp_path / "a.npz", W1=np.eye(2, dtype=np.int8), W2=np.ones((1, 2), dtype=bool))
    assert [layer.dtype for layer in read_network_file(tmp_path / "a.npz").weights] == ["float64", "float64"]


def test_weights_that_are_not_finite(tmp_path):
    np.savez(tmp_path / "a.npz", W1=np.array([[1.0, np.nan]]))
    assert "W1 in" in (message := refusal(read_network_file, tmp_path / "a.npz"))
    assert "1 of its 2 entries are NaN or infinite" in message


# data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [("inputs", "targets"), ("X", "Y"), ("x", "y")])
def test_data_by_their_names(tmp_path, rng, keys):
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    np.savez(tmp_path / "a.npz", **dict(zip(keys, (X, Y), strict=True)))
    same(read_data_file(tmp_path / "a.npz", 3, 2)[:2], (X, Y))


@pytest.mark.parametrize("header", ["", "a,b,c,u,v\n", "\ufeffa,b,c,u,v\r\n", '"a","b","c","u","v"\n'])
def test_data_in_columns(tmp_path, rng, header):
    table = rng.normal(size=(4, 5))
    lines = "\n".join(",".join(f" {number!r}" for number in row.tolist()) for row in table)
    (tmp_path / "a.csv").write_text(f"{header}{lines}\n\n", encoding="utf-8")
    same(read_data_file(tmp_path / "a.csv", 3, 2)[:2], (table[:, :3], table[:, 3:]))


def test_one_column_may_be_a_vector(tmp_path, rng):
    X, y = rng.normal(size=(5, 3)), rng.normal(size=5)
    np.savez(tmp_path / "a.npz", X=X, Y=y)
    same(read_data_file(tmp_path / "a.npz", 3, 1)[:2], (X, y[:, None]))
    assert "must be a matrix, and it has shape (5,)" in refusal(read_data_file, tmp_path / "a.npz", 3, 2)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"inputs": np.ones((5, 3))}, "(or X and Y), or inputs and labels, and it holds inputs."),
        ({"inputs": np.ones((3, 5)), "targets": np.ones((5, 2))}, "must have 3 columns, as the network has 3 inputs"),
        ({"inputs": np.ones((5, 3)), "targets": np.ones((5, 3))}, "must have 2 columns, as the network has 2 outputs"),
        ({"X": np.ones((5, 3)), "Y": np.ones((4, 2))}, "one row of Y per row of X (5), and it has 4"),
        ({"X": np.full((5, 3), np.inf), "Y": np.ones((5, 2))}, "15 of its 15 entries are NaN or infinite"),
        ({"X": np.ones((0, 3)), "Y": np.ones((0, 2))}, "is empty"),
        ({"X": np.array([["a"] * 3]), "Y": np.ones((1, 2))}, "must hold real numbers, and it has dtype <U1"),
        ({"X": np.ones((5, 3), complex), "Y": np.ones((5, 2))}, "must hold real numbers, and it has dtype complex128"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit(tmp_path, arrays, says):
    np.savez(tmp_path / "a.npz", **arrays)
    message = refusal(read_data_file, tmp_path / "a.npz", 3, 2)
    assert says in message and str(tmp_path / "a.npz") in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "1,2,3\n",
            "must have 3 columns of inputs and then 2 of targets, or one of labels, as the network has, and there "
            "are 3",
        ),
        ("1;2;3;4;5\n6;7;8;9;1\n", "semicolons in its first line: columns are separated by commas."),
        ("1,5;2,5\n", "semicolons in its first line: columns are separated by commas."),
        ("a b\n1\n", "and there are 1; columns are separated by commas."),
        ("1_0,2,3,4,5\n", "column 1 of line 1 holds '1_0'"),
        ("1,2,3,4,٥\n", "column 5 of line 1 holds '٥'"),
        ("1,2,3,4,1e999\n", "column 5 of line 1 holds '1e999'"),
        ("1,2,3,4,5\n1,2,3,4\n", "must have 5 columns in every line, and line 2 has 4"),
        ("1,2,3,4,5\n1,2,,4,5\n", "column 3 of line 2 holds ''"),
        ("a,b,c,d,e\n1,2,nan,4,5\n", "column 3 of line 2 holds 'nan'"),
        ("1,2,3,4,-inf\n", "column 5 of line 1 holds '-inf'"),
        ("1,2,x,4,5\n", "column 3 of line 1 holds 'x'"),
        ("a,b,c,d,e\n", "holds names but no numbers"),
        ("\n  \n", "holds no numbers"),
        ("1,2,3,4,\0\n", "damaged or not a .csv file|column 5 of line 1"),
    ],
)
def test_tables_that_do_not_fit(tmp_path, text, says):
    (tmp_path / "a.csv").write_text(text)
    message = refusal(read_data_file, tmp_path / "a.csv", 3, 2)
    assert any(part in message for part in says.split("|")) and str(tmp_path / "a.csv") in message


def test_a_table_that_is_not_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00\x81" * 10)
    assert "damaged or not a .csv file" in refusal(read_data_file, tmp_path / "a.csv", 3, 2)


# matrices ---------------------------------------------------------------------------------------------------


def test_one_matrix_in_three_formats(tmp_path, rng):
    matrix = rng.normal(size=(2, 3))
    np.save(tmp_path / "a.npy", np.asfortranarray(matrix))
    np.savez(tmp_path / "a.npz", anything=matrix)
    np.savetxt(tmp_path / "a.csv", matrix, delimiter=",", fmt="%.17g")
    for suffix in ("npy", "npz", "csv"):
        np.testing.assert_array_equal(read_matrix_file(tmp_path / f"a.{suffix}"), matrix)


def test_more_or_less_than_one_matrix(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.eye(2), b=np.eye(2))
    assert "must hold one matrix, and it holds a, b." in refusal(read_matrix_file, tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", np.ones(3))
    assert "must be a matrix, and it has shape (3,)" in refusal(read_matrix_file, tmp_path / "a.npy")


# files that are not what they seem ----------------------------------------------------------------------------


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")


def test_nothing_is_unpickled(tmp_path):
    mark = tmp_path / "opened"
    trap = np.array([[Trap(mark)]], dtype=object)
    np.savez(tmp_path / "a.npz", W1=trap)
    np.save(tmp_path / "a.npy", trap)
    assert "pickled Python objects" in refusal(read_network_file, tmp_path / "a.npz")
    assert "pickled Python objects" in refusal(read_matrix_file, tmp_path / "a.npy")
    for suffix in (".npz", ".npy", ".pt", ".pkl", ".bin", ".safetensors", ".csv"):
        (tmp_path / f"b{suffix}").write_bytes(pickle.dumps(Trap(mark)))
        for read in (read_network_file, read_matrix_file):
            refusal(read, tmp_path / f"b{suffix}")
        refusal(read_data_file, tmp_path / f"b{suffix}", 3, 2)
    assert not mark.exists()
    assert "save_file(model.state_dict()" in refusal(read_network_file, tmp_path / "b.pt")


@pytest.mark.parametrize("suffix", ["npz", "npy", "csv"])
def test_missing_empty_and_strange_files(tmp_path, suffix):
    read = read_matrix_file
    assert refusal(read, tmp_path / f"a.{suffix}") == f"{tmp_path / f'a.{suffix}'} does not exist."
    (tmp_path / f"b.{suffix}").touch()
    assert refusal(read, tmp_path / f"b.{suffix}").endswith("is empty.")
    (tmp_path / f"c.{suffix}").mkdir()
    assert refusal(read, tmp_path / f"c.{suffix}").endswith("is not a file.")
    os.mkfifo(tmp_path / f"d.{suffix}")  # reading it would wait for ever
    assert refusal(read, tmp_path / f"d.{suffix}").endswith("is not a file.")
    assert "cannot be read" in refusal(read, tmp_path / f"{'long' * 100}.{suffix}")
    assert "does not exist" in refusal(read, f"a\0b.{suffix}")


def test_suffixes_that_are_not_read(tmp_path, W):
    np.save(tmp_path / "a.npy", W[0])
    assert "must be .npz or .safetensors to be read as a network" in refusal(read_network_file, tmp_path / "a.npy")
    assert "must be .npz or .csv to be read as data" in refusal(read_data_file, tmp_path / "a.npy", 3, 4)
    save_file({"a": W[0]}, tmp_path / "a.safetensors")
    assert "must be .npy or .npz or .csv" in refusal(read_matrix_file, tmp_path / "a.safetensors")


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_torn_networks(tmp_path, W, suffix):
    whole = tmp_path / f"a.{suffix}"
    if suffix == "npz":
        np.savez(whole, *W)
    else:
        save_file({"0": W[0], "1": W[1]}, whole)
    content = whole.read_bytes()
    torn = tmp_path / f"b.{suffix}"
    for length in (1, 7, 50, len(content) // 2, len(content) - 1):
        torn.write_bytes(content[:length])
        assert f"{torn} is damaged or not a .{suffix} file" in refusal(read_network_file, torn)


@pytest.mark.parametrize("position", range(0, 1000, 37))
def test_a_flipped_byte_is_noticed_or_harmless(tmp_path, W, position):
    """No other error comes out, whatever is wrong inside."""
    for suffix, save in (
        ("npz", lambda path: np.savez_compressed(path, *W)),
        ("npy", lambda path: np.save(path, W[0])),
    ):
        path = tmp_path / f"a.{suffix}"
        save(path)
        content = bytearray(path.read_bytes())
        content[position % len(content)] ^= 0x55
        path.write_bytes(content)
        try:
            read_matrix_file(path) if suffix == "npy" else read_network_file(path)
        except InvalidInput as error:
            assert str(path) in str(error)


def test_one_format_under_the_name_of_another(tmp_path, W):
    np.save(tmp_path / "a.npy", W[0])
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npy").read_bytes())
    assert "damaged or not a .npz file" in refusal(read_network_file, tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "damaged or not a .npz file" in refusal(read_network_file, tmp_path / "b.npz")
    with zipfile.ZipFile(tmp_path / "c.npz", "w"):
        pass
    assert "holds no arrays" in refusal(read_network_file, tmp_path / "c.npz")


def npy(header, data=b""):
    """A .npy file with a header of one's own making."""
    text = header.encode() + b" " * 20 + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def test_a_header_cannot_ask_for_more_than_is_there(tmp_path):
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000000), }"
    (tmp_path / "a.npy").write_bytes(npy(header, bytes(16)))
    message = refusal(read_matrix_file, tmp_path / "a.npy")
    assert "is torn: its header announces 8,000,000,000,000,000,000 bytes, and 16 follow" in message
    (tmp_path / "b.npy").write_bytes(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }", bytes(16)))
    refusal(read_matrix_file, tmp_path / "b.npy")


def test_code_in_a_header_is_not_run(tmp_path):
    mark = tmp_path / "run"
    (tmp_path / "a.npy").write_bytes(npy(f"{{'descr': open({str(mark)!r}, 'w'), 'shape': (1, 1)}}", bytes(8)))
    assert "damaged" in refusal(read_matrix_file, tmp_path / "a.npy")
    assert not mark.exists()


@pytest.mark.parametrize(
    "header", ["{'descr': '<f8', 'shape': (1, 1)" + " " * 20_000 + "}", "{'descr': 7}", "(", "[1]"]
)
def test_an_odd_header_is_told_in_our_own_words(tmp_path, header):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("W.npy", npy(header, bytes(8)))
    message = refusal(read_network_file, tmp_path / "a.npz")
    assert message == f"W in {tmp_path / 'a.npz'} is damaged: its header is not that of an array of numbers."


def test_an_archive_that_unpacks_to_too_much(tmp_path):
    """Refused by what the archive declares, before anything is unpacked."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for i in range(3):
            archive.writestr(f"W{i}.npy", bytes(2**20))
    declared = _files.LARGEST // 2
    content = (tmp_path / "a.npz").read_bytes().replace(struct.pack("<I", 2**20), struct.pack("<I", declared))
    (tmp_path / "a.npz").write_bytes(content)
    assert f"unpacks to {3 * declared:,} bytes" in refusal(read_network_file, tmp_path / "a.npz")


def test_files_that_are_too_large(tmp_path):
    for suffix, bound in (("npz", _files.LARGEST), ("csv", _files.LARGEST_TEXT)):
        with open(tmp_path / f"a.{suffix}", "wb") as stream:
            stream.truncate(bound + 1)  # sparse: nothing is written
        assert "is too large" in refusal(read_data_file, tmp_path / f"a.{suffix}", 3, 2)


def safetensors(dtype, data):
    header = json.dumps({"W1": {"dtype": dtype, "shape": [2, 2], "data_offsets": [0, len(data)]}}).encode()
    return struct.pack("<Q", len(header)) + header + data


@pytest.mark.parametrize(("dtype", "size"), [("BF16", 2), ("F8_E4M3", 1), ("BOOL", 1)])
def test_safetensors_of_kinds_that_numpy_has_not(tmp_path, dtype, size):
    (tmp_path / "a.safetensors").write_bytes(safetensors(dtype, bytes(4 * size)))
    message = refusal(read_network_file, tmp_path / "a.safetensors")
    assert f"W1 in {tmp_path / 'a.safetensors'} is stored as {dtype}" in message and "float32" in message


def test_without_the_safetensors_package(tmp_path, W, monkeypatch):
    save_file({"W1": W[0]}, tmp_path / "a.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert "pip install 'lazyrich[files]'" in refusal(read_network_file, tmp_path / "a.safetensors")


# writing ----------------------------------------------------------------------------------------------------


def test_a_folder_gets_the_default_name(tmp_path):
    assert output_path(tmp_path, "a.png") == tmp_path / "a.png"
    assert output_path(f"{tmp_path}/", "a.png") == tmp_path / "a.png"
    assert output_path(tmp_path / "b.pdf", "a.png") == tmp_path / "b.pdf"


@pytest.mark.parametrize("given", ["new/", "new", "new/b.pdf"])
def test_folders_are_not_made(tmp_path, given):
    assert f"the folder {tmp_path / 'new'} does not exist" in refusal(output_path, f"{tmp_path}/{given}", "a.png")
    assert not os.listdir(tmp_path)


def test_places_where_nothing_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "file.txt").touch()
    assert "cannot be written" in refusal(output_path, tmp_path / "file.txt" / "a.png", "a.png")
    (tmp_path / "a.png").mkdir()
    assert "is a folder" in refusal(output_path, tmp_path, "a.png")
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs this test may be allowed everything
    assert "nothing may be written" in refusal(output_path, tmp_path / "b.png", "a.png")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.png"
    write_atomically(path, lambda stream: stream.write(b"old"))

    def fail(stream):
        stream.write(b"half of the n")
        raise OSError(28, "No space left on device")

    assert "No space left on device" in refusal(write_atomically, path, fail)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.png"]
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.png"]
    write_atomically(path, lambda stream: stream.write(b"new"))
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["a.png"]


def test_labels_in_place_of_targets(tmp_path, rng):
    X, labels = rng.normal(size=(5, 3)), np.array([0, 1, 1, 0, 1])
    for key in ("inputs", "X", "x"):
        np.savez(tmp_path / "a.npz", **{key: X, "labels": labels})
        found = read_data_file(tmp_path / "a.npz", 3, 2)
        same((found.inputs, found.labels), (X, labels))
        assert found.targets is None
    np.savetxt(tmp_path / "a.csv", np.column_stack([X, labels]), delimiter=",", fmt="%.17g")
    same((read_data_file(tmp_path / "a.csv", 3, 2).labels,), (labels,))
    one = read_data_file(tmp_path / "a.csv", 3, 1)  # of a network with one output, they are its targets
    same((one.targets,), (labels[:, None],))
    assert one.labels is None
    np.savetxt(tmp_path / "b.csv", np.column_stack([X, labels / 2]), delimiter=",", fmt="%.17g")
    assert "2 of targets, or one of labels" in refusal(read_data_file, tmp_path / "b.csv", 3, 2)
    np.savez(tmp_path / "c.npz", X=X, labels=labels[:4])
    assert "must be a vector of one per row of X (5)" in refusal(read_data_file, tmp_path / "c.npz", 3, 2)
