"""Whether two files of scores belong together: the same classes and link, rows apart, or the same rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.predictions.network_digests import other_network
from shortlist.sets.origin import origin_of
from shortlist.tensors import is_single_label

if TYPE_CHECKING:
    from shortlist.cli.prepare import Prepared


def check_alike(fitted_on: Path, rows: Predictions, path: Path, predictions: Predictions) -> None:
    """Raise an error unless both files have the same classes in the same order and the same link, and come from one network."""
    if rows.num_classes != predictions.num_classes:
        raise InputError(f"{fitted_on} has {rows.num_classes} classes and {path} has {predictions.num_classes}")
    check_same_labels(fitted_on, rows, path, predictions)
    if rows.classes and predictions.classes and rows.classes != predictions.classes:
        raise InputError(f"{fitted_on} and {path} name their classes differently, or in another order")
    if origin_of(rows)["link"] != origin_of(predictions)["link"]:
        raise InputError(
            f"{fitted_on} has the link {rows.link!r} and {path} has {predictions.link!r}: what is fitted on one does not apply "
            "to the other; give both the same link"
        )
    if rows.network_digest and predictions.network_digest:
        other = other_network(rows.network_digest, predictions.network_digest)
    else:
        other = ""
    if other:
        raise InputError(
            f"{fitted_on} holds scores of {other} than that of {path}: what is fitted on one does not apply to the "
            "other; write scores of the same classifier with shortlist predict"
        )


def check_same_labels(fitted_on: Path, rows: Predictions, path: Path, predictions: Predictions) -> None:
    """Raise an error if one file has exactly one label per row and the other any number."""
    targets = [one.without_rows().target for one in (rows, predictions)]
    kinds = ["one label" if is_single_label(target) else "any number of labels" for target in targets if target is not None]
    if len(kinds) < 2:
        return
    if kinds[0] != kinds[1]:
        raise InputError(
            f"{fitted_on} has {kinds[0]} per row and {path} has {kinds[1]}: what is fitted on one does not apply to the other"
        )


def check_apart(fitted_on: Path, rows: Predictions, path: Path, predictions: Predictions) -> None:
    """Raise an error if the rows to measure on are those to fit on."""
    if fitted_on.samefile(path) or shares_rows(rows, predictions):
        raise InputError(
            f"{fitted_on} and {path} share rows: results on the rows that something was fitted on look better than they are; "
            "pass other rows, or --same-rows to accept that"
        )


def shares_rows(first: Predictions, second: Predictions) -> bool:
    """Whether two files have rows in common, judging by their ids, or by whether most scores are the same."""
    if _named(first) and _named(second):
        return not set(first.ids or ()).isdisjoint(second.ids or ())
    columns = torch.linspace(0, first.num_classes - 1, min(64, first.num_classes)).long()
    rows = [
        {row.tobytes() for block in part.blocks() for row in block.scores[:, columns].float().numpy()}
        for part in (first, second)
    ]
    # Saturated scores can make different rows look the same, so a few in common prove nothing.
    return len(rows[0] & rows[1]) > 0.5 * min(len(part) for part in rows)


def note_different_rows(prepared: "Sequence[Prepared]") -> None:
    """Add a note to each file whose rows are not those of the first one, judging by ids and labels."""
    first = prepared[0]
    noted = {first.source}
    for one in prepared[1:]:
        difference = "" if one.source in noted else _difference(first.predictions, one.predictions)
        noted.add(one.source)
        if difference:
            one.notes.append(
                f"{one.source} and {first.source} have different rows ({difference}): compare their numbers with care"
            )


def _difference(first: Predictions, second: Predictions) -> str:
    """How the rows of two files differ; empty if they seem to be the same."""
    if len(first) != len(second):
        return f"{len(second):,} and {len(first):,}"
    target = second.target
    if (_named(first) and _named(second)) or _reordered(first, second):
        places = {name: row for row, name in enumerate(second.ids or ())}
        order = [places[name] for name in first.ids or () if name in places]
        if len(order) < len(first):
            return f"{len(order):,} of {len(first):,} are in both"
        target = None if target is None else target[torch.tensor(order)]
    if first.target is None or target is None:
        return ""
    if first.classes and second.classes and first.classes != second.classes:  # labels are compared by name
        from shortlist.data.class_lists import target_among

        try:
            target = target_among(target, second.classes, first.classes)
        except InputError:
            return "labels of other classes"
    if first.target.shape != target.shape:
        return ""
    relabelled = int((first.target != target).reshape(len(first), -1).any(1).sum())
    return f"{relabelled:,} of {len(first):,} have other labels" if relabelled else ""


def _reordered(first: Predictions, second: Predictions) -> bool:
    """Whether two files have the same ids, numbers or not, in another order."""
    return first.ids != second.ids and set(first.ids or ()) == set(second.ids or ())


def _named(predictions: Predictions) -> bool:
    """Whether the ids distinguish rows of different files: plain numbers, which start again in every file, do not."""
    return bool(predictions.ids) and not all(name.isdigit() for name in predictions.ids or ())
