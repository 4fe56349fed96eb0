"""Multi-label datasets from ARFF files: which attributes are labels, what features become, and the folders of Mulan."""

import pytest
import torch

from shortlist.data.readers.arff import read_arff, read_mulan
from shortlist.errors import InputError
from tests.data.readers.arff_texts import HEADER, write, xml


def told(dataset):
    return [str(problem) for problem in dataset.problems]


PLANTS = """@relation plants
@attribute oak {0,1}
@attribute width real
@attribute soil {7,10,2}
@attribute colour {red,green}
@attribute note string
@attribute elm {1,0}
@attribute ash {0,1}
@data
1,0.5,10,green,hello,1,0
0,-1,7,red,?,0,0
{1 2, 6 1}
"""


def test_labels_and_features_of_one_file(tmp_path):
    dataset = read_arff(write(tmp_path, PLANTS), labels=["ash", "oak", "elm"])
    split = dataset.splits["all"]
    assert dataset.name == "leaves"
    assert dataset.classes == ["oak", "elm", "ash"]  # the order of the file
    assert split.target.tolist() == [[True, True, False], [False, False, False], [False, True, True]]
    assert split.inputs.dtype == torch.float32
    assert split.inputs.tolist() == [[0.5, 10, 0, 1], [-1, 7, 1, 0], [2, 7, 1, 0]]  # width, soil, red, green
    assert split.ids == ["all/0", "all/1", "all/2"]
    assert told(dataset) == ["note: is text or a date, which is no feature: left out"]


@pytest.mark.parametrize(
    ("relation", "classes"),
    [("'x: -C 1'", ["oak"]), ("'x: -c -2 -split 5'", ["elm", "ash"]), ("'x: -split-percentage 10 -C -1'", ["ash"])],
)
def test_labels_as_meka_names_them(tmp_path, relation, classes):
    assert read_arff(write(tmp_path, PLANTS.replace("plants", relation, 1))).classes == classes


@pytest.mark.parametrize("relation", ["plants", "'x: -C 0'", f"'x: -C {'9' * 5000}'", "'x: -C 7'", "'x: -C -99'"])
def test_labels_must_be_named_somehow(tmp_path, relation):
    with pytest.raises(InputError, match=r"leaves.arff: expected labels as an XML file or as names, or -C in the relation"):
        read_arff(write(tmp_path, PLANTS.replace("plants", relation, 1)))


def test_numeric_labels_and_words(tmp_path):
    header = (
        "@relation x\n@attribute a numeric\n@attribute b {false,true}\n@attribute c {Yes,No}\n@attribute n numeric\n@data\n"
    )
    text = f"{header}1,true,No,3\n0,false,Yes,4\n"
    dataset = read_arff(write(tmp_path, text), labels=["a", "b", "c"])
    assert dataset.splits["all"].target.tolist() == [[True, True, False], [False, False, True]]


def test_values_with_underscores_are_names(tmp_path):
    text = "@relation x\n@attribute n {1_0,2_0}\n@attribute a {0,1}\n@data\n2_0,1\n"
    assert read_arff(write(tmp_path, text), labels=["a"]).splits["all"].inputs.tolist() == [[0, 1]]


def test_nominal_values_that_would_be_too_many_columns_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.data.readers.arff_file.MOST_CELLS", 20)
    text = "@relation x\n@attribute n {a,b,c,d,e,f,g}\n@attribute y {0,1}\n@data\n" + "a,1\n" * 3
    with pytest.raises(InputError, match=r"leaves.arff: expected at most 20 values, .* got 3 rows of 7"):
        read_arff(write(tmp_path, text), labels=["y"])


def test_rows_with_missing_values_are_left_out(tmp_path):
    rows = "1,?,10,green,x,1,0\n?,1,10,green,x,1,0\n1,1,10,?,x,1,0\n1,1,?,red,x,1,0\n1,1,10,red,x,1,0\n"
    dataset = read_arff(
        write(tmp_path, PLANTS.split("@data")[0] + "@data\n" + rows), labels=["oak", "elm", "ash"], tolerance=0.6
    )
    assert dataset.splits["all"].ids == ["all/4"]
    assert told(dataset)[1:5] == [
        "all/0: has no number in 'width': left out",
        "all/2: has no number in 'colour': left out",
        "all/3: has no number in 'soil': left out",
        "all/1: has a label that is missing: left out",
    ]
    with pytest.raises(InputError, match="3 of 5 rows could not be used"):
        read_arff(tmp_path / "leaves.arff", labels=["oak", "elm", "ash"])


def test_weights_are_noted(tmp_path):
    dataset = read_arff(write(tmp_path, PLANTS + "0,-1,7,red,?,0,0,{2}\n"), labels=["oak"])
    assert "all: 1 rows have a weight, which is ignored" in told(dataset)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["oak", "yew"], "leaves.arff: expected an attribute for every label, got none for 'yew'"),
        ([], "expected an attribute for every label"),
        (["colour"], "label 'colour': expected the values 0 and 1, got red, green"),
        (["width"], "label 'width': expected the values 0 and 1, got numeric"),
        (["note"], "label 'note': expected the values 0 and 1, got text"),
        (["oak", "width", "soil", "colour", "note", "elm", "ash"], "expected attributes beside the 7 labels, got none"),
    ],
)
def test_odd_labels_are_refused(tmp_path, labels, message):
    with pytest.raises(InputError, match=message):
        read_arff(write(tmp_path, PLANTS), labels=labels)


def test_two_files_must_have_the_same_attributes(tmp_path):
    train = write(tmp_path, PLANTS, "train.arff")
    other = PLANTS.replace("{7,10,2}", "{2,7,10}")
    with pytest.raises(InputError, match=r"test.arff: expected the attribute 'soil' as in the first file"):
        read_arff(train, write(tmp_path, other, "test.arff"), labels=["oak"])
    with pytest.raises(InputError, match=r"test.arff: .*got 3"):
        read_arff(train, write(tmp_path, HEADER, "test.arff"), labels=["oak"])


# Mulan


@pytest.mark.parametrize(
    "names",
    [
        ("plants-train.arff", "plants-test.arff", "plants.xml"),
        ("Plants-train-sparse.arff", "Plants-test-sparse.arff", "Plants.xml"),
        ("PLANTS-TRAIN.ARFF", "plants-test.arff", "plants.XML"),
    ],
)
def test_the_files_of_mulan_are_found(tmp_path, names):
    for name in names[:2]:
        write(tmp_path, PLANTS, name)
    write(tmp_path, xml("ash", "oak"), names[2])
    (tmp_path / "README.md").write_text("x")
    dataset = read_mulan(tmp_path)
    assert dataset.name == names[2].split(".")[0]
    assert list(dataset.splits) == ["train", "test"]
    assert dataset.classes == ["oak", "ash"]
    assert dataset.splits["test"].ids[0] == "test/0"
    assert "JMLR" in dataset.reference


def test_one_file_of_mulan_is_one_split(tmp_path):
    write(tmp_path, PLANTS, "plants.arff")
    write(tmp_path, xml("ash"), "plants.xml")
    assert list(read_mulan(tmp_path).splits) == ["all"]


def test_several_datasets_in_a_folder_need_a_name(tmp_path):
    for name in ("plants", "trees"):
        write(tmp_path, PLANTS, f"{name}-train.arff")
        write(tmp_path, xml("ash"), f"{name}.xml")
    with pytest.raises(InputError, match=r"expected one dataset \(NAME-train.arff and NAME.xml\), got plants, trees: name one"):
        read_mulan(tmp_path)
    assert read_mulan(tmp_path, "Trees").name == "trees"
    with pytest.raises(InputError, match=r"expected yew-train.arff and yew.xml, got plants, trees"):
        read_mulan(tmp_path, "yew")


def test_a_folder_without_mulan_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected one dataset .*, got none"):
        read_mulan(tmp_path)
    with pytest.raises(InputError, match=r"nowhere: expected a folder with NAME-train.arff"):
        read_mulan(tmp_path / "nowhere")


def test_classes_missing_from_a_split_are_noted(tmp_path):
    write(tmp_path, PLANTS, "p-train.arff")
    write(tmp_path, PLANTS.split("@data")[0] + "@data\n1,0,7,red,x,0,0\n", "p-test.arff")
    write(tmp_path, xml("oak", "ash"), "p.xml")
    assert "ash: is in train and not in test" in told(read_mulan(tmp_path))
