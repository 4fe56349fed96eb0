"""Files from the web: streamed, checked against a published checksum, and there as a whole or not at all."""

import hashlib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO, TypeAlias

from shortlist.data.archives import unpack
from shortlist.errors import InputError
from shortlist.files import is_full, written_whole
from shortlist.words import printable

Progress: TypeAlias = Callable[[int], None]
SCHEMES = ("http", "https", "file")
BLOCK = 2**20
ATTEMPTS = 3  # a connection that breaks off is taken up again where it broke
SECONDS = 60  # without an answer


@dataclass(frozen=True)
class Archive:
    """A file that is offered publicly: where, how long it is, its checksum, and the folder that it unpacks to."""

    url: str
    size: int
    sha256: str
    folder: str


# Addresses, sizes and checksums as in the lists of TensorFlow Datasets, tensorflow_datasets/url_checksums/{cifar10,cifar100,
# omniglot}.txt; the publishers are https://www.cs.toronto.edu/~kriz/cifar.html and https://github.com/brendenlake/omniglot.
CIFAR10 = Archive(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    170_052_171,
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    "cifar-10-batches-bin",
)
CIFAR100 = Archive(
    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    168_513_733,
    "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    "cifar-100-binary",
)
OMNIGLOT = (
    Archive(
        "https://github.com/brendenlake/omniglot/raw/master/python/images_background.zip",
        9_464_212,
        "ad41ab679c8b5d90b271ef46be6987cc81211774a695c29dcc5367b2b26ee640",
        "images_background",
    ),
    Archive(
        "https://github.com/brendenlake/omniglot/raw/master/python/images_evaluation.zip",
        6_462_886,
        "1f61a8f3366785b057fc117d9228e78a16e3d976c8953b2a10fcc74cf0609cee",
        "images_evaluation",
    ),
)
DOWNLOADS: Mapping[str, Sequence[Archive]] = {"cifar10": (CIFAR10,), "cifar100": (CIFAR100,), "omniglot": OMNIGLOT}


def download_cifar10(folder: str | Path, *, progress: Progress | None = None) -> Path:
    """Fetch CIFAR-10, binary version, 170 MB, into ``folder/cifar-10-batches-bin``; nothing happens where that is there."""
    return download_archives(DOWNLOADS["cifar10"], folder, progress=progress)


def download_cifar100(folder: str | Path, *, progress: Progress | None = None) -> Path:
    """Fetch CIFAR-100, binary version, 169 MB, into ``folder/cifar-100-binary``; nothing happens where that is there."""
    return download_archives(DOWNLOADS["cifar100"], folder, progress=progress)


def download_omniglot(folder: str | Path, *, progress: Progress | None = None) -> Path:
    """Fetch Omniglot, 16 MB, into ``images_background`` and ``images_evaluation`` of the folder, unless they are there."""
    return download_archives(DOWNLOADS["omniglot"], folder, progress=progress)


def fetch(
    url: str,
    path: str | Path,
    *,
    sha256: str | None = None,
    md5: str | None = None,
    size: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """The file at an address, at ``path``: whole and with the right checksum, or not there at all.

    A file that is there already is kept if it has the checksum, and else replaced. A connection that breaks off is taken up
    again where it broke.

    Args:
        url: http, https or file.
        path: where to put it.
        sha256: its checksum; or
        md5: an older one, which finds damage but not malice. One of the two is needed.
        size: in bytes, where it is known.
        progress: callback, called with the number of bytes so far.
    """
    path = Path(path)
    scheme = urllib.parse.urlsplit(url).scheme.lower()
    if scheme not in SCHEMES:
        raise InputError(f"url: expected an address that begins with {', '.join(SCHEMES)}, got {url[:80]!r}")
    if (sha256 is None) == (md5 is None):
        raise InputError("sha256, md5: expected exactly one of them, to know that the right file came")
    method, expected = ("sha256", sha256) if sha256 is not None else ("md5", md5)
    if path.is_file() and _checksum(path, method) == expected:
        return path
    with written_whole(path) as temporary:
        try:
            _stream(url, temporary, size, progress)
        except (OSError, HTTPException) as error:
            if is_full(error):
                raise  # told by written_whole
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            by_hand = f"try again, or download it by hand and put it at {printable(str(path))}"
            raise InputError(f"{url} cannot be downloaded ({_reason(error)}): {by_hand}") from None
        length = temporary.stat().st_size
        if size is not None and length != size:
            raise InputError(f"{url}: expected {size:,} bytes, got {length:,}: try again; nothing was kept")
        found = _checksum(temporary, method)
        if found != expected:
            raise InputError(
                f"{url}: expected {method} {expected}, got {found}: "
                "it was changed at its source or damaged on its way; nothing was kept"
            )
    return path


def download_archives(archives: Sequence[Archive], folder: str | Path, *, progress: Progress | None = None) -> Path:
    """Download and unpack what is missing; ``progress`` is called with the bytes of all archives so far."""
    folder = Path(folder)
    before = 0
    for archive in archives:
        if not (folder / archive.folder).is_dir():
            file = folder / archive.url.rpartition("/")[2]
            told = None if progress is None else partial(_told_after, progress, before)
            unpack(fetch(archive.url, file, sha256=archive.sha256, size=archive.size, progress=told), folder)
            file.unlink()
        before += archive.size
    return folder


def _told_after(progress: Progress, before: int, done: int) -> None:
    progress(before + done)


def _stream(url: str, path: Path, size: int | None, progress: Progress | None) -> None:
    """The bytes of an address into a file, taken up again where a connection broke off."""
    with path.open("wb") as file:
        for attempt in range(ATTEMPTS):
            try:
                wanted = _continue(url, file, progress)
            except (urllib.error.HTTPError, FileNotFoundError):
                raise  # an answer, and asking again will not change it
            except (OSError, HTTPException) as error:
                if attempt + 1 == ATTEMPTS or is_full(error):
                    raise
            else:
                if file.tell() >= (wanted or size or 0):
                    return


def _continue(url: str, file: BinaryIO, progress: Progress | None) -> int | None:
    """Append what is missing; the answer is how long the whole file is, where the server says so."""
    start = file.tell()
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        if start and answer.status != 206:  # the server sends the whole file again
            start = 0
            file.seek(0)
            file.truncate()
        length = answer.headers.get("Content-Length")
        while block := answer.read(BLOCK):
            file.write(block)
            if progress is not None:
                progress(file.tell())
    return start + int(length) if length is not None else None


def _checksum(path: Path, method: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(method, usedforsecurity=False)).hexdigest()


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return (str(reason).splitlines() or [type(error).__name__])[0][:80]
