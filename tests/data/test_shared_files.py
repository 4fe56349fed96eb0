"""One picture file in two rows: on one side of a split that is drawn, and reported in splits that are given."""

import torch

from shortlist.data.dataset import Dataset, Split
from shortlist.data.pictures import PictureFiles
from shortlist.data.shared_files import in_two_splits, rows_together, with_two_labels
from shortlist.training.splits import split_for_training
from tests.training.test_splits import recipe, three, whole


def files(root, paths, groups=None):
    return Split(PictureFiles(root, paths), torch.arange(len(paths)) % 2, paths, groups)


def test_a_file_is_the_same_however_its_path_is_written(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "link.png").symlink_to(tmp_path / "a.png")
    groups = rows_together(files(tmp_path, ["a.png", "./a.png", "x/../a.png", "link.png", "b.png"]))
    assert len(set(groups[:4])) == 1
    assert groups[4] != groups[0]
    assert rows_together(files(tmp_path, ["a.png", "b.png"])) is None


def test_groups_that_share_a_file_are_one(tmp_path):
    groups = rows_together(files(tmp_path, ["a", "./a", "b", "./b", "c"], ["1", "2", "2", "3", "4"]))
    assert groups[0] == groups[1] == groups[2] == groups[3] != groups[4]


def test_drawn_splits_never_divide_a_file(tmp_path):
    paths = [f"{'./' * (row % 2)}{row // 2}.png" for row in range(400)]
    target = torch.arange(400) // 2 % 4
    data = Dataset("twice", list("abcd"), {"all": Split(PictureFiles(tmp_path, paths), target, paths)})
    chosen = split_for_training(data, recipe())
    homes = [{path.removeprefix("./") for path in part.ids} for part in chosen.splits.values()]
    assert sum(map(len, homes)) == len(set.union(*homes)) == 200
    assert chosen.warnings == []


def test_files_and_groups_in_two_given_splits_are_counted(tmp_path):
    splits = {
        "train": files(tmp_path, ["a", "b", "c"], ["1", "2", "3"]),
        "test": files(tmp_path, ["./a", "./b", "d"], ["4", "3", "5"]),
    }
    found = [str(problem) for problem in in_two_splits(splits)]
    assert "a: is in train and in test: 2 picture files are in two splits" in found[0]
    assert "3: is in train and in test: 1 group is in two splits" in found[1]
    data = three()
    both = {name: Split(part.inputs, part.target, part.ids, ["one"] * len(part)) for name, part in data.splits.items()}
    (warning,) = split_for_training(data.with_splits(both), recipe(calibration_share=0.0)).warnings
    assert "1 group is in two splits" in warning
    assert split_for_training(whole(), recipe()).warnings == []


def test_a_file_with_two_labels_is_a_problem(tmp_path):
    (problem,) = with_two_labels({"all": files(tmp_path, ["a", "./a", "b", "c", "./b"])})
    assert "a: has rows with different labels: 1 picture file has two" in str(problem)
    assert not [*with_two_labels({"all": files(tmp_path, ["a", "b", "./a"])})]
