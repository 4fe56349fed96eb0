"""The form of label files that COCO has and others took over: lists of images, annotations and categories."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from shortlist.data.problems import Problem
from shortlist.data.readers.layout import parsed_json
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import printable

Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class CocoJson:
    """One label file.

    Args:
        path: where it lies.
        images: each with an id of its own and a file_name.
        annotations: each with an image_id and a category_id.
        categories: in the order of their ids.
        problems: what was odd.
    """

    path: Path
    images: list[Record]
    annotations: list[Record]
    categories: list[Record]
    problems: list[Problem]

    @classmethod
    def read(cls, path: Path) -> "CocoJson":
        """The file, or a sentence on what it lacks."""
        document = parsed_json(path, "a label file in COCO's form")
        images = records(document, "images", path)
        ids = integers(images, "id", path)
        first = np.unique(ids, return_index=True)[1]
        problems = []
        if len(first) < len(ids):
            again = np.setdiff1d(np.arange(len(ids)), first).tolist()
            problems = [Problem("image id given twice", path.name, f"{ids[row]} again: the first is kept") for row in again]
            images = [images[row] for row in np.sort(first).tolist()]
        categories = sorted_categories(records(document, "categories", path), path)
        return cls(path, images, records(document, "annotations", path), categories, problems)

    def files(self) -> list[str]:
        """The file_name of each image."""
        try:
            return [image["file_name"] for image in self.images]
        except KeyError:
            raise InputError(f"{printable(str(self.path))}: expected a file_name in each of images, got one without") from None

    def check_categories(self, first: "CocoJson") -> None:
        """Raise an error if an id means another category here than in the first file, whose names the classes have."""
        names = {category["id"]: category.get("name") for category in first.categories}
        for category in self.categories:
            here, there = category.get("name"), names.get(category["id"])
            if category["id"] in names and here != there:
                raise InputError(
                    f"{printable(str(self.path))}: expected the categories of {printable(first.path.name)}, got {here!r} with "
                    f"the id {category['id']}, which is {there!r} there: give both files the same categories"
                )

    def labels(self, categories: list[Record]) -> tuple[Array, Array]:
        """The row of the image and the place of the category of each annotation; those that name nothing known are noted."""
        image = integers(self.annotations, "image_id", self.path)
        category = integers(self.annotations, "category_id", self.path)
        row = positions(integers(self.images, "id", self.path), image)
        label = positions(integers(categories, "id", self.path), category)
        for kind, unknown in (("image", np.unique(image[row < 0])), ("category", np.unique(category[label < 0]))):
            place = "in the file" if kind == "image" else "among the categories"
            what = f"annotations name {kind} {{}}, which is not {place}: left out"
            self.problems.extend(Problem(f"unknown {kind}", self.path.name, what.format(one)) for one in unknown.tolist())
        known = (row >= 0) & (label >= 0)
        return row[known], label[known]


def records(document: Any, part: str, path: Path) -> list[Record]:
    """One of the lists of a label file."""
    found = document.get(part) if isinstance(document, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found[:1]):
        raise InputError(f"{printable(str(path))}: expected an object with a list {part!r} of objects in it, got none")
    return found


def sorted_categories(categories: list[Record], path: Path) -> list[Record]:
    """In the order of their ids, which may have gaps: the label of a category is its place here."""
    ids = integers(categories, "id", path)
    if len(np.unique(ids)) < len(ids):
        raise InputError(f"{printable(str(path))}: expected categories with ids of their own, got one twice")
    return [categories[place] for place in np.argsort(ids).tolist()]


def integers(found: list[Record], field: str, path: Path) -> Array:
    """One field of each record, int64 (N,)."""
    try:
        return np.fromiter((record[field] for record in found), np.int64, len(found))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{printable(str(path))}: expected a whole number {field!r} in each record, got one without") from None


def positions(ids: Array, wanted: Array) -> Array:
    """Where each wanted id stands among ``ids``, -1 where it does not.

    >>> positions(np.array([7, 3, 9]), np.array([9, 3, 4]))
    array([ 2,  1, -1])
    """
    if not len(ids):
        return np.full(len(wanted), -1)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    return np.where(ids[order][place] == wanted, order[place], -1)
