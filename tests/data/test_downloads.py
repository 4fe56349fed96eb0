"""Downloads against a server of our own: whole and right, or not there; archives that lead outside are refused."""

import contextlib
import errno
import gzip
import hashlib
import io
import os
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from shortlist.data import downloads
from shortlist.data.archives import ArchiveLimits, unpack
from shortlist.data.downloads import Archive, fetch
from shortlist.errors import InputError
from shortlist.files import PlaceError

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """/whole answers in full, /breaks breaks off half-way but knows ranges, /forgets breaks off once and knows none."""

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        if self.path == "/missing":
            self.send_error(404)
            return
        start = int(wanted[len("bytes=") : -1]) if wanted and self.path == "/breaks" else 0
        part = CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        breaks = self.path == "/breaks" or (self.path == "/forgets" and len(self.server.asked) == 1) or self.path == "/never"
        self.wfile.write(part[: len(part) // 2] if breaks and len(part) > 3000 else part)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def at(server):
    server.asked.clear()
    return f"http://127.0.0.1:{server.server_port}"


def test_from_a_server(tmp_path, at):
    seen = []
    path = fetch(f"{at}/whole", tmp_path / "new" / "file.bin", sha256=SHA256, size=len(CONTENT), progress=seen.append)
    assert path.read_bytes() == CONTENT
    assert seen[-1] == len(CONTENT)


def test_from_a_file(tmp_path):
    source = tmp_path / "source.bin"
    source.write_bytes(CONTENT)
    assert fetch(source.as_uri(), tmp_path / "copy.bin", md5=MD5).read_bytes() == CONTENT


def test_a_file_that_is_right_is_not_fetched_again(tmp_path, at, server):
    (tmp_path / "file.bin").write_bytes(CONTENT)
    fetch(f"{at}/whole", tmp_path / "file.bin", sha256=SHA256)
    assert server.asked == []
    (tmp_path / "file.bin").write_bytes(b"other")
    fetch(f"{at}/whole", tmp_path / "file.bin", sha256=SHA256)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_connection_that_breaks_off_is_taken_up_again(tmp_path, at, server):
    assert fetch(f"{at}/breaks", tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert server.asked == [("/breaks", None), ("/breaks", "bytes=5120-"), ("/breaks", "bytes=7680-")]


def test_a_server_without_ranges_sends_everything_again(tmp_path, at, server):
    assert fetch(f"{at}/forgets", tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["/forgets", "/forgets"]


def nothing_in(folder):
    return list(folder.iterdir()) == []


def test_a_file_that_never_comes_whole_is_not_kept(tmp_path, at):
    with pytest.raises(InputError, match="expected 10,240 bytes, got 5,120: try again; nothing was kept"):
        fetch(f"{at}/never", tmp_path / "file.bin", sha256=SHA256, size=len(CONTENT))
    assert nothing_in(tmp_path)


@pytest.mark.parametrize(("method", "right"), [("sha256", SHA256), ("md5", MD5)])
def test_a_wrong_checksum_names_both(tmp_path, at, method, right):
    with pytest.raises(InputError, match=f"/whole: expected {method} {'0' * len(right)}, got {right}: .*nothing was kept"):
        fetch(f"{at}/whole", tmp_path / "file.bin", **{method: "0" * len(right)})
    assert nothing_in(tmp_path)


def test_a_refusal_says_what_to_do_by_hand(tmp_path, at, server):
    with pytest.raises(
        InputError, match=r"/missing cannot be downloaded \(Not Found\): .*download it by hand and put it at .*file.bin"
    ):
        fetch(f"{at}/missing", tmp_path / "file.bin", sha256=SHA256)
    assert len(server.asked) == 1
    assert nothing_in(tmp_path)


def test_no_connection_says_what_to_do_by_hand(tmp_path):
    with pytest.raises(InputError, match=r"http://127.0.0.1:1/a cannot be downloaded \(.*refused.*\): .*by hand"):
        fetch("http://127.0.0.1:1/a", tmp_path / "file.bin", sha256=SHA256)
    with pytest.raises(InputError, match="cannot be downloaded"):
        fetch((tmp_path / "absent").as_uri(), tmp_path / "file.bin", sha256=SHA256)


@pytest.mark.parametrize("url", ["ftp://example.org/a", "a.zip", "data:,a"])
def test_other_addresses_are_refused(tmp_path, url):
    with pytest.raises(InputError, match="url: expected an address that begins with http, https, file"):
        fetch(url, tmp_path / "file.bin", sha256=SHA256)


def test_a_checksum_is_needed(tmp_path):
    with pytest.raises(InputError, match="sha256, md5: expected exactly one of them"):
        fetch("http://127.0.0.1:1/a", tmp_path / "file.bin")


def make_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def make_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(("make", "name"), [(make_tar, "a.tar.gz"), (make_zip, "a.zip")])
def test_unpack(tmp_path, make, name):
    archive = make(tmp_path / name, {"data/one.txt": b"1", "data/inner/two.txt": b"2", "notes.txt": b"3"})
    assert unpack(archive, tmp_path / "out") == [tmp_path / "out/data", tmp_path / "out/notes.txt"]
    assert (tmp_path / "out/data/inner/two.txt").read_bytes() == b"2"
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == ["data", "notes.txt"]


@pytest.mark.parametrize(
    ("make", "members"),
    [
        (make_tar, {"good.txt": b"", "../evil.txt": b""}),
        (make_tar, {"good.txt": b"", "/evil.txt": b""}),
        (make_zip, {"good.txt": b"", "../evil.txt": b""}),
        (make_zip, {"/evil.txt": b""}),
        (make_zip, {"a\\..\\..\\evil.txt": b""}),
        (make_zip, {"C:/evil.txt": b""}),
    ],
)
def test_paths_that_lead_outside_are_refused(tmp_path, make, members):
    archive = make(tmp_path / "archive", members)
    with pytest.raises(InputError, match=r"archive holds a path that leads outside .*: refused"):
        unpack(archive, tmp_path / "out")
    assert nothing_in(tmp_path / "out")
    assert not (tmp_path / "evil.txt").exists()


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def chain_of_links():
    """Folders and links whose resolved path outgrows the longest a system resolves, so that its end is taken on trust."""
    long, path = "d" * 247, ""
    for step in "abcdefghijklmnop":
        yield special(f"{path}{long}", tarfile.DIRTYPE)
        yield special(f"{path}{step}", tarfile.SYMTYPE, long)
        path = f"{path}{long}/"
    last = "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/" + "l" * 254
    yield special(last, tarfile.SYMTYPE, "../" * 16)
    yield special("escape", tarfile.SYMTYPE, f"{last}/../..")
    yield special("escape/evil.txt", tarfile.REGTYPE)


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ([special("link", tarfile.SYMTYPE, "..")], "a link, which may lead outside"),
        ([special("link", tarfile.SYMTYPE, "/etc/passwd")], "a link, which may lead outside"),
        ([special("one.txt", tarfile.REGTYPE), special("link", tarfile.SYMTYPE, "one.txt")], "a link"),
        ([special("one.txt", tarfile.REGTYPE), special("link", tarfile.LNKTYPE, "one.txt")], "a link"),
        ([special("pipe", tarfile.FIFOTYPE)], "something that is neither file nor folder"),
        (list(chain_of_links()), "a link"),
    ],
)
def test_links_and_devices_are_refused(tmp_path, members, what):
    with tarfile.open(tmp_path / "archive", "w") as archive:
        for member in members:
            archive.addfile(member)
    with pytest.raises(InputError, match=f"archive holds {what}.*: refused"):
        unpack(tmp_path / "archive", tmp_path / "deep" / "out")
    assert nothing_in(tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("evil.txt"))


def test_links_in_a_zip_are_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match=r"archive holds a link, which may lead outside \('link'\): refused"):
        unpack(tmp_path / "archive", tmp_path / "out")


def test_nothing_is_replaced(tmp_path):
    archive = make_zip(tmp_path / "a.zip", {"data/one.txt": b"1", "a.txt": b"2"})
    (tmp_path / "out/data").mkdir(parents=True)
    with pytest.raises(InputError, match=r"out/data is there already: move it away before unpacking a.zip"):
        unpack(archive, tmp_path / "out")
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["data"]


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_damaged_archives_leave_nothing(tmp_path, make):
    path = make(tmp_path / "archive", {"data/one.bin": CONTENT, "data/two.bin": CONTENT})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"archive(:| cannot)"):
        unpack(path, tmp_path / "out")
    assert nothing_in(tmp_path / "out")


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_a_flipped_byte_of_a_compressed_archive_is_found(tmp_path, mode):
    """Wherever it is: in the header, in what is compressed, or in the checksum at the very end."""
    random = np.random.default_rng(0)
    whole = make_tar(tmp_path / "whole", {"data/one.bin": random.bytes(3000) + b"abcd" * 5000}, mode).read_bytes()
    places = [*random.integers(30, len(whole), 40).tolist(), len(whole) - 6]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(random.integers(8))
        (tmp_path / "archive").write_bytes(damaged)
        with pytest.raises(InputError, match=r"archive(:| cannot be unpacked)"):
            unpack(tmp_path / "archive", tmp_path / "out")
        assert nothing_in(tmp_path / "out")


def test_a_plain_archive_that_ends_in_a_broken_header_is_refused(tmp_path):
    path = make_tar(tmp_path / "archive", {"one.bin": CONTENT, "two.bin": CONTENT}, "w")
    damaged = bytearray(path.read_bytes())
    damaged[512 + len(CONTENT) + 3] ^= 1  # in the name of the second file, which its header has a checksum of
    path.write_bytes(damaged)
    with pytest.raises(InputError, match="no end of the archive where it should be"):
        unpack(path, tmp_path / "out")
    assert nothing_in(tmp_path / "out")


LIMITS = {
    "size": ArchiveLimits(size=20_000),
    "members": ArchiveLimits(members=2),
    "ratio": ArchiveLimits(ratio=3, always=15_000),
}


@pytest.mark.parametrize(("make", "mode"), [(make_tar, "w:gz"), (make_tar, "w:xz"), (make_zip, None)])
@pytest.mark.parametrize("limit", LIMITS)
def test_an_archive_that_holds_more_than_it_may_is_refused(tmp_path, make, mode, limit):
    members = {f"{number}.bin": bytes(10_000) for number in range(3)}
    path = make(tmp_path / "archive", members, mode) if mode else make_packed_zip(tmp_path / "archive", members)
    assert len(unpack(path, tmp_path / "all")) == 3
    most = {"size": "20,000 bytes", "members": "2 files and folders", "ratio": "15,000 bytes"}[limit]
    with pytest.raises(InputError, match=f"archive: expected an archive of at most {most}, got more: refused"):
        unpack(path, tmp_path / "out", limits=LIMITS[limit])
    assert nothing_in(tmp_path / "out")


def make_packed_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_what_follows_the_end_of_a_tar_counts_as_well(tmp_path):
    plain = make_tar(tmp_path / "plain", {"one.bin": b"1"}, "w").read_bytes()
    (tmp_path / "archive").write_bytes(gzip.compress(plain + bytes(10**7)))
    with pytest.raises(InputError, match="at most 1,000,000 bytes, got more"):
        unpack(tmp_path / "archive", tmp_path / "out", limits=ArchiveLimits(size=10**6))


def test_the_published_archives_are_within_the_limits():
    limits = ArchiveLimits()
    limits.check(Path("inaturalist.tar.gz"), 186 * 10**9, 675_170, 190 * 10**9)
    with pytest.raises(InputError, match="at most 100,000,000 bytes"):
        limits.check(Path("bomb.zip"), 42_000, 16, 4 * 10**15)


@pytest.mark.parametrize("make", [make_tar, make_zip])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_disk_that_is_full_or_refuses_is_not_called_damage(tmp_path, monkeypatch, make, number):
    path = make(tmp_path / "archive", {"one.bin": CONTENT})

    def refused(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(zipfile.shutil, "copyfileobj", refused)
    monkeypatch.setattr(tarfile, "copyfileobj", refused)
    with pytest.raises(PlaceError, match=f"^cannot write .*out: {os.strerror(number).lower()}, while archive was unpacked: "):
        unpack(path, tmp_path / "out")
    assert nothing_in(tmp_path / "out")


def test_a_disk_that_fills_up_during_a_download_is_told_at_once(tmp_path, at, server, monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(downloads, "_continue", refused)
    with pytest.raises(PlaceError, match=r"^cannot write .*file.bin: no space left on device: make room"):
        fetch(f"{at}/whole", tmp_path / "file.bin", sha256=SHA256)


def test_a_file_where_the_folder_should_be_is_a_sentence(tmp_path):
    path = make_zip(tmp_path / "archive", {"one.bin": CONTENT})
    (tmp_path / "out").write_text("")
    with pytest.raises(PlaceError, match=r"^cannot write .*out: file exists, while archive was unpacked"):
        unpack(path, tmp_path / "out")


def test_what_is_no_archive(tmp_path):
    with pytest.raises(InputError, match="expected a tar or zip archive, got nothing"):
        unpack(tmp_path / "absent", tmp_path / "out")
    (tmp_path / "text").write_text("text")
    with pytest.raises(InputError, match="expected a tar or zip archive, got another file"):
        unpack(tmp_path / "text", tmp_path / "out")


def test_a_dataset_is_fetched_once(tmp_path, monkeypatch):
    source = make_zip(tmp_path / "images_background.zip", {"images_background/Ge_ez/character01/0001_01.png": CONTENT})
    offered = Archive(
        source.as_uri(), source.stat().st_size, hashlib.sha256(source.read_bytes()).hexdigest(), "images_background"
    )
    monkeypatch.setattr(downloads, "DOWNLOADS", {"omniglot": (offered,)})
    folder = tmp_path / "data"
    assert downloads.download_omniglot(folder) == folder
    assert [entry.name for entry in folder.iterdir()] == ["images_background"]
    source.unlink()
    downloads.download_omniglot(folder)


@pytest.mark.parametrize("name", ["download_cifar10", "download_cifar100", "download_omniglot"])
def test_published_archives_are_asked_for_by_their_address(tmp_path, monkeypatch, name):
    asked = []

    def refuse(request, timeout):
        asked.append(request.full_url)
        raise OSError("offline")

    monkeypatch.setattr(downloads.urllib.request, "urlopen", refuse)
    with pytest.raises(InputError, match=r"https://.* cannot be downloaded \(offline\)"):
        getattr(downloads, name)(tmp_path)
    assert len(asked) == downloads.ATTEMPTS
    assert nothing_in(tmp_path)


def test_an_interruption_leaves_nothing(tmp_path, at):
    def stop(_):
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        fetch(f"{at}/whole", tmp_path / "file.bin", sha256=SHA256, progress=stop)
    assert nothing_in(tmp_path)


def test_progress_counts_on_over_several_archives(tmp_path):
    offered = []
    for name in ("one", "two"):
        source = tmp_path / f"{name}.zip"
        with zipfile.ZipFile(source, "w") as file:
            file.writestr(f"{name}/a.txt", name)
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        offered.append(Archive(source.as_uri(), source.stat().st_size, digest, name))
    told = []
    downloads.download_archives(offered, tmp_path / "data", progress=told.append)
    assert told == sorted(told)
    assert told[-1] == sum(archive.size for archive in offered)
