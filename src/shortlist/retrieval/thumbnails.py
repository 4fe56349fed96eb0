"""Small pictures, for the index and for the page."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

QUALITY = 85


def small_jpeg(image: "Image", side: int) -> bytes:
    """All of the picture, no side longer than that, as a JPEG; the picture itself is shrunk."""
    image.thumbnail((side, side))
    content = io.BytesIO()
    image.save(content, "jpeg", quality=QUALITY)
    return content.getvalue()
