"""The conversions of examples/: each is run on a small copy of the published layout, and the table is read back."""

import subprocess
import sys
from pathlib import Path

import pytest

from shortlist.data.readers.picture_table import read_picture_table
from tests.data.drawings import write_picture

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "datasets.md").read_text()


def run(script, *arguments):
    command = [sys.executable, str(ROOT / "examples" / "conversion" / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def labels_of(dataset, split):
    part = dataset.splits[split]
    rows = ([dataset.classes[label] for label in row.nonzero()[:, 0]] for row in part.target)
    return dict(zip(part.ids, rows, strict=True))


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def nus_wide(root, concepts="ConceptsList/Concepts81.txt"):
    write(root / concepts, "sky", "water ")
    write(root / "ImageList" / "TrainImagelist.txt", "actor\\0001_21.jpg", "actor\\0002_22.jpg ", "zebra\\0001_23.jpg")
    write(root / "ImageList" / "TestImagelist.txt", "zebra\\0002_24.jpg")
    marks = root / "Groundtruth" / "TrainTestLabels"
    write(marks / "Labels_sky_Train.txt", "1", "0", "1")
    write(marks / "Labels_water_Train.txt", "1", "0", "0")
    write(marks / "Labels_sky_Test.txt", "0")
    write(marks / "Labels_water_Test.txt", "1")
    for name in ["actor/0001_21.jpg", "actor/0002_22.jpg", "zebra/0001_23.jpg", "zebra/0002_24.jpg"]:
        write_picture(root / "Flickr" / name)


@pytest.mark.parametrize("concepts", ["ConceptsList/Concepts81.txt", "Concepts81.txt"])
def test_nus_wide(tmp_path, concepts):
    root, table = tmp_path / "NUS-WIDE", tmp_path / "nus-wide.csv"
    nus_wide(root, concepts)
    assert run("convert_nus_wide.py", root, table).stdout == f"4 rows in {table}\n"
    dataset = read_picture_table(table, root=root, separator="|")
    assert dataset.classes == ["sky", "water"]
    assert labels_of(dataset, "train") == {
        "Flickr/actor/0001_21.jpg": ["sky", "water"],
        "Flickr/actor/0002_22.jpg": [],
        "Flickr/zebra/0001_23.jpg": ["sky"],
    }
    assert labels_of(dataset, "test") == {"Flickr/zebra/0002_24.jpg": ["water"]}


def test_nus_wide_whose_lists_do_not_fit_is_refused(tmp_path):
    nus_wide(tmp_path)
    write(tmp_path / "Groundtruth" / "TrainTestLabels" / "Labels_sky_Train.txt", "1")
    answer = run("convert_nus_wide.py", tmp_path, tmp_path / "table.csv")
    assert answer.returncode
    assert "expected 3 lines, one for each picture, got 1" in answer.stderr
    assert not (tmp_path / "table.csv").exists()


def refused(folder, script, *arguments):
    """The one sentence on the standard error; nothing is written."""
    table = folder / "table.csv"
    answer = run(script, *arguments, table)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert not table.exists()
    assert len(answer.stderr.splitlines()) == 1
    return answer.stderr


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    words = refused(tmp_path, "convert_nus_wide.py", tmp_path / "absent")
    assert "Concepts81.txt: expected a list of NUS-WIDE, got nothing" in words


def test_a_table_without_a_row_is_not_written(tmp_path):
    nus_wide(tmp_path / "NUS")
    for path in [*(tmp_path / "NUS" / "ImageList").iterdir(), *(tmp_path / "NUS" / "Groundtruth").rglob("*.txt")]:
        path.write_text("")
    assert "expected pictures in ImageList" in refused(tmp_path, "convert_nus_wide.py", tmp_path / "NUS")


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "examples" / "conversion").glob("convert_*.py")))
def test_the_page_and_the_script_tell_the_same_command(script):
    told = next(
        line.strip()
        for line in (ROOT / "examples" / "conversion" / script).read_text().splitlines()
        if line.strip().startswith("python")
    )
    assert told in PAGE
