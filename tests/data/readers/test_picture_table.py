"""Tables of pictures and labels: columns by name, splits and groups, pictures as bytes, and what is odd about them."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from shortlist.data.pictures import PictureFiles
from shortlist.data.readers.picture_table import read_picture_table
from shortlist.errors import InputError
from tests.data.drawings import file_of, noise, write_picture
from tests.data.readers.table_files import NAMES, csv, parquet, told, with_pictures


@pytest.fixture
def folder(tmp_path):
    return with_pictures(tmp_path)


# What is read


def test_a_csv_of_paths_and_labels(folder):
    dataset = read_picture_table(csv(folder, "path,label\na.png,oak\nb.png,elm\nc.png,oak\n"))
    split = dataset.splits["all"]
    assert dataset.name == "table"
    assert dataset.classes == ["elm", "oak"]
    assert split.target.tolist() == [1, 0, 1]
    assert split.target.dtype == torch.int64
    assert split.ids == ["a.png", "b.png", "c.png"]
    assert isinstance(split.inputs, PictureFiles)
    assert split.inputs.decode(2).image.size == (8, 8)
    assert (split.groups, dataset.superclasses, told(dataset)) == (None, None, [])


def of_bytes(folder, **columns):
    kept = [(folder / name).read_bytes() for name in ("a.png", "b.png", "c.png")]
    return parquet(folder, image=kept, label=["oak", "elm", "oak"], **columns)


def test_pictures_in_a_table_go_by_its_ids(folder):
    dataset = read_picture_table(of_bytes(folder, id=["r5", "r6", None]))
    split = dataset.splits["all"]
    assert (split.ids, split.inputs.ids, told(dataset)) == (["r5", "r6", "2"], ["r5", "r6", "2"], [])
    numbers = read_picture_table(of_bytes(folder, id=pa.array([7, 5, 6], pa.int64())), require_labels=False)
    assert numbers.splits["all"].ids == ["7", "5", "6"]
    other = read_picture_table(of_bytes(folder, key=["x", "y", "z"], id=["r5", "r6", "r7"]), id_column="key")
    assert other.splits["all"].ids == ["x", "y", "z"]


def test_ids_that_occur_twice_name_no_rows(folder):
    twice = of_bytes(folder, id=["r5", "r6", "r5"])
    dataset = read_picture_table(twice)
    assert dataset.splits["all"].ids == ["0", "1", "2"]
    (problem,) = dataset.problems
    assert (problem.kind, problem.where) == ("column not used", "id")
    assert "'r5'" in problem.what
    with pytest.raises(InputError, match="id_column 'id': .*'r5'"):
        read_picture_table(twice, id_column="id")
    with pytest.raises(InputError, match="expected a column 'key'"):
        read_picture_table(twice, id_column="key")
    filled = read_picture_table(of_bytes(folder, id=["1", None, "r7"]))  # the empty cell would be called 1 as well
    assert filled.splits["all"].ids == ["0", "1", "2"]


def test_paths_name_rows_unless_a_column_is_asked_for(folder):
    table = csv(folder, "id,path,label\nr5,a.png,oak\nr6,b.png,elm\n")
    assert read_picture_table(table).splits["all"].ids == ["a.png", "b.png"]
    split = read_picture_table(table, id_column="id").splits["all"]
    assert split.ids == ["r5", "r6"]
    assert split.inputs.decode(1).image.size == (8, 8)  # found by its path


@pytest.mark.parametrize(
    "header",
    [
        "path,label",
        "Path,Class",
        "file,species",
        "FILENAME,target",
        "file_name,category",
        "File Name, Class Name",
        "image,labels",
    ],
)
def test_columns_go_by_their_usual_names(folder, header):
    dataset = read_picture_table(csv(folder, f"{header}\na.png,oak\nb.png,elm\n"))
    assert dataset.splits["all"].target.tolist() == [1, 0]


def test_columns_can_be_named(folder):
    text = "where,what,path,label,of\na.png,oak,x,y,1\nb.png,elm,x,y,2\n"
    dataset = read_picture_table(csv(folder, text), path_column="where", label_column="what", group_column="of")
    assert (dataset.classes, dataset.splits["all"].groups) == (["elm", "oak"], ["1", "2"])


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("path;label\na.png;oak\nb.png;elm\n", ".csv"),
        ("path\tlabel\na.png\toak\nb.png\telm\n", ".tsv"),
        ("path\tlabel\na.png\toak\nb.png\telm\n", ".csv"),
        ("path,label\r\na.png,oak\r\nb.png,elm\r\n", ".csv"),
        ("\ufeffpath,label\na.png,oak\nb.png,elm\n", ".csv"),
        ('"path","label"\n"a.png","oak"\n"b.png","elm"\n', ".csv"),
        (",path,label\n0,a.png,oak\n1,b.png,elm\n", ".csv"),
        ("path,label\na.png,oak\nb.png,elm", ".CSV"),
    ],
)
def test_tables_as_other_programs_write_them(folder, text, suffix):
    dataset = read_picture_table(csv(folder, text, f"table{suffix}"))
    assert dataset.classes == ["elm", "oak"]
    assert dataset.splits["all"].target.tolist() == [1, 0]


# Splits, groups, superclasses


def test_splits_go_by_their_usual_names_and_order(folder):
    text = "path,label,split\na.png,oak,Test\nb.png,oak,training\nc.png,oak,extra\nd.png,oak,VALIDATION\n"
    dataset = read_picture_table(csv(folder, text))
    assert {name: split.ids for name, split in dataset.splits.items()} == {
        "train": ["b.png"],
        "val": ["d.png"],
        "test": ["a.png"],
        "extra": ["c.png"],
    }
    assert list(dataset.splits) == ["train", "val", "test", "extra"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["train", "dev", "holdout"], ["train", "val", "test"]),
        (["train", "Dev", "EVAL"], ["train", "val", "test"]),
        (["train", "dev", "val", "test"], ["train", "dev", "val", "test"]),
        (["train", "validation", "val", "eval"], ["train", "validation", "val", "test"]),
        (["train", "dev", "validation", "test"], ["train", "dev", "val", "test"]),
        (["train", "valid", "validation", "test"], ["train", "valid", "validation", "test"]),
        (["train", "Train", "eval", "holdout"], ["train", "train", "eval", "holdout"]),
    ],
)
def test_other_names_of_splits_are_understood_where_only_one_has_that_meaning(folder, written, read):
    rows = "".join(f"{name},oak,{split}\n" for name, split in zip(NAMES, written, strict=False))
    dataset = read_picture_table(csv(folder, "path,label,split\n" + rows))
    found = {row: name for name, split in dataset.splits.items() for row in split.ids}
    assert [found[name] for name in NAMES[: len(read)]] == read


def test_a_row_without_a_split_is_left_out(folder):
    dataset = read_picture_table(csv(folder, "path,label,split\na.png,oak,train\nb.png,oak,\n"))
    assert dataset.splits["train"].ids == ["a.png"]
    assert told(dataset) == ["b.png: is in no split: left out"]


def test_classes_missing_from_a_split_are_noted(folder):
    dataset = read_picture_table(csv(folder, "path,label,split\na.png,oak,train\nb.png,elm,train\nc.png,oak,test\n"))
    assert told(dataset) == ["elm: is in train and not in test"]


def test_rows_without_a_group_are_groups_of_their_own(folder):
    dataset = read_picture_table(csv(folder, "path,label,observer\na.png,oak,anna\nb.png,oak,\nc.png,oak,anna\n"))
    assert dataset.splits["all"].groups == ["anna", "b.png", "anna"]


def test_superclasses_from_a_column(folder):
    text = "path,species,genus\na.png,robur,Quercus\nb.png,ilex,Quercus\nc.png,aquifolium,Ilex\nd.png,robur,Ilex\n"
    dataset = read_picture_table(csv(folder, text))
    assert dict(zip(dataset.classes, dataset.superclasses, strict=True)) == {
        "robur": "Ilex",  # the first in alphabetical order of two that are as frequent
        "ilex": "Quercus",
        "aquifolium": "Ilex",
    }
    assert told(dataset) == ["robur: is in 'Ilex', 'Quercus': 'Ilex', the most frequent, is kept"]


def test_a_class_without_a_superclass_is_its_own(folder):
    dataset = read_picture_table(csv(folder, "path,species,genus\na.png,robur,Quercus\nb.png,fern,\n"))
    assert dataset.superclasses == ["fern", "Quercus"]
    assert told(dataset) == ["fern: is its own superclass"]


def test_superclasses_by_the_first_word(folder):
    dataset = read_picture_table(
        csv(folder, "path,species\na.png,Quercus robur\nb.png,Ilex aquifolium\n"), superclass="first-word"
    )
    assert dataset.superclasses == ["Ilex", "Quercus"]
    with pytest.raises(InputError, match="superclass and superclass_column: .*got both"):
        read_picture_table(folder / "table.csv", superclass="first-word", superclass_column="species")


def test_a_row_with_several_labels_has_no_superclass(folder):
    path = csv(folder, "path,labels,genus\na.png,oak|elm,x\nb.png,elm,y\n")
    dataset = read_picture_table(path, separator="|")
    assert dataset.superclasses is None
    assert told(dataset) == ["genus: a row with several labels cannot say the superclass of each"]
    with pytest.raises(InputError, match="superclass_column: a row with several labels cannot say"):
        read_picture_table(path, separator="|", superclass_column="genus")


# What is odd


def test_absent_pictures_are_named_counted_and_left_out(folder):
    path = csv(folder, "path,label\na.png,oak\nx.png,elm\nsub/y.png,oak\n,oak\n")
    dataset = read_picture_table(path, tolerance=0.75)
    assert dataset.splits["all"].ids == ["a.png"]
    assert told(dataset)[:3] == [
        "x.png: there is no such file: left out",
        "sub/y.png: there is no such file: left out",
        "row 3: has no path: left out",
    ]
    assert "elm: has no row" in told(dataset)
    with pytest.raises(
        InputError, match=r"3 of 4 pictures could not be used, more than the tolerated 1\.0%; the first is x.png"
    ):
        read_picture_table(path)


def test_a_row_without_a_label_is_named_and_left_out(folder):
    dataset = read_picture_table(csv(folder, "path,label\na.png,oak\nb.png,\nc.png,  \n"))
    assert dataset.splits["all"].ids == ["a.png"]
    assert told(dataset) == ["b.png: has no label: left out", "c.png: has no label: left out"]


def test_blanks_and_case_are_noted(folder):
    dataset = read_picture_table(csv(folder, "path,label\na.png, oak\nb.png,oak\nc.png,Oak\nd.png, oak\n"))
    assert dataset.classes == ["Oak", "oak"]
    assert dataset.splits["all"].target.tolist() == [1, 1, 0, 1]
    assert told(dataset) == [
        "' oak': read as 'oak' in 2 rows, one class with that name",
        "oak: differs from 'Oak' by case or spaces only: kept as two classes",
    ]


def test_a_picture_in_several_rows_is_noted(folder):
    text = "path,label\na.png,oak\nb.png,elm\na.png,elm\nb.png,elm\nc.png,oak\n"
    dataset = read_picture_table(csv(folder, text))
    assert len(dataset.splits["all"]) == 5
    assert told(dataset) == [
        "a.png: is in 2 rows (0, 2) with different labels, 'oak', 'elm': all kept",
        "b.png: is in 2 rows (1, 3) with the same label: all kept",
    ]


def test_paths_start_from_the_root_or_are_absolute(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("tables")
    path = csv(elsewhere, f"path,label\na.png,oak\n{folder / 'b.png'},elm\n")
    assert read_picture_table(path, root=folder).splits["all"].inputs.decode(1).image.size == (8, 8)
    with pytest.raises(InputError, match="1 of 2 pictures could not be used"):
        read_picture_table(path)
    with pytest.raises(InputError, match="root: .*got '/nowhere'"):
        read_picture_table(path, root="/nowhere")


def test_backslashes_are_read_as_slashes(folder):
    write_picture(folder / "sub" / "x.png")
    dataset = read_picture_table(csv(folder, "path,label\nsub\\x.png,oak\n"))
    assert dataset.splits["all"].ids == ["sub/x.png"]
    assert any("1 paths are read with / for \\" in line for line in told(dataset))


# Pictures in the table


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_pictures_as_bytes(folder, kind):
    files = [file_of(Image.fromarray(noise(seed=seed))) for seed in range(3)]
    column = pa.array([files[0], None, files[2]], kind)
    dataset = read_picture_table(parquet(folder, image=column, label=["a", "b", "a"]), tolerance=0.4)
    split = dataset.splits["all"]
    assert split.ids == ["0", "2"]
    assert (np.asarray(split.inputs.decode(1).image) == noise(seed=2)).all()
    assert told(dataset) == ["1: has no bytes: left out", "b: has no row"]


def test_pictures_as_bytes_with_paths(folder):
    files = [file_of(Image.fromarray(noise(seed=seed))) for seed in range(2)]
    column = [{"bytes": files[0], "path": "x.png"}, {"bytes": files[1], "path": None}]
    split = read_picture_table(parquet(folder, image=column, label=[1, 0])).splits["all"]
    assert split.ids == ["x.png", "1"]
    assert (np.asarray(split.inputs.decode(1).image) == noise(seed=1)).all()


def test_paths_without_bytes_are_files(folder):
    column = pa.array([{"bytes": None, "path": "a.png"}], pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    split = read_picture_table(parquet(folder, image=column, label=[1])).splits["all"]
    assert isinstance(split.inputs, PictureFiles)


@pytest.mark.parametrize("column", [[1, 2], [{"x": 1}, {"x": 2}], [["a"], ["b"]]])
def test_other_columns_are_no_pictures(folder, column):
    with pytest.raises(InputError, match=r"image: expected paths, bytes or {bytes, path}, got"):
        read_picture_table(parquet(folder, image=column, label=["a", "b"]))


# What is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name,label\na.png,oak\n",
            r"table.csv: expected a path column \(path, file, .*\), got 'name', 'label': name it with path_column",
        ),
        ("path,name\na.png,oak\n", r"expected a label column \(label, .*\), got 'name': name it with label_column"),
        ("path,file,label\na.png,x,oak\n", "expected one path column, got 'path', 'file': name it with path_column"),
        ("path,label,species\na.png,x,oak\n", "expected one label column, got 'label', 'species'"),
        (
            "path,label,author,plant\na.png,x,y,z\n",
            "expected one group column, got 'author', 'plant': name it with group_column",
        ),
        ("path,path,label\na.png,x,oak\n", "expected columns with different names, got 'path' more than once"),
        ("path,label\na.png\n", "expected 2 cells in every row, .* got 1 in a.png"),
        ("path,label\n", "expected inputs with labels, got 0 rows and none that can be used"),
        ("path,label\na.png,\n", "got 1 rows and none that can be used"),
        ("", "expected a line with the names of the columns, got an empty file"),
    ],
)
def test_odd_tables_are_refused_in_a_sentence(folder, text, message):
    with pytest.raises(InputError, match=message) as error:
        read_picture_table(csv(folder, text))
    assert str(error.value).count("table.csv: ") == 1


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings_are_refused(folder, encoding):
    with pytest.raises(InputError, match=r"^table.csv: expected UTF-8 text"):
        read_picture_table(csv(folder, "path,label\na.png,chêne\n", encoding=encoding))


def test_a_header_in_another_encoding_is_refused(folder):
    with pytest.raises(InputError, match="expected UTF-8 text in the names of the columns"):
        read_picture_table(csv(folder, "path,label,été\na.png,oak,1\n", encoding="latin-1"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path_column": "where"}, r"expected a column 'where' \(path_column\), got 'path', 'label'"),
        ({"label_column": "y"}, r"expected columns like 'y' \(label_column\)"),
        ({"label_column": "y.*"}, r"expected columns like 'y\.\*' \(label_column\), got 'path', 'label'"),
        ({"split_column": "y"}, r"expected a column 'y' \(split_column\)"),
        ({"separator": ""}, "separator: expected the text between two labels"),
        ({"tolerance": 2}, "tolerance: expected a number from 0 to 1"),
        ({"superclass": "genus"}, "superclass: expected 'first-word'"),
    ],
)
def test_odd_options_are_refused(folder, options, message):
    with pytest.raises(InputError, match=message):
        read_picture_table(csv(folder, "path,label\na.png,oak\n"), **options)


def test_what_is_no_table_is_refused(folder):
    (folder / "table.parquet").write_text("no parquet")
    with pytest.raises(InputError, match=r"^table.parquet: cannot be read as a table"):
        read_picture_table(folder / "table.parquet")
    with pytest.raises(InputError, match=r"a.png: expected a .csv, .tsv or .parquet table"):
        read_picture_table(folder / "a.png")
    with pytest.raises(InputError, match=r"nowhere.csv: .*got nothing"):
        read_picture_table(folder / "nowhere.csv")
    (folder / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder.csv: .*got a folder"):
        read_picture_table(folder / "folder.csv")


def test_credits_and_licences_stay_with_their_pictures(tmp_path):
    for name in ("1.png", "2.png", "3.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    lines = ["file,label,Photographer,licence,colour", "1.png,oak,Ann,CC BY,red", "2.png,,Bob,CC0,blue", "3.png,elm,,CC0,green"]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    rows = read_picture_table(tmp_path / "table.csv").splits["all"]
    assert list(rows.ids) == ["1.png", "3.png"]
    assert rows.columns == {"Photographer": ["Ann", ""], "licence": ["CC BY", "CC0"]}
