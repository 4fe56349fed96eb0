"""WIDER Attribute: a row is a person, its attributes present, absent or unspecified."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from shortlist.data import load_pictures, open_dataset
from shortlist.data.pictures import PictureBoxes
from shortlist.data.readers.wider_attribute import ATTRIBUTES, read_wider_attribute
from shortlist.data.shared_files import rows_together
from shortlist.errors import InputError
from tests.data.readers import fixtures
from tests.data.readers.fixtures import WIDER, WIDER_NAMES, kinds, person


def labels(data, split):
    return [[data.classes[place] for place in row.nonzero()[:, 0]] for row in data.splits[split].target]


def test_a_row_is_a_person(tmp_path):
    data = read_wider_attribute(fixtures.wider_attribute(tmp_path))
    assert data.classes == WIDER_NAMES
    assert labels(data, "train") == [["Male", "Hat"], ["Hat", "stripe"]]
    assert labels(data, "val") == [[]]
    assert labels(data, "test") == [["Male", "skirt"]]
    assert data.splits["train"].ids == ["train/0--Parade/a.jpg[0,0,4,8]", "train/0--Parade/a.jpg[4.5,0,3,8]"]
    assert isinstance(data.splits["train"].inputs, PictureBoxes)
    assert "ECCV 2016" in data.reference


def test_persons_of_one_picture_stay_together(tmp_path):
    together = rows_together(read_wider_attribute(fixtures.wider_attribute(tmp_path)).splits["train"])
    assert len(set(together)) == 1
    assert len(together) == 2


def test_unspecified_labels_are_negative_or_cost_the_person_and_are_counted(tmp_path):
    fixtures.wider_attribute(tmp_path)
    said = [str(p) for p in read_wider_attribute(tmp_path).problems if p.kind == "unspecified labels"]
    assert said == [
        "train: 1 unspecified label of 1 person: counted as negative",
        "val: 1 unspecified label of 1 person: counted as negative",
    ]
    data = read_wider_attribute(tmp_path, unspecified="drop")
    assert labels(data, "train") == [["Male", "Hat"]]
    assert list(data.splits) == ["train", "test"]
    assert any("left out" in str(problem) for problem in data.problems if problem.kind == "unspecified labels")


def test_rows_can_be_pictures(tmp_path):
    data = read_wider_attribute(fixtures.wider_attribute(tmp_path), by="picture")
    assert data.splits["train"].ids == ["train/0--Parade/a.jpg"]
    assert labels(data, "train") == [["Male", "Hat", "stripe"]]


def test_train_and_val_together(tmp_path):
    data = read_wider_attribute(fixtures.wider_attribute(tmp_path), trainval=True)
    assert list(data.splits) == ["train", "test"]
    assert [name.partition("/")[0] for name in data.splits["train"].ids] == ["train", "train", "val"]
    assert labels(data, "train") == [["Male", "Hat"], ["Hat", "stripe"], []]
    assert len(load_pictures(data.splits["train"].inputs, size=4)) == 3


def test_the_picture_of_a_person_is_its_box_stretched_to_a_square(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    boxes = [(3, 2, 6, 12), (25, -4, 10, 10), (-5, -5, 100, 100)]
    Image.fromarray(pixels).save(tmp_path / "x.png")
    inside = [(3, 2, 9, 14), (25, 0, 30, 6), (0, 0, 30, 20)]
    pictures = PictureBoxes(tmp_path, ["x.png"] * 3, boxes)
    for row, box in enumerate(inside):
        side = max(box[2] - box[0], box[3] - box[1])
        expected = np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BILINEAR, box=box))
        assert (np.asarray(pictures.decode(row, at_least=4).image) == expected).all()
    assert pictures.rows(torch.tensor([2, 0])).ids == ["x.png[-5,-5,100,100]", "x.png[3,2,6,12]"]


def test_boxes_outside_their_picture_cannot_be_read(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png")
    loaded = load_pictures(PictureBoxes(tmp_path, ["x.png"] * 2, [(9, 0, 4, 4), (0, 0, 4, 4)]), size=4, tolerance=1.0)
    assert loaded.rows.tolist() == [1]
    assert str(loaded.problems[0]) == "x.png[9,0,4,4]: its box lies outside the picture"
    with pytest.raises(InputError, match="boxes: expected one for each of the 2 paths, got 1"):
        PictureBoxes(tmp_path, ["x.png"] * 2, [(0, 0, 1, 1)])


def test_names_are_those_published_where_the_file_has_none(tmp_path):
    assert read_wider_attribute(fixtures.wider_attribute(tmp_path, names=None)).classes == list(ATTRIBUTES) == WIDER_NAMES


@pytest.mark.parametrize(
    "odd",
    [
        person(box=(0, 0, 0, 8)),
        person(box=(0, 0, 8)),
        person(attributes=13),
        person(box=(0, "1", 2, 3)),
        {"bbox": [0, 0, 1, 1]},
        {"bbox": [0, 0, 1, 1], "attribute": [2] * 14},
        7,
    ],
)
def test_persons_that_cannot_be_read_are_noted_and_left_out(tmp_path, odd):
    data = read_wider_attribute(fixtures.wider_attribute(tmp_path, {**WIDER, "train/0--Parade/d.jpg": [odd, person(1)]}))
    assert kinds(data)["person that cannot be read"] == ["train/0--Parade/d.jpg"]
    assert labels(data, "train") == [["Male", "Hat"], ["Hat", "stripe"], ["longHair"]]


def test_the_same_box_twice_is_noted(tmp_path):
    data = read_wider_attribute(fixtures.wider_attribute(tmp_path, {**WIDER, "train/0--Parade/d.jpg": [person(1), person(2)]}))
    assert kinds(data)["picture named twice"] == ["train/0--Parade/d.jpg[0,0,4,8]"]
    assert len(data.splits["train"]) == 3


def test_absent_files(tmp_path):
    fixtures.wider_attribute(tmp_path)
    (tmp_path / "wider_attribute_annotation/wider_attribute_test.json").unlink()
    data = read_wider_attribute(tmp_path)
    assert list(data.splits) == ["train", "val"]
    assert kinds(data)["absent label file"] == ["wider_attribute_test.json"]
    with pytest.raises(InputError, match="expected WIDER Attribute, a folder with Image, got nothing"):
        read_wider_attribute(tmp_path / "absent")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("[1]", "expected an object with a list 'images'"),
        ('{"images": 1}', "expected an object with a list 'images'"),
        ('{"images"', "expected the labels of WIDER Attribute in JSON"),
        ('{"images": [], "attribute_id_map": {"1": "Male"}}', "expected attributes numbered from 0"),
    ],
)
def test_files_that_are_something_else_are_named(tmp_path, document, message):
    fixtures.wider_attribute(tmp_path)
    (tmp_path / "wider_attribute_annotation/wider_attribute_trainval.json").write_text(document)
    with pytest.raises(InputError, match=f"wider_attribute_trainval.json: {message}"):
        read_wider_attribute(tmp_path)


def test_files_that_number_the_attributes_in_another_way_are_refused(tmp_path):
    fixtures.wider_attribute(tmp_path)
    path = tmp_path / "wider_attribute_annotation/wider_attribute_test.json"
    document = json.loads(path.read_text())
    names = dict(enumerate(reversed(ATTRIBUTES)))
    path.write_text(json.dumps(document | {"attribute_id_map": names}))
    with pytest.raises(InputError, match=r"wider_attribute_test.json: expected the attributes of the other file"):
        read_wider_attribute(tmp_path)


@pytest.mark.parametrize("option", ["by=box", "unspecified=positive", "trainval=maybe"])
def test_odd_options_are_refused(tmp_path, option):
    fixtures.wider_attribute(tmp_path)
    name, _, value = option.partition("=")
    with pytest.raises(InputError, match=f"{name}: .*got '{value}'"):
        open_dataset(f"wider-attribute:{tmp_path},{option}")
    assert open_dataset(f"wider-attribute:{tmp_path}").name == "WIDER Attribute"
