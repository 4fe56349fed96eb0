"""NUS-WIDE as a table of pictures and labels.

    python examples/conversion/convert_nus_wide.py NUS-WIDE nus-wide.csv

reads below NUS-WIDE

    ConceptsList/Concepts81.txt, or Concepts81.txt                         one concept a line
    ImageList/TrainImagelist.txt, ImageList/TestImagelist.txt              one picture a line, with backslashes
    Groundtruth/TrainTestLabels/Labels_CONCEPT_Train.txt, …_Test.txt       0 or 1 in line i for picture i
    Flickr/FOLDER/PICTURE.jpg                                              the folder is a search word, not a label

and writes the columns path, labels (between them |) and split. Then

    shortlist.data.open_dataset("nus-wide.csv", root="NUS-WIDE", separator="|")

Pictures that are no longer offered are named by the reader and left out; allow for them with its ``tolerance``.
"""

import argparse
from pathlib import Path

from shortlist.csv_files import csv_writer
from shortlist.errors import InputError
from shortlist.files import written_whole


def convert(root: Path, table: Path) -> int:
    """Write the table; the number of its rows."""
    places = [root / "ConceptsList" / "Concepts81.txt", root / "Concepts81.txt"]
    concepts = _lines(next((place for place in places if place.is_file()), places[0]))
    rows = [row for split in ("Train", "Test") for row in _rows(root, split, concepts)]
    if not rows:
        raise InputError(f"{root}: expected pictures in ImageList/TrainImagelist.txt or TestImagelist.txt, got none")
    with written_whole(table) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv_writer(file).writerows([("path", "labels", "split"), *rows])
    return len(rows)


def _rows(root: Path, split: str, concepts: list[str]) -> list[tuple[str, str, str]]:
    pictures = _lines(root / "ImageList" / f"{split}Imagelist.txt")
    labels: list[list[str]] = [[] for _ in pictures]
    for concept in concepts:
        path = root / "Groundtruth" / "TrainTestLabels" / f"Labels_{concept}_{split}.txt"
        marks = _lines(path)
        if len(marks) != len(pictures):
            raise InputError(f"{path}: expected {len(pictures)} lines, one for each picture, got {len(marks)}")
        for row, mark in enumerate(marks):
            if mark == "1":
                labels[row].append(concept)
    paths = ["Flickr/" + picture.replace("\\", "/") for picture in pictures]
    return [(path, "|".join(own), split.lower()) for path, own in zip(paths, labels, strict=True)]


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError(f"{path}: expected a list of NUS-WIDE, got nothing: give the folder that holds ImageList")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected a list of NUS-WIDE in UTF-8, got other bytes") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="NUS-WIDE as a table of pictures and labels")
    parser.add_argument("root", type=Path, help="the folder of NUS-WIDE")
    parser.add_argument("table", type=Path, help="the CSV file to write")
    given = parser.parse_args()
    try:
        print(f"{convert(given.root, given.table):,} rows in {given.table}")
    except (InputError, OSError) as error:
        raise SystemExit(str(error)) from None
