"""Which named files are there."""

import os
import sys

import pytest
from hypothesis import given, settings, strategies as st

from shortlist.data.presence import absent_paths


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presence")
    for name in ["a.jpg", "one/b.jpg", "one/two/c.jpg", "chêne/é.jpg"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    (folder / "folder.jpg").mkdir()
    (folder / "good.jpg").symlink_to("a.jpg")
    (folder / "bad.jpg").symlink_to("nothing.jpg")
    (folder / "circle.jpg").symlink_to("circle.jpg")
    (folder / "linked").symlink_to("one")
    return folder


@pytest.mark.parametrize(
    "path", ["a.jpg", "one/b.jpg", "one/two/c.jpg", "chêne/é.jpg", "good.jpg", "linked/b.jpg", "one/../a.jpg", "./a.jpg"]
)
def test_files_are_there(root, path):
    assert absent_paths(root, [path]).tolist() == [False]


@pytest.mark.parametrize(
    "path",
    [
        "b.jpg",
        "two/b.jpg",
        "folder.jpg",
        "bad.jpg",
        "circle.jpg",
        "",
        ".",
        "one",
        "a.jpg/x",
        "nul\0.jpg",
        "nul\0/a.jpg",
        "/a.jpg",
        "x" * 5000,
    ],
)
def test_what_is_no_file_is_absent(root, path):
    assert absent_paths(root, [path]).tolist() == [True]


def test_absolute_paths_are_taken_as_they_are(root):
    assert absent_paths("/elsewhere", [str(root / "a.jpg"), str(root / "b.jpg")]).tolist() == [False, True]


def test_no_paths_are_none_absent(root):
    assert absent_paths(root, []).shape == (0,)
    assert absent_paths(root, []).dtype == bool


def test_each_folder_is_listed_once(root, monkeypatch):
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    absent_paths(root, ["a.jpg", "one/b.jpg", "b.jpg", "one/b.jpg", "nowhere/1", "nowhere/2"])
    assert len(listed) == 3


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may list everything")
def test_a_folder_that_may_be_entered_but_not_listed(tmp_path):
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "a.jpg").write_bytes(b"")
    (tmp_path / "locked").chmod(0o100)
    assert absent_paths(tmp_path, ["locked/a.jpg", "locked/b.jpg"]).tolist() == [False, True]
    (tmp_path / "locked").chmod(0o700)


@given(st.lists(st.sampled_from(["a.jpg", "b.jpg", "one/b.jpg", "one/c.jpg", "bad.jpg", "linked/b.jpg", "x/y/z.jpg"])))
@settings(max_examples=50, deadline=None)
def test_the_answer_is_that_of_asking_for_each(root, paths):
    assert absent_paths(root, paths).tolist() == [not os.path.isfile(root / path) for path in paths]
