"""Painting: a shape comes out the same alone and beside others, its edge is where it should be, colours blend."""

import itertools

import numpy as np
import pytest

from shortlist.data.flora.canvas import Canvas, Shapes
from shortlist.data.flora.shapes import CIRCLE, DIRECTIONS, POD, flower_row, leaf_row, outlines
from shortlist.data.flora.traits import MARGIN, OUTLINE, PETAL_SHAPE, PETALS

KINDS = POD + 1
GREY, WHITE = 0.0, np.array([255.0, 255.0, 255.0])


def canvas(pictures, size, softness):
    blank = Canvas(pictures, size, np.broadcast_to(softness, (pictures,)).astype(np.float64))
    blank.pixels[:] = GREY
    return blank


def shapes(outline, x, y, turn, length, width, colour=WHITE, pattern="flat"):
    """Each of them a number or one for each picture."""
    parts = np.broadcast_arrays(*map(np.asarray, (outline, x, y, turn, length, width)))
    parts = [np.atleast_1d(part) for part in parts]
    return Shapes(
        parts[0].astype(int), *(part.astype(float) for part in parts[1:]), np.tile(colour, (len(parts[0]), 1)), pattern
    )


@pytest.mark.parametrize("size", [8, 32, 64])
def test_a_shape_is_the_same_alone_and_beside_a_large_one(size):
    """Beside a large shape the window that is painted is the whole picture: nothing of the shape may lie outside its own."""
    softest = 1 + 0.7 * size / 32
    for length, squash, softness in itertools.product((0.06, 0.18, 0.5), (0.62, 1.0), (1.0, softest)):
        rows = np.arange(KINDS)
        turn = rows * 0.37 % 1
        together = canvas(KINDS + 1, size, softness)
        beside = np.append(np.full(KINDS, length), 3.0)
        together.paint(shapes(np.append(rows, CIRCLE), 0.1, -0.07, np.append(turn, 0), beside, beside * squash))
        for row in rows:
            alone = canvas(1, size, softness)
            alone.paint(shapes(row, 0.1, -0.07, turn[row], length, length * squash))
            assert (alone.pixels[0] == together.pixels[row]).all(), (row, length, squash, softness)


@pytest.mark.parametrize("middle", [(0, 0), (0.9, -0.8), (-1.3, 0.2), (5, 5)], ids=str)
def test_a_disc_has_its_area_also_across_the_border(middle):
    """Against a count over points 16 times as fine; half a percent of the picture."""
    size, radius = 64, 0.4
    painted = canvas(1, size, 1.0)
    painted.paint(shapes(CIRCLE, *middle, 0.0, radius, radius))
    fine = (np.arange(16 * size) + 0.5) * (2 / (16 * size)) - 1
    inside = (fine[None, :] - middle[0]) ** 2 + (-fine[:, None] - middle[1]) ** 2 < radius**2
    assert painted.pixels[0].mean() / 255 == pytest.approx(inside.mean(), abs=0.005)


def test_a_disc_is_white_inside_black_outside_and_grey_at_its_edge():
    painted = canvas(1, 32, 1.0)
    painted.paint(shapes(CIRCLE, 0, 0, 0.0, 0.5, 0.5))
    place = (np.arange(32) + 0.5) / 16 - 1
    distance = np.hypot(place[None, :], place[:, None])
    picture = painted.pixels[0, 0]
    assert (picture[distance < 0.5 - 1 / 16] == 255).all()
    assert (picture[distance > 0.5 + 1 / 16] == 0).all()
    assert ((picture > 0) & (picture < 255)).any()
    np.testing.assert_array_equal(picture, picture[::-1])
    np.testing.assert_array_equal(picture, picture[:, ::-1])


def test_only_the_pictures_that_are_shown_are_painted():
    painted = canvas(3, 16, 1.0)
    painted.paint(shapes(CIRCLE, np.zeros(3), 0, 0.0, 0.5, 0.5), np.array([True, False, True]))
    assert [bool(picture.any()) for picture in painted.pixels] == [True, False, True]
    painted.paint(shapes(CIRCLE, np.zeros(3), 0, 0.0, 0.5, 0.5), np.zeros(3, bool))
    assert not painted.pixels[1].any()


def test_a_stem_joins_its_ends_and_is_round_there():
    painted = canvas(2, 32, 1.0)
    ends = (np.array([-0.5, 0.0]), np.array([0.0, -0.5])), (np.array([0.5, 0.0]), np.array([0.0, 0.5]))
    painted.stroke(*ends, np.full(2, 0.1), np.tile(WHITE, (2, 1)), np.ones(2, bool))
    level, upright = painted.pixels[:, 0] > 128
    assert (np.flatnonzero(level.any(0))[[0, -1]] == [6, 25]).all()
    np.testing.assert_array_equal(level, upright.T)


def test_paint_has_the_colour_and_covers_what_was_there():
    painted = canvas(1, 16, 1.0)
    for colour in ([10, 20, 30], [200, 100, 50]):
        painted.paint(shapes(CIRCLE, 0, 0, 0.0, 0.9, 0.9, np.array(colour, float)))
    assert painted.pixels[0, :, 8, 8].tolist() == [200, 100, 50]


def test_outlines_are_all_different_and_have_a_size():
    radius, cosine, shade = (table.reshape(KINDS, DIRECTIONS) for table in outlines())
    assert len({row.tobytes() for row in radius}) == KINDS
    assert radius.min() > 0
    assert 0.8 < radius.max(1).min() <= radius.max(1).max() < 1.25
    assert 0.2 - 1e-4 < cosine.min() <= cosine.max() <= 1
    assert 0 < shade.min() <= shade.max() <= 1
    rows = [flower_row(petals, shape) for petals in range(len(PETALS.values)) for shape in range(len(PETAL_SHAPE.values))]
    rows += [leaf_row(outline, margin) for outline in range(len(OUTLINE.values)) for margin in range(len(MARGIN.values))]
    assert rows == list(range(CIRCLE))


@pytest.mark.parametrize("petals", range(len(PETALS.values)))
@pytest.mark.parametrize("shape", range(len(PETAL_SHAPE.values)))
def test_a_flower_has_as_many_petals_as_it_says(petals, shape):
    """The radius, gone round by angle, repeats with each petal: its lowest strong frequency (notches double it)."""
    radius = outlines().radius.reshape(KINDS, DIRECTIONS)[flower_row(petals, shape)]
    diamond = (np.arange(DIRECTIONS) + 0.5) * (4 / DIRECTIONS) - 1
    v = np.where(np.abs(diamond) <= 1, diamond, 2 - diamond)
    angle = np.unwrap(np.arctan2(v, np.where(np.abs(diamond) <= 1, 1, -1) * (1 - np.abs(v))))
    waves = [abs(np.trapezoid(radius * np.exp(-1j * count * angle), angle)) for count in range(1, 10)]
    assert 1 + int(np.argmax(np.array(waves) > 0.2 * max(waves))) == int(PETALS.values[petals])
