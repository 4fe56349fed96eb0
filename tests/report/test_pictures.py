"""Pictures of a page: found by id, small, within their bytes, and nothing but pixels."""

import base64
import io

import pytest
import torch
from PIL import Image

from shortlist.data import Dataset, PictureArray, PictureFiles, Split
from shortlist.data.thumbnails import jpeg_uri, small_jpeg
from shortlist.errors import InputError
from shortlist.report import PagePictures
from shortlist.sets import LabelList
from tests.report.garden import folder, garden, painted


def content(uri):
    head, _, text = uri.partition(",")
    assert head == "data:image/jpeg;base64"
    return base64.b64decode(text)


def answer(name, target=None):
    return LabelList(name, [], [], target)


def test_a_thumbnail_keeps_no_place_and_no_comment(tmp_path):
    exif = Image.Exif()
    exif[0x010F] = "camera of somebody"
    exif.get_ifd(0x8825)[1] = "N"
    path = tmp_path / "photo.jpg"
    Image.new("RGB", (640, 320), (10, 200, 30)).save(path, exif=exif, comment=b"secret place")
    assert b"secret place" in path.read_bytes()
    with Image.open(path) as image:
        small = small_jpeg(image, 100)
    assert b"secret" not in small
    assert b"camera" not in small
    with Image.open(io.BytesIO(small)) as found:
        assert found.size == (100, 50)
        assert not found.getexif()
        assert "comment" not in found.info
    assert content(jpeg_uri(small)) == small


def test_pictures_are_found_by_id_and_no_larger_than_their_side():
    data = garden([0, 1, 1], ["oak", "elm"], size=32)
    pictures = PagePictures(data, side=16)
    uri, missing = pictures.embed(answer("2", ["elm"]))
    assert missing == ""
    with Image.open(io.BytesIO(content(uri))) as image:
        assert image.size == (16, 16)
    assert pictures.used == len(uri)
    assert pictures.embed(answer("7")) == (None, "no picture with this id")
    assert pictures.knows("2")
    assert not pictures.knows("7")


def test_a_picture_with_another_label_is_another_picture():
    pictures = PagePictures(garden([0, 1], ["oak", "elm"]))
    assert pictures.embed(answer("0", ["elm"])) == (None, "the picture with this id has another label")
    assert pictures.embed(answer("0", ["oak"]))[0] is not None
    assert pictures.embed(answer("0"))[0] is not None


def test_labels_of_several_are_compared_as_sets():
    target = torch.tensor([[True, False, True]])
    rows = Split(PictureArray(painted([0]), ["x"]), target, ["x"], classes=["oak", "elm", "yew"])
    pictures = PagePictures(rows)
    assert pictures.embed(answer("x", ["yew", "oak"]))[0] is not None
    assert pictures.embed(answer("x", ["oak"]))[0] is None


def test_the_test_split_comes_first():
    parts = [Split(PictureArray(painted([0], size), ["0"]), torch.tensor([0]), ["0"]) for size in (8, 24)]
    pictures = PagePictures(Dataset("d", ["oak"], {"train": parts[0], "test": parts[1]}))
    with Image.open(io.BytesIO(content(pictures.embed(answer("0"))[0]))) as image:
        assert image.size == (24, 24)


def test_pictures_are_left_out_once_their_bytes_are_used_up():
    data = garden([0, 0, 0], ["oak"])
    size = len(PagePictures(data).embed(answer("0"))[0])
    pictures = PagePictures(data, most_bytes=int(2.5 * size))
    found = [pictures.embed(answer(str(row)))[0] for row in range(3)]
    assert [uri is not None for uri in found] == [True, True, False]
    assert pictures.left_out == 1
    assert pictures.used <= pictures.most_bytes
    assert PagePictures(data, most_bytes=0).embed(answer("0"))[0] is None


def test_a_picture_that_cannot_be_read_says_why(tmp_path):
    uri, missing = PagePictures(folder(tmp_path, broken=[1])).embed(answer("1.png"))
    assert uri is None
    assert missing
    assert PagePictures(Split(PictureFiles(tmp_path, ["0.png"]), None, ["0.png"])).embed(answer("0.png"))[0] is not None


def test_features_and_wrong_numbers_are_refused():
    with pytest.raises(InputError, match="pictures: .*got features"):
        PagePictures(Split(torch.zeros(1, 2), None, ["a"]))
    with pytest.raises(InputError, match="most_bytes: .*got -1"):
        PagePictures(garden([0], ["oak"]), most_bytes=-1)
    with pytest.raises(InputError, match="side: .*got 0"):
        PagePictures(garden([0], ["oak"]), side=0)


def test_paths_may_begin_further_up_if_only_one_row_ends_like_them():
    names = ["a/1.png", "b/1.png", "b/2.png"]
    pictures = PagePictures(Split(PictureArray(painted(names), names), None, names))
    assert pictures.knows("leaves/b/1.png")
    assert pictures.knows("2.png")
    assert not pictures.knows("1.png")  # of two
    assert not pictures.knows("c/1.png")
    assert not pictures.knows("")
    assert pictures.embed(answer("/home/leaves/a/1.png")) == PagePictures(
        Split(PictureArray(painted(names), names), None, names)
    ).embed(answer("a/1.png"))
