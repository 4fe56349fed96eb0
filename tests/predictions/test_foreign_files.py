"""Files that somebody else wrote, and files that are broken."""

import zipfile
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning

SCORES = np.random.default_rng(0).standard_normal((5, 3))
LABELS = np.array([2, 0, 1, 1, 0])
MARKS = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1]])
FORMATS = [".safetensors", ".npz", ".parquet"]


def write_arrays(path, **arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}, path)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_arrays_are_found_by_their_names(tmp_path, suffix):
    path = write_arrays(tmp_path / f"a{suffix}", logits=SCORES, features=np.zeros((5, 9)), y=LABELS, target=np.zeros(3))
    found = Predictions.load(path, scores_key="logits", target_key="y", link="softmax")
    assert np.array_equal(found.scores.numpy(), SCORES)
    assert found.target.tolist() == LABELS.tolist()
    torch.testing.assert_close(found.probs(), torch.softmax(torch.from_numpy(SCORES), 1))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_file_with_our_names_needs_no_keys_and_has_no_link(tmp_path, suffix):
    found = Predictions.load(write_arrays(tmp_path / f"a{suffix}", scores=SCORES, target=LABELS))
    assert found.target.tolist() == LABELS.tolist()
    assert found.link is None
    assert found.classes is None


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32, np.float32, bool])
def test_matrix_of_zeros_and_ones_is_a_target_of_many_labels(tmp_path, suffix, dtype):
    found = Predictions.load(write_arrays(tmp_path / f"a{suffix}", scores=SCORES, target=MARKS.astype(dtype)))
    assert found.target.dtype == torch.bool
    assert np.array_equal(found.target.numpy(), MARKS.astype(bool))


@pytest.mark.parametrize("target", [LABELS.astype(np.uint8), LABELS[:, None], LABELS.astype(np.float64), LABELS[:, None] + 0.0])
def test_labels_in_other_forms_are_one_label_a_row(tmp_path, target):
    found = Predictions.load(write_arrays(tmp_path / "a.npz", scores=SCORES, target=target))
    assert found.target.dtype == torch.int64
    assert found.target.tolist() == LABELS.tolist()


@pytest.mark.parametrize("dtype", [np.int64, bool])
def test_marks_of_one_class_are_not_class_numbers(tmp_path, dtype):
    """With one class a column of zeros and ones can only be marks: class number 1 does not exist."""
    marks = np.array([[1], [0]]).astype(dtype)
    found = Predictions.load(write_arrays(tmp_path / "a.npz", scores=SCORES[:2, :1], target=marks))
    assert found.target.tolist() == [[True], [False]]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (LABELS + 0.5, "expected whole numbers"),
        (np.full(5, np.nan), "expected whole numbers"),
        (2 * MARKS, "expected zeros and ones"),
        (LABELS + 1, "expected labels from 0 to 2, got 3 in row 0"),
        (LABELS[:4], "one label for each of the 5 rows|labels for 5 rows"),
        (MARKS[:, :2], r"expected bool \(5, 3\)"),
    ],
)
def test_target_that_is_none_is_refused_with_the_name_of_the_file(tmp_path, target, message):
    path = write_arrays(tmp_path / "mine.npz", scores=SCORES, target=target)
    with pytest.raises(InputError, match=rf"mine\.npz: .*{message}"):
        Predictions.load(path)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", ">f8"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_is_read_compressed_or_not_in_any_order_of_rows_and_bytes(tmp_path, order, dtype, save):
    scores = np.array(SCORES, dtype=dtype, order=order)
    save(tmp_path / "a.npz", scores=scores, target=LABELS)
    assert np.array_equal(Predictions.load(tmp_path / "a.npz").scores.numpy(), scores)


def test_npz_names_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", scores=SCORES, classes=np.array(["x", "ÿ", "z"]), ids=np.arange(5))
    found = Predictions.load(tmp_path / "a.npz")
    assert found.classes == ("x", "ÿ", "z")
    assert found.ids == ("0", "1", "2", "3", "4")


def test_python_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", scores=SCORES.astype(object))
    with pytest.raises(InputError, match="never unpickled"):
        Predictions.load(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(("pattern", "written"), [
    ("p_*", "p_{}"), ("*_prob", "{}_prob"), ("p_*_%", "p_{}_%"), ("p?_*", "p1_{}"), ("[!s][0-9]*]x", "p1{}]x"),
])  # fmt: skip
def test_numbered_classes_are_named_by_what_the_star_stands_for(tmp_path, pattern, written, suffix):
    """Text left at either end of the names made them no numbers, and labels went by the order of the columns."""
    columns = {written.format(name): column for name, column in zip(["2", "0", "1"], SCORES.T, strict=True)}
    table = pa.table({**columns, "target": LABELS})
    (pq.write_table if suffix == ".parquet" else pyarrow.csv.write_csv)(table, tmp_path / f"a{suffix}")
    found = Predictions.load(tmp_path / f"a{suffix}", scores_key=pattern, link="softmax")
    assert found.classes == ("2", "0", "1")
    assert found.target.tolist() == [["2", "0", "1"].index(str(label)) for label in LABELS]


def test_names_as_bytes_are_read_as_utf_8(tmp_path):
    classes, ids = np.array([name.encode() for name in ("é", "b", "c")]), np.array([f"ü{row}".encode() for row in range(5)])
    target = np.array([classes[label] for label in LABELS])
    np.savez(tmp_path / "a.npz", scores=SCORES, classes=classes, ids=ids, target=target)
    found = Predictions.load(tmp_path / "a.npz", link="softmax")
    assert (found.classes, found.ids, found.target.tolist()) == (
        ("é", "b", "c"),
        tuple(f"ü{n}" for n in range(5)),
        LABELS.tolist(),
    )
    np.savez(tmp_path / "b.npz", scores=SCORES, classes=np.array([b"\xe9", b"b", b"c"]))
    with pytest.raises(InputError, match="classes: expected UTF-8 text, got other bytes"):
        Predictions.load(tmp_path / "b.npz", link="softmax")


def test_parquet_with_a_column_a_class_is_read_by_a_pattern(tmp_path):
    columns = {"id": ["a", "b", "c", "d", "e"], "noise": [0] * 5, "label": [["cat", "dog", "owl"][y] for y in LABELS]}
    columns |= {f"p_{name}": column for name, column in zip(["cat", "dog", "owl"], SCORES.T, strict=True)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = Predictions.load(tmp_path / "a.parquet", scores_key="p_*", target_key="label", link="sigmoid")
    assert found.classes == ("cat", "dog", "owl")
    assert found.ids == ("a", "b", "c", "d", "e")
    assert np.array_equal(found.scores.numpy(), SCORES)
    assert found.target.tolist() == LABELS.tolist()


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float16(), 3)])
def test_parquet_with_one_list_column_is_read(tmp_path, kind):
    scores = SCORES.astype(np.float16)  # exact in all three
    lists = pa.array([[np.float16(x) for x in row] for row in scores], pa.list_(pa.float16())).cast(kind)
    pq.write_table(pa.table({"logits": lists, "y": pa.array(LABELS, pa.int16())}), tmp_path / "a.parquet")
    found = Predictions.load(tmp_path / "a.parquet", scores_key="logits", target_key="y")
    assert np.array_equal(found.scores.numpy(), scores)
    assert found.target.tolist() == LABELS.tolist()
    assert found.classes is None


def test_parquet_lists_of_class_numbers_are_a_target_of_many_labels(tmp_path):
    lists = [np.flatnonzero(row).tolist() for row in MARKS]
    table = pa.table({"scores": SCORES.tolist(), "target": lists})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    assert np.array_equal(Predictions.load(tmp_path / "a.parquet").target.numpy(), MARKS.astype(bool))


def test_columns_of_several_widths_are_read_in_the_widest(tmp_path):
    table = pa.table({"s0": SCORES[:, 0].astype(np.float32), "s1": SCORES[:, 1]})
    pq.write_table(table, tmp_path / "a.parquet")
    found = Predictions.load(tmp_path / "a.parquet", scores_key="s*").scores
    assert np.array_equal(found[:, 1].double().numpy(), SCORES[:, 1])


def test_csv_is_read(tmp_path):
    lines = ["target,s.cat,s.dog,extra", "dog,1,0.25,x", "cat,-2,1e-3,y"]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = Predictions.load(tmp_path / "a.csv", scores_key="s.*")
    assert found.scores.tolist() == [[1, 0.25], [-2, 1e-3]]
    assert found.classes == ("cat", "dog")
    assert found.target.tolist() == [1, 0]


def test_class_names_are_gathered_from_many_batches(tmp_path):
    names = ["cat", "dog", "dog"] * 30000
    pq.write_table(pa.table({"p.cat": np.zeros(90000), "p.dog": np.ones(90000), "target": names}), tmp_path / "a.parquet")
    assert Predictions.load(tmp_path / "a.parquet", scores_key="p.*").target.tolist() == [0, 1, 1] * 30000


CLASSES = ["ash", "elm", "oak"]
SCORED = {
    "lists": {"s": [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]]},
    "columns": {"s0": [0.5, 0.125], "s1": [0.25, 0.75], "s2": [0.25, 0.125]},
}


@pytest.mark.parametrize("form", SCORED)
@pytest.mark.parametrize(
    ("labels", "target"),
    [
        (["oak", "elm"], torch.tensor([2, 1])),
        ([["oak", "ash"], []], torch.tensor([[True, False, True], [False, False, False]])),
        ([2, 1], torch.tensor([2, 1])),
    ],
)
def test_labels_go_by_the_names_of_classes_that_are_given(tmp_path, form, labels, target):
    pq.write_table(pa.table(SCORED[form] | {"y": labels}), tmp_path / "a.parquet")
    key = "s" if form == "lists" else "s*"
    found = Predictions.load(tmp_path / "a.parquet", scores_key=key, target_key="y", classes=CLASSES, link="identity")
    assert list(found.classes) == CLASSES
    assert torch.equal(found.target, target)
    with pytest.raises(InputError, match="expected a name for each of the 3 columns"):
        Predictions.load(tmp_path / "a.parquet", scores_key=key, target_key="y", classes=[*CLASSES, "yew"], link="identity")


def test_classes_that_are_given_do_not_rename_those_of_a_table(tmp_path):
    columns = {"p_ash": [0.5], "p_elm": [0.5], "y": ["ash"]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="classes: expected none, as the file names its classes"):
        Predictions.load(tmp_path / "a.parquet", scores_key="p_*", target_key="y", classes=["elm", "ash"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"s0": [0.5, None]}, "expected a value in every row of 's0', got 1 empty ones"),
        ({"s0": [0.5, float("nan")]}, "got nan in row 1, column 0"),
        ({"s0": ["a", "b"]}, "expected numbers in 's0', got string"),
        ({"s0": [[1.0], [1.0, 2.0]]}, "expected lists of one length in 's0'"),
        ({"s0": [0.5, 0.5], "y": ["1", "0"]}, r"target: expected names of classes \('0'\), got '1'"),
        ({"s0": [[0.5], [0.5]], "y": ["1", "0"]}, "target: .*does not list the classes"),
        ({"s0": [[0.5], [0.5]], "y": [[0], [1]]}, "expected labels from 0 to 0, got 0 to 1"),
        ({"s0": [0.5, 0.5], "y": [0, None]}, "expected a value in every row of 'y'"),
        ({"s0": [0.5, 0.5], "y": [0.5, 0.5]}, "expected class numbers, lists of them or class names"),
    ],
)
def test_tables_that_cannot_be_read_say_why(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "mine.parquet")
    with pytest.raises(InputError, match=rf"mine\.parquet: .*{message}"):
        Predictions.load(tmp_path / "mine.parquet", scores_key="s*", target_key="y" if "y" in columns else None)


@pytest.mark.parametrize("suffix", FORMATS)
def test_keys_that_are_not_there_are_answered_with_those_that_are(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    Predictions(torch.zeros(2, 1200)).save(path)
    with pytest.raises(InputError, match=r"expected scores under 'logits', found .*'scores'.*scores_key"):
        Predictions.load(path, scores_key="logits")
    with pytest.raises(InputError, match=r"expected a target under 'y', found .*'scores'.*target_key"):
        Predictions.load(path, target_key="y")


def test_pattern_that_matches_two_arrays_is_refused(tmp_path):
    path = write_arrays(tmp_path / "a.npz", s1=SCORES, s2=SCORES)
    with pytest.raises(InputError, match=r"'s\*' matches s1, s2"):
        Predictions.load(path, scores_key="s*")


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99])
def test_truncated_files_are_refused(tmp_path, suffix, share):
    path = tmp_path / f"cut{suffix}"
    Predictions(torch.randn(50, 30)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError, match=rf"cannot read .*cut\{suffix} as {suffix[1:]}: \S+"):
        Predictions.load(path)


@pytest.mark.parametrize("suffix", [*FORMATS, ".csv"])
@pytest.mark.parametrize("content", [b"PK\x05\x06" + bytes(18), b"\x93NUMPY\x01\x00", b"PAR1\x00\x00\x00\x00PAR1", bytes(100)])
def test_files_of_another_kind_are_refused(tmp_path, suffix, content):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\."):
        Predictions.load(path)


def test_damaged_compressed_array_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, scores=SCORES)
    whole = path.read_bytes()
    for place in range(70, 230, 10):  # inside the compressed bytes
        path.write_bytes(whole[:place] + bytes(5) + whole[place + 5 :])
        with pytest.raises(InputError, match=r"a\.npz"):
            Predictions.load(path)


@pytest.mark.parametrize("name", ["missing.npz", "missing.csv", "folder.npz"])
def test_missing_files_are_refused(tmp_path, name):
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InputError, match=r"there is no such file|it is a folder"):
        Predictions.load(tmp_path / name)


def test_unknown_format_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*a\.pkl: expected a name that ends in .*\.csv"):
        Predictions.load(tmp_path / "a.pkl")


def test_columns_named_by_numbers_are_classes_by_name_and_not_by_place(tmp_path):
    names = ["0", "1", "10", "11", *map(str, range(2, 10))]
    rows = torch.eye(12)[[int(name) for name in names]].t()
    table = {f"p_{name}": rows[:, place].tolist() for place, name in enumerate(names)} | {"y": list(range(12))}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    found = Predictions.load(tmp_path / "a.parquet", scores_key="p_*", target_key="y", link="identity")
    assert found.classes == tuple(names)
    assert torch.equal(found.scores.argmax(1), found.target)


def test_categories_and_whole_floats_are_labels(tmp_path):
    columns = {"p_a": [0.9, 0.1], "p_b": [0.1, 0.9]}
    for target in (pa.array(["a", "b"]).dictionary_encode(), pa.array([0.0, 1.0])):
        pq.write_table(pa.table(columns | {"y": target}), tmp_path / "a.parquet")
        found = Predictions.load(tmp_path / "a.parquet", scores_key="p_*", target_key="y", link="identity")
        assert found.target.tolist() == [0, 1]


TABLE = ",image,p_cat,p_dog\n0,a.jpg,0.5,0.1\n1,b.jpg,0.2,0.9\n"


def test_rows_are_named_by_the_column_that_is_said(tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    for key in ("p_*", "*"):  # the nameless column is pandas' numbering, and no class
        found = Predictions.load(tmp_path / "a.csv", scores_key=key, ids_key="image", link="identity")
        assert found.ids == ("a.jpg", "b.jpg")
        assert found.scores.tolist() == [[0.5, 0.1], [0.2, 0.9]]
    np.savez(tmp_path / "a.npz", scores=SCORES, names=np.array(list("abcde")))
    assert Predictions.load(tmp_path / "a.npz", ids_key="names", link="sigmoid").ids == tuple("abcde")


def test_names_of_rows_that_are_not_there_are_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    with pytest.raises(InputError, match=r"expected row names under 'file', found '', 'image'.*ids_key"):
        Predictions.load(tmp_path / "a.csv", scores_key="p_*", ids_key="file", link="identity")
    write_arrays(tmp_path / "a.safetensors", scores=SCORES, names=LABELS)
    with pytest.raises(InputError, match="ids_key: .*safetensors"):
        Predictions.load(tmp_path / "a.safetensors", ids_key="names", link="sigmoid")


@pytest.mark.parametrize(("second", "fault"), [("x", "name several rows 'x'"), ("", "leave some rows without a name")])
def test_ids_that_tell_no_rows_apart_are_said(tmp_path, second, fault):
    (tmp_path / "a.csv").write_text(f"id,p_cat\nx,0.5\n{second},0.1\n")
    with pytest.warns(ShortlistWarning, match=f"the ids {fault}"):
        found = Predictions.load(tmp_path / "a.csv", scores_key="p_*", link="identity")
    assert found.ids is None
    with pytest.raises(InputError, match=f"ids_key: .*'id'.*{fault}"):
        Predictions.load(tmp_path / "a.csv", scores_key="p_*", ids_key="id", link="identity")


def test_percentages_are_not_taken_for_probabilities(tmp_path):
    (tmp_path / "a.csv").write_text("id,p_cat\nx,50\n")
    with pytest.raises(InputError, match="divide percentages by 100"):
        Predictions.load(tmp_path / "a.csv", scores_key="p_*", link="identity")


def test_names_of_rows_stay_as_they_are_written(tmp_path):
    names = ["007", "7", "1.20", "1.2", "true", "12345678901234567890123", "None"]
    (tmp_path / "a.csv").write_text("id,p_cat\n" + "".join(f"{name},0.5\n" for name in names))
    assert Predictions.load(tmp_path / "a.csv", scores_key="p_*", link="identity").ids == tuple(names)
    (tmp_path / "b.csv").write_bytes(b"id,p_cat\n\xe9.jpg,0.5\n")
    with pytest.raises(InputError, match="UTF8"):
        Predictions.load(tmp_path / "b.csv", scores_key="p_*", link="identity")


@pytest.mark.parametrize("name", ["__index_level_0__", "__index_level_1__", "Unnamed: 0", "Unnamed: 0.1", "Unnamed: 0.1.1", ""])
def test_the_numbering_of_pandas_is_no_class(tmp_path, name):
    table = pa.table({name: [10, 11], "cat": [0.5, 0.1]})
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text(f"{name},cat\n10,0.5\n11,0.1\n")
    for file in ("a.parquet", "a.csv"):
        assert Predictions.load(tmp_path / file, scores_key="*", link="identity").classes == ("cat",)


@pytest.mark.parametrize("name", ["target", "Label", "labels", "coarse_label", "split", "ID", "image_id"])
def test_columns_that_describe_rows_are_no_classes_under_a_bare_star(tmp_path, name):
    """A numeric column ``target`` beside the one that ``target_key`` names was a class, and mostly the most probable one."""
    (tmp_path / "a.csv").write_text(f"cat,plant,{name},target_name\n0.5,0.1,1,cat\n0.1,0.5,2,plant\n")
    found = Predictions.load(tmp_path / "a.csv", scores_key="*", target_key="target_name", link="identity")
    assert found.classes == ("cat", "plant")
    assert found.target.tolist() == [0, 1]


def test_a_column_named_in_full_holds_scores_whatever_its_name(tmp_path):
    pq.write_table(pa.table({"labels": [[0.5, 0.1]], "p_label": [0.5]}), tmp_path / "a.parquet")
    assert Predictions.load(tmp_path / "a.parquet", scores_key="labels", link="identity").scores.shape == (1, 2)
    assert Predictions.load(tmp_path / "a.parquet", scores_key="p_*", link="identity").classes == ("label",)


@pytest.mark.parametrize("key", ["target", "classes", "scores"])
def test_ids_are_nothing_else(tmp_path, key):
    np.savez(tmp_path / "a.npz", scores=SCORES, target=LABELS, classes=np.array(list("xyz")))
    with pytest.raises(InputError, match=f"ids_key: expected the row names, got '{key}', which holds something else"):
        Predictions.load(tmp_path / "a.npz", ids_key=key, link="sigmoid")


def test_ids_are_one_for_each_row(tmp_path):
    np.savez(tmp_path / "a.npz", scores=SCORES, ids=np.array([list("abcde")]))
    with pytest.raises(InputError, match=r"expected 5 names, one for each row, got an array of shape \(1, 5\)"):
        Predictions.load(tmp_path / "a.npz", link="sigmoid")


def stored_npz(path, **arrays):
    """A file that we wrote, with some arrays replaced."""
    Predictions(np.zeros((4, 3), np.float32), [0, 1, 2, 0], ["a", "b", "c"], "softmax", ["w", "x", "y", "z"]).save(path)
    with np.load(path) as file:
        np.savez(path, **({name: file[name] for name in file.files} | arrays))
    return path


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ids": np.zeros(4)}, "ids: expected texts or whole numbers, got an array of dtype float64"),
        ({"ids": np.zeros(4, bool)}, "ids: .*dtype bool"),
        ({"ids": np.array(["a", "b"])}, r"ids: expected 4 names, one for each row, got an array of shape \(2,\)"),
        ({"ids": np.array("w")}, r"ids: expected 4 names, one for each row, got an array of shape \(\)"),
        ({"ids": np.array([["w"], ["x"], ["y"], ["z"]])}, r"ids: .*shape \(4, 1\)"),
        ({"classes": np.array([0.5, 1.5, 2.5])}, "classes: .*dtype float64"),
        ({"classes": np.array(["a", "b"])}, r"classes: expected 3 names, one for each class, got an array of shape \(2,\)"),
        ({"superclasses": np.array(["a"])}, "superclasses: expected 3 names"),
        ({"target": np.array([0, 1, 2, 3])}, "target: expected labels from 0 to 2, got 3 in row 3"),
        ({"target": np.array([0, 1, 2, -1])}, "target: .*got -1 in row 3"),
        ({"target": np.array([0, 1])}, "target: expected labels for 4 rows"),
        ({"target": np.array([0.5, 1, 2, 0])}, "target: expected whole numbers"),
        ({"target": np.array([0, 1, 2, 0]).astype("datetime64[s]")}, "target"),
        ({"scores": np.zeros((4, 3), complex)}, "scores: expected numbers"),
        ({"scores": np.zeros((4, 0), np.float32), "classes": np.zeros(0, "U1")}, "scores: expected at least one class"),
        ({"train_counts": np.array([1.0, np.nan, 2.0])}, "train_counts: .*got nan"),
        ({"link": np.array("[1, 2]")}, "link: expected a kind"),
        ({"link": np.array("[" * 100_000)}, "as npz: .*recursion"),
    ],
)
def test_odd_values_in_an_npz_are_refused_with_file_and_field(arrays, message, tmp_path):
    path = stored_npz(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=f"a.npz.*{message}") as error:
        Predictions.load(path)
    assert "\n" not in str(error.value)


def member(shape, descr):
    """The bytes of an array that promises this much and holds nothing."""
    buffer = BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["classes", "ids", "superclasses"])
@pytest.mark.parametrize(("shape", "descr"), [((200_000_000,), "<U0"), ((200_000_000,), "|S0"), ((3, 10**9), "<U0")])
def test_a_header_that_promises_more_names_than_the_file_holds_is_refused_before_they_are_made(
    name, shape, descr, tmp_path, monkeypatch
):
    path = stored_npz(tmp_path / "a.npz")
    with np.load(path) as file:
        others = {key: file[key] for key in file.files if key != name}
    np.savez(path, **others)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{name}.npy", member(shape, descr))
    monkeypatch.setattr(np.lib.format, "read_array", lambda *a, **k: pytest.fail("read before it was checked"))
    with pytest.raises(InputError, match=f"a.npz: {name}.npy: expected .* bytes for .*, the file holds 0"):
        Predictions.load(path)


def test_a_compressed_file_of_names_for_rows_that_do_not_exist_is_not_unpacked(tmp_path, monkeypatch):
    path = stored_npz(tmp_path / "a.npz")
    with np.load(path) as file:
        np.savez_compressed(path, **({name: file[name] for name in file.files} | {"ids": np.zeros(10**6, "U8")}))
    monkeypatch.setattr(np.lib.format, "read_array", lambda *a, **k: pytest.fail("read before it was checked"))
    with pytest.raises(InputError, match="a.npz: ids: expected 4 names"):
        Predictions.load(path)


def stored_safetensors(path, tensors, header):
    Predictions(np.zeros((4, 3), np.float32), [0, 1, 2, 0], ["a", "b", "c"], "softmax", ["w", "x", "y", "z"]).save(path)
    with safe_open(path, "pt") as file:
        told = file.metadata() | header
    save_file({**load_file(path), **tensors}, path, told)
    return path


@pytest.mark.parametrize(
    ("tensors", "header", "message"),
    [
        ({"ids": torch.zeros(4, dtype=torch.uint8)}, {}, r"ids: expected UTF-8 bytes, .*got uint8 \(4,\)"),
        ({"ids": torch.zeros(4, 1)}, {}, r"ids: expected UTF-8 bytes, .*got float32"),
        ({"ids": torch.zeros(4, 0, dtype=torch.uint8)}, {}, "ids: expected UTF-8 bytes"),
        ({}, {"classes": "3"}, "classes: expected a list of names, got 3"),
        ({}, {"classes": "[1, 2, 3]"}, "classes: expected a list of names"),
        ({}, {"classes": '["a", "b"]'}, "classes: expected 3 names, got 2"),
        ({}, {"superclasses": '{"a": 1}'}, "superclasses: expected a list of names"),
        ({}, {"link": '"softmax"'}, "link: expected a kind"),
        ({}, {"network_digest": "[1]"}, r"network_digest: expected text or None, got \[1\]"),
        ({}, {"link": "[" * 100_000}, "as safetensors: .*recursion"),
        ({"target": torch.zeros(4, 3, 2, dtype=torch.bool)}, {}, "target"),
        ({"scores": torch.zeros(4, 3, dtype=torch.int32)}, {}, "scores: expected floating point"),
    ],
)
def test_odd_values_in_safetensors_are_refused_with_file_and_field(tensors, header, message, tmp_path):
    path = stored_safetensors(tmp_path / "a.safetensors", tensors, header)
    with pytest.raises(InputError, match=f"a.safetensors.*{message}") as error:
        Predictions.load(path)
    assert "\n" not in str(error.value)


def test_lists_of_zeros_and_ones_are_not_taken_for_class_numbers(tmp_path):
    scores = [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]
    pq.write_table(pa.table({"scores": scores, "target": [[0, 0, 1], [1, 0, 1]]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="target: .*number twice.*zeros and ones"):
        Predictions.load(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["ids", "classes"])
@pytest.mark.parametrize("odd", ["b\ud800", "a\0b"])
def test_names_in_npz_that_are_no_text_are_refused(tmp_path, name, odd):
    np.savez(tmp_path / "a.npz", scores=SCORES[:2, :2], **{name: np.array(["a", odd])})
    with pytest.raises(InputError, match=f"a.npz: {name}: expected names .*got") as error:
        Predictions.load(tmp_path / "a.npz", link="softmax")
    assert repr(odd)[1:-1] in str(error.value)


def test_line_breaks_within_quotes_of_a_large_csv_file(tmp_path):
    rows = 60_000
    (tmp_path / "a.csv").write_text("id,target,p_oak,p_elm\n" + "".join(f'"{row}\nleft",1,0.25,0.75\n' for row in range(rows)))
    found = Predictions.load(tmp_path / "a.csv", scores_key="p_*", link="identity")
    assert list(found.ids) == [f"{row}\nleft" for row in range(rows)]
    assert found.target.tolist() == [1] * rows


def test_blanks_around_the_columns_of_a_csv_file_are_ignored(tmp_path):
    (tmp_path / "a.csv").write_text("id, prob_oak, prob_elm , prob_ash, target\n007, 0.2, 0.3, 0.5, 2\n008, 0.6, 0.4, 0.0, 0\n")
    found = Predictions.load(tmp_path / "a.csv", scores_key="prob_*", link="identity")
    assert list(found.classes) == ["oak", "elm", "ash"]
    assert found.scores.tolist() == [[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]]
    assert (found.target.tolist(), list(found.ids)) == ([2, 0], ["007", "008"])


def test_numbered_columns_of_a_csv_file_with_blanks(tmp_path):
    (tmp_path / "a.csv").write_text("target , prob_2, prob_1\n1, 0.2, 0.8\n2, 0.6, 0.4\n")
    assert Predictions.load(tmp_path / "a.csv", scores_key="prob_*", link="identity").target.tolist() == [1, 0]


def test_columns_that_differ_by_blanks_alone_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("prob_oak, prob_oak,prob_elm\n0.2,0.3,0.5\n")
    with pytest.raises(InputError, match="'prob_oak'"):
        Predictions.load(tmp_path / "a.csv", scores_key="prob_*", link="identity")


def test_superclasses_of_an_npz_file_are_read_like_its_training_counts(tmp_path):
    path = tmp_path / "scores.npz"
    np.savez(path, scores=np.eye(3), classes=["a", "b", "c"], superclasses=["x", "x", "y"], train_counts=[1, 2, 3])
    found = Predictions.load(path)
    assert list(found.superclasses) == ["x", "x", "y"]
    assert found.train_counts.tolist() == [1, 2, 3]
    np.savez(path, scores=np.eye(3), superclasses=["x", "y"])
    with pytest.raises(InputError, match="superclasses: expected 3 names"):
        Predictions.load(path)


def entries_without_a_label(kind):
    """Target entries of three rows, the second without a label, and the entry that stands for that."""
    return {
        "names": (["ash", "none", "elm"], "none"),
        "empty": (["ash", "", "elm"], ""),
        "numbers": ([0, -1, 1], "-1"),
        "number or empty": ([0, "", 1], ""),
        "number or text": ([0, "reject", 1], "reject"),
        "floats": ([0.0, -1.0, 1.0], "-1"),
    }[kind]


KINDS = ["names", "empty", "numbers", "number or empty", "number or text", "floats"]


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [
        *((suffix, kind) for suffix in (".csv", ".parquet") for kind in KINDS),
        *((".npz", kind) for kind in ("names", "empty", "numbers", "floats")),
        *((".safetensors", kind) for kind in ("numbers", "floats")),
    ],
)
def test_rows_may_have_no_label(tmp_path, suffix, kind):
    entries, mark = entries_without_a_label(kind)
    scores, path = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]), tmp_path / f"scores{suffix}"
    if suffix == ".csv":
        lines = [f"{one},{other},{entry}" for (one, other), entry in zip(scores, entries, strict=True)]
        path.write_text("\n".join(["p_ash,p_elm,target", *lines]) + "\n")
    elif suffix == ".parquet":
        column = [None if entry == "" else entry for entry in entries] if "number" in kind and "text" not in kind else entries
        column = list(map(str, entries)) if kind == "number or text" else column
        pq.write_table(pa.table({"p_ash": scores[:, 0], "p_elm": scores[:, 1], "target": column}), path)
    elif suffix == ".npz":
        np.savez(path, p_scores=scores, target=np.array(entries), classes=["ash", "elm"])
    else:
        save_file({"p_scores": torch.from_numpy(scores), "target": torch.tensor(entries)}, path)
    found = Predictions.load(path, scores_key="p_*", link="identity", no_label=mark)
    assert found.target.tolist() == [[True, False], [False, False], [False, True]]


def test_rows_that_all_lack_a_label_or_all_have_one_are_of_the_same_kind(tmp_path):
    for text, expected in (
        (",\n,\n", [[False, False], [False, False]]),
        ("1\n0\n,", [[False, True], [True, False], [False, False]]),
    ):
        path = tmp_path / "scores.csv"
        rows = [f"0.5,0.5,{entry.strip(',')}" for entry in text.splitlines()]
        path.write_text("\n".join(["p_ash,p_elm,target", *rows]) + "\n")
        found = Predictions.load(path, scores_key="p_*", link="identity", no_label="")
        assert found.target.tolist() == expected
        assert found.target.dtype == torch.bool


def test_what_marks_no_label_does_not_excuse_wrong_labels(tmp_path):
    path = tmp_path / "scores.csv"
    for entry, message in (("yew", "names of classes.*got 'yew'"), ("2", "expected labels from 0 to 1, got 2")):
        path.write_text(f"p_ash,p_elm,target\n0.5,0.5,{entry}\n0.5,0.5,none\n")
        with pytest.raises(InputError, match=message):
            Predictions.load(path, scores_key="p_*", link="identity", no_label="none")
    np.savez(tmp_path / "many.npz", scores=np.zeros((2, 2)), target=np.eye(2, dtype=bool))
    with pytest.raises(InputError, match=r"no_label: .*got bool \(2, 2\)"):
        Predictions.load(tmp_path / "many.npz", no_label="-1")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_delimiter_of_a_csv_file_is_detected(tmp_path, mark):
    path = tmp_path / "scores.csv"
    lines = [["id", "target", "p_ash", "p_elm"], ["a", "elm", "0.25", "0.75"], ["b", "ash", "0.5", "0.5"]]
    path.write_text("\n".join(mark.join(line) for line in lines))
    found = Predictions.load(path, scores_key="p_*")
    assert (list(found.classes), list(found.ids), found.target.tolist()) == (["ash", "elm"], ["a", "b"], [1, 0])
    assert found.scores.tolist() == [[0.25, 0.75], [0.5, 0.5]]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_named(tmp_path, encoding):
    path = tmp_path / "scores.csv"
    path.write_bytes(
        "\ufeffid,target,p_ash,p_elm\na,elm,0.25,0.75\n".removeprefix("\ufeff" if encoding == "utf-16" else "").encode(encoding)
    )
    with pytest.raises(InputError, match=r"scores\.csv: expected UTF-8 text, got UTF-16"):
        Predictions.load(path, scores_key="p_*")


@pytest.mark.parametrize("labels", [[[0, None], [1]], [[0.0, None], [1.0]], [["ash", None], ["elm"]], [[None], [None]]])
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_nulls_in_lists_of_labels_are_counted(tmp_path, labels, kind):
    column = pa.array(labels)
    column = column.cast(kind(column.type.value_type))
    path, nulls = tmp_path / "scores.parquet", sum(label is None for row in labels for label in row)
    pq.write_table(pa.table({"p_ash": [0.1, 0.2], "p_elm": [0.9, 0.8], "target": column}), path)
    with pytest.raises(InputError, match=f"target: .*without nulls, got {nulls} null"):
        Predictions.load(path, scores_key="p_*")


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (pa.array([0, 2**64 - 1], pa.uint64()), "18446744073709551615"),
        (pa.array([[0], [2**64 - 1]], pa.list_(pa.uint64())), "18446744073709551615"),
        (pa.array([0.0, 1e300]), r"1e\+300"),
        (pa.array([0.0, 0.5]), "0.5"),
        (pa.array([0.0, float("nan")]), "nan"),
        (pa.array([0.0, 2.0**60]), "1152921504606846976|1.15"),
    ],
)
def test_labels_that_no_class_number_can_be_are_shown_as_they_are(tmp_path, labels, shown):
    path = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"p_ash": [0.1, 0.2], "p_elm": [0.9, 0.8], "target": labels}), path)
    with pytest.raises(InputError, match=f"target: .*got ({shown})"):
        Predictions.load(path, scores_key="p_*")
    if labels.type == pa.float64() and labels[1].as_py() != 2.0**60:
        np.savez(tmp_path / "scores.npz", scores=np.zeros((2, 2)), target=labels.to_numpy())
        with pytest.raises(InputError, match=f"target: .*got {shown}"):
            Predictions.load(tmp_path / "scores.npz")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize(("mark", "hint"), [("rejekt", ": did you mean 'reject'"), ("-1", "$")])
def test_a_mark_of_no_label_that_no_entry_has_is_told(tmp_path, suffix, mark, hint):
    path, entries = tmp_path / f"scores{suffix}", ["reject", "elm"]
    if suffix == ".csv":
        path.write_text("p_reject,p_elm,target\n0.5,0.5,reject\n0.5,0.5,elm\n")
    elif suffix == ".parquet":
        pq.write_table(pa.table({"p_reject": [0.5, 0.5], "p_elm": [0.5, 0.5], "target": entries}), path)
    else:
        np.savez(path, p_scores=np.full((2, 2), 0.5), target=np.array(entries), classes=["reject", "elm"])
    with pytest.warns(ShortlistWarning, match=f"no_label: no entry of the target is '{mark}', .*{hint}"):
        found = Predictions.load(path, scores_key="p_*", no_label=mark)
    assert found.target.tolist() == [[True, False], [False, True]]


def test_a_mark_of_no_label_in_a_file_without_labels_is_told(tmp_path):
    (tmp_path / "scores.csv").write_text("p_ash,p_elm\n0.5,0.5\n")
    with pytest.warns(ShortlistWarning, match="no_label: the file holds no labels"):
        Predictions.load(tmp_path / "scores.csv", scores_key="p_*", no_label="none")


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_view(pa.string()),
        pa.large_list_view(pa.string()),
        pa.large_list(pa.string()),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
    ],
)
def test_lists_of_labels_in_every_layout_of_arrow(kind, tmp_path):
    labels = pa.array([["ash"], ["elm", "ash"], []], kind)
    pq.write_table(pa.table({"p.ash": [0.5, 0.5, 0.0], "p.elm": [0.1, 0.9, 0.0], "target": labels}), tmp_path / "x.parquet")
    found = Predictions.load(tmp_path / "x.parquet", scores_key="p.*")
    assert found.target.tolist() == [[True, False], [True, True], [False, False]]
