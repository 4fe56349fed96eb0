"""Kinds of picture files: which suffixes mean a picture, which kinds need a decoder that may be missing, and what bytes are.

Nothing here opens a picture, so that folders are listed without an image library.
"""

from pathlib import Path
from typing import NamedTuple

# Read where there is a decoder for them; otherwise they are named and counted as unreadable.
SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .webp .gif .bmp .tif .tiff .ppm .pgm .pbm "  # noqa: SIM905
    ".avif .avifs .jp2 .j2k .jpx .heic .heif .hif".split(),
)
# Pictures all the same, which are left out and said to be.
NOT_READ = frozenset(".cr2 .cr3 .nef .arw .dng .orf .rw2 .raf .jxl .svg .psd .tga .ico .eps".split())  # noqa: SIM905
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


class Kind(NamedTuple):
    """A kind of picture file and how to get a decoder for it."""

    name: str
    advice: str


HEIC = Kind("HEIC", "pip install 'shortlist[heic]'")
AVIF = Kind("AVIF", "pip install 'pillow>=11.3'")
JPEG_2000 = Kind("JPEG 2000", "install a Pillow that is built with OpenJPEG")
JPEG_XL = Kind("JPEG XL", "convert it to JPEG or PNG")


def kind_of_bytes(start: bytes) -> Kind | None:
    r"""The kind of a file that needs a decoder of its own, by its first 12 bytes; None for any other file.

    >>> kind_of_bytes(b"\0\0\0\x18ftypheic").name
    'HEIC'
    """
    if start[4:8] == b"ftyp":
        brand = start[8:12]
        return HEIC if brand in HEIC_BRANDS else AVIF if brand in (b"avif", b"avis") else None
    if start.startswith((b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51")):
        return JPEG_2000
    return JPEG_XL if start.startswith((b"\xff\x0a", b"\0\0\0\x0cJXL ")) else None


def is_picture_name(name: str) -> bool:
    """Whether a file is a picture by its suffix.

    >>> is_picture_name("IMG_0001.HEIC"), is_picture_name("notes.txt")
    (True, False)
    """
    return Path(name).suffix.lower() in SUFFIXES


def is_unread_picture_name(name: str) -> bool:
    """Whether a file is a picture of a kind that is not read, such as a raw photograph, by its suffix."""
    return Path(name).suffix.lower() in NOT_READ
