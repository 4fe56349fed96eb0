"""The garden as a dataset with splits."""

import pytest
import torch

from shortlist.data import Flora, flora_dataset

FLORA = Flora(8, 2)
SIZES = {"train": 12, "val": 4, "test": 3}


def test_specimens_by_default():
    data = flora_dataset(FLORA, **SIZES)
    assert {name: len(split) for name, split in data.splits.items()} == SIZES
    assert data.name == "Flora specimens"
    assert list(data.classes) == FLORA.classes
    assert list(data.superclasses) == FLORA.superclasses
    assert not data.multi_label
    assert data.train_counts.sum() == 12
    train = data.splits["train"]
    assert train.inputs.images.shape == (12, 3, 32, 32)
    assert train.ids[:2] == ["train-0", "train-1"]
    assert list(train.inputs.ids) == list(train.ids)


@pytest.mark.parametrize(("name", "seed"), [("train", 1), ("val", 2), ("test", 3)])
def test_each_split_has_the_pictures_of_its_own_seed(name, seed):
    split = flora_dataset(FLORA, **SIZES, size=16).splits[name]
    images, target, posterior = FLORA.specimens(SIZES[name], seed=seed, size=16)
    assert torch.equal(split.inputs.images, images)
    assert torch.equal(split.target, target)
    assert torch.equal(split.posterior, posterior)


def test_a_larger_split_begins_with_the_smaller_one():
    small, large = (flora_dataset(FLORA, train=n, val=1, test=1, size=8).splits["train"] for n in (5, 9))
    assert torch.equal(large.inputs.images[:5], small.inputs.images)
    assert large.ids[:5] == small.ids


def test_quadrats_are_larger_and_have_any_number_of_labels():
    data = flora_dataset(FLORA, kind="quadrats", **SIZES)
    train = data.splits["train"]
    assert data.multi_label
    assert train.inputs.images.shape == (12, 3, 64, 64)
    assert train.target.shape == train.posterior.shape == (12, 8)
    assert torch.equal(train.target, FLORA.quadrats(12, seed=1)[1])


def test_an_open_set_has_the_classes_that_keep_their_label():
    data = flora_dataset(FLORA, kind="open-set", **SIZES)
    known = FLORA.labelled().tolist()
    assert list(data.classes) == [FLORA.classes[place] for place in known]
    assert list(data.superclasses) == [FLORA.superclasses[place] for place in known]
    train = data.splits["train"]
    assert train.target.shape == train.posterior.shape == (12, len(known))
    assert train.target.dtype == torch.bool


def test_the_default_garden():
    data = flora_dataset(train=3, val=0, test=0)
    assert len(data.classes) == 120
    assert data.splits["train"].posterior.shape == (3, 120)
    assert len(data.splits["val"]) == 0


def test_pictures_are_kept_where_one_says(tmp_path):
    for _ in range(2):
        data = flora_dataset(FLORA, **SIZES, size=8, cache=tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    assert torch.equal(data.splits["val"].inputs.images, FLORA.specimens(4, seed=2, size=8)[0])


def test_rows_of_a_split_keep_their_pictures():
    split = flora_dataset(FLORA, **SIZES, size=8).splits["train"]
    some = split.rows(torch.tensor([3, 1]))
    assert torch.equal(some.inputs.images, split.inputs.images[[3, 1]])
    assert some.ids == ["train-3", "train-1"]
