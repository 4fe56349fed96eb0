"""``shortlist data info``, ``sheet`` and ``build``: what they say, what they write, what they refuse."""

import csv
import hashlib
import json
import os
import re
import zipfile

import numpy as np
import pytest
from PIL import Image

from shortlist.data import read_class_folders, read_picture_table, verify_benchmark
from shortlist.data.downloads import DOWNLOADS, Archive
from tests.data.archives import SMALL, plant
from tests.data.drawings import write_picture

COUNTS = {"train": 12, "val": 3, "test": 3}


@pytest.fixture
def archive(tmp_path):
    """18 pictures of three species, nothing wrong with them."""
    return plant(tmp_path / "archive", SMALL)


@pytest.fixture
def table(archive):
    """The same as a table with a group for every two pictures."""
    rows = [f"archive/{name}/{n}.png,{name},{name} {n // 2}" for name, count in SMALL.items() for n in range(count)]
    path = archive.parent / "pictures.csv"
    path.write_text("\n".join(["path,species,plant", *rows]))
    return path


@pytest.fixture
def leaves(tmp_path):
    """A table of features."""
    path = tmp_path / "leaves.csv"
    path.write_text("species,width\noak,1\noak,2\nelm,3\n")
    return path


def below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def manifest(folder):
    with (folder / "manifest.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# Info


def test_info_says_what_there_is(run, archive):
    outcome = run("data", "info", archive, "--superclass", "first-word")
    assert outcome.code == 0
    assert outcome.err == "archive: 18 rows, 3 classes in 2 superclasses, one label a row\n"
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[0][:2] == ["split", "rows"]
    assert lines[1] == ["all", "18", "3", "1", "0", "5", "6", "7"]
    assert "Gini coefficient" in outcome.out


def test_info_as_json(run, archive):
    outcome = run("data", "info", archive, "--superclass", "first-word", "--json")
    found = json.loads(outcome.out)
    assert outcome.code == 0
    assert (found["name"], found["classes"], found["superclasses"], found["multi_label"]) == ("archive", 3, 2, False)
    assert found["counts"] == SMALL
    assert found["splits"][0]["rows"] == 18
    assert found["long_tail"]["imbalance"] == pytest.approx(7 / 5)
    assert found["problems"] == []


def test_info_on_features_and_on_the_garden(run, leaves):
    assert json.loads(run("data", "info", leaves, "--json").out)["counts"] == {"elm": 1, "oak": 2}
    garden = run("data", "info", "flora:species=6,genera=2,train=8,val=2,test=2,size=8", "--json")
    assert [split["rows"] for split in json.loads(garden.out)["splits"]] == [8, 2, 2]


def test_info_reports_what_is_odd_about_the_files(run, archive):
    (archive / "Taxus baccata").mkdir()
    outcome = run("data", "info", archive)
    assert outcome.code == 0
    assert "Taxus baccata: has no row\n" in outcome.err
    assert "warning: 1 problem: empty class 1\n" in outcome.err
    assert run("data", "info", archive, "--strict").code == 3
    assert json.loads(run("data", "info", archive, "--json").out)["problems"] == [
        {"kind": "empty class", "where": "Taxus baccata", "what": "has no row"}
    ]


@pytest.mark.parametrize(
    ("other", "plant", "said"),
    [
        ("./oak/0.png", "2", "1 picture file is in two splits"),
        ("oak/1.png", "1", "1 group is in two splits"),
    ],
)
def test_info_reports_pictures_and_groups_in_two_splits(run, tmp_path, other, plant, said):
    for number in range(3):
        write_picture(tmp_path / f"oak/{number}.png", colour=(100 * number, 30, 30))
    path = tmp_path / "trees.csv"
    path.write_text(f"path,species,split,plant\noak/0.png,oak,train,1\noak/2.png,elm,train,3\n{other},oak,test,{plant}\n")
    outcome = run("data", "info", path)
    assert said in outcome.err
    assert run("data", "info", path, "--strict").code == 3
    record = json.loads(run("data", "info", path, "--json").out)
    assert [problem["kind"] for problem in record["problems"] if "two splits" in problem["kind"]]


def test_check_opens_every_picture(run, archive):
    (archive / "Acer rubrum" / "2.png").write_bytes(b"no picture")
    whole = (archive / "Acer rubrum" / "3.png").read_bytes()
    (archive / "Acer rubrum" / "3.png").write_bytes(whole[: len(whole) // 2])
    Image.new("L", (8, 8), 9).save(archive / "Acer rubrum" / "4.png")
    assert run("data", "info", archive, "--strict").code == 0  # nothing is opened
    outcome = run("data", "info", archive, "--check")
    assert outcome.code == 0
    for words in ("2.png: not a picture that can be read", "3.png: damaged or cut short", "4.png: grayscale"):
        assert f"Acer rubrum/{words}" in outcome.err
    assert "warning: 3 problems: unreadable picture 2, unusual picture 1\n" in outcome.err
    assert run("data", "info", archive, "--check", "--strict").code == 3
    found = json.loads(run("data", "info", archive, "--check", "--json").out)
    assert sorted(problem["where"] for problem in found["problems"]) == [f"Acer rubrum/{n}.png" for n in (2, 3, 4)]


def test_check_of_sound_pictures_finds_nothing(run, archive):
    outcome = run("data", "info", archive, "--check", "--strict")
    assert outcome.code == 0
    assert "warning" not in outcome.err


@pytest.fixture
def straddling(tmp_path):
    """A picture that is in two splits."""
    for split in ("train", "test"):
        plant(tmp_path / "two" / split, {"oak": 2}, seed=0 if split == "train" else 1)
    (tmp_path / "two" / "test" / "oak" / "0.png").write_bytes((tmp_path / "two" / "train" / "oak" / "0.png").read_bytes())
    return tmp_path / "two"


def test_check_compares_the_splits(run, straddling):
    outcome = run("data", "info", straddling, "--check")
    assert outcome.code == 0
    assert "warning: 2 of 4 pictures have a near duplicate in another split" in outcome.err
    assert "near duplicate" not in run("data", "info", straddling).err


def test_strict_info_heeds_every_warning(run, straddling):
    assert run("data", "info", straddling, "--check", "--strict").code == 3


@pytest.mark.parametrize("command", [("info",), ("sheet",), ("build", "out")])
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("flroa", "flroa: there is no such folder or file, nor is it NAME:PATH; similar names: flora"),
        ("nowhere", "nowhere: there is no such folder or file, nor is it NAME:PATH"),
        ("archive,superclas=first-word", "did you mean 'superclass'? expected options among superclass, group, test, "),
    ],
)
def test_a_source_that_is_none_is_answered_with_what_was_expected(command, source, words, fails, archive, tmp_path):
    before = below(tmp_path)
    assert words in fails("data", command[0], source, *command[1:])
    assert below(tmp_path) == before


def test_a_rule_for_superclasses_that_is_none_is_refused(fails, archive):
    assert fails("data", "info", archive, "--superclass", "genus").startswith("superclass: expected 'first-word'")


# Sheet


@pytest.mark.parametrize(
    ("name", "form"), [("s.png", "PNG"), ("s.PNG", "PNG"), ("s.jpg", "JPEG"), ("s.jpeg", "JPEG"), ("s.webp", "WEBP")]
)
def test_sheet_writes_the_format_of_its_name(run, archive, tmp_path, name, form):
    outcome = run("data", "sheet", archive, "--out", f"deep/{name}", "--per-class", 3, "--size", 32)
    assert (outcome.code, outcome.out) == (0, "")
    assert f"→ deep/{name}" in outcome.err
    with Image.open(tmp_path / "deep" / name) as image:
        assert image.format == form
        assert image.width > 3 * 32
    assert below(tmp_path / "deep") == [name]


def test_sheet_is_a_png_in_the_current_folder_by_default_and_comes_from_its_seed(run, archive, tmp_path):
    pixels = []
    for seed in (0, 0, 5):
        run("data", "sheet", archive, "--per-class", 2, "--seed", seed)
        pixels.append(np.asarray(Image.open(tmp_path / "sheet.png")))
    assert np.array_equal(pixels[0], pixels[1])
    assert not np.array_equal(pixels[0], pixels[2])


@pytest.mark.parametrize("name", ["sheet.gif", "sheet", "sheet.png.txt", "sheet.svg"])
def test_other_formats_are_refused(fails, archive, tmp_path, name):
    before = below(tmp_path)
    assert (
        fails("data", "sheet", archive, "--out", name) == f"--out: expected a name that ends in .png, .jpg or .webp, got {name}"
    )
    assert below(tmp_path) == before


def test_sheet_of_features_or_of_a_split_that_is_not_there_is_refused(fails, archive, leaves):
    assert "expected pictures, got a table of 1 features" in fails("data", "sheet", leaves)
    assert fails("data", "sheet", archive, "--split", "test") == "split: expected one of all, got test"


@pytest.mark.parametrize("option", [("--classes", 0), ("--per-class", 101), ("--size", 8), ("--seed", -1)])
def test_options_of_the_sheet_are_checked(run, archive, tmp_path, option):
    assert run("data", "sheet", archive, *option).code == 2
    assert not (tmp_path / "sheet.png").exists()


def test_a_sheet_larger_than_its_format_allows_is_refused(fails, archive):
    assert (
        "webp" in fails("data", "sheet", archive, "--per-class", 100, "--size", 200, "--classes", 1, "--out", "s.webp").lower()
    )


# Build


def test_two_commands_build_a_benchmark_from_a_folder(run, archive, tmp_path):
    assert run("data", "info", archive).code == 0
    outcome = run("data", "build", archive, "bench", "--superclass", "first-word")
    assert outcome.code == 0
    assert "bench: 18 rows, 3 classes in 2 superclasses, one label a row → bench\n" in outcome.err
    assert [line.split()[:2] for line in outcome.out.splitlines()[1:]] == [[name, str(n)] for name, n in COUNTS.items()]
    bench = tmp_path / "bench"
    assert sorted(os.listdir(bench)) == [
        *("README.md", "SHA256SUMS", "classes.csv", "lorenz.svg", "manifest.csv", "sheet.jpg", "test", "train", "val"),
    ]
    assert sorted(os.listdir(tmp_path)) == ["archive", "bench"]
    assert (bench / "README.md").read_text(encoding="utf-8").startswith("# bench\n")
    for found in (read_class_folders(bench), read_picture_table(bench / "manifest.csv")):
        assert found.classes == list(SMALL)
        assert {name: len(split) for name, split in found.splits.items()} == COUNTS
    assert json.loads(run("data", "info", "bench", "--check", "--strict", "--json").out)["problems"] == []


def test_build_comes_from_its_seed(run, archive, tmp_path):
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        assert run("data", "build", archive, name, "--seed", seed).code == 0
    one, two, three = (manifest(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two != three
    assert {row["source"] for row in one} == {row["source"] for row in three}


@pytest.mark.parametrize("how", ["link", "copy", "none"])
def test_pictures_are_linked_copied_or_left(run, archive, tmp_path, how):
    assert run("data", "build", archive, "bench", "--pictures", how).code == 0
    assert (tmp_path / "bench" / "train").exists() == (how != "none")
    for row in manifest(tmp_path / "bench"):
        placed, source = (archive if how == "none" else tmp_path / "bench") / row["path"], archive / row["source"]
        assert placed.read_bytes() == source.read_bytes()
        assert how == "link" or os.path.samefile(placed, source) == (how == "none")


def test_a_benchmark_that_only_lists_says_how_it_is_opened(run, archive, tmp_path):
    told = run("data", "build", archive, "bench", "--pictures", "none").err
    text = re.search(r"open it as (\S+)", told)[1]
    assert run("data", "info", text, "--check", "--strict").code == 0
    assert "pictures_root=FOLDER" in run("data", "info", "bench").err


def test_check_verifies_the_checksums_of_a_benchmark(run, archive, tmp_path):
    assert run("data", "build", archive, "bench", "--pictures", "copy").code == 0
    assert run("data", "info", "bench", "--check").code == 0
    first, second, third = (tmp_path / "bench" / row["path"] for row in manifest(tmp_path / "bench")[:3])
    first.unlink()
    second.write_bytes(second.read_bytes() + b" ")
    changed = bytearray(third.read_bytes())
    changed[-1] ^= 1
    third.write_bytes(changed)
    (tmp_path / "bench" / "train" / "more.png").write_bytes(b"")
    outcome = run("data", "info", "bench", "--check")
    assert outcome.code == 1
    inside = [str(path.relative_to(tmp_path / "bench")) for path in (first, second, third)]
    assert f"{inside[0]}: is in the manifest, but there is no such file" in outcome.err
    assert f"{inside[1]}: has {second.stat().st_size:,} bytes, the manifest lists {second.stat().st_size - 1}" in outcome.err
    assert f"{inside[2]}: has the SHA-256" in outcome.err
    assert "train/more.png: is there, but not in the manifest" in outcome.err
    assert "missing file 1, changed file 2, file that is not in the manifest 1" in outcome.err
    assert json.loads(run("data", "info", "bench", "--check", "--json").out)["problems"][0]["kind"] == "missing file"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("manifest.csv", b",Ilex aquifolium,", b",Ilex aquifoliun,"),
        ("manifest.csv", b",train,", b",drain,"),
        ("classes.csv", b",Ilex aquifolium,", b",Ilex aquifoliun,"),
        ("SHA256SUMS", b"  classes.csv", b"  klasses.csv"),
    ],
)
def test_check_verifies_the_lists_of_a_benchmark_too(run, archive, tmp_path, name, old, new):
    """One letter in them is another label, another split or another order of the classes."""
    assert run("data", "build", archive, "bench", "--pictures", "copy").code == 0
    path = tmp_path / "bench" / name
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    outcome = run("data", "info", "bench", "--check")
    assert outcome.code == 1
    assert f"{'classes.csv' if name == 'SHA256SUMS' else name}: has the SHA-256" in outcome.err
    (tmp_path / "bench" / "SHA256SUMS").unlink()  # as of an earlier version
    assert verify_benchmark(tmp_path / "bench") == []


def test_the_card_does_not_name_folders_that_are_not_there(run, archive, tmp_path):
    run("data", "build", archive, "bench", "--pictures", "none")
    assert "`train/`" not in (tmp_path / "bench" / "README.md").read_text(encoding="utf-8")


def test_genera_are_drawn_and_small_classes_left_out(run, archive, tmp_path):
    outcome = run(
        "data", "build", archive, "bench", "--superclass", "first-word", "--superclasses", 0.5, "--fewest", 6, "--name", "Trees"
    )
    assert outcome.code == 0
    card = (tmp_path / "bench" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# Trees\n")
    assert "50% of the superclasses" in card
    genera = {row["superclass"] for row in manifest(tmp_path / "bench")}
    assert len(genera) == 1
    if genera == {"Acer"}:
        assert "Acer campestre: has 5 of at least 6 rows: left out" in outcome.err


def test_groups_of_a_table_stay_on_one_side(run, table, tmp_path):
    outcome = run("data", "build", table, "bench", "--by-group", "--share", 0.2)
    assert outcome.code == 0
    homes = {}
    for row in manifest(tmp_path / "bench"):
        homes.setdefault(row["group"], set()).add(row["split"])
    assert len(homes) == 3 + 3 + 4
    assert all(len(splits) == 1 for splits in homes.values())
    assert "whole groups" in (tmp_path / "bench" / "README.md").read_text(encoding="utf-8")


def test_unreadable_pictures_are_left_out_within_the_tolerance(run, fails, archive, tmp_path):
    (archive / "Ilex aquifolium" / "3.png").write_bytes(b"no picture")
    before = below(tmp_path)
    sentence = fails("data", "build", archive, "bench")
    assert sentence.startswith(
        "1 of 18 pictures could not be used, more than the tolerated 1.0%; the first is Ilex aquifolium/3.png"
    )
    assert below(tmp_path) == before
    outcome = run("data", "build", archive, "bench", "--tolerance", 0.1)
    assert outcome.code == 0
    assert "Ilex aquifolium/3.png: not a picture that can be read\n" in outcome.err
    assert "warning: 1 problem: unreadable picture 1\n" in outcome.err
    assert len(manifest(tmp_path / "bench")) == 17


def test_duplicates_on_both_sides_are_warned_of(run, tmp_path):
    plant(tmp_path / "archive", {"elm": 5})
    for number in range(5):
        picture = Image.open(tmp_path / "archive" / "elm" / "0.png")
        (tmp_path / "archive" / "oak").mkdir(exist_ok=True)
        picture.save(tmp_path / "archive" / "oak" / f"{number}.png")
    outcome = run("data", "build", "archive", "bench")
    assert outcome.code == 0
    assert "warning: 6 of 10 pictures have a near duplicate in another split" in outcome.err
    assert "near duplicate" in (tmp_path / "bench" / "README.md").read_text(encoding="utf-8")
    assert run("data", "build", "archive", "again", "--strict").code == 3
    assert (tmp_path / "again" / "manifest.csv").is_file()


def test_strict_build_heeds_every_warning(run, archive):
    write_picture(archive / "Taxus baccata" / "1.png")
    outcome = run("data", "build", archive, "bench", "--strict")
    assert "warning: 1 problem: class too small 1\n" in outcome.err
    assert outcome.code == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--share", "0.5"), "share: expected a number between 0 and 1/2, such as 0.1; got 0.5"),
        (("--share", "0"), "share: expected"),
        (("--share", "-1"), "share: expected"),
        (("--share", "nan"), "share: expected"),
        (("--share", "0.4"), "too small"),
        (("--pictures", "move"), "--pictures: expected link, copy, none, got move"),
        (("--superclasses", "0.5"), "archive has no superclasses to draw 50% of"),
        (("--tolerance", "2"), "tolerance: expected a number from 0 to 1, got 2"),
        (("--fewest", "50"), "no class that was drawn has 50 rows"),
        (("--by-group",), "does not say which rows belong together"),
    ],
)
def test_what_cannot_be_built_is_refused_and_leaves_nothing_behind(options, words, fails, archive, tmp_path):
    before = below(tmp_path)
    assert words in fails("data", "build", archive, "bench", *options)
    assert below(tmp_path) == before


@pytest.mark.parametrize("options", [("--superclasses", "1.5"), ("--fewest", "2"), ("--seed", "-1"), ("--share", "tenth")])
def test_options_of_the_build_are_checked(options, run, archive, tmp_path):
    outcome = run("data", "build", archive, "bench", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert options[0] in outcome.err
    assert sorted(os.listdir(tmp_path)) == ["archive"]


def test_a_folder_with_something_in_it_is_refused_and_an_empty_one_taken(run, fails, archive, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    before = below(tmp_path)
    assert "full: expected a new or empty folder, got one with files in it" in fails("data", "build", archive, "full")
    assert "file: expected a new or empty folder, got a file" in fails("data", "build", archive, "file")
    assert fails("data", "build", archive, archive)
    assert below(tmp_path) == before
    assert run("data", "build", archive, "empty").code == 0
    assert len(manifest(tmp_path / "empty")) == 18


def test_features_and_pictures_in_memory_are_refused(fails, leaves, tmp_path):
    leaves.write_text("species,width\n" + "oak,1\n" * 9)
    assert "expected picture files, got" in fails("data", "build", leaves, "bench")
    assert "expected picture files" in fails("data", "build", "flora:species=6,genera=2,train=8,val=2,test=2,size=8", "bench")
    assert sorted(os.listdir(tmp_path)) == ["leaves.csv"]


def test_a_benchmark_in_the_current_folder_is_called_like_it(run, archive, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    assert run("data", "build", archive, ".").code == 0
    assert (tmp_path / "mine" / "README.md").read_text(encoding="utf-8").startswith("# mine\n")


@pytest.mark.parametrize("how", ["absolute", "relative", "link", "table"])
def test_a_sheet_replaces_no_picture_of_its_dataset(fails, archive, tmp_path, monkeypatch, how):
    monkeypatch.chdir(tmp_path)
    picture = archive / "Ilex aquifolium" / "3.png"
    (tmp_path / "alias").symlink_to(archive)
    here = os.path.relpath(archive, tmp_path)
    (tmp_path / "some.csv").write_text(f"path,label\n{here}/Ilex aquifolium/3.png,holly\n{here}/Ilex aquifolium/2.png,oak\n")
    source = {"absolute": archive, "relative": here, "link": "alias", "table": "some.csv"}[how]
    before = picture.read_bytes()
    expected = "is a picture of the dataset" if how == "table" else "would be overwritten"
    assert expected in fails("data", "sheet", source, "--out", picture)
    assert picture.read_bytes() == before


def test_a_benchmark_inside_its_archive_is_refused(fails, archive):
    for source in (archive, f"folders:{archive}", f"{archive},superclass=first-word"):
        assert "expected a folder outside" in fails("data", "build", source, archive / "bench")
    assert not (archive / "bench").exists()


def test_info_on_the_garden_tells_the_best_possible(run):
    assert "best possible" in run("data", "info", "flora:species=6,genera=2,train=60,val=6,test=6,size=8").out


def test_a_download_is_unpacked_and_told_how_to_be_read(run, fails, tmp_path, monkeypatch):
    source = tmp_path / "source.zip"
    with zipfile.ZipFile(source, "w") as file:
        file.writestr("images_background/a/character01/0001_01.png", b"x")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    offered = Archive(source.as_uri(), source.stat().st_size, digest, "images_background")
    monkeypatch.setitem(DOWNLOADS, "omniglot", (offered,))
    assert f"shortlist data info omniglot:{tmp_path / 'data'}" in run("data", "download", "omniglot", tmp_path / "data").err
    assert (tmp_path / "data" / "images_background" / "a" / "character01" / "0001_01.png").read_bytes() == b"x"
    assert "expected cifar10, cifar100, omniglot" in fails("data", "download", "coco", tmp_path / "data")
