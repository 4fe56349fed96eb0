"""Labels of one list of classes among those of another: matched by name wherever splits and datasets meet."""

import re
from dataclasses import replace

import pytest
import torch

from shortlist.data import Dataset, Split, as_dataset, as_split
from shortlist.data.class_lists import known_labels
from shortlist.errors import InputError

TREES, OTHERS = ["ash", "elm", "oak"], ["oak", "elm"]


def rows(target, **known):
    """A split with these labels and one feature, the row number."""
    target = torch.as_tensor(target)
    ids = [str(row) for row in range(len(target))]
    return Split(torch.arange(len(target))[:, None].float(), target, ids, **known)


def names_of(dataset, split):
    """The names of the labels of each row, of a split with one label a row."""
    return [dataset.classes[label] for label in dataset.splits[split].target.tolist()]


def test_a_split_of_a_dataset_knows_its_classes():
    dataset = Dataset("trees", TREES, {"train": rows([0, 2])}, open_classes=True)
    split = dataset.splits["train"]
    assert split.classes == TREES
    assert split.open_classes
    assert split.rows(torch.tensor([1])).classes == TREES
    assert dataset.with_splits({"test": split}).splits["test"].target.tolist() == [0, 2]
    assert rows([0, 2]).classes is None


def test_a_split_takes_labels_of_other_classes_by_name():
    split = rows([0, 1, 0], classes=OTHERS, posterior=torch.ones(3, 2) / 2)
    found = split.with_classes(TREES)
    assert found.target.tolist() == [2, 1, 2]
    assert found.classes == TREES
    assert found.posterior is None  # its columns are those of the other classes
    assert split.with_classes(tuple(OTHERS)).posterior is not None
    assert rows([0, 2]).with_classes(TREES).target.tolist() == [0, 2]  # without names, numbers are those of the classes
    with pytest.raises(InputError, match="'oak'.*not among the 2 classes"):
        split.with_classes(["ash", "elm"])
    with pytest.raises(InputError, match="target: .*0 to 1, got 2"):
        rows([0, 2]).with_classes(OTHERS)


def test_unknown_classes_of_several_labels_are_refused_unless_the_rows_name_all_they_have():
    target = torch.tensor([[True, False], [True, True]])
    with pytest.raises(InputError, match="expected labels of every class, got none of 'ash'"):
        rows(target, classes=OTHERS).with_classes(TREES)
    found = rows(target, classes=OTHERS, open_classes=True).with_classes(TREES)
    assert found.target.tolist() == [[False, False, True], [False, True, True]]


def test_the_labels_of_a_split_are_among_its_classes():
    with pytest.raises(InputError, match="target: .*0 to 1, got 2"):
        rows([0, 2], classes=OTHERS)
    with pytest.raises(InputError, match=re.escape("2 classes, got bool (1, 3)")):
        rows(torch.ones(1, 3, dtype=torch.bool), classes=OTHERS)


def test_other_labels_are_of_the_same_classes_unless_others_are_named():
    split = rows([0, 1], classes=OTHERS)
    assert split.with_target(torch.tensor([1, 1])).classes == OTHERS
    assert split.with_target(torch.tensor([2, 0]), classes=TREES).classes == TREES


def test_a_dataset_matches_the_classes_of_its_splits_by_name():
    other = Dataset("meadow", OTHERS, {"all": rows([0, 1])}).splits["all"]
    dataset = Dataset("both", TREES, {"train": rows([0, 1, 2]), "test": other})
    assert names_of(dataset, "test") == ["oak", "elm"]
    with pytest.raises(InputError, match="both, split test: .*'oak'.*not among"):
        Dataset("both", ["ash", "elm"], {"train": rows([0, 1]), "test": other})
    reordered = replace(dataset, classes=["oak", "elm", "ash"])
    assert names_of(reordered, "train") == names_of(dataset, "train") == TREES


def test_splits_of_two_datasets_are_joined_by_the_names_of_their_classes():
    garden = Dataset("garden", TREES, {"all": rows([0, 1, 2])}).splits["all"]
    meadow = Dataset("meadow", ["oak", "fir"], {"all": rows([0, 1])}).splits["all"]
    joined = as_dataset({"train": garden, "test": meadow})
    assert joined.classes == ["ash", "elm", "fir", "oak"]
    assert names_of(joined, "train") == TREES
    assert names_of(joined, "test") == ["oak", "fir"]
    alone = as_dataset(garden)
    assert alone.classes == TREES
    assert names_of(alone, "all") == TREES
    given = as_dataset({"train": garden, "test": meadow}, classes=["fir", *TREES])
    assert given.classes == ["fir", *TREES]
    assert names_of(given, "test") == ["oak", "fir"]


def test_as_split_matches_the_classes_of_a_split_by_name():
    meadow = Dataset("meadow", OTHERS, {"all": rows([0, 1])}).splits["all"]
    assert as_split(meadow, classes=TREES).target.tolist() == [2, 1]
    assert as_split(meadow).target.tolist() == [0, 1]
    with pytest.raises(InputError, match="'oak'.*not among"):
        as_split(meadow, classes=["ash", "elm"])


def test_numbers_without_names_are_those_of_the_classes_they_meet():
    numbered = as_dataset(([[1.0], [2.0]], [0, 2]))
    split = numbered.splits["all"]
    assert numbered.classes == ["0", "1", "2"]
    assert split.classes is None
    assert Dataset("trees", TREES, {"all": split}).splits["all"].target.tolist() == [0, 2]
    assert as_split(split, classes=TREES).target.tolist() == [0, 2]
    named = Dataset("garden", TREES, {"all": rows([0, 1, 2])})
    for part in (split, numbered):
        joined = as_dataset({"train": named.splits["all"], "test": part})
        assert joined.classes == TREES
        assert names_of(joined, "test") == ["ash", "oak"]
    assert as_dataset({"train": split, "test": as_dataset(([[1.0]], [11]))}).classes == [str(place) for place in range(12)]
    assert as_dataset(numbered, classes=TREES).classes == TREES
    renamed = replace(numbered, classes=TREES, numbered=False)
    assert renamed.splits["all"].classes == TREES


def test_labels_outside_the_classes_are_counted_and_the_others_kept():
    single = known_labels(torch.tensor([0, 1, 2, 1]), ["oak", "yew", "elm"], TREES)
    assert single.known.tolist() == [True, False, True, False]
    assert single.target[single.known].tolist() == [2, 1]
    assert single.unknown == {"yew": 2}
    assert "'yew' (2 rows) is not among the 3 classes" in single.sentence(TREES)
    several = known_labels(torch.tensor([[True, True], [False, True]]), ["oak", "yew"], TREES)
    assert several.known.all()
    assert several.target.tolist() == [[False, False, True], [False, False, False]]
    assert several.unknown == {"yew": 2}
    with pytest.raises(InputError, match="'ash', 'elm'"):
        known_labels(torch.tensor([[True, True]]), ["oak", "yew"], TREES, need_all=True)
    assert not known_labels(torch.tensor([0]), ["yew"], TREES).any_left
