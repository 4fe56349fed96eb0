"""Rows that are named on both sides are in one order; they were paired by place without a word."""

import numpy as np
import pandas as pd
import pytest
import torch

import shortlist
from shortlist import Predictions, metrics
from shortlist.data import as_dataset
from shortlist.errors import InputError
from shortlist.links import Temperature
from shortlist.predictions import PredictionsWriter
from shortlist.retrieval import Index
from shortlist.row_names import check_row_names, check_same_rows, row_names
from shortlist.sets import label_lists, lac, risk_control

CLASSES = ["ash", "elm", "fir"]
ROWS = ["leaf", "twig", "root", "bark"]
PROBS = pd.DataFrame([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.25, 0.5], [0.5, 0.5, 0.0]], ROWS, CLASSES)
LABELS = pd.Series([1, 1, 2, 0], ROWS)
MARKS = pd.DataFrame(np.eye(3, dtype=bool)[LABELS], ROWS, CLASSES)
QUALITY = pd.Series([4.0, 3.0, 2.0, 1.0], ROWS)


def index_of(columns, folder):
    predictions = Predictions(PROBS.to_numpy(), classes=CLASSES, link="identity", ids=ROWS)
    return Index.build(predictions, folder / str(len([*folder.iterdir()])), columns=columns)


def written(folder, scores, labels):
    with PredictionsWriter(folder / f"{len([*folder.iterdir()])}.npz", classes=CLASSES) as writer:
        writer.append(scores, labels)


DOORS = {
    "a rule": lambda _, order: lac(0.5).fit(PROBS, order(LABELS)),
    "a rule of several labels": lambda _, order: risk_control("recall", 0.5).fit(PROBS, order(MARKS)),
    "batches": lambda _, order: lac(0.5).fit([(PROBS, order(LABELS))]),
    "the quality of batches": lambda _, order: lac(0.5).fit([(PROBS, LABELS, order(QUALITY))]),
    "the quality of a rule": lambda _, order: lac(0.5).fit(PROBS, LABELS, quality=order(QUALITY)),
    "the quality of new rows": lambda _, order: lac(0.5).fit(PROBS, LABELS)(PROBS, order(QUALITY)),
    "a link": lambda _, order: Temperature().fit(PROBS, order(LABELS)),
    "a metric": lambda _, order: metrics.top_k_accuracy(PROBS, order(LABELS), k=1),
    "a streaming metric": lambda _, order: metrics.MeanAveragePrecision().update(PROBS, order(MARKS)),
    "an evaluation": lambda _, order: shortlist.evaluate(PROBS, order(LABELS), "top-k:1"),
    "predictions": lambda _, order: Predictions(PROBS, order(LABELS)),
    "predictions of several labels": lambda _, order: Predictions(PROBS, order(MARKS)),
    "their quality": lambda _, order: Predictions(PROBS, quality=order(QUALITY)),
    "their ids": lambda _, order: Predictions(PROBS, ids=order(pd.Series(list("abcd"), ROWS))),
    "their labels and ids": lambda _, order: Predictions(PROBS.to_numpy(), order(LABELS), ids=ROWS),
    "their scores and ids": lambda _, order: Predictions(order(PROBS), ids=ROWS),
    "their quality and ids": lambda _, order: Predictions(PROBS.to_numpy(), quality=order(QUALITY), ids=ROWS),
    "a file": lambda folder, order: written(folder, PROBS, order(LABELS)),
    "lists": lambda _, order: label_lists(MARKS, order(PROBS), CLASSES, ROWS),
    "data": lambda _, order: as_dataset((PROBS, order(LABELS))),
    "columns of an index": lambda folder, order: index_of({"year": order(QUALITY)}, folder),
}


@pytest.mark.parametrize("door", DOORS)
def test_rows_of_the_same_names_in_another_order_are_refused(door, tmp_path):
    DOORS[door](tmp_path, lambda given: given)
    DOORS[door](tmp_path, lambda given: given.set_axis(range(4), axis=0))
    with pytest.raises(InputError, match=r"expected the rows in their order, got '\w+' in row 0.*(to_numpy|loc)"):
        DOORS[door](tmp_path, lambda given: given.iloc[::-1])


@pytest.mark.parametrize(
    ("known", "given", "refused"),
    [
        (["a", "b", "c"], ["a", "c", "b"], True),
        (["a", "b", "c"], ["b", "c", "d"], True),  # by one row too late
        ([5, 3, 9], [3, 5, 9], True),
        ([5, 3, 9], ["5", "3", "9"], False),
        (["a", "b", "c"], ["x", "y", "z"], False),
        (["a", "b", "c"], [0, 1, 2], False),
        ([2, 0, 1], [0, 1, 2], False),  # numbers from 0 are what rows without names have
        ([0, 1, 2], [2, 0, 1], False),
        (["a", "b", "b"], ["a", "b", "b"], False),
        ([("a", 1), ("a", 2), ("b", 1)], [("a", 2), ("a", 1), ("b", 1)], True),
        (["a", "b"], ["b", "c", "a"], False),  # another number of rows, of which the door itself speaks
    ],
)
def test_what_is_compared(known, given, refused):
    values, other = (pd.Series(range(len(names)), pd.Index(names)) for names in (known, given))
    if refused:
        with pytest.raises(InputError, match="y: expected the rows in their order"):
            check_same_rows(values, other, "y")
    else:
        check_same_rows(values, other, "y")
    for plain in (other.to_numpy(), other.tolist(), torch.tensor(other.to_numpy()), None):
        check_same_rows(values, plain, "y")
        check_same_rows(plain, other, "y")


def test_ids_are_compared_with_an_index_of_the_same_names_alone():
    check_row_names(["1", "2", "3"], pd.Series([0, 0, 0], [3, 5, 2]), "y")  # numbers of another kind
    check_row_names(["0", "1", "2"], pd.Series([0, 0, 0], [2, 1, 0]), "y")
    check_row_names(None, pd.Series([0, 0, 0], [2, 1, 0]), "y")
    with pytest.raises(InputError, match="got '3' in row 0, which is '1'"):
        check_row_names(["1", "2", "3"], pd.Series([0, 0, 0], [3, 2, 1]), "y")
    assert row_names(pd.Series([1], ["a"])) == ["a"]
    assert row_names(["a"]) is None


def test_labels_given_as_names_of_classes_are_compared_by_their_rows_too():
    probs = pd.DataFrame([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], index=["x", "y", "z"], columns=["ash", "elm"])
    labels = pd.Series(["elm", "ash", "ash"], index=["y", "x", "z"])
    with pytest.raises(InputError, match="target: expected the rows in their order, got 'y' in row 0"):
        lac(0.5).fit(probs, labels)
    with pytest.raises(InputError, match="target: expected the rows in their order"):
        Predictions(probs, labels)
    assert Predictions(probs, labels.loc[probs.index]).target.tolist() == [0, 1, 0]
