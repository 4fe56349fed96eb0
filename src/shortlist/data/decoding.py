"""One picture: a file or bytes → ``uint8 (3, H, W)``, upright, whatever its mode, within a limit on its size."""

import io
import os
import stat
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from shortlist.data.picture_kinds import kind_of_bytes
from shortlist.data.quiet import QuietPillow
from shortlist.errors import InputError
from shortlist.tensors import Array

# 100 million pixels are 300 MB decoded.
MOST_PIXELS = 100_000_000
PILLOW_LIMIT = 178_956_970  # above which Pillow refuses to open a file
QUIET = QuietPillow()
# What Pillow raises on files that are damaged in one way or another.
DAMAGED = (
    *(OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, MemoryError, RuntimeError),
    *(ArithmeticError, AttributeError, AssertionError, struct.error, zlib.error),
)
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000", "HEIF")
HEAD = 12  # bytes that tell a kind of file
ORIENTATION = 0x0112  # the EXIF tag
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
DEEP_ROWS = 64  # of a deep picture, scaled at a time
SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")


class PictureError(InputError):
    """A picture cannot be read; the message says why, without its path."""


@dataclass(frozen=True)
class Decoded:
    """A picture in RGB and upright, with a remark if it had to be converted."""

    image: Image.Image
    remark: str | None = None

    @property
    def pixels(self) -> Tensor:
        """``uint8 (3, H, W)``."""
        return torch.from_numpy(np.asarray(self.image).transpose(2, 0, 1).copy())


def read_picture(source: str | Path | bytes, *, at_least: int | None = None, most_pixels: int = MOST_PIXELS) -> Tensor:
    """The picture as ``uint8 (3, H, W)``: turned upright by its EXIF orientation, in RGB, the first frame of several.

    Args:
        source: a path, or the bytes of a file.
        at_least: decode a JPEG at the smallest of its built-in scales whose shorter side is not below this, which saves
            most of the time if the picture is shrunk anyway, for thumbnails. Pixels differ slightly from those of a picture
            that is decoded at full scale and shrunk, so networks get the latter.
        most_pixels: larger pictures are refused before they are decoded.
    """
    return decode(source, at_least=at_least, most_pixels=most_pixels).pixels


def decode(source: str | Path | bytes, *, at_least: int | None = None, most_pixels: int = MOST_PIXELS) -> Decoded:
    """As :func:`read_picture`, with a remark where the file was unusual; raises :class:`PictureError`."""
    if most_pixels > PILLOW_LIMIT:
        raise InputError(f"most_pixels: expected at most {PILLOW_LIMIT:,}, the limit of Pillow, got {most_pixels:,}")
    try:
        if not isinstance(source, bytes) and not stat.S_ISREG(os.stat(source).st_mode):
            raise PictureError("a folder, not a file" if os.path.isdir(source) else "no ordinary file")  # a pipe would wait
        with QUIET, Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=_formats()) as image:
            return decode_image(image, at_least=at_least, most_pixels=most_pixels)
    except PictureError:
        raise
    except FileNotFoundError:
        raise PictureError("there is no such file") from None
    except PermissionError:
        raise PictureError("permission denied") from None
    except Image.DecompressionBombError:
        raise PictureError(f"larger than the limit of {most_pixels:,} pixels") from None
    except UnidentifiedImageError:
        raise PictureError(_unidentified(source)) from None
    except DAMAGED as error:
        raise PictureError(f"damaged or cut short ({_first_line(error)})") from None


def number_of_pixels(content: bytes) -> int:
    """How many pixels the picture in these bytes has, by its header alone; 0 if it cannot be told, and so not decoded."""
    try:
        with QUIET, Image.open(io.BytesIO(content), formats=_formats()) as image:
            return image.width * image.height
    except (UnidentifiedImageError, Image.DecompressionBombError, *DAMAGED):
        return 0


@cache
def _formats() -> list[str]:
    """The formats that this Pillow can open, of those that hold photographs; others bring programs of their own with them."""
    Image.init()
    with suppress(ImportError, OSError):  # the extra heic; OSError: its library is not that of this machine
        import_module("pillow_heif").register_heif_opener()
    return [name for name in FORMATS if name in Image.OPEN]


def _unidentified(source: str | Path | bytes) -> str:
    """Why a file is no picture for Pillow: there may be no decoder for it."""
    try:
        if isinstance(source, bytes):
            start = source[:HEAD]
        else:
            with open(source, "rb") as file:
                start = file.read(HEAD)
    except OSError:
        start = b""
    kind = kind_of_bytes(start)
    if kind is None:
        return "not a picture that can be read"
    return f"{kind.name}, for which no decoder is installed: {kind.advice}"


def decode_image(image: Image.Image, *, at_least: int | None = None, most_pixels: int = MOST_PIXELS) -> Decoded:
    """Convert a Pillow image as if it were read from a file: upright, in RGB, within the same limits.

    Args:
        image: of any mode.
        at_least: as in :func:`read_picture`.
        most_pixels: larger pictures are refused before they are decoded.

    >>> decode_image(Image.new("L", (2, 1), 7)).pixels.tolist()
    [[[7, 7]], [[7, 7]], [[7, 7]]]
    """
    try:
        return _upright_rgb(image, at_least, most_pixels)
    except PictureError:
        raise
    except DAMAGED as error:
        raise PictureError(f"damaged or cut short ({_first_line(error)})") from None


def _upright_rgb(image: Image.Image, at_least: int | None, most_pixels: int) -> Decoded:
    width, height = image.size
    if width * height > most_pixels:
        raise PictureError(f"{width:,} × {height:,} pixels, larger than the limit of {most_pixels:,}")
    if not width or not height:
        raise PictureError("a picture without pixels")
    several, mode = image.format != "MPO" and getattr(image, "is_animated", False), image.mode
    if at_least is not None:
        image.draft(None, (at_least, at_least))  # None keeps the mode
    image.load()
    turn = UPRIGHT.get(_orientation(image))
    upright = _to_rgb(image if turn is None else image.transpose(turn))
    return Decoded(upright, "the first of several frames is used" if several else _remark_on_mode(mode))


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation; 1 if it cannot be read, because damaged metadata should not cost the picture."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # whatever Pillow makes of garbage
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    """RGB whatever the mode; what is transparent shows white, as on paper."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode in SIXTEEN_BITS or image.mode in ("I", "F"):
        return Image.fromarray(_to_eight_bits(np.asarray(image), image.mode)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layered = image.convert("RGBA")
        paper = Image.new("RGBA", layered.size, (255, 255, 255, 255))
        return Image.alpha_composite(paper, layered).convert("RGB")
    return image.convert("RGB")


def _to_eight_bits(values: Array, mode: str) -> Array:
    """Pillow would clip deep pixels at 255; here the full range becomes 0 to 255. Float pictures go to 1, or else to 255."""
    with np.errstate(invalid="ignore"):  # not numbers become 0
        if mode == "F":
            top = 255.0 if (values > 1).any() else 1.0
        else:
            top = 65535.0 if mode != "I" or values.max(initial=0) > 255 else 255.0
        found = np.empty(values.shape, np.uint8)
        for start in range(0, len(values), DEEP_ROWS):  # a whole picture in float64 would take several times its memory
            part = slice(start, start + DEEP_ROWS)
            found[part] = np.nan_to_num(values[part].astype(np.float64) * (255.0 / top)).clip(0, 255).round()
    return found


def _remark_on_mode(mode: str) -> str | None:
    if mode in SIXTEEN_BITS or mode in ("I", "F"):
        return "more than 8 bits a pixel, scaled to 8"
    if mode in ("L", "1", "LA", "La"):
        return "grayscale, read as RGB"
    if mode == "CMYK":
        return "CMYK, read as RGB"
    if mode in ("RGBA", "RGBa", "PA"):
        return "transparency, laid on white"
    return None


def _first_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # without the path, which the caller knows
    return (str(error).splitlines() or [type(error).__name__])[0][:80]
