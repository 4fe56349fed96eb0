"""Pictures of single plants: what is shown is drawn, and nothing else about the plant can be seen."""

from collections.abc import Callable

import numpy as np

from shortlist.data.flora.canvas import Canvas
from shortlist.data.flora.habits import paint_plant
from shortlist.data.flora.organs import STEM_GREEN, Place, paint_flower, paint_fruit, paint_leaf
from shortlist.data.flora.scenery import SCENERY_DRAWS, developed, grain, new_canvas
from shortlist.data.flora.traits import (
    CENTRE,
    FRUIT,
    HABIT,
    HIDDEN,
    MARGIN,
    OUTLINE,
    PETAL_COLOUR,
    PETAL_SHAPE,
    PETALS,
    TRAITS,
    VIEWS,
)
from shortlist.data.randomness import Purpose, uniforms
from shortlist.tensors import Array

POSE_DRAWS = 48


def draw_specimens(shown: Array, seed: int, start: int, size: int) -> Array:
    """The pictures of these observations, rows ``start`` onward of their seed, uint8 (n, 3, size, size)."""
    pictures = np.empty((len(shown), 3, size, size), np.uint8)
    chance = uniforms(seed, Purpose.POSE, start, len(shown), SCENERY_DRAWS + POSE_DRAWS)
    noise = grain(seed, start, len(shown), size)
    visible = shown != HIDDEN
    for view in VIEWS:
        pattern = np.array([trait in view.shown for trait in TRAITS])
        rows = np.flatnonzero((visible == pattern).all(1))
        if not len(rows):
            continue
        scenery, pose = chance[rows, :SCENERY_DRAWS], chance[rows, SCENERY_DRAWS:]
        canvas = new_canvas(scenery, size)
        seen = {trait.name: shown[rows, column] for column, trait in enumerate(TRAITS) if trait in view.shown}
        PAINTERS[view.name](canvas, seen, pose)
        pictures[rows] = developed(canvas, scenery, noise[rows])
    return pictures


def _flower(canvas: Canvas, seen: dict[str, Array], pose: Array) -> None:
    place = _placed(pose, 0.0, 0.0, 0.80)
    everywhere = np.ones(len(pose), bool)
    foot = (place.x + 0.5 * (pose[:, 6] - 0.5), np.full(len(pose), -1.2))
    canvas.stroke((place.x, place.y), foot, np.full(len(pose), 0.05), _stems(pose), everywhere)
    _paint_whole_flower(canvas, seen, place, pose)


def _leaf(canvas: Canvas, seen: dict[str, Array], pose: Array) -> None:
    place = _placed(pose, 0.0, 0.0, 0.80)
    _stalk(canvas, place, pose)
    paint_leaf(canvas, place, seen[OUTLINE.name], seen[MARGIN.name], 0.8 + 0.4 * pose[:, 5])


def _flower_and_leaf(canvas: Canvas, seen: dict[str, Array], pose: Array) -> None:
    side = np.where(pose[:, 7] < 0.5, -1.0, 1.0)
    leaf = _placed(pose[:, 8:], 0.36 * side, -0.40, 0.58, upright=True)
    _stalk(canvas, leaf, pose)
    paint_leaf(canvas, leaf, seen[OUTLINE.name], seen[MARGIN.name], 0.8 + 0.4 * pose[:, 5])
    _paint_whole_flower(canvas, seen, _placed(pose, -0.36 * side, 0.36, 0.54), pose)


def _fruit_and_leaf(canvas: Canvas, seen: dict[str, Array], pose: Array) -> None:
    side = np.where(pose[:, 7] < 0.5, -1.0, 1.0)
    leaf = _placed(pose[:, 8:], 0.36 * side, 0.36, 0.58, upright=True)
    _stalk(canvas, leaf, pose)
    paint_leaf(canvas, leaf, seen[OUTLINE.name], seen[MARGIN.name], 0.8 + 0.4 * pose[:, 5])
    paint_fruit(canvas, _placed(pose, -0.38 * side, -0.40, 0.46), seen[FRUIT.name])


def _whole_plant(canvas: Canvas, seen: dict[str, Array], pose: Array) -> None:
    paint_plant(canvas, seen[HABIT.name], seen[PETAL_COLOUR.name], seen[OUTLINE.name], pose)


PAINTERS: dict[str, Callable[[Canvas, dict[str, Array], Array], None]] = {
    "flower": _flower,
    "leaf": _leaf,
    "flower and leaf": _flower_and_leaf,
    "fruit and leaf": _fruit_and_leaf,
    "whole plant": _whole_plant,
}


def _placed(pose: Array, x: Array | float, y: Array | float, scale: float, upright: bool = False) -> Place:
    """Near (x, y), turned (anyhow, or within a sixth of a turn), a little larger or smaller, a little foreshortened."""
    turn = pose[:, 2] if not upright else 0.25 + (pose[:, 2] - 0.5) / 3
    return Place(
        x + 0.16 * (pose[:, 0] - 0.5),
        y + 0.16 * (pose[:, 1] - 0.5),
        turn,
        scale * (0.88 + 0.24 * pose[:, 3]),
        0.78 + 0.22 * pose[:, 4],
    )


def _paint_whole_flower(canvas: Canvas, seen: dict[str, Array], place: Place, pose: Array) -> None:
    tone = 0.92 + 0.16 * pose[:, 5]
    paint_flower(canvas, place, seen[PETALS.name], seen[PETAL_SHAPE.name], seen[PETAL_COLOUR.name], seen[CENTRE.name], tone)


def _stems(pose: Array) -> Array:
    return STEM_GREEN * (0.8 + 0.4 * pose[:, 5:6])


def _stalk(canvas: Canvas, leaf: Place, pose: Array) -> None:
    base, foot = leaf.offset(-0.5, 0.0, 1.0), leaf.offset(-1.4, 0.0, 1.0)
    canvas.stroke((base.x, base.y), (foot.x, foot.y), np.full(len(pose), 0.045), _stems(pose), np.ones(len(pose), bool))
