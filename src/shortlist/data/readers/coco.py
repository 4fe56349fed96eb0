"""MS-COCO: which of 80 kinds of object a picture shows."""

import re
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from shortlist.checks import one_of
from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.problems import Problem
from shortlist.data.readers.coco_json import CocoJson, Record
from shortlist.data.readers.layout import chosen_year, find_home
from shortlist.data.readers.named_pictures import NamedPictures, dataset_of, distinct_names, shared_names
from shortlist.errors import InputError
from shortlist.words import counted, printable

Unannotated: TypeAlias = Literal["keep", "drop"]
SOURCE = (
    "COCO is offered at https://cocodataset.org: give the folder into which the zips of pictures and annotations were unpacked"
)
REFERENCE = "Lin et al., Microsoft COCO: Common Objects in Context, ECCV 2014, arXiv:1405.0312"
SPLITS = (TRAIN, "val")
INSTANCES = re.compile(r"instances_(?:train|val)(\d{4})\.json")


def read_coco(root: str | Path, *, year: int | None = None, unannotated: Unannotated = "keep") -> Dataset:
    """COCO from ``annotations/instances_{train,val}YEAR.json``, ``trainYEAR/`` and ``valYEAR/``: a bool target (N, 80).

    A picture has the label of every category of which it has an annotation, those of crowds included: many objects that were
    outlined together are still there. Pictures without annotation are rows without labels unless they are dropped. Labels
    follow the category ids, which have gaps, in ascending order; supercategories are the superclasses.

    Args:
        root: the folder that holds annotations and pictures.
        year: of the files, 2014 or 2017; only needed where both are there.
        unannotated: ``"drop"`` leaves out pictures without annotation and records how many there were: of COCO 2014, 82,081
            pictures of train and 40,137 of val then remain, the numbers that papers report.
    """
    one_of("keep", "drop")("unannotated", unannotated)
    home = find_home(root, "MS-COCO", holds=["annotations"], source=SOURCE)
    chosen = _year(home / "annotations", year)
    named, problems = {}, []
    first: CocoJson | None = None
    for split in SPLITS:
        path = home / "annotations" / f"instances_{split}{chosen}.json"
        if not path.is_file():
            problems.append(Problem("absent label file", f"annotations/{path.name}", f"is not there: no split {split}"))
            continue
        labelled = CocoJson.read(path)
        first = first or labelled
        labelled.check_categories(first)
        named[split] = _rows(labelled, f"{split}{chosen}", first.categories)
        problems += labelled.problems
        if unannotated == "drop":
            named[split] = _annotated(named[split], split, problems)
    categories = [] if first is None else first.categories
    names = [str(category.get("name", category["id"])) for category in categories]
    problems += shared_names(names)
    classes = distinct_names(names, [str(category["id"]) for category in categories])
    above = [category.get("supercategory") for category in categories]
    superclasses = None if None in above else [str(name) for name in above]
    return dataset_of(f"COCO {chosen}", home, classes, named, superclasses=superclasses, reference=REFERENCE, problems=problems)


def _rows(labelled: CocoJson, folder: str, categories: list[Record]) -> NamedPictures:
    target = np.zeros((len(labelled.images), len(categories)), bool)
    target[labelled.labels(categories)] = True
    return NamedPictures([f"{folder}/{file}" for file in labelled.files()], target)


def _annotated(rows: NamedPictures, split: str, problems: list[Problem]) -> NamedPictures:
    """Only the pictures with an annotation."""
    kept = np.asarray(rows.target.any(1))
    if not kept.all():
        what = f"{counted(int((~kept).sum()), 'picture')} of {len(rows):,} without annotation: left out"
        problems.append(Problem("pictures without annotation", split, what))
    return rows.only(kept)


def _year(annotations: Path, year: int | None) -> int:
    """The year asked for, or the only one there is."""
    found = (INSTANCES.fullmatch(path.name) for path in annotations.iterdir())
    years = sorted({int(match[1]) for match in found if match})
    if not years:
        raise InputError(f"{printable(str(annotations))}: expected instances_train2017.json or its like, got none. {SOURCE}")
    return chosen_year(years, year)
