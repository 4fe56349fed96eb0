"""PASCAL VOC: -1, 0 and 1 of the lists, and the three readings of 0."""

import pytest

from shortlist.data.readers.voc import read_voc
from shortlist.errors import InputError
from tests.data.readers import fixtures
from tests.data.readers.fixtures import kinds, text


@pytest.mark.parametrize("inner", ["", "VOCdevkit", "VOCdevkit/VOC2007"])
def test_from_any_of_its_folders(tmp_path, inner):
    fixtures.voc(tmp_path)
    data = read_voc(tmp_path / inner)
    assert data.name == "VOC 2007"
    assert data.classes == ["cat", "person", "sofa"]
    assert data.superclasses == ["animal", "person", "indoor"]
    assert {name: list(split.ids) for name, split in data.splits.items()} == {
        "train": [f"JPEGImages/00000{n}.jpg" for n in (5, 6, 7)],
        "val": ["JPEGImages/000008.jpg"],
        "test": ["JPEGImages/000009.jpg"],
    }
    assert "2007" in data.reference


@pytest.mark.parametrize(
    ("difficult", "expected"),
    [
        ("negative", [[True, False, False], [False, True, False], [False, True, False]]),
        ("positive", [[True, False, False], [False, True, False], [True, True, False]]),
        ("drop", [[True, False, False], [False, True, False]]),
    ],
)
def test_difficult_objects(tmp_path, difficult, expected):
    fixtures.voc(tmp_path)
    data = read_voc(tmp_path, difficult=difficult)
    assert data.splits["train"].target.tolist() == expected
    assert kinds(data)["difficult labels"] == ["train"]
    assert "1 labels of 1 pictures" in data.problems[0].what


def test_2012_has_no_test_list(tmp_path):
    fixtures.voc(tmp_path, 2012, splits=("train", "val"))
    assert list(read_voc(tmp_path).splits) == ["train", "val"]


def test_years_side_by_side(tmp_path):
    fixtures.voc(tmp_path, 2007), fixtures.voc(tmp_path, 2012)
    with pytest.raises(InputError, match="year: expected one of 2007 and 2012"):
        read_voc(tmp_path)
    assert read_voc(tmp_path, year=2012).name == "VOC 2012"
    with pytest.raises(InputError, match="year: .*got 2012"):
        read_voc(tmp_path / "VOCdevkit/VOC2007", year=2012)


def test_lists_that_do_not_match(tmp_path):
    home = fixtures.voc(tmp_path)
    text(home / "ImageSets/Main/cat_train.txt", "000005  1", "000006  2", "009999 -1")
    (home / "JPEGImages/000005.jpg").unlink()
    data = read_voc(tmp_path)
    assert kinds(data)["line that cannot be read"] == ["cat_train.txt", "cat_train.txt"]
    assert kinds(data)["picture without a label"] == ["000006", "000007"]
    assert kinds(data)["absent picture"] == ["JPEGImages/000005.jpg"]


def test_a_picture_listed_twice(tmp_path):
    home = fixtures.voc(tmp_path)
    text(home / "ImageSets/Main/train.txt", "000005", "000006", "000005", "000007")
    data = read_voc(tmp_path)
    assert kinds(data)["picture named twice"] == ["000005"]
    assert data.splits["train"].target.tolist() == [[True, False, False], [False, True, False], [False, True, False]]


def test_a_list_that_is_absent_is_refused(tmp_path):
    home = fixtures.voc(tmp_path)
    (home / "ImageSets/Main/sofa_val.txt").unlink()
    with pytest.raises(InputError, match=r"sofa_val.txt: .*got nothing"):
        read_voc(tmp_path)


def test_no_voc(tmp_path):
    with pytest.raises(
        InputError, match=r"expected PASCAL VOC, with VOC2007/ImageSets/Main or its like below it.*host.robots.ox.ac.uk"
    ):
        read_voc(tmp_path)
    (tmp_path / "VOC2007/ImageSets/Main").mkdir(parents=True)
    with pytest.raises(InputError, match=r"expected lists such as train.txt and cat_train.txt, got an empty folder"):
        read_voc(tmp_path)
    with pytest.raises(InputError, match="difficult: .*got 'ignore'"):
        read_voc(tmp_path, difficult="ignore")
