"""What rows must share with those that a rule was fitted on: the classes, in their order, and the link."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from shortlist.class_names import column_names, other_column
from shortlist.errors import InputError
from shortlist.predictions import Predictions

SHOWN = 60  # letters of a name in messages


def origin_of(source: Any, names: list[str] | None = None) -> dict[str, Any]:
    """What is known about the columns of predictions or of a data frame, in a form that JSON can hold.

    Args:
        source: the rows.
        names: the names of the columns, if they were found while batches were read; by default those of a data frame.

    >>> origin_of(Predictions([[0.25, 0.75]], classes=["ash", "elm"]))
    {'classes': 2, 'names': ['ash', 'elm'], 'link': None}
    """
    if isinstance(source, Predictions):
        link = None if source.link is None else source.link.fingerprint()
        named = {} if source.classes is None else {"names": list(source.classes)}
        network = {} if source.network_digest is None else {"network": source.network_digest}
        return {"classes": source.num_classes, **named, "link": link, **network}
    columns = column_names(source) if names is None else names
    return {} if columns is None else {"names": columns}


def sealed(origin: dict[str, Any]) -> dict[str, Any]:
    """The same with a digest in place of the names of the classes, and the first and last of them: small enough to be sent.

    Args:
        origin: with names, without any, or sealed already.

    >>> sealed({"classes": 2, "names": ["ash", "elm"], "link": None}) | {"digest": "…"}
    {'classes': 2, 'link': None, 'ends': ['ash', 'elm'], 'digest': '…'}
    """
    if not origin.get("names"):
        return origin
    names = origin["names"]
    rest = {name: value for name, value in origin.items() if name != "names"}
    return {**rest, "ends": [str(name)[:SHOWN] for name in (names[0], names[-1])], "digest": _digest(names)}


def _digest(names: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(list(names), ensure_ascii=False).encode()).hexdigest()


def agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two origins, sealed or not, are the same."""
    return one == other or json.dumps(sealed(one), sort_keys=True) == json.dumps(sealed(other), sort_keys=True)


def opened(origin: dict[str, Any] | None, source: Any) -> dict[str, Any] | None:
    """A sealed origin with the names of its classes again, if these rows bring them; an error if they are others.

    Args:
        origin: of the calibration rows.
        source: some of these rows, or others with the same classes and link; None leaves the origin as it is.
    """
    if origin is None or source is None or "digest" not in origin:
        return origin
    found = {"classes": origin["classes"], **origin_of(source)}
    if not agree(found, origin):
        raise InputError(f"rows: expected the classes and the link of the calibration rows, {differing(origin, found)}")
    return found


def differing(one: dict[str, Any], other: dict[str, Any]) -> str:
    """How two origins that are not the same differ, as the end of a sentence."""
    one, other = sealed(one), sealed(other)
    ours, theirs = (f"{origin.get('classes')} classes{_from_to(origin)}" for origin in (one, other))
    if ours != theirs:
        return f"got {ours} and {theirs}"
    parts = {"digest": "of other names, or in another order", "link": "with another link", "network": "of another network"}
    how = next((words for part, words in parts.items() if one.get(part) != other.get(part)), "of another kind")
    return f"got {ours} and {theirs}, {how}"


def _from_to(origin: dict[str, Any]) -> str:
    ends = origin.get("ends")
    return "" if not ends else f" from {ends[0]!r} to {ends[1]!r}"


def check_same_origin(
    text: str, fitted: dict[str, Any] | None, source: Any, names: list[str] | None = None, classes: int | None = None
) -> None:
    """Raise an error if rows have other classes, or the same in another order, or another link than the calibration rows.

    Args:
        text: the rule, for messages.
        fitted: the origin of the calibration rows; None for a rule that goes with any.
        source: the rows to answer.
        names: the names of their columns, if they were found while batches were read; by default those of a data frame.
        classes: the number of their columns, if it was found in the same way.
    """
    if fitted is None:
        return
    here = ({} if classes is None else {"classes": classes}) | origin_of(source, names)
    if fitted["classes"] != here.get("classes", fitted["classes"]):
        raise InputError(f"{text} was fitted on {fitted['classes']} classes, got scores of {here['classes']} classes")
    numbered = [str(place) for place in range(fitted["classes"])]
    if "digest" in fitted and fitted["digest"] != _digest(numbered):
        _check_digest(text, fitted, here.get("names"), numbered)
        known, place = numbered, None
    else:
        known = fitted.get("names") or numbered
        place = other_column(known, here.get("names"))
    if place is not None:
        raise InputError(
            f"{text} was fitted on classes of other names, or in another order: column {place} was {known[place]!r} and is "
            f"{here['names'][place]!r} here; fit it again, or put the columns in that order"
        )
    if fitted.get("link", here.get("link")) != here.get("link", fitted.get("link")):
        raise InputError(
            f"{text} was fitted on probabilities by another link than that of these scores ({source.link!r}): "
            "fit it again, or give the scores that link"
        )


def _check_digest(text: str, fitted: dict[str, Any], names: list[str] | None, numbered: list[str]) -> None:
    """As :func:`other_column`, where of the names of the calibration rows only a digest is known."""
    if names is None or names == numbered or _digest(names) == fitted["digest"]:
        return
    raise InputError(
        f"{text} was fitted on classes of other names, or in another order ({_from_to(fitted).strip()}) than these (from "
        f"{names[0]!r} to {names[-1]!r}); fit it again, or put the columns in that order"
    )
