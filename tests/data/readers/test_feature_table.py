"""Tables of features and labels: CSV, Parquet and npz."""

import contextlib
import io
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from shortlist.data.readers.feature_table import read_feature_table
from shortlist.errors import InputError

TEXT = (
    "id,species,width,height,split\nx1,Quercus robur,1,2.5,train\nx2,Ilex aquifolium,-3e2,0,test\nx3,Quercus robur,7,8,train\n"
)


def csv(folder, text):
    (folder / "leaves.csv").write_text(text)
    return folder / "leaves.csv"


def npz(folder, **arrays):
    np.savez(folder / "leaves.npz", **arrays)
    return folder / "leaves.npz"


def told(dataset):
    return [str(problem) for problem in dataset.problems]


def test_every_column_without_another_purpose_is_a_feature(tmp_path):
    dataset = read_feature_table(csv(tmp_path, TEXT), superclass="first-word")
    train, test = dataset.splits["train"], dataset.splits["test"]
    assert (dataset.name, dataset.classes, dataset.superclasses) == (
        "leaves",
        ["Ilex aquifolium", "Quercus robur"],
        ["Ilex", "Quercus"],
    )
    assert train.inputs.dtype == torch.float32
    assert train.inputs.tolist() == [[1, 2.5], [7, 8]]
    assert test.inputs.tolist() == [[-300, 0]]
    assert (train.ids, train.target.tolist(), test.target.tolist()) == (["x1", "x3"], [1, 1], [0])


RECODED = (
    *("label_id", "class_id", "category_id", "species_id", "target_id", "genus_id", "label_code", "y", "target_name"),
    *(
        "image_id",
        "observer_id",
        "index",
        "labelId",
        "speciesKey",
        "taxonKey",
        "classID",
        "Label-Index",
        "true_label",
        "label_encoded",
    ),
    *(
        "class_number",
        "row_number",
        "uuid",
        "label_y",
        "label.1",
        "class.2",
        "label2",
        "label_2",
        "species1",
        "label_id_x",
        "y.1",
    ),
    *("y_true", "ground_truth", "gt"),
)
NOT_RECODED = ["width", "x", "y", "refractive_index", "fluid", "codes", "labelling", "width.1", "centre_x", "centre_y", "x2"]


@pytest.mark.parametrize(("header", "options", "features", "unused"), [
    ("width,label,class", {"label_column": "class"}, ["width"], "'label' usually holds"),
    ("width,label,class", {"label_column": "label"}, ["width"], "'class' usually holds"),
    ("width,label,genus", {"superclass": "first-word"}, ["width"], "'genus' usually holds"),
    ("width,label,id,name", {"id_column": "name"}, ["width"], "'id' usually holds"),
    ("width,label,fold,subset", {"split_column": "fold"}, ["width"], "'subset' usually holds"),
    ("width,label,plant_id,observer", {"group_column": "observer"}, ["width"], "'plant_id' usually holds"),
    ("width,label,Class,Species", {"label_column": "label"}, ["width"], "'Class', 'Species' usually hold "),
    ("width,label,shade", {}, ["width", "shade"], None),
    ("width,fruit,fruit.1", {"label_column": "fruit"}, ["width"], "'fruit.1' usually holds"),
    ("width,fruit_x,fruit_y", {"label_column": "fruit_x"}, ["width"], "'fruit_y' usually holds"),
    (",".join(["label", *NOT_RECODED]), {}, NOT_RECODED, None),
    *((f"width,label,{name}", {}, ["width"], f"'{name}' usually holds") for name in RECODED),
])  # fmt: skip
def test_a_second_column_with_a_usual_name_is_no_feature(tmp_path, header, options, features, unused):
    """Naming one column of labels made the other one a feature, from which the label can be read."""
    rows = "".join(f"{row}," + ",".join([str(row % 2)] * header.count(",")) + "\n" for row in range(4))
    dataset = read_feature_table(csv(tmp_path, f"{header}\n{rows}"), **options)
    assert dataset.feature_names == features
    found = [str(problem) for problem in dataset.problems if problem.kind == "column not used"]
    assert len(found) == (unused is not None)
    assert all(unused in line for line in found)
    classified = read_feature_table(tmp_path / "leaves.csv", **options, require_labels=False)
    assert (classified.feature_names, [p for p in classified.problems if p.kind == "column not used"]) == (features, [])


@pytest.mark.parametrize(
    "name", ["key", "row", "index", "n_labels", "y", "soil_id", "plant", "genus", "split", "id", "class", "valid"]
)
def test_columns_that_are_known_to_be_features_are_read_whatever_their_names(tmp_path, name):
    """A classifier that was trained on a feature called key could read no table."""
    path = csv(tmp_path, f"width,{name},tags\n1,0,oak\n2,1,elm\n")
    dataset = read_feature_table(path, require_labels=False, feature_names=["width", name])
    (split,) = dataset.splits.values()
    assert dataset.feature_names == ["width", name]
    assert split.inputs.tolist() == [[1, 0], [2, 1]]
    assert [dataset.classes[label] for label in split.target] == ["oak", "elm"]


def test_a_column_that_is_named_has_its_purpose_though_it_is_a_known_feature(tmp_path):
    path = csv(tmp_path, "width,key,tags\n1,a,oak\n2,b,elm\n")
    dataset = read_feature_table(path, require_labels=False, id_column="key", feature_names=["width", "key"])
    (split,) = dataset.splits.values()
    assert (dataset.feature_names, list(split.ids)) == (["width"], ["a", "b"])


def test_all_columns_that_are_no_features_are_named(tmp_path):
    names = [f"n{number}_id" for number in range(20)]
    dataset = read_feature_table(csv(tmp_path, f"width,label,{','.join(names)}\n1,oak{',0' * 20}\n"))
    (line,) = (problem.what for problem in dataset.problems if problem.kind == "column not used")
    assert all(repr(name) in line for name in names)
    with pytest.raises(InputError, match=r"features beside 'key', 'species'; 'key' usually holds .*: rename it"):
        read_feature_table(csv(tmp_path, "key,species\n1,oak\n2,elm\n"))


def test_names_of_an_npz_file_may_be_bytes(tmp_path):
    names = np.array([name.encode() for name in ("élan", "oak", "élan")])
    split = read_feature_table(npz(tmp_path, X=np.eye(3), y=names, ids=np.array([b"a", b"b", b"c"])))
    assert (split.classes, split.splits["all"].target.tolist()) == (["oak", "élan"], [1, 0, 1])
    assert list(split.splits["all"].ids) == ["a", "b", "c"]
    with pytest.raises(InputError, match=r"leaves.npz: y: expected UTF-8 text"):
        read_feature_table(npz(tmp_path, X=np.eye(3), y=np.array([b"\xe9", b"a", b"b"])))


def test_parquet_and_row_numbers_of_pandas(tmp_path):
    frame = pd.DataFrame({"label": [1, 0], "a": [1, 2], "b": [True, False], "c": [0.5, 1.5]}, index=[7, 9])
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv")
    for name in ("t.parquet", "t.csv"):
        split = read_feature_table(tmp_path / name).splits["all"]
        assert split.inputs.tolist() == [[1, 1, 0.5], [2, 0, 1.5]]
        assert split.ids == ["0", "1"]
        assert split.target.tolist() == [1, 0]


def test_several_labels_in_either_form(tmp_path):
    dataset = read_feature_table(csv(tmp_path, "tags,x\na|b,1\n,2\n"), separator="|")
    assert dataset.splits["all"].target.tolist() == [[True, True], [False, False]]
    dataset = read_feature_table(csv(tmp_path, "y.a,y.b,x\n1,0,1\n1,1,2\n"), label_column="y.*")
    assert dataset.classes == ["a", "b"]
    assert dataset.splits["all"].inputs.tolist() == [[1], [2]]


def test_a_number_that_turns_into_fractions_late_is_read(tmp_path):
    """The types of a CSV file are guessed from its beginning, which here is whole numbers only."""
    rows = "".join("a,1\n" for _ in range(400_000)) + "a,1.5\n"
    split = read_feature_table(csv(tmp_path, f"label,x\n{rows}")).splits["all"]
    assert split.inputs[-1].item() == 1.5


@pytest.mark.parametrize("cell", ["", "NaN", "nan", "NA", "?", "inf", "1e300"])
def test_a_row_with_a_missing_feature_is_named_and_left_out(tmp_path, cell):
    path = csv(tmp_path, f"id,label,x,y\nr1,a,1,2\nr2,a,3,{cell}\n")
    dataset = read_feature_table(path, tolerance=0.5)
    assert dataset.splits["all"].inputs.tolist() == [[1, 2]]
    assert told(dataset) == ["r2: has no number in 'y': left out"]
    with pytest.raises(InputError, match=r"1 of 2 rows could not be used, more than the tolerated 1\.0%; the first is r2"):
        read_feature_table(path)


def test_a_row_without_a_label_is_left_out(tmp_path):
    dataset = read_feature_table(csv(tmp_path, "label,x\na,1\n,2\n"))
    assert told(dataset) == ["1: has no label: left out"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "label,x,colour,when\na,1,red,2020-01-01\n",
            "leaves.csv: expected numbers in every column of features, got string in 'colour', 'when': leave such",
        ),
        ("label,split\na,train\n", "expected columns of features beside 'label', 'split'"),
        ("x,y\n1,2\n", r"expected a label column \(label, labels, class, class_name, …\), got 'x', 'y'"),
        ("label,x\n" + "a,1\n" * 400_000 + "a,red\n", "cannot be read as a table: .*invalid value 'red'"),
    ],
)
def test_odd_tables_are_refused(tmp_path, text, message):
    if "when" in text:
        text = text.replace("2020-01-01", "now")
    with pytest.raises(InputError, match=message):
        read_feature_table(csv(tmp_path, text))


def test_an_empty_column_is_missing_in_every_row(tmp_path):
    with pytest.raises(InputError, match="2 of 2 rows could not be used"):
        read_feature_table(csv(tmp_path, "label,x\na,\nb,\n"))


def test_text_in_parquet_is_refused(tmp_path):
    pq.write_table(pa.table({"label": ["a"], "x": ["1"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="got string in 'x'"):
        read_feature_table(tmp_path / "t.parquet")


# Arrays


@pytest.mark.parametrize("keys", [("X", "y"), ("features", "target"), ("x", "label")])
def test_arrays_by_their_usual_names(tmp_path, keys):
    path = npz(tmp_path, **{keys[0]: np.eye(3), keys[1]: np.array([2, 0, 2])})
    dataset = read_feature_table(path)
    assert dataset.classes == ["0", "2"]
    assert dataset.splits["all"].target.tolist() == [1, 0, 1]
    assert dataset.splits["all"].inputs.dtype == torch.float32
    assert dataset.splits["all"].ids == ["0", "1", "2"]


def test_classes_and_ids_may_be_given(tmp_path):
    path = npz(
        tmp_path, X=np.eye(2), y=np.array([2, 0]), classes=np.array(["oak a", "elm b", "ash c"]), ids=np.array(["p", "q"])
    )
    dataset = read_feature_table(path, superclass="first-word")
    assert (dataset.classes, dataset.superclasses) == (["oak a", "elm b", "ash c"], ["oak", "elm", "ash"])
    assert (dataset.splits["all"].target.tolist(), dataset.splits["all"].ids) == ([2, 0], ["p", "q"])
    assert told(dataset) == ["elm b: has no row"]


def test_names_as_target(tmp_path):
    dataset = read_feature_table(npz(tmp_path, X=np.eye(3), y=np.array(["oak", " elm", "oak"])))
    assert (dataset.classes, dataset.splits["all"].target.tolist()) == (["elm", "oak"], [1, 0, 1])
    assert told(dataset) == ["' elm': read as 'elm' in 1 row"]
    path = npz(tmp_path, X=np.eye(3), y=np.array(["oak", "elm", "oak"]), classes=np.array(["oak", "elm"]))
    assert read_feature_table(path).splits["all"].target.tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", [bool, np.int8, np.float32])
def test_marks_as_target(tmp_path, kind):
    marks = np.array([[1, 0, 1], [0, 0, 0]])
    dataset = read_feature_table(npz(tmp_path, X=np.eye(2), y=marks.astype(kind)))
    assert dataset.classes == ["0", "1", "2"]
    assert dataset.splits["all"].target.tolist() == marks.astype(bool).tolist()


def test_missing_features_of_arrays(tmp_path):
    path = npz(tmp_path, X=np.array([[1.0, np.nan], [1.0, 2.0]]), y=np.array([0, 1]), ids=np.array(["p", "q"]))
    dataset = read_feature_table(path, tolerance=0.5)
    assert dataset.splits["all"].ids == ["q"]
    assert told(dataset) == ["p: has no number in '1': left out", "0: has no row"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(2)}, "expected one array called target or y or label or labels, got 'X'"),
        ({"y": np.array([0])}, "expected one array called features or X or x, got 'y'"),
        ({"X": np.eye(2), "features": np.eye(2), "y": np.array([0])}, "expected one array called features or X or x, got"),
        ({"X": np.zeros(3), "y": np.array([0, 1, 1])}, r"expected features as numbers \(N, D\), got float64 \(3,\)"),
        ({"X": np.array([["a"]]), "y": np.array([0])}, r"expected features as numbers \(N, D\), got <U1"),
        ({"X": np.eye(2), "y": np.array([0])}, "expected one label for each of the 2 rows, got 1"),
        ({"X": np.eye(2), "y": np.array([0.5, 1])}, r"expected a target of class names or numbers \(N,\)"),
        ({"X": np.eye(2), "y": np.array([[2, 1], [0, 0]])}, r"expected zeros and ones in a target \(N, C\)"),
        (
            {"X": np.eye(2), "y": np.array([0, 5]), "classes": np.array(["a", "b"])},
            "expected labels from 0 to 1, got 5 in row 1",
        ),
        (
            {"X": np.eye(2), "y": np.array(["a", "c"]), "classes": np.array(["a", "b"])},
            "expected labels among the classes, got 'c'",
        ),
        ({"X": np.eye(2), "y": np.array(["a", ""])}, "expected a label in every row, got none in row 1"),
        ({"X": np.eye(2), "y": np.array([0, 1]), "ids": np.array(["a"])}, "ids: expected one for each of the 2 rows"),
        ({"X": np.eye(2), "y": np.array([0, 1], object)}, "it holds Python objects, which are never loaded: save plain arrays"),
    ],
)
def test_odd_arrays_are_refused(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message):
        read_feature_table(npz(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": np.array(3)}, r"expected a target \(N,\) or \(N, C\), got int64 \(\)"),
        ({"y": np.zeros((2, 2, 2))}, r"expected a target \(N,\) or \(N, C\)"),
        ({"classes": np.array("a")}, "expected classes as names or numbers, one after the other, got <U1"),
        ({"classes": np.array([["a"], ["b"]])}, "expected classes as names or numbers, one after the other"),
        ({"classes": np.array([0.5, 1.5])}, "expected classes as names or numbers"),
        ({"ids": np.array(7)}, "expected ids as names or numbers, one after the other, got int64"),
        ({"ids": np.eye(2, dtype=int)}, "expected ids as names or numbers, one after the other"),
        ({"ids": np.array(["a", "\ud800"])}, "expected text in ids, got .*which holds half a letter"),
        ({"y": np.array(["a", "\ud800"])}, "expected text in the target, got .*which holds half a letter"),
        ({"y": np.array(["a", "b"]), "classes": np.array(["a", "b", "a"])}, "expected classes with different names, got 'a'"),
    ],
)
def test_arrays_of_the_wrong_form_are_refused(tmp_path, changed, message):
    with pytest.raises(InputError, match=message):
        read_feature_table(npz(tmp_path, **{"X": np.eye(2), "y": np.array([0, 1])} | changed))


def test_classes_of_one_name_are_told_apart_and_noted(tmp_path):
    dataset = read_feature_table(npz(tmp_path, X=np.eye(2), y=np.array([0, 1]), classes=np.array(["oak", "oak"])))
    assert dataset.classes == ["oak (0)", "oak (1)"]
    assert told(dataset) == ["oak: is the name of 2 classes: told apart by their numbers"]


def test_numbers_of_the_other_byte_order_are_read(tmp_path):
    arrays = {"X": np.eye(2).astype(">f8"), "y": np.array([5, 7], ">i4"), "ids": np.array(["p", "q"], ">U1")}
    dataset = read_feature_table(npz(tmp_path, **arrays))
    assert (dataset.classes, dataset.splits["all"].ids) == (["5", "7"], ["p", "q"])
    assert dataset.splits["all"].inputs.tolist() == [[1, 0], [0, 1]]


def members(folder, **contents):
    with zipfile.ZipFile(folder / "leaves.npz", "w") as archive:
        for name, content in contents.items():
            archive.writestr(f"{name}.npy", content)
    return folder / "leaves.npz"


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_a_member_that_is_no_array_and_one_that_claims_too_much_are_refused(tmp_path):
    with pytest.raises(InputError, match="expected arrays only, got 'notes', which is another kind of file"):
        read_feature_table(members(tmp_path, X=npy(np.eye(2)), y=npy(np.arange(2)), notes=b"text"))
    huge = npy(np.eye(2)).replace(b"(2, 2), }" + b" " * 12, b"(" + b"9" * 13 + b", 2), }")
    with pytest.raises(InputError, match="cannot be read as npz"):
        read_feature_table(members(tmp_path, X=huge, y=npy(np.arange(2))))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_arrays_are_refused_in_words_or_read(tmp_path, save):
    """Anything but an InputError fails; so does a warning."""
    random = np.random.default_rng(0)
    save(tmp_path / "x.npz", X=random.random((20, 3)), y=np.arange(20) % 3, classes=np.array(["a", "b", "c"]))
    whole = (tmp_path / "x.npz").read_bytes()
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for place in random.integers(len(whole), size=4):
            damaged[place] = random.integers(256)
        (tmp_path / "x.npz").write_bytes(damaged)
        try:
            read_feature_table(tmp_path / "x.npz", tolerance=1.0)
        except InputError:
            refused += 1
    assert refused > 200


def test_damaged_headers_of_arrays_are_refused_in_words_or_read(tmp_path):
    """Anything but an InputError fails; so does a warning."""
    random = np.random.default_rng(1)
    whole, target = npy(random.random((4, 2))), npy(np.arange(4))
    for _ in range(300):
        damaged = bytearray(whole)
        for place in random.integers(128, size=3):
            damaged[place] = random.integers(256)
        with contextlib.suppress(InputError):
            read_feature_table(members(tmp_path, X=bytes(damaged), y=target), tolerance=1.0)


def test_an_array_alone_under_another_name_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(npy(np.eye(2)))
    with pytest.raises(InputError, match=r"x.npz: cannot be read as npz: it is another kind of file, or damaged; numpy.savez"):
        read_feature_table(tmp_path / "x.npz")
    (tmp_path / "y.npz").mkdir()
    with pytest.raises(InputError, match=r"y.npz: .*got a folder"):
        read_feature_table(tmp_path / "y.npz")


# Long rows


@pytest.mark.parametrize(
    ("name", "cell"), [("n" * 100, "1"), ("n" * 100, "1" + "0" * 99 + "e-99"), ("n", "1" + "0" * 99 + "e-99")]
)
def test_names_and_rows_of_a_megabyte_and_more_are_read(tmp_path, name, cell):
    width = 12_000
    names = ",".join(f"{name}{number}" for number in range(width))
    row = f"{cell}," * width
    split = read_feature_table(csv(tmp_path, f"{names},label\n{row}oak\n{row}elm\n")).splits["all"]
    assert split.inputs.shape == (2, width)
    assert (split.inputs == 1).all()
    assert split.target.tolist() == [1, 0]


def test_more_columns_than_can_be_parsed_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"leaves.csv: .*got 600,001: save it as"):
        read_feature_table(csv(tmp_path, "," * 600_000 + "label\n"))


def test_a_long_cell_after_a_short_header_is_read(tmp_path):
    long = "x" * 3 * 2**20
    assert read_feature_table(csv(tmp_path, f"label,n\n{long},1\n")).classes == [long]


@pytest.mark.parametrize("text", ["", "\n", "\n\r\n"])
def test_only_an_empty_file_is_called_empty(tmp_path, text):
    with pytest.raises(InputError, match=r"leaves.csv: .*got an empty file"):
        read_feature_table(csv(tmp_path, text))


def test_what_is_no_npz_is_refused(tmp_path):
    (tmp_path / "x.npz").write_text("no arrays")
    with pytest.raises(InputError, match=r"x.npz: cannot be read as npz"):
        read_feature_table(tmp_path / "x.npz")
    with pytest.raises(InputError, match=r"y.npz: .*got nothing"):
        read_feature_table(tmp_path / "y.npz")
    with pytest.raises(InputError, match="npz: expected no column names"):
        read_feature_table(npz(tmp_path, X=np.eye(2), y=np.array([0, 1])), label_column="y")


@pytest.mark.parametrize(
    ("classes", "labels", "places"),
    [
        (np.array([1, 2, 3]), [1, 2, 1], [0, 1, 0]),
        (np.array([4, 2, 1, 3, 0]), [0, 1, 4], [4, 2, 0]),
        (np.array(["01", "02"]), [1, 2, 1], [0, 1, 0]),
        (np.array([0, 1, 2]), [0, 2, 1], [0, 2, 1]),
    ],
)
def test_labels_of_arrays_go_by_classes_that_are_numbers(tmp_path, classes, labels, places):
    dataset = read_feature_table(npz(tmp_path, X=np.eye(3), y=np.array(labels), classes=classes))
    assert dataset.classes == [str(name) for name in classes]
    assert dataset.splits["all"].target.tolist() == places


@pytest.mark.parametrize(("classes", "match"), [([1, 2, 3], "got '0'"), ([1, 1, 0], "'1' more than once")])
def test_numbers_that_name_no_class_or_two_are_refused(tmp_path, classes, match):
    with pytest.raises(InputError, match=match):
        read_feature_table(npz(tmp_path, X=np.eye(2), y=np.array([1, 0]), classes=np.array(classes)))


def test_a_class_without_a_superclass_joins_none_that_is_called_like_it(tmp_path):
    """The oak that has no genus is not in the genus oak."""
    text = "width,label,genus\n1,oak,\n2,red oak,oak\n3,holm oak,oak\n4,elm,\n"
    dataset = read_feature_table(csv(tmp_path, text))
    assert dict(zip(dataset.classes, dataset.superclasses, strict=True)) == {
        "elm": "elm",
        "holm oak": "oak",
        "oak": "oak (class)",
        "red oak": "oak",
    }
