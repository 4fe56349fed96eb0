"""One picture: a file or bytes → ``uint8 (3, H, W)``, upright, whatever its mode, within a limit on its size."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from shortlist.data.quiet import QuietPillow
from shortlist.errors import InputError
from shortlist.tensors import Array

# 100 million pixels are 300 MB decoded; the largest cameras sold make about that, and a "bomb" makes far more.
MOST_PIXELS = 100_000_000
PILLOW_LIMIT = 178_956_970  # above which Pillow refuses to open a file
QUIET = QuietPillow()
SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .webp .gif .bmp .tif .tiff .ppm .pgm .pbm .avif .jp2".split(),  # noqa: SIM905
)
# What Pillow raises on files that are damaged in one way or another.
DAMAGED = (OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, OverflowError, MemoryError, RuntimeError)
SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")


class PictureError(InputError):
    """A picture cannot be read; the message says why, without its path."""


@dataclass(frozen=True)
class Decoded:
    """A picture in RGB and upright, and what a person may want to know about how it became so."""

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
        at_least: decode a JPEG at the smallest of its built-in scales whose shorter side is not below this; whoever shrinks
            the picture anyway saves most of the time.
        most_pixels: larger pictures are refused before they are decoded.
    """
    return decode(source, at_least=at_least, most_pixels=most_pixels).pixels


def decode(source: str | Path | bytes, *, at_least: int | None = None, most_pixels: int = MOST_PIXELS) -> Decoded:
    """As :func:`read_picture`, with a remark where the file was unusual; raises :class:`PictureError`."""
    if most_pixels > PILLOW_LIMIT:
        raise InputError(f"most_pixels: expected at most {PILLOW_LIMIT:,}, the limit of Pillow, got {most_pixels:,}")
    try:
        with QUIET, Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            return _decode_opened(image, at_least, most_pixels)
    except PictureError:
        raise
    except FileNotFoundError:
        raise PictureError("there is no such file") from None
    except IsADirectoryError:
        raise PictureError("a folder, not a file") from None
    except PermissionError:
        raise PictureError("permission denied") from None
    except Image.DecompressionBombError:
        raise PictureError(f"larger than the limit of {most_pixels:,} pixels") from None
    except UnidentifiedImageError:
        raise PictureError("not a picture that can be read") from None
    except DAMAGED as error:
        raise PictureError(f"damaged or cut short ({_first_line(error)})") from None


def _decode_opened(image: Image.Image, at_least: int | None, most_pixels: int) -> Decoded:
    width, height = image.size
    if width * height > most_pixels:
        raise PictureError(f"{width:,} × {height:,} pixels, larger than the limit of {most_pixels:,}")
    if not width or not height:
        raise PictureError("a picture without pixels")
    frames = getattr(image, "n_frames", 1)
    mode = image.mode
    if at_least is not None:
        image.draft(None, (at_least, at_least))  # None keeps the mode
    image.load()
    upright = _to_rgb(ImageOps.exif_transpose(image))
    remark = f"the first of {frames} frames is used" if frames > 1 and image.format != "MPO" else _remark_on_mode(mode)
    return Decoded(upright, remark)


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
    deep = values.astype(np.float64)
    if mode == "F":
        top = 1.0 if (np.nan_to_num(deep) <= 1.0).all() else 255.0
    else:
        top = 65535.0 if mode != "I" or deep.max(initial=0) > 255 else 255.0
    return np.nan_to_num(deep * (255.0 / top)).clip(0, 255).round().astype(np.uint8)


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
