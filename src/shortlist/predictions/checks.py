"""Checks of the values of predictions, where data enters. Messages name the first row or class that is wrong."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.class_names import misplaced_column
from shortlist.errors import InputError
from shortlist.tensors import as_tensor, shape_of
from shortlist.words import shown


def check_names(names: Sequence[str] | None, number: int, what: str) -> None:
    """As many names as there are things; all different where they name classes or rows."""
    if names is None:
        return
    if len(names) != number:
        raise InputError(f"{what}: expected {number} names, got {len(names)}")
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError(f"{what}: expected {number} different names, got {twice!r} more than once")
    if what == "classes" and "" in names:
        raise InputError(f"classes: expected {number} names, got an empty one for class {list(names).index('')}")


def check_columns(classes: Sequence[str] | None, columns: Sequence[str] | None) -> None:
    """The columns of a data frame of scores are the classes in their order, unless they have no names, or others altogether."""
    place = None if classes is None else misplaced_column(classes, columns)
    if place is not None and classes is not None and columns is not None:
        raise InputError(
            f"classes: expected the names of the columns in their order, got {classes[place]!r} for column {place}, which is "
            f"{columns[place]!r}"
        )


def check_storable(names: Sequence[str] | None, what: str) -> None:
    """Names that every file format can hold: Unicode text without NUL characters, which end a text in some of them."""
    try:
        if names is not None and b"\0" not in "".join(names).encode():  # all at once: there may be millions
            return
    except UnicodeEncodeError:
        pass
    for name in names or ():
        if "\0" in name:
            raise InputError(f"{what}: expected names without NUL characters, got {shown(name)}")
        if not name.isascii() and any("\ud800" <= sign <= "\udfff" for sign in name):
            raise InputError(
                f"{what}: expected names that are Unicode text, got {name!a}, which holds half of a surrogate pair"
            )


def check_superclasses(names: Sequence[str] | None, classes: int) -> None:
    """One name for each class; several classes may share it."""
    if names is not None and len(names) != classes:
        raise InputError(f"superclasses: expected {classes} names, one for each class, got {len(names)}")


def check_counts(counts: Tensor, classes: int) -> None:
    """One count from 0 for each class."""
    if counts.ndim != 1 or len(counts) != classes:
        raise InputError(f"train_counts: expected one number for each of {classes} classes, got {shape_of(counts)}")
    wrong = ~(counts >= 0) | ~counts.double().isfinite()
    if wrong.any():
        label = int(wrong.nonzero()[0])
        raise InputError(f"train_counts: expected numbers from 0, got {counts[label].item()} for class {label}")


def as_quality(quality: Any, rows: int) -> Tensor:
    """One finite number for each row, as float64 (rows,).

    >>> as_quality([3, 0.5], rows=2)
    tensor([3.0000, 0.5000], dtype=torch.float64)
    """
    if isinstance(quality, list | tuple):  # of Python's floats, which torch would round to float32
        quality = np.asarray(quality)
    values = as_tensor(quality, "quality")
    if values.shape != (rows,) or values.is_complex() or values.dtype == torch.bool:
        raise InputError(f"quality: expected one number for each row, ({rows},), got {shape_of(values)}")
    values = values.detach().double()
    wrong = ~values.isfinite()
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(f"quality: expected finite numbers, got {values[row].item()} in row {row}")
    return values
