"""Names of features: they stay with the rows, and splits of one dataset have their features in one order."""

import pandas as pd
import pytest
import torch

from shortlist.data import Dataset, Split, as_dataset
from shortlist.data.readers.arff import read_arff
from shortlist.errors import InputError

ROWS = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
LABELS = ["oak", "elm"]


def frame(*names):
    return pd.DataFrame(ROWS.numpy(), columns=list("abc"))[list(names)]


def test_splits_of_a_dataset_know_the_names():
    dataset = Dataset("d", ["x"], {"all": Split(ROWS, None, ["0", "1"])}, feature_names=["a", "b", "c"])
    split = dataset.splits["all"]
    assert list(split.feature_names) == ["a", "b", "c"]
    assert list(split.rows(torch.tensor([1])).feature_names) == ["a", "b", "c"]
    assert list(split.with_target(torch.tensor([0, 0])).feature_names) == ["a", "b", "c"]
    assert list(Dataset("d", ["x"], {"all": split}).feature_names) == ["a", "b", "c"]


def test_splits_with_columns_in_another_order_are_put_in_the_order_of_the_first():
    dataset = as_dataset({"train": (frame("a", "b", "c"), LABELS), "test": (frame("c", "a", "b"), LABELS)})
    assert list(dataset.feature_names) == ["a", "b", "c"]
    assert torch.equal(dataset.splits["test"].inputs, ROWS)
    assert torch.equal(as_dataset({"train": frame("a", "b", "c"), "test": ROWS}).splits["test"].inputs, ROWS)


def test_splits_with_other_columns_are_refused():
    other = frame("a", "b", "c").rename(columns={"a": "d"})
    with pytest.raises(InputError, match="split test: features: .*got 'd', 'b', 'c': missing 'a', unknown 'd'"):
        as_dataset({"train": frame("a", "b", "c"), "test": other})
    with pytest.raises(InputError, match="feature_names: .*3 features, got 2"):
        Split(ROWS, None, ["0", "1"], feature_names=["a", "b"])
    with pytest.raises(InputError, match="feature_names: .*3 features, got 1"):
        Dataset("d", ["x"], {"all": Split(ROWS, None, ["0", "1"])}, feature_names=["a"])


def test_numbers_that_columns_have_by_default_are_no_names():
    assert not as_dataset(pd.DataFrame(ROWS.numpy())).feature_names
    both = {"train": pd.DataFrame(ROWS.numpy()), "test": frame("a", "b", "c")}
    assert torch.equal(as_dataset(both).splits["test"].inputs, ROWS)


def test_equal_names_are_matched_only_in_the_same_order():
    twice = frame("a", "b", "b")
    assert as_dataset({"train": twice, "test": twice}).splits["test"].inputs.shape == (2, 3)
    with pytest.raises(InputError, match="all different"):
        as_dataset({"train": twice, "test": frame("b", "a", "b")})


def test_attributes_of_arff_name_the_features(tmp_path):
    head = "@relation 'r: -C 1'\n@attribute y {0,1}\n@attribute w numeric\n@attribute n {1,2}\n@attribute colour {red,blue}\n"
    (tmp_path / "a.arff").write_text(f"{head}@data\n1,0.5,2,blue\n0,1.5,1,red\n")
    dataset = read_arff(tmp_path / "a.arff")
    assert list(dataset.feature_names) == ["w", "n", "colour=red", "colour=blue"]
    assert dataset.splits["all"].inputs[0].tolist() == [0.5, 2, 0, 1]


def test_splits_that_are_called_by_other_numbers_are_refused():
    numbered = Split(ROWS, None, ["0", "1"], feature_names=["0", "1", "2"])
    moved = Split(ROWS[:, [2, 0, 1]], None, ["0", "1"], feature_names=["2", "0", "1"])
    dataset = Dataset("d", ["x"], {"train": numbered, "test": moved})
    assert torch.equal(dataset.splits["train"].inputs, dataset.splits["test"].inputs)
    other = Split(ROWS, None, ["0", "1"], feature_names=["1", "2", "3"])
    with pytest.raises(InputError, match="split train: features: expected '1', '2', '3', got '0', '1', '2'"):
        Dataset("d", ["x"], {"train": numbered, "test": other})
