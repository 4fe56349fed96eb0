"""Pictures of plots: each plant can be made out, and says only what is seen from above."""

import numpy as np
import pytest

from shortlist.data.flora import Flora
from shortlist.data.flora.plots import draw_plots
from shortlist.data.flora.quadrats import MOST_PLANTS
from shortlist.data.flora.traits import FROM_ABOVE, HIDDEN, TRAITS

FLORA = Flora()
N, SIZE = 120, 64


@pytest.fixture(scope="module")
def plots():
    return FLORA.habitats.draw(N, 1, 0)


@pytest.fixture(scope="module")
def pictures(plots):
    return draw_plots(plots.shown, 1, 0, SIZE)


@pytest.fixture(scope="module")
def neighbourhoods(plots, pictures):
    """{(plot, plant): which pixels change when the plant is taken away}."""
    found = {}
    for plant in range(MOST_PLANTS):
        without = plots.shown.copy()
        without[:, plant] = HIDDEN
        changed = (draw_plots(without, 1, 0, SIZE) != pictures).any(1)
        there = plots.species[:, plant] >= 0
        assert not changed[~there].any()
        found |= {(row, plant): changed[row] for row in np.flatnonzero(there)}
    return found


def test_a_plant_changes_its_neighbourhood_only(neighbourhoods):
    """A third of the side, and as much again for leaves that reach out: at most half the side in either direction."""
    for changed in neighbourhoods.values():
        rows, columns = np.nonzero(changed)
        assert max(np.ptp(rows), np.ptp(columns)) < SIZE / 2
        assert len(rows) > 80


def test_plants_do_not_hide_each_other(neighbourhoods):
    """Their middles are a quarter of the side apart, and each has most of its pixels to itself."""
    plots = {}
    for (row, _), changed in neighbourhoods.items():
        plots.setdefault(row, []).append(changed)
    for changed in plots.values():
        middles = [np.argwhere(part).mean(0) for part in changed]
        apart = [np.hypot(*(a - b)) for place, a in enumerate(middles) for b in middles[:place]]
        assert min(apart, default=SIZE) > SIZE / 4
        crowd = np.sum(changed, axis=0)
        assert min((crowd[part] == 1).mean() for part in changed) > 0.4


def test_plots_have_from_no_plant_to_eight(plots):
    many = FLORA.habitats.draw(1000, 1, 0)
    assert set((many.species >= 0).sum(1)) == set(range(MOST_PLANTS + 1))
    _, target, marginals = FLORA.quadrats(1000, seed=1, size=8)
    empty = ~target.any(1)
    assert 0.05 < empty.double().mean() < 0.2
    assert (marginals[empty] == 0).all()  # bare ground is seen to be bare
    assert (marginals[~empty].sum(1) > 0.99).all()


def test_an_empty_plot_is_bare_ground(plots, pictures):
    empty = (plots.species < 0).all(1)
    assert empty.any()
    nothing = np.full_like(plots.shown, HIDDEN)
    assert (draw_plots(nothing, 1, 0, SIZE)[empty] == pictures[empty]).all()
    # Nothing in it has an edge: neighbouring pixels differ by grain and by the mottles of the ground only.
    edges = np.abs(np.diff(pictures.astype(int), axis=3)).max((1, 2, 3))
    assert edges[empty].max() < edges[~empty].min()


def test_traits_that_are_not_seen_from_above_change_nothing(plots, pictures):
    other = plots.shown.copy()
    there = plots.species >= 0
    for column, trait in enumerate(TRAITS):
        if column not in FROM_ABOVE.columns:
            other[:, :, column] = np.where(there, len(trait.values) - 1, HIDDEN)
    assert (draw_plots(other, 1, 0, SIZE) == pictures).all()


@pytest.mark.parametrize("trait", FROM_ABOVE.shown, ids=lambda trait: trait.name)
def test_every_trait_seen_from_above_can_be_seen(trait, plots):
    """One plant, neighbouring values, the same pose: at least 12 pixels differ by 10 levels, mostly 25 do."""
    column = TRAITS.index(trait)
    for value in range(len(trait.values) - 1):
        shown = plots.shown[(plots.species >= 0).any(1)][:40].copy()
        shown[:, 0, column] = value
        next_one = shown.copy()
        next_one[:, 0, column] = value + 1
        change = np.abs(draw_plots(shown, 1, 0, SIZE).astype(int) - draw_plots(next_one, 1, 0, SIZE)).max(1)
        pixels = (change >= 10).sum((1, 2))
        assert pixels.min() >= 12
        assert np.median(pixels) >= 25


def test_the_order_of_species_says_nothing():
    """Which cell a plant stands in is chance: over many plots the mean picture of the first plant is spread over all nine."""
    shown = FLORA.habitats.draw(400, 9, 0).shown
    shown[:, 1:] = HIDDEN
    there = shown[:, 0, FROM_ABOVE.columns[0]] != HIDDEN
    change = (draw_plots(shown, 9, 0, 33) != draw_plots(np.full_like(shown, HIDDEN), 9, 0, 33)).any(1)[there]
    cells = change.reshape(-1, 3, 11, 3, 11).mean((0, 2, 4))
    assert cells.min() > 0.5 * cells.max()
