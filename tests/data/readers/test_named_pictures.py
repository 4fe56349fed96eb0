"""What all readers of label files share: absent pictures, rows given twice, classes that a split lacks, names alike."""

import numpy as np
import pytest

from shortlist.data.readers.named_pictures import NamedPictures, dataset_of, distinct_names
from shortlist.data.shared_files import in_two_splits
from shortlist.errors import InputError
from tests.data.readers.fixtures import kinds, pictures


def rows(*pairs, groups=None):
    return NamedPictures([path for path, _ in pairs], np.array([label for _, label in pairs], np.int64), groups)


def test_absent_pictures_are_left_out_with_their_group(tmp_path):
    pictures(tmp_path, "a/1.jpg", "b/3.jpg")
    named = rows(("a/1.jpg", 0), ("a/2.jpg", 0), ("b/3.jpg", 1), ("c/4.jpg", 1), groups=list("wxyz"))
    data = dataset_of("garden", tmp_path, ["oak", "elm"], {"train": named})
    assert kinds(data) == {"absent picture": ["a/2.jpg", "c/4.jpg"]}
    split = data.splits["train"]
    assert list(split.ids) == ["a/1.jpg", "b/3.jpg"]
    assert split.target.tolist() == [0, 1]
    assert list(split.groups) == ["w", "y"]
    assert split.inputs.decode(1).image.size == (8, 8)


def test_a_split_without_any_picture_is_one_problem(tmp_path):
    pictures(tmp_path, "a/1.jpg")
    named = {"train": rows(("a/1.jpg", 0)), "test": rows(("b/1.jpg", 0), ("b/2.jpg", 0)), "val": rows()}
    data = dataset_of("garden", tmp_path, ["oak"], named)
    assert list(data.splits) == ["train"]
    assert [str(problem) for problem in data.problems] == [
        "test: none of its 2 pictures is there: left out",
        "val: has no row with a label: left out",
    ]


def test_names_stay_apart_where_one_is_like_another_with_its_code():
    assert distinct_names(["a (x)", "a", "a"], ["w", "x", "y"]) == ["a (x) (w)", "a (x) (x)", "a (y)"]


def test_nothing_at_all_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected the pictures of garden, a/1.jpg the first of them, got none of 2"):
        dataset_of("garden", tmp_path, ["oak"], {"train": rows(("a/1.jpg", 0), ("a/2.jpg", 0))})
    with pytest.raises(InputError, match="expected the pictures of garden, got no row with a label"):
        dataset_of("garden", tmp_path, ["oak"], {"train": rows()})


def test_a_picture_named_twice_is_kept_once(tmp_path):
    pictures(tmp_path, "a.jpg", "b.jpg")
    named = rows(("a.jpg", 0), ("b.jpg", 1), ("a.jpg", 0), ("b.jpg", 0))
    data = dataset_of("garden", tmp_path, ["oak", "elm"], {"train": named})
    assert data.splits["train"].target.tolist() == [0, 1]
    assert [problem.what for problem in data.problems] == [
        "again, with the same label: the first is kept",
        "again, with another label: the first is kept",
    ]


def test_a_picture_in_two_splits_is_kept_in_both(tmp_path):
    pictures(tmp_path, "a.jpg")
    named = {"train": rows(("a.jpg", 0)), "test": rows(("a.jpg", 0))}
    data = dataset_of("garden", tmp_path, ["oak"], named)
    assert [len(split) for split in data.splits.values()] == [1, 1]
    (problem,) = in_two_splits(data.splits)
    assert problem.kind == "picture files in two splits"


def test_classes_that_a_split_lacks_are_noted(tmp_path):
    pictures(tmp_path, "a.jpg", "b.jpg", "c.jpg")
    named = {"train": rows(("a.jpg", 0), ("b.jpg", 1)), "val": rows(("c.jpg", 0))}
    data = dataset_of("garden", tmp_path, ["oak", "elm", "Elm"], named)
    assert kinds(data) == {"names alike": ["Elm"], "class missing from a split": ["elm"], "empty class": ["Elm"]}
    different = dataset_of("garden", tmp_path, ["oak", "elm"], named, same_classes=False)
    assert different.problems == []
