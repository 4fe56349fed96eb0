"""The law of what is seen: draws, posterior, species."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.data.flora import Flora
from shortlist.data.flora.abundance import abundances
from shortlist.data.flora.traits import HIDDEN, ORGANS, TRAITS, VIEWS
from shortlist.errors import InputError
from tests.data.flora import calibration, golden
from tests.references import flora as ref

SEEDS = st.integers(0, 2**63 - 1)


@st.composite
def gardens(draw):
    species = draw(st.integers(2, 12))
    return Flora(
        species,
        draw(st.integers(1, species)),
        draw(SEEDS),
        abundance=draw(st.sampled_from(["long-tailed", "balanced"])),
        variation=draw(st.sampled_from([0, 0.5, 1, 2])),
    )


@st.composite
def gardens_and_looks(draw):
    """A garden and a plant in it of which any traits are hidden, and one may have been made up."""
    garden = draw(gardens())
    species = draw(st.integers(0, len(garden.classes) - 1))
    chance = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=len(TRAITS), max_size=len(TRAITS)))
    shown = garden.law.individuals(np.array([species]), np.array([chance]))[0]
    if draw(st.booleans()):
        column = draw(st.integers(0, len(TRAITS) - 1))
        shown[column] = draw(st.integers(0, len(TRAITS[column].values) - 1))
    shown[draw(st.lists(st.booleans(), min_size=len(TRAITS), max_size=len(TRAITS)))] = HIDDEN
    return garden, shown


@given(gardens_and_looks())
@settings(max_examples=150, deadline=None)
def test_the_posterior_is_that_of_the_definition(case):
    garden, shown = case
    expected = ref.posterior(garden, shown)
    if expected is None:
        with pytest.raises(InputError, match="observation 0: no species of this garden can look like this"):
            garden.posterior(torch.from_numpy(shown[None]))
        return
    expected = np.array([float(p) for p in expected])
    np.testing.assert_allclose(garden.law.posterior(shown[None], garden.prior)[0], expected, rtol=1e-12, atol=1e-300)
    found = garden.posterior(torch.from_numpy(shown[None]))
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-6, atol=1e-30)


@given(gardens_and_looks())
@settings(max_examples=50, deadline=None)
def test_the_likelihood_is_that_of_the_definition(case):
    garden, shown = case
    expected = [float(ref.likelihood(garden, species, shown)) for species in range(len(garden.classes))]
    np.testing.assert_allclose(garden.law.likelihood(shown[None])[0], expected, rtol=1e-12, atol=0)


@given(gardens(), SEEDS)
@settings(max_examples=50, deadline=None)
def test_what_is_drawn_is_possible_and_its_posterior_sums_to_one(garden, seed):
    target, posterior = garden.observe(50, seed=seed)
    np.testing.assert_allclose(posterior.sum(1), 1, atol=1e-6)
    assert (posterior.gather(1, target[:, None]) > 0).all()


@pytest.mark.parametrize("garden", [Flora(), Flora(2, 1), Flora(7, 7, 3, abundance="balanced", variation=0)], ids=repr)
def test_all_hidden_leaves_the_prior(garden):
    posterior = garden.posterior(torch.full((2, len(TRAITS)), HIDDEN))
    np.testing.assert_allclose(posterior, [garden.prior] * 2, rtol=1e-6)


def test_observing_is_drawing_and_answering():
    garden = Flora(20, 5, seed=4)
    target, shown = garden.observations(300, seed=9)
    again, posterior = garden.observe(300, seed=9)
    assert torch.equal(target, again)
    assert torch.equal(posterior, garden.posterior(shown))
    assert target.dtype == shown.dtype == torch.int64


def test_every_drawn_row_gets_its_own_posterior_whatever_its_company():
    garden = Flora()
    shown = garden.observations(200, seed=1)[1]
    together = garden.posterior(shown)
    for row in range(0, 200, 17):
        assert torch.equal(together[row], garden.posterior(shown[row : row + 1])[0])


def test_an_impossible_observation_is_named_by_its_row():
    garden = Flora(4, 2, variation=0)
    _, shown = garden.observations(5, seed=0)
    impossible = torch.tensor(
        [(set(range(len(t.values))) - set(garden.taxa.typical[:, c])).pop() for c, t in enumerate(TRAITS)]
    )
    shown[3] = impossible
    with pytest.raises(InputError, match="observation 3: no species"):
        garden.posterior(shown)


@pytest.mark.parametrize("value", [-2, 6, 99])
def test_values_that_a_trait_does_not_have_are_refused(value):
    shown = torch.full((2, len(TRAITS)), HIDDEN)
    shown[1, 0] = value
    with pytest.raises(InputError, match="petals"):
        Flora(4, 2).posterior(shown)


@pytest.mark.parametrize("shape", [(8,), (2, 7), (1, 2, 8), (0,)])
def test_observations_need_a_value_for_each_trait(shape):
    with pytest.raises(InputError, match=r"shown: expected \(n, 8\), one value of each trait, got"):
        Flora(4, 2).posterior(torch.zeros(shape, dtype=torch.int64))


def test_without_variation_plants_look_like_their_species():
    garden = Flora(30, 6, variation=0)
    target, shown = garden.observations(2000, seed=2)
    typical = torch.from_numpy(garden.taxa.typical)[target]
    assert (shown == torch.where(shown == HIDDEN, HIDDEN, typical)).all()
    posterior = garden.posterior(shown)
    # What is left then is the prior among those who look the same.
    own = posterior.gather(1, target[:, None])
    prior = torch.from_numpy(garden.prior).float()
    expected = torch.where(posterior > 0, prior * (own / prior[target][:, None]), 0)
    np.testing.assert_allclose(posterior, expected, rtol=1e-5)


@pytest.mark.parametrize("variation", [0.5, 1, 2])
def test_draws_follow_the_law(variation):
    """Species, views, and the value of each trait given the species' own; 200,000 rows, false alarms below 1e-6."""
    garden, rows = Flora(10, 3, seed=1, variation=variation), 200_000
    target, shown = (part.numpy() for part in garden.observations(rows, seed=5))
    visible = shown != HIDDEN
    observed, expected, variance = [], [], []

    def watch(happened, p):
        observed.append(happened.sum())
        expected.append(len(happened) * p)
        variance.append(len(happened) * p * (1 - p))

    for species, share in enumerate(garden.prior):
        watch(target == species, share)
    for view in VIEWS:
        watch((visible == [trait in view.shown for trait in TRAITS]).all(1), view.share)
    for column, trait in enumerate(TRAITS):
        for typical, value in itertools.product(range(len(trait.values)), repeat=2):
            alike = visible[:, column] & (garden.taxa.typical[target, column] == typical)
            watch(shown[alike, column] == value, float(ref.chance(trait, typical, value, variation)))
    assert calibration.Watched(*map(np.array, (observed, expected, variance))).excess() < 1


def test_the_view_says_nothing_about_the_species():
    """The share of each species is the same in every view; false alarms below 1e-6."""
    garden = Flora(10, 3, seed=1)
    target, shown = (part.numpy() for part in garden.observations(200_000, seed=6))
    parts = []
    for view in VIEWS:
        rows = ((shown != HIDDEN) == [trait in view.shown for trait in TRAITS]).all(1)
        assert rows.any()
        probs = np.tile(garden.prior, (rows.sum(), 1))
        parts.append(calibration.by_class(probs, np.eye(10)[target[rows]], np.ones(rows.sum())))
    assert calibration.together(*parts).excess() < 1


def test_the_plants_of_seed_0_are_the_same_for_ever():
    assert golden.observations() == golden.OBSERVATIONS


def test_a_row_is_the_same_whatever_n_and_wherever_one_starts():
    garden = Flora(seed=3)
    target, shown = garden.observations(1000, seed=7)
    for n, start in ((10, 0), (1, 999), (313, 500), (0, 4)):
        part_target, part_shown = garden.observations(n, seed=7, start=start)
        assert torch.equal(part_target, target[start : start + n])
        assert torch.equal(part_shown, shown[start : start + n])
    assert torch.equal(garden.observe(10, seed=7)[1], garden.observe(1000, seed=7)[1][:10])


def test_rows_do_not_depend_on_where_a_block_ends():
    garden, block = Flora(4, 2), 2**16
    _, shown = garden.observations(block + 5, seed=1)
    assert torch.equal(garden.observations(10, seed=1, start=block - 5)[1], shown[-10:])


def test_seeds_differ():
    garden = Flora()
    assert not torch.equal(garden.observations(100, seed=0)[1], garden.observations(100, seed=1)[1])
    assert (Flora(seed=0).taxa.typical != Flora(seed=1).taxa.typical).any()
    assert Flora(seed=0).classes != Flora(seed=1).classes


@pytest.mark.parametrize("size", [(2, 1), (2, 2), (5, 3), (9, 9), (120, 30), (100, 1), (1000, 10), (1500, 500)], ids=str)
def test_gardens_of_any_size(size):
    species, genera = size
    garden = Flora(species, genera, seed=5)
    assert len(garden.classes) == len(set(garden.classes)) == species
    assert len(garden.taxa.genera) == len(set(garden.taxa.genera)) == genera
    assert len(set(map(tuple, garden.taxa.typical.tolist()))) == species
    members = np.bincount(garden.taxa.genus, minlength=genera)
    assert members.min() >= min(2, species // genera)
    assert garden.prior.sum() == pytest.approx(1)
    assert garden.prior.min() > 0
    assert (garden.taxa.typical >= 0).all()
    assert (garden.taxa.typical < [len(trait.values) for trait in TRAITS]).all()
    assert garden.superclass_of.tolist() == garden.taxa.genus.tolist()
    assert [name.split()[0] for name in garden.classes] == garden.superclasses
    assert garden.observe(5)[1].shape == (5, species)


@pytest.mark.parametrize("seed", range(5))
def test_species_of_a_genus_share_most_traits(seed):
    """Each has at most two traits of its own, so two differ in four of eight at most; across genera in five or more mostly."""
    garden = Flora(seed=seed)
    typical, genus = garden.taxa.typical, garden.taxa.genus
    differ = (typical[:, None] != typical).sum(2)
    pairs = np.triu(np.ones_like(differ, bool), 1)
    kin = genus[:, None] == genus
    assert differ[kin].max() <= 4
    assert differ[kin & pairs].mean() < 2.5
    assert differ[~kin].mean() > 5
    organs = np.array([ORGANS.index(trait.organ) for trait in TRAITS])
    flower, leaf = (typical[:, organs == ORGANS.index(organ)] for organ in ("flower", "leaf"))
    same_flower = (flower[:, None] == flower).all(2)
    same_leaf = (leaf[:, None] == leaf).all(2)
    assert (same_flower & ~same_leaf & kin).any()
    assert (same_leaf & ~same_flower & kin).any()


def test_names_stay_unique_when_epithets_run_out():
    garden = Flora(1500, 15)
    assert np.bincount(garden.taxa.genus).max() > 113
    assert len(set(garden.classes)) == 1500


@pytest.mark.parametrize("species", [5, 6, 10, 17, 50, 120, 333, 1000])
def test_the_rarest_four_fifths_have_eleven_percent(species):
    shares = abundances(species, "long-tailed")
    assert float(ref.tail_share(shares.tolist())) == pytest.approx(0.11, abs=1e-9)
    assert (np.diff(shares) < 0).all()
    assert shares.sum() == pytest.approx(1)
    assert sorted(Flora(species, species // 5).prior, reverse=True) == pytest.approx(shares.tolist())


@pytest.mark.parametrize("species", [2, 3, 4])
def test_a_few_species_still_fall_off(species):
    shares = abundances(species, "long-tailed")
    assert shares.sum() == pytest.approx(1)
    assert (np.diff(shares) < 0).all()


def test_balanced_species_are_alike():
    assert Flora(7, 2, abundance="balanced").prior.tolist() == [1 / 7] * 7
