"""Any folder of class folders: splits, links, names and whatever else people keep in folders."""

import json
import os
import sys

import pytest
import torch

from shortlist.data import read_class_folders
from shortlist.errors import InputError
from shortlist.recipes.tuning import TUNING
from shortlist.training import Recipe
from shortlist.training.run_folder import RunFolder
from tests.data.drawings import write_picture

BY_ROOT = sys.platform == "win32" or os.geteuid() == 0


def make(root, *paths):
    for path in paths:
        write_picture(root / path)
    return root


def kinds(dataset):
    return sorted((problem.kind, problem.where) for problem in dataset.problems)


# What is read


def test_runs_that_training_put_into_the_folder_are_no_classes(tmp_path):
    """The folder ``runs`` became a class at the next training, and the run could not be resumed."""
    leaves = make(tmp_path / "leaves", "oak/1.jpg", "elm/1.jpg", "ash/deep/1.jpg")
    described = Recipe("mine", str(leaves))
    before = read_class_folders(leaves)
    RunFolder(leaves / "runs/first").write_recipe(described)
    (leaves / "runs/search").mkdir()
    (leaves / "runs/search" / TUNING).write_text(json.dumps({"recipe": described.record()}))
    RunFolder(leaves / "mine").write_recipe(described)
    make(leaves, "runs/first/figure.png")
    after = read_class_folders(leaves)
    assert after.classes == before.classes == ["ash", "elm", "oak"]
    assert after.splits["all"].ids == before.splits["all"].ids
    assert kinds(after) == [("folder of a run", "mine"), ("folder of a run", "runs")]


@pytest.mark.parametrize("place", ["runs/exp1/seed0", "runs/a/b/c/seed0"])
def test_runs_are_no_classes_however_deep_they_lie(tmp_path, place):
    leaves = make(tmp_path / "leaves", "oak/1.jpg", "elm/1.jpg")
    RunFolder(leaves / place).write_recipe(Recipe("mine", str(leaves)))
    make(leaves, f"{place}/figure.png")
    (leaves / "runs/logs").mkdir()
    (leaves / "runs/logs/notes.txt").write_text("started at nine")
    (leaves / "runs/again").symlink_to(leaves / "runs")
    dataset = read_class_folders(leaves)
    assert dataset.classes == ["elm", "oak"]
    assert kinds(dataset) == [("folder of a run", "runs")]


def test_a_class_keeps_its_pictures_beside_a_run(tmp_path):
    leaves = make(tmp_path / "leaves", "oak/1.jpg", "elm/deep/1.jpg", "elm/empty/no/1.jpg")
    (leaves / "elm/empty/no/1.jpg").unlink()
    RunFolder(leaves / "elm/runs/first").write_recipe(Recipe("mine", str(leaves)))
    make(leaves, "elm/runs/first/figure.png")
    dataset = read_class_folders(leaves)
    assert dataset.splits["all"].ids == ["elm/deep/1.jpg", "oak/1.jpg"]
    assert kinds(dataset) == [("folder of a run", "elm/runs/first")]


def test_a_folder_without_runs_or_pictures_is_a_class_without_pictures(tmp_path):
    leaves = make(tmp_path / "leaves", "oak/1.jpg", "elm/1.jpg")
    (leaves / "ash/deep").mkdir(parents=True)
    (leaves / "ash/deep/recipe.json").write_text('{"flour": 500}')
    assert "folder of a run" not in dict(kinds(read_class_folders(leaves)))


def test_a_class_with_a_file_of_that_name_stays_a_class(tmp_path):
    leaves = make(tmp_path / "leaves", "oak/1.jpg", "runs/2024/1.jpg", "elm/1.jpg")
    (leaves / "elm/recipe.json").write_text('{"flour": 500}')
    (leaves / "runs/2024/recipe.json").write_text("[")
    assert read_class_folders(leaves).classes == ["elm", "oak", "runs"]


def test_every_folder_is_a_class(tmp_path):
    dataset = read_class_folders(make(tmp_path / "leaves", "oak/2.jpg", "oak/1.png", "elm/1.JPG"))
    assert dataset.name == "leaves"
    assert dataset.classes == ["elm", "oak"]
    assert list(dataset.splits) == ["all"]
    split = dataset.splits["all"]
    assert split.ids == ["elm/1.JPG", "oak/1.png", "oak/2.jpg"]
    assert split.target.tolist() == [0, 1, 1]
    assert split.target.dtype == torch.int64
    assert split.inputs.decode(2).image.size == (8, 8)
    assert list(dataset.problems) == []


@pytest.mark.parametrize(
    "names",
    [("train", "val", "test"), ("Training", "VALID", "testing"), ("train", "dev", "holdout"), ("train", "validation", "test")],
)
def test_splits_go_by_the_names_of_folders(tmp_path, names):
    root = make(tmp_path, *(f"{name}/{species}/1.png" for name in names for species in ("oak", "elm")))
    dataset = read_class_folders(root)
    assert sorted(dataset.splits) == ["test", "train", "val"]
    assert dataset.splits["train"].ids == [f"{names[0]}/elm/1.png", f"{names[0]}/oak/1.png"]
    assert dataset.train_counts.tolist() == [1, 1]


def test_one_split_alone_is_a_split(tmp_path):
    assert list(read_class_folders(make(tmp_path, "train/oak/1.png")).splits) == ["train"]


def test_pictures_lie_at_any_depth_below_their_class(tmp_path):
    dataset = read_class_folders(make(tmp_path, "oak/1.png", "oak/2021/may/2.png", "oak/2022/3.png"))
    assert dataset.classes == ["oak"]
    assert dataset.splits["all"].ids == ["oak/1.png", "oak/2021/may/2.png", "oak/2022/3.png"]


def test_classes_are_the_same_in_all_splits_and_gaps_are_noted(tmp_path):
    dataset = read_class_folders(make(tmp_path, "train/oak/1.png", "train/elm/1.png", "test/oak/2.png", "test/ash/1.png"))
    assert dataset.classes == ["ash", "elm", "oak"]
    assert dataset.splits["train"].target.tolist() == [1, 2]
    assert dataset.splits["test"].target.tolist() == [0, 2]
    assert {str(problem) for problem in dataset.problems} == {
        "ash: is in test and not in train",
        "elm: is in train and not in test",
    }


def test_empty_classes_keep_their_place_and_are_noted(tmp_path):
    (tmp_path / "ash").mkdir()
    dataset = read_class_folders(make(tmp_path, "oak/1.png"))
    assert dataset.classes == ["ash", "oak"]
    assert dataset.splits["all"].target.tolist() == [1]
    assert kinds(dataset) == [("empty class", "ash")]


def test_hidden_files_and_other_files_are_passed_over(tmp_path):
    make(tmp_path, "oak/1.png", "oak/.2.png", ".git/3.png", ".oak/4.png")
    (tmp_path / "oak" / "notes.txt").write_text("x")
    (tmp_path / "readme.md").write_text("x")
    dataset = read_class_folders(tmp_path)
    assert dataset.classes == ["oak"]
    assert dataset.splits["all"].ids == ["oak/1.png"]
    assert kinds(dataset) == []


def test_pictures_beside_the_class_folders_are_noted(tmp_path):
    dataset = read_class_folders(make(tmp_path, "oak/1.png", "2.png"))
    assert kinds(dataset) == [("picture outside a class folder", "2.png")]
    dataset = read_class_folders(make(tmp_path / "split", "train/oak/1.png", "train/2.png"))
    assert kinds(dataset) == [("picture outside a class folder", "train/2.png")]


def test_pictures_beside_the_splits_are_noted(tmp_path):
    dataset = read_class_folders(make(tmp_path, "train/oak/1.png", "2.png"))
    assert kinds(dataset) == [("picture outside a class folder", "2.png")]


def test_other_folders_beside_the_splits_are_left_out_and_noted(tmp_path):
    dataset = read_class_folders(make(tmp_path, "train/oak/1.png", "test/oak/2.png", "annotations/1.png"))
    assert list(dataset.splits) == ["train", "test"]
    assert dataset.classes == ["oak"]
    assert [str(problem) for problem in dataset.problems] == ["annotations: lies beside train, test: left out"]


def test_a_folder_that_may_mean_a_split_that_is_there_is_left_out_and_noted(tmp_path):
    dataset = read_class_folders(make(tmp_path, "train/oak/1.png", "test/oak/2.png", "holdout/oak/3.png"))
    assert list(dataset.splits) == ["train", "test"]
    assert [str(problem) for problem in dataset.problems] == ["holdout: lies beside train, test: left out"]


def test_two_folders_for_one_split_are_refused(tmp_path):
    with pytest.raises(InputError, match="train means the same split as another folder: rename one"):
        read_class_folders(make(tmp_path, "train/oak/1.png", "training/oak/9.png"))


def test_a_class_called_like_a_split_is_a_class_among_classes(tmp_path):
    dataset = read_class_folders(make(tmp_path, "test/1.png", "oak/2.png"))
    assert dataset.classes == ["oak", "test"]
    assert kinds(dataset) == [("class called like a split", "test")]


def test_names_alike_are_noted(tmp_path):
    dataset = read_class_folders(make(tmp_path, "red oak/1.png", "red_oak/1.png", "elm/1.png"))
    assert dataset.classes == ["elm", "red oak", "red_oak"]
    assert kinds(dataset) == [("names alike", "red_oak")]


def test_a_folder_copied_from_macos_in_part_is_noted(tmp_path):
    dataset = read_class_folders(make(tmp_path, "h\u00eatre/1.png", "he\u0302tre/2.png", "elm/1.png"))
    assert len(dataset.classes) == 3
    assert kinds(dataset) == [("names alike", "h\u00eatre")]


def test_names_keep_their_accents_and_signs(tmp_path):
    dataset = read_class_folders(make(tmp_path, "chêne d'été, n° 1/é è.png"))
    assert dataset.classes == ["chêne d'été, n° 1"]
    assert dataset.splits["all"].inputs.decode(0).image.size == (8, 8)


def test_the_first_word_is_the_genus(tmp_path):
    dataset = read_class_folders(
        make(tmp_path, "Quercus robur/1.png", "Quercus_ilex/1.png", "Ilex/1.png"), superclass="first-word"
    )
    assert dataset.superclasses == ["Ilex", "Quercus", "Quercus"]


def test_a_folder_named_like_a_picture_is_a_folder(tmp_path):
    assert read_class_folders(make(tmp_path, "oak/x.jpg/1.png")).splits["all"].ids == ["oak/x.jpg/1.png"]


# Links


def test_links_to_pictures_and_folders_are_followed(tmp_path):
    make(tmp_path / "elsewhere", "1.png")
    root = make(tmp_path / "root", "oak/1.png")
    (root / "oak" / "2.png").symlink_to(tmp_path / "elsewhere" / "1.png")
    (root / "elm").symlink_to(tmp_path / "elsewhere")
    assert read_class_folders(root).splits["all"].ids == ["elm/1.png", "oak/1.png", "oak/2.png"]


def test_a_link_to_its_own_folder_is_followed_no_further(tmp_path):
    root = make(tmp_path, "oak/deep/1.png")
    (root / "oak" / "deep" / "up").symlink_to(root / "oak")
    dataset = read_class_folders(root)
    assert dataset.splits["all"].ids == ["oak/deep/1.png"]
    assert kinds(dataset) == [("link to a folder read already", "oak/deep/up")]


def test_a_link_to_the_root_is_followed_no_further(tmp_path):
    root = make(tmp_path, "oak/1.png", "elm/1.png")
    (root / "oak" / "up").symlink_to(root)
    dataset = read_class_folders(root)
    assert dataset.splits["all"].ids == ["elm/1.png", "oak/1.png"]
    assert kinds(dataset) == [("link to a folder read already", "oak/up")]


def test_a_link_to_nothing_is_noted(tmp_path):
    root = make(tmp_path, "oak/1.png")
    (root / "oak" / "2.png").symlink_to("nothing.png")
    dataset = read_class_folders(root)
    assert dataset.splits["all"].ids == ["oak/1.png"]
    assert kinds(dataset) == [("link to nothing", "oak/2.png")]


def test_a_link_to_itself_is_noted(tmp_path):
    root = make(tmp_path, "oak/1.png")
    (root / "oak" / "2.png").symlink_to("2.png")
    assert kinds(read_class_folders(root)) == [("link to nothing", "oak/2.png")]


# Names and permissions


def test_names_that_are_not_utf8_are_left_out_and_shown(tmp_path):
    make(tmp_path, "oak/1.png")
    try:
        os.rename(tmp_path / "oak" / "1.png", os.path.join(os.fsencode(tmp_path), b"oak", b"caf\xe9.png"))
        make(tmp_path, "oak/2.png")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    dataset = read_class_folders(tmp_path)
    assert dataset.splits["all"].ids == ["oak/2.png"]
    assert [str(problem) for problem in dataset.problems] == ["oak/caf\\xe9.png: rename it: left out"]


@pytest.mark.skipif(BY_ROOT, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_noted(tmp_path):
    root = make(tmp_path, "oak/1.png", "elm/1.png")
    (root / "elm").chmod(0)
    try:
        dataset = read_class_folders(root)
    finally:
        (root / "elm").chmod(0o755)
    assert dataset.splits["all"].ids == ["oak/1.png"]
    assert ("folder that may not be read", "elm") in kinds(dataset)


# What is refused


def test_no_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nowhere: .*got nothing"):
        read_class_folders(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file: .*got a file"):
        read_class_folders(tmp_path / "file")


def test_a_class_called_train_is_named_where_no_class_is_found(tmp_path):
    with pytest.raises(InputError, match="expected class folders in train, which is read as a split, got none: rename train"):
        read_class_folders(make(tmp_path, "bus/1.png", "car/1.png", "train/1.png"))


def test_a_folder_without_folders_is_refused(tmp_path):
    with pytest.raises(InputError, match="expected folders with pictures in them, one folder a class, got no folder below it"):
        read_class_folders(make(tmp_path, "1.png"))


def test_folders_without_pictures_are_refused(tmp_path):
    (tmp_path / "oak").mkdir()
    (tmp_path / "elm").mkdir()
    with pytest.raises(InputError, match="got 2 folders without a picture"):
        read_class_folders(tmp_path)


def test_one_class_is_enough(tmp_path):
    assert read_class_folders(make(tmp_path, "oak/1.png")).classes == ["oak"]


def test_an_unknown_rule_for_superclasses_is_refused(tmp_path):
    with pytest.raises(InputError, match="superclass: .*got 'genus'"):
        read_class_folders(make(tmp_path, "oak/1.png"), superclass="genus")


def test_links_that_branch_again_and_again_are_followed_once(tmp_path):
    """Twenty levels with two links each would be a million ways to one picture."""
    root = make(tmp_path / "root", "oak/0/1.png")
    for level in range(20):
        (tmp_path / f"{level + 1}").mkdir()
        for name in ("a", "b"):
            below = root / "oak" / "0" if level == 0 else tmp_path / f"{level}"
            (tmp_path / f"{level + 1}" / name).symlink_to(below)
    (root / "oak" / "top").symlink_to(tmp_path / "20")
    dataset = read_class_folders(root)
    assert len(dataset.splits["all"]) == 1
    assert {kind for kind, _ in kinds(dataset)} == {"link to a folder read already"}
