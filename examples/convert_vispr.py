"""VISPR as a table of pictures and labels.

    python examples/convert_vispr.py VISPR attributes.tsv vispr.csv

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

from shortlist.files import written_whole

SPLIT_FOLDER = re.compile(r"(?:^|/)(train|val|test)2017/")


def convert(root: Path, attributes: Path, table: Path) -> int:
    """Write the table; the number of its rows."""
    used = _used(attributes)
    rows = [row for path in sorted(root.rglob("*.json")) if (row := _row(path, used))]
    with written_whole(table) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "labels", "split"), *rows])
    return len(rows)


def _used(attributes: Path) -> set[str]:
    with attributes.open(encoding="utf-8", newline="") as file:
        return {row["attribute_id"] for row in csv.DictReader(file, delimiter="\t") if row["idx"].strip()}


def _row(annotation: Path, used: set[str]) -> tuple[str, str, str] | None:
    """The row of one picture; None where the file is no annotation."""
    content = json.loads(annotation.read_text(encoding="utf-8"))
    if "image_path" not in content or "labels" not in content:
        return None
    path: str = content["image_path"]
    split = SPLIT_FOLDER.search(path)
    if split is None:
        raise SystemExit(f"{annotation}: expected train2017, val2017 or test2017 in the path of the picture, got {path}")
    return path, "|".join(label for label in content["labels"] if label in used), split[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="VISPR as a table of pictures and labels")
    parser.add_argument("root", type=Path, help="the folder of pictures and annotations")
    parser.add_argument("attributes", type=Path, help="attributes.tsv")
    parser.add_argument("table", type=Path, help="the CSV file to write")
    given = parser.parse_args()
    print(f"{convert(given.root, given.attributes, given.table):,} rows in {given.table}")
