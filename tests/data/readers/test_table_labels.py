"""Labels of a table in every form: one a row, lists, text with a separator, one column a class."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from shortlist.cli.row_labels import labels_for
from shortlist.data import as_dataset, open_dataset
from shortlist.data.readers.picture_table import read_picture_table
from shortlist.errors import InputError
from tests.data.readers.table_files import NAMES, csv, parquet, told, with_pictures


@pytest.fixture
def folder(tmp_path):
    return with_pictures(tmp_path)


def marks(dataset):
    """The labels of every row, by name."""
    return [[dataset.classes[label] for label in row.nonzero()[:, 0]] for row in dataset.splits["all"].target]


# One label a row


@pytest.mark.parametrize(
    ("written", "classes", "target"),
    [
        (["0", "2", "10", "2"], ["0", "2", "10"], [0, 1, 2, 1]),
        (["-1", "2", "10", "2"], ["-1", "2", "10"], [0, 1, 2, 1]),
        (["007", "2", "10", "2"], ["007", "10", "2"], [0, 2, 1, 2]),
        (["1.5", "2", "10", "2"], ["1.5", "10", "2"], [0, 2, 1, 2]),
        (["NA", "nan", "null", "None"], ["NA", "None", "nan", "null"], [0, 2, 3, 1]),
    ],
)
def test_whole_numbers_are_in_the_order_of_numbers_and_all_else_is_a_name(folder, written, classes, target):
    rows = "".join(f"{path},{label}\n" for path, label in zip(NAMES, written, strict=True))
    dataset = read_picture_table(csv(folder, f"path,label\n{rows}"))
    assert dataset.classes == classes
    assert dataset.splits["all"].target.tolist() == target


@pytest.mark.parametrize(
    ("column", "classes", "target"),
    [
        (pa.array([3, 10, 3, 5]), ["3", "5", "10"], [0, 2, 0, 1]),
        (pa.array([3.0, 10.0, 3.0, 5.0]), ["3", "5", "10"], [0, 2, 0, 1]),
        (pa.array([3, 10, 3, 5], pa.uint8()), ["3", "5", "10"], [0, 2, 0, 1]),
        (pa.array([True, False, True, True]), ["False", "True"], [1, 0, 1, 1]),
        (pa.array(["b", "a", "b", "a"]).dictionary_encode(), ["a", "b"], [1, 0, 1, 0]),
        (pa.array(["b", "a", "b", "a"], pa.large_string()), ["a", "b"], [1, 0, 1, 0]),
    ],
)
def test_labels_of_every_type_in_parquet(folder, column, classes, target):
    dataset = read_picture_table(parquet(folder, path=NAMES, label=column))
    assert dataset.classes == classes
    assert dataset.splits["all"].target.tolist() == target


@pytest.mark.parametrize("separator", [None, "|"])
def test_labels_in_two_unicode_forms_are_noted(folder, separator):
    rows = "".join(f"{path},{label}\n" for path, label in zip(NAMES, ["\u00e9", "e\u0301", "elm", "elm"], strict=True))
    dataset = read_picture_table(csv(folder, f"path,label\n{rows}"), separator=separator)
    assert [problem.where for problem in dataset.problems if problem.kind == "names alike"] == ["\u00e9"]


def test_a_frame_with_a_missing_number_is_read(folder):
    pd.DataFrame({"path": NAMES, "label": [1, None, 2, 1]}).to_parquet(folder / "table.parquet")
    dataset = read_picture_table(folder / "table.parquet")
    assert (dataset.classes, dataset.splits["all"].target.tolist()) == (["1", "2"], [0, 1, 0])
    assert told(dataset) == ["b.png: has no label: left out"]


def test_fractions_and_dates_are_no_labels(folder):
    with pytest.raises(InputError, match="label: .*got fractions"):
        read_picture_table(parquet(folder, path=NAMES, label=[0.5, 1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match="label: .*got timestamp"):
        read_picture_table(parquet(folder, path=NAMES, label=pa.array([0, 1, 2, 3], pa.timestamp("s"))))


# Any number of labels a row


def test_labels_with_a_separator(folder):
    text = "path,labels\na.png,oak|elm\nb.png,\nc.png, elm | ash \nd.png,elm|elm|\n"
    dataset = read_picture_table(csv(folder, text), separator="|")
    assert dataset.classes == ["ash", "elm", "oak"]
    assert dataset.splits["all"].target.dtype == torch.bool
    assert marks(dataset) == [["elm", "oak"], [], ["ash", "elm"], ["elm"]]
    assert "labels: 1 cells are empty: read as rows without a label" in told(dataset)
    assert "' ash ': read as 'ash' in 1 row" in told(dataset)


def test_a_separator_is_used_only_if_it_is_told(folder):
    dataset = read_picture_table(csv(folder, "path,labels\na.png,oak|elm\nb.png,oak\n"))
    assert dataset.classes == ["oak", "oak|elm"]
    assert not dataset.multi_label


def test_lists_in_parquet_tell_no_label_from_an_unknown_one(folder):
    dataset = read_picture_table(parquet(folder, path=NAMES, labels=[["oak", "elm"], [], None, ["elm"]]))
    assert marks(dataset) == [["elm", "oak"], [], ["elm"]]
    assert dataset.splits["all"].ids == ["a.png", "b.png", "d.png"]
    assert told(dataset) == ["c.png: has no label: left out"]


@pytest.mark.parametrize("nothing", [None, float("nan")])
@pytest.mark.parametrize("kind", [list, pa.large_list, lambda of: pa.list_(of, 2)])
def test_a_list_with_a_missing_label_is_unknown(folder, nothing, kind):
    numbers = nothing is not None
    one, other = (1.0, 2.0) if numbers else ("1", "2")
    column = [[one, other], [nothing, nothing], [one, nothing], [other, other]]
    if kind is not list:
        column = pa.array(column, kind(pa.float64() if numbers else pa.string()))
    dataset = read_picture_table(parquet(folder, path=NAMES, labels=column))
    assert (dataset.splits["all"].ids, marks(dataset)) == (["a.png", "d.png"], [["1", "2"], ["2"]])
    assert told(dataset) == ["b.png: has no label: left out", "c.png: has no label: left out"]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)])
def test_lists_of_every_type(folder, kind):
    column = pa.array([[10, 2], [2, 3], None, [3, 3]], kind)
    dataset = read_picture_table(parquet(folder, path=NAMES, labels=column))
    assert dataset.classes == ["2", "3", "10"]
    assert marks(dataset) == [["2", "10"], ["2", "3"], ["3"]]


def test_a_separator_in_parquet_tells_empty_from_missing(folder):
    dataset = read_picture_table(parquet(folder, path=NAMES, labels=["oak;elm", "", None, "elm"]), separator=";")
    assert marks(dataset) == [["elm", "oak"], [], ["elm"]]


@pytest.mark.parametrize(
    "rows",
    [["1,0", "0,0", "1,1"], ["true,FALSE", "False,false", "True,TRUE"], ["yes,no", "no,no", "1,yes"]],
)
def test_one_column_a_class(folder, rows):
    lines = "".join(f"{path},{row},train\n" for path, row in zip(NAMES, rows, strict=False))
    dataset = read_picture_table(csv(folder, f"path,label.oak,label.elm,split\n{lines}"), label_column="label.*")
    assert dataset.classes == ["oak", "elm"]
    assert dataset.splits["train"].target.tolist() == [[True, False], [False, False], [True, True]]


def test_a_missing_mark_leaves_the_row_out(folder):
    text = "path,is_oak,is_elm\na.png,1,0\nb.png,,1\nc.png,0,1\n"
    dataset = read_picture_table(csv(folder, text), label_column="is_*")
    assert dataset.splits["all"].ids == ["a.png", "c.png"]
    assert told(dataset) == ["b.png: has no label: left out"]


def test_marks_are_zeros_and_ones(folder):
    text = "path,is_oak,is_elm\na.png,1,0\nb.png,2,1\n"
    with pytest.raises(InputError, match="is_oak: .*got '2'"):
        read_picture_table(csv(folder, text), label_column="is_*")


@pytest.mark.parametrize("column", [[1, 0], [1.0, 0.0], [True, False]])
def test_marks_of_every_type_in_parquet(folder, column):
    dataset = read_picture_table(parquet(folder, path=NAMES[:2], **{"y.a": column, "y.b": column[::-1]}), label_column="y.*")
    assert marks(dataset) == [["a"], ["b"]]


def test_booleans_are_the_same_classes_from_csv_parquet_and_arrays(tmp_path):
    frame = pd.DataFrame({"width": [1.0, 2.0, 3.0], "label": [True, False, True]})
    frame.to_csv(tmp_path / "leaves.csv", index=False)
    frame.to_parquet(tmp_path / "leaves.parquet")
    found = [open_dataset(tmp_path / f"leaves.{kind}") for kind in ("csv", "parquet")]
    found.append(as_dataset((frame[["width"]], frame["label"])))
    for dataset in found:
        assert dataset.classes == ["False", "True"]
        assert next(iter(dataset.splits.values())).target.tolist() == [1, 0, 1]


def test_labels_that_are_one_without_the_blanks_around_them_are_said_to_be_one(tmp_path):
    (tmp_path / "t.csv").write_text("x,label\n1,oak\n2,oak \n3, elm\n")
    assert sorted(told(open_dataset(str(tmp_path / "t.csv")))) == [
        "' elm': read as 'elm' in 1 row",
        "'oak ': read as 'oak' in 1 row, one class with that name",
    ]


def test_names_of_an_npz_file_with_a_list_of_classes_are_read_as_they_are_written(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=np.array(["oak ", "oak", "oak "]), classes=np.array(["oak", "oak "]))
    assert open_dataset(str(tmp_path / "t.npz")).splits["all"].target.tolist() == [1, 0, 1]
    np.savez(tmp_path / "t.npz", X=np.eye(2), y=np.array(["oak ", "elm"]), classes=np.array(["elm", "oak "]))
    assert open_dataset(str(tmp_path / "t.npz")).splits["all"].target.tolist() == [1, 0]


def test_a_classifier_takes_no_label_for_another_that_differs_by_blanks_around_it(tmp_path):
    (tmp_path / "t.csv").write_text("x,label\n1,oak \n2,elm\n")
    dataset = open_dataset(str(tmp_path / "t.csv"), require_labels=False)
    assert labels_for(dataset, ["elm", "oak"])[0].tolist() == [1, 0]
    target, known, reason = labels_for(dataset, ["elm", "oak", "oak "])
    assert (target, known) == (None, None)
    assert "blanks" in reason
