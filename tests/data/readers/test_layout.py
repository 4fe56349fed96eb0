"""Folders found, label files read, and the sentence where that fails."""

import gc
import re

import pytest

from shortlist.data.readers.layout import chosen_year, class_folders, contents, find_home, parsed_json, pictures_in, text_lines
from shortlist.errors import InputError
from tests.data.readers.fixtures import pictures, text


def test_a_home_is_the_folder_itself_or_one_below(tmp_path):
    text(tmp_path / "inner/labels.txt", "a")
    assert find_home(tmp_path, "it", holds=["labels.txt"], below=["other", "inner"]) == tmp_path / "inner"
    assert find_home(tmp_path / "inner", "it", holds=["no", "labels.txt"]) == tmp_path / "inner"


def test_the_message_says_what_was_expected_where_and_what_is_there(tmp_path):
    text(tmp_path / "notes.txt", "a")
    expected = "expected the folder of it, with a or b in it or in c below it, got a folder with notes.txt. Look there"
    with pytest.raises(InputError, match=re.escape(expected)):
        find_home(tmp_path, "it", holds=["a", "b"], below=["c"], source="Look there")


def test_contents(tmp_path):
    assert contents(tmp_path) == "an empty folder"
    for name in "abcdef":
        text(tmp_path / name, "")
    assert contents(tmp_path) == "a folder with a, b, c, d and 2 more"
    assert contents(tmp_path / "a") == "a file"


def test_lines_lose_blanks_byte_order_marks_and_carriage_returns(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffoak \r\n\r\n elm".encode())
    assert text_lines(tmp_path / "a.txt", "names") == ["oak", "elm"]


def test_label_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"a.txt: .*got nothing"):
        text_lines(tmp_path / "a.txt", "names")
    with pytest.raises(InputError, match="expected names, got a folder"):
        text_lines(tmp_path, "names")
    (tmp_path / "b.txt").write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match="expected names in UTF-8, got another byte at position 3"):
        text_lines(tmp_path / "b.txt", "names")
    text(tmp_path / "c.json", '{"a": ')
    with pytest.raises(InputError, match=r"c.json: .*got a file that is not"):
        parsed_json(tmp_path / "c.json", "labels")


def test_json_keeps_whole_numbers_and_drops_fractions(tmp_path):
    path = text(tmp_path / "a.json", '{"id": 12345678901, "area": 2.5, "box": [1, -1e3], "name": "2.5"}')
    assert parsed_json(path, "labels") == {"id": 12345678901, "area": None, "box": [1, None], "name": "2.5"}
    assert gc.isenabled()


def test_json_leaves_the_collector_as_it_was(tmp_path):
    path = text(tmp_path / "a.json", "[1]")
    gc.disable()
    try:
        parsed_json(path, "labels")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_pictures_of_a_folder_in_order(tmp_path):
    pictures(tmp_path, "a/2.JPEG", "a/10.jpg", "a/.hidden.jpg")
    text(tmp_path / "a/notes.txt", "")
    (tmp_path / "a/3.jpg").mkdir()
    problems = []
    assert pictures_in(tmp_path, "a", problems) == ["a/10.jpg", "a/2.JPEG"]
    assert pictures_in(tmp_path, "b", problems) == []
    assert problems == []


def test_a_folder_that_may_not_be_read_is_noted(tmp_path, monkeypatch):
    def refuse(_):
        raise PermissionError

    monkeypatch.setattr("os.scandir", refuse)
    problems = []
    assert pictures_in(tmp_path, "a", problems) == []
    assert str(problems[0]) == "a: permission denied: left out"


def test_class_folders_by_their_names(tmp_path):
    pictures(tmp_path, "train/n2/1.jpg", "train/n1/1.jpg", "train/other/1.jpg", "train/.git/1.jpg")
    problems = []
    assert class_folders(tmp_path, "train", re.compile(r"n\d"), problems) == ["n1", "n2"]
    assert [problem.where for problem in problems] == ["train/other"]
    assert class_folders(tmp_path, "val", re.compile(r"n\d"), problems) == []


def test_years():
    with pytest.raises(InputError, match="year: .*got none"):
        chosen_year([2014, 2017], None)
    with pytest.raises(InputError, match="year: .*got 2015"):
        chosen_year([2014, 2017], 2015)
