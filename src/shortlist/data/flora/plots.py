"""Pictures of plots from above: each plant a rosette of leaves around its flower, none on top of another."""

import numpy as np

from shortlist.data.flora.canvas import Canvas
from shortlist.data.flora.habits import DISTANT_CENTRE
from shortlist.data.flora.organs import SMOOTH, Place, paint_flower, paint_leaf
from shortlist.data.flora.quadrats import MOST_PLANTS
from shortlist.data.flora.scenery import SCENERY_DRAWS, developed, grain, new_canvas
from shortlist.data.flora.traits import HIDDEN, OUTLINE, PETAL_COLOUR, PETALS, TRAITS
from shortlist.data.randomness import Purpose, uniforms
from shortlist.tensors import Array

GRID = 3
LEAVES = 5
POINTED = 2
DRAWS_PER_PLANT = 6


def draw_plots(shown: Array, seed: int, start: int, size: int) -> Array:
    """The pictures of these plots, rows ``start`` onward of their seed, uint8 (n, 3, size, size)."""
    n, cells = len(shown), GRID * GRID
    chance = uniforms(seed, Purpose.PLOT_POSE, start, n, SCENERY_DRAWS + cells + MOST_PLANTS * DRAWS_PER_PLANT)
    scenery, order, pose = np.split(chance, [SCENERY_DRAWS, SCENERY_DRAWS + cells], axis=1)
    canvas = new_canvas(scenery, size)
    cell = np.argsort(order, axis=1, kind="stable")
    for plant in range(MOST_PLANTS):
        there = shown[:, plant, TRAITS.index(PETALS)] != HIDDEN
        own = pose[:, plant * DRAWS_PER_PLANT : (plant + 1) * DRAWS_PER_PLANT]
        x = (cell[:, plant] % GRID - 1) * 0.64 + 0.10 * (own[:, 0] - 0.5)
        y = (cell[:, plant] // GRID - 1) * 0.64 + 0.10 * (own[:, 1] - 0.5)
        visible = np.maximum(shown[:, plant], 0)
        middle = Place(x, y, own[:, 2], 0.33 * (0.88 + 0.2 * own[:, 3]))
        _paint_from_above(canvas, middle, visible, own, there)
    return developed(canvas, scenery, grain(seed, start, n, size))


def _paint_from_above(canvas: Canvas, middle: Place, visible: Array, own: Array, there: Array) -> None:
    smooth, alike = np.full(len(own), SMOOTH), np.full(len(own), 1)
    tone = 0.8 + 0.4 * own[:, 4]
    for leaf in range(LEAVES):
        spun = Place(middle.x, middle.y, middle.turn + leaf / LEAVES, middle.scale)
        paint_leaf(canvas, spun.offset(0.60, 0.0, 0.50), visible[:, TRAITS.index(OUTLINE)], smooth, tone, there)
    flower = Place(middle.x, middle.y, own[:, 5], middle.scale * 0.54)
    colour, petals = visible[:, TRAITS.index(PETAL_COLOUR)], visible[:, TRAITS.index(PETALS)]
    paint_flower(canvas, flower, petals, alike * POINTED, colour, alike * DISTANT_CENTRE, np.ones(len(own)), there)
