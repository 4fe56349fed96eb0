"""The page of answers: a card for each row, what the rule guarantees, and nothing from elsewhere."""

import re

from shortlist.report import PagePictures
from shortlist.report.answers import write_answers
from shortlist.sets import LabelList, threshold
from tests.report.garden import garden


def written(tmp_path, answers, **more):
    write_answers(answers, tmp_path / "page.html", rule=threshold(0.3), date="2026-01-01", **more)
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def test_every_answer_has_a_card_with_its_picture(tmp_path):
    answers = [LabelList("0", ["oak", "elm"], [0.6, 0.3]), LabelList("1", [], []), LabelList("9", ["elm"], [0.9], ["oak"])]
    page = written(tmp_path, answers, pictures=PagePictures(garden([0, 1], ["oak", "elm"])), title="3 pictures")
    cards = re.findall(r"<article>(.*?)</article>", page, re.DOTALL)
    assert len(cards) == 3
    assert [card.count("<img") for card in cards] == [1, 1, 0]
    assert re.findall(r'class="head">(.*?)<', page) == ["oak", "no answer", "oak"]
    assert "no picture with this id" in cards[2]
    assert threshold(0.3).guarantee in page
    assert "2026-01-01" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page


def test_refused_rows_and_superclasses_are_answered_in_words(tmp_path):
    answers = [
        LabelList("0", [], [], refused=True),
        LabelList("1", ["holm oak", "cork oak"], [0.5, 0.4], superclass="oak"),
    ]
    assert re.findall(r'class="head">(.*?)<', written(tmp_path, answers)) == ["nothing I know", "any oak"]


def test_the_page_says_how_many_there_are_in_all(tmp_path):
    page = written(tmp_path, [LabelList("0", ["oak"], [0.6])], total=1234)
    assert "1,234 sets" in page
    assert "of which the first 1 are shown" in page
