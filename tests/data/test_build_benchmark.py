"""Building a benchmark from an archive: every picture opened, what cannot be read left out, duplicates and groups watched."""

from collections import Counter

import pytest
import torch
from PIL import Image

from shortlist.data import Dataset, PictureArray, Split, build_benchmark, read_class_folders, read_picture_table
from shortlist.errors import InputError
from tests.data.archives import TREES, plant
from tests.data.drawings import noise
from tests.data.test_building import named, sides, table
from tests.references import building as ref


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    return read_class_folders(plant(tmp_path_factory.mktemp("archive")), superclass="first-word")


def test_an_archive_becomes_a_benchmark(trees):
    told = []
    built = build_benchmark(trees, progress=told.append)
    kept = {name: count for name, count in TREES.items() if count >= 5}
    assert built.dataset.classes == list(kept)
    assert built.dataset.superclasses == ["Acer", "Acer", "Ilex", "Quercus"]
    by_split = [split.counts(4).tolist() for split in built.dataset.splits.values()]
    assert [list(each) for each in zip(*by_split, strict=True)] == [ref.divided(n, 0.1) for n in kept.values()]
    assert all(identity.startswith(f"{name}/") for identity, name in named(built.dataset).items())
    assert [str(problem) for problem in built.dataset.problems] == ["Quercus alba: has 3 of at least 5 rows: left out"]
    assert built.notes == []
    assert told[-1] == 33


def test_how_it_was_made_is_said_in_sentences(trees):
    text = "\n".join(build_benchmark(trees, superclasses=0.5, fewest=3, share=0.2, seed=7).made)
    assert f"From {trees.name}: 36 pictures of 5 classes." in text
    assert "50% of the superclasses, drawn with seed 7" in text
    assert "that have at least 3 pictures" in text
    assert "⌈0.2 n⌉ of each class" in text
    assert "all classes" in "\n".join(build_benchmark(trees).made)


def test_a_benchmark_comes_from_its_seed(trees):
    first, again, other = (build_benchmark(trees, seed=seed).dataset for seed in (1, 1, 2))
    assert sides(first) == sides(again) != sides(other)
    assert first.classes == other.classes
    genera = [build_benchmark(trees, superclasses=0.3, seed=seed).dataset.superclasses[0] for seed in [*range(8), *range(8)]]
    assert genera[:8] == genera[8:]
    assert len(set(genera)) > 1  # with probability 1 - 3^-7


def test_whole_genera_are_drawn(trees):
    for seed in range(3):
        built = build_benchmark(trees, superclasses=0.5, fewest=3, seed=seed).dataset
        genera = set(built.superclasses)
        assert len(genera) == 2
        assert built.classes == [name for name in TREES if name.split()[0] in genera]


def test_splits_of_the_archive_are_pooled(tmp_path):
    plant(tmp_path / "train", {"oak": 4, "elm": 5})
    plant(tmp_path / "test", {"oak": 2, "elm": 1}, seed=1)
    built = build_benchmark(read_class_folders(tmp_path)).dataset
    assert [split.counts(2).tolist() for split in built.splits.values()] == [[4, 4], [1, 1], [1, 1]]


def test_unreadable_pictures_are_left_out_and_named(tmp_path):
    archive = read_class_folders(plant(tmp_path, broken=["Quercus robur/7.png", "Acer rubrum/0.png"]))
    built = build_benchmark(archive, tolerance=2 / 33).dataset  # as many as are tolerated
    assert "Quercus robur/7.png" not in named(built)
    assert Counter(named(built).values()) == Counter({**TREES, "Quercus robur": 11, "Acer rubrum": 5, "Quercus alba": 0})
    unreadable = [problem for problem in built.problems if problem.kind == "unreadable picture"]
    assert [problem.where for problem in unreadable] == ["Acer rubrum/0.png", "Quercus robur/7.png"]
    with pytest.raises(InputError, match=r"^2 of 33 pictures could not be used, .*6.0%; the first is Acer rubrum/0\.png: "):
        build_benchmark(archive, tolerance=0.06)


def test_unreadable_pictures_of_classes_that_are_left_out_do_not_count(tmp_path):
    archive = read_class_folders(plant(tmp_path, broken=["Quercus alba/0.png"]))
    built = build_benchmark(archive, tolerance=0)
    assert [problem.kind for problem in built.dataset.problems] == ["class too small"]


def test_a_class_that_unreadable_pictures_make_too_small_is_left_out(tmp_path):
    archive = read_class_folders(plant(tmp_path, broken=["Ilex aquifolium/4.png"]))
    built = build_benchmark(archive, tolerance=0.1).dataset
    assert "Ilex aquifolium" not in built.classes
    assert all(split.target.max() < len(built.classes) == 3 for split in built.splits.values())
    assert [str(problem) for problem in built.problems if problem.kind == "class too small"] == [
        "Quercus alba: has 3 of at least 5 rows: left out",
        "Ilex aquifolium: has 4 of at least 5 rows: left out",
    ]


def test_an_archive_of_which_nothing_is_left_is_refused(tmp_path):
    archive = read_class_folders(plant(tmp_path, {"oak": 5}, broken=["oak/0.png"]))
    with pytest.raises(InputError, match="no class that was drawn has 5 rows"):
        build_benchmark(archive, tolerance=1)


@pytest.mark.parametrize("tolerance", [-0.1, 1.5, float("nan"), "few"])
def test_the_tolerance_is_checked(trees, tolerance):
    with pytest.raises(InputError, match="tolerance: expected a number from 0 to 1"):
        build_benchmark(trees, tolerance=tolerance)


@pytest.mark.parametrize("options", [{"share": 0.5}, {"tolerance": 2}, {"by_group": True}])
def test_what_was_asked_for_is_checked_before_pictures_are_opened(trees, options):
    told = []
    with pytest.raises(InputError):
        build_benchmark(trees, progress=told.append, **options)
    assert told == []


def test_a_class_too_small_for_the_share_is_named(trees):
    with pytest.raises(InputError, match="Acer rubrum"):
        build_benchmark(trees, share=0.4)


def test_near_duplicates_on_both_sides_are_noted_and_no_warning_escapes(tmp_path, recwarn):
    """A class of five pictures gives every split one; all five are the same picture, saved in different ways."""
    plant(tmp_path, {"elm": 5})
    (tmp_path / "oak").mkdir()
    picture = Image.fromarray(noise(8, 9, seed=5)).resize((72, 64), Image.Resampling.NEAREST)
    picture.save(tmp_path / "oak" / "1.png")
    picture.save(tmp_path / "oak" / "2.jpg", quality=92)
    picture.resize((36, 32), Image.Resampling.BOX).save(tmp_path / "oak" / "3.png")
    picture.point(lambda value: value * 7 // 8).save(tmp_path / "oak" / "4.png")
    picture.save(tmp_path / "oak" / "5.webp", quality=90)
    (note,) = build_benchmark(read_class_folders(tmp_path)).notes
    assert note.startswith("5 of 10 pictures have a near duplicate in another split")
    assert "oak/1.png" in note
    assert not recwarn.list


def test_a_picture_that_is_listed_twice_is_noted_where_its_rows_are_apart(tmp_path):
    plant(tmp_path, {"oak": 1, "elm": 5})
    rows = ["oak/0.png,oak"] * 5 + [f"elm/{n}.png,elm" for n in range(5)]
    (tmp_path / "all.csv").write_text("\n".join(["path,label", *rows]))
    built = build_benchmark(read_picture_table(tmp_path / "all.csv"))
    assert [split.counts(2).tolist() for split in built.dataset.splits.values()] == [[3, 3], [1, 1], [1, 1]]
    assert built.notes[0].startswith("5 of 10 pictures have a near duplicate")


def grouped(folder, classes, trees):
    """A table whose pictures n and n + trees are of one tree."""
    plant(folder, classes)
    rows = [f"{name}/{n}.png,{name},{name}-{n % trees}" for name, count in classes.items() for n in range(count)]
    (folder / "all.csv").write_text("\n".join(["path,label,plant", *rows]))
    return read_picture_table(folder / "all.csv")


def test_groups_stay_on_one_side(tmp_path):
    built = build_benchmark(grouped(tmp_path, {"oak": 20, "elm": 30}, 10), share=0.2, by_group=True)
    homes = [set(split.groups) for split in built.dataset.splits.values()]
    assert sum(map(len, homes)) == len(set.union(*homes)) == 20
    assert [split.counts(2).tolist() for split in built.dataset.splits.values()] == [[18, 12], [6, 4], [6, 4]]
    assert any("whole groups, about 20% of each class" in sentence for sentence in built.made)
    assert built.notes == []


def test_a_class_of_one_group_is_noted(tmp_path):
    built = build_benchmark(grouped(tmp_path, {"oak": 6, "elm": 6}, 1), by_group=True)
    assert any("in one split only, as groups stay whole" in note for note in built.notes)


def test_a_class_of_one_group_is_noted_by_name(tmp_path):
    built = build_benchmark(grouped(tmp_path, {"oak": 6, "elm": 6}, 1), by_group=True)
    assert any("oak" in note for note in built.notes)


def test_features_are_refused():
    with pytest.raises(InputError, match=r"expected pictures, got .*features"):
        build_benchmark(table([5, 5]))


def test_pictures_in_memory_are_divided_too():
    images = torch.stack([torch.from_numpy(noise(9, 9, seed=[9, n])).permute(2, 0, 1) for n in range(12)])
    ids = [f"picture-{row}" for row in range(12)]
    data = Dataset("memory", ["oak", "elm"], {"all": Split(PictureArray(images, ids), torch.arange(12) % 2, ids)})
    built = build_benchmark(data)
    assert [split.counts(2).tolist() for split in built.dataset.splits.values()] == [[4, 4], [1, 1], [1, 1]]
    assert built.notes == []


def test_different_pictures_of_one_name_are_no_duplicates():
    """Parquet tables of {bytes, path} often call every picture image.jpg."""
    images = torch.stack([torch.from_numpy(noise(9, 9, seed=[8, n])).permute(2, 0, 1) for n in range(6)])
    rows = Split(PictureArray(images, ["image.jpg"] * 6), torch.zeros(6, dtype=torch.int64), ["image.jpg"] * 6)
    assert build_benchmark(Dataset("memory", ["oak"], {"all": rows})).notes == []
