"""Galleries of the report: rows worth looking at as cards, with their pictures where there are any."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from shortlist.evaluation import Evaluation
from shortlist.evaluation.galleries import (
    CHANGED,
    EMPTY,
    LARGEST,
    SHOWN,
    SUSPECT,
    TYPICAL,
    WRONG,
    Exhibit,
    Gallery,
)
from shortlist.evaluation.paired import changed_rows, same_rows
from shortlist.report.cards import Card, answer_bars, answer_corner, answer_heading, percent
from shortlist.report.pictures import PagePictures

TITLES = {
    TYPICAL: "Typical answers",
    SUSPECT: "Suspected wrong labels",
    WRONG: "Confident and wrong",
    LARGEST: "Largest sets",
    EMPTY: "Empty sets",
    CHANGED: "Changed",
}
REASONS = {
    TYPICAL: "Rows drawn at random, from the smallest set to the largest. In a good classifier the labels of one set look "
    "similar to you too.",
    SUSPECT: "The label of the row is less than a tenth as probable as a blind guess, and another label has at least 90 %. The "
    "least probable labels come first. Look at the label before you blame the classifier.",
    WRONG: "The most probable label is wrong and has at least 50 %. The most confident come first, at most two with the same "
    "two labels; suspected wrong labels are not shown again.",
    LARGEST: "What the classifier finds hardest.",
    EMPTY: "Rows without any label in their set, the most confident first. A floor of 1 would answer them with their most "
    "probable label.",
}
WRONG_OF_MANY = "A label that the row does not have is given at least 50 %: a mistake, or a label that is missing."


@dataclass(frozen=True)
class ShownGallery:
    """A gallery as a page shows it."""

    kind: str
    title: str
    reason: str
    cards: Sequence[Card]


def shown_galleries(evaluations: Sequence[Evaluation], pictures: Sequence[PagePictures | None]) -> list[ShownGallery]:
    """The galleries of the first evaluation, and of each other one either what changed, or galleries of its own.

    Args:
        evaluations: the first is the one that others are compared with.
        pictures: of the rows of each, where there are any.
    """
    found: list[ShownGallery] = []
    for place, (evaluation, illustrated) in enumerate(zip(evaluations, pictures, strict=True)):
        owner = evaluation.name if len(evaluations) > 1 else ""
        changed = _changed(evaluations[0], evaluation) if place else None
        if changed is not None:
            shown = _shown(changed[0], evaluation, illustrated, owner, changed[1], (evaluations[0].name, owner))
            found += [shown] if shown.cards else []
        else:
            found += [_shown(gallery, evaluation, illustrated, owner) for gallery in evaluation.galleries]
    return found


def _changed(first: Evaluation, second: Evaluation) -> tuple[Gallery, str] | None:
    """The rows whose labels one of the two answers has and the other has not; None if they are of other rows."""
    if first.lookup is None or second.lookup is None or same_rows(first, second) is None:
        return None
    gained, lost, rows = changed_rows(first, second)
    shown = rows[:SHOWN]
    before = first.lookup(torch.tensor([row for row, _ in shown], dtype=torch.int64))
    after = second.lookup(torch.tensor([row for _, row in shown], dtype=torch.int64))
    exhibits = [replace(new, before=old.answer) for old, new in zip(before, after, strict=True)]
    reason = (
        f"Rows whose answer gained or lost a true label between {first.name} and {second.name}: {gained:,} gained, {lost:,} "
        "lost."
    )
    return Gallery(CHANGED, gained + lost, exhibits), reason


def _shown(
    gallery: Gallery,
    evaluation: Evaluation,
    pictures: PagePictures | None,
    owner: str,
    reason: str | None = None,
    compared: tuple[str, str] | None = None,
) -> ShownGallery:
    title = TITLES[gallery.kind] + (f", {owner}" if owner else "")
    many = gallery.kind == WRONG and not evaluation.single_label
    why = reason or (WRONG_OF_MANY if many else REASONS[gallery.kind])
    if gallery.kind == LARGEST:
        why = f"Up to {max(len(one.answer.labels) for one in gallery.exhibits):,} labels. {why}"
    elif gallery.kind not in (TYPICAL, CHANGED):
        why = f"{gallery.total:,} of {evaluation.rows:,} rows. {why}"
    cards = [exhibit_card(one, pictures, compared) for one in gallery.exhibits]
    return ShownGallery(gallery.kind, title, why, cards)


def exhibit_card(exhibit: Exhibit, pictures: PagePictures | None, compared: tuple[str, str] | None = None) -> Card:
    """The card of a row: picture, label, and its set with probabilities; two sets with their names, if it is compared."""
    before, now = compared or ("", "")
    answer = exhibit.answer
    picture, missing = (None, "") if pictures is None else pictures.embed(answer)
    groups = [answer_bars(answer, title=now, missed=exhibit.given_prob)]
    if exhibit.before is not None:
        groups.insert(0, answer_bars(exhibit.before, title=before))
    elif answer.target and exhibit.best not in answer.labels and answer.called == "probs":
        guess = f"most probable: {exhibit.best} {percent(exhibit.best_prob)}"
        groups[0] = replace(groups[0], remark="; ".join(filter(None, [groups[0].remark, guess])))
    return Card(
        answer.id if not answer.id.isdecimal() else f"row {answer.id}",
        answer_heading(answer),
        answer_corner(answer),
        groups,
        picture=picture,
        missing=missing,
        framed=pictures is not None,
    )
