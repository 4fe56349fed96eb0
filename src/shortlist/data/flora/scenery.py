"""Random parts of a picture that do not depend on the species: background, light, softness, grain."""

import numpy as np

from shortlist.data.flora.canvas import SINGLE, Canvas
from shortlist.data.randomness import Purpose, words
from shortlist.tensors import Array

# Soil, stone, sand, shade, straw, dusk, moss: medium to dark, so that every organ stands out from it.
GROUNDS = np.array(
    [[96, 74, 56], [132, 132, 128], [168, 150, 116], [38, 52, 44], [142, 128, 84], [84, 96, 122], [70, 84, 52]], np.float64
)
MOTTLES = 5  # the background is a smooth surface through so many by so many random heights
SCENERY_DRAWS = 8 + MOTTLES * MOTTLES


def new_canvas(chance: Array, size: int) -> Canvas:
    """Canvases with a mottled ground, from ``SCENERY_DRAWS`` random numbers for each picture, (n, SCENERY_DRAWS)."""
    softness = 1 + chance[:, 0] * (0.7 * size / 32)
    canvas = Canvas(len(chance), size, softness)
    ground = GROUNDS[(chance[:, 1] * len(GROUNDS)).astype(int)] * (0.85 + 0.3 * chance[:, 2:3])
    heights = chance[:, 8:].reshape(-1, MOTTLES, MOTTLES).astype(SINGLE)
    surface = SINGLE(0.78) + SINGLE(0.44) * _through(_through(heights, size).transpose(0, 2, 1), size)
    np.multiply(surface[:, None], ground.astype(SINGLE)[:, :, None, None], out=canvas.pixels)
    return canvas


def _through(heights: Array, size: int) -> Array:
    """The straight lines through equally spaced heights, along the last axis, at every pixel."""
    place = (np.arange(size) + 0.5) * ((MOTTLES - 1) / size)
    below = np.minimum(place.astype(int), MOTTLES - 2)
    share = (place - below).astype(SINGLE)
    found: Array = heights[..., below] * (1 - share) + heights[..., below + 1] * share
    return found


def developed(canvas: Canvas, chance: Array, grain: Array) -> Array:
    """The pictures as uint8 (n, 3, size, size): lit, tinted, with grain."""
    bright, warm = 0.84 + 0.28 * chance[:, 3], 0.08 * (chance[:, 4] - 0.5)
    tint = np.stack([bright * (1 + warm), bright, bright * (1 - warm)], axis=1).astype(SINGLE)
    pixels = canvas.pixels
    pixels *= tint[:, :, None, None]
    pixels += grain
    np.clip(pixels, 0, 255, out=pixels)
    return pixels.astype(np.uint8)


def grain(seed: int, start: int, rows: int, size: int) -> Array:
    """Noise of a few levels, and the half that rounds, float32 (rows, 3, size, size)."""
    count = 3 * size * size
    noise = words(seed, Purpose.GRAIN, start, rows, -(-count // 8)).view(np.uint8)[:, :count]
    return (noise.astype(SINGLE) * SINGLE(9 / 256) - SINGLE(4.0)).reshape(-1, 3, size, size)
