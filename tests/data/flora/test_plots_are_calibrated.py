"""The probabilities of species in plots: against all assignments of species to plants, and calibrated on 100,000 plots."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from shortlist.data.flora import Flora
from shortlist.data.flora.quadrats import AT_HOME, HABITATS, MOST_PLANTS
from shortlist.data.flora.traits import FROM_ABOVE, HIDDEN, TRAITS
from shortlist.errors import InputError
from tests.data.flora import calibration
from tests.references import flora as ref

FLORA = Flora(seed=0)
CLASSES = len(FLORA.classes)
PLOTS, BLOCK, SEED = 100_000, 10_000, 30


@given(st.integers(0, 1000), st.sampled_from([0, 1, 2]), st.integers(0, 3), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_marginals_are_those_of_all_assignments(seed, variation, plants, row):
    garden = Flora(4, 2, seed, variation=variation)
    shown = garden.habitats.draw(1, seed, row).shown
    shown[0, plants:] = HIDDEN
    there = [plant for plant in shown[0].tolist() if set(plant) != {HIDDEN}]
    np.testing.assert_allclose(garden.habitats.marginals(shown)[0], ref.plot_marginals(garden, there), rtol=1e-10, atol=1e-12)


def test_an_empty_plot_has_nothing_in_it():
    shown = np.full((3, MOST_PLANTS, len(TRAITS)), HIDDEN)
    assert (FLORA.habitats.marginals(shown) == 0).all()


def test_no_plots():
    plots = FLORA.habitats.draw(0, 0, 0)
    assert plots.shown.shape == (0, MOST_PLANTS, len(TRAITS))
    assert plots.target(CLASSES).shape == FLORA.habitats.marginals(plots.shown).shape == (0, CLASSES)


def test_plants_that_cannot_be_are_refused():
    garden = Flora(4, 2, variation=0)
    shown = garden.habitats.draw(3, 0, 0).shown
    for column in FROM_ABOVE.columns:
        impossible = set(range(len(TRAITS[column].values))) - set(garden.taxa.typical[:, column].tolist())
        shown[1, 0, column] = impossible.pop()
    with pytest.raises(InputError, match="plot 1"):
        garden.habitats.marginals(shown)


def test_a_plot_is_the_same_whatever_n_and_wherever_one_starts():
    whole = FLORA.habitats.draw(500, 3, 0)
    part = FLORA.habitats.draw(20, 3, 333)
    assert (part.species == whole.species[333:353]).all()
    assert (part.shown == whole.shown[333:353]).all()


def test_each_species_has_a_home_where_it_is_twelve_times_as_frequent():
    relative = FLORA.habitats.composition / FLORA.prior
    elsewhere = relative.min(1, keepdims=True)
    at_home = relative > 2 * elsewhere
    assert (at_home.sum(0) == 1).all()
    np.testing.assert_allclose(relative, np.where(at_home, AT_HOME, 1) * elsewhere, rtol=1e-12)
    np.testing.assert_allclose(FLORA.habitats.composition.sum(1), 1)


def test_plots_have_the_plants_that_are_there_first_and_show_what_is_seen_from_above():
    plots = FLORA.habitats.draw(2000, 1, 0)
    there = plots.species >= 0
    counts = there.sum(1)
    assert (there == (np.arange(MOST_PLANTS) < counts[:, None])).all()
    assert set(counts) == set(range(MOST_PLANTS + 1))
    for column in range(len(TRAITS)):
        assert ((plots.shown[:, :, column] != HIDDEN) == (there & (column in FROM_ABOVE.columns))).all()
    target = plots.target(CLASSES)
    for row in range(0, 2000, 97):
        assert set(np.flatnonzero(target[row])) == set(plots.species[row, : counts[row]])


def test_counts_of_plants_follow_the_law():
    """False alarms below 1e-6."""
    n = 50_000
    counts = np.concatenate([(FLORA.habitats.draw(BLOCK, 2, start).species >= 0).sum(1) for start in range(0, n, BLOCK)])
    law = np.array([np.mean([ref.count_chance(h, count) for h in range(len(HABITATS))]) for count in range(MOST_PLANTS + 1)])
    assert law.sum() == pytest.approx(1)
    observed = np.bincount(counts, minlength=MOST_PLANTS + 1)
    assert calibration.Watched(observed, n * law, n * law * (1 - law)).excess() < 1


def with_composition(composition):
    habitats = copy.copy(FLORA.habitats)
    habitats.composition = composition
    return habitats


def without_counts():
    habitats = copy.copy(FLORA.habitats)
    habitats.count_law = np.ones_like(habitats.count_law)
    return habitats


def top(probs):
    return np.eye(CLASSES, dtype=bool)[probs.argmax(1)]


def tempered(probs, power):
    inside = probs.clip(1e-12, 1 - 1e-12)
    return 1 / (1 + ((1 - inside) / inside) ** power)


# Whoever knows less of the law: no habitats; habitats, but not that lush ones have more plants.
IGNORANT = {
    "no habitats": with_composition(np.tile(FLORA.habitats.composition.mean(0), (len(HABITATS), 1))),
    "number of plants ignored": without_counts(),
}
WRONG = {
    "all 0.002 too high": lambda m: np.minimum(m + 0.002, 1),
    "all 0.002 too low": lambda m: np.maximum(m - 0.002, 0),
    "the top 0.005 too high": lambda m: np.minimum(m + 0.005 * top(m), 1),
    "the top 0.005 too low": lambda m: np.maximum(m - 0.005 * top(m), 0),
    "odds to the power of 1.1": lambda m: tempered(m, 1.1),
    "odds to the power of 0.9": lambda m: tempered(m, 0.9),
}


def test_marginals_are_calibrated_and_sharp_and_wrong_ones_are_found_out():
    """One pass over the plots for the right answer, the wrong ones and constant rates; false alarms below 1e-6."""
    rates = FLORA.habitats.draw(BLOCK, SEED + 1, 0).target(CLASSES).mean(0)
    watched, losses = {}, {}
    for start in range(0, PLOTS, BLOCK):
        plots = FLORA.habitats.draw(BLOCK, SEED, start)
        target, right = plots.target(CLASSES).astype(np.float64), FLORA.habitats.marginals(plots.shown)
        answers = {"right": right} | {name: wrong(right) for name, wrong in WRONG.items()}
        answers |= {name: habitats.marginals(plots.shown) for name, habitats in IGNORANT.items()}
        for name, probs in answers.items():
            part = calibration.of_many_labels(probs, target)
            watched[name] = watched[name] + part if start else part
        for name in ("right", *IGNORANT, "rates"):
            loss = ((target - answers.get(name, rates)) ** 2).sum(1)
            losses[name] = np.append(losses.get(name, []), loss)
    excess = {name: events.excess() for name, events in watched.items()}
    assert excess.pop("right") < 1
    # Four thirds of what raises an alarm: at least two standard deviations to spare, so this is no luck of the seed.
    assert all(value > 4 / 3 for value in excess.values()), excess
    # Constant rates are calibrated. They, and whoever knows less, lose by more than 5 standard errors in the Brier score.
    for name in (*IGNORANT, "rates"):
        surplus = losses[name] - losses["right"]
        assert surplus.mean() > 5 * surplus.std() / np.sqrt(PLOTS), name
