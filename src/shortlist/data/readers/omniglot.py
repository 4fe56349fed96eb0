"""Omniglot: 1,623 characters of 50 alphabets, each drawn once by 20 people."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.problems import Problem
from shortlist.data.readers.layout import contents, entries_of
from shortlist.data.readers.named_pictures import NamedPictures, dataset_of
from shortlist.errors import InputError
from shortlist.words import printable

SETS = {"background": "images_background", "evaluation": "images_evaluation"}
DRAWING = re.compile(r"(\d{4})_(\d{2})\.png", re.IGNORECASE)
CHARACTER = re.compile(r"character\d+", re.IGNORECASE)
LAST_OF_BACKGROUND = 964  # characters are numbered over the whole set, those of the background set first
DRAWERS = {TRAIN: range(1, 15), "val": range(15, 18), "test": range(18, 21)}
SOURCE = "It is offered at https://github.com/brendenlake/omniglot; shortlist.data.download_omniglot fetches it"
REFERENCE = (
    "Lake, Salakhutdinov, Tenenbaum, Human-level concept learning through probabilistic program induction, "
    "Science 350(6266):1332-1338, 2015"
)


def read_omniglot(
    root: str | Path, *, by: Literal["drawer", "set"] = "drawer", drawers: Mapping[str, Sequence[int]] = DRAWERS
) -> Dataset:
    """Omniglot from ``images_background`` and ``images_evaluation``, or from one folder of alphabets that holds both.

    A class is a character of an alphabet, and the alphabet its superclass. The two published sets hold different alphabets: a
    classifier of the one knows no class of the other. So by default splits are made by the person who drew, over all classes.

    Args:
        root: the folder of the two sets, or of the alphabets.
        by: ``"drawer"`` for splits that all hold every class, or ``"set"`` for the splits background and evaluation, which hold
            different classes.
        drawers: which of the drawers, 1 to 20, make each split; drawings of others are left out.
    """
    if by not in ("drawer", "set"):
        raise InputError(f"by: expected 'drawer' or 'set', got {by!r}")
    split_of = _split_of(drawers)
    home = Path(root)
    problems: list[Problem] = []
    drawings = list(_drawings(home, problems))
    if not drawings:
        raise InputError(
            f"{printable(str(home))}: expected Omniglot, with {' and '.join(SETS.values())} or its alphabets in it, "
            f"got {contents(home)}. {SOURCE}"
        )
    classes = sorted({drawing.name for drawing in drawings})
    number = {name: label for label, name in enumerate(classes)}
    rows: dict[str, list[_Drawing]] = {split: [] for split in (drawers if by == "drawer" else SETS)}
    for drawing in drawings:
        split = drawing.published if by == "set" else split_of.get(drawing.drawer)
        if split is not None:
            rows[split].append(drawing)
    named = {split: _named(chosen, number) for split, chosen in rows.items() if chosen}
    alphabets = [name.partition("/")[0] for name in classes]
    return dataset_of(
        "Omniglot",
        home,
        classes,
        named,
        superclasses=alphabets,
        reference=REFERENCE,
        problems=problems,
        same_classes=by == "drawer",
    )


@dataclass(frozen=True)
class _Drawing:
    path: str
    alphabet: str
    character: str
    published: str  # the set it was published in
    drawer: int

    @property
    def name(self) -> str:
        return f"{self.alphabet}/{self.character}"


def _split_of(drawers: Mapping[str, Sequence[int]]) -> dict[int, str]:
    split_of: dict[int, str] = {}
    for split, members in drawers.items():
        for drawer in members:
            if split_of.setdefault(drawer, split) != split:
                raise InputError(f"drawers: expected each in one split, got {drawer} in {split_of[drawer]} and in {split}")
    return split_of


def _named(drawings: Sequence[_Drawing], number: Mapping[str, int]) -> NamedPictures:
    """Rows of a split; drawings of one alphabet by one person belong together."""
    labels = np.array([number[drawing.name] for drawing in drawings], np.int64)
    groups = [f"{drawing.alphabet}/{drawing.drawer:02d}" for drawing in drawings]
    return NamedPictures([drawing.path for drawing in drawings], labels, groups)


def _drawings(home: Path, problems: list[Problem]) -> Iterator[_Drawing]:
    """Every drawing, in the order of the paths; what else lies there is noted."""
    tops = {name: folder for name, folder in SETS.items() if (home / folder).is_dir()}
    if tops:
        for published, folder in tops.items():
            yield from _drawings_below(home, folder, published, problems)
    elif home.is_dir():
        inner = "omniglot_resized" if (home / "omniglot_resized").is_dir() else "."
        yield from _drawings_below(home, inner, None, problems)


def _drawings_below(home: Path, top: str, published: str | None, problems: list[Problem]) -> Iterator[_Drawing]:
    for alphabet in _folders(home, top, None, problems):
        for character in _folders(home, f"{top}/{alphabet}", CHARACTER, problems):
            folder = f"{top}/{alphabet}/{character}"
            for file, _ in entries_of(home, folder, problems):
                match = DRAWING.fullmatch(file)
                if match is None:
                    _note(f"{folder}/{file}", problems)
                    continue
                of = published or ("background" if int(match[1]) <= LAST_OF_BACKGROUND else "evaluation")
                yield _Drawing(f"{folder}/{file}".removeprefix("./"), alphabet, character, of, int(match[2]))


def _folders(home: Path, folder: str, pattern: re.Pattern[str] | None, problems: list[Problem]) -> list[str]:
    """The folders in a folder, in order; files, and folders whose names do not fit, are noted."""
    kept = []
    for name, is_folder in entries_of(home, folder, problems):
        if is_folder and (pattern is None or pattern.fullmatch(name)):
            kept.append(name)
        else:
            _note(f"{folder}/{name}", problems)
    return kept


def _note(path: str, problems: list[Problem]) -> None:
    problems.append(Problem("no drawing", path.removeprefix("./"), "is not named like a drawing or its folder: left out"))
