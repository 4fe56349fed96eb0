"""Review: what needs eyes, most informative first: disagreement, then large sets and doubts, then suspected wrong labels.

Photographs that were voted on come from the file of votes. Suspected wrong labels are rows that the network was not trained on,
whose label is not in their set while another class is much more probable.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from shortlist.data.dataset import Split
from shortlist.predictions import Predictions
from shortlist.sets import SetRule
from shortlist.tensors import is_single_label
from shortlist.training.fingerprint import contents
from shortlist.web.votes import Observation, Vote

Reason: TypeAlias = Literal["disagreement", "large set", "suspected label"]
REASONS: tuple[Reason, ...] = ("disagreement", "large set", "suspected label")
ENOUGH = 2  # people who agree, and nobody who does not: settled
MARGIN = 0.5  # by which another class is more probable than the label of a suspected row
MOST_SUSPECTS = 500


@dataclass(frozen=True)
class Suspect:
    """A row whose label is probably wrong.

    Args:
        id: its name in the queue, by which votes know it.
        split: the split it is in.
        row: its number there.
        label: the label that it has.
        margin: how much more probable the most probable class is.
        probs: the probability of each class, (C,).
        chosen: its set, bool (C,).
    """

    id: str
    split: str
    row: int
    label: int
    margin: float
    probs: torch.Tensor
    chosen: torch.Tensor


@dataclass(frozen=True)
class Item:
    """Something to look at.

    Args:
        id: of the observation or of the suspected row.
        reason: why.
        value: how much so: larger comes first among those of one reason.
        sentence: the same for people.
    """

    id: str
    reason: Reason
    value: float
    sentence: str


def agreed(votes: Sequence[Vote]) -> str | None:
    """What people agree on: a label, or "" for none of the classes; None if they do not, or are too few.

    Args:
        votes: the last one of each person.

    >>> agreed([Vote("Ann", "label", "ash"), Vote("Bob", "label", "ash"), Vote("Cy", "unsure")])
    'ash'
    """
    said = Counter(vote.label or "" for vote in votes if vote.choice != "unsure")
    return next(iter(said)) if len(said) == 1 and max(said.values()) >= ENOUGH else None


def row_name(rows: Split, row: int, data: str = "") -> str:
    """A name for a row, by its id and its content: it stays that of the row when others come and go, in any run.

    Args:
        rows: the split it is in.
        row: its number there.
        data: the name of the data, which counts where the content of rows cannot be read.

    >>> oak, elm = (Split(torch.full((2, 3), value), None, ["a", "b"]) for value in (1.0, 2.0))
    >>> row_name(oak, 1) == row_name(oak.rows(torch.tensor([1])), 0), row_name(oak, 1) == row_name(elm, 1)
    (True, False)
    """
    content = int(contents(rows.rows(torch.tensor([row])).inputs)[0])
    named = json.dumps([str(rows.ids[row]), content or data])
    return f"row-{hashlib.sha256(named.encode()).hexdigest()[:16]}"


def suspects(predictions: Predictions, rule: SetRule, split: str, named: Callable[[int], str]) -> list[Suspect]:
    """The rows of a split whose labels are probably wrong, the most suspicious first.

    Args:
        predictions: with one label a row, of rows that the network was not trained on.
        rule: of the classifier.
        split: the name of the split.
        named: the number of a row → its name.
    """
    target = predictions.target
    if target is None or not is_single_label(target) or predictions.link is None:
        return []
    probs = predictions.probs()
    sets = rule(predictions)
    own = probs.gather(1, target[:, None])[:, 0]
    margins = probs.amax(1) - own
    outside = ~sets.gather(1, target[:, None])[:, 0] & (margins >= MARGIN)
    found = [row for row in margins.argsort(descending=True, stable=True).tolist() if bool(outside[row])]
    return [
        Suspect(named(row), split, row, int(target[row]), float(margins[row]), probs[row].clone(), sets[row].clone())
        for row in found[:MOST_SUSPECTS]
    ]


def queue(
    observations: Sequence[Observation],
    suspected: Sequence[Suspect] = (),
    classes: Sequence[str] = (),
    voter: str | None = None,
) -> list[Item]:
    """What needs eyes, most informative first; what a person has voted on is left out for that person.

    Args:
        observations: what was voted on.
        suspected: rows whose labels are probably wrong.
        classes: the names of the classes.
        voter: who asks.
    """
    kept = {one.origin for one in observations}
    items = [item for one in observations if (item := _item(one, voter)) is not None]
    for suspect in suspected:
        if f"row:{suspect.id}" not in kept:
            best = classes[int(suspect.probs.argmax())]
            sentence = f"Labelled {classes[suspect.label]}, but looks much more like {best}."
            items.append(Item(suspect.id, "suspected label", suspect.margin, sentence))
    return sorted(items, key=lambda item: (REASONS.index(item.reason), -item.value, item.id))


def _item(one: Observation, voter: str | None) -> Item | None:
    """Why an observation needs another look; None if it does not, or not by this person."""
    if voter is not None and any(vote.voter == voter for vote in one.votes):
        return None
    said = Counter(vote.label or "" for vote in one.votes if vote.choice != "unsure")
    disagreement, against = _disagreement(said, one.answer)
    if against:
        named = " and ".join(sorted(label or "none of these" for label in said))
        return Item(one.id, "disagreement", disagreement, f"Votes for {named}: {against}.")
    if agreed(one.votes) is not None:
        return None  # settled
    size = int(one.answer.get("rule", {}).get("size", 0))
    doubts = sum(vote.choice == "unsure" for vote in one.votes)
    if doubts or size > 1 or not said:
        words = f"{size} classes are possible" + (f", {doubts} not sure" if doubts else "")
        return Item(one.id, "large set", size + doubts, f"{words}.")
    return None


def _disagreement(said: Mapping[str, int], answer: Mapping[str, Any]) -> tuple[float, str]:
    """The share of votes against the most frequent one, a quarter for one vote against the classifier or the label that a row
    has; and what it is against, in words, empty if nothing."""
    total = sum(said.values())
    if len(said) > 1:
        return 1 - max(said.values()) / total, "people disagree"
    if not 0 < total < ENOUGH:
        return 0.0, ""
    [vote], label = said, answer.get("label")
    if label is not None:  # of a suspected row: the classifier suggested something else
        return 0.25, "the classifier did not suggest it" if vote == label else f"it is labelled {label}"
    suggested = {result["species"]["scientificName"] for result in answer.get("results", ()) if result.get("inSet")}
    return (0.25, "the classifier did not suggest it") if vote not in (suggested or {""}) else (0.0, "")
