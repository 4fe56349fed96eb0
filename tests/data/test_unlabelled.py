"""Rows to classify: what is found, what is kept, and labels matched by name."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from shortlist.data import PictureBytes, open_dataset, read_picture_files, target_among
from shortlist.data.problems import LABELS_NOT_USED
from shortlist.errors import InputError
from tests.data.drawings import file_of, noise, write_picture
from tests.data.readers.table_files import NAMES, csv, parquet, told, with_pictures


def opened(source, **options):
    """The dataset to classify, and its only split."""
    dataset = open_dataset(source, require_labels=False, **options)
    (rows,) = dataset.splits.values()
    return dataset, rows


def not_used(dataset):
    """Why labels that are there are not used."""
    return [problem.what for problem in dataset.problems if problem.kind == LABELS_NOT_USED]


def named(dataset, rows):
    """The labels of each row, by name."""
    if rows.target.ndim == 1:
        return [dataset.classes[label] for label in rows.target]
    return [[dataset.classes[label] for label in row.nonzero()[:, 0]] for row in rows.target]


def found_below(paths):
    dataset = read_picture_files(paths)
    return list(dataset.splits["all"].ids), dataset.problems


def refusal(source, **options):
    with pytest.raises(InputError) as caught:
        open_dataset(source, require_labels=False, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Pictures


def test_pictures_below_a_folder_come_in_the_order_of_their_names_without_hidden_ones(tmp_path):
    for name in ("b/2.png", "b/10.png", "a.JPG", "c.png", ".git/x.png", "b/.thumb.png", "b/deep/1.webp"):
        write_picture(tmp_path / name)
    (tmp_path / "b" / "notes.txt").write_text("no picture")
    found, problems = found_below([tmp_path])
    assert [os.path.relpath(path, tmp_path) for path in found] == ["a.JPG", "b/10.png", "b/2.png", "b/deep/1.webp", "c.png"]
    assert problems == []


def test_files_and_folders_mix_in_the_order_they_are_named_and_each_picture_comes_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("leaves/a.png", "leaves/b.png", "single.png", "other.png"):
        write_picture(tmp_path / name)
    Path("other.png").rename("nameless")
    dataset, rows = opened(["single.png", "leaves", "./leaves/a.png", "nameless", "single.png"])
    assert list(rows.ids) == ["single.png", "leaves/a.png", "leaves/b.png", "nameless"]
    assert told(dataset) == [
        "./leaves/a.png: is named more than once: read once",
        "single.png: is named more than once: read once",
    ]
    assert rows.inputs.decode(3).image.size == (8, 8)
    assert (rows.target, list(dataset.classes)) == (None, [])


def test_links_in_a_circle_end(tmp_path):
    write_picture(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "back").symlink_to(tmp_path / "a", target_is_directory=True)
    found, problems = found_below([tmp_path])
    assert [Path(path).name for path in found] == ["1.png"]
    assert "not followed" in str(problems[0])
    assert str(problems[0]).startswith(str(tmp_path))


@pytest.mark.skipif(os.name == "nt", reason="file names are text there")
def test_names_that_no_report_could_write_are_left_out(tmp_path):
    write_picture(tmp_path / "a.png")
    odd = os.fsencode(tmp_path) + b"/caf\xe9.png"
    with open(odd, "wb") as file:
        file.write(b"")
    for given in ([tmp_path], [tmp_path / "a.png", os.fsdecode(odd)]):
        found, problems = found_below(given)
        assert [Path(path).name for path in found] == ["a.png"]
        assert "caf\\xe9.png: rename it: left out" in str(problems[0])


def test_what_is_no_picture_is_refused_by_name(tmp_path):
    table = csv(tmp_path, "path\na.png\n")
    write_picture(tmp_path / "a.png")
    assert "gone.png: there is no such file or folder" in refusal([str(tmp_path / "a.png"), str(tmp_path / "gone.png")])
    assert "table.csv: expected a picture or a folder" in refusal([str(tmp_path / "a.png"), str(table)])
    assert "NAME:PATH) must be given alone" in refusal([str(tmp_path / "a.png"), "folders:x"])
    assert "nor is it NAME:PATH" in refusal([str(tmp_path / "gone.png")])
    (tmp_path / "empty").mkdir()
    assert "empty: expected pictures, got none" in refusal([str(tmp_path / "empty")])
    assert "got nothing" in refusal([])
    assert "got nothing" in refusal([str(tmp_path / "a.png"), ""])
    sentence = refusal([str(tmp_path)], split="test")
    assert "which have none" in sentence
    assert f"folders:{tmp_path}" in sentence


# Tables of pictures


def test_a_table_of_pictures_needs_no_labels(tmp_path):
    path = csv(with_pictures(tmp_path), "path\na.png\nb.png\ngone.png\nd.png\n")
    dataset, rows = opened(str(path))
    assert list(rows.ids) == ["a.png", "b.png", "d.png"]
    assert (rows.target, list(dataset.classes)) == (None, [])
    assert told(dataset) == ["gone.png: there is no such file: left out"]
    assert rows.inputs.decode(2).image.size == (8, 8)


def test_labels_of_a_table_are_found_by_name(tmp_path):
    path = csv(with_pictures(tmp_path), "path,species\na.png,oak\nb.png,ash\ngone.png,yew\nd.png,oak\n")
    dataset, rows = opened(path)
    assert named(dataset, rows) == ["oak", "ash", "oak"]
    target = target_among(rows.target, dataset.classes, ["oak", "elm", "ash"])
    assert target.tolist() == [0, 2, 0]  # the yew, whose picture is gone, need not be a class
    with pytest.raises(InputError, match=r"^1 of the 2 labels \('ash'\) .* 4 classes \('oak', 'elm', 'Ash' and 1 more\)$"):
        target_among(rows.target, dataset.classes, ["oak", "elm", "Ash", "fir"])
    with pytest.raises(InputError, match=r"^2 of the 2 labels \('ash' first\) .* 1 class \('x'\)$"):
        target_among(rows.target, dataset.classes, ["x"])


def test_rows_without_a_label_are_answered_for_and_the_labels_of_the_others_left_out(tmp_path):
    path = csv(with_pictures(tmp_path), "path,label\na.png,oak\nb.png,\nc.png,ash\n")
    dataset, rows = opened(path)
    assert list(rows.ids) == ["a.png", "b.png", "c.png"]
    assert (rows.target, list(dataset.classes)) == (None, [])
    assert not_used(dataset) == ["1 row has no label, of 3"]


def test_labels_that_cannot_be_made_out_do_not_hinder_the_answers(tmp_path):
    path = parquet(with_pictures(tmp_path), path=NAMES, label=[0.5, 1.0, 2.0, 3.0])
    dataset, rows = opened(path)
    assert (len(rows), rows.target) == (4, None)
    assert not_used(dataset) == ["label: expected names or whole numbers, got fractions"]


def test_lists_of_labels_go_to_their_columns(tmp_path):
    path = parquet(with_pictures(tmp_path), path=NAMES, labels=[["sky", "sea"], [], ["sea"], ["sand"]])
    dataset, rows = opened(path)
    target = target_among(rows.target, dataset.classes, ["sand", "fog", "sea", "sky"])
    expected = [[0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    assert torch.equal(target, torch.tensor(expected, dtype=torch.bool))


def test_options_follow_after_commas(tmp_path):
    path = csv(with_pictures(tmp_path), "shot,name\na.png,sky|sea\nb.png,\n")
    assert named(*opened(f"{path},path_column=shot,label_column=name,separator=|")) == [["sea", "sky"], []]
    assert "got 'colour'" in refusal([f"{path},path_column=shot,colour=red"])
    assert "path_column=NAME" in refusal([str(path)], input_kind="pictures")


def test_bytes_in_a_table_are_pictures(tmp_path):
    from PIL import Image

    content = file_of(Image.fromarray(noise()))
    table = pa.table({"image": pa.array([content, None, content], pa.binary())})
    pq.write_table(table, tmp_path / "bytes.parquet")
    _, rows = opened([tmp_path / "bytes.parquet"], input_kind="pictures")
    assert isinstance(rows.inputs, PictureBytes)
    assert list(rows.ids) == ["0", "2"]
    assert rows.inputs.decode(1).image.size == (9, 6)


def test_a_split_of_a_table_is_chosen_by_name_and_else_all_rows_count(tmp_path):
    path = csv(with_pictures(tmp_path), "path,split\na.png,train\nb.png,Test\nc.png,test\nd.png,\n")
    assert list(opened(path)[1].ids) == NAMES
    assert list(opened(path, split="test")[1].ids) == ["b.png", "c.png"]
    assert refusal([str(path)], split="val") == "split: expected one of the splits of table.csv (train, test), got 'val'"
    other = csv(tmp_path, "path,label\na.png,oak\n", name="other.csv")
    assert "expected a split column in other.csv, got 'path', 'label'" in refusal([str(other)], split="test")


def test_tables_without_a_row_to_answer_for_are_refused(tmp_path):
    assert "expected rows to classify, got 0" in refusal([str(csv(tmp_path, "path,label\n"))])
    gone = csv(tmp_path, "path\nx.png\ny.png\n")
    assert "got 2 and none that can be used; the first is x.png: there is no such file" in refusal([str(gone)])


# Features


def test_features_are_all_columns_without_a_purpose(tmp_path):
    text = "Unnamed: 0,id,width,height,genus,observer,split,species\n"
    text += "0,r1,1,2.5,Q,me,test,oak\n1,r2,3,,Q,me,test,ash\n2,r3,5,6,A,me,test,ash\n"
    dataset, rows = opened(csv(tmp_path, text), input_kind="features")
    assert list(dataset.feature_names) == ["width", "height"]
    assert torch.equal(rows.inputs, torch.tensor([[1, 2.5], [5, 6]]))
    assert list(rows.ids) == ["r1", "r3"]
    assert named(dataset, rows) == ["oak", "ash"]
    assert list(dataset.superclasses) == ["A", "Q"]
    assert told(dataset) == ["r2: has no number in 'height': left out"]


@pytest.mark.parametrize("name", ["Unnamed: 0.1", "Unnamed: 0.2", "Unnamed: 0.1.1", "Unnamed: 1", "__index_level_1__"])
def test_row_numbers_of_pandas_are_no_features(tmp_path, name):
    """On rows sorted by label they tell the label."""
    dataset, _ = opened(csv(tmp_path, f"Unnamed: 0,{name},a,label\n0,0,1,oak\n1,1,3,ash\n"), input_kind="features")
    assert list(dataset.feature_names) == ["a"]


def test_row_numbers_of_pandas_are_no_classes(tmp_path):
    path = csv(with_pictures(tmp_path), "Unnamed: 0,path,oak,elm\n0,a.png,1,0\n1,b.png,0,1\n")
    dataset, _ = opened(path, label_column="*")
    assert sorted(dataset.classes) == ["elm", "oak"]


def test_features_need_no_labels_and_go_by_their_numbers(tmp_path):
    dataset, rows = opened(csv(tmp_path, "a,b\n1,2\n?,4\n5,6\n"))
    assert list(rows.ids) == ["0", "2"]
    assert (rows.target, not_used(dataset)) == (None, [])
    assert rows.inputs.dtype == torch.float32


def test_a_column_of_paths_makes_no_features_unless_it_names_the_rows(tmp_path):
    path = csv(tmp_path, "path,a\nx.png,1\ny.png,2\n")
    assert "id_column=path" in refusal([str(path)], input_kind="features")
    _, rows = opened(f"{path},id_column=path", input_kind="features")
    assert (list(rows.ids), rows.inputs.tolist()) == (["x.png", "y.png"], [[1.0], [2.0]])
    numbers = csv(tmp_path, "image,a\n1,1\n2,2\n")
    assert opened(numbers, input_kind="features")[1].inputs.shape == (2, 2)


def test_one_column_a_class_is_no_feature(tmp_path):
    path = csv(tmp_path, "a,is.elm,is.oak\n1,0,1\n2,1,1\n")
    dataset, rows = opened(path, label_column="is.*")
    assert rows.inputs.tolist() == [[1.0], [2.0]]
    assert target_among(rows.target, dataset.classes, ["oak", "elm"]).tolist() == [[True, False], [True, True]]


def test_classes_without_a_column_are_unknown_and_those_of_no_list_are_absent(tmp_path):
    classes = ["oak", "elm", "ash", "fir"]
    for text, column, asked in [
        ("a,is.elm,is.oak\n1,0,1\n2,1,1\n", "is.*", "got none of 'ash', 'fir'"),
        ("a,is.elm\n1,0\n2,1\n", "is.*", "got none of 'oak', 'ash', 'fir'"),
    ]:
        dataset, rows = opened(csv(tmp_path, text), label_column=column)
        with pytest.raises(InputError, match=f"{asked}, so it is unknown"):
            target_among(rows.target, dataset.classes, classes, need_all=not dataset.open_classes)
    dataset, rows = opened(csv(tmp_path, "a,tags\n1,elm|oak\n2,\n"), label_column="tags", separator="|")
    found = target_among(rows.target, dataset.classes, classes, need_all=not dataset.open_classes)
    assert found.tolist() == [[True, True, False, False], [False] * 4]


def test_a_pattern_that_finds_one_column_of_names_finds_names(tmp_path):
    dataset, rows = opened(csv(tmp_path, "a,label.1\n1,elm\n2,oak\n"), label_column="label.*")
    assert (dataset.classes, rows.target.tolist()) == (["elm", "oak"], [0, 1])


@pytest.mark.parametrize("key", ["target", "y"])
def test_arrays_with_and_without_labels(key, tmp_path):
    features = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, 4.0]])
    np.savez(tmp_path / "plain.npz", X=features)
    dataset, plain = opened(tmp_path / "plain.npz")
    assert (plain.target, not_used(dataset), list(plain.ids)) == (None, [], ["0", "2"])
    np.savez(tmp_path / "named.npz", X=features, classes=["elm", "oak"], ids=["a", "b", "c"], **{key: np.array([1, 1, 0])})
    dataset, labelled = opened(tmp_path / "named.npz")
    assert list(labelled.ids) == ["a", "c"]
    assert target_among(labelled.target, dataset.classes, ["oak", "ash", "elm"]).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (np.array([0, 1, 2]), "labels from 0 to 1, got 2"),
        (np.array([0, 1]), "each of the 3 rows"),
        (np.zeros((3, 2)) + 2, "zeros and ones"),
    ],
)
def test_arrays_with_labels_that_make_no_sense_are_answered_for_without(target, words, tmp_path):
    np.savez(tmp_path / "x.npz", features=np.zeros((3, 2)), target=target, classes=["elm", "oak"])
    dataset, rows = opened(tmp_path / "x.npz")
    assert rows.target is None
    assert words in not_used(dataset)[0]


def test_arrays_that_cannot_be_rows_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    for arrays, words in [
        ({"X": np.zeros(3)}, "numbers (N, D)"),
        ({"X": np.zeros((0, 2))}, "got 0 rows"),
        ({"X": np.zeros((2, 2)), "ids": np.arange(3)}, "2 rows, 3 ids"),
        ({"X": np.full((2, 2), np.inf)}, "none that can be used"),
        ({"Z": np.zeros((2, 2))}, "one array called features or X or x"),
    ]:
        np.savez(path, **arrays)
        assert words in refusal([str(path)])
    np.savez(path, X=np.zeros((2, 2)))
    assert "which has none" in refusal([str(path)], split="test")
    assert "which holds features" in refusal([str(path)], input_kind="pictures")
    assert "no column names" in refusal([f"{path},label_column=x"])


# Datasets


def test_of_a_dataset_the_test_split_or_the_only_one_is_taken(tmp_path):
    for split in ("train", "val", "test"):
        for name in ("elm", "oak"):
            write_picture(tmp_path / "three" / split / name / f"{split}.png")
            write_picture(tmp_path / "one" / name / f"{split}.png")
    three = f"folders:{tmp_path / 'three'}"
    assert list(opened(three)[1].ids) == ["test/elm/test.png", "test/oak/test.png"]
    dataset, val = opened(three, split="val")
    assert (list(val.ids), named(dataset, val)) == (["val/elm/val.png", "val/oak/val.png"], ["elm", "oak"])
    assert len(opened(f"folders:{tmp_path / 'one'}")[1]) == 6
    assert refusal([three], split="tset") == f"split: expected one of the splits of {three} (train, val, test), got 'tset'"
    shutil.rmtree(tmp_path / "three" / "test")
    assert f"the splits of {three} (train, val), and there is no test: name one" in refusal([three])


def test_several_files_have_no_labels_and_are_refused_where_labels_are_required(tmp_path):
    with pytest.raises(InputError, match="source: .*got 2.*require_labels=False"):
        open_dataset([write_picture(tmp_path / "a.png"), write_picture(tmp_path / "b.png")])


def test_names_that_no_row_carries_need_not_be_classes():
    names = ["ash", "elm", "oak"]
    assert target_among(torch.tensor([2, 0]), names, ["oak", "ash"]).tolist() == [0, 1]
    several = torch.tensor([[False, False, True]])
    assert target_among(several, names, ["yew", "oak"]).tolist() == [[False, True]]
    with pytest.raises(InputError, match=r"'elm' .* 1 class \('oak'\)"):
        target_among(torch.tensor([1]), names, ["oak"])
