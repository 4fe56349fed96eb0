"""Species without a label: some of each genus."""

import numpy as np
import pytest
import torch

from shortlist.data.flora import Flora

FLORA = Flora()


def lost_and_kept(garden, share):
    kept = garden.labelled(share).numpy()
    sizes = np.bincount(garden.taxa.genus, minlength=len(garden.taxa.genera))
    return sizes, sizes - np.bincount(garden.taxa.genus[kept], minlength=len(sizes))


def test_four_in_ten_lose_their_label_by_default():
    assert torch.equal(FLORA.labelled(), FLORA.labelled(0.4))
    assert 1 - len(FLORA.labelled()) / len(FLORA.classes) == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize("share", [0.01, 0.25, 0.4, 0.9, 1])
@pytest.mark.parametrize("seed", range(3))
def test_each_genus_loses_its_share_and_at_least_one_and_keeps_one(share, seed):
    sizes, lost = lost_and_kept(Flora(seed=seed), share)
    assert (lost >= 1).all()
    assert (sizes - lost >= 1).all()
    free = (share * sizes >= 1) & (share * sizes <= sizes - 1)
    assert (np.abs(lost - share * sizes)[free] <= 0.5).all()


def test_nothing_is_lost_of_a_share_of_nothing():
    assert FLORA.labelled(0).tolist() == list(range(120))


def test_a_genus_of_one_keeps_it():
    assert Flora(6, 6).labelled().tolist() == list(range(6))
    sizes, lost = lost_and_kept(Flora(7, 4), 0.4)
    assert (lost[sizes == 1] == 0).all()
    assert (lost[sizes > 1] >= 1).all()


def test_the_same_species_lose_it_every_time_and_others_in_another_garden():
    assert torch.equal(Flora(seed=1).labelled(), Flora(seed=1).labelled())
    assert FLORA.labelled().tolist() == sorted(set(FLORA.labelled().tolist()))
    assert not torch.equal(Flora(seed=1).labelled(), Flora(seed=2).labelled())


def test_rows_of_unlabelled_species_have_no_label():
    images, target, posterior = FLORA.open_set(400, seed=2, size=8)
    expected, species, whole = FLORA.specimens(400, seed=2, size=8)
    known = FLORA.labelled()
    assert torch.equal(images, expected)
    assert (target.dtype, target.shape) == (torch.bool, (400, len(known)))
    assert torch.equal(target.any(1), torch.isin(species, known))
    labelled = target.any(1)
    assert 0 < labelled.sum() < 400
    assert torch.equal(known[target[labelled].int().argmax(1)], species[labelled])
    assert (target.sum(1) <= 1).all()
    assert torch.equal(posterior, whole[:, known])


def test_what_the_posterior_lacks_is_the_probability_of_no_label():
    """It sums to 1 at most, and 1 less the sum is calibrated: 5 standard errors over 50,000 plants."""
    target, posterior = FLORA.observe(50_000, seed=3)
    known = FLORA.labelled()
    none = 1 - posterior[:, known].double().sum(1)
    assert none.min() > -1e-6
    surplus = (~torch.isin(target, known)).double() - none
    assert abs(surplus.sum()) < 5 * (none * (1 - none)).clamp(min=0).sum().sqrt()


def test_the_share_reaches_the_pictures():
    _, target, posterior = FLORA.open_set(5, size=8, share=0.8)
    assert target.shape == posterior.shape == (5, len(FLORA.labelled(0.8)))
