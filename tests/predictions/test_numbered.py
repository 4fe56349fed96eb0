"""Tables whose columns are named by numbers: labels go by those names."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortlist import Predictions
from shortlist.errors import InputError


def in_csv(path, names, labels):
    lines = [",".join([*(f"p_{name}" for name in names), "target"])]
    lines += [",".join(["0.5"] * len(names) + [label]) for label in labels]
    path.write_text("\n".join(lines) + "\n")


def in_parquet(path, names, labels):
    pq.write_table(pa.table({f"p_{name}": [0.5] * len(labels) for name in names} | {"target": labels}), path)


def load(path):
    return Predictions.load(path, scores_key="p_*", link="identity")


TEXTS = [
    (["0", "10", "1"], ["10", "1", "0"], [1, 2, 0]),
    (["1.0", "0.0"], ["1", "0"], [0, 1]),
    (["1", "-1"], ["-1", "1", "-1"], [1, 0, 1]),
    (["1", "01"], ["01", "1"], [1, 0]),
    (["01", "02", "1"], ["02", "1", "01"], [1, 2, 0]),
    (["0", "1", "2"], ["2", "0"], [2, 0]),
    (["1", "2", "other"], ["1", "2"], [0, 1]),
    (["1", "2", "other"], ["other", "2"], [2, 1]),
    (["0.5", "0.25"], ["0.25", "0.50"], [1, 0]),
]


@pytest.mark.parametrize(("names", "labels", "places"), [*TEXTS, (["cat", "1", "2"], ["0", "2"], [0, 2])])
def test_labels_of_a_csv_file_go_by_names_that_are_numbers(tmp_path, names, labels, places):
    in_csv(tmp_path / "a.csv", names, labels)
    assert load(tmp_path / "a.csv").target.tolist() == places


@pytest.mark.parametrize(("names", "labels", "places"), TEXTS)
def test_texts_of_a_parquet_file_go_by_names_that_are_numbers(tmp_path, names, labels, places):
    in_parquet(tmp_path / "a.parquet", names, labels)
    assert load(tmp_path / "a.parquet").target.tolist() == places


@pytest.mark.parametrize(
    ("names", "labels", "places"),
    [
        (["0", "10", "1"], [10, 1, 0], [1, 2, 0]),
        (["1.0", "0.0"], [1, 0], [0, 1]),
        (["1", "-1"], [-1, 1], [1, 0]),
        (["02", "01"], [1, 2], [1, 0]),
        (["1", "2", "other"], [2, 1], [1, 0]),
        (["cat", "1", "2"], [0, 2], [0, 2]),
    ],
)
def test_numbers_of_a_parquet_file_go_by_names_that_are_numbers(tmp_path, names, labels, places):
    in_parquet(tmp_path / "a.parquet", names, labels)
    assert load(tmp_path / "a.parquet").target.tolist() == places
    in_parquet(tmp_path / "b.parquet", names, [[label] for label in labels])
    assert load(tmp_path / "b.parquet").target.int().argmax(1).tolist() == places


@pytest.mark.parametrize(
    ("names", "label"),
    [(["1", "2"], "0"), (["01", "1.0"], "1"), (["2", "3", "other"], "cat"), (["9007199254740992", "5"], "9007199254740993")],
)
def test_a_label_that_is_no_name_or_two_is_refused(tmp_path, names, label):
    in_csv(tmp_path / "a.csv", names, [label])
    with pytest.raises(InputError, match=f"target: expected .*got '{label}'"):
        load(tmp_path / "a.csv")


def test_an_empty_label_in_a_list_is_refused(tmp_path):
    in_parquet(tmp_path / "a.parquet", ["1", "2"], [[1, None], [2, 1]])
    with pytest.raises(InputError, match="target: expected names of classes, got 1 empty"):
        load(tmp_path / "a.parquet")
