"""Outlines as tables: the radius of a star-shaped outline in every direction, for all petals, leaves and fruits.

Directions are counted by the *diamond angle* v / (|u| + |v|), which grows with the angle and needs no trigonometry, so pictures
are the same on every machine. Beside each radius stands the cosine between the ray and the normal of the outline there, which
turns a difference of radii into a distance: that is all that analytic antialiasing needs.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from shortlist.data.flora.traits import MARGIN, OUTLINE, PETAL_SHAPE, PETALS
from shortlist.tensors import Array

DIRECTIONS = 2048
# Rounded to this, tables do not depend on the last bit of a machine's sine.
GRAIN = 2.0**-14
CURVE_POINTS = 20_001


class Outlines(NamedTuple):
    """Radius, cosine and shade of each outline in each direction, float32, one outline after the other."""

    radius: Array
    cosine: Array
    shade: Array


def _angles() -> Array:
    """The angle of the middle of each direction."""
    diamond = (np.arange(DIRECTIONS) + 0.5) * (4 / DIRECTIONS) - 1
    right = np.abs(diamond) <= 1
    v = np.where(right, diamond, 2 - diamond)
    u = np.where(right, 1, -1) * (1 - np.abs(v))
    angles: Array = np.arctan2(v, u)
    return angles


def _flower(petals: int, profile: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Radius and shade of a flower; ``profile`` gives the radius from the middle of a petal, 0, to its side, 1."""
    place = np.abs((_angles() * petals / (2 * np.pi) + 0.5) % 1 - 0.5) * 2
    return profile(place), 1 - 0.45 * place**4


PETAL_PROFILES: dict[str, Callable[[Array], Array]] = {
    "notched": lambda t: (0.34 + 0.66 * np.sqrt(1 - 0.999 * t**2.4)) * (1 - 0.30 * np.clip(1 - t / 0.34, 0, 1) ** 1.2),
    "round": lambda t: 0.34 + 0.66 * np.sqrt(1 - 0.999 * t**2.4),
    "pointed": lambda t: 0.30 + 0.70 * (1 - t) ** 0.9,
    "narrow": lambda t: 0.16 + 0.84 * np.clip(1 - t / 0.62, 0, 1) ** 0.55,
}


def _axial(width: Callable[[Array], Array]) -> Array:
    """The upper side of a leaf from base to tip, as complex points, from its half width along the axis."""
    along = (1 - np.cos(np.linspace(0, np.pi, CURVE_POINTS))) / 2
    return (2 * along - 1) + 1j * width(along)


def _bezier(*points: complex) -> Array:
    t = np.linspace(0, 1, CURVE_POINTS // 2)
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
    curve: Array = np.sum([weight * point for weight, point in zip(weights, points, strict=True)], axis=0)
    return curve


def _heart() -> Array:
    lobe = _bezier(-0.50, -0.95 + 0.05j, -1.15 + 0.85j, -0.25 + 0.80j)
    return np.concatenate([lobe, _bezier(-0.25 + 0.80j, 0.30 + 0.76j, 0.65 + 0.25j, 1.0)])


def _arch(along: Array, power: float) -> Array:
    return np.clip(np.sin(np.pi * along), 0, 1) ** power


LEAF_SIDES: dict[str, Callable[[], Array]] = {
    "linear": lambda: _axial(lambda s: 0.11 * _arch(s, 0.4)),
    "lance": lambda: _axial(lambda s: 0.27 * _arch(s**0.8, 0.9)),
    "oval": lambda: _axial(lambda s: 0.52 * _arch(s**0.9, 0.65)),
    "round": lambda: 0.86 * np.exp(1j * np.linspace(np.pi, 0, CURVE_POINTS)),
    "heart": _heart,
    "lobed": lambda: _axial(lambda s: _arch(s**0.95, 0.55) * (0.46 - 0.25 * np.cos(2 * np.pi * 3.0 * s))),
}


def _smooth(length: Array) -> Array:
    return np.zeros_like(length)


def _scallops(length: Array) -> Array:
    return 0.11 * np.abs(np.sin(np.pi * length / 0.46)) ** 0.8


def _teeth(length: Array) -> Array:
    return 0.17 * (1 - (length / 0.27) % 1)


MARGINS: dict[str, Callable[[Array], Array]] = {"smooth": _smooth, "scalloped": _scallops, "toothed": _teeth}


def _leaf(side: Array, margin: Callable[[Array], Array]) -> Array:
    """The radius of a leaf in each direction: its side, pushed outward by the margin, and the mirror image."""
    step = np.diff(side)
    length = np.concatenate([[0], np.cumsum(np.abs(step))])
    normal = 1j * np.gradient(side) / np.maximum(np.abs(np.gradient(side)), 1e-12)
    # Neither the stalk nor the tip carries teeth.
    fading = np.clip(np.minimum(length, length[-1] - length) / 0.12, 0, 1)
    pushed = side + normal * margin(length) * fading
    fine = np.interp(np.linspace(0, 1, 10 * CURVE_POINTS), np.linspace(0, 1, len(pushed)), pushed)
    return _radius_of(np.concatenate([fine, fine.conj()]))


def _radius_of(points: Array) -> Array:
    """The farthest point of a curve in each direction; directions that no point hits take from their neighbours."""
    diamond = points.imag / np.maximum(np.abs(points.real) + np.abs(points.imag), 1e-12)
    diamond = np.where(points.real < 0, 2 - diamond, diamond)
    place = ((diamond + 1) * (DIRECTIONS / 4)).astype(int) % DIRECTIONS
    radius = np.zeros(DIRECTIONS)
    np.maximum.at(radius, place, np.abs(points))
    hit = np.flatnonzero(radius > 0)
    return np.interp(np.arange(DIRECTIONS), hit, radius[hit], period=DIRECTIONS)


def _pod() -> Array:
    return _leaf(_axial(lambda s: 0.20 * _arch(s, 0.45) * (1 + 0.22 * np.cos(2 * np.pi * 4 * s))), _smooth)


def _cosine(radius: Array) -> Array:
    """Between ray and normal, from the slope of the radius, averaged over a few directions.

    Where an outline runs along the ray this would go to nothing and the edge would blur without end, so it stops at a fifth.
    """
    angle = np.unwrap(_angles())
    turn = np.gradient(angle)
    slope = (np.roll(radius, -2) - np.roll(radius, 2)) / (4 * turn)
    cosine: Array = np.maximum(1 / np.sqrt(1 + (slope / np.maximum(radius, 0.02)) ** 2), 0.2)
    return cosine


CIRCLE = len(PETALS.values) * len(PETAL_SHAPE.values) + len(OUTLINE.values) * len(MARGIN.values)
POD = CIRCLE + 1


def flower_row(petals: Array, shape: Array) -> Array:
    """Which outline a flower has."""
    return petals * len(PETAL_SHAPE.values) + shape


def leaf_row(outline: Array, margin: Array) -> Array:
    """Which outline a leaf has."""
    return len(PETALS.values) * len(PETAL_SHAPE.values) + outline * len(MARGIN.values) + margin


@cache
def outlines() -> Outlines:
    """All outlines, made once: flowers by number and shape of petals, leaves by outline and margin, circle, pod."""
    shapes = [_flower(int(petals), PETAL_PROFILES[shape]) for petals in PETALS.values for shape in PETAL_SHAPE.values]
    plain = np.ones(DIRECTIONS)
    shapes += [(_leaf(LEAF_SIDES[outline](), MARGINS[margin]), plain) for outline in OUTLINE.values for margin in MARGIN.values]
    shapes += [(plain, plain), (_pod(), plain)]
    radius = np.concatenate([radius for radius, _ in shapes])
    cosine = np.concatenate([_cosine(radius) for radius, _ in shapes])
    shade = np.concatenate([shade for _, shade in shapes])
    return Outlines(*(np.round(table / GRAIN).astype(np.float32) * np.float32(GRAIN) for table in (radius, cosine, shade)))
