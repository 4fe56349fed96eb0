"""VISPR: which of 68 attributes that concern privacy a picture shows."""

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shortlist.checks import flag
from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.problems import Problem
from shortlist.data.readers.layout import contents, parsed_json, text_lines
from shortlist.data.readers.named_pictures import NamedPictures, dataset_of, with_val_in_train
from shortlist.errors import InputError
from shortlist.words import printable

SPLITS = (TRAIN, "val", "test")
SPLIT_FOLDER = re.compile(r"(?:^|/)(train|val|test)2017/")
NUMBERED = re.compile(r"a(\d+)_")
TABLE = "attributes.tsv"
SOURCE = (
    "It is offered at https://tribhuvanesh.github.io/vpa/: give the folder into which train2017, val2017 and test2017 were "
    "unpacked"
)
REFERENCE = "Orekondy, Schiele, Fritz, Towards a Visual Privacy Advisor, ICCV 2017, arXiv:1703.10660"


def read_vispr(root: str | Path, *, attributes: str | Path | None = None, trainval: bool = False) -> Dataset:
    """VISPR from one ``.json`` file a picture, anywhere below the folder: a bool target (N, 68).

    A file has the fields ``image_path``, such as ``images/train2017/2017_1.jpg``, and ``labels``, a list of attribute ids; the
    folder ``images`` may be missing on disk. Classes are the attributes of ``attributes.tsv`` that have an ``idx``, in that
    order; ``a0_safe``, a picture that shows none of the others, is a class like them. Without that table they are the labels
    that occur, by their numbers.

    Args:
        root: the folder.
        attributes: the table with the columns idx and attribute_id; by default ``attributes.tsv`` in the folder.
        trainval: train on the pictures of train and val, as published results do (14,167 in Cheng, Vasconcelos, "Towards
            calibrated multi-label deep neural networks", Table 2); the epoch is then chosen on rows set aside from them.
    """
    flag("trainval", trainval)
    home = Path(root)
    problems: list[Problem] = []
    annotations = _annotations(home, problems)
    if not annotations:
        raise InputError(
            f"{printable(str(home))}: expected VISPR, .json files with image_path and labels, got {contents(home)}. {SOURCE}"
        )
    table = Path(attributes) if attributes is not None else home / TABLE
    known = _table(table) if attributes is not None or table.is_file() else None
    if known is None:
        what = "is not there: the classes are the labels that occur"
        problems.append(Problem("names are absent", TABLE, what))
        known = dict.fromkeys(sorted({label for _, labels in annotations for label in labels}, key=_number), True)
    classes = [label for label, used in known.items() if used]
    shared = "" if (home / "images").is_dir() else "images/"
    named = {split: _rows(annotations, split, known, classes, shared, problems) for split in SPLITS}
    named = {split: rows for split, rows in named.items() if len(rows)}
    named = with_val_in_train(named) if trainval else named
    return dataset_of("VISPR", home, classes, named, reference=REFERENCE, problems=problems)


def _annotations(home: Path, problems: list[Problem]) -> list[tuple[str, list[str]]]:
    """The picture and the labels of each annotation, in the order of their files; other JSON files are ignored."""
    found = []
    for path in sorted(home.rglob("*.json")):
        try:
            content: Any = parsed_json(path, "an annotation of VISPR")
        except InputError:
            what = "is not JSON, damaged or cut short: left out"
            problems.append(Problem("annotation that cannot be read", path.relative_to(home).as_posix(), what))
            continue
        if not isinstance(content, dict) or "image_path" not in content or "labels" not in content:
            continue
        picture, labels = content["image_path"], content["labels"]
        inside = isinstance(picture, str) and SPLIT_FOLDER.search(picture) and isinstance(labels, list)
        if not inside:
            what = "has no picture in train2017, val2017 or test2017, or no list of labels: left out"
            problems.append(Problem("annotation that cannot be read", path.relative_to(home).as_posix(), what))
            continue
        found.append((picture, [str(label) for label in labels]))
    return found


def _table(path: Path) -> dict[str, bool]:
    """The attribute ids, those in use first and in the order of their numbers, and whether each is in use."""
    lines = csv.DictReader(text_lines(path, "the attributes of VISPR", strip=False), delimiter="\t")
    if not {"idx", "attribute_id"} <= set(lines.fieldnames or ()):
        raise InputError(f"{printable(str(path))}: expected the columns idx and attribute_id, parted by tabs")
    used: dict[int, str] = {}
    others: list[str] = []
    for line in lines:
        number, attribute = (line["idx"] or "").strip(), (line["attribute_id"] or "").strip()
        if number.isdecimal():
            if used.setdefault(int(number), attribute) != attribute:
                raise InputError(f"{printable(str(path))}: expected an idx of its own for each attribute, got {number} twice")
        elif attribute:
            others.append(attribute)
    return {used[number]: True for number in sorted(used)} | dict.fromkeys(others, False)


def _rows(
    annotations: list[tuple[str, list[str]]],
    split: str,
    known: Mapping[str, bool],
    classes: list[str],
    shared: str,
    problems: list[Problem],
) -> NamedPictures:
    own = [one for one in annotations if (match := SPLIT_FOLDER.search(one[0])) and match[1] == split]
    place = {label: number for number, label in enumerate(classes)}
    target = np.zeros((len(own), len(classes)), bool)
    for row, (picture, labels) in enumerate(own):
        target[row, [place[label] for label in labels if label in place]] = True
        problems += [
            Problem("unknown label", picture, f"{label!r} is not in {TABLE}: the label is ignored")
            for label in labels
            if label not in known
        ]
    return NamedPictures([picture.removeprefix(shared) for picture, _ in own], target)


def _number(label: str) -> tuple[int, str]:
    """Sorts a2_… before a10_…."""
    match = NUMBERED.match(label)
    return (int(match[1]) if match else 10**9, label)
