"""Pictures: the same for ever, each on its own, and of the visible organs only."""

import numpy as np
import pytest
import torch

from shortlist.data.flora import Flora, blocks, cache
from shortlist.data.flora.organs import PETAL_COLOURS
from shortlist.data.flora.specimens import draw_specimens
from shortlist.data.flora.traits import HIDDEN, PETAL_COLOUR, TRAITS, VIEWS
from tests.data.flora import golden

FLORA = Flora()
CLASSES = len(FLORA.classes)
DRAWERS = {"specimens": FLORA.specimens, "quadrats": FLORA.quadrats}


def plants(view, n, seed=0):
    """What n plants show in this view, every value as likely."""
    random = np.random.default_rng(seed)
    shown = np.full((n, len(TRAITS)), HIDDEN)
    for column in view.columns:
        shown[:, column] = random.integers(len(TRAITS[column].values), size=n)
    return shown


def difference(pictures, others):
    """By how much each pixel differs, in the colour where it differs most, (n, size, size)."""
    return np.abs(pictures.astype(int) - others).max(1)


def test_the_pictures_of_seed_0_are_painted_as_before():
    assert golden.specimens() == golden.SPECIMENS
    assert golden.quadrats() == golden.QUADRATS


def test_the_drawing_that_the_hashes_are_of():
    """Pictures that changed without a new number would be mixed with the old ones that lie in people's folders."""
    assert cache.DRAWING == golden.DRAWING


@pytest.mark.parametrize("size", [8, 9, 32, 100])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_shapes_and_types(n, size):
    images, target, posterior = FLORA.specimens(n, size=size)
    assert (images.dtype, images.shape) == (torch.uint8, (n, 3, size, size))
    assert (target.dtype, target.shape) == (torch.int64, (n,))
    assert (posterior.dtype, posterior.shape) == (torch.float32, (n, CLASSES))
    images, target, marginals = FLORA.quadrats(n, size=size)
    assert (images.dtype, images.shape) == (torch.uint8, (n, 3, size, size))
    assert (target.dtype, target.shape) == (torch.bool, (n, CLASSES))
    assert (marginals.dtype, marginals.shape) == (torch.float32, (n, CLASSES))


def test_the_largest_picture():
    assert FLORA.specimens(1, size=1024)[0].shape == (1, 3, 1024, 1024)


def test_targets_and_posteriors_are_those_of_the_observations():
    _, target, posterior = FLORA.specimens(50, seed=3)
    expected_target, expected_posterior = FLORA.observe(50, seed=3)
    assert torch.equal(target, expected_target)
    assert torch.equal(posterior, expected_posterior)
    plots = FLORA.habitats.draw(50, 3, 0)
    _, target, marginals = FLORA.quadrats(50, seed=3, size=8)
    assert (target.numpy() == plots.target(CLASSES)).all()
    np.testing.assert_allclose(marginals, FLORA.habitats.marginals(plots.shown), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", DRAWERS)
@pytest.mark.parametrize("size", [8, 32])
def test_a_picture_does_not_depend_on_n(kind, size, monkeypatch):
    """Neither on the others of its block nor on where blocks end: as one block, and one by one."""
    draw, n = DRAWERS[kind], 60
    together = draw(n, seed=11, size=size)[0]
    assert torch.equal(draw(n // 2, seed=11, size=size)[0], together[: n // 2])
    monkeypatch.setattr(blocks, "BLOCK_PIXELS", size**2)
    alone = draw(n, seed=11, size=size)[0]
    changed = (alone != together).flatten(1).any(1)
    assert not changed.any(), f"pictures {changed.nonzero().flatten().tolist()} differ"


def test_pictures_on_both_sides_of_the_first_block():
    images = FLORA.specimens(1030, seed=2, size=8)[0]
    shown = FLORA.observations(1030, seed=2)[1].numpy()
    assert torch.equal(FLORA.specimens(1024, seed=2, size=8)[0], images[:1024])
    assert (draw_specimens(shown[1020:], 2, 1020, 8) == images[1020:].numpy()).all()


@pytest.mark.parametrize("threads", [1, 5])
@pytest.mark.parametrize("kind", DRAWERS)
def test_pictures_do_not_depend_on_threads(kind, threads, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_PIXELS", 7 * 32**2)
    expected = DRAWERS[kind](60, seed=4, size=32)[0]
    monkeypatch.setattr(blocks, "usable_cores", lambda: threads)
    assert torch.equal(DRAWERS[kind](60, seed=4, size=32)[0], expected)


@pytest.mark.parametrize("kind", DRAWERS)
def test_seeds_and_rows_differ(kind):
    images, others = (DRAWERS[kind](40, seed=seed, size=32)[0] for seed in (0, 1))
    everything = torch.cat([images, others]).flatten(1)
    assert len(torch.unique(everything, dim=0)) == 80


def test_pictures_depend_on_what_is_shown_and_on_nothing_else():
    """In a balanced garden other species are met; where they happen to show the same, the picture is the same."""
    balanced = Flora(abundance="balanced")
    (target, shown), (other_target, other_shown) = (garden.observations(3000, seed=5) for garden in (FLORA, balanced))
    rows = ((shown == other_shown).all(1) & (target != other_target)).nonzero().flatten()
    assert len(rows) > 10
    images, other_images = (garden.specimens(3000, seed=5, size=16)[0] for garden in (FLORA, balanced))
    assert torch.equal(images[rows], other_images[rows])
    same_species = (target == other_target) & (shown != other_shown).any(1)
    assert not same_species.any()


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_individuals_that_differ_in_hidden_traits_only_give_the_same_picture(view):
    random = np.random.default_rng(3)
    hidden = [column for column in range(len(TRAITS)) if column not in view.columns]
    one = np.stack([random.integers(len(trait.values), size=20) for trait in TRAITS], axis=1)
    other = one.copy()
    for column in hidden:
        other[:, column] = (one[:, column] + 1) % len(TRAITS[column].values)
    seen, seen_too = (
        np.where([column in view.columns for column in range(len(TRAITS))], traits, HIDDEN) for traits in (one, other)
    )
    assert (draw_specimens(seen, 1, 0, 32) == draw_specimens(seen_too, 1, 0, 32)).all()


@pytest.mark.parametrize(
    ("view", "trait"), [pytest.param(view, trait, id=f"{view.name}: {trait.name}") for view in VIEWS for trait in view.shown]
)
def test_every_shown_trait_can_be_seen(view, trait):
    """Neighbouring values, in the same pose: at 32 pixels at least 12 of 1,024 pixels differ by 10 levels, mostly 25 do."""
    n, column = 24, TRAITS.index(trait)
    for value in range(len(trait.values) - 1):
        one = plants(view, n, seed=value)
        one[:, column] = value
        next_one = one.copy()
        next_one[:, column] = value + 1
        pixels = (difference(draw_specimens(one, 7, 0, 32), draw_specimens(next_one, 7, 0, 32)) >= 10).sum((1, 2))
        assert pixels.min() >= 12
        assert np.median(pixels) >= 25


@pytest.mark.parametrize("view", VIEWS[:1] + VIEWS[2:3], ids=lambda view: view.name)
def test_petals_have_the_colour_of_the_palette(view):
    """Where the picture changes with the colour are the petals: their mean colour points to the right one of the palette."""
    n, column = 140, TRAITS.index(PETAL_COLOUR)
    shown = plants(view, n)
    shown[:, column] = np.arange(n) % len(PETAL_COLOURS)
    white, blue = shown.copy(), shown.copy()
    white[:, column], blue[:, column] = 0, len(PETAL_COLOURS) - 1
    petals = difference(draw_specimens(white, 3, 0, 32), draw_specimens(blue, 3, 0, 32)) > 40
    pictures = draw_specimens(shown, 3, 0, 32).astype(float)
    assert petals.sum((1, 2)).min() > 40
    mean = (pictures * petals[:, None]).sum((2, 3)) / petals.sum((1, 2))[:, None]
    directions, palette = (colours / np.linalg.norm(colours, axis=1, keepdims=True) for colours in (mean, PETAL_COLOURS))
    alike = directions @ palette.T
    assert (alike.argmax(1) == shown[:, column]).all()
    assert np.degrees(np.arccos(alike.max(1))).max() < 15
    brightness = np.linalg.norm(mean, axis=1) / np.linalg.norm(PETAL_COLOURS[shown[:, column]], axis=1)
    assert 0.5 < brightness.min() <= brightness.max() < 1.2


def test_pictures_are_neither_empty_nor_burnt_out():
    images = FLORA.specimens(300, seed=8)[0].double()
    assert images.std((1, 2, 3)).min() > 8
    assert (images == 0).double().mean((1, 2, 3)).max() < 0.3
    assert (images == 255).double().mean((1, 2, 3)).max() < 0.3


@pytest.mark.parametrize("size", [16, 64])
def test_larger_pictures_show_the_same(size):
    """Averaged down to 8 pixels, a picture of another size is nearly the one of 32: same pose, light and background."""
    shown = FLORA.observations(40, seed=6)[1].numpy()
    one, other = (
        draw_specimens(shown, 6, 0, side).astype(float).reshape(40, 3, 8, side // 8, 8, side // 8) for side in (32, size)
    )
    one, other = one.mean((3, 5)), other.mean((3, 5))
    assert np.abs(one - other).mean() < 6
    correlation = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(one, other, strict=True)]
    assert min(correlation) > 0.9
