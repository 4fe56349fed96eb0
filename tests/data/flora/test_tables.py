"""Plots and open sets as tables: nothing that is seen is lost, and labels and probabilities are those of the pictures."""

import numpy as np
import pytest
import torch

from shortlist.data import open_dataset
from shortlist.data.flora import Flora
from shortlist.data.flora.measurements import PLANT_COLUMNS
from shortlist.data.flora.quadrats import MOST_PLANTS
from shortlist.data.flora.traits import FROM_ABOVE, HIDDEN
from shortlist.data.readers.flora import flora_dataset
from shortlist.errors import InputError

FLORA = Flora(12, 4, seed=3)


def test_a_list_of_plants_says_what_each_shows_and_how_many_show_it():
    table, _, _ = FLORA.plant_lists(60, seed=2)
    shown = FLORA.habitats.draw(60, 2, 0).shown
    width = len(PLANT_COLUMNS)
    assert table.shape == (60, (1 + MOST_PLANTS) * width)
    first = np.cumsum([0, *(len(trait.values) for trait in FROM_ABOVE.shown)])
    for row in range(60):
        counts = np.zeros(width)
        for plant in range(MOST_PLANTS):
            expected = np.zeros(width)
            for place, column in enumerate(FROM_ABOVE.columns):
                if shown[row, plant, column] != HIDDEN:
                    expected[first[place] + shown[row, plant, column]] = 1
            counts += expected
            assert table[row, (1 + plant) * width : (2 + plant) * width].tolist() == expected.tolist()
        assert table[row, :width].tolist() == counts.tolist()


def test_plots_as_a_table_have_the_labels_and_probabilities_of_their_pictures():
    _, target, marginals = FLORA.plant_lists(40, seed=2)
    _, pictured, exact = FLORA.quadrats(40, seed=2, size=16)
    assert torch.equal(target, pictured)
    assert torch.equal(marginals, exact)


def test_open_set_measurements_keep_the_columns_of_labelled_species():
    table, target, posterior = FLORA.open_set_measurements(50, seed=2, noise=0.3)
    every, species, full = FLORA.measurements(50, seed=2, noise=0.3)
    known = FLORA.labelled()
    assert torch.equal(table, every)
    assert torch.equal(posterior, full[:, known])
    assert [set(known[row].tolist()) for row in target] == [
        {int(name)} if int(name) in known.tolist() else set() for name in species
    ]
    assert not target.any(1).all()


@pytest.mark.parametrize(
    ("kind", "columns"), [("plant-lists", (1 + MOST_PLANTS) * len(PLANT_COLUMNS)), ("open-set-measurements", 40)]
)
def test_as_a_dataset(kind, columns):
    data = open_dataset(f"flora:kind={kind},species=12,genera=4,seed=3,train=9,val=4,test=3")
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 9, "val": 4, "test": 3}
    assert len(set(data.feature_names)) == columns
    kept = FLORA.labelled().tolist() if kind.startswith("open-set") else range(12)
    assert data.classes == [FLORA.classes[place] for place in kept]
    draw = FLORA.plant_lists if kind == "plant-lists" else FLORA.open_set_measurements
    for part, expected in zip(("inputs", "target", "posterior"), draw(4, seed=2), strict=True):
        assert torch.equal(getattr(data.splits["val"], part), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "plant-lists", "noise": 0.5}, "noise, spread: expected with kind 'measurements'"),
        ({"kind": "plant-lists", "size": 32}, "size: expected with pictures, got kind 'plant-lists'"),
        ({"kind": "open-set-measurements", "cache": "here"}, "cache: expected with pictures"),
        ({"kind": "plants"}, "kind: .*plant-lists"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        flora_dataset(FLORA, train=2, val=2, test=2, **options)
