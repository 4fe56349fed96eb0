"""Tables that other programs changed: columns moved, dropped or renamed, what a file says about itself lost."""

import datetime
import math
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning

NAMES = ["ash", "elm", "fir"]
SCORES = np.array([[0.7, 0.2, 0.1], [0.3, 0.1, 0.6], [0.2, 0.5, 0.3]])
COUNTS, ABOVE = [5, 6, 7], ["broad", "broad", "needle"]
# Names whose order is not that of their numbers, as those of folders.
FOLDERS = sorted(map(str, range(12)))


def ours(path, target, **more):
    Predictions(SCORES, target, NAMES, "identity", train_counts=COUNTS, superclasses=ABOVE, **more).save(path)


@pytest.mark.parametrize("key", [None, "scores.*"])
@pytest.mark.parametrize("target", [[0, 2, 1], np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0]], bool)])
def test_columns_of_ours_that_were_moved_are_found_by_name(tmp_path, key, target):
    ours(tmp_path / "a.parquet", target)
    moved = pq.read_table(tmp_path / "a.parquet").select(["target", "scores.fir", "scores.ash", "scores.elm"])
    pq.write_table(moved, tmp_path / "b.parquet")
    found = Predictions.load(tmp_path / "b.parquet", scores_key=key)
    assert found.classes == tuple(NAMES)
    assert found.scores.tolist() == SCORES.tolist()
    assert found.target.tolist() == np.asarray(target).tolist()
    assert (found.train_counts.tolist(), list(found.superclasses)) == (COUNTS, ABOVE)


def test_columns_without_names_that_were_moved_are_found_by_number(tmp_path):
    Predictions(SCORES, [0, 2, 1], link="identity").save(tmp_path / "a.parquet")
    moved = pq.read_table(tmp_path / "a.parquet").select(["scores.2", "scores.0", "target", "scores.1"])
    pq.write_table(moved, tmp_path / "b.parquet")
    found = Predictions.load(tmp_path / "b.parquet")
    assert (found.classes, found.scores.tolist(), found.target.tolist()) == (None, SCORES.tolist(), [0, 2, 1])


@pytest.mark.parametrize(
    ("change", "came"),
    [
        (lambda table: table.drop_columns(["scores.elm"]), "none for 'elm'"),
        (lambda table: table.rename_columns(["target", "scores.ash", "scores.yew", "scores.fir"]), "none for 'elm'"),
        (lambda table: table.append_column("scores.yew", table.column("scores.ash")), "some for 'yew' too"),
        (lambda table: table.select(["target"]), "found"),
    ],
)
def test_a_file_of_ours_that_lacks_a_class_is_refused(tmp_path, change, came):
    ours(tmp_path / "a.parquet", [0, 2, 1])
    table = pq.read_table(tmp_path / "a.parquet")
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=rf"scores.*{came}"):
        Predictions.load(tmp_path / "b.parquet")


def test_other_columns_of_a_file_of_ours_go_by_its_classes_too(tmp_path):
    ours(tmp_path / "a.parquet", [0, 2, 1])
    table = pq.read_table(tmp_path / "a.parquet")
    for name in ("fir", "ash", "elm"):
        table = table.append_column(f"mine.{name}", pa.array(SCORES[:, NAMES.index(name)] / 2))
    pq.write_table(table, tmp_path / "b.parquet")
    assert Predictions.load(tmp_path / "b.parquet", scores_key="mine.*").scores.tolist() == (SCORES / 2).tolist()
    with pytest.raises(InputError, match="none for 'ash', 'elm', 'fir'"):
        Predictions.load(tmp_path / "b.parquet", scores_key="*.ash")


@pytest.mark.parametrize("names", [NAMES, ["2", "0", "1"], ["01", "1", "1.0"]])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_labels_survive_pandas_which_drops_what_the_file_says_of_itself(tmp_path, names, many, suffix):
    if many and suffix == ".csv":
        pytest.skip("CSV holds no lists")
    target = torch.tensor([[1, 0, 1], [0, 0, 1], [0, 0, 0]]).bool() if many else torch.tensor([0, 2, 1])
    Predictions(SCORES, target, names, "identity").save(tmp_path / "a.parquet")
    frame = pd.read_parquet(tmp_path / "a.parquet")[
        ["scores." + names[2], "target", "scores." + names[0], "scores." + names[1]]
    ]
    if suffix == ".csv":
        frame.to_csv(tmp_path / "b.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "b.parquet", index=False)
    found = Predictions.load(tmp_path / f"b{suffix}", scores_key="scores.*", link="identity")
    assert found.classes == (names[2], names[0], names[1])
    assert torch.equal(found.target, target[:, [2, 0, 1]] if many else torch.tensor([1, 2, 0])[target])


def test_labels_by_numbers_that_are_names_survive_pandas(tmp_path):
    Predictions(np.eye(12), np.arange(12), FOLDERS, "identity").save(tmp_path / "a.parquet")
    pd.read_parquet(tmp_path / "a.parquet").to_parquet(tmp_path / "b.parquet", index=False)
    found = Predictions.load(tmp_path / "b.parquet", scores_key="scores.*", link="identity")
    assert found.target.tolist() == list(range(12))


@pytest.mark.parametrize("target", [[0, 2, 1], [[0, 2], [2], []]])
def test_class_numbers_of_older_files_of_ours_are_places(tmp_path, target):
    Predictions(SCORES, [0, 0, 0], ["2", "0", "1"], "identity").save(tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    pq.write_table(table.set_column(0, "target", pa.array(target)), tmp_path / "b.parquet")
    found = Predictions.load(tmp_path / "b.parquet").target
    assert (found.tolist() if found.ndim == 1 else [row.nonzero().flatten().tolist() for row in found]) == target


def test_a_thousand_classes_in_one_column_keep_numbers(tmp_path):
    names = [f"class {n}" for n in range(1001)][::-1]
    Predictions(np.zeros((2, 1001)), [1, 1000], names, "identity").save(tmp_path / "a.parquet")
    pd.read_parquet(tmp_path / "a.parquet").to_parquet(tmp_path / "b.parquet", index=False)
    assert Predictions.load(tmp_path / "b.parquet", link="identity").target.tolist() == [1, 1000]


DATES = ["2024-05-01", "2023-01-31", "2024-05-02"]


@pytest.mark.parametrize(
    ("names", "labels", "places"),
    [
        (["True", "False"], [True, False, True], [0, 1, 0]),
        (["true", "false"], ["false", "false", "true"], [1, 1, 0]),
        (DATES, [datetime.date.fromisoformat(DATES[n]) for n in (2, 0, 1)], [2, 0, 1]),
        (DATES, list(pd.to_datetime([DATES[n] for n in (2, 0, 1)])), [2, 0, 1]),
        (["12:30:00", "00:15:00"], ["00:15:00", "12:30:00", "00:15:00"], [1, 0, 1]),
        (["NA", "null", "nan"], ["null", "nan", "NA"], [1, 2, 0]),
        (["NA", "null"], ["NA", "NA", "NA"], [0, 0, 0]),
        (["ash", "elm", "fir"], ["fir", "ash", "elm"], [2, 0, 1]),
        (["ash", "elm", "fir"], [2, 0, 1], [2, 0, 1]),
        (["ash", "elm", "fir"], [2.0, 0.0, 1.0], [2, 0, 1]),
    ],
)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_classes_may_have_names_that_read_as_something_else(tmp_path, suffix, names, labels, places):
    frame = pd.DataFrame({f"p_{name}": [0.5, 0.25, 0.125] for name in names} | {"target": labels})
    if suffix == ".csv":
        frame.to_csv(tmp_path / "a.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "a.parquet", index=False)
    found = Predictions.load(tmp_path / f"a{suffix}", scores_key="p_*", link="identity")
    assert (list(found.classes), found.target.tolist()) == (names, places)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["ash", "", "elm"], "every row of 'target', got 1 empty"),
        (["0", "NA", "1"], "every row of 'target', got 1 empty"),
        (["ash", "True", "elm"], "target: .*got 'True'"),
        (["0", "0.5", "1"], "target: .*got 0.5"),
        (["0", "3", "1"], "target: .*from 0 to 2, got 3"),
    ],
)
def test_labels_of_a_csv_file_that_are_none_are_refused(tmp_path, cells, message):
    lines = [f"0.5,0.25,0.125,{cell}" for cell in cells]
    (tmp_path / "a.csv").write_text("\n".join(["p_ash,p_elm,p_fir,target", *lines]))
    with pytest.raises(InputError, match=message):
        Predictions.load(tmp_path / "a.csv", scores_key="p_*", link="identity")


def test_truth_values_go_with_either_spelling(tmp_path):
    pd.DataFrame({"p_true": [0.5] * 2, "p_false": [0.5] * 2, "target": [False, True]}).to_parquet(tmp_path / "a.parquet")
    assert Predictions.load(tmp_path / "a.parquet", scores_key="p_*", link="identity").target.tolist() == [1, 0]


def test_truth_values_are_refused_where_no_class_is_called_so(tmp_path):
    pd.DataFrame({"p_ash": [0.5], "p_elm": [0.5], "target": [True]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="target: .*'ash', 'elm'.*got 'true'"):
        Predictions.load(tmp_path / "a.parquet", scores_key="p_*", link="identity")


WITHOUT_LABELS = {  # classes, entries, what stands for no label, the places of the labels
    "truth values": (["True", "False"], [True, False, True], "False", [0, None, 0]),
    "truth values in other letters": (["True", "False"], [True, False, True], "false", [0, 1, 0]),
    "truth values of which one is a class": (["True", "other"], [True, False, True], "False", [0, None, 0]),
    "floats": (["ash", "elm"], [0.0, 1.0, -1.0], "-1.0", [0, 1, None]),
    "floats and an integer": (["ash", "elm"], [0.0, 1.0, -1.0], "-1", [0, 1, None]),
    "integers and a float": (["1", "2"], [1, 2, 0], "0.0", [0, 1, None]),
    "integers and zeros": (["1", "2"], [1, 2, 0], "00", [0, 1, None]),
    "a class and the same number": (["0.0", "1.0"], [0.0, 1.0, 1.0], "0", [0, 1, 1]),
    "missing floats": (["ash", "elm"], [0.0, 1.0, math.nan], "", [0, 1, None]),
    "texts that are numbers": (["ash", "elm"], ["0", "1", "none"], "none", [0, 1, None]),
    "texts that are all numbers": (["ash", "elm"], ["0", "1", "-1.0"], "-1", [0, 1, None]),
    "dates": (["2024-05-01", "2024-05-02"], ["2024-05-01", "2024-05-02", "2024-05-03"], "2024-05-03", [0, 1, None]),
}


@pytest.mark.parametrize("case", WITHOUT_LABELS)
def test_rows_without_a_label_are_the_same_in_csv_and_parquet(tmp_path, case):
    classes, entries, no_label, places = WITHOUT_LABELS[case]
    frame = pd.DataFrame({f"p_{name}": [0.5] * 3 for name in classes} | {"target": entries})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    column = pa.array(entries)
    arrow = pa.Table.from_pandas(frame)
    pq.write_table(arrow.set_column(arrow.column_names.index("target"), "target", column), tmp_path / "b.parquet")
    for name in ("a.csv", "a.parquet", "b.parquet"):
        told = nullcontext() if None in places else pytest.warns(ShortlistWarning, match=f"no_label: .*'{no_label}'")
        with told:
            found = Predictions.load(tmp_path / name, scores_key="p_*", link="identity", no_label=no_label)
        target = found.target.bool() if found.target.ndim == 2 else torch.nn.functional.one_hot(found.target, 2).bool()
        assert target.tolist() == [[place == 0, place == 1] for place in places], name


@pytest.mark.parametrize(
    ("target", "no_label"), [(np.array(["ash", "elm", "-1.0"]), "-1"), (np.array([0.0, 1.0, math.nan]), "")]
)
def test_rows_of_an_array_without_a_label(tmp_path, target, no_label):
    np.savez(tmp_path / "a.npz", scores=np.full((3, 2), 0.5), target=target, classes=["ash", "elm"])
    found = Predictions.load(tmp_path / "a.npz", link="identity", no_label=no_label)
    assert found.target.tolist() == [[True, False], [False, True], [False, False]]


def test_rows_that_all_have_no_labels_stay_so_when_pandas_writes_them_again(tmp_path):
    Predictions(torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.bool), classes=["ash", "elm"]).save(tmp_path / "a.parquet")
    pd.read_parquet(tmp_path / "a.parquet").to_parquet(tmp_path / "b.parquet")
    found = Predictions.load(tmp_path / "b.parquet", scores_key="scores.*")
    assert found.target.tolist() == [[False, False], [False, False]]


@pytest.mark.parametrize("labels", [[[None], []], [[0, None], [1]], [["ash", None], []]])
def test_an_empty_entry_in_a_list_of_labels_is_refused(tmp_path, labels):
    pq.write_table(pa.table({"p_ash": [0.5] * 2, "p_elm": [0.5] * 2, "target": labels}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="target: .*got 1 null"):
        Predictions.load(tmp_path / "a.parquet", scores_key="p_*", link="identity")


@pytest.mark.parametrize("names", [["*", "ash"], ["ash", "*", "a*"], ["*"]])
def test_a_class_may_be_called_a_star(tmp_path, names):
    scores = torch.arange(3.0 * len(names)).reshape(3, -1)
    Predictions(scores, [0, len(names) - 1, 0], classes=names).save(tmp_path / "a.parquet")
    pd.read_parquet(tmp_path / "a.parquet").to_parquet(tmp_path / "b.parquet")
    pd.read_parquet(tmp_path / "a.parquet").to_csv(tmp_path / "b.csv", index=False)
    for name, key in (("a.parquet", None), ("b.parquet", "scores.*"), ("b.csv", "scores.*")):
        found = Predictions.load(tmp_path / name, scores_key=key)
        assert list(found.classes) == names
        assert found.scores.tolist() == scores.tolist()
        assert found.target.tolist() == [0, len(names) - 1, 0]


def test_a_column_is_found_by_a_name_with_brackets(tmp_path):
    pq.write_table(pa.table({"logits[1]": [[0.5, 0.25]], "logits1": [[1.0, 2.0]]}), tmp_path / "a.parquet")
    assert Predictions.load(tmp_path / "a.parquet", scores_key="logits[1]").scores.tolist() == [[0.5, 0.25]]
