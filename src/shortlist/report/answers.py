"""A page of answers: the sets of new rows as cards, with their pictures."""

import datetime
from collections.abc import Sequence
from pathlib import Path

from shortlist.files import write_text
from shortlist.report.cards import Card, answer_bars, answer_corner, answer_heading
from shortlist.report.pictures import PagePictures
from shortlist.report.templates import template
from shortlist.sets import SetRule
from shortlist.sets.lists import LabelList
from shortlist.versions import version_of

MOST_CARDS = 200  # of a page that a browser shows at once


def write_answers(
    answers: Sequence[LabelList],
    path: str | Path,
    *,
    rule: SetRule,
    title: str = "Answers",
    pictures: PagePictures | None = None,
    total: int | None = None,
    date: str | None = None,
) -> None:
    """Write sets as a page of cards: picture, labels with their probabilities, and the true label where it is known.

    Args:
        answers: the sets as lists.
        path: of the HTML file.
        rule: that made them; the page says what it guarantees.
        title: of the page.
        pictures: of the rows, found by their ids.
        total: number of rows, if the page shows only the first of them.
        date: that the page shows; today by default.
    """
    cards = [answer_card(answer, pictures) for answer in answers]
    text = template("answers.html").render(
        title=title,
        rule=rule,
        cards=cards,
        total=len(cards) if total is None else total,
        left_out=0 if pictures is None else pictures.left_out,
        date=date or datetime.date.today().isoformat(),
        version=version_of("shortlist"),
    )
    write_text(path, text)


def answer_card(answer: LabelList, pictures: PagePictures | None) -> Card:
    """The card of one answer."""
    picture, missing = (None, "") if pictures is None else pictures.embed(answer)
    # Without a label, the answer itself comes first.
    heading = answer_heading(answer) if answer.target is not None else _short(answer)
    return Card(
        answer.id,
        heading,
        answer_corner(answer),
        [answer_bars(answer)],
        picture=picture,
        missing=missing,
        framed=pictures is not None,
    )


def _short(answer: LabelList) -> str:
    if answer.refused or not answer.labels:
        return "nothing I know" if answer.refused else "no answer"
    return answer.labels[0] if answer.superclass is None else f"any {answer.superclass}"
