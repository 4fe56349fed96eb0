"""Flowers, leaves and fruits: a few shapes each, painted into every picture at once."""

import numpy as np

from shortlist.data.flora.canvas import Canvas, Shapes
from shortlist.data.flora.shapes import CIRCLE, POD, flower_row, leaf_row
from shortlist.tensors import Array

PETAL_COLOURS = np.array(
    [[240, 238, 232], [246, 212, 44], [238, 132, 32], [196, 34, 40], [242, 146, 190], [124, 58, 158], [64, 96, 214]], np.float64
)
# Heart of the flower: colour, and radius as a share of the flower's.
CENTRE_COLOURS = np.array([[236, 190, 40], [236, 190, 40], [62, 40, 34], [62, 40, 34]], np.float64)
CENTRE_RADII = np.array([0.17, 0.34, 0.34, 0.17])
LEAF_GREEN = np.array([86.0, 150.0, 62.0])
SHADOW = np.array([26.0, 26.0, 24.0])
STEM_GREEN = np.array([74.0, 118.0, 58.0])
SMOOTH = 0


class Place:
    """Where an organ is put in each picture: its middle, its turn and its scale."""

    def __init__(self, x: Array, y: Array, turn: Array, scale: Array, squash: Array | None = None):
        self.x, self.y, self.turn, self.scale = x, y, turn, scale
        self.squash = np.ones_like(scale) if squash is None else squash

    def offset(self, along: float, across: float, scale: float, turn: float = 0.0) -> "Place":
        """A part of the organ, placed in the organ's own frame."""
        angle = 2 * np.pi * self.turn
        cosine, sine = np.round(np.cos(angle), 6), np.round(np.sin(angle), 6)  # coarse, hence the same everywhere
        x = self.x + self.scale * (along * cosine - across * sine)
        y = self.y + self.scale * (along * sine + across * cosine)
        return Place(x, y, self.turn + turn, self.scale * scale, self.squash)


def paint_shape(
    canvas: Canvas, place: Place, outline: Array | int, colour: Array, pattern: str, shown: Array | None = None
) -> None:
    """One outline in one colour."""
    rows = np.broadcast_to(np.asarray(outline), place.x.shape)
    tones = np.broadcast_to(colour, (len(place.x), 3))
    shapes = Shapes(rows, place.x, place.y, place.turn, place.scale, place.scale * place.squash, tones, pattern)
    canvas.paint(shapes, shown)


def paint_flower(
    canvas: Canvas,
    place: Place,
    petals: Array,
    shape: Array,
    colour: Array,
    centre: Array,
    tone: Array,
    shown: Array | None = None,
) -> None:
    """Petals with their shadow, and the heart of the flower."""
    outline = flower_row(petals, shape)
    shadow = Place(place.x + 0.05 * place.scale, place.y - 0.08 * place.scale, place.turn, place.scale * 1.03, place.squash)
    paint_shape(canvas, shadow, outline, SHADOW, "flat", shown)
    paint_shape(canvas, place, outline, PETAL_COLOURS[colour] * tone[:, None], "petals", shown)
    heart = Place(place.x, place.y, place.turn, place.scale * CENTRE_RADII[centre], place.squash)
    paint_shape(canvas, heart, CIRCLE, CENTRE_COLOURS[centre], "ball", shown)


def paint_leaf(canvas: Canvas, place: Place, outline: Array, margin: Array, tone: Array, shown: Array | None = None) -> None:
    """One leaf, its base toward the turned-away side."""
    green = LEAF_GREEN * (tone[:, None] ** np.array([1.4, 1.0, 1.2]))
    paint_shape(canvas, place, leaf_row(outline, margin), green, "leaf", shown)


def paint_fruit(canvas: Canvas, place: Place, fruit: Array) -> None:
    """Berries, a plum, a cone or a pod."""
    red, black, plum, cone, pod = (fruit == kind for kind in range(5))
    for along, across in ((-0.42, -0.34), (0.42, -0.30), (0.0, 0.42)):
        berry = place.offset(along, across, 0.50)
        for shown, colour in ((red, (206, 30, 34)), (black, (34, 26, 40))):
            paint_shape(canvas, berry, CIRCLE, np.array(colour, np.float64), "ball", shown)
        glint = place.offset(along - 0.12, across + 0.16, 0.12)
        paint_shape(canvas, glint, CIRCLE, np.array([240.0, 236.0, 236.0]), "flat", red | black)
    _paint_plum(canvas, place, plum)
    scales = Place(place.x, place.y, place.turn, place.scale, place.squash * 0.62)
    paint_shape(canvas, scales, CIRCLE, np.array([150.0, 98.0, 54.0]), "scales", cone)
    for across, colour in ((0.30, (150, 160, 58)), (-0.30, (176, 172, 70))):
        paint_shape(canvas, place.offset(0.0, across, 1.05), POD, np.array(colour, np.float64), "ball", pod)


def _paint_plum(canvas: Canvas, place: Place, shown: Array) -> None:
    body = Place(place.x, place.y, place.turn, place.scale * 0.92, place.squash * 0.86)
    paint_shape(canvas, body, CIRCLE, np.array([88.0, 52.0, 132.0]), "ball", shown)
    paint_shape(canvas, place.offset(0.28, 0.26, 0.20), CIRCLE, np.array([188.0, 172.0, 214.0]), "flat", shown)
