"""Small pictures as files, for the tests of whatever opens pictures."""

import io

import numpy as np
from PIL import Image


def noise(height=6, width=9, channels=3, seed=0):
    """Random pixels, ``uint8 (H, W, channels)``; without the last axis for one channel."""
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def file_of(image, form="PNG", **options):
    """The bytes of a file."""
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def write_picture(path, colour=(200, 30, 30), size=(8, 8)):
    """A picture of one colour; the format goes by the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path
