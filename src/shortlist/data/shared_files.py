"""Rows that share a picture file or a group: kept together where splits are drawn, and reported where splits are given."""

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache

from shortlist.data.dataset import Split
from shortlist.data.pictures import PictureBoxes, PictureFiles
from shortlist.data.problems import Problem
from shortlist.words import counted


def files_of(split: Split) -> list[str] | None:
    """The resolved path of each row's picture file; None for inputs that are not files."""
    if not isinstance(split.inputs, PictureFiles | PictureBoxes):
        return None
    folder: Callable[[str], str] = cache(lambda above: os.path.realpath(above))
    return [_resolved(os.fspath(split.inputs.path(row)), folder) for row in range(len(split))]


def _resolved(path: str, folder: Callable[[str], str]) -> str:
    above, name = os.path.split(path)
    found = os.path.join(folder(above), name)
    return os.path.realpath(found) if os.path.islink(found) else found


def rows_together(split: Split) -> Sequence[str] | None:
    """The group of each row, such that rows of one file are in one group; None if no rows belong together."""
    files = files_of(split)
    if files is None or len(set(files)) == len(files):
        return split.groups
    if split.groups is None:
        return files
    joined, first = Joined(), dict[str, str]()
    for file, group in zip(files, split.groups, strict=True):
        joined.join(first.setdefault(file, group), group)
    return [str(joined.leader(group)) for group in split.groups]


class Joined:
    """What belongs together, directly or through others.

    >>> joined = Joined()
    >>> joined.join("elm", "ash")
    >>> joined.join("ash", "oak")
    >>> joined.leader("oak"), joined.leader("fir")
    ('elm', 'fir')
    """

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def leader(self, one: Hashable) -> Hashable:
        """The one of those that belong together by which they are known."""
        while self._above.setdefault(one, one) != one:
            self._above[one] = self._above[self._above[one]]
            one = self._above[one]
        return one

    def join(self, first: Hashable, other: Hashable) -> None:
        """From here on, these two belong together; the leader of the first leads."""
        self._above[self.leader(other)] = self.leader(first)


def in_two_splits(splits: Mapping[str, Split]) -> Iterator[Problem]:
    """Picture files and groups with rows in more than one split, so that results on these rows are too good."""
    for kind, names in (
        ("picture file", {name: files_of(split) for name, split in splits.items()}),
        ("group", {name: split.groups for name, split in splits.items()}),
    ):
        home: dict[str, str] = {}
        shared: dict[str, str] = {}
        for split, found in names.items():
            for one in found or ():
                if home.setdefault(one, split) != split:
                    shared.setdefault(one, split)
        if shared:
            one, other = next(iter(shared.items()))
            what = f"is in {home[one]} and in {other}: {counted(len(shared), kind + ' is', kind + 's are')} in two splits"
            yield Problem(f"{kind}s in two splits", one, f"{what}, so that results are too good")


def with_two_labels(splits: Mapping[str, Split]) -> Iterator[Problem]:
    """Picture files with rows of different labels, one of which must be wrong; parts of a file may differ."""
    first: dict[str, object] = {}
    twice: dict[str, None] = {}
    for split in splits.values():
        if not isinstance(split.inputs, PictureFiles) or split.target is None:
            continue
        for file, label in zip(files_of(split) or (), split.target.tolist(), strict=True):
            if first.setdefault(file, label) != label:
                twice[file] = None
    if twice:
        what = counted(len(twice), "picture file has", "picture files have")
        yield Problem("picture files with two labels", next(iter(twice)), f"has rows with different labels: {what} two")
