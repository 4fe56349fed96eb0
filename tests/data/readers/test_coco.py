"""COCO: labels of a picture are the categories of its annotations; iNaturalist's files have the same form."""

import json

import pytest

from shortlist.data.readers.coco import read_coco
from shortlist.errors import InputError
from tests.data.readers import fixtures
from tests.data.readers.fixtures import dump, kinds


@pytest.mark.parametrize("year", [2014, 2017])
def test_labels_follow_ascending_ids_and_rows_follow_the_images(tmp_path, year):
    fixtures.coco(tmp_path, year)
    data = read_coco(tmp_path)
    assert data.name == f"COCO {year}"
    assert data.classes == ["person", "fire hydrant", "stop sign"]
    assert data.superclasses == ["person", "outdoor", "outdoor"]
    train = data.splits["train"]
    assert train.target.tolist() == [[True, False, True], [False, False, False], [False, True, False]]
    assert train.ids[1] == ("train2017/000000000025.jpg" if year == 2017 else "train2014/COCO_train2014_000000000025.jpg")
    assert data.splits["val"].target.tolist() == [[True, False, False]]
    assert data.multi_label
    assert "1405.0312" in data.reference


def test_years_side_by_side(tmp_path):
    fixtures.coco(tmp_path, 2014), fixtures.coco(tmp_path, 2017)
    with pytest.raises(InputError, match="year: expected one of 2014 and 2017"):
        read_coco(tmp_path)
    assert read_coco(tmp_path, year=2014).name == "COCO 2014"


def test_pictures_without_annotation_are_dropped_on_request(tmp_path):
    fixtures.coco(tmp_path)
    kept, data = read_coco(tmp_path), read_coco(tmp_path, unannotated="drop")
    assert data.splits["train"].target.tolist() == [[True, False, True], [False, True, False]]
    assert data.splits["train"].ids == [kept.splits["train"].ids[row] for row in (0, 2)]
    assert data.splits["val"].target.tolist() == kept.splits["val"].target.tolist()
    dropped = [str(problem) for problem in data.problems if problem.kind == "pictures without annotation"]
    assert dropped == ["train: 1 picture of 3 without annotation: left out"]
    assert "pictures without annotation" not in kinds(kept)
    with pytest.raises(InputError, match="unannotated: .*got 'no'"):
        read_coco(tmp_path, unannotated="no")


def change(path, edit):
    document = json.loads(path.read_text())
    edit(document)
    dump(path, document)


def test_an_id_that_means_another_category_in_the_second_file_is_refused(tmp_path):
    """The ids of val were read by the names of train."""
    fixtures.coco(tmp_path)
    path = tmp_path / "annotations/instances_val2017.json"
    change(path, lambda document: document.update(categories=[{"id": 1, "name": "zebra"}, {"id": 11, "name": "person"}]))
    with pytest.raises(InputError, match=r"val2017.json: .* instances_train2017.json, got 'zebra' with the id 1, .*'person'"):
        read_coco(tmp_path)
    change(path, lambda document: document.update(categories=[{"id": 1, "name": "person"}]))  # some of them
    assert read_coco(tmp_path).splits["val"].target.tolist() == [[True, False, False]]


def test_annotations_that_name_nothing_known(tmp_path):
    fixtures.coco(tmp_path)
    path = tmp_path / "annotations/instances_train2017.json"
    odd = [{"image_id": 77, "category_id": 1, "id": 9}, {"image_id": 25, "category_id": 12, "id": 10}]
    change(path, lambda document: document["annotations"].extend(odd))
    data = read_coco(tmp_path)
    assert [str(problem) for problem in data.problems][:2] == [
        "instances_train2017.json: annotations name image 77, which is not in the file: left out",
        "instances_train2017.json: annotations name category 12, which is not among the categories: left out",
    ]
    assert not data.splits["train"].target[1].any()


def test_an_image_id_given_twice(tmp_path):
    fixtures.coco(tmp_path)
    path = tmp_path / "annotations/instances_train2017.json"
    change(path, lambda document: document["images"].append({"id": 9, "file_name": "other.jpg"}))
    data = read_coco(tmp_path)
    assert "image id given twice" in kinds(data)
    assert len(data.splits["train"]) == 3


def test_categories_without_supercategory(tmp_path):
    fixtures.coco(tmp_path)
    change(tmp_path / "annotations/instances_train2017.json", lambda document: document["categories"][0].pop("supercategory"))
    assert read_coco(tmp_path).superclasses is None


def test_categories_of_one_name_are_told_apart_and_noted(tmp_path):
    fixtures.coco(tmp_path)
    for split in ("train", "val"):
        path = tmp_path / f"annotations/instances_{split}2017.json"
        change(path, lambda document: [one.update(name="sign") for one in document["categories"] if one["id"] > 1])
    data = read_coco(tmp_path)
    assert data.classes == ["person", "sign (11)", "sign (13)"]
    assert kinds(data)["name of several classes"] == ["sign"]


def test_pictures_and_label_files_that_are_absent(tmp_path):
    fixtures.coco(tmp_path)
    (tmp_path / "train2017/000000000025.jpg").unlink()
    (tmp_path / "annotations/instances_val2017.json").unlink()
    data = read_coco(tmp_path)
    assert kinds(data)["absent picture"] == ["train2017/000000000025.jpg"]
    assert kinds(data)["absent label file"] == ["annotations/instances_val2017.json"]
    assert data.splits["train"].target.tolist() == [[True, False, True], [False, True, False]]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.pop("annotations"), "expected an object with a list 'annotations' of objects in it, got none"),
        (lambda d: d["images"][0].pop("file_name"), "expected a file_name in each of images, got one without"),
        (lambda d: d["images"][0].pop("id"), "expected a whole number 'id' in each record, got one without"),
        (lambda d: d["annotations"][0].update(category_id="cat"), "expected a whole number 'category_id' in each record"),
        (lambda d: d["annotations"][0].update(image_id=9.5), "expected a whole number 'image_id' in each record"),
        (
            lambda d: d["categories"].append(dict(d["categories"][0])),
            "expected categories with ids of their own, got one twice",
        ),
    ],
)
def test_a_label_file_that_lacks_something_is_refused(tmp_path, edit, message):
    fixtures.coco(tmp_path)
    change(tmp_path / "annotations/instances_train2017.json", edit)
    with pytest.raises(InputError, match=f"instances_train2017.json: {message}"):
        read_coco(tmp_path)


def test_no_coco(tmp_path):
    with pytest.raises(InputError, match=r"expected the folder of MS-COCO, with annotations in it.*cocodataset.org"):
        read_coco(tmp_path)
    (tmp_path / "annotations").mkdir()
    with pytest.raises(InputError, match=r"expected instances_train2017.json or its like, got none"):
        read_coco(tmp_path)
