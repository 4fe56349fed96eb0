"""Near duplicates: told, kept on one side of a split, or left out; groups by file name; superclasses by the last word."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

from shortlist.data import Dataset, PictureArray, Split, open_dataset
from shortlist.data.building import build_benchmark
from shortlist.data.deduplication import Copies, find_copies, treated, with_duplicates
from shortlist.data.duplicates import near_duplicates, straddling
from shortlist.data.inspection import inspect_pictures
from shortlist.data.lookalikes import Signatures, sentence_on_lookalikes
from shortlist.data.names import superclasses_of
from shortlist.data.readers.class_folders import read_class_folders
from shortlist.data.shared_files import in_two_splits
from shortlist.errors import InputError
from shortlist.training.loaded_data import load_data
from shortlist.training.recipe import Recipe
from shortlist.training.splits import split_for_training

CPU = torch.device("cpu")


def scene(seed):
    """A smooth picture, so that compression and scaling change it little."""
    blocks = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize((96, 96), Image.Resampling.BICUBIC)


def photographs(root, count=20, copies=5):
    """Two classes; the first pictures of each are there twice, once smaller and compressed harder."""
    for place, name in enumerate(("Grey heron", "Herring gull")):
        (root / name).mkdir(parents=True)
        for number in range(count):
            picture = scene(1000 * place + number)
            picture.save(root / name / f"nest{number // 2}_{number % 2}.jpg", quality=95)
            if number < copies:
                picture.resize((80, 80)).save(root / name / f"again{number}.jpg", quality=70)
    return root


@pytest.fixture
def birds(tmp_path):
    return photographs(tmp_path / "birds")


def recipe(**settings):
    return Recipe("mine", "birds", method="cross-entropy", augmentation="none", **{"size": 32, **settings})


def apart(splits):
    """Rows of these splits with a near duplicate in another, by a look at the pictures themselves."""
    seen = inspect_pictures(splits)
    sides = [name for name, split in splits.splits.items() for _ in range(len(split))]
    return len(straddling(near_duplicates(np.concatenate([seen.prints[name] for name in splits.splits])), sides))


def test_training_tells_of_near_duplicates_in_two_splits(birds):
    asked, dataset = recipe(), read_class_folders(birds)
    drawn = split_for_training(dataset, asked)
    assert apart(dataset.with_splits(drawn.splits)) > 0  # else the seed has put them all on one side
    (remark,) = load_data(drawn, asked, CPU).remarks
    assert re.search(r"birds: \d+ of 50 pictures have a near duplicate in another split, such as .*duplicates=together", remark)


@pytest.mark.parametrize("policy", ["together", "drop"])
def test_near_duplicates_end_up_on_one_side(birds, policy):
    asked, dataset = recipe(duplicates=policy), read_class_folders(birds)
    drawn = split_for_training(dataset, asked)
    assert apart(dataset.with_splits(drawn.splits)) == 0
    assert sum(map(len, drawn.splits.values())) == (50 if policy == "together" else 40)
    assert (
        "20 pictures have near duplicates, kept together" if policy == "together" else "10 near duplicates left out"
    ) in drawn.remarks[0]
    assert not load_data(drawn, asked, CPU).remarks


def given(birds, root, test="again*.jpg"):
    """The same with two splits: these in test, and others in train."""
    for folder in birds.iterdir():
        for split in ("train", "test"):
            (root / split / folder.name).mkdir(parents=True)
        chosen = set(folder.glob(test))
        for path in folder.iterdir():
            (root / ("test" if path in chosen else "train") / folder.name / path.name).write_bytes(path.read_bytes())
    return root


def test_copies_in_two_given_splits_are_warned_of_and_not_called_kept_together(birds, tmp_path):
    """Of five copies in each class the last two are in train beside their originals, the others in test."""
    asked, dataset = recipe(duplicates="together"), read_class_folders(given(birds, tmp_path / "given", "again[0-2].jpg"))
    drawn = split_for_training(dataset, asked)
    assert "8 pictures have near duplicates, kept together" in drawn.remarks
    [warning] = drawn.warnings
    assert "1 problem: near duplicates in two splits 1" in warning
    assert "train/Grey heron/nest0_0.jpg (train) and test/Grey heron/again0.jpg (test): 12 pictures have" in warning
    assert "duplicates=drop" in warning


def test_rows_without_copies_are_no_group_of_two_splits(birds, tmp_path):
    """Copies within each of two splits, and pictures that have none: nothing is on two sides."""
    root = given(birds, tmp_path / "given", "nothing")
    for folder in (root / "test").iterdir():
        scene(9000 + len(folder.name)).save(folder / "unlike.jpg")
        for number in range(4):
            scene(5000 + 100 * len(folder.name) + number).save(folder / f"own{number}.jpg", quality=95)
            scene(5000 + 100 * len(folder.name) + number).save(folder / f"twin{number}.jpg", quality=60)
    drawn = split_for_training(read_class_folders(root), recipe(duplicates="together"))
    assert drawn.warnings == []


def test_the_copy_in_test_stays(birds, tmp_path):
    dataset = read_class_folders(given(birds, tmp_path / "given"))
    left = with_duplicates(dataset, "drop")
    assert {name: len(split) for name, split in left.splits.items()} == {"train": 30, "test": 10}
    assert (
        "10 near duplicates left out (train 10): train/Grey heron/nest0_0.jpg (like test/Grey heron/again0.jpg)"
        in left.notes[0]
    )
    assert with_duplicates(dataset, "keep") is dataset


def test_copies_with_another_label_are_told_and_never_dropped(birds):
    scene(3).save(birds / "Herring gull" / "mislabelled.jpg")
    dataset = read_class_folders(birds)
    told = find_copies(dataset, inspect_pictures(dataset).prints).sentences()
    assert told[0].startswith(
        "21 of 51 pictures have a near duplicate, such as Grey heron/again0.jpg and Grey heron/nest0_0.jpg"
    )
    assert told[1].startswith(
        "1 group of near duplicates is in two classes, such as Grey heron/again3.jpg (Grey heron) and Herring"
    )
    left = with_duplicates(dataset, "drop").splits["all"].ids
    assert "Herring gull/mislabelled.jpg" in left
    assert len(left) == 41


def test_groups_of_the_data_and_duplicates_are_kept_together_both(birds):
    dataset = read_class_folders(birds, group=r"([^/]+/nest\d+)_")
    split = with_duplicates(dataset, "together").splits["all"]
    group = dict(zip(split.ids, split.groups, strict=True))
    assert group["Grey heron/nest0_0.jpg"] == group["Grey heron/nest0_1.jpg"] == group["Grey heron/again0.jpg"]
    assert group["Grey heron/nest0_0.jpg"] != group["Grey heron/nest9_0.jpg"]
    assert len(set(split.groups)) == 20


@pytest.mark.parametrize(
    ("train", "test", "clusters", "shared"),
    [
        (["oak", "oak", "elm"], ["oak", "fir"], [0, 1, 2, 3, 4], {"oak"}),  # no copies
        (["oak", "oak", "elm"], ["oak", "fir"], [0, 0, 2, 3, 4], {"oak"}),  # in train
        (["oak", "ash", "elm"], ["oak", "fir"], [0, 1, 2, 3, 3], {"oak"}),  # in test
        (["oak", "ash", "elm"], ["elm", "fir"], [0, 1, 1, 3, 4], {"ash"}),  # elm belongs to ash since they share a picture
        (["oak", "ash", "elm"], ["fir", "yew"], [0, 1, 1, 3, 3], set()),
        (["oak", "ash", "elm"], ["fir", "yew"], [0, 1, 2, 2, 4], set()),  # a copy in two splits is told as such
        (["oak", "ash", "train picture 1"], None, [0, 1, 1, 3, 3], set()),
        (None, ["train picture 0", "fir"], [0, 0, 2, 3, 4], set()),
    ],
)
def test_a_group_in_two_splits_is_noticed_whichever_of_them_has_copies(train, test, clusters, shared):
    """Groups have one name in every split, also those that near duplicates have merged; new names are no others'."""
    splits = {
        name: Split(PictureArray(torch.zeros(rows, 3, 8, 8, dtype=torch.uint8)), torch.zeros(rows).long(), ids, groups)
        for name, rows, ids, groups in (("train", 3, list("abc"), train), ("test", 2, list("de"), test))
    }
    copies = Copies(list("abcde"), ["train"] * 3 + ["test"] * 2, torch.tensor(clusters), None, None)
    merged = treated(Dataset("trees", ["tree"], splits), copies, "together").splits
    assert {problem.where for problem in in_two_splits(merged)} == shared
    for part, groups, numbers in ((merged["train"], train, clusters[:3]), (merged["test"], test, clusters[3:])):
        for row in range(len(part)):
            for other in range(row):
                alike = numbers[row] == numbers[other] or (groups is not None and groups[row] == groups[other])
                assert part.groups is None or (part.groups[row] == part.groups[other]) == alike


def test_a_benchmark_with_duplicates_together_or_dropped(birds):
    for policy, rows in (("keep", 50), ("together", 50), ("drop", 40)):
        built = build_benchmark(read_class_folders(birds), duplicates=policy)
        assert sum(map(len, built.dataset.splits.values())) == rows
        assert (apart(built.dataset) == 0) == (policy != "keep")
        assert any("near duplicate" in line for line in built.made) == (policy != "keep")


def test_other_words_and_other_inputs_are_refused(birds):
    dataset = read_class_folders(birds)
    for call in (
        lambda: with_duplicates(dataset, "merge"),
        lambda: recipe(duplicates="merge"),
        lambda: build_benchmark(dataset, duplicates="merge"),
    ):
        with pytest.raises(InputError, match="duplicates: expected .*keep.*together.*drop"):
            call()
    from shortlist.data import as_dataset

    with pytest.raises(InputError, match="duplicates: expected keep, as .* features"):
        with_duplicates(as_dataset(([[0.0], [1.0]], [0, 1])), "drop")


# Signatures


def test_windows_of_larger_squares_are_compared_with_test_pictures():
    large = torch.from_numpy(np.stack([np.asarray(scene(n).resize((74, 74))) for n in range(4)])).permute(0, 3, 1, 2)
    window = large[:, :, 5:69, 5:69]
    seen = {"train": Signatures.of(large, 64 / 74), "test": Signatures.of(window)}
    ids = {"train": list("abcd"), "test": list("efgh")}
    assert sentence_on_lookalikes(seen, ids).startswith(
        "8 of 8 pictures have a near duplicate in another split, such as a (train) and e"
    )
    assert "duplicates=" not in sentence_on_lookalikes(seen, ids, "together")
    assert sentence_on_lookalikes({"train": seen["train"]}, ids) is None


def test_the_same_print_of_another_picture_is_no_near_duplicate():
    """A darker background gives the same differences between neighbours."""
    ramp = torch.linspace(0, 80, 32).round().to(torch.uint8).expand(1, 3, 32, 32)
    seen = {"train": Signatures.of(ramp), "test": Signatures.of(ramp + 150)}
    assert seen["train"].prints == seen["test"].prints
    assert sentence_on_lookalikes(seen, {"train": ["a"], "test": ["b"]}) is None


# Groups by file name, and superclasses


def test_groups_by_a_pattern_in_paths(birds):
    split = open_dataset(f"{birds},group=([^/]+)_").splits["all"]
    group = dict(zip(split.ids, split.groups, strict=True))
    assert group["Grey heron/nest3_0.jpg"] == group["Grey heron/nest3_1.jpg"] == "nest3"
    assert group["Grey heron/again1.jpg"] == "Grey heron/again1.jpg"
    drawn = split_for_training(open_dataset(f"{birds},group=([^/]+)_"), recipe())
    homes = {}
    for name, part in drawn.splits.items():
        for one in part.groups:
            assert homes.setdefault(one, name) == name


@pytest.mark.parametrize(("pattern", "said"), [("(", "regular expression"), ("zzz", "that some path matches")])
def test_a_pattern_that_cannot_be_used_is_refused(birds, pattern, said):
    with pytest.raises(InputError, match=f"group: .*{said}"):
        read_class_folders(birds, group=pattern)


def test_superclasses_by_the_last_word():
    assert superclasses_of(["Herring gull", "Common_Gull", "Grey heron", "Ruff"], "last-word") == [
        "gull",
        "gull",
        "heron",
        "Ruff",
    ]
    with pytest.raises(InputError, match="superclass: expected 'first-word', 'last-word'"):
        superclasses_of(["a"], "genus")
