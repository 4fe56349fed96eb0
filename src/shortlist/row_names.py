"""Names of rows that data brings along, the index of pandas objects, which must agree where both sides have one."""

from collections.abc import Sequence
from typing import Any

from shortlist.errors import InputError


def row_names(values: Any) -> list[str] | None:
    """The names of the rows of a pandas object; None for anything else, and where rows are only numbered, from 0 in order.

    >>> import pandas as pd
    >>> row_names(pd.Series([1, 2], index=["leaf", "twig"])), row_names(pd.Series([1, 2])), row_names([1, 2])
    (['leaf', 'twig'], None, None)
    """
    index = getattr(values, "index", None)
    if index is None or callable(index) or not hasattr(values, "to_numpy"):  # index is a method of lists
        return None
    return _unless_numbered([str(name) for name in index])


def check_same_rows(values: Any, given: Any, name: str = "target") -> None:
    """Raise an error if both are pandas objects and name the same rows, or some of the same, in another order.

    Rows that are only numbered from 0 have no names, and names that have nothing in common are not compared.

    Args:
        values: scores, probabilities, sets or inputs, one row each.
        given: what belongs to these rows in their order: labels, a quality, …
        name: what this is called in messages.
    """
    index: Any = getattr(values, "index", None)
    if hasattr(index, "equals") and index.equals(getattr(given, "index", None)):  # without making texts of all names
        return
    known, names = row_names(values), row_names(given)
    if known is not None and names is not None and not set(names).isdisjoint(known):
        _check_order(known, names, name)


def check_row_names(known: Sequence[str] | None, given: Any, name: str) -> None:
    """As :func:`check_same_rows`, for rows with ids; an index is compared only if it has the same names as these.

    >>> import pandas as pd
    >>> check_row_names(["leaf", "twig"], pd.Series([7.5, 2.5], index=["twig", "leaf"]), "quality")
    Traceback (most recent call last):
    shortlist.errors.InputError: quality: expected the rows in their order, got 'twig' in row 0, which is 'leaf': select them \
by name (quality.loc[…]), or, if they are in order, take the values without names (quality.to_numpy())
    """
    names, known = row_names(given), None if known is None else _unless_numbered(known)
    if known is not None and names is not None and set(names) == set(known):
        _check_order(known, names, name)


def _check_order(known: Sequence[str], names: Sequence[str], name: str) -> None:
    place = next((place for place, (one, other) in enumerate(zip(known, names, strict=False)) if one != other), None)
    if place is not None and len(known) == len(names):  # of other numbers of rows the caller speaks
        raise InputError(
            f"{name}: expected the rows in their order, got {names[place]!r} in row {place}, which is {known[place]!r}: select "
            f"them by name ({name}.loc[…]), or, if they are in order, take the values without names ({name}.to_numpy())"
        )


def _unless_numbered(names: Sequence[str]) -> list[str] | None:
    return None if all(name == str(place) for place, name in enumerate(names)) else list(names)
