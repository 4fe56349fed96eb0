"""Values, checked once, where data or parameters enter. Messages name what is wrong first."""

from typing import Any

import torch

from shortlist.errors import InputError
from shortlist.tensors import Scores, Target, is_single_label, row_blocks

MOST = 2**31 - 1


def whole_number(number: Any, name: str, least: int) -> int:
    """A parameter that counts something, as an int."""
    try:
        whole = not isinstance(number, bool) and int(number) == number and least <= number <= MOST
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise InputError(f"{name}: expected a whole number from {least}, got {str(number)[:40]}")
    return int(number)


def share(number: Any, name: str) -> float:
    """A parameter that says how much of something, from 0 to 1, as a float."""
    try:
        fits = not isinstance(number, bool) and 0 <= float(number) <= 1
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise InputError(f"{name}: expected a number from 0 to 1, got {str(number)[:40]}")
    return float(number)


def check_finite(scores: Scores) -> None:
    """No NaN, nothing infinite."""
    for rows in row_blocks(*scores.shape):
        block = scores[rows]
        # A sum is finite only if every term is (or overflows, which the second look tells apart), in one fast read.
        if not block.sum(dtype=torch.float32).isfinite() and not block.isfinite().all():
            row, column = (~block.isfinite()).nonzero()[0].tolist()
            raise InputError(
                f"scores: expected finite numbers, got {block[row, column].item()} in row {rows.start + row}, "
                f"class {column}: drop or repair such rows first"
            )


def check_labels(target: Target, classes: int) -> None:
    """Labels from 0 to C - 1."""
    if is_single_label(target) and len(target):
        wrong = (target < 0) | (target >= classes)
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise InputError(
                f"target: expected labels from 0 to {classes - 1}, got {int(target[row])} in row {row}; "
                "rows without a label need a bool (N, C) target"
            )
