"""WIDER Attribute: 14 attributes of each of 57,524 persons, marked by boxes in 13,789 pictures."""

from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from shortlist.checks import flag, one_of
from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.pictures import Box
from shortlist.data.problems import Problem
from shortlist.data.readers.layout import contents, parsed_json
from shortlist.data.readers.named_pictures import NamedPictures, dataset_of, distinct_names, with_val_in_train
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import counted, printable

Unspecified: TypeAlias = Literal["negative", "drop"]
By: TypeAlias = Literal["person", "picture"]
FILES = ("wider_attribute_trainval.json", "wider_attribute_test.json")
SPLITS = (TRAIN, "val", "test")
SOURCE = (
    "It is offered at http://mmlab.ie.cuhk.edu.hk/projects/WIDERAttribute.html: give the folder that holds Image and the "
    "annotations"
)
REFERENCE = "Li, Huang, Loy, Tang, Human Attribute Recognition by Deep Hierarchical Contexts, ECCV 2016"
# The published order, for files without attribute_id_map.
ATTRIBUTES = (
    *("Male", "longHair", "sunglass", "Hat", "Tshirt", "longSleeve", "formal"),
    *("shorts", "jeans", "longPants", "skirt", "faceMask", "logo", "stripe"),
)
NEGATIVE, UNSPECIFIED, POSITIVE = -1, 0, 1  # as the files say


def read_wider_attribute(
    root: str | Path, *, by: By = "person", unspecified: Unspecified = "negative", trainval: bool = False
) -> Dataset:
    """WIDER Attribute from ``Image/SPLIT/SCENE/*.jpg`` and its two label files: a bool target (N, 14).

    A row is a person: the box of its picture, stretched to a square so that nothing of a tall person is cropped away. Persons
    of one picture stay in one split. The files mark an attribute as present (1), absent (-1) or unspecified (0: it cannot be
    told). A bool target has no third value, so there is a choice; the number of such labels is recorded.

    Args:
        root: the folder that holds ``Image`` and, in it or in a folder below it, ``wider_attribute_trainval.json`` and
            ``wider_attribute_test.json``.
        by: ``"person"``, or ``"picture"``: a row is a picture and has the attributes that one of its persons has for certain.
        unspecified: ``"negative"`` counts unspecified attributes as absent; ``"drop"`` leaves out persons with any of them.
        trainval: train on the persons of train and val, as published results do (28,340 in Cheng, Vasconcelos, "Towards
            calibrated multi-label deep neural networks", Table 2); the epoch is then chosen on rows set aside from them.
    """
    one_of("person", "picture")("by", by), one_of("negative", "drop")("unspecified", unspecified), flag("trainval", trainval)
    home = Path(root)
    pictures = home / "Image"
    if not pictures.is_dir():
        raise InputError(
            f"{printable(str(home))}: expected WIDER Attribute, a folder with Image, got {contents(home)}. {SOURCE}"
        )
    problems: list[Problem] = []
    images: list[Any] = []
    classes: list[str] = []
    for name in FILES:
        path = _find(home, name, problems)
        if path is not None:
            document = parsed_json(path, "the labels of WIDER Attribute", fractions=True)
            images += _images(document, path)
            found = _classes(document, path)
            if classes and found != classes:
                raise InputError(
                    f"{printable(str(path))}: expected the attributes of the other file in the same order, got others in "
                    "'attribute_id_map'"
                )
            classes = found
    persons = {split: _persons(images, split, len(classes), problems) for split in SPLITS}
    named = {split: _rows(found, split, by, unspecified, problems) for split, found in persons.items() if found.paths}
    named = with_val_in_train(named) if trainval else named
    return dataset_of("WIDER Attribute", pictures, classes, named, reference=REFERENCE, problems=problems)


class _Persons:
    """The persons of a split: the picture, the box and the marks of each."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.boxes: list[Box] = []
        self.marks: list[list[int]] = []


def _find(home: Path, name: str, problems: list[Problem]) -> Path | None:
    found = sorted(home.rglob(name))
    if found:
        return found[0]
    problems.append(Problem("absent label file", name, "is not there: its splits are left out"))
    return None


def _images(document: Any, path: Path) -> list[Any]:
    images = document.get("images") if isinstance(document, dict) else None
    if not isinstance(images, list):
        raise InputError(f"{printable(str(path))}: expected an object with a list 'images', got none")
    return images


def _classes(document: Any, path: Path) -> list[str]:
    """The attributes by number, from the file where it names them."""
    names = document.get("attribute_id_map")
    if names is None:
        return list(ATTRIBUTES)
    try:
        numbered = {int(number): str(name) for number, name in names.items()}
    except (AttributeError, ValueError):
        numbered = {}
    if sorted(numbered) != list(range(len(numbered))) or not numbered:
        raise InputError(f"{printable(str(path))}: expected attributes numbered from 0 in 'attribute_id_map', got others")
    return distinct_names(
        [numbered[number] for number in range(len(numbered))], [str(number) for number in range(len(numbered))]
    )


def _persons(images: list[Any], split: str, classes: int, problems: list[Problem]) -> _Persons:
    found = _Persons()
    for image in images:
        name = image.get("file_name") if isinstance(image, dict) else None
        targets = image.get("targets") if isinstance(image, dict) else None
        if not isinstance(name, str) or not isinstance(targets, list):
            if split == TRAIN:  # noted once, not for every split
                problems.append(Problem("entry that cannot be read", str(name), "has no file_name or no targets: left out"))
            continue
        if name.partition("/")[0] != split:
            continue
        for number, person in enumerate(targets):
            box, marks = _box(person), _marks(person, classes)
            if box is None or marks is None:
                what = f"person {number} has no box, or no mark of -1, 0 or 1 for each of the {classes} attributes: left out"
                problems.append(Problem("person that cannot be read", name, what))
                continue
            found.paths.append(name)
            found.boxes.append(box)
            found.marks.append(marks)
    return found


def _box(person: Any) -> Box | None:
    numbers = person.get("bbox") if isinstance(person, dict) else None
    if not isinstance(numbers, list) or len(numbers) != 4 or not all(_is_number(number) for number in numbers):
        return None
    left, top, width, height = numbers
    return (left, top, width, height) if width > 0 and height > 0 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _marks(person: Any, classes: int) -> list[int] | None:
    marks = person.get("attribute") if isinstance(person, dict) else None
    fits = isinstance(marks, list) and len(marks) == classes and all(mark in (-1, 0, 1) for mark in marks)
    return marks if fits else None


def _rows(persons: _Persons, split: str, by: By, unspecified: Unspecified, problems: list[Problem]) -> NamedPictures:
    marks = np.array(persons.marks, np.int8)
    unknown = marks == UNSPECIFIED
    if unknown.any():
        done = "these persons are left out" if unspecified == "drop" else "counted as negative"
        what = f"{counted(int(unknown.sum()), 'unspecified label')} of {counted(int(unknown.any(1).sum()), 'person')}: {done}"
        problems.append(Problem("unspecified labels", split, what))
    rows = NamedPictures(persons.paths, marks == POSITIVE, boxes=persons.boxes)
    if unspecified == "drop":
        rows = rows.only(np.asarray(~unknown.any(1)))
    return rows if by == "person" else _by_picture(rows)


def _by_picture(rows: NamedPictures) -> NamedPictures:
    """A row a picture, with the attributes of all of its persons."""
    paths = list(dict.fromkeys(rows.paths))
    place = {path: row for row, path in enumerate(paths)}
    target: Array = np.zeros((len(paths), rows.target.shape[1]), bool)
    np.logical_or.at(target, [place[path] for path in rows.paths], rows.target)
    return NamedPictures(paths, target)
