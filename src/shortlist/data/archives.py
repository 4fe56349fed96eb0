"""Unpack archives of others: nothing outside the folder, no links, and no more than stated limits."""

import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from shortlist.data.inside import leads_outside
from shortlist.errors import InputError
from shortlist.files import SYSTEM, PlaceError, work_folder
from shortlist.words import printable, shown

BLOCK = 2**20
# What the libraries that read archives raise over damaged ones.
DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True)
class ArchiveLimits:
    """How much an archive may hold, so that a small file cannot fill the disk.

    Args:
        size: bytes of all files together.
        members: number of files and folders.
        ratio: how many times larger than the archive its content may be; only looked at above ``always`` bytes.
        always: bytes that any archive may hold.
    """

    size: int = 2**39
    members: int = 20_000_000
    ratio: float = 100
    always: int = 100_000_000

    def check(self, archive: Path, packed: int, members: int, size: int) -> None:
        """Raise an error if the archive holds more than this."""
        allowed = min(self.size, max(self.always, int(self.ratio * packed)))
        for found, most, what in ((members, self.members, "files and folders"), (size, allowed, "bytes")):
            if found > most:
                raise InputError(
                    f"{printable(str(archive))}: expected an archive of at most {most:,} {what}, got more: refused; if that is "
                    "what it should hold, unpack it by hand"
                )


def unpack(archive: str | Path, folder: str | Path, *, limits: ArchiveLimits = ArchiveLimits()) -> list[Path]:
    """Unpack a tar or zip archive into a folder; each of its outermost files and folders appears whole or not at all.

    Archives that hold a path which leads outside or is absolute, a link, or anything else that is neither file nor folder, more
    than the limits, or something that would replace what is there, are refused before anything appears. So are those whose
    checksums do not agree.

    Args:
        archive: the file.
        folder: where to unpack it.
        limits: how much it may hold.

    Returns:
        what appeared.
    """
    archive, folder = Path(archive), Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with work_folder(folder / archive.name) as beside:
            _unpack_into(archive, beside, limits)
            names = sorted(os.listdir(beside))
            taken = next((name for name in names if os.path.lexists(folder / name)), None)
            if taken is not None:
                there = printable(str(folder / taken))
                raise InputError(f"{there} is there already: move it away before unpacking {printable(archive.name)}")
            for name in names:
                (beside / name).rename(folder / name)
            return [folder / name for name in names]
    except OSError as error:
        if isinstance(error, InputError):
            raise
        reason = (error.strerror or type(error).__name__).lower()
        raise PlaceError.at(folder, f"{reason}, while {printable(archive.name)} was unpacked", error) from error


def _unpack_into(archive: Path, folder: Path, limits: ArchiveLimits) -> None:
    name = printable(str(archive))
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, folder, limits)
        elif tarfile.is_tarfile(archive):
            _unpack_tar(archive, folder, limits)
        else:
            raise InputError(f"{name}: expected a tar or zip archive, got another file")
    except InputError:
        raise
    except FileNotFoundError as error:
        if error.filename is not None and not Path(error.filename).is_relative_to(folder):
            raise InputError(f"{name}: expected a tar or zip archive, got nothing") from None
        raise
    except tarfile.FilterError as error:
        raise InputError(f"{name} holds a path that leads outside ({error}): refused") from None
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno in SYSTEM:
            raise  # the system could not write or read: no fault of the archive
        reason = (str(error).splitlines() or [type(error).__name__])[0][:80]
        raise InputError(f"{name} cannot be unpacked ({reason}): damaged or cut short") from None


def _unpack_zip(archive: Path, folder: Path, limits: ArchiveLimits) -> None:
    packed = archive.stat().st_size
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        # No member gives more bytes than it declares, so the declared sizes can be trusted.
        limits.check(archive, packed, len(members), sum(member.file_size for member in members))
        for member in members:
            kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the archive was not made on Unix
            _check_member(archive, member.filename, plain=kind in (0, stat.S_IFREG, stat.S_IFDIR), link=kind == stat.S_IFLNK)
        opened.extractall(folder)  # and their checksums, each as its end is read


def _unpack_tar(archive: Path, folder: Path, limits: ArchiveLimits) -> None:
    """One pass: what is looked at is what is unpacked, and the end, with the checksum of what is compressed, is read too."""
    packed, members, size = archive.stat().st_size, 0, 0
    with tarfile.open(archive) as opened:
        for member in opened:
            members, size = members + 1, size + member.size
            limits.check(archive, packed, members, size)
            plain, link = member.isreg() or member.isdir(), member.issym() or member.islnk()
            _check_member(archive, member.name, plain=plain, link=link)
            opened.extract(member, folder, filter="data")
        stream = opened.fileobj
        assert stream is not None  # while it is open
        stream.seek(opened.offset)
        # A header that cannot be read ends the members without a word; only zeros are the end of an archive.
        if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("no end of the archive where it should be")
        while block := stream.read(BLOCK):
            size += len(block)
            limits.check(archive, packed, members, size)


def _check_member(archive: Path, name: str, *, plain: bool, link: bool) -> None:
    if leads_outside(name):
        raise InputError(f"{printable(str(archive))} holds a path that leads outside ({shown(name, 80)}): refused")
    if not plain:
        what = "a link, which may lead outside" if link else "something that is neither file nor folder"
        raise InputError(f"{printable(str(archive))} holds {what} ({shown(name, 80)}): refused")
