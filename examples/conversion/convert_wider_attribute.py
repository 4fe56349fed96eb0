"""WIDER Attribute as a table of pictures and labels.

    python examples/conversion/convert_wider_attribute.py WIDER wider-attribute.csv

reads below WIDER

    Image/SPLIT/SCENE/PICTURE.jpg
    wider_attribute_trainval.json, wider_attribute_test.json               in this folder or in one below it

and writes the columns path, labels (between them |) and split. Then

    shortlist.data.open_dataset("wider-attribute.csv", root="WIDER/Image", separator="|")

The files describe persons. Here a picture has an attribute if one of its persons has it for certain: 1 is yes, -1 no and 0
cannot be told. The first part of a file name is its split.
"""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import written_whole

# In the order of the numbers that describe a person.
FIRST_SEVEN = ["male", "longhair", "sunglass", "hat", "tshirt", "longsleeve", "formal"]
LAST_SEVEN = ["shorts", "jeans", "longpants", "skirt", "facemask", "logo", "stripe"]
ATTRIBUTES = FIRST_SEVEN + LAST_SEVEN
FILES = ("wider_attribute_trainval.json", "wider_attribute_test.json")


def convert(root: Path, table: Path) -> int:
    """Write the table; the number of its rows."""
    rows = [row for name in FILES for row in _rows(_find(root, name))]
    if not rows:
        raise InputError(f"{root}: expected pictures in {' or '.join(FILES)}, got none")
    with written_whole(table) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "labels", "split"), *rows])
    return len(rows)


def _rows(path: Path) -> list[tuple[str, str, str]]:
    try:
        return [_row(picture) for picture in json.loads(path.read_bytes())["images"]]
    except (ValueError, KeyError, TypeError, IndexError):
        expected = "a list images of pictures, each with a file_name and targets"
        raise InputError(f"{path}: expected {expected}, got another file, or one cut short") from None


def _row(picture: dict[str, Any]) -> tuple[str, str, str]:
    persons = [person["attribute"] for person in picture["targets"]]
    present = [name for place, name in enumerate(ATTRIBUTES) if any(person[place] == 1 for person in persons)]
    path: str = picture["file_name"]
    return path, "|".join(present), path.split("/")[0]


def _find(root: Path, name: str) -> Path:
    found = sorted(root.rglob(name))
    if not found:
        raise InputError(f"{root}: expected {name} in it or below it")
    return found[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="WIDER Attribute as a table of pictures and labels")
    parser.add_argument("root", type=Path, help="the folder that holds Image and the annotations")
    parser.add_argument("table", type=Path, help="the CSV file to write")
    given = parser.parse_args()
    try:
        print(f"{convert(given.root, given.table):,} rows in {given.table}")
    except (InputError, OSError) as error:
        raise SystemExit(str(error)) from None
