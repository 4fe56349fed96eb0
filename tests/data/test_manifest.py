"""A benchmark as a folder: files with their checksums, folder names that any file system takes, a manifest that reads back."""

import csv
import hashlib
import os
from pathlib import Path

import pytest
import torch

from shortlist.data import Dataset, PictureArray, PictureFiles, Split, read_class_folders, read_picture_table, write_benchmark
from shortlist.data.manifest import COLUMNS, Entry, pictures_folder, repeated_pictures
from shortlist.data.readers.benchmark import read_benchmark
from shortlist.errors import InputError
from tests.data.drawings import write_picture

SPLITS = ("train", "val", "test")


def colour(number):
    return (number * 37 % 256, number * 91 % 256, number % 256)


def dataset(folder, classes, superclasses=None, groups=False, splits=SPLITS):
    """A picture of every class in every split, all of them different."""
    number, parts = 0, {}
    for split in splits:
        paths = []
        for label in range(len(classes)):
            number += 1
            paths.append(f"{label}/{split}-{number}.png")
            write_picture(folder / paths[-1], colour(number), (4, 4))
        owners = [f"tree-{label}" for label in range(len(classes))] if groups else None
        parts[split] = Split(PictureFiles(folder, paths), torch.arange(len(classes)), paths, owners)
    return Dataset("trees", classes, parts, superclasses)


def rows_of(path):
    """A CSV file as dictionaries."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def trees(tmp_path):
    return dataset(tmp_path / "archive", ["Acer rubrum", "Quercus robur"], ["Acer", "Quercus"], groups=True)


def files_below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# Files


@pytest.mark.parametrize("placing", ["link", "copy", "none"])
def test_lengths_and_checksums_are_those_of_the_files(trees, out, tmp_path, placing):
    entries = write_benchmark(trees, out, placing=placing)
    assert [entry.source for entry in entries] == [identity for split in trees.splits.values() for identity in split.ids]
    for entry in entries:
        home = tmp_path / "archive" if placing == "none" else out
        source, placed = (tmp_path / "archive" / entry.source).read_bytes(), (home / entry.path).read_bytes()
        assert placed == source
        assert (entry.bytes, entry.sha256) == (len(source), hashlib.sha256(source).hexdigest())


def test_long_files_are_read_whole(tmp_path, out):
    content = bytes(range(251)) * 12_000
    (tmp_path / "a.png").write_bytes(content)
    one = Split(PictureFiles(tmp_path, ["a.png"]), torch.tensor([0]), ["a.png"])
    (entry,) = write_benchmark(Dataset("x", ["oak"], {"train": one}), out)
    assert (entry.bytes, entry.sha256) == (3_012_000, hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("placing", ["link", "copy"])
def test_pictures_lie_by_split_and_class(trees, out, placing):
    entries = write_benchmark(trees, out, placing=placing)
    assert files_below(out) == sorted(["SHA256SUMS", "classes.csv", "manifest.csv", *(entry.path for entry in entries)])
    for entry in entries:
        assert Path(entry.path).parent.as_posix() == f"{entry.split}/{entry.label}"
        assert Path(entry.path).name == f"{entry.sha256[:12]}.png"


def same_file(entry, out, tmp_path):
    return os.path.samefile(out / entry.path, tmp_path / "archive" / entry.source)


def test_links_are_the_same_file_under_another_name(trees, out, tmp_path):
    try:
        os.link(tmp_path / "archive" / trees.splits["train"].ids[0], tmp_path / "probe")
    except OSError:
        pytest.skip("this file system has no links")
    assert all(same_file(entry, out, tmp_path) for entry in write_benchmark(trees, out))


def test_where_there_are_no_links_files_are_copied(trees, out, tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    for entry in write_benchmark(trees, out):
        assert not same_file(entry, out, tmp_path)
        assert (out / entry.path).read_bytes() == (tmp_path / "archive" / entry.source).read_bytes()


def test_copies_are_files_of_their_own(trees, out, tmp_path):
    (entry, *_) = write_benchmark(trees, out, placing="copy")
    assert not same_file(entry, out, tmp_path)
    (out / entry.path).write_bytes(b"changed")
    assert (tmp_path / "archive" / entry.source).read_bytes() != b"changed"


def test_a_symbolic_link_in_the_archive_becomes_the_file_it_points_at(tmp_path, out):
    write_picture(tmp_path / "real.png")
    (tmp_path / "named.png").symlink_to(tmp_path / "real.png")
    one = Split(PictureFiles(tmp_path, ["named.png"]), torch.tensor([0]), ["named.png"])
    (entry,) = write_benchmark(Dataset("x", ["oak"], {"train": one}), out)
    assert not (out / entry.path).is_symlink()
    (tmp_path / "named.png").unlink()
    (tmp_path / "real.png").unlink()
    assert (out / entry.path).stat().st_size == entry.bytes


def test_none_leaves_the_pictures_where_they_are_and_names_them_below_their_folder(trees, out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = {name: Split(PictureFiles("archive", split.ids), split.target, split.ids) for name, split in trees.splits.items()}
    entries = write_benchmark(trees.with_splits(parts), out, placing="none")
    assert files_below(out) == ["SHA256SUMS", "classes.csv", "manifest.csv"]
    assert [entry.path for entry in entries] == [entry.source for entry in entries]
    assert pictures_folder(trees) == (tmp_path / "archive").resolve()
    with pytest.raises(InputError, match="none of the pictures in its manifest is there.*pictures_root=FOLDER"):
        read_benchmark(out)
    assert read_benchmark(out, pictures_root=tmp_path / "archive").problems == []


def test_pictures_in_two_folders_are_named_below_the_one_above_both(tmp_path, out):
    for name in ("a/b/1.png", "a/c/2.png"):
        write_picture(tmp_path / name)
    (tmp_path / "named.png").symlink_to(tmp_path / "a/c/2.png")
    rows = Split(PictureFiles(tmp_path, ["a/b/1.png", "named.png"]), torch.tensor([0, 0]), ["1", "2"])
    entries = write_benchmark(Dataset("x", ["oak"], {"train": rows}), out, placing="none")
    assert [entry.path for entry in entries] == ["b/1.png", "c/2.png"]
    assert len(read_benchmark(out, pictures_root=tmp_path / "a").splits["train"]) == 2


def test_the_same_picture_several_times_is_numbered(tmp_path, out):
    paths = [f"{number}.PNG" for number in range(3)]
    for path in paths:
        write_picture(tmp_path / path)
    rows = Split(PictureFiles(tmp_path, paths), torch.tensor([0, 0, 0]), paths)
    other = Split(PictureFiles(tmp_path, paths[:1]), torch.tensor([1]), paths[:1])
    entries = write_benchmark(Dataset("x", ["oak", "elm"], {"train": rows, "test": other}), out)
    begin = entries[0].sha256[:12]
    assert [entry.path for entry in entries] == [
        f"train/oak/{begin}.png",
        f"train/oak/{begin}-2.png",
        f"train/oak/{begin}-3.png",
        f"test/elm/{begin}.png",
    ]
    assert all((out / entry.path).is_file() for entry in entries)
    assert len(read_picture_table(out / "manifest.csv").splits["train"]) == 3


def test_progress_counts_the_pictures_of_all_splits(trees, out):
    told = []
    write_benchmark(trees, out, progress=told.append)
    assert told == [1, 2, 3, 4, 5, 6]


# Names


ODD_NAMES = [
    "Acer/rubrum",
    "../../up",
    "..",
    ".",
    "...",
    ".hidden",
    "",
    " ",
    "C:\\Windows",
    "what? *star* <a|b>",
    "tab\tbell\x07",
    "x" * 300,
    "x" * 301,
    "Oak",
    "oak",
    "OAK",
    "oak ",
    "Straße",
    "STRASSE",
    "class 2",
    "木",
    "a: b",
    "a? b",
]


def test_every_class_has_a_folder_of_its_own_that_any_file_system_takes(tmp_path, out):
    data = dataset(tmp_path / "archive", ODD_NAMES, splits=["train"])
    entries = write_benchmark(data, out)
    folders = [Path(entry.path).parent.name for entry in entries]
    assert len({folder.casefold() for folder in folders}) == len(ODD_NAMES)
    assert sorted(folders) == sorted(path.name for path in (out / "train").iterdir())
    for entry, folder in zip(entries, folders, strict=True):
        assert len(Path(entry.path).parts) == 3
        assert not set('\\:*?"<>|\t\x07') & set(folder)
        assert folder == folder.strip(" .")
        assert (out / entry.path).resolve().is_relative_to(out.resolve())
    assert [entry.label for entry in entries] == ODD_NAMES
    assert [(row["name"], row["folder"]) for row in rows_of(out / "classes.csv")] == list(zip(ODD_NAMES, folders, strict=True))


def test_plain_names_stay_as_they_are(tmp_path, out):
    names = ["Acer rubrum L.f", "Été à Nîmes", "l'if (commun)", "100 %"]
    entries = write_benchmark(dataset(tmp_path / "archive", names, splits=["train"]), out)
    assert [Path(entry.path).parent.name for entry in entries] == names


@pytest.mark.parametrize("names", [["a:b", "a_b (2)", "a?b"], ["oak", "OAK (2)", "Oak"]])
def test_a_number_behind_a_name_makes_no_other_name(tmp_path, out, names):
    entries = write_benchmark(dataset(tmp_path / "archive", names, splits=["train"]), out)
    assert len({Path(entry.path).parent.name.casefold() for entry in entries}) == 3


def test_long_names_are_cut_by_their_bytes(tmp_path, out):
    write_benchmark(dataset(tmp_path / "archive", ["木" * 120], splits=["train"]), out)


def test_a_cut_name_does_not_end_in_a_blank(tmp_path, out):
    (entry,) = write_benchmark(dataset(tmp_path / "archive", ["x" * 119 + " y"], splits=["train"]), out)
    assert not Path(entry.path).parent.name.endswith(" ")


# Tables


def test_the_manifest_has_a_line_for_each_picture(trees, out):
    entries = write_benchmark(trees, out)
    found = rows_of(out / "manifest.csv")
    assert list(found[0]) == list(COLUMNS)
    assert [list(row.values()) for row in found] == [[str(value) for value in entry.row()] for entry in entries]
    first = entries[0]
    assert (first.label, first.superclass, first.split, first.group) == ("Acer rubrum", "Acer", "train", "tree-0")
    assert first.row() == [getattr(first, column) for column in COLUMNS]
    assert set(COLUMNS) == set(Entry.__dataclass_fields__)


def test_what_is_not_known_is_left_empty(tmp_path, out):
    entries = write_benchmark(dataset(tmp_path / "archive", ["oak", "elm"]), out)
    assert {(entry.superclass, entry.group) for entry in entries} == {("", "")}


def test_classes_are_listed_with_their_counts(tmp_path, out):
    paths = [f"{number}.png" for number in range(6)]
    for number, path in enumerate(paths):
        write_picture(tmp_path / path, colour(number))
    files = Split(PictureFiles(tmp_path, paths), torch.tensor([2, 0, 0, 2, 2, 0]), paths)
    parts = {"train": files.rows(torch.arange(4)), "val": files.rows(torch.arange(4, 6))}
    write_benchmark(Dataset("x", ["oak", "elm", "ash"], parts, ["Fagaceae", "Ulmaceae", "Oleaceae"]), out)
    assert rows_of(out / "classes.csv") == [
        {"label": "0", "name": "oak", "superclass": "Fagaceae", "folder": "oak", "train": "2", "val": "1"},
        {"label": "1", "name": "elm", "superclass": "Ulmaceae", "folder": "elm", "train": "0", "val": "0"},
        {"label": "2", "name": "ash", "superclass": "Oleaceae", "folder": "ash", "train": "2", "val": "1"},
    ]


QUOTED = ["a, b", 'say "oak"', "'single'", "semi;colon", "two\nlines", "carriage\r\nreturn", "NA", "null", "nan", "007"]


def test_names_with_commas_quotes_and_line_ends_come_back_as_they_were(tmp_path, out):
    names = sorted(QUOTED)
    above = [f"of {name}" for name in names]
    write_benchmark(dataset(tmp_path / "archive", names, above), out)
    for file, column in (("manifest.csv", "label"), ("classes.csv", "name")):
        assert list(dict.fromkeys(row[column] for row in rows_of(out / file))) == names
        assert list(dict.fromkeys(row["superclass"] for row in rows_of(out / file))) == above
    found = read_picture_table(out / "manifest.csv")
    assert (found.classes, found.superclasses) == (names, above)


def test_line_ends_in_names_come_back_from_a_long_manifest_too(tmp_path, out):
    write_picture(tmp_path / "a.png")
    rows = Split(PictureFiles(tmp_path, ["a.png"] * 1100), torch.zeros(1100, dtype=torch.int64), ["a.png"] * 1100)
    name = "two\nlines " + "x" * 1000
    write_benchmark(Dataset("x", [name], {"train": rows}), out, placing="none")
    assert read_picture_table(out / "manifest.csv", root=tmp_path).classes == [name]


@pytest.mark.parametrize("placing", ["link", "copy", "none"])
def test_the_manifest_reads_back_as_the_same_dataset(trees, out, placing):
    entries = write_benchmark(trees, out, placing=placing)
    found = read_picture_table(out / "manifest.csv", root=pictures_folder(trees) if placing == "none" else None)
    assert (found.classes, found.superclasses) == (trees.classes, trees.superclasses)
    assert found.problems == []
    assert list(found.splits) == list(trees.splits)
    for name, split in trees.splits.items():
        back = found.splits[name]
        assert back.target.tolist() == split.target.tolist()
        assert list(back.groups) == list(split.groups)
        assert list(back.ids) == [entry.path for entry in entries if entry.split == name]
        for row in range(len(split)):
            assert torch.equal(back.inputs.decode(row).pixels, split.inputs.decode(row).pixels)


def test_the_folder_reads_back_as_class_folders_too(trees, out):
    write_benchmark(trees, out)
    found = read_class_folders(out, superclass="first-word")
    assert (found.classes, found.superclasses, set(found.splits)) == (trees.classes, trees.superclasses, set(SPLITS))
    assert [split.counts(2).tolist() for split in found.splits.values()] == [[1, 1]] * 3


def test_a_benchmark_without_superclasses_reads_back_without(tmp_path, out):
    write_benchmark(dataset(tmp_path / "archive", ["ash", "oak"]), out)
    found = read_picture_table(out / "manifest.csv")
    assert found.superclasses is None
    assert found.problems == []


def test_labels_keep_their_numbers_where_classes_are_called_by_numbers(tmp_path, out):
    for name in ("9", "10"):
        write_picture(tmp_path / "archive" / name / "a.png", colour(int(name)))
    archive = read_class_folders(tmp_path / "archive")
    write_benchmark(archive, out)
    for source in (out, out / "manifest.csv"):
        found = read_benchmark(source)
        assert found.classes == archive.classes == ["10", "9"]
        assert found.splits["all"].target.tolist() == archive.splits["all"].target.tolist()
        assert found.name == out.name


def test_a_folder_without_a_manifest_is_no_benchmark(tmp_path):
    with pytest.raises(InputError, match=r"expected a folder with manifest.csv, as `shortlist data build` writes it"):
        read_benchmark(tmp_path)


def test_pictures_that_come_twice_are_named(tmp_path, out):
    for path in ("ash/1.png", "ash/2.png", "oak/3.png"):
        write_picture(tmp_path / "archive" / path, colour(7))
    entries = write_benchmark(read_class_folders(tmp_path / "archive"), out)
    assert [(problem.kind, str(problem)) for problem in repeated_pictures(entries)] == [
        ("same picture twice", "ash/2.png: is ash/1.png again: both kept"),
        ("same picture under two labels", "oak/3.png: is ash/1.png again, there 'ash' and here 'oak': both kept"),
    ]


# Refusals


def test_features_and_pictures_in_memory_are_refused(out):
    memory = PictureArray(torch.zeros(1, 3, 4, 4, dtype=torch.uint8))
    for inputs in (memory, torch.zeros(1, 2)):
        data = Dataset("garden", ["oak"], {"train": Split(inputs, torch.tensor([0]), ["a"])})
        with pytest.raises(InputError, match=r"^garden: expected picture files, got "):
            write_benchmark(data, out)


def test_other_ways_to_place_files_are_refused(trees, out):
    with pytest.raises(InputError, match=r"^placing: .*got 'move'$"):
        write_benchmark(trees, out, placing="move")
    assert files_below(out) == []


def test_many_labels_a_row_are_refused(tmp_path, out):
    write_picture(tmp_path / "a.png")
    rows = Split(PictureFiles(tmp_path, ["a.png"]), torch.ones(1, 2, dtype=torch.bool), ["a.png"])
    with pytest.raises(InputError):
        write_benchmark(Dataset("x", ["oak", "elm"], {"train": rows}), out)


def test_classes_come_back_exactly_as_they_were_written(tmp_path, out):
    """' lead' and 'lead' became one class when the benchmark was opened."""
    names = ["lead", " lead", "lead ", " zinc", "10", "9", "NA"]
    write_benchmark(dataset(tmp_path / "archive", names), out)
    found = read_benchmark(out)
    assert found.classes == names == [row["name"] for row in rows_of(out / "classes.csv")]
    assert [split.target.tolist() for split in found.splits.values()] == [list(range(len(names)))] * 3
    assert not [problem for problem in found.problems if problem.kind == "blanks around a label"]
