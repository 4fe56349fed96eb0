"""Whole plants: stems, leaves and flowers at the places that a habit gives them."""

from dataclasses import dataclass

import numpy as np

from shortlist.data.flora.canvas import Canvas
from shortlist.data.flora.organs import SMOOTH, STEM_GREEN, Place, paint_flower, paint_leaf
from shortlist.data.flora.traits import HABIT
from shortlist.tensors import Array

# What cannot be seen from afar is drawn alike for all species.
DISTANT_PETALS, DISTANT_SHAPE, DISTANT_CENTRE = 2, 1, 0


@dataclass(frozen=True)
class Plan:
    """Where a habit puts stems (x, y to x, y), leaves (x, y, turn, scale) and flowers (x, y, scale)."""

    stems: list[tuple[float, float, float, float]]
    leaves: list[tuple[float, float, float, float]]
    flowers: list[tuple[float, float, float]]


PLANS = {
    "rosette": Plan(
        [(0.0, -0.62, 0.02, 0.30)],
        [
            (-0.50, -0.42, 0.44, 0.40),
            (0.50, -0.42, 0.06, 0.40),
            (-0.30, -0.18, 0.36, 0.38),
            (0.32, -0.18, 0.14, 0.38),
            (-0.46, -0.72, 0.53, 0.36),
            (0.46, -0.72, 0.97, 0.36),
        ],
        [(0.02, 0.42, 0.34)],
    ),
    "upright": Plan(
        [(0.0, -1.1, 0.0, 0.50)],
        [
            (-0.30, -0.62, 0.42, 0.34),
            (0.30, -0.42, 0.08, 0.34),
            (-0.28, -0.16, 0.42, 0.32),
            (0.28, 0.06, 0.08, 0.30),
            (-0.24, 0.26, 0.40, 0.26),
            (0.32, -0.86, 0.06, 0.32),
        ],
        [(0.0, 0.62, 0.32)],
    ),
    "bush": Plan(
        [(0.0, -1.0, -0.52, 0.30), (0.0, -1.0, 0.0, 0.52), (0.0, -1.0, 0.52, 0.30)],
        [
            (-0.62, 0.02, 0.40, 0.32),
            (-0.28, -0.24, 0.34, 0.32),
            (0.02, 0.14, 0.25, 0.32),
            (0.32, -0.24, 0.16, 0.32),
            (0.64, 0.02, 0.10, 0.32),
            (0.0, -0.48, 0.25, 0.30),
        ],
        [(-0.50, 0.46, 0.25), (0.02, 0.68, 0.25), (0.52, 0.46, 0.25)],
    ),
    "climber": Plan(
        [(-0.70, -1.0, 0.10, -0.30), (0.10, -0.30, -0.20, 0.34), (-0.20, 0.34, 0.50, 0.95)],
        [
            (-0.62, -0.46, 0.32, 0.32),
            (-0.05, -0.74, 0.92, 0.32),
            (0.42, -0.18, 0.04, 0.32),
            (-0.44, 0.10, 0.45, 0.32),
            (0.16, 0.28, 0.94, 0.30),
            (-0.10, 0.78, 0.38, 0.28),
        ],
        [(-0.30, -0.18, 0.24), (0.40, 0.22, 0.24), (0.46, 0.78, 0.24)],
    ),
}


def _table(part: str) -> Array:
    """The places of one kind of part for every habit, filled up with parts of no size."""
    plans = [getattr(PLANS[habit], part) for habit in HABIT.values]
    table = np.zeros((len(plans), max(map(len, plans)), len(plans[0][0])))
    for row, places in zip(table, plans, strict=True):
        row[: len(places)] = places
    return table


STEMS, LEAVES, FLOWERS = _table("stems"), _table("leaves"), _table("flowers")


def paint_plant(canvas: Canvas, habit: Array, colour: Array, outline: Array, pose: Array) -> None:
    """One plant that fills the picture, mirrored or not, its parts a little displaced."""
    mirror = np.where(pose[:, 0] < 0.5, -1.0, 1.0)
    scale = 0.88 + 0.16 * pose[:, 1]
    tone = 0.8 + 0.4 * pose[:, 5]
    shift = 0.14 * (pose[:, 2] - 0.5)
    for ax, ay, bx, by in STEMS[habit].transpose(1, 2, 0):
        start, end = (mirror * scale * ax + shift, scale * ay), (mirror * scale * bx + shift, scale * by)
        thickness = np.full(len(pose), 0.04)
        canvas.stroke(start, end, thickness, STEM_GREEN * tone[:, None], (np.abs(ax - bx) + np.abs(ay - by)) > 0.1)
    smooth = np.full(len(pose), SMOOTH)
    for place, (x, y, turn, size) in enumerate(LEAVES[habit].transpose(1, 2, 0)):
        wobble = pose[:, 6 + 3 * place : 9 + 3 * place] - 0.5
        leaf = Place(
            mirror * scale * x + shift + 0.08 * wobble[:, 0],
            scale * y + 0.08 * wobble[:, 1],
            np.where(mirror > 0, turn, 0.5 - turn) + 0.08 * wobble[:, 2],
            scale * size,
        )
        paint_leaf(canvas, leaf, outline, smooth, tone)
    alike = [np.full(len(pose), value) for value in (DISTANT_PETALS, DISTANT_SHAPE, DISTANT_CENTRE)]
    for place, (x, y, size) in enumerate(FLOWERS[habit].transpose(1, 2, 0)):
        wobble = pose[:, 24 + 3 * place : 27 + 3 * place]
        flower = Place(
            mirror * scale * x + shift + 0.08 * (wobble[:, 0] - 0.5),
            scale * y + 0.08 * (wobble[:, 1] - 0.5),
            wobble[:, 2],
            np.maximum(scale * size, 1e-3),
        )
        paint_flower(canvas, flower, alike[0], alike[1], colour, alike[2], np.ones(len(pose)), size > 0)
