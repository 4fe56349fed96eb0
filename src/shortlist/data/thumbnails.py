"""Thumbnails: small JPEGs of pictures, for pages and indices."""

import base64
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

JPEG_QUALITY = 85


def small_jpeg(image: "Image", side: int, quality: int = JPEG_QUALITY) -> bytes:
    """The whole image as a JPEG, no side longer than ``side`` pixels.

    Nothing but pixels is kept: no place, no camera, no comment.
    """
    image = image.copy()  # it may be the user's own
    image.thumbnail((side, side))
    image.info.clear()  # comments would be written again
    content = io.BytesIO()
    image.save(content, "jpeg", quality=quality)
    return content.getvalue()


def jpeg_uri(content: bytes) -> str:
    """A JPEG as the text that an HTML page embeds."""
    return "data:image/jpeg;base64," + base64.b64encode(content).decode()
