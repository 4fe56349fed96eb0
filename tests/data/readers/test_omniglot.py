"""Omniglot as published and merged: classes are characters of an alphabet, splits by drawer or by set."""

import pytest

from shortlist.data.readers.omniglot import read_omniglot
from shortlist.errors import InputError
from tests.data.readers import fixtures
from tests.data.readers.fixtures import kinds, picture, text

CLASSES = ["Ge_ez/character01", "Ge_ez/character02", "Malay_(Jawi_-_Arabic)/character01"]


@pytest.mark.parametrize("merged", [False, True])
def test_splits_by_drawer_hold_every_class(tmp_path, merged):
    data = read_omniglot(fixtures.omniglot(tmp_path, merged))
    assert data.classes == CLASSES
    assert data.superclasses == ["Ge_ez", "Ge_ez", "Malay_(Jawi_-_Arabic)"]
    assert {name: split.target.tolist() for name, split in data.splits.items()} == {
        "train": [0, 0, 1, 1, 2, 2],
        "val": [0, 1, 2],
        "test": [0, 1, 2],
    }
    assert data.splits["val"].groups == ["Ge_ez/15", "Ge_ez/15", "Malay_(Jawi_-_Arabic)/15"]
    assert data.problems == []
    assert data.splits["train"].inputs.decode(0).pixels.shape == (3, 8, 8)


@pytest.mark.parametrize("merged", [False, True])
def test_splits_by_set_hold_different_classes(tmp_path, merged):
    data = read_omniglot(fixtures.omniglot(tmp_path, merged), by="set")
    assert {name: sorted(set(split.target.tolist())) for name, split in data.splits.items()} == {
        "background": [0, 1],
        "evaluation": [2],
    }
    assert data.problems == []


def test_a_folder_of_alphabets(tmp_path):
    fixtures.omniglot(tmp_path, merged=True)
    assert read_omniglot(tmp_path / "omniglot_resized").splits["val"].ids[0] == "Ge_ez/character01/0012_15.png"


def test_one_set_alone(tmp_path):
    fixtures.omniglot(tmp_path)
    (tmp_path / "images_evaluation").rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    assert read_omniglot(tmp_path).classes == CLASSES[:2]
    assert list(read_omniglot(tmp_path, by="set").splits) == ["background"]


def test_what_else_lies_there_is_noted(tmp_path):
    fixtures.omniglot(tmp_path, merged=True)
    text(tmp_path / "omniglot_resized/resize_images.py", "")
    text(tmp_path / "omniglot_resized/Ge_ez/character01/Thumbs.db", "")
    picture(tmp_path / "omniglot_resized/Ge_ez/other/0012_15.png")
    data = read_omniglot(tmp_path)
    expected = [
        "omniglot_resized/resize_images.py",
        "omniglot_resized/Ge_ez/other",
        "omniglot_resized/Ge_ez/character01/Thumbs.db",
    ]
    assert kinds(data) == {"no drawing": expected}


def test_drawers_of_ones_own(tmp_path):
    fixtures.omniglot(tmp_path)
    data = read_omniglot(tmp_path, drawers={"train": [20], "test": [1, 14]})
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 3, "test": 6}
    with pytest.raises(InputError, match="drawers: .*got 1 in train and in test"):
        read_omniglot(tmp_path, drawers={"train": [1], "test": [1]})


def test_no_omniglot(tmp_path):
    with pytest.raises(
        InputError, match=r"expected Omniglot, with images_background and .*got an empty folder.*brendenlake.*download_omniglot"
    ):
        read_omniglot(tmp_path)
    with pytest.raises(InputError, match="by: .*got 'person'"):
        read_omniglot(tmp_path, by="person")
