"""Sets given by people: read, matched with rows by id, and measured as those of a rule are."""

import matplotlib as mpl
import pandas as pd
import pytest
import torch

from shortlist import Predictions, evaluate
from shortlist.errors import InputError
from shortlist.report import SizeCoverage, read_human_sets

mpl.use("Agg")
CLASSES = ["ash", "elm", "oak"]


def predictions(target=(0, 1, 2, 0)):
    scores = torch.eye(3)[torch.tensor([0, 1, 1, 2])] + 0.1
    return Predictions(scores, torch.tensor(target), CLASSES, link="softmax", ids=["a", "b", "c", "d"])


def written(tmp_path, text, name="experts.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_each_person_is_measured_on_the_rows_they_answered(tmp_path):
    path = written(tmp_path, "person,id,labels\nAnn,a,ash|elm\nAnn,c,elm\nBob,d,\nAnn,b,elm | oak\nBob,a,ash\n")
    people = read_human_sets(path)
    found = {one.name: one for one in people.measure(predictions())}
    assert (found["Ann"].rows, found["Ann"].size, found["Ann"].coverage) == (3, 5 / 3, 2 / 3)
    assert (found["Bob"].rows, found["Bob"].size, found["Bob"].coverage) == (2, 0.5, 0.5)
    assert people.ids == {"a", "b", "c", "d"}


def test_one_person_is_called_by_the_file_and_models_are_measured_on_the_same_rows(tmp_path):
    people = read_human_sets(written(tmp_path, "id,labels\nc,oak\na,ash\n"))
    assert list(people.by_person) == ["experts"]
    kept = people.answered(predictions())
    assert list(kept.ids) == ["a", "c"]
    assert kept.target.tolist() == [0, 2]
    assert people.measure(kept) == people.measure(predictions())


def test_lists_of_labels_and_names_that_are_numbers_are_read(tmp_path):
    pd.DataFrame({"id": ["7", "8"], "labels": [["1", "2"], []]}).to_parquet(tmp_path / "sets.parquet")
    rows = Predictions(torch.eye(2), torch.tensor([0, 1]), ["1", "2"], link="softmax", ids=["7", "8"])
    assert read_human_sets(tmp_path / "sets.parquet").measure(rows)[0].coverage == 0.5
    pd.DataFrame({"id": ["7", "8"], "labels": [["1", None], [None, ""]]}).to_parquet(tmp_path / "gaps.parquet")
    assert read_human_sets(tmp_path / "gaps.parquet").by_person == {"gaps": {"7": frozenset({"1"}), "8": frozenset()}}
    csv = written(tmp_path, "id,labels\n7,1\n8,2\n")
    assert read_human_sets(csv).measure(rows)[0].coverage == 1


def test_recall_counts_labels_where_rows_have_several(tmp_path):
    target = torch.tensor([[1, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]).bool()
    rows = Predictions(torch.rand(4, 3), target, CLASSES, link="sigmoid", ids=list("abcd"))
    people = read_human_sets(written(tmp_path, "id,labels\na,ash\nb,oak\nc,elm\n"))
    assert people.measure(rows)[0].coverage == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,names\na,ash\n", "expected the columns id and labels, got id, names"),
        ("id,labels\na,ash\na,elm\n", "two of 'experts' for 'a'"),
        ("id,labels\n,ash\n", "got an empty cell"),
        ("id,labels\n", "expected sets, got none"),
    ],
)
def test_tables_that_are_no_sets_are_refused(text, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read_human_sets(written(tmp_path, text))


def test_unknown_rows_labels_and_missing_truth_are_refused(tmp_path):
    with pytest.raises(InputError, match="id: .*got 'z'"):
        read_human_sets(written(tmp_path, "id,labels\nz,ash\n")).measure(predictions())
    with pytest.raises(InputError, match="labels of row 'a': did you mean 'oak'.*got 'oka'"):
        read_human_sets(written(tmp_path, "id,labels\na,oka\n")).measure(predictions())
    blank = Predictions(torch.eye(3), None, CLASSES, link="softmax", ids=["a", "b", "c"])
    with pytest.raises(InputError, match="expected labels"):
        read_human_sets(written(tmp_path, "id,labels\na,oak\n")).measure(blank)


def test_people_are_points_among_the_curves(tmp_path):
    people = read_human_sets(written(tmp_path, "id,labels\na,ash|elm\nb,elm\n")).measure(predictions())
    display = SizeCoverage(evaluate(predictions(), "top-k:1"), people)
    frame = display.frame()
    person = frame[frame["kind"] == "person"]
    assert person[["name", "size", "coverage"]].to_numpy().tolist() == [["experts", 1.5, 1.0]]
    ax = display.plot()
    assert any(line.get_xdata()[0] == 1.5 and line.get_marker() == "*" for line in ax.lines if len(line.get_xdata()) == 1)
