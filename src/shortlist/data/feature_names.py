"""Names of features: columns of a table are matched by name, those of an array by position."""

import warnings
from collections.abc import Sequence
from typing import Any

from shortlist.errors import InputError, ShortlistWarning
from shortlist.words import quoted

MOST_SHOWN, MOST_DIFFERENT = 8, 4  # names in a message


def is_unnamed(names: Sequence[str]) -> bool:
    """Whether these are no names: none at all, or the numbers that columns have by default.

    >>> is_unnamed([]), is_unnamed(["0", "1"]), is_unnamed(["1", "0"]), is_unnamed(["width"])
    (True, True, False, False)
    """
    return list(names) == _numbers(len(names))


def names_in_frame(given: Any) -> list[str]:
    """The names of the columns of a data frame, or of the values of one of its rows; empty for anything else, and by default.

    >>> names_in_frame([[1.0, 2.0]])
    []
    """
    names = [str(name) for name in frame_labels(given)]
    return [] if is_unnamed(names) else names


def frame_labels(given: Any) -> list[Any]:
    """The labels by which a data frame gives its columns, or one of its rows its values."""
    if not hasattr(given, "to_numpy"):
        return []
    if hasattr(given, "columns"):
        return list(given.columns)
    index = getattr(given, "index", None)  # of a row; a method of other things
    labels = [] if index is None or callable(index) else list(index)
    return labels if all(isinstance(label, str) for label in labels) else []


def column_order(names: Sequence[str], wanted: Sequence[str], what: str = "features") -> list[int] | None:
    """The place of each wanted feature among the columns of a table; None to take the columns as they are.

    Columns are taken as they are if they are in the wanted order already, or if either side has no names; a warning says so
    where only the columns have names. Missing and unknown names are refused, and so are numbers beside the numbers that
    columns have by default: a column called 2 is not the one at position 2.

    Args:
        names: the columns of the table; empty for an array.
        wanted: the names of the features, in the order that is wanted; empty for features without names.
        what: what messages call the columns.

    >>> column_order(["c", "a", "b"], ["a", "b", "c"])
    [1, 2, 0]
    """
    unnamed = is_unnamed(wanted)
    wanted = _numbers(len(names)) if unnamed else list(wanted)
    if not names or list(names) == wanted:
        return None
    place = {name: number for number, name in enumerate(names)}
    if len(place) == len(names) == len(wanted) and place.keys() == set(wanted):
        return [place[name] for name in wanted]
    if unnamed or is_unnamed(names):
        _check_positions(names, wanted, what)
        if unnamed:
            warnings.warn(
                f"{what}: columns taken by position, because the features of the training have no names, got "
                f"{quoted(names, MOST_SHOWN)}",
                ShortlistWarning,
                stacklevel=2,
            )
        return None
    missing, unknown = _without(wanted, names), _without(names, wanted)
    if not missing and not unknown:
        raise InputError(f"{what}: expected names that are all different, or in the order {quoted(wanted, MOST_SHOWN)}")
    raise InputError(
        f"{what}: expected {quoted(wanted, MOST_SHOWN)}, got {quoted(names, MOST_SHOWN)}: missing "
        f"{quoted(missing, MOST_DIFFERENT)}, unknown {quoted(unknown, MOST_DIFFERENT)}"
    )


def _check_positions(names: Sequence[str], wanted: Sequence[str], what: str) -> None:
    """Raise an error if one side numbers its columns by default and the other calls a column by another number."""
    for one, other in ((names, wanted), (wanted, names)):
        if is_unnamed(one) and any(name.isdecimal() and int(name) != place for place, name in enumerate(other)):
            raise InputError(
                f"{what}: expected {quoted(wanted, MOST_SHOWN)}, got {quoted(names, MOST_SHOWN)}: a number could be a name or "
                "a position, so rename the columns, or give an array to go by position"
            )


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name not in known]
