"""Checks of values: parameters where they are given, data where it enters.

A check of a parameter is a function ``(name, value) → value``: it returns the value to work with or raises an
:class:`~shortlist.errors.InputError` that names the parameter, what was expected and what was given. The factories below make
such checks, so that a domain can be declared once and used wherever the parameter appears.
"""

import itertools
import json
import math
import numbers
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.tensors import (
    Scores,
    Target,
    check_scores,
    check_sets,
    check_target,
    is_single_label,
    row_blocks,
    shape_of,
)
from shortlist.words import did_you_mean, shown

Check: TypeAlias = Callable[[str, Any], Any]
Kind: TypeAlias = Literal["scores", "finite", "probabilities", "sets"]

LARGEST_COUNT = 2**31 - 1
# Rounding in half precision leaves probabilities a little outside [0, 1]; more than this is not rounding.
SLACK = 1e-3
LARGEST = float(np.finfo(np.float64).max)
BOUNDS = {"scores": (-math.inf, math.inf), "finite": (-LARGEST, LARGEST), "probabilities": (-SLACK, 1 + SLACK)}
LARGEST_EXPONENT = 400  # of a decimal that was typed; beyond it exact arithmetic takes minutes and means nothing


def number(*, least: float = -math.inf, above: float = -math.inf, below: float = math.inf, most: float = math.inf) -> Check:
    """A finite number within these bounds.

    >>> number(least=0, below=1)("alpha", 0.1)
    0.1
    """
    wanted = " ".join(["a number", *_bounds(least, above, below, most)])

    def check(name: str, value: Any) -> Any:
        if not _fits(value, least, above, below, most):
            raise InputError(f"{name}: expected {wanted}, got {shown(value)}")
        return value

    return check


def whole(least: int = 0, most: int = LARGEST_COUNT) -> Callable[[str, Any], int]:
    """A whole number within these bounds, however it is written, as an ``int``.

    >>> whole(least=1)("k", 5.0)
    5
    """
    wanted = "a whole number" if least == -LARGEST_COUNT else f"a whole number from {least}"
    wanted += "" if most == LARGEST_COUNT else f" to {most}"

    def check(name: str, value: Any) -> int:
        if not _fits(value, least, -math.inf, math.inf, most) or int(value) != value:
            raise InputError(f"{name}: expected {wanted}, got {shown(value)}")
        return int(value)

    return check


def increasing(least: int = 0) -> Callable[[str, Any], tuple[int, ...]]:
    """Whole numbers, each larger than the one before, as a tuple.

    >>> increasing(least=1)("sizes", [1, 2, 5])
    (1, 2, 5)
    """

    def check(name: str, value: Any) -> tuple[int, ...]:
        given = tuple(value) if isinstance(value, list | tuple) else ()
        whole_ones = [_fits(one, least, -math.inf, math.inf, LARGEST_COUNT) and int(one) == one for one in given]
        if not given or not all(whole_ones) or any(one >= other for one, other in itertools.pairwise(given)):
            raise InputError(f"{name}: expected increasing whole numbers from {least}, got {shown(value)}")
        return tuple(map(int, given))

    return check


def one_of(*choices: str) -> Check:
    """One of these words.

    >>> one_of("mean", "sum")("reduction", "sum")
    'sum'
    """

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, str) or value not in choices:
            expected = ", ".join(map(repr, choices))
            raise InputError(f"{name}: {did_you_mean(value, choices)}expected one of {expected}; got {shown(value)}")
        return value

    return check


def text(name: str, value: Any) -> str:
    """Any text.

    >>> text("name", "mine")
    'mine'
    """
    if not isinstance(value, str):
        raise InputError(f"{name}: expected text, got {shown(value)}")
    return value


def flag(name: str, value: Any) -> bool:
    """True or False.

    >>> flag("compile", True)
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}: expected True or False, got {shown(value)}")
    return bool(value)


def optional(check: Check) -> Check:
    """None, or a value that passes the given check.

    >>> optional(number(least=0))("clip", None) is None
    True
    """
    return lambda name, value: None if value is None else check(name, value)


def per_class(*, or_number: bool = False, least: float = -math.inf) -> Check:
    """A floating-point tensor (C,) of finite numbers, one for each class; or one number from 0 for all, if allowed."""

    def check(name: str, value: Any) -> Any:
        if or_number and (not isinstance(value, Tensor) or value.ndim == 0):
            return value if isinstance(value, Tensor) else number(least=0)(name, value)
        if not isinstance(value, Tensor) or value.ndim != 1 or not value.is_floating_point():
            came = shape_of(value) if isinstance(value, Tensor) else shown(value)
            raise InputError(f"{name}: expected floating point (C,), one for each class, got {came}")
        if value.device.type == "cpu" and not torch.compiler.is_compiling():  # looking costs nothing there
            wrong = ~value.isfinite() | (value < least)
            if wrong.any():
                wanted = " ".join(["finite numbers", *_bounds(least, -math.inf, math.inf, math.inf)])
                raise InputError(f"{name}: expected {wanted}, got {value[wrong][0].item():g}")
        return value

    return check


def share(name: str, value: Any) -> float:
    """A proportion of something, from 0 to 1, as a float.

    >>> share("tolerance", 1)
    1.0
    """
    return float(number(least=0, most=1)(name, value))


def decimal(name: str, value: Any) -> Fraction:
    """The decimal that was typed: 0.7 is seven tenths, not the nearest binary fraction.

    >>> decimal("alpha", 0.7)
    Fraction(7, 10)
    """
    text = "" if isinstance(value, bool) else str(value).strip()
    exponent = re.search(r"[eE][+-]?(\d+)$", text)
    try:
        if exponent is not None and int(exponent[1]) > LARGEST_EXPONENT:
            raise ValueError
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{name}: expected a number, got {shown(value)}") from None


def as_typed(name: str, value: Any) -> int | float | str:
    """A number that prints as it was typed: an int, a float, or text where no float holds it exactly.

    >>> as_typed("k", "5"), as_typed("k", 2.5), as_typed("alpha", "1/3")
    (5, 2.5, '1/3')
    """
    exact, text = decimal(name, value), str(value).strip()
    if text.isdigit():
        return int(text)
    return float(text) if "/" not in text and decimal(name, float(text)) == exact else text


def random_generator(name: str, value: Any) -> torch.Generator | None:
    """A torch generator, from one of torch, one of numpy (which gives the seed) or a seed; None stays None.

    >>> random_generator("generator", 7).initial_seed()
    7
    """
    if value is None or isinstance(value, torch.Generator):
        return value
    if isinstance(value, np.random.Generator):
        return torch.Generator().manual_seed(int(value.integers(2**63)))
    if not isinstance(value, numbers.Integral):
        raise InputError(f"{name}: expected a torch.Generator, a numpy Generator or a seed, got {shown(value)}")
    return torch.Generator().manual_seed(whole(0, 2**63 - 1)(name, value))


def json_values(name: str, value: Any) -> Any:
    """The value as JSON keeps it, so that it is the same before and after saving.

    >>> json_values("about", {"sizes": (1, 2)})
    {'sizes': [1, 2]}
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{name}: expected values that JSON can hold (text, finite numbers, lists, dictionaries): {error}"
        ) from None


def check_rows(values: Tensor, target: Target | None = None, *, kind: Kind = "scores", name: str = "probs") -> Tensor:
    """Check rows, and their labels if there are any, where they enter a function that fits or measures.

    This is the one check of data by value. It reads the values once and waits for a GPU once; inside, what has been checked is
    not checked again. Rows that come in blocks are checked block by block, as they are read.

    Args:
        values: (N, C).
        target: int64 (N,) or bool (N, C); labels are from 0 to C - 1.
        kind: ``scores``: any numbers that can be ordered, infinite ones included (``-inf`` is a class that is ruled out), but
            no NaN; ``finite``: the same without infinite ones; ``probabilities``: from 0 to 1, up to rounding, so that
            logits, log-probabilities and percentages are refused; ``sets``: booleans.
        name: the parameter, for messages.

    Returns:
        The values to work with: probabilities that rounding left outside [0, 1] are clipped, anything else is not copied.
    """
    if kind == "sets":
        check_sets(values, target)
    elif target is None:
        check_scores(values, name)
    else:
        check_target(values, target, name)
    return check_entries(values, target, kind, name)


def check_values(values: Tensor, kind: Kind, name: str = "probs") -> Tensor:
    """The values of a matrix of this kind, as :func:`check_rows` describes them; shapes have been checked."""
    return check_entries(values, None, kind, name)


def check_entries(values: Tensor, target: Target | None, kind: Kind, name: str = "probs") -> Tensor:
    """The same with their labels: one read of each, and one wait for a GPU."""
    looked_at = [values.detach()] if kind != "sets" and values.numel() else []
    labels = [target] if target is not None and is_single_label(target) and len(target) else []
    if _values_are_unknown():
        return values.clamp(0, 1) if kind == "probabilities" else values
    if not looked_at and not labels:
        return values
    # Both ends are NaN if any value is; aminmax reads at the speed of memory.
    ends = torch.cat([torch.stack(torch.aminmax(part)).double() for part in (*looked_at, *labels)]).tolist()
    lowest, highest = BOUNDS[kind] if looked_at else (0.0, 0.0)
    if looked_at and not (lowest <= ends[0] and ends[1] <= highest):
        _refuse(values, kind, name)
    if labels and not 0 <= ends[-2] <= ends[-1] <= values.shape[1] - 1:
        _refuse_label(labels[0], values.shape[1])
    rounded = kind == "probabilities" and looked_at and not (ends[0] >= 0 and ends[1] <= 1)
    return values.clamp(0, 1) if rounded else values


def _refuse(values: Tensor, kind: Kind, name: str) -> NoReturn:
    """Raise an error that names the first value that does not belong to the kind."""
    lowest, highest = BOUNDS[kind]
    for rows in row_blocks(*values.shape):
        block = values[rows].detach().double()  # in which the bounds are exact
        wrong = ~((block >= lowest) & (block <= highest))
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            value = block[row, column].item()
            break
    place = f"{value:.6g} in row {rows.start + row}, column {column}"
    if kind == "probabilities" and not math.isnan(value):
        raise InputError(
            f"{name}: expected probabilities from 0 to 1, got {place}: apply the link of the scores (softmax, sigmoid, …) "
            "first, or divide percentages by 100"
        )
    wanted = {"scores": "numbers", "finite": "finite numbers", "probabilities": "probabilities from 0 to 1"}[kind]
    raise InputError(f"{name}: expected {wanted}, got {place}: drop or repair such rows first")


def _values_are_unknown() -> bool:
    """Whether a graph is being recorded, which has no values yet."""
    return torch.compiler.is_compiling() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def check_finite(values: Tensor, name: str = "scores") -> None:
    """No NaN, nothing infinite in a matrix of scores or features."""
    check_values(values, "finite", name)


def check_row_sums(probs: Tensor, name: str = "probs") -> None:
    """Probabilities of labels that exclude each other: those of a row sum to 1, up to rounding; NaN is let through.

    >>> check_row_sums(torch.tensor([[0.25, 0.75], [0.998, 0.001]]))
    """
    if _values_are_unknown() or not len(probs):
        return
    sums = probs.detach().double().sum(1)
    wrong = (sums - 1).abs() > 1e-2
    if wrong.any():
        row = int(wrong.long().argmax())
        raise InputError(f"{name}: expected rows that sum to 1, got {sums[row].item():.4g} in row {row}")


def check_labels(target: Target, classes: int) -> None:
    """Labels from 0 to C - 1."""
    if is_single_label(target) and not _values_are_unknown() and not labels_fit(target, classes):
        _refuse_label(target, classes)


def labels_fit(target: Target, classes: int) -> bool:
    """Whether all labels of a target with one label per row are from 0 to C - 1."""
    if not len(target):
        return True
    low, high = torch.stack(torch.aminmax(target)).tolist()
    return bool(low >= 0 and high < classes)


def _refuse_label(target: Target, classes: int) -> NoReturn:
    """Raise an error that names the first label out of range."""
    row = int(((target < 0) | (target >= classes)).nonzero()[0])
    raise InputError(
        f"target: expected labels from 0 to {classes - 1}, got {int(target[row])} in row {row}: labels count from 0, and "
        "rows without a label need a bool (N, C) target"
    )


def check_labels_now(target: Target, classes: int) -> None:
    """The same if that can be told without waiting for a GPU: for losses, which are called at every step."""
    if target.device.type == "cpu":
        check_labels(target, classes)


def check_each_class(values: Tensor, scores: Scores, name: str) -> Tensor:
    """Values (C,) for as many classes as the scores have, on their device, in the precision they are computed in."""
    if len(values) != scores.shape[1]:
        raise InputError(f"{name}: expected floating point ({scores.shape[1]},), one for each class, got {shape_of(values)}")
    return values.to(scores.device, torch.promote_types(scores.dtype, torch.float32))


def _fits(value: Any, least: float, above: float, below: float, most: float) -> bool:
    try:
        finite = not isinstance(value, bool) and math.isfinite(value)
        return finite and bool(least <= value <= most) and bool(above < value < below)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False


def _bounds(least: float, above: float, below: float, most: float) -> list[str]:
    bounds = [f"from {least:g}"] if least > -math.inf else []
    bounds += [f"above {above:g}"] if above > -math.inf else []
    bounds += [f"to {most:g}"] if most < math.inf else []
    bounds += [f"below {below:g}"] if below < math.inf else []
    return bounds


def check_distinct(names: Iterable[str], what: str = "columns") -> None:
    """Check that no name comes twice.

    >>> check_distinct(["id", "place", "place"])
    Traceback (most recent call last):
    shortlist.errors.InputError: expected columns with different names, got 'place' more than once
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"expected {what} with different names, got {shown(name)} more than once")
        seen.add(name)
