"""Painting many pictures at once: one shape into each, antialiased by its distance to the pixel, no pixel drawn twice.

Only additions, multiplications, divisions and square roots touch the pixels, which every machine rounds alike.
"""

from dataclasses import dataclass

import numpy as np

from shortlist.data.flora.shapes import DIRECTIONS, outlines
from shortlist.tensors import Array

SINGLE = np.float32
TURNS = 4096
LARGEST_RADIUS = 1.2  # of all outlines


def _turns() -> Array:
    """Cosine and sine of every 1/4096 turn, rounded so that no machine's last bit matters."""
    angle = np.arange(TURNS) * (2 * np.pi / TURNS)
    return (np.round(np.stack([np.cos(angle), np.sin(angle)]) * 2.0**20) * 2.0**-20).astype(SINGLE)


COSINE, SINE = _turns()


@dataclass(frozen=True, eq=False)
class Shapes:
    """One shape for each picture; lengths in halves of the picture's side, y upward, the middle is (0, 0).

    Args:
        outline: row of the table of outlines, int (n,).
        x, y: its middle.
        turn: by how many turns it is rotated, anticlockwise.
        length, width: its scale along its axis and across.
        colour: (n, 3), from 0 to 255.
        pattern: ``"petals"``, ``"leaf"``, ``"ball"``, ``"scales"`` or ``"flat"``.
    """

    outline: Array
    x: Array
    y: Array
    turn: Array
    length: Array
    width: Array
    colour: Array
    pattern: str = "flat"


class Canvas:
    """Pictures being painted, float32 (n, 3, size, size)."""

    def __init__(self, pictures: int, size: int, softness: Array):
        self.size = size
        self.pixels = np.empty((pictures, 3, size, size), SINGLE)
        self.softness = softness.astype(SINGLE)  # width of an edge, in pixels
        self.centres = ((np.arange(size) + 0.5) * (2 / size) - 1).astype(SINGLE)

    def paint(self, shapes: Shapes, shown: Array | None = None) -> None:
        """One shape over each picture, or over each of those that are ``shown``."""
        which = np.arange(len(self.pixels)) if shown is None else np.flatnonzero(shown)
        if not len(which):
            return
        chosen = [np.asarray(part)[which] for part in (shapes.x, shapes.y, shapes.turn, shapes.length, shapes.width)]
        x, y, turn, length, width = (part.astype(SINGLE) for part in chosen)
        # All that any of the shapes touches: else a picture would depend on the others of its block. An outline reaches out to
        # LARGEST_RADIUS, and its edge fades over half the softness divided by the cosine, of which a fifth is the least.
        longer, shorter = np.maximum(length, width), np.minimum(length, width)
        fade = 5 * self.softness[which] * np.sqrt(longer / shorter) / self.size
        reach = float((LARGEST_RADIUS * longer + fade).max())
        side = min(self.size, int(np.ceil(reach * self.size)) + 2)
        left, top = self._corner(x, side), self._corner(-y, side)
        steps = np.arange(side)
        dx = self.centres[left[:, None] + steps] - x[:, None]
        dy = -self.centres[top[:, None] + steps] - y[:, None]
        spin = (turn * TURNS).astype(np.int64) % TURNS
        cosine, sine = COSINE[spin][:, None], SINE[spin][:, None]
        long, wide = length[:, None], width[:, None]
        u = (dx * (cosine / long))[:, None, :] + (dy * (sine / long))[:, :, None]
        v = (dy * (cosine / wide))[:, :, None] - (dx * (sine / wide))[:, None, :]
        sharp = np.sqrt(length * width) * (SINGLE(self.size / 2) / self.softness[which])
        cover, depth, place = _coverage(u, v, shapes.outline[which], sharp)
        light = PATTERNS[shapes.pattern](u, v, depth, place)
        self._blend(which, left, top, side, cover, light, shapes.colour[which].astype(SINGLE))

    def stroke(
        self, start: tuple[Array, Array], end: tuple[Array, Array], thickness: Array, colour: Array, shown: Array
    ) -> None:
        """A straight stem in each picture that is ``shown``."""
        which = np.flatnonzero(shown)
        if not len(which):
            return
        x, y = (part[which].astype(SINGLE)[:, None, None] for part in start)
        along_x, along_y = (part[which].astype(SINGLE)[:, None, None] - at for part, at in zip(end, (x, y), strict=True))
        dx, dy = self.centres[None, None, :] - x, -self.centres[None, :, None] - y
        place = (dx * along_x + dy * along_y) / (along_x * along_x + along_y * along_y + SINGLE(1e-9))
        np.clip(place, 0, 1, out=place)
        away = np.sqrt((dx - place * along_x) ** 2 + (dy - place * along_y) ** 2)
        sharp = (SINGLE(self.size / 2) / self.softness[which])[:, None, None]
        cover = np.clip((thickness[which].astype(SINGLE)[:, None, None] - away) * sharp + SINGLE(0.5), 0, 1)
        zero = np.zeros(len(which), np.int64)
        self._blend(which, zero, zero, self.size, cover, None, colour[which].astype(SINGLE))

    def _corner(self, middle: Array, side: int) -> Array:
        """Where a window around the middle begins so that it stays inside the picture."""
        begin = np.floor((middle + 1) * SINGLE(self.size / 2)).astype(np.int64) - side // 2
        return np.clip(begin, 0, self.size - side)

    def _blend(
        self, which: Array, left: Array, top: Array, side: int, cover: Array, light: Array | None, colour: Array
    ) -> None:
        everything = side == self.size and len(which) == len(self.pixels)
        for channel in range(3):
            paint = colour[:, channel, None, None] if light is None else light * colour[:, channel, None, None]
            if everything:
                under = self.pixels[:, channel]
                under += cover * (paint - under)
            else:
                windows = np.lib.stride_tricks.sliding_window_view(
                    self.pixels[:, channel], (side, side), axis=(1, 2), writeable=True
                )
                under = windows[which, top, left]
                under += cover * (paint - under)
                windows[which, top, left] = under


def _coverage(u: Array, v: Array, outline: Array, sharp: Array) -> tuple[Array, Array, Array]:
    """How much of each pixel the shape covers, how far out the pixel lies (1 at the outline), and its place in the tables."""
    tables = outlines()
    far = np.abs(u)
    far += np.abs(v)
    far += SINGLE(1e-9)
    diamond = np.divide(v, far, out=far)
    np.subtract(SINGLE(2), diamond, out=diamond, where=u < 0)
    diamond += SINGLE(1)
    diamond *= SINGLE(DIRECTIONS / 4)
    place = diamond.astype(np.int32)
    np.minimum(place, DIRECTIONS - 1, out=place)
    place += (outline.astype(np.int32) * DIRECTIONS)[:, None, None]
    radius = tables.radius.take(place)
    distance = u * u
    distance += v * v
    np.sqrt(distance, out=distance)
    cover = radius - distance
    cover *= tables.cosine.take(place)
    cover *= sharp[:, None, None]
    cover += SINGLE(0.5)
    np.clip(cover, 0, 1, out=cover)
    distance /= radius
    return cover, distance, place


def _petals(u: Array, v: Array, depth: Array, place: Array) -> Array:
    """Darker toward the heart and toward the gaps between petals."""
    light = outlines().shade.take(place)
    light *= SINGLE(0.72) + SINGLE(0.28) * depth
    return light


def _leaf(u: Array, v: Array, depth: Array, place: Array) -> Array:
    """A pale rib along the axis, side ribs, one half in the light."""
    across = np.abs(v)
    light = np.where(v > 0, SINGLE(1.08), SINGLE(0.90))
    ribs = (u - across) * SINGLE(3.2)
    ribs -= np.floor(ribs)
    light -= SINGLE(0.09) * (ribs < SINGLE(0.3))
    rib = SINGLE(1.0) - across * SINGLE(14.0)
    np.clip(rib, 0, 1, out=rib)
    light += SINGLE(0.45) * rib
    return light


def _ball(u: Array, v: Array, depth: Array, place: Array) -> Array:
    """Lit from above."""
    return SINGLE(1.08) - SINGLE(0.45) * depth * depth


def _scales(u: Array, v: Array, depth: Array, place: Array) -> Array:
    """The crossed rows of a cone."""
    one, other = (u + v) * SINGLE(3.0), (u - v) * SINGLE(3.0)
    one -= np.floor(one)
    other -= np.floor(other)
    return SINGLE(1.15) - SINGLE(0.55) * np.maximum(one, other) ** 2


def _flat(u: Array, v: Array, depth: Array, place: Array) -> Array:
    """The same everywhere."""
    return np.ones_like(u)


PATTERNS = {"petals": _petals, "leaf": _leaf, "ball": _ball, "scales": _scales, "flat": _flat}
