"""The conversions of examples/: each is run on a small copy of the published layout, and the table is read back."""

import json
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


PLACES = {"male": 0, "hat": 3, "skirt": 10, "stripe": 13}


def person(*present, unknown=()):
    attribute = [-1] * 14
    for name in present:
        attribute[PLACES[name]] = 1
    for name in unknown:
        attribute[PLACES[name]] = 0
    return {"bbox": [0, 0, 1, 1], "attribute": attribute}


def test_wider_attribute(tmp_path):
    root, table = tmp_path / "WIDER", tmp_path / "wider-attribute.csv"
    pictures = {
        "train/0--Parade/a.jpg": [person("male", "hat"), person("stripe", "hat")],
        "val/0--Parade/b.jpg": [person(unknown=("male",))],
        "test/1--Meeting/c.jpg": [person("male", "skirt")],
    }
    entries = [{"file_name": name, "scene_id": 0, "targets": persons} for name, persons in pictures.items()]
    for name in pictures:
        write_picture(root / "Image" / name)
    write(root / "Anno" / "wider_attribute_trainval.json", json.dumps({"images": entries[:2]}))
    write(root / "Anno" / "wider_attribute_test.json", json.dumps({"images": entries[2:]}))
    assert run("convert_wider_attribute.py", root, table).stdout == f"3 rows in {table}\n"
    dataset = read_picture_table(table, root=root / "Image", separator="|")
    assert labels_of(dataset, "train") == {"train/0--Parade/a.jpg": ["hat", "male", "stripe"]}
    assert labels_of(dataset, "val") == {"val/0--Parade/b.jpg": []}
    assert labels_of(dataset, "test") == {"test/1--Meeting/c.jpg": ["male", "skirt"]}


def test_wider_attribute_without_annotations_is_refused(tmp_path):
    answer = run("convert_wider_attribute.py", tmp_path, tmp_path / "table.csv")
    assert answer.returncode
    assert "expected wider_attribute_trainval.json in it or below it" in answer.stderr


def test_vispr(tmp_path):
    root, table = tmp_path / "VISPR", tmp_path / "vispr.csv"
    write(
        root / "attributes.tsv", "idx\tattribute_id\tdescription", "0\ta0_safe\tSafe", "1\ta4_gender\tGender", "\ta9_old\tskip"
    )
    labels = {
        "train2017/2017_1.jpg": ["a4_gender", "a9_old"],
        "val2017/2017_2.jpg": ["a0_safe"],
        "test2017/2017_3.jpg": ["a9_old"],
        "train2017/2017_4.jpg": ["a0_safe", "a4_gender"],
    }
    for number, (name, own) in enumerate(labels.items()):
        write_picture(root / name)
        write(root / "annotations" / f"{number}.json", json.dumps({"id": str(number), "image_path": name, "labels": own}))
    write(root / "other.json", json.dumps({"nothing": 1}))
    assert run("convert_vispr.py", root, root / "attributes.tsv", table).stdout == f"4 rows in {table}\n"
    dataset = read_picture_table(table, root=root, separator="|")
    assert labels_of(dataset, "train") == {
        "train2017/2017_1.jpg": ["a4_gender"],
        "train2017/2017_4.jpg": ["a0_safe", "a4_gender"],
    }
    assert labels_of(dataset, "val") == {"val2017/2017_2.jpg": ["a0_safe"]}
    assert labels_of(dataset, "test") == {"test2017/2017_3.jpg": []}


def test_vispr_outside_a_split_is_refused(tmp_path):
    write(tmp_path / "attributes.tsv", "idx\tattribute_id\tdescription", "0\ta0_safe\tSafe")
    write(tmp_path / "1.json", json.dumps({"image_path": "pictures/1.jpg", "labels": []}))
    answer = run("convert_vispr.py", tmp_path, tmp_path / "attributes.tsv", tmp_path / "table.csv")
    assert answer.returncode
    assert "expected train2017, val2017 or test2017 in the path of the picture" in answer.stderr


def refused(folder, script, *arguments):
    """The one sentence on the standard error; nothing is written."""
    table = folder / "table.csv"
    answer = run(script, *arguments, table)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert not table.exists()
    assert len(answer.stderr.splitlines()) == 1
    return answer.stderr


def test_a_folder_that_is_not_there_is_refused_by_every_script(tmp_path):
    absent = tmp_path / "absent"
    assert "Concepts81.txt: expected a list of NUS-WIDE, got nothing" in refused(tmp_path, "convert_nus_wide.py", absent)
    assert "expected wider_attribute_trainval.json" in refused(tmp_path, "convert_wider_attribute.py", absent)
    assert "absent: expected the table of the attributes" in refused(tmp_path, "convert_vispr.py", absent, absent)
    write(tmp_path / "attributes.tsv", "idx\tattribute_id", "0\ta0_safe")
    words = refused(tmp_path, "convert_vispr.py", absent, tmp_path / "attributes.tsv")
    assert "absent: expected .json files with image_path and labels in it or below it, got none" in words


def test_tables_without_a_row_are_not_written(tmp_path):
    nus_wide(tmp_path / "NUS")
    for path in [*(tmp_path / "NUS" / "ImageList").iterdir(), *(tmp_path / "NUS" / "Groundtruth").rglob("*.txt")]:
        path.write_text("")
    assert "expected pictures in ImageList" in refused(tmp_path, "convert_nus_wide.py", tmp_path / "NUS")
    for name in ("wider_attribute_trainval.json", "wider_attribute_test.json"):
        write(tmp_path / "WIDER" / name, json.dumps({"images": []}))
    assert "expected pictures in wider" in refused(tmp_path, "convert_wider_attribute.py", tmp_path / "WIDER")


def test_files_that_are_not_what_they_should_be_are_named(tmp_path):
    write(tmp_path / "wider_attribute_trainval.json", '{"images": [{"file_name": "train/a.jpg"}]}')
    assert "wider_attribute_trainval.json: expected a list images" in refused(tmp_path, "convert_wider_attribute.py", tmp_path)
    write(tmp_path / "attributes.tsv", "id,attribute")
    vispr = ("convert_vispr.py", tmp_path, tmp_path / "attributes.tsv")
    assert "attributes.tsv: expected the columns idx and attribute_id" in refused(tmp_path, *vispr)
    write(tmp_path / "attributes.tsv", "idx\tattribute_id", "0\ta0_safe")
    write(tmp_path / "wider_attribute_trainval.json", '{"images"')
    assert "expected JSON, got a file that is not" in refused(tmp_path, *vispr)


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "examples" / "conversion").glob("convert_*.py")))
def test_the_page_and_the_script_tell_the_same_command(script):
    told = next(
        line.strip()
        for line in (ROOT / "examples" / "conversion" / script).read_text().splitlines()
        if line.strip().startswith("python")
    )
    assert told in PAGE
