"""Two files in one sentence: the order of rows does not matter, what differs is named."""

import numpy as np

from shortlist import Predictions
from shortlist.sets import average_k, gate, lac, top_k
from shortlist.shift import compared
from tests.shift.test_watch import rows


def predictions(*given, **how):
    probs, target = rows(*given, **how)
    return Predictions(probs, target, link="identity")


def test_rows_of_one_source_are_alike_even_if_one_file_is_sorted_by_class():
    reference, new = predictions(500, 0), predictions(500, 1)
    rule = lac(0.1).fit(reference)
    expected = "500 of these rows were compared with the calibration rows, and nothing differs (false alarms: 1.00%)"
    for rows_of in (new, new.rows(new.target.argsort())):
        found = compared(rule, reference, rows_of)
        assert (str(found), found.differs, found.rows) == (expected, False, 500)


def test_what_differs_is_named():
    reference = predictions(500, 0)
    found = compared(lac(0.1).fit(reference), reference, predictions(500, 1, flat=1.5))
    sentence = found.sentence
    assert found.differs
    assert sentence.startswith("500 of these rows are not like the calibration rows: ")
    assert "the largest probability has a median of " in sentence
    assert "labels on average (" in sentence
    assert "before" not in sentence
    assert sentence.endswith(
        "may not hold for them: look at some of them, then fit the rule on 865 labelled rows like them, and retrain if its "
        "sets become too large"
    )


def test_other_shares_of_the_classes_may_be_all_there_is():
    probs = np.full((900, 5), 0.1)
    probs[range(900), np.random.default_rng(0).integers(5, size=900)] = 0.6  # equal confidence and sizes
    reference, changed = Predictions(probs[:450], link="identity"), Predictions(np.sort(probs[450:]), link="identity")
    found = compared(average_k(1).fit(reference), reference, changed)
    assert [alarm.signal for alarm in found.alarms] == ["class"]
    assert "re-weight (shortlist shares); otherwise fit the rule on 1,000 rows like them" in found.sentence


def test_labels_alone_may_differ_and_only_some_rows_are_read():
    reference = predictions(2500, 0)
    sentence = str(compared(average_k(2).fit(reference), reference, predictions(2500, 1, trust=0.5)))
    assert sentence.startswith("2,000 of these rows are not like the calibration rows: coverage is ")


def test_rules_that_a_watch_does_not_take_are_not_compared_and_it_says_why():
    reference = predictions(50, 0)
    unfitted = compared(lac(0.1), reference, reference)
    assert str(unfitted).startswith("these rows were not compared with the calibration rows: rule: expected a fitted rule")
    assert not unfitted.differs
    gated = gate(top_k(1), 0.5).fit(
        reference.probs(), np.eye(5, dtype=bool)[reference.target] & (np.arange(50) % 5 > 0)[:, None]
    )
    assert "expected one without a gate" in compared(gated, reference, reference).sentence
