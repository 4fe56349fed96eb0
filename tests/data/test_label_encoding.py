"""Labels in every usual form become one of the two targets, with class names."""

import numpy as np
import pandas as pd
import pytest
import torch

from shortlist.data.label_encoding import encode_labels
from shortlist.errors import InputError


def one(labels, classes=None):
    (target,), names = encode_labels([labels], classes)
    assert target.dtype in (torch.int64, torch.bool)
    return target.tolist(), names


@pytest.mark.parametrize(
    "labels",
    [
        ["oak", "elm", "oak"],
        np.array(["oak", "elm", "oak"]),
        np.array(["oak", "elm", "oak"], dtype=object),
        pd.Series(["oak", "elm", "oak"]),
        pd.Series(["oak", "elm", "oak"], dtype="category", index=[7, 8, 9]),
    ],
)
def test_names_become_classes_in_sorted_order(labels):
    assert one(labels) == ([1, 0, 1], ["elm", "oak"])
    assert one(labels, ["oak", "ash", "elm"]) == ([0, 2, 0], ["oak", "ash", "elm"])


@pytest.mark.parametrize(
    "labels",
    [
        [2, 0, 1],
        np.array([2, 0, 1], np.uint8),
        torch.tensor([2, 0, 1], dtype=torch.int32),
        pd.Series([2, 0, 1]),
        [torch.tensor(2), np.int16(0), 1],
    ],
)
def test_numbers_are_named_by_themselves_or_by_the_classes(labels):
    assert one(labels) == ([2, 0, 1], ["0", "1", "2"])
    assert one(labels, ["a", "b", "c", "d"]) == ([2, 0, 1], ["a", "b", "c", "d"])


def test_truth_values_are_two_classes():
    assert one(np.array([True, False])) == ([1, 0], ["False", "True"])
    assert one([True, False], ["no", "yes"]) == ([1, 0], ["no", "yes"])


MARKS = [[True, False, True], [False, False, False]]


@pytest.mark.parametrize(
    "labels", [MARKS, np.array(MARKS), np.array(MARKS, int), torch.tensor(MARKS).float(), [np.array(row) for row in MARKS]]
)
def test_zeros_and_ones_are_any_number_of_labels(labels):
    assert one(labels) == (MARKS, ["0", "1", "2"])


def test_the_columns_of_a_frame_are_the_classes():
    assert one(pd.DataFrame(MARKS, columns=["sky", "sea", "sand"])) == (MARKS, ["sky", "sea", "sand"])


def test_lists_are_any_number_of_labels():
    assert one([["sky", "sea"], [], ("sky",)]) == ([[True, True], [False, False], [False, True]], ["sea", "sky"])
    assert one([[2], [0, 1], []])[0] == [[False, False, True], [True, True, False], [False, False, False]]
    assert one([{"sky"}], ["sea", "sky"]) == ([[False, True]], ["sea", "sky"])


def test_splits_are_numbered_alike_and_may_lack_labels():
    targets, names = encode_labels([["oak"], None, ["elm", "ash"]])
    assert names == ["ash", "elm", "oak"]
    assert [None if target is None else target.tolist() for target in targets] == [[2], None, [1, 0]]
    assert encode_labels([torch.tensor([1]), torch.tensor([3])])[1] == ["0", "1", "2", "3"]
    assert encode_labels([None]) == ([None], [])


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        ([0.5, 1.0], None, "got 0.5 in row 0"),
        (np.array([0.0, 1.0]), None, r"got float64 \(2,\)"),
        ([1, -1], None, "from 0, got -1"),
        (["oak", None], None, "got None in row 1: leave such rows out"),
        (["oak", float("nan")], None, "got nan in row 1: leave such rows out"),
        (["oak", 3], None, "got 3 in row 1"),
        (["ok"], ["oak", "elm"], "did you mean 'oak'.*got 'ok'"),
        ([[0, 1], [1, 0]], None, "lists of 0 and 1"),
        ([[4]], ["a"], "from 0 to 0, got 4"),
        ([[-2]], None, "from 0, got -2"),
        ([[0.5]], None, "lists of float"),
        (np.array([[0, 2]]), None, r"zeros and ones.*int64 \(1, 2\)"),
        (np.array([[1], [2]]), None, r"labels\[:, 0\]"),
        (np.zeros((1, 2, 3), bool), None, r"bool \(1, 2, 3\)"),
        ("oak", None, "got str"),
        (7, None, "got int"),
    ],
)
def test_labels_that_cannot_be_read_are_refused(labels, classes, words):
    with pytest.raises(InputError, match=f"^labels: .*{words}"):
        encode_labels([labels], classes)


def test_different_kinds_of_labels_are_refused():
    with pytest.raises(InputError, match="labels: .*different kinds"):
        encode_labels([["oak"], [0]])
