"""VISPR as a table of pictures and labels.

    python examples/conversion/convert_vispr.py VISPR attributes.tsv vispr.csv

reads every ``.json`` file below VISPR, one a picture with the fields image_path (from VISPR on) and labels, and attributes.tsv,
with the columns idx and attribute_id; attributes without an idx are not used. It writes the columns path, labels (between them
|) and split, which is the folder train2017, val2017 or test2017 in the path. Then

    shortlist.data.open_dataset("vispr.csv", root="VISPR", separator="|")
"""

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import written_whole

SPLIT_FOLDER = re.compile(r"(?:^|/)(train|val|test)2017/")


def convert(root: Path, attributes: Path, table: Path) -> int:
    """Write the table; the number of its rows."""
    used = _used(attributes)
    rows = [row for path in sorted(root.rglob("*.json")) if (row := _row(path, used))]
    if not rows:
        raise InputError(f"{root}: expected .json files with image_path and labels in it or below it, got none")
    with written_whole(table) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "labels", "split"), *rows])
    return len(rows)


def _used(attributes: Path) -> set[str]:
    if not attributes.is_file():
        raise InputError(f"{attributes}: expected the table of the attributes of VISPR, got nothing")
    try:
        lines = attributes.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{attributes}: expected text in UTF-8, got other bytes") from None
    table = csv.DictReader(lines, delimiter="\t")
    if not {"idx", "attribute_id"} <= set(table.fieldnames or ()):
        raise InputError(f"{attributes}: expected the columns idx and attribute_id, parted by tabs")
    return {row["attribute_id"] for row in table if (row["idx"] or "").strip()}


def _row(annotation: Path, used: set[str]) -> tuple[str, str, str] | None:
    """The row of one picture; None where the file is no annotation."""
    try:
        content: Any = json.loads(annotation.read_bytes())
    except ValueError:
        raise InputError(f"{annotation}: expected JSON, got a file that is not: damaged or cut short") from None
    if not isinstance(content, dict) or "image_path" not in content or "labels" not in content:
        return None
    path: str = content["image_path"]
    split = SPLIT_FOLDER.search(path)
    if split is None:
        raise InputError(f"{annotation}: expected train2017, val2017 or test2017 in the path of the picture, got {path}")
    return path, "|".join(label for label in content["labels"] if label in used), split[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="VISPR as a table of pictures and labels")
    parser.add_argument("root", type=Path, help="the folder of pictures and annotations")
    parser.add_argument("attributes", type=Path, help="attributes.tsv")
    parser.add_argument("table", type=Path, help="the CSV file to write")
    given = parser.parse_args()
    try:
        print(f"{convert(given.root, given.attributes, given.table):,} rows in {given.table}")
    except (InputError, OSError) as error:
        raise SystemExit(str(error)) from None
