"""Uploads: the bytes of photographs that came from outside, within limits, decoded as pictures everywhere else are.

Nothing of a file name is used. What is kept of a photograph is encoded anew from its pixels, so that metadata, the place where
it was taken among them, are gone.
"""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from PIL import Image
from torch import Tensor

from shortlist.data.decoding import PictureError, decode

MOST_PHOTOGRAPHS = 5  # of one individual
MOST_BYTES = 12 * 2**20  # of one photograph
MOST_PIXELS = 50_000_000  # decoded, 150 MB
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
        image: decoded, upright RGB.
        pixels: what the network reads of it, uint8 (3, size, size); empty until it is prepared.
    """

    content: bytes
    image: Image.Image
    pixels: Tensor

    @property
    def digest(self) -> str:
        """Digest of the bytes."""
        return hashlib.sha256(self.content).hexdigest()[:32]

    def with_pixels(self, pixels: Tensor) -> "Photograph":
        """The same with what the network reads."""
        return replace(self, pixels=pixels)


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


def decode_upload(content: bytes, place: int = 1) -> Photograph:
    """A photograph from the bytes of a file.

    Args:
        content: the bytes.
        place: its number among several, for messages.
    """
    try:
        found = decode(content, most_pixels=MOST_PIXELS)
    except PictureError as error:
        raise UploadError(
            f"photograph {place}: {error}: expected a JPEG, PNG, WebP or another usual picture file", 415
        ) from None
    return Photograph(content, found.image, torch.empty(0, dtype=torch.uint8))


def encoded_anew(content: bytes, side: int = KEPT_SIDE) -> bytes:
    """A JPEG of the pixels alone, upright, no side longer than so many pixels, without any metadata."""
    image = decode(content, most_pixels=MOST_PIXELS).image
    return jpeg(image, side, KEPT_QUALITY)


def jpeg(image: Image.Image, side: int, quality: int) -> bytes:
    """A JPEG of an image, no side longer than so many pixels; nothing but pixels is written."""
    plain = Image.frombytes("RGB", image.size, image.tobytes())  # what an image carries beside its pixels stays behind
    plain.thumbnail((side, side))
    written = io.BytesIO()
    plain.save(written, "jpeg", quality=quality)
    return written.getvalue()
