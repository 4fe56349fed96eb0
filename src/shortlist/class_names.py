"""Names of classes that data brings along: values looked up by them, and columns that must agree."""

from collections.abc import Iterable, KeysView, Mapping, Sequence, Set as AbstractSet
from decimal import Decimal, InvalidOperation
from numbers import Integral
from typing import Any

import numpy as np

from shortlist.errors import InputError
from shortlist.row_names import check_same_rows
from shortlist.words import did_you_mean, quoted, shown

_SERIES = "a series by name"


def column_names(values: Any) -> list[str] | None:
    """The names of the columns of a data frame; None for anything else.

    >>> column_names([[0.25, 0.75]]) is None
    True
    """
    return [str(name) for name in values.columns] if hasattr(values, "columns") and hasattr(values, "to_numpy") else None


def named_columns(values: Any) -> list[str] | None:
    """As :func:`column_names`, but None too where the columns are only numbered, from 0 in their order.

    >>> import pandas as pd
    >>> named_columns(pd.DataFrame([[0.25, 0.75]])) is None, named_columns(pd.DataFrame([[0.25, 0.75]], columns=["ash", "elm"]))
    (True, ['ash', 'elm'])
    """
    names = column_names(values)
    return None if names is None or names == [str(place) for place in range(len(names))] else names


def other_column(known: Sequence[str] | None, given: Sequence[str] | None) -> int | None:
    """The first column that has another name than it should; None if none has, or if one side is only numbered.

    Numbers from 0 in their order are what columns without names have, so they agree with any names; in another order they
    do not agree with themselves.

    >>> other_column(["ash", "elm"], ["elm", "ash"]), other_column(["ash", "elm"], ["0", "1"]), other_column(None, ["1", "0"])
    (0, None, 0)
    """
    if given is None:
        return None
    numbered = [str(place) for place in range(len(given))]
    known = numbered if known is None else list(known)
    given = list(given)
    if len(known) != len(given) or (numbered in (known, given) and set(known) != set(given)):
        return None
    return next((place for place, name in enumerate(given) if name != known[place]), None)


def misplaced_column(known: Sequence[str] | None, given: Sequence[str] | None) -> int | None:
    """As :func:`other_column`, but names that have nothing in common (``p_ash`` and ``has_ash``) are not compared.

    >>> misplaced_column(["ash", "elm"], ["has_ash", "has_elm"]) is None
    True
    """
    unrelated = known is not None and given is not None and set(known).isdisjoint(given)
    return None if unrelated else other_column(known, given)


def check_same_names(values: Any, target: Any, classes: Sequence[str] | None = None, name: str = "target") -> None:
    """Raise an error if the target is a data frame whose columns are other classes, or whose rows are other rows, by name.

    Args:
        values: scores, probabilities or sets (N, C).
        target: their labels, or another matrix (N, C) for the same classes.
        classes: the names of the classes, if they are known; by default those of the columns of the values.
        name: what the target is called in messages.
    """
    check_same_rows(values, target, name)
    _check_numbered_columns(values, target, name)
    known, given = classes or column_names(values), column_names(target)
    place = misplaced_column(known, given)
    if place is not None and given is not None:
        wanted = str(place) if known is None else known[place]
        raise InputError(
            f"{name}: expected a column for each class in their order, got {given[place]!r} in column {place}, where the "
            f"class is {wanted!r}: select the columns of {name} by the names of the classes"
        )


def labels_by_name(target: Any, values: Any = None, classes: Sequence[str] | None = None, name: str = "target") -> Any:
    """Labels that are given as names of classes, by their numbers; other labels as they are.

    Names are texts in a list, an array, a series (categories too) or the only column of a data frame; a list of lists of names
    is any number of labels per row. They are left as they are, too, if nobody knows the names of the classes.

    Args:
        target: the labels.
        values: the scores, probabilities or sets of the same rows, whose columns may name the classes.
        classes: the names of the classes; by default those of the columns of the values.
        name: what the target is called in messages.

    >>> labels_by_name(["elm", "ash"], classes=["ash", "elm"])
    array([1, 0])
    >>> labels_by_name([["elm", "ash"], []], classes=["ash", "elm"]).tolist()
    [[True, True], [False, False]]
    """
    check_same_rows(values, target, name)  # what is returned may have lost the names of its rows
    known = list(classes) if classes else named_columns(values)
    given = _texts(target) if known else None
    if known is None or given is None:
        return target
    number = {text: place for place, text in enumerate(known)}
    rows = [given[row] if isinstance(given[row], list) else [given[row]] for row in range(len(given))]
    wrong = next(((row, text) for row, texts in enumerate(rows) for text in texts if text not in number), None)
    if wrong is not None:
        row, text = wrong
        meant = did_you_mean(text, known) if isinstance(text, str) else ""
        raise InputError(f"{name}: {meant}expected names of classes ({quoted(known, 3)}), got {text!r} in row {row}")
    if not any(isinstance(one, list) for one in given):
        return np.array([number[text] for (text,) in rows], dtype=np.int64)
    found = np.zeros((len(rows), len(known)), dtype=bool)
    for row, texts in enumerate(rows):
        found[row, [number[text] for text in texts]] = True
    return found


def _texts(target: Any) -> list[Any] | None:
    """The entries of labels that are names, or lists of names; None for labels in another form."""
    if hasattr(target, "columns") and hasattr(target, "to_numpy"):
        target = target.to_numpy()
        target = target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target
    if hasattr(target, "detach"):
        return None
    if hasattr(target, "tolist"):  # a series or an array
        kind = getattr(getattr(target, "dtype", None), "kind", "O")
        if getattr(target, "ndim", 1) != 1 or kind not in "OUST":
            return None
        target = target.tolist()
    if not isinstance(target, list | tuple) or not target:
        return None
    entries = [list(one) if isinstance(one, list | tuple) else one for one in target]
    named = (isinstance(text, str) for one in entries for text in (one if isinstance(one, list) else [one]))
    return entries if any(named) else None


def _check_numbered_columns(values: Any, target: Any, name: str) -> None:
    """Raise an error if columns are called 1, 2, other and labels are numbers: nobody knows if 2 is a name or a place."""
    names = named_columns(values)
    if names is None or misnumbered(names) is None:
        return
    labels = np.asarray(target) if not hasattr(target, "detach") else target.detach().cpu().numpy()
    if labels.ndim == 1 and labels.dtype.kind in "iu":
        raise InputError(
            f"{name}: expected labels that can only mean one class, got whole numbers beside columns called "
            f"{quoted(names, 3)}: take the values without names (.to_numpy()) and labels from 0, or name the columns with text"
        )


def misnumbered(names: Sequence[str]) -> int | None:
    """The first place whose name is another number, so that numbers cannot be places; None if there is none.

    >>> misnumbered(["0", "1.0", "other"]), misnumbered(["1", "2", "other"])
    (None, 0)
    """
    return next((place for place, name in enumerate(names) if as_number(name) not in (None, place)), None)


def as_number(text: str) -> Decimal | None:
    """The number that a text is, exactly; None for any other text."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def check_same_batches(known: Sequence[str] | None, given: Sequence[str] | None, name: str = "probs") -> None:
    """Raise an error if the columns of a batch have other names than those before, or the same in another order.

    Args:
        known: the names of the columns of the batches before; None if they have none.
        given: those of this batch.
        name: the parameter, for messages.
    """
    place = None if known is None else other_column(known, given)
    if place is not None and known is not None and given is not None:
        raise InputError(
            f"{name}: expected batches with the same classes in the same order, got {known[place]!r} and {given[place]!r} in "
            f"column {place}"
        )


def check_listed(name: str, values: Any) -> None:
    """Raise an error for a text, whose letters would be taken one by one, and for a set or a dict, which are no lists.

    >>> check_listed("classes", "oak")
    Traceback (most recent call last):
    shortlist.errors.InputError: classes: expected a list of names, got 'oak'
    """
    if isinstance(values, str | bytes | Mapping | AbstractSet) and not isinstance(values, KeysView):
        raise InputError(f"{name}: expected a list of names, got {shown(values)}")


def names_in_order(name: str, values: Any) -> list[str]:
    """Names in their order; a text, a set or a dict is refused, because it is no list of names.

    >>> names_in_order("ids", ["leaf", 7])
    ['leaf', '7']
    """
    check_listed(name, values)
    if not isinstance(values, Iterable) or getattr(values, "ndim", 1) != 1:
        raise InputError(f"{name}: expected a list of names, got {shown(values)}")
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    if None in values:
        raise InputError(f"{name}: expected a list of names, got None in place {values.index(None)}")
    return [str(value) for value in values]


def class_list(classes: Any) -> list[str]:
    """The names of the classes in the order of the columns.

    Args:
        classes: a list of names; or a dict that goes from the columns, 0 to C - 1, to the names, or from the names to them.

    >>> class_list({0: "oak", 1: "elm"}), class_list({"oak": 1, "elm": 0})
    (['oak', 'elm'], ['elm', 'oak'])
    """
    if isinstance(classes, Mapping):
        keys, values = list(classes), list(classes.values())
        numbers = [int(key) if isinstance(key, str) and key.isdecimal() else key for key in keys]  # as JSON writes them
        found = [names for names in (_placed(numbers, values), _placed(values, keys)) if names is not None]
        if not found or found[0] != found[-1]:
            raise InputError(
                "classes: expected a list of names in the order of the columns, or a dict between the names and the columns "
                f"0 to {len(keys) - 1}, got {shown(classes)}"
            )
        return found[0]
    names = names_in_order("classes", classes)
    if hasattr(classes, "index") and hasattr(classes, "to_numpy"):  # a pandas series
        index = [str(key) for key in classes.index]
        in_place = [str(place) for place in range(len(index))]
        if index != in_place and sorted(in_place) in (sorted(index), sorted(names)):
            raise InputError(f"classes: expected a list of names in the order of the columns, got {_SERIES}: pass a list")
    return names


def _placed(places: Sequence[Any], names: Sequence[Any]) -> list[str] | None:
    """The names in the order of their places; None unless these are 0, 1, … in any order."""
    if any(isinstance(place, bool) or not isinstance(place, Integral) for place in places):
        return None
    at = dict(zip(places, map(str, names), strict=True))
    return [at[place] for place in range(len(at))] if at.keys() == set(range(len(places))) else None


def by_class(name: str, values: Any, classes: Sequence[str] | None = None) -> Any:
    """Values, one for each class, in the order of the classes.

    A dict or a pandas series is looked up by the names of the classes (it may have more), and refused where they are not known.
    Anything else is in order already; so is a series whose index is 0, 1, …, unless these are the names of the classes in
    any order.

    Args:
        name: the parameter, for messages.
        values: a list, array, tensor, dict, series, or data frame of one column.
        classes: the names of the classes; None if they are not known.

    >>> by_class("train_counts", {"elm": 5, "ash": 20}, ["ash", "elm"])
    [20, 5]
    """
    if isinstance(values, str | bytes):
        raise InputError(f"{name}: expected one for each class, got the text {shown(values)}")
    if isinstance(values, AbstractSet) and not isinstance(values, KeysView):
        raise InputError(f"{name}: expected one for each class in their order, got a set, which has no order")
    columns = column_names(values)
    if columns is not None and len(columns) != 1:
        raise InputError(f"{name}: expected one for each class, got a data frame of {len(columns)} columns: pass one of them")
    if columns is not None:
        values = values[values.columns[0]]
    if isinstance(values, Mapping):
        return _looked_up(name, [str(key) for key in values], list(values.values()), classes, "a dict")
    if not (hasattr(values, "index") and hasattr(values, "to_numpy")):
        return values
    keys = [str(key) for key in values.index]
    named = classes is not None and sorted(keys) == sorted(classes)
    if keys == [str(place) for place in range(len(keys))] and not named:
        return values
    return _looked_up(name, keys, values.tolist(), classes, _SERIES)


def superclass_by_class(superclasses: Any, classes: Sequence[str] | None = None) -> list[str]:
    """The name of the superclass of each class, in the order of the classes.

    A class whose superclass is missing (None, NaN, ``pandas.NA``) is its own superclass: it gets its own name, or ``class 3``
    where names are not known, with ``(class)`` behind it if a superclass of other classes has that name.

    Args:
        superclasses: C names or numbers, as a list, array, tensor, dict or series; see :func:`by_class`.
        classes: the names of the classes; None if they are not known.

    >>> superclass_by_class({"ash": "broad", "elm": "broad", "fern": None}, ["fern", "ash", "elm"])
    ['fern', 'broad', 'broad']
    >>> superclass_by_class([None, "oak"], ["oak", "red oak"])
    ['oak (class)', 'oak']
    """
    values = by_class("superclasses", superclasses, classes)
    names = [None if is_missing(name) else str(name) for name in (values.tolist() if hasattr(values, "tolist") else values)]
    if "" in names:
        raise InputError(
            f"superclasses: expected {len(names)} names, one for each class, got an empty one for class {names.index('')}: "
            "use None for a class without a superclass"
        )
    taken = {name for name in names if name is not None}
    return [_own_name(place, classes, taken) if name is None else name for place, name in enumerate(names)]


def is_missing(value: Any) -> bool:
    """Whether this is None, or a NaN of any kind: only those are not equal to themselves, or not even comparable.

    >>> is_missing(None), is_missing(float("nan")), is_missing("oak")
    (True, True, False)
    """
    try:
        return value is None or not bool(value == value)
    except TypeError:  # the truth value of pandas.NA
        return True


def _own_name(place: int, classes: Sequence[str] | None, taken: set[str]) -> str:
    """A name that no other superclass has, which is then taken too."""
    name = classes[place] if classes is not None and place < len(classes) else f"class {place}"
    while name in taken:
        name += " (class)"
    taken.add(name)
    return name


def _looked_up(name: str, keys: list[str], values: list[Any], classes: Sequence[str] | None, kind: str) -> list[Any]:
    if classes is None:
        raise InputError(
            f"{name}: expected one for each class in the order of the columns, because the names of the classes are not known "
            f"here, got {kind}: pass a list"
        )
    found = dict(zip(keys, values, strict=True))
    missing = next((label for label in classes if label not in found), None)
    if missing is not None or len(found) < len(keys):
        twice = next((key for place, key in enumerate(keys) if key in keys[:place]), None)
        wrong = f"none for {shown(missing)}" if missing is not None else f"{shown(twice)} more than once"
        raise InputError(f"{name}: expected one for each of {len(classes)} classes by name, got {wrong}")
    return [found[label] for label in classes]
