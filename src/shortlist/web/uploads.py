"""Uploads: the bytes of photographs that came from outside, within limits, decoded as pictures everywhere else are.

Nothing of a file name is used. What is kept of a photograph is encoded anew from its pixels, so that metadata, the place where
it was taken among them, are gone.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from PIL import Image
from torch import Tensor

from shortlist.data.decoding import PictureError, decode, number_of_pixels
from shortlist.web.budgets import Budget

Made = TypeVar("Made")
MOST_PHOTOGRAPHS = 5  # of one individual
MOST_BYTES = 12 * 2**20  # of one photograph
MOST_BODY = MOST_PHOTOGRAPHS * MOST_BYTES + 2**20  # of a request with photographs
MOST_READ = 8 * MOST_BODY  # of all such requests that are being answered
MOST_PIXELS = 50_000_000  # decoded, 150 MB
DECODED = Budget(MOST_PIXELS)  # pixels that are decoded at a time: one large picture, or many small ones
KEPT_SIDE = 1600  # of photographs that are kept with a vote
KEPT_QUALITY = 90


class UploadError(Exception):
    """Photographs that are not taken; the message says why.

    Args:
        sentence: what was expected, and what came.
        status: the HTTP status that says the same.
    """

    def __init__(self, sentence: str, status: int = 400):
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, eq=False)
class Photograph:
    """A photograph that was asked about.

    Args:
        content: the bytes as they came.
        pixels: what the network reads of it, uint8 (3, size, size).
    """

    content: bytes
    pixels: Tensor

    @property
    def digest(self) -> str:
        """Digest of the bytes."""
        return hashlib.sha256(self.content).hexdigest()[:32]


def check_uploads(contents: Sequence[bytes]) -> None:
    """Raise :class:`UploadError` unless these are as many photographs, and as small ones, as are taken."""
    if not contents:
        raise UploadError(f"images: expected one to {MOST_PHOTOGRAPHS} photographs of one individual, got none")
    if len(contents) > MOST_PHOTOGRAPHS:
        raise UploadError(
            f"images: expected at most {MOST_PHOTOGRAPHS} photographs of one individual, got {len(contents)}", 413
        )
    for place, content in enumerate(contents, 1):
        if len(content) > MOST_BYTES:
            raise UploadError(
                f"photograph {place}: expected at most {MOST_BYTES // 2**20} MB, got {len(content) / 2**20:.1f}", 413
            )


def of_decoded(content: bytes, made: Callable[[Image.Image], Made]) -> Made:
    """What is made of the picture in these bytes, upright RGB; waits while too many pixels are decoded."""
    with DECODED.waiting(number_of_pixels(content)):
        return made(decode(content, most_pixels=MOST_PIXELS).image)  # no name for the image, which would outlive its room


def read_upload(content: bytes, fit: Callable[[Image.Image], Tensor], place: int = 1) -> Photograph:
    """A photograph from the bytes of a file; what is decoded of it is gone before the next one is.

    Args:
        content: the bytes.
        fit: what the network reads of an image.
        place: its number among several, for messages.
    """
    try:
        return Photograph(content, of_decoded(content, fit))
    except PictureError as error:
        raise UploadError(
            f"photograph {place}: {error}: expected a JPEG, PNG, WebP or another usual picture file", 415
        ) from None


def encoded_anew(content: bytes, side: int = KEPT_SIDE) -> bytes:
    """A JPEG of the pixels alone, upright, no side longer than so many pixels, without any metadata."""
    return of_decoded(content, partial(jpeg, side=side, quality=KEPT_QUALITY))


def jpeg(image: Image.Image, side: int, quality: int) -> bytes:
    """A JPEG of an image, no side longer than so many pixels; nothing but pixels is written."""
    plain = Image.frombytes("RGB", image.size, image.tobytes())  # what an image carries beside its pixels stays behind
    plain.thumbnail((side, side))
    written = io.BytesIO()
    plain.save(written, "jpeg", quality=quality)
    return written.getvalue()
