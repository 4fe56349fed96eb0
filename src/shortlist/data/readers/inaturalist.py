"""iNaturalist, the competitions of 2017, 2018, 2019 and 2021: species by the thousand."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.problems import Problem
from shortlist.data.readers.coco_json import CocoJson, Record, records, sorted_categories
from shortlist.data.readers.layout import chosen_year, contents, parsed_json
from shortlist.data.readers.named_pictures import NamedPictures, dataset_of, distinct_names
from shortlist.errors import InputError
from shortlist.words import printable

SOURCE = "The files are offered at https://github.com/visipedia/inat_comp: give the folder into which they were unpacked"
REFERENCES = {
    2017: "Van Horn et al., The iNaturalist species classification and detection dataset, arXiv:1707.06642",
    2021: "Van Horn et al., Benchmarking representation learning for natural world image collections, CVPR 2021, "
    "arXiv:2103.16483",
}
UNPUBLISHED = "the iNaturalist competitions, https://github.com/visipedia/inat_comp"
LABEL_FILE = re.compile(r"(train|train_mini|val)(\d{4})?\.json")
RANKS = ("supercategory", "kingdom", "phylum", "class", "order", "family", "genus")
LATER_NAMES = "categories.json"
CODED_YEARS = (2018, 2019)  # whose label files have codes instead of names
UNMARKED_YEAR = 2021  # whose files carry no year in their names


def read_inaturalist(
    root: str | Path, *, year: int | None = None, superclass: str | None = None, mini: bool = False
) -> Dataset:
    """iNaturalist from its label files, ``train2018.json`` and ``val2018.json`` (in 2021 ``train.json`` and ``val.json``).

    Names in the files of 2018 and 2019 are codes; where ``categories.json``, published later for each of these years, lies
    beside them and has the same ids, it gives the names. One that does not fit is noted and not used. Labels follow the
    category ids. Pictures of one rights holder form a group.

    Args:
        root: the folder of the label files, and of the folders that picture paths begin with (``train_val2018``, …).
        year: only needed where files of several years are there.
        superclass: ``"supercategory"``, ``"genus"`` or another rank that the file has; by default the supercategory, or the
            genus where there is none (2019).
        mini: train on the smaller ``train_mini.json`` of 2021; also where ``train.json`` is not there.
    """
    home = Path(root)
    files = _label_files(home)
    chosen = chosen_year(sorted({found for _, found in files}), year)
    train = "train_mini" if ("train_mini", chosen) in files and (mini or (TRAIN, chosen) not in files) else TRAIN
    problems: list[Problem] = []
    categories: list[Record] = []
    named: dict[str, NamedPictures] = {}
    first: CocoJson | None = None
    for split, part in ((TRAIN, train), ("val", "val")):
        if (part, chosen) not in files:
            problems.append(Problem("absent label file", f"{split}.json", f"of {chosen} is not there: no split {split}"))
            continue
        labelled = CocoJson.read(files[part, chosen])
        if first is None:
            first = labelled
            categories = _categories(home, first, chosen, problems)
        labelled.check_categories(first)
        named[split] = _rows(home, labelled, categories)
        problems += labelled.problems
    ids = [str(category["id"]) for category in categories]
    classes = distinct_names([str(category.get("name", code)) for category, code in zip(categories, ids, strict=True)], ids)
    superclasses = _superclasses(categories, superclass)
    name, reference = f"iNaturalist {chosen}", REFERENCES.get(chosen, UNPUBLISHED)
    return dataset_of(name, home, classes, named, superclasses=superclasses, reference=reference, problems=problems)


def _label_files(home: Path) -> dict[tuple[str, int], Path]:
    """The label files by split and year."""
    found = {path: LABEL_FILE.fullmatch(path.name) for path in sorted(home.iterdir())} if home.is_dir() else {}
    files = {(match[1], int(match[2] or UNMARKED_YEAR)): path for path, match in found.items() if match}
    if not files:
        raise InputError(
            f"{printable(str(home))}: expected the label files of iNaturalist, train2018.json or its like, "
            f"got {contents(home)}. {SOURCE}"
        )
    return files


def _categories(home: Path, labelled: CocoJson, year: int, problems: list[Problem]) -> list[Record]:
    """The categories of a label file, or those published later if they fit; a note if they do not."""
    own, later = labelled.categories, _later_names(home)
    if not later:
        return own
    names = [category.get("name") for category in own]
    if [category["id"] for category in later] != [category["id"] for category in own]:
        misfit = f"has other ids than {labelled.path.name}, so it belongs to another year: not used"
    elif names == [category.get("name") for category in later] or (year in CODED_YEARS and _are_codes(names)):
        return later
    else:
        misfit = f"has other names than {labelled.path.name}, whose names are no codes: not used"
    problems.append(Problem("names that do not fit", LATER_NAMES, misfit))
    return own


def _are_codes(names: list[Any]) -> bool:
    """Whether names stand for those of species, which have no digits."""
    return any(character.isdigit() for name in names for character in str(name))


def _later_names(home: Path) -> list[Record]:
    """The list of categories that was published to replace the codes, where it is there."""
    path = home / LATER_NAMES
    if not path.is_file():
        return []
    document = parsed_json(path, "the names of the species")
    listed = document if isinstance(document, dict) else {"categories": document}
    return sorted_categories(records(listed, "categories", path), path)


def _rows(home: Path, labelled: CocoJson, categories: list[Record]) -> NamedPictures:
    """One label an image: the first of its annotations; others, and images without any, are noted."""
    files = _paths(home, labelled.files())
    row, label = labelled.labels(categories)
    target = np.full(len(files), -1)
    target[row[::-1]] = label[::-1]  # written last, the first annotation stays
    for image in np.unique(row[label != target[row]]).tolist():
        labelled.problems.append(
            Problem("several labels", files[image], "has annotations of several species: the first is kept")
        )
    bare = np.flatnonzero(target < 0).tolist()
    labelled.problems.extend(Problem("picture without a label", files[image], "has no annotation: left out") for image in bare)
    holders = [image.get("rights_holder") for image in labelled.images]
    groups = [str(holder or file) for holder, file in zip(holders, files, strict=True)] if any(holders) else None
    return NamedPictures(files, target, groups).only(target >= 0)


def _paths(home: Path, files: list[str]) -> list[str]:
    """Names begin with the folder that the archive unpacks to; some people unpack it into a folder of that name."""
    top = files[0].partition("/")[0] if files else ""
    again = f"{top}/" if top and (home / top / top).is_dir() else ""
    return [again + file for file in files]


def _superclasses(categories: list[Record], rank: str | None) -> list[str] | None:
    """The rank of every category, by name."""
    there = [name for name in RANKS if all(category.get(name) is not None for category in categories)]
    if rank is None:
        rank = next((name for name in ("supercategory", "genus") if name in there), None)
        if rank is None:
            return None
    elif rank not in there:
        raise InputError(f"superclass: expected {' or '.join(there) or 'nothing'}, as the file has it, got {rank!r}")
    return [str(category[rank]) for category in categories]
