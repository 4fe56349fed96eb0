"""Splits and datasets: parts that belong together have one length, and names have their places."""

import re

import pytest
import torch

from shortlist.data import Dataset, PictureArray, Problem, Split, as_dataset
from shortlist.data.adapters import as_split
from shortlist.data.dataset import classes_without_rows
from shortlist.data.pictures import PictureBoxes, PictureFiles
from shortlist.data.splits import ceil_split, grouped_split, stratified_split
from shortlist.errors import InputError

FEATURES = torch.arange(8.0).reshape(4, 2)
SINGLE = torch.tensor([0, 2, 2, 1])
SEVERAL = torch.tensor([[1, 0, 1], [0, 0, 0], [0, 1, 1], [0, 0, 1]], dtype=torch.bool)
IDS = ["a", "b", "c", "d"]


def split(target=SINGLE, **parts):
    return Split(FEATURES, target, IDS, **parts)


def test_rows_take_every_part_along():
    whole = split(groups=["x", "x", "y", "z"], posterior=torch.eye(4)[:, :3], columns={"organ": ["leaf", "bark", "", "fruit"]})
    chosen = whole.rows(torch.tensor([3, 1]))
    assert chosen.inputs.tolist() == [[6, 7], [2, 3]]
    assert chosen.target.tolist() == [1, 2]
    assert chosen.ids == ["d", "b"]
    assert chosen.groups == ["z", "x"]
    assert chosen.posterior.tolist() == [[0, 0, 0], [0, 1, 0]]
    assert chosen.columns == {"organ": ["fruit", "bark"]}
    assert len(chosen) == 2
    assert whole.ids == IDS


def test_rows_of_pictures_are_pictures():
    pictures = PictureArray(torch.arange(4, dtype=torch.uint8)[:, None, None, None].expand(4, 3, 2, 2).clone(), IDS)
    chosen = Split(pictures, SEVERAL, IDS).rows(torch.tensor([2]))
    assert chosen.inputs.images.unique().tolist() == [2]
    assert chosen.target.tolist() == [[False, True, True]]


def test_no_rows_are_a_split_too():
    empty = split(groups=IDS).rows(torch.zeros(0, dtype=torch.int64))
    assert (len(empty), empty.inputs.shape, empty.ids, empty.groups) == (0, (0, 2), [], [])
    assert empty.counts(3).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("part", "value"), [("ids", ["a"]), ("groups", ["a"] * 5), ("posterior", torch.zeros(3, 2)), ("inputs", FEATURES[:1])]
)
def test_every_part_has_one_entry_a_row(part, value):
    parts = {"inputs": FEATURES, "target": SINGLE, "ids": IDS, part: value}
    with pytest.raises(InputError, match=f"{part}: expected one for each of the 4 rows of target, got {len(value)}"):
        Split(**parts)


def test_every_column_has_one_entry_a_row():
    with pytest.raises(InputError, match="column 'organ': expected one for each of the 4 rows of target, got 3"):
        split(columns={"organ": ["leaf"] * 3})


def test_a_mask_chooses_the_rows_where_it_is_true():
    assert split().rows(torch.ones(4, dtype=torch.bool)).ids == IDS


def test_labels_are_counted_in_either_form():
    assert split().counts(4).tolist() == [1, 1, 2, 0]
    assert split(SEVERAL).counts(3).tolist() == [1, 1, 3]


def test_training_counts_are_those_of_train_or_of_everything():
    names = ["oak", "elm", "ash"]
    assert Dataset("d", names, {"train": split(), "test": split()}).train_counts.tolist() == [1, 1, 2]
    assert Dataset("d", names, {"all": split(), "more": split()}).train_counts.tolist() == [2, 2, 4]
    assert Dataset("d", names, {}).train_counts.tolist() == [0, 0, 0]


def test_superclasses_are_numbered_by_first_appearance():
    dataset = Dataset("d", ["a", "b", "c"], {"all": split()}, superclasses=["y", "x", "y"])
    assert dataset.superclass_names == ["y", "x"]
    assert dataset.superclass_of.tolist() == [0, 1, 0]
    without = Dataset("d", ["a", "b", "c"], {"all": split()})
    assert without.superclass_names == []
    with pytest.raises(InputError, match="d has no superclasses"):
        _ = without.superclass_of


def test_one_split_with_several_labels_makes_a_multi_label_dataset():
    assert not Dataset("d", ["a", "b", "c"], {"all": split()}).multi_label
    assert Dataset("d", ["a", "b", "c"], {"all": split(SEVERAL)}).multi_label


@pytest.mark.parametrize(
    ("classes", "target", "message"),
    [
        (["a", "b"], SINGLE, "target: expected labels from 0 to 1, got 2 in row 1"),
        (["a", "b", "c"], SINGLE - 1, "target: expected labels from 0 to 2, got -1 in row 0"),
        (["a", "b"], SEVERAL, r"split all: target: expected labels of 2 classes, got bool \(4, 3\)"),
    ],
)
def test_labels_fit_the_classes(classes, target, message):
    with pytest.raises(InputError, match=message):
        Dataset("d", classes, {"all": split(target)})


def test_every_class_has_a_superclass_or_none_has():
    with pytest.raises(InputError, match="superclasses: .*got 1"):
        Dataset("d", ["a", "b", "c"], {"all": split()}, superclasses=["x"])


def test_other_splits_keep_all_the_rest():
    problem = Problem("odd", "a", "b")
    dataset = Dataset("d", ["a", "b", "c"], {"all": split()}, ["x", "x", "y"], "a paper", [problem])
    other = dataset.with_splits({"train": split().rows(torch.tensor([0]))})
    assert (other.name, other.classes, other.superclasses, other.reference) == (
        "d",
        ["a", "b", "c"],
        ["x", "x", "y"],
        "a paper",
    )
    assert list(other.problems) == [problem]
    assert list(other.splits) == ["train"]
    assert list(dataset.splits) == ["all"]


def test_the_shape_of_a_dataset_is_readable_and_its_problems_are_not_printed():
    assert "odd" not in repr(Dataset("d", ["a", "b", "c"], {}, problems=[Problem("odd", "a", "b")]))


def test_a_dataset_and_a_split_fit_on_one_line():
    split = Split(torch.zeros(3, 2), torch.tensor([0, 1, 1]), ["a", "b", "c"])
    assert repr(split) == "Split(3 rows, 2 features, one label a row)"
    data = Dataset("garden", ["oak", "elm"], {"train": split, "test": split.rows(torch.tensor([0]))}, ["x", "x"])
    assert repr(data) == "Dataset('garden', 2 classes in 1 superclasses; train 3, test 1)"


# Rows without labels


def test_rows_without_labels_are_a_split():
    whole = Split(FEATURES, None, IDS, groups=["x", "x", "y", "z"])
    chosen = whole.rows(torch.tensor([3, 1]))
    assert (chosen.target, chosen.ids, chosen.groups, len(chosen)) == (None, ["d", "b"], ["z", "x"], 2)
    dataset = Dataset("d", [], {"all": whole})
    assert (dataset.multi_label, dataset.train_counts.tolist(), dataset.input_kind) == (False, [], "features")
    assert list(classes_without_rows({"all": whole, "train": split()}, ["a", "b", "c"])) == []


def test_labels_that_are_needed_and_not_there_are_refused():
    rows = Split(FEATURES, None, IDS)
    with pytest.raises(InputError, match="target: .*4 rows without"):
        _ = rows.labels
    with pytest.raises(InputError, match="target: .*4 rows without"):
        rows.counts(3)
    with pytest.raises(InputError, match="d: .*4 rows without labels in test"):
        Dataset("d", ["a", "b", "c"], {"train": split(), "test": rows}).check_labelled()
    Dataset("d", ["a", "b", "c"], {"train": split()}).check_labelled()


@pytest.mark.parametrize(("part", "value"), [("ids", ["a"]), ("groups", ["a"] * 5)])
def test_without_labels_every_part_has_one_entry_an_input(part, value):
    with pytest.raises(InputError, match=f"{part}: expected one for each of the 4 rows of inputs, got {len(value)}"):
        Split(**{"inputs": FEATURES, "target": None, "ids": IDS, part: value})


def test_all_splits_have_one_kind_of_inputs():
    pictures = PictureArray(torch.zeros(1, 3, 2, 2, dtype=torch.uint8))
    shown = Split(pictures, None, ["a"])
    assert (shown.input_kind, Dataset("d", [], {"all": shown}).input_kind) == ("pictures", "pictures")
    with pytest.raises(InputError, match="d: .*pictures and features"):
        Dataset("d", [], {"train": shown, "test": Split(FEATURES, None, IDS)})


def test_one_split_is_chosen_by_name_or_is_test_or_the_only_one():
    rows = split()
    three = Dataset("d", ["a", "b", "c"], {"train": rows, "val": rows, "test": rows}, ["x", "x", "y"])
    assert list(three.only_split().splits) == ["test"]
    assert list(three.only_split("val").splits) == ["val"]
    assert list(three.only_split().superclasses) == ["x", "x", "y"]
    assert list(three.with_splits({"all": rows}).only_split().splits) == ["all"]
    with pytest.raises(InputError, match=r"split: .*\(train, val\), and there is no test"):
        three.with_splits({"train": rows, "val": rows}).only_split()
    with pytest.raises(InputError, match=r"split: .*leaves \(train, val, test\), got 'tset'"):
        three.only_split("tset", source="leaves")


ROWS = torch.zeros(3, 3)
THREE = ["a", "b", "c"]
GIVEN = {
    "classes of a dataset": ("classes", lambda names: Dataset("d", names, {"train": Split(ROWS, torch.arange(3), THREE)})),
    "its features": ("feature_names", lambda names: Dataset("d", THREE, {}, feature_names=names)),
    "its notes": ("notes", lambda names: Dataset("d", THREE, {}, notes=names)),
    "ids of a split": ("ids", lambda names: Split(ROWS, None, names)),
    "its groups": ("groups", lambda names: Split(ROWS, None, THREE, groups=names)),
    "names of its features": ("feature_names", lambda names: Split(ROWS, None, THREE, feature_names=names)),
    "a column of it": ("column 'organ'", lambda names: Split(ROWS, None, THREE, columns={"organ": names})),
    "classes of arrays": ("classes", lambda names: as_dataset((ROWS.numpy(), [0, 1, 2]), classes=names)),
    "classes of one split": ("classes", lambda names: as_split((ROWS.numpy(), [0, 1, 2]), classes=names)),
    "paths": ("paths", lambda names: PictureFiles("photos", names)),
    "parts of pictures": ("paths", lambda names: PictureBoxes("photos", names, [(0, 0, 1, 1)] * 3)),
    "names in messages": ("names", lambda names: stratified_split([0, 1, 2] * 3, seed=0, names=names)),
    "names in messages of ceil_split": ("names", lambda names: ceil_split([0, 1, 2] * 9, seed=0, names=names)),
    "groups to keep together": ("groups", lambda names: grouped_split([0, 1, 2], names, seed=0)),
    "names in messages of grouped_split": ("names", lambda names: grouped_split([0, 1, 2], [0, 1, 2], seed=0, names=names)),
}


@pytest.mark.parametrize(
    "given", ["abc", b"abc", {"a", "b", "c"}, {"a": 0, "b": 1, "c": 2}], ids=["text", "bytes", "set", "dict"]
)
@pytest.mark.parametrize("case", GIVEN)
def test_a_text_or_a_set_is_no_list_of_names(case, given):
    name, make = GIVEN[case]
    with pytest.raises(InputError, match=f"{name}: expected a list of names, got {re.escape(repr(given)[:2])}"):
        make(given)
