"""The other columns of a table: the split and the group of each row, the superclass of each class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from shortlist.class_names import superclass_by_class
from shortlist.data.dataset import ALL, TRAIN, Split, usual_split_names
from shortlist.data.problems import Problem
from shortlist.data.readers.label_columns import Labels, encode_names
from shortlist.tensors import Array

USUAL_ORDER = (TRAIN, "val", "test")


def split_numbers(column: Any | None, name: str, rows: int) -> tuple[Array, list[str]]:
    """The split of every row, int64 (N,), -1 where none is given, and the names of the splits, train, val and test first."""
    if column is None:
        return np.zeros(rows, np.int64), [ALL]
    codes, written, _ = encode_names(column, name)
    called = list(usual_split_names(written).values())
    names = sorted(set(called), key=lambda split: (USUAL_ORDER.index(split) if split in USUAL_ORDER else 3, split))
    renumbered = np.array([*(names.index(split) for split in called), -1], np.int64)
    numbers: Array = renumbered[codes]
    return numbers, names


def in_splits(whole: Split, numbers: Array, names: Sequence[str]) -> dict[str, Split]:
    """The rows of each split, in their order."""
    if len(names) == 1 and bool((numbers == 0).all()):
        return {names[0]: whole}
    return {name: whole.rows(torch.from_numpy(np.flatnonzero(numbers == place))) for place, name in enumerate(names)}


def row_ids(column: Any | None, own: Sequence[str]) -> list[str]:
    """The name of each row: the value of a column, or the row's own name where the cell is empty or there is no column.

    Args:
        column: an Arrow column; None without one.
        own: such as the numbers of the rows.

    >>> import pyarrow as pa
    >>> row_ids(pa.array(["oak", None]), ["0", "1"])
    ['oak', '1']
    """
    if column is None:
        return list(own)
    return [name if value is None else str(value) for value, name in zip(column.to_pylist(), own, strict=True)]


def group_names(column: Any | None, name: str, ids: Sequence[str]) -> list[str] | None:
    """The group of every row; a row without one forms a group by itself, named by its id, with a mark where that is taken.

    >>> import pyarrow as pa
    >>> group_names(pa.chunked_array([["1", None, "1", None]]), "group", ["0", "1", "2", "3"])
    ['1', "1'", '1', '3']
    """
    if column is None:
        return None
    codes, names, _ = encode_names(column, name)
    taken, groups = set(names), []
    for code, own in zip(codes.tolist(), ids, strict=True):
        if code < 0:
            while own in taken:
                own += "'"
            taken.add(own)
        groups.append(names[code] if code >= 0 else own)
    return groups


def superclass_names(column: Any, name: str, labels: Labels) -> tuple[list[str], list[Problem]]:
    """The superclass of every class, from a column that gives that of every row; for one label a row."""
    codes, names, _ = encode_names(column, name)
    both = (codes >= 0) & labels.known
    pairs, counts = np.unique(labels.target[both] * max(1, len(names)) + codes[both], return_counts=True)
    problems: list[Problem] = []
    chosen: list[str | None] = [None] * len(labels.classes)
    for label, own in enumerate(labels.classes):
        here = pairs // max(1, len(names)) == label
        candidates = [names[pair] for pair in (pairs[here] % max(1, len(names))).tolist()]
        if candidates:
            chosen[label] = candidates[int(counts[here].argmax())]
        else:
            problems.append(Problem("class without a superclass", own, "is its own superclass"))
        if len(candidates) > 1:
            what = f"is in {', '.join(map(repr, candidates))}: {chosen[label]!r}, the most frequent, is kept"
            problems.append(Problem("class in several superclasses", own, what))
    return superclass_by_class(chosen, labels.classes), problems  # names those without one, unlike any superclass of others
