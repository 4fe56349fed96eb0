"""Labels that votes did not make valid are not labels to train on."""

import numpy as np
import pytest
from PIL import Image

from shortlist.data import open_dataset
from shortlist.data.votes import Votes, plain_majority
from shortlist.errors import InputError

ROWS = [
    ("ann", "1.png", "oak"),
    ("bob", "1.png", "oak"),
    ("ann", "2.png", "elm"),
    ("bob", "2.png", "oak"),
    ("ann", "3.png", "elm"),
    ("cem", "3.png", "elm"),
]


@pytest.fixture
def voted(tmp_path):
    """Two pictures with a valid label and one on which users disagree, as the command writes them."""
    for name in ("1.png", "2.png", "3.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    users, items, labels = zip(*ROWS, strict=True)
    plain_majority(Votes.from_arrays(user=users, item=items, label=labels), theta=1).save(tmp_path / "labels.csv")
    return tmp_path / "labels.csv"


def test_votes_become_a_dataset_without_the_labels_that_are_not_valid(voted):
    dataset = open_dataset(f"{voted},path_column=item")
    assert list(dataset.splits["all"].ids) == ["1.png", "3.png"]
    assert [str(problem) for problem in dataset.problems if problem.kind == "label not valid"] == [
        "2.png: its label is not valid: left out"
    ]
    every = open_dataset(f"{voted},path_column=item,keep_invalid=true")
    assert list(every.splits["all"].ids) == ["1.png", "2.png", "3.png"]
    assert not [problem for problem in every.problems if problem.kind == "label not valid"]


def test_nothing_is_measured_by_labels_that_are_not_valid(voted):
    dataset = open_dataset(f"{voted},path_column=item", require_labels=False)
    assert len(dataset.splits["all"]) == 3
    assert dataset.splits["all"].target is None
    assert any("1 row has no valid label, of 3" in str(problem) for problem in dataset.problems)


@pytest.mark.parametrize(("written", "kept"), [(["True", "False", ""], [0, 2]), (["true", "true", "false"], [0, 1])])
def test_a_table_of_features_is_read_alike(tmp_path, written, kept):
    lines = ["width,label,valid", *(f"{n}.5,{'ab'[n % 2]},{word}" for n, word in enumerate(written))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    dataset = open_dataset(tmp_path / "rows.csv")
    assert dataset.feature_names == ["width"]
    np.testing.assert_array_equal(dataset.splits["all"].inputs[:, 0], np.array(kept) + 0.5)


@pytest.mark.parametrize(("label", "options"), [("{}", ""), ("{}|{}", ",separator=|")])
def test_labels_that_are_not_valid_decide_neither_classes_nor_superclasses(tmp_path, label, options):
    """Rows that were left out still added a class without rows, and outvoted the superclass of another."""
    rows = [("oak", "tree", 1), ("ivy", "vine", 1), ("fern", "herb", 0), ("oak", "vine", 0), ("oak", "vine", 0)]
    lines = [
        f"{n},{label.format(name, name)},{above},{'true' if valid else 'false'}" for n, (name, above, valid) in enumerate(rows)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["width,label,genus,valid", *lines]) + "\n")
    dataset = open_dataset(f"{tmp_path / 'rows.csv'}{options}")
    assert dataset.classes == ["ivy", "oak"]
    assert dataset.superclasses == (None if options else ["vine", "tree"])
    assert [problem.kind for problem in dataset.problems if problem.kind != "column not used"] == ["label not valid"] * 3
    assert dataset.splits["all"].inputs[:, 0].tolist() == [0, 1]
    every = open_dataset(f"{tmp_path / 'rows.csv'}{options},keep_invalid=true")
    assert every.classes == ["fern", "ivy", "oak"]


def test_no_valid_label_at_all(tmp_path):
    (tmp_path / "rows.csv").write_text("width,label,valid\n1,a,false\n2,b,false\n")
    with pytest.raises(InputError, match=r"rows.csv: expected inputs with labels, got 2 rows and none"):
        open_dataset(tmp_path / "rows.csv")


def test_a_column_of_numbers_called_valid_is_a_feature_unless_it_is_named(tmp_path):
    (tmp_path / "rows.csv").write_text("width,label,valid\n1,a,0.5\n2,b,1\n")
    assert open_dataset(tmp_path / "rows.csv").feature_names == ["width", "valid"]
    with pytest.raises(InputError, match="valid: .*got '0.5'"):
        open_dataset(f"{tmp_path / 'rows.csv'},valid_column=valid")
    (tmp_path / "marked.csv").write_text("width,label,checked\n1,a,0\n2,b,1\n3,a,1\n")
    dataset = open_dataset(f"{tmp_path / 'marked.csv'},valid_column=checked")
    assert dataset.splits["all"].inputs[:, 0].tolist() == [2.0, 3.0]
