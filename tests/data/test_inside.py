"""Paths that others wrote stay inside their folder; a benchmark is verified against its manifest."""

import csv

import pytest

from shortlist.data import read_class_folders, verify_benchmark, write_benchmark
from shortlist.data.inside import check_inside, leads_outside
from shortlist.data.readers.benchmark import read_benchmark
from shortlist.errors import InputError
from tests.data.drawings import write_picture

OUTSIDE = [
    "../x.png",
    "a/../../x.png",
    "/etc/passwd",
    "C:\\x.png",
    "C:x.png",
    "\\\\host\\x.png",
    "\\x.png",
    "a\\..\\..\\x",
    "a\0b",
]


@pytest.fixture
def bench(tmp_path):
    """A benchmark of four pictures, and its folder."""
    for number, name in enumerate(("ash/1.png", "ash/2.png", "oak/3.png", "oak/4.png")):
        write_picture(tmp_path / "archive" / name, (50 * number, 0, 0))
    (tmp_path / "bench").mkdir()
    write_benchmark(read_class_folders(tmp_path / "archive"), tmp_path / "bench", placing="copy")
    return tmp_path / "bench"


def lines_of(bench):
    with (bench / "manifest.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rewrite(bench, row, **changes):
    lines = lines_of(bench)
    lines[row] |= changes
    with (bench / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_that_lead_outside_are_refused_wherever_a_manifest_is_read(bench, path):
    assert leads_outside(path)
    rewrite(bench, 2, path=path)
    for read in (read_benchmark, verify_benchmark):
        with pytest.raises(InputError, match=r"manifest\.csv: expected paths inside its folder, got '"):
            read(bench)


@pytest.mark.parametrize("path", ["a/b.png", "a..b/c...png", "..a", "a b/ü.png", "./a.png"])
def test_other_paths_are_not(path, tmp_path):
    assert not leads_outside(path)
    check_inside(tmp_path, [path], "manifest.csv")


@pytest.mark.parametrize("what", ["file", "folder"])
def test_links_that_lead_outside_are_refused_and_others_are_not(bench, tmp_path, what):
    first = bench / lines_of(bench)[0]["path"]
    moved = first if what == "file" else first.parent
    inside = moved.rename(bench / "elsewhere")
    moved.symlink_to(inside)
    assert len(read_benchmark(bench).splits["all"]) == 4
    moved.unlink()
    inside.rename(tmp_path / "outside")
    moved.symlink_to(tmp_path / "outside")
    for read in (read_benchmark, verify_benchmark):
        with pytest.raises(InputError, match=r"expected files in its folder, got '.*a link to outside: refused"):
            read(bench)


def test_an_intact_benchmark_differs_in_nothing(bench):
    told = []
    assert verify_benchmark(bench, progress=told.append) == []
    assert told == [1, 2, 3, 4]


def test_what_is_missing_changed_or_extra_is_named(bench):
    paths = [line["path"] for line in lines_of(bench)]
    (bench / paths[0]).unlink()
    (bench / paths[1]).write_bytes(b"shorter")
    rewrite(bench, 2, sha256="0" * 64)
    (bench / "notes.txt").write_text("")
    found = [(problem.kind, problem.where) for problem in verify_benchmark(bench)]
    assert found == [
        ("missing file", paths[0]),
        ("changed file", paths[1]),
        ("changed file", paths[2]),
        ("changed file", "manifest.csv"),
        ("file that is not in the manifest", "notes.txt"),
    ]


def test_a_manifest_without_checksums_is_no_manifest(bench):
    (bench / "manifest.csv").write_text("path,label\na,b\n")
    with pytest.raises(InputError, match=r"manifest\.csv: expected the columns path, bytes, sha256, got no bytes"):
        verify_benchmark(bench)
