"""Every picture opened once: which can be read, their prints, and what is on both sides of a split."""

import pytest
import torch

from shortlist.data import Dataset, Flora, PictureArray, Split, inspect_pictures, read_class_folders, warn_duplicates
from shortlist.errors import InputError, ShortlistWarning
from tests.data.drawings import write_picture


def test_rows_that_cannot_be_read_have_no_print(tmp_path):
    for name in ("1.png", "3.png"):
        write_picture(tmp_path / "oak" / name)
    (tmp_path / "oak" / "2.png").write_bytes(b"no picture")
    told = []
    found = inspect_pictures(read_class_folders(tmp_path), progress=told.append)
    assert found.readable["all"].tolist() == [True, False, True]
    assert found.prints["all"][1] == 0
    assert [problem.where for problem in found.unreadable] == ["oak/2.png"]
    assert told == [3]


def test_pictures_on_both_sides_are_warned_of_by_id():
    images, target, _ = Flora(species=6, genera=2).specimens(12, size=32)
    parts = {"train": torch.arange(8), "test": torch.tensor([8, 9, 10, 3])}
    splits = {
        name: Split(PictureArray(images[rows]), target[rows], [f"{name}/{row}" for row in rows.tolist()])
        for name, rows in parts.items()
    }
    dataset = Dataset("garden", Flora(species=6, genera=2).classes, splits)
    with pytest.warns(ShortlistWarning, match=r"^2 of 12 pictures .* train/3 \(train\) and test/3 \(test\)"):
        pairs = warn_duplicates(dataset, inspect_pictures(dataset).prints)
    assert pairs.tolist() == [[3, 11], [11, 3]]


def test_features_are_no_pictures():
    with pytest.raises(InputError, match="x: .*got a table of 2 features"):
        inspect_pictures(Dataset("x", ["a"], {"train": Split(torch.zeros(1, 2), torch.tensor([0]), ["r"])}))
