"""What training pictures become: a legal crop and flip each, the same however many processes draw."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from shortlist.models import InputSpec
from shortlist.training.augmentation import Augmenter, loading_size, make_augmenter
from shortlist.training.recipe import Recipe
from tests.references import training as reference, transforms

KINDS = ["none", "flip", "shift-flip", "reflected-shift-flip", "crop-flip", "resized-crop-flip"]
RANDOM = KINDS[1:]
FALSE_ALARM = 1e-6  # of each test of a law, over seeds; the seeds are fixed


def pictures(count, kind, size, seed=0):
    """Pixels from 1 to 255, so that no window of a padded picture looks like another."""
    side = loading_size(kind, size)
    return torch.randint(1, 256, (count, 3, side, side), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("processes", [2, 3, 7])
def test_processes_that_share_a_batch_make_the_pictures_of_one(kind, processes):
    images, augment = pictures(11, kind, 6), Augmenter(kind, 6, seed=5)
    whole = augment(images, 3, 0, 11)
    start, parts = 0, []
    for part in images.tensor_split(processes):
        parts.append(augment(part, 3, start, 11))
        start += len(part)
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_have_the_size_asked_for_and_the_input_stays_as_it_is(kind):
    images = pictures(9, kind, 7)
    before = images.clone()
    made = Augmenter(kind, 7, seed=0)(images, 0, 0, 9)
    assert torch.equal(images, before)
    assert (made.dtype, tuple(made.shape)) == (torch.uint8, (9, 3, 7, 7))


def test_no_augmentation_gives_the_very_pictures():
    images = pictures(4, "none", 5)
    assert Augmenter("none", 5, seed=0)(images, 2, 0, 4) is images


@pytest.mark.parametrize("kind", RANDOM)
def test_another_batch_or_seed_is_another_draw_and_the_same_is_the_same(kind):
    images = pictures(30, kind, 8)
    made = Augmenter(kind, 8, seed=1)(images, 4, 0, 30)
    assert torch.equal(Augmenter(kind, 8, seed=1)(images, 4, 0, 30), made)
    assert not torch.equal(Augmenter(kind, 8, seed=1)(images, 5, 0, 30), made)
    assert not torch.equal(Augmenter(kind, 8, seed=2)(images, 4, 0, 30), made)


@pytest.mark.parametrize("kind", RANDOM)
def test_the_global_random_numbers_have_no_part_in_it(kind):
    images = pictures(6, kind, 8)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    made = Augmenter(kind, 8, seed=1)(images, 0, 0, 6)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert torch.equal(Augmenter(kind, 8, seed=1)(images, 0, 0, 6), made)


def source(picture, kind, size):
    """What windows are cut from: with a margin of an eighth of the side, at least a pixel, for shifts."""
    margin = max(1, round(size / 8))
    if kind == "reflected-shift-flip":
        return reference.mirrored_border(picture, margin)
    return reference.padded(picture, margin) if kind == "shift-flip" else picture


@pytest.mark.parametrize("kind", ["flip", "shift-flip", "reflected-shift-flip", "crop-flip"])
@pytest.mark.parametrize("size", [1, 3, 8, 20])
def test_every_picture_is_a_window_of_its_own_flipped_or_not(kind, size):
    images = pictures(12, kind, size)
    made = Augmenter(kind, size, seed=9)(images, 1, 0, 12)
    for image, result in zip(images.numpy(), made.numpy(), strict=True):
        assert len(reference.places(source(image, kind, size), result)) >= 1


def test_every_resized_picture_is_a_box_of_its_own_flipped_or_not():
    size, side = 4, loading_size("resized-crop-flip", 4)
    images = pictures(6, "resized-crop-flip", size)
    made = Augmenter("resized-crop-flip", size, seed=2)(images, 0, 0, 6)
    boxes = list(reference.coarse_windows(side, 0.08, 3 / 4, 4 / 3))
    for image, result in zip(images.numpy(), made.numpy(), strict=True):
        legal = (transforms.resized_crop(image, box, (size, size)) for box in boxes)
        ways = (way for window in legal for way in (window, window[:, :, ::-1]))
        assert any(np.abs(way - result).max() <= 0.5 + 1e-3 for way in ways)


@pytest.mark.parametrize(
    ("kind", "size", "ways"),
    [("flip", 5, 1), ("shift-flip", 8, 9), ("reflected-shift-flip", 8, 9), ("shift-flip", 20, 25), ("crop-flip", 9, 9)],
)
def test_all_places_and_both_sides_are_equally_likely(kind, size, ways):
    count = 400 * ways
    images = pictures(1, kind, size).expand(count, -1, -1, -1)
    made = Augmenter(kind, size, seed=0)(images, 0, 0, count)
    counts = Counter(result.tobytes() for result in made.numpy())
    whole = source(images[0].numpy(), kind, size)
    found = {reference.places(whole, np.frombuffer(key, np.uint8).reshape(3, size, size))[0]: n for key, n in counts.items()}
    assert len(found) == len(counts) == 2 * ways
    assert stats.chisquare(list(found.values())).pvalue > FALSE_ALARM


def test_places_of_neighbours_and_of_the_next_batch_have_nothing_in_common():
    images = pictures(1, "flip", 4).expand(4000, -1, -1, -1)
    flips = [(Augmenter("flip", 4, seed=0)(images, number, 0, 4000) != images).flatten(1).any(1).double() for number in (0, 1)]
    for one, other in ((flips[0][1:], flips[0][:-1]), (flips[0], flips[1])):
        agree = int((one == other).sum())
        assert stats.binomtest(agree, len(one)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_the_side_that_pictures_are_kept_at(kind):
    for size in (1, 6, 7, 32, 64, 224):
        larger = kind in ("crop-flip", "resized-crop-flip")
        assert loading_size(kind, size) == (-(-size * 8 // 7) if larger else size)
    assert loading_size("crop-flip", 224) == 256


@pytest.mark.parametrize("kind", KINDS)
def test_one_picture_alone(kind):
    images = pictures(1, kind, 1)
    assert Augmenter(kind, 1, seed=0)(images, 0, 0, 1).shape == (1, 3, 1, 1)


@pytest.mark.parametrize("kind", KINDS[:5])
def test_a_process_without_rows_gets_none(kind):
    assert Augmenter(kind, 8, seed=0)(pictures(0, kind, 8), 0, 4, 4).shape == (0, 3, 8, 8)


def test_a_process_without_rows_gets_no_resized_ones():
    assert Augmenter("resized-crop-flip", 8, seed=0)(pictures(0, "crop-flip", 8), 0, 4, 4).shape == (0, 3, 8, 8)


def test_shifts_go_an_eighth_of_the_side():
    images = torch.full((600, 3, 32, 32), 200, dtype=torch.uint8)
    made = Augmenter("shift-flip", 32, seed=0)(images, 0, 0, 600)
    empty = (made[:, 0] == 0).all(2).sum(1)  # rows of the padding that came into view
    assert sorted(set(empty.tolist())) == [0, 1, 2, 3, 4]
    assert math.isclose(float(made.float().mean() / 200), (1 - 20 / 9 / 32) ** 2, rel_tol=0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("erase", [0.3, 0.5, 1.0])
def test_one_square_of_every_picture_is_erased_after_the_rest(kind, erase):
    size, count = 8, 40
    images = pictures(count, kind, size)
    plain = Augmenter(kind, size, seed=3)(images, 2, 0, count)
    made = Augmenter(kind, size, seed=3, erase=erase, fill=(7.0, 0.0, 99.6))(images, 2, 0, count)
    squares = reference.holes(size, round(size * erase))
    for before, after in zip(plain.numpy(), made.numpy(), strict=True):
        ways = (np.where(square, np.array([7, 0, 100])[:, None, None], before) for square in squares)
        assert any(np.array_equal(way, after) for way in ways)


def test_centers_of_erased_squares_are_equally_likely():
    images = torch.full((6400, 3, 8, 8), 200, dtype=torch.uint8)
    made = Augmenter("none", 8, seed=0, erase=1 / 8)(images, 0, 0, 6400)
    places = (made[:, 0] == 0).flatten(1)
    assert places.sum(1).unique().tolist() == [1]
    assert stats.chisquare(places.sum(0).numpy()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_share_a_batch_erase_what_one_would(kind):
    images, augment = pictures(11, kind, 6), Augmenter(kind, 6, seed=5, erase=0.5)
    parts = torch.cat([augment(images[:4], 3, 0, 11), augment(images[4:], 3, 4, 11)])
    assert torch.equal(parts, augment(images, 3, 0, 11))


def test_a_recipe_erases_to_what_the_network_reads_as_zeros():
    recipe = Recipe("mine", "flora", augmentation="none", erase=0.25)
    augment = make_augmenter(recipe, InputSpec.pictures(8, mean=(0.2, 0.4, 0.6), std=0.5))
    made = augment(torch.full((50, 3, 8, 8), 255, dtype=torch.uint8), 0, 0, 50)
    assert [made[:, channel].unique().tolist() for channel in range(3)] == [[51, 255], [102, 255], [153, 255]]
