"""What rows must share with those that a rule was fitted on: the classes, in their order, and the link."""

from typing import Any

from shortlist.class_names import column_names, other_column
from shortlist.errors import InputError
from shortlist.predictions import Predictions


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
    known = fitted.get("names") or [str(place) for place in range(fitted["classes"])]
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
