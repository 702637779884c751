"""Downloads from a server on this machine: what comes is whole, or nothing is put in its place."""

from __future__ import annotations

import hashlib
import importlib
import socket
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from lazyrich import InvalidInput
from lazyrich.papers.data import download, images
from lazyrich.papers.data.cifar import ARCHIVES
from lazyrich.papers.data.idx import names_of

from .writing import gzipped, idx, mnist_like

module = importlib.import_module("lazyrich.papers.data.download")  # the package has the function of this name

pytestmark = pytest.mark.timeout(60)
CONTENT = bytes(range(256)) * 20
NAME = "train-images-idx3-ubyte.gz"


class Handler(BaseHTTPRequestHandler):
    """Folders of a server that have the same files, each with a fault of its own."""

    def do_GET(self):
        _, folder, name = self.path.split("/")
        self.server.asked.append(self.path)
        content = self.server.files.get(name, CONTENT)
        getattr(self, folder)(content)

    def answer(self, length=None, status=200, **headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def good(self, content):
        self.answer(len(content))
        self.wfile.write(content)

    def other(self, content):
        self.good(bytes([content[0] ^ 1]) + content[1:])

    def short(self, content):
        self.good(content[:-1])

    def page(self, content):
        self.good(b"<html>Please sign in.</html>")

    def cut(self, content):
        self.answer(len(content))
        self.wfile.write(content[:1000])

    def chunked(self, content):
        self.protocol_version = "HTTP/1.1"
        self.answer(**{"Transfer-Encoding": "chunked", "Connection": "close"})
        self.wfile.write(b"%x\r\n" % len(content) + content[:1000])

    def missing(self, content):
        self.send_error(404, "Not Found")

    def endless(self, content):
        self.answer()
        try:
            for _ in range(1000):  # 64 MB, if nobody stops it
                self.wfile.write(bytes(2**16))
            self.server.asked.append("to the end")
        except OSError:
            pass

    def silent(self, content):
        self.server.closing.wait(30)

    def elsewhere(self, content):
        self.answer(0, 302, Location=f"/good/{NAME}")

    def in_circles(self, content):
        self.answer(0, 302, Location=self.path)

    def to_a_file(self, content):
        self.answer(0, 302, Location="file:///etc/hostname")

    def nonsense(self, content):
        self.wfile.write(b"220 mail.example.org ESMTP\r\n")

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def running():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.closing = threading.Event()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(running, monkeypatch):
    running.asked, running.files = [], {}
    monkeypatch.setenv("no_proxy", "*")
    return running


@pytest.fixture
def serve(server, monkeypatch):
    """`serve("missing", "good")`: one file, to be fetched from these folders in turn."""

    def serve(*folders, host=None):
        host = host or f"127.0.0.1:{server.server_port}"
        addresses = tuple(f"http://{host}/{folder}/" for folder in folders)
        source = module.Source(NAME, len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), addresses)
        monkeypatch.setitem(module.SOURCES, "mnist", (source,))
        return server

    return serve


def refusal(folder):
    """The one sentence with which a download fails; nothing is left behind."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConnectionError) as caught:
        download("mnist", folder)
    message = str(caught.value)
    assert message.endswith(f"may be put into the folder {folder}.") and "\n" not in message
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    return message


# what is whole ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["good", "elsewhere"])
def test_a_good_file(tmp_path, serve, folder):
    serve(folder)
    assert download("mnist", tmp_path / "new" / "folder") == tmp_path / "new" / "folder"
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == [NAME]
    assert (tmp_path / "new" / "folder" / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize("fault", ["missing", "other", "cut", "endless", "nonsense"])
def test_the_next_address_is_tried(tmp_path, serve, fault):
    server = serve(fault, "good")
    download("mnist", str(tmp_path))
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert server.asked == [f"/{fault}/{NAME}", f"/good/{NAME}"]


def test_a_file_that_is_there_stays(tmp_path, serve):
    server = serve("missing")
    (tmp_path / NAME).write_bytes(CONTENT)
    assert download("mnist", tmp_path) == tmp_path and server.asked == []


@pytest.mark.parametrize("there", [CONTENT[:-1], CONTENT[:-1] + b"x", b""])
def test_a_torn_file_is_replaced_by_a_whole_one_alone(tmp_path, serve, there):
    (tmp_path / NAME).write_bytes(there)
    serve("cut")
    refusal(tmp_path)
    serve("good")
    download("mnist", tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_downloaded_and_read(tmp_path, monkeypatch, rng, server):
    arrays = mnist_like(rng)
    server.files = {f"{name}.gz": gzipped(idx(array)) for name, array in arrays.items()}
    address = f"http://127.0.0.1:{server.server_port}/good/"
    sources = [
        module.Source(name, len(content), hashlib.sha256(content).hexdigest(), (address,))
        for name, content in server.files.items()
    ]
    monkeypatch.setitem(module.SOURCES, "fashion-mnist", tuple(sources))
    monkeypatch.setenv("LAZYRICH_DATA", str(tmp_path))
    assert download("fashion-mnist") == tmp_path / "fashion-mnist"
    np.testing.assert_array_equal(images("fashion-mnist").train_y, arrays["train-labels-idx1-ubyte"])


def test_a_bar_moves_by_what_comes_and_back_where_it_was_in_vain(tmp_path, serve, monkeypatch):
    moves = []

    class Bar:
        def __init__(self, total, label):
            assert (total, label) == (len(CONTENT), "downloading mnist")

        def __enter__(self):
            return moves.append

        def __exit__(self, *arguments):
            pass

    monkeypatch.setattr(module, "progress", Bar)
    serve("cut", "other", "good")
    download("mnist", tmp_path)
    assert sum(moves) == len(CONTENT) and min(moves) == -len(CONTENT)


# what is not ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "folder, sentence",
    [
        ("missing", "answers 404 (Not Found)"),
        ("other", "has another file under this name, by its SHA-256"),
        ("short", "breaks off after 5,119 of 5,120 bytes"),
        ("page", "breaks off after 28 of 5,120 bytes"),
        ("cut", "breaks off after 1,000 of 5,120 bytes"),
        ("chunked", "cannot be read (IncompleteRead"),
        ("endless", "sends more than the 5,120 bytes of the file"),
        ("in_circles", "answers 302"),
        ("to_a_file", "answers 302 (Found - Redirection to url 'file:///etc/hostname' is not allowed)"),
        ("nonsense", "cannot be read ("),
    ],
)
def test_faults(tmp_path, serve, folder, sentence):
    server = serve(folder)
    message = refusal(tmp_path)
    assert f"{NAME} could not be downloaded: 127.0.0.1:{server.server_port} {sentence}" in message
    assert "to the end" not in server.asked


def test_a_server_that_says_nothing(tmp_path, serve, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.2)
    serve("silent")
    assert "cannot be read (timed out)" in refusal(tmp_path)


def test_no_network(tmp_path, serve):
    with socket.socket() as taken:  # a port where nobody listens
        taken.bind(("127.0.0.1", 0))
        serve("a", "b", host=f"127.0.0.1:{taken.getsockname()[1]}")
        assert refusal(tmp_path).count("cannot be read (Connection refused)") == 2


def test_no_way_from_an_encrypted_address_to_one_that_is_not():
    request = urllib.request.Request("https://example.org/a")
    follow = module._Redirects().redirect_request
    assert follow(request, None, 302, "Found", {}, "https://example.com/b").full_url == "https://example.com/b"
    for address in ("http://example.com/b", "ftp://example.com/b", "file:///b"):
        with pytest.raises(module._Failed, match="without encryption"):
            follow(request, None, 302, "Found", {}, address)


def test_a_folder_that_cannot_be_used(tmp_path, serve, unchecked_shapes):
    serve("good")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"the folder .*file cannot be used: File exists\."):
        download("mnist", tmp_path / "file")
    with pytest.raises(InvalidInput, match="folder must be a path, and it is 7"):
        download("mnist", 7)
    with pytest.raises(
        InvalidInput, match="name must be one of 'mnist', 'fashion-mnist', 'cifar10', and it is 'digits'"
    ):
        download("digits")


def test_a_full_disk_is_no_fault_of_the_network(tmp_path, serve, monkeypatch, unchecked_shapes):
    server = serve("good", "good")

    def full(path, write):
        class Full:
            def write(self, block):
                raise OSError(28, "No space left on device")

        write(Full())

    monkeypatch.setattr(module, "write_atomically", full)
    with pytest.raises(OSError, match="No space left on device"):
        download("mnist", tmp_path)
    assert len(server.asked) == 1


# the table --------------------------------------------------------------------------------------------------


def test_the_addresses():
    """Files that the readers look for, published with SHA-256; only the last address may be without encryption."""
    wanted = {names_of(split, what)[0] for split in ("train", "t10k") for what in ("images", "labels")}
    assert {source.name for source in module.SOURCES["mnist"]} == wanted
    assert {source.name for source in module.SOURCES["fashion-mnist"]} == wanted
    assert [source.name for source in module.SOURCES["cifar10"]] == [ARCHIVES[0]]
    every = [source for sources in module.SOURCES.values() for source in sources]
    assert len({source.sha256 for source in every}) == len(every) == 9
    for source in every:
        assert len(bytes.fromhex(source.sha256)) == 32 and len(source.addresses) >= 2
        assert all(address.startswith("https://") and address.endswith("/") for address in source.addresses[:-1])
