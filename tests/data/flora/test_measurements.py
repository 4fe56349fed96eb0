"""The garden as a table: readings of traits with noise, whose exact posterior is known."""

import numpy as np
import pytest
import torch

from shortlist.data import Flora, flora_dataset, open_dataset
from shortlist.data.flora.measurements import COLUMNS, FIRST, read_traits
from shortlist.data.flora.traits import HIDDEN, TRAITS
from shortlist.errors import InputError
from tests.references import flora as reference

FLORA = Flora(12, 4, variation=0.7)


@pytest.mark.parametrize(("noise", "spread"), [(0.25, 0.0), (0.6, 0.8)])
def test_the_posterior_is_that_of_the_normal_densities(noise, spread):
    table, _, posterior = FLORA.measurements(40, seed=5, noise=noise, spread=spread)
    for row in range(len(table)):
        expected = reference.readings_posterior(FLORA, table[row, :-1].tolist(), noise * float(table[row, -1].exp()))
        assert posterior[row].numpy() == pytest.approx(expected, abs=3e-4)  # the table is rounded to float32


def test_labels_are_drawn_from_the_posterior():
    """-log posterior of the label has the mean of the entropy; 5 standard errors. A posterior of other noise does not."""
    _, target, posterior = FLORA.measurements(20_000, seed=6, noise=0.4, spread=0.5)
    bits = -posterior.double().clamp(min=1e-30).log()
    entropy = (posterior * bits).sum(1)
    surprise = bits[torch.arange(len(target)), target]
    assert abs(float((surprise - entropy).mean())) < 5 * float((surprise - entropy).std()) / len(target) ** 0.5
    wrong = (posterior.double() ** 1.2) / (posterior.double() ** 1.2).sum(1, keepdim=True)
    bits = -wrong.clamp(min=1e-30).log()
    gap = bits[torch.arange(len(target)), target] - (wrong * bits).sum(1)
    assert abs(float(gap.mean())) > 5 * float(gap.std()) / len(target) ** 0.5


def test_readings_are_the_traits_with_noise():
    _, shown = FLORA.observations(3000, seed=7)
    readings, deviation = read_traits(shown.numpy(), 7, 0, 0.3, 0.5)
    clean = np.zeros_like(readings)
    for column in range(len(TRAITS)):
        for row in np.flatnonzero(shown[:, column].numpy() != HIDDEN):
            clean[row, FIRST[column] + int(shown[row, column])] = 1
    scaled = (readings - clean) / deviation[:, None]
    assert abs(scaled.mean()) < 5 / scaled.size**0.5
    assert scaled.std() == pytest.approx(1, abs=0.01)
    assert deviation.min() > 0.3 * np.exp(-0.5)
    assert deviation.max() < 0.3 * np.exp(0.5)
    assert np.log(deviation / 0.3).std() == pytest.approx(0.5 / 3**0.5, abs=0.01)


def test_rows_do_not_depend_on_how_many_are_drawn_and_are_those_of_observe():
    few, many = FLORA.measurements(5, seed=1), FLORA.measurements(6000, seed=1)
    for first, second in zip(few, many, strict=True):
        assert torch.equal(first, second[:5])
    assert torch.equal(few[1], FLORA.observe(5, seed=1)[0])


def test_less_noise_comes_nearer_to_what_is_seen():
    best = [float(FLORA.measurements(4000, seed=2, noise=noise)[2].max(1).values.mean()) for noise in (0.1, 0.3, 1.0)]
    assert best == sorted(best, reverse=True)
    assert best[0] == pytest.approx(float(FLORA.observe(4000, seed=2)[1].max(1).values.mean()), abs=0.01)


def test_as_a_dataset():
    data = open_dataset("flora:kind=measurements,species=8,genera=2,train=9,val=4,test=3,noise=0.5")
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 9, "val": 4, "test": 3}
    assert list(data.feature_names) == [*COLUMNS, "quality"]
    table, target, posterior = Flora(8, 2).measurements(9, seed=1, noise=0.5)
    split = data.splits["train"]
    assert torch.equal(split.inputs, table)
    assert torch.equal(split.target, target)
    assert torch.equal(split.posterior, posterior)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "measurements", "size": 32}, "size: expected with pictures"),
        ({"kind": "specimens", "noise": 0.5}, "noise, spread: expected with kind 'measurements'"),
        ({"kind": "measurements", "noise": 0.0}, "noise: expected a number from 0.05 to 10, got 0.0"),
        ({"kind": "measurements", "spread": "much"}, "spread: expected a number from 0 to 3, got much"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        flora_dataset(FLORA, train=2, val=2, test=2, **options)
