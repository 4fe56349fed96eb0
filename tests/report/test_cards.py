"""Cards: what is marked right, what is missing, and nothing that a name smuggles in."""

import pytest

from shortlist.report.cards import Bars, Card, answer_bars, answer_corner, answer_heading
from shortlist.report.templates import template_of
from shortlist.sets import LabelList


def shown(card):
    return template_of('{% from "cards.html" import card %}{{ card(row) }}').render(row=card)


def test_right_labels_are_marked_and_a_missing_one_follows():
    right = answer_bars(LabelList("a", ["oak", "elm"], [0.7, 0.2], ["elm"]), missed=0.2)
    assert [(bar.name, bar.kind, bar.right, bar.width) for bar in right.bars] == [
        ("oak", "any", False, 70.0),
        ("elm", "yes", True, 20.0),
    ]
    wrong = answer_bars(LabelList("a", ["oak"], [0.9], ["yew"]), missed=0.01)
    assert [(bar.name, bar.kind, bar.shown) for bar in wrong.bars] == [("oak", "any", "90.0%"), ("✗ yew", "no", "1.0%")]


def test_long_sets_are_cut_but_a_true_label_is_always_shown():
    names = [f"class {n}" for n in range(12)]
    bars = answer_bars(LabelList("a", names, [0.1 - n / 1000 for n in range(12)], ["class 10"]))
    assert [bar.name for bar in bars.bars] == [*names[:8], "class 10"]
    assert bars.more == 3


@pytest.mark.parametrize(
    ("answer", "corner", "heading"),
    [
        (LabelList("a", ["oak"], [0.9], ["oak"]), "✓ 1 label", "oak"),
        (LabelList("a", ["oak", "elm"], [0.6, 0.3], ["yew"]), "✗ 2 labels", "yew"),
        (LabelList("a", ["oak"], [0.6], ["oak", "yew"]), "◐ 1 label", "oak, yew"),
        (LabelList("a", [], [], ["oak"]), "✗ empty set", "oak"),
        (LabelList("a", ["oak"], [0.6]), "1 label", ""),
        (LabelList("a", ["oak"], [0.6], []), "1 label", "no label"),
    ],
)
def test_corner_and_heading_tell_size_and_truth(answer, corner, heading):
    assert (answer_corner(answer), answer_heading(answer)) == (corner, heading)


@pytest.mark.parametrize(
    ("answer", "remark"),
    [
        (LabelList("a", [], []), "empty set"),
        (LabelList("a", [], [], refused=True), "refused by the gate"),
        (LabelList("a", ["holm oak", "cork oak"], [0.5, 0.3], superclass="oak"), "any oak"),
        (LabelList("a", ["oak"], [0.5]), ""),
    ],
)
def test_what_a_set_is_is_said_below(answer, remark):
    assert answer_bars(answer).remark == remark


def test_scores_without_a_link_have_widths_and_no_percent():
    bars = answer_bars(LabelList("a", ["oak", "elm"], [12.0, -3.0], ["oak"], "scores"), missed=12.0).bars
    assert [bar.shown for bar in bars] == ["12", "-3"]
    assert bars[0].width == 100
    assert 0 < bars[1].width < 100
    missing = answer_bars(LabelList("a", ["oak"], [12.0], ["yew"], "scores"), missed=-7.0)
    assert [bar.name for bar in missing.bars] == ["oak"]  # a score is no share of a bar


def test_names_are_text():
    evil = "<script>alert(1)</script>"
    bars = answer_bars(LabelList(evil, [evil], [0.5], [evil]))
    page = shown(Card(evil, evil, evil, [bars, Bars([], evil, 3, evil)], [(evil, evil)], missing=evil))
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 10
    assert 'onload="' not in shown(Card('" onload="x()', picture=None, missing='" onload="x()'))


def test_a_card_without_a_place_for_a_picture_has_none():
    assert "blank" not in shown(Card("a", framed=False))
    assert '<img src="data:x"' in shown(Card("a", picture="data:x"))
    assert "no picture" in shown(Card("a", missing="no picture"))
