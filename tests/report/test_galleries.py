"""Galleries, confusions, comparisons and promises of the page, with pictures and without."""

import re

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.data import Dataset, PictureArray, Split
from shortlist.report import (
    ConfusionMatrix,
    PagePictures,
    evaluate,
    pair_table,
    paired_table,
    promise_table,
    render,
    with_intervals,
)
from shortlist.report.comparing import fact_tables
from shortlist.report.confusions import confusion_remark, superclass_sentence
from shortlist.report.promises import promises
from shortlist.sets import CoverageLaw, lac, parse_rule, threshold, top_k
from tests.report.cases import CLASSES, SUPERCLASSES, draw, measured
from tests.report.garden import painted


def named(seed=0, rows=90):
    """Predictions whose rows have ids."""
    drawn = draw(rows=rows, seed=seed)
    return Predictions(drawn.scores, drawn.target, CLASSES, "softmax", [f"photo-{row}.jpg" for row in range(rows)])


def pictures_of(predictions):
    ids = list(predictions.ids)
    rows = Split(PictureArray(painted(ids), ids), predictions.target, ids)
    return Dataset("garden", CLASSES, {"test": rows})


def shown(evaluations, **more):
    return render(evaluations, date="2026-01-01", **more)


def test_cards_show_the_pictures_of_their_rows():
    predictions = named()
    evaluation = evaluate(predictions, rule=threshold(0.45))
    page = shown(evaluation, pictures=pictures_of(predictions))
    cards = re.findall(r"<article>(.*?)</article>", page, re.DOTALL)
    assert len(cards) == sum(len(gallery.exhibits) for gallery in evaluation.galleries)
    exhibits = [one for gallery in evaluation.galleries for one in gallery.exhibits]
    pictures = PagePictures(pictures_of(predictions))
    for card, exhibit in zip(cards, exhibits, strict=True):
        assert pictures.embed(exhibit.answer)[0] in card
        assert exhibit.answer.id in card
        assert exhibit.answer.target[0] in card
    assert 'class="blank"' not in page


def test_a_budget_is_kept_and_what_was_left_out_is_counted():
    predictions = named()
    evaluation = evaluate(predictions, rule=threshold(0.45))
    pictures = PagePictures(pictures_of(predictions), most_bytes=5000)
    page = shown(evaluation, pictures=pictures)
    assert 0 < sum(map(len, re.findall(r'src="(data:[^"]*)"', page))) <= 5000
    assert f"{pictures.left_out:,} pictures were left out: the page holds up to 0.005 MB" in page


def test_without_pictures_the_same_rows_are_cards_without_a_frame():
    page = shown(evaluate(named(), rule=threshold(0.45)))
    assert "<img" not in page
    assert 'class="blank"' not in page
    assert "Confident and wrong" in page
    assert "photo-" in page


def test_what_changed_between_two_runs_is_shown_with_both_answers():
    first, second = (evaluate(named(), rule=threshold(level), name=name) for level, name in ((0.3, "wide"), (0.6, "narrow")))
    page = shown([first, second])
    assert "Changed, narrow" in page
    sets = [named().probs() >= level for level in (0.3, 0.6)]
    target = named().target
    lost = [row for row in range(90) if sets[0][row, target[row]] and not sets[1][row, target[row]]]
    assert f"0 gained, {len(lost)} lost" in page
    section = page[page.index("Changed, narrow") :]
    card = re.findall(r"<article>(.*?)</article>", section, re.DOTALL)[0]
    assert f"photo-{lost[0]}.jpg" in card
    assert re.findall(r'class="of">(.*?)<', card)[:2] == ["wide", "narrow"]


def test_evaluations_of_other_rows_have_galleries_of_their_own():
    page = shown([measured(name="one"), measured(name="two", seed=1)])
    assert "Changed" not in page
    assert "Typical answers, two" in page
    assert "less one" not in page


def test_paired_differences_are_in_the_page_with_their_interval():
    first, second = (evaluate(named(), rule=threshold(level), name=name) for level, name in ((0.3, "wide"), (0.6, "narrow")))
    table = paired_table([first, second])
    assert table.columns == ["difference", "rows", "coverage", "mean size", "top-1"]
    row = table.rows[0]
    gaps = (named().probs() >= 0.6).sum(1).double() - (named().probs() >= 0.3).sum(1).double()
    margin = 1.959964 * float(gaps.var(correction=0).sqrt()) / 90**0.5
    assert row[:2] == ["narrow less wide", 90]
    assert row[3] == f"{float(gaps.mean()):+.2f} ± {margin:.2f}"
    assert row[4] == "+0.0 ± 0.0 points (within chance)"
    assert table.html() in shown([first, second])
    assert paired_table([first]).rows == []


def test_every_number_of_a_comparison_that_has_an_error_has_an_interval():
    evaluations = [measured(name="one"), measured(name="two", seed=1)]
    rows = {row[0]: row[1:] for row in with_intervals(evaluations).rows}
    for evaluation, cell in zip(evaluations, rows["coverage"], strict=True):
        assert cell == f"{evaluation.coverage:.1%} ± {1.96 * evaluation.coverage_error:.1%}"
    assert all("±" in cell for cell in [*rows["mean size"], *rows["top-1"]])


def test_facts_that_differ_are_apart_from_those_that_are_shared():
    shared, differing = fact_tables({"a": {"data": "birds", "epochs": "5"}, "b": {"data": "birds", "epochs": "9", "seed": "1"}})
    assert shared == {"data": "birds"}
    assert differing.columns == ["what differs", "a", "b"]
    assert differing.rows == [["epochs", "5", "9"], ["seed", None, "1"]]
    assert fact_tables({}) == ({}, None)
    page = shown(measured(), facts={"trees": {"data": "<b>birds</b>"}})
    assert "&lt;b&gt;birds&lt;/b&gt;" in page


def test_pairs_are_listed_with_counts_and_pictured():
    predictions = named()
    evaluation = evaluate(predictions, rule=threshold(0.2))
    table = pair_table(evaluation, 3)
    best = evaluation.confusions.pairs(3)
    assert [row[:5] for row in table.rows] == [
        [CLASSES[pair.first], CLASSES[pair.second], pair.confused, pair.shared, pair.mistaken] for pair in best
    ]
    rows = sum(int((predictions.target == label).sum()) for label in (best[0].first, best[0].second))
    assert table.rows[0][5] == best[0].confused / rows
    page = shown(evaluation, pictures=pictures_of(predictions))
    assert pair_table(evaluation).html() in page
    assert page.count('class="panel pair"') == 6
    assert len(re.findall(r"<span><img src", page)) > 6
    assert f"<h3>{CLASSES[best[0].first]} and {CLASSES[best[0].second]}</h3>" in page


def test_several_labels_are_listed_by_what_stands_in_their_place():
    evaluation = measured("many")
    assert pair_table(evaluation).columns == ["label", "in the set instead", "rows"]
    assert pair_table(measured("none")).rows == []
    assert "Which classes are confused" not in shown(measured("none"))


def test_the_matrix_holds_shares_and_puts_confused_classes_together():
    probs = torch.full((60, 6), 0.02, dtype=torch.float64)
    target = torch.arange(60) % 6
    friend = torch.tensor([3, 4, 5, 0, 1, 2])
    probs[torch.arange(60), target], probs[torch.arange(60), friend[target]] = 0.5, 0.4
    evaluation = evaluate(probs, target, threshold(0.3))
    matrix = ConfusionMatrix(evaluation)
    frame = matrix.frame()
    assert set(frame["share"]) == {0.0, 1.0}
    assert frame["share"].sum() == 12  # each with itself and its friend
    assert all(abs(matrix.labels.index(label) - matrix.labels.index(label + 3)) == 1 for label in range(3))
    assert matrix.plot().get_ylabel() == "label of the row"
    few = ConfusionMatrix(evaluation, most=4)
    assert len(few.labels) == 4
    assert len(few.frame()) == 16


def unbalanced():
    """400 rows of three classes, most of one, with probabilities that are often wrong."""
    target = torch.cat([torch.zeros(300), torch.ones(80), torch.full((20,), 2.0)]).long()
    probs = torch.rand(400, 3, generator=torch.Generator().manual_seed(0)).double()
    probs[torch.arange(400), target] += 0.4
    return probs / probs.sum(1, keepdim=True), target


@pytest.mark.parametrize("rule", [None, "threshold:0.4", "threshold:0.99"])
def test_shares_are_those_of_the_rows_of_the_class_with_a_rule_and_without(rule):
    """Without sets, what a row names is its most probable label; where no set names anything, nothing is in the sets."""
    probs, target = unbalanced()
    named = probs >= float(rule.partition(":")[2]) if rule else torch.nn.functional.one_hot(probs.argmax(1), 3).bool()
    matrix = ConfusionMatrix(evaluate(probs, target, rule))
    frame = matrix.frame()
    assert len(frame) == 9
    for own, other, share in frame.itertuples(index=False):
        assert share == pytest.approx(float(named[target == int(own), int(other)].double().mean()))
    assert ("set contains" in matrix.caption, matrix.plot().get_xlabel() == "in the set") == (bool(rule), bool(rule))


def test_pairs_are_shares_of_the_rows_of_both_classes_without_a_rule_too():
    probs, target = unbalanced()
    frame = pair_table(evaluate(probs, target)).frame().set_index(["class", "confused with"])
    best = probs.argmax(1)
    for (one, other), row in frame.iterrows():
        both = (target == int(one)) | (target == int(other))
        wrong = both & (best != target) & ((best == int(one)) | (best == int(other)))
        assert row["share of their rows"] == pytest.approx(int(wrong.sum()) / int(both.sum()))


def test_a_matrix_without_confusions_shows_nothing():
    assert not ConfusionMatrix(measured("none")).tells
    assert ConfusionMatrix(measured("none")).frame().empty


def test_what_a_superclass_would_have_answered_is_said():
    evaluation = measured(superclasses=SUPERCLASSES, rule=threshold(0.2))
    wrong, kept, several, one, right, _ = (int(n) for n in evaluation.totals["superclass_answers"])
    text = superclass_sentence(evaluation)
    assert f"Of the {wrong:,} rows whose most probable label is wrong, {kept:,}" in text
    assert f"Of the {several:,} sets with several labels, {one:,}" in text
    assert f"the right one for {right:,} of them" in text
    assert text in shown(evaluation)
    assert superclass_sentence(measured()) == ""


def test_what_counts_leave_out_is_said():
    evaluation = measured()
    assert confusion_remark(evaluation) == ""
    evaluation.confusions.skipped, evaluation.confusions._level = 7, 2
    assert "Of 7 sets with more than 50 labels" in confusion_remark(evaluation)
    assert "among one row in 4" in confusion_remark(evaluation)


def calibrated(text="lac:0.2"):
    return parse_rule(text).fit(draw(rows=200, seed=9))


def test_the_promise_of_a_conformal_rule_stands_beside_what_was_measured():
    evaluation = evaluate(draw(), calibrated())
    law = CoverageLaw(200, 0.2)
    (row,) = promise_table([evaluation]).rows
    low, high = law.interval()
    assert row[:4] == ["lac:0.2", 200, 0.8, f"{low:.1%} and {high:.1%}"]
    low, high = law.measured_interval(90)
    assert row[4:] == [f"{low:.1%} and {high:.1%}", evaluation.coverage]
    page = shown(evaluation)
    assert promise_table([evaluation]).html() in page
    assert law.sentence() in page
    assert [promise.text for promise in promises([evaluation, evaluation])] == [law.sentence()]


def test_without_labels_the_promise_is_that_of_all_new_rows():
    (row,) = promise_table([evaluate(draw("none"), calibrated())]).rows
    assert row[4:] == [None, None]


def test_rules_that_promise_no_coverage_have_no_such_section():
    for rule in (top_k(2), threshold(0.4), lac(0.2).fit(draw(rows=200)).bounded_by("cap:2", most=2)):
        evaluation = evaluate(draw(), rule)
        assert promise_table([evaluation]).rows == []
        assert "can promise" not in shown(evaluation)


def test_classes_that_are_too_small_are_listed():
    rows = draw(rows=60, seed=9)
    with pytest.warns(UserWarning, match="in every set"):
        rule = parse_rule("lac:0.1,classwise").fit(rows)
    evaluation = evaluate(draw(), rule)
    (promise,) = promises([evaluation])
    counts = np.bincount(rows.target, minlength=6)
    small = sorted((int(count), label) for label, count in enumerate(counts) if count < 9)
    assert promise.too_small.rows == [[CLASSES[label], count, 9 - count] for count, label in small]
    assert promise.too_small.html() in shown(evaluation)
