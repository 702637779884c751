"""Files from users: what can be read gives the correlations of the library, and the rest one sentence each."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyrich as lr
from lazyrich import _files
from lazyrich._check import InvalidInput
from lazyrich.explorer.state import MOST_UNITS, State, unpacked
from lazyrich.explorer.uploads import MOST_UPLOAD, read_upload
from lazyrich.explorer.view import view


def npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def zipped(members, method=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def refusal(name, content):
    """The message with which a file is refused: one sentence, on one line, not at length."""
    with pytest.raises(lr.InvalidInput) as caught:
        read_upload(name, content)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message and len(message) < 600
    return message


def correlations(found):
    assert found["state"]["task"] == "uploaded"
    return unpacked(State.from_dict(found["state"]).data)[:3]


def same(found, X, Y):
    """Σyx, Σxx and Σyy, sample by sample."""
    wanted = [sum(np.outer(y, x) for x, y in zip(X, Y, strict=True)) / len(X)]
    wanted += [sum(np.outer(x, x) for x in X) / len(X), sum(np.outer(y, y) for y in Y) / len(X)]
    for got, want in zip(correlations(found), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(12, 3))
    return X, X @ rng.normal(size=(3, 2)) + 0.1 * rng.normal(size=(12, 2))


def text_of(*columns, names=""):
    rows = np.hstack(columns)
    return ((names + "\n" if names else "") + "\n".join(",".join(map(repr, map(float, row))) for row in rows)).encode()


# what is read -----------------------------------------------------------------------------------------------


def test_columns_named_as_targets(data):
    X, Y = data
    for names in ("a,b,c,y1,y2", "a,b,c,Target one,output", "x,year,yield,y_1,Y"):
        found = read_upload("data.csv", text_of(X, Y, names=names))
        same(found, X, Y)
        assert found["sentence"] == f"3 inputs, 2 outputs ({', '.join(names.split(',')[3:])}), 12 samples"
    found = read_upload("DATA.CSV", text_of(Y[:, :1], X, Y[:, 1:], names="y0,a,b,c,y1"))  # wherever they stand
    same(found, X, Y)


def test_the_last_column_where_none_is_named(data):
    X, Y = data
    for names, which in (("", "the last column"), ("a,b,c,d", "d")):
        found = read_upload("data.csv", text_of(X, Y[:, :1], names=names))
        same(found, X, Y[:, :1])
        assert found["sentence"] == f"3 inputs, 1 output ({which}), 12 samples"


def test_ways_of_writing_a_table():
    for content in (
        b"1,2\n3,4\n",
        b"\xef\xbb\xbf1,2\r\n3,4\r\n",
        b" 1 , +2.0\n\n 3e0,4.\n\n",
        b'"1","2"\n3,4',
        b"u,v\n1,2\n3,4",
    ):
        same(read_upload("t.csv", content), [[1.0], [3.0]], [[2.0], [4.0]])
    assert read_upload("t.csv", b"1,2\n")["sentence"] == "1 input, 1 output (the last column), 1 sample"


def test_arrays_by_their_names(data):
    X, Y = data
    for first, second in (("inputs", "targets"), ("X", "Y"), ("x", "y")):
        found = read_upload("data.npz", npz(**{first: X, second: Y}))
        same(found, X, Y)
        assert found["sentence"] == "3 inputs, 2 outputs, 12 samples"
    same(read_upload("data.npz", npz(X=X[:, 0], Y=Y[:, 0])), X[:, :1], Y[:, :1])  # vectors are columns
    for dtype in (np.float32, np.float16, np.int8, np.bool_, np.longdouble, ">f8"):
        same(read_upload("d.npz", npz(X=X.astype(dtype), Y=Y)), X.astype(dtype).astype(float), Y)
    stream = io.BytesIO()
    np.savez(stream, X=np.asfortranarray(X), Y=Y)
    same(read_upload("plain.npz", stream.getvalue()), X, Y)


def test_other_arrays_are_not_opened(data):
    X, Y = data
    members = {"X.npy": npy(X), "Y.npy": npy(Y), "model.npy": npy(np.array([{"a": 1}], dtype=object)), "note": b"junk"}
    same(read_upload("data.npz", zipped(members)), X, Y)


def test_correlations(rng):
    A, B = rng.normal(size=(3, 3)), rng.normal(size=(2, 3))
    xx, yx = A @ A.T, B @ A @ A.T
    yy = B @ xx @ B.T + np.eye(2)
    for stored, wanted in (
        ({"sigma_yx": yx}, (yx, np.eye(3), yx @ yx.T)),
        ({"sigma_yx": yx, "sigma_xx": xx}, (yx, xx, B @ xx @ B.T)),
        ({"sigma_yx": yx, "sigma_xx": xx, "sigma_yy": yy}, (yx, xx, yy)),
    ):
        found = read_upload("c.npz", npz(**stored))
        assert found["sentence"] == "3 inputs, 2 outputs, as correlations"
        for got, want in zip(correlations(found), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.timeout(120)
def test_a_view_of_the_file_is_the_view_of_the_data(data):
    """To rounding: one layer on the inputs as they are, two layers on white ones."""
    X, Y = data
    found = read_upload("data.npz", npz(inputs=X, targets=Y))["state"]
    task = lr.Task.from_data(X, Y)
    shown = view(State.from_dict({**found, "depth": 1, "start": "gaussian", "scale": 0.2, "seed": 1, "horizon": 3.0}))
    times = shown.arrays["times"]
    direct = lr.solve(lr.Problem(task, lr.inits.gaussian(1, sizes=(3, 2), scale=0.2)), times)
    np.testing.assert_allclose(shown.arrays["loss"][:, 0], direct.loss, rtol=1e-10)
    white = task.whitened()
    found = read_upload("data.npz", npz(X=white.inputs, Y=white.targets))["state"]
    shown = view(
        State.from_dict({**found, "start": "zero_balanced", "scale": 0.2, "seed": 1, "horizon": 3.0, "width": 4})
    )
    times = shown.arrays["times"]
    direct = lr.solve(lr.Problem(white, lr.inits.zero_balanced(1, sizes=(3, 4, 2), scale=0.2)), times)
    assert shown.header["exact"]
    np.testing.assert_allclose(shown.arrays["loss"][:, 0], direct.loss, rtol=1e-10)
    np.testing.assert_allclose(shown.arrays["function"], direct.function, atol=1e-10)


def test_the_largest_that_fits(rng):
    X, Y = rng.normal(size=(2, 60, MOST_UNITS))
    same(read_upload("wide.npz", npz(X=X, Y=Y)), X, Y)


# what is refused --------------------------------------------------------------------------------------------

GOOD = np.eye(2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "'t.csv' is empty"),
        (b"\n\n , \n", "holds no numbers"),
        (b"a,b\n", "holds names but no numbers"),
        (b"1\n2\n", "must have a column of inputs and one of targets, separated by commas, and there is one"),
        (b"y1,y2\n1,2\n", "the names of all 2 are those of targets"),
        (b"1;2\n3;4\n", "has semicolons in its first line: columns are separated by commas"),
        (b"1,2\n3\n", "must have 2 columns in every line, and line 2 has 1"),
        (b"a,b\n1,2\n3,x\n", "column 2 of line 3 holds 'x'"),
        (b"1,nan\n", "column 2 of line 1 holds 'nan'"),
        (b"1,inf\n", "holds 'inf'"),
        (b"1,1e999\n", "holds '1e999'"),
        (b"1,1+2j\n", "holds '1+2j'"),
        (b"1,1_000\n", "holds '1_000'"),
        (b"1,__import__('os')\n", "holds \"__import__('os')\""),
        (b"1,\n", "holds ''"),
        (b"0,1\n0,2\n", "inputs must not all be zero"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "is damaged or not a .csv file"),
        (b'1,"2\n', "is damaged or not a .csv file"),
        (b"1,2,\x00\n", "'t.csv'"),
        (
            ",".join(["1"] * (MOST_UNITS + 2)).encode(),
            f"at most {MOST_UNITS} inputs and {MOST_UNITS} outputs, and it has 33",
        ),
        (b"3000,1\n", "must have columns of like sizes, around 1"),
    ],
)
def test_tables_that_are_none(content, words):
    assert words in refusal("t.csv", content)


NOT_DATA = {
    "no names": (npz(), "must hold inputs and targets (or X and Y), or sigma_yx, and it holds []"),
    "other names": (npz(a=GOOD, inputs=GOOD), "and it holds ['a', 'inputs']"),
    "half": (npz(X=GOOD, y=GOOD), "and it holds ['X', 'y']"),
    "nan": (npz(X=np.array([[np.nan]]), Y=GOOD[:1]), "inputs in 'd.npz' must be finite"),
    "inf": (npz(X=GOOD, Y=np.full((2, 2), np.inf)), "targets in 'd.npz' must be finite"),
    "complex": (npz(X=GOOD * 1j, Y=GOOD), "X in 'd.npz' must hold real numbers, and it has dtype complex128"),
    "words": (npz(X=np.array([["a"]]), Y=GOOD), "must hold real numbers, and it has dtype <U1"),
    "dates": (npz(X=np.array([["2020-01-01"]], dtype="M8[D]"), Y=GOOD), "must hold real numbers"),
    "fields": (npz(X=np.zeros(2, dtype=[("a", "f8")]), Y=GOOD), "must hold real numbers"),
    "objects": (
        zipped({"X.npy": npy(np.array([[None]])), "Y.npy": npy(GOOD)}),
        "pickled Python objects, which are never",
    ),
    "number": (npz(X=np.array(1.0), Y=GOOD), "inputs in 'd.npz' must be a matrix, and it has shape ()"),
    "cube": (npz(X=np.ones((2, 2, 2)), Y=GOOD), "must be a matrix, and it has shape (2, 2, 2)"),
    "nothing": (npz(X=np.ones((0, 2)), Y=GOOD), "is empty"),
    "rows": (npz(X=np.ones((3, 2)), Y=GOOD), "targets must have one row per row of inputs (3), and it has 2"),
    "wide": (npz(X=np.ones((2, 33)), Y=GOOD), "must have at most 32 inputs and 32 outputs, and it has 33 and 2"),
    "wide targets": (npz(X=GOOD, Y=np.ones((2, 40))), "and it has 2 and 40"),
    "zero": (npz(X=0 * GOOD, Y=GOOD), "inputs must not all be zero"),
    "huge": (npz(X=1e200 * GOOD, Y=GOOD), "below 1e150"),
    "large": (npz(X=1e4 * GOOD, Y=GOOD), "must have columns of like sizes, around 1"),
    "small": (npz(X=1e-200 * GOOD, Y=GOOD), "inputs must have squares above 0"),
    "wide sigma": (npz(sigma_yx=np.ones((2, 33))), "and it has 33 and 2"),
    "sigma vector": (npz(sigma_yx=np.ones(3)), "sigma_yx in 'd.npz' must be a matrix"),
    "sigma nan": (npz(sigma_yx=GOOD * np.nan), "sigma_yx in 'd.npz' must be finite"),
    "sigma large": (npz(sigma_yx=GOOD * 1e7), "at most 1e+06"),
    "not symmetric": (npz(sigma_yx=GOOD, sigma_xx=np.array([[1.0, 1.0], [0.0, 1.0]])), "sigma_xx must be symmetric"),
    "not square": (npz(sigma_yx=GOOD, sigma_xx=np.ones((3, 3))), "sigma_xx must have shape 2 × 2"),
    "no data has these": (npz(sigma_yx=GOOD, sigma_yy=0.1 * GOOD), "sigma_yy must be at least"),
    "not an array": (zipped({"X.npy": b"junk", "Y.npy": npy(GOOD)}), "is damaged or not a .npz file"),
    "a pickle": (pickle.dumps(GOOD), "is damaged or not a .npz file"),
    "a lone array": (npy(GOOD), "is damaged or not a .npz file"),
    "torn": (npz(X=GOOD, Y=GOOD)[:200], "is damaged or not a .npz file"),
    "junk": (b"PK\x03\x04" + bytes(100), "is damaged or not a .npz file"),
}


@pytest.mark.parametrize(("content", "words"), NOT_DATA.values(), ids=NOT_DATA)
def test_archives_that_are_none(content, words):
    assert words in refusal("d.npz", content)


@pytest.mark.parametrize(
    "name", ["data", "data.pt", "data.pkl", "data.npy", "data.csv.exe", "", ".npz", "a\nb", "\ud800"]
)
def test_names_that_are_none(name):
    message = refusal(name, npz(X=GOOD, Y=GOOD))
    assert "must be a .csv or .npz file" in message
    message.encode()


def test_a_name_is_shown_on_one_line_and_not_at_length():
    for name in ("a\nb" * 2000 + ".csv", "<script>.csv", "../../etc/passwd.csv", "a\x00.csv", "\ud800.csv"):
        refusal(name, b"1").encode()


@pytest.mark.parametrize("content", [b"1,2\n" * 100_001, b"\n" * 200_000, b"1," * 64 + b"2\n"])
def test_tables_that_would_take_long_are_not_read(content, monkeypatch):
    monkeypatch.setattr(_files, "table_of", lambda *_: pytest.fail("read"))
    with pytest.raises(InvalidInput, match=r"^'long.csv' must have at most 100,000 lines of 64 columns, and it has"):
        read_upload("long.csv", content)


def test_a_file_that_is_too_large():
    assert f"is too large: {MOST_UPLOAD + 1:,} bytes" in refusal("big.csv", b"1" * (MOST_UPLOAD + 1))


# archives that are bombs ------------------------------------------------------------------------------------


def forbid(monkeypatch):
    """Nothing may be unpacked from here on."""

    def opened(*arguments, **options):
        raise AssertionError("a member was opened")

    monkeypatch.setattr(zipfile.ZipFile, "open", opened)


def test_what_would_unpack_to_much_is_not_unpacked(monkeypatch):
    content = zipped({"X.npy": npy(np.zeros((10_000_000, 2), dtype=np.int8)), "Y.npy": npy(GOOD)})
    assert len(content) < 100_000
    forbid(monkeypatch)
    assert "unpacks to 20,000" in refusal("bomb.npz", content)


def test_many_members_are_not_unpacked(monkeypatch):
    content = zipped({f"{k}.npy": b"" for k in range(1000)} | {"X.npy": npy(GOOD), "Y.npy": npy(GOOD)})
    forbid(monkeypatch)
    assert "must hold at most 64 arrays, and it holds 1,002" in refusal("many.npz", content)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_ways_to_pack_that_have_no_bound_are_not_unpacked(monkeypatch, method):
    content = zipped({"X.npy": npy(GOOD), "Y.npy": npy(GOOD)}, method)
    forbid(monkeypatch)
    assert "must be stored plainly or deflated" in refusal("packed.npz", content)


def test_two_members_of_one_name():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for name in ("X.npy", "Y.npy", "X.npy"):
            archive.writestr(name, npy(GOOD))
    assert "two arrays of the same name" in refusal("twice.npz", stream.getvalue())


def header_says(shape, dtype="<f8", data=b""):
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    "member",
    [
        header_says((10**9, 10**9)),
        header_says((10**6, 32), data=bytes(80)),
        header_says((-2, -4), data=bytes(64)),
        header_says((2, 2), "|O", pickle.dumps([1, 2, 3, 4])),
        header_says("__import__('os').abort()", data=bytes(32)),
        header_says((2, 2), "|V8", bytes(32)),
        b"\x93NUMPY\x09\x00" + bytes(80),
        b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 60_000,
    ],
    ids=["vast", "torn", "negative", "pickle", "code", "void", "version", "deep"],
)
def test_headers_that_lie(member):
    assert "d.npz" in refusal("d.npz", zipped({"X.npy": member, "Y.npy": npy(GOOD)}))


def test_a_member_that_declares_less_than_it_holds():
    """The sizes in the directory of the archive are changed; zipfile gives no more than they say."""
    content = bytearray(zipped({"X.npy": npy(np.zeros((2**20, 8))), "Y.npy": npy(GOOD)}))
    size = len(npy(np.zeros((2**20, 8))))
    place = content.rindex(struct.pack("<I", size))
    content[place : place + 4] = struct.pack("<I", 192)
    assert "d.npz" in refusal("d.npz", bytes(content))


def test_an_encrypted_member():
    content = bytearray(zipped({"X.npy": npy(GOOD), "Y.npy": npy(GOOD)}))
    place = content.index(b"PK\x01\x02")
    content[place + 8] |= 1
    assert "d.npz" in refusal("d.npz", bytes(content))


@settings(max_examples=100)
@given(st.data())
def test_damaged_archives_are_data_or_a_sentence(data):
    content = bytearray(npz(X=np.eye(3), Y=np.arange(6.0).reshape(3, 2)))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_upload("d.npz", bytes(content))
    except lr.InvalidInput as error:
        assert str(error).endswith(".") and "\n" not in str(error)
    else:
        assert State.from_dict(found["state"])


@settings(max_examples=100)
@given(st.binary(max_size=60) | st.text(st.sampled_from("0123456789,.;\n\"'-eyY xn"), max_size=60).map(str.encode))
def test_any_bytes_are_a_table_or_a_sentence(content):
    try:
        found = read_upload("d.csv", content)
    except lr.InvalidInput as error:
        assert str(error).endswith(".") and "\n" not in str(error)
    else:
        yx, _, _ = correlations(found)
        assert found["sentence"].startswith(f"{yx.shape[1]} input")


def test_nothing_is_written(monkeypatch, data):
    def opened(*arguments, **options):
        raise AssertionError("a file was opened")

    monkeypatch.setattr("builtins.open", opened)
    monkeypatch.setattr("io.open", opened)
    read_upload("d.npz", npz(X=data[0], Y=data[1]))
    read_upload("d.csv", text_of(*data))
