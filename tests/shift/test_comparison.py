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
    assert compared(rule, reference, new) == expected
    assert compared(rule, reference, new.rows(new.target.argsort())) == expected


def test_what_differs_is_named():
    reference = predictions(500, 0)
    sentence = compared(lac(0.1).fit(reference), reference, predictions(500, 1, flat=1.5))
    assert sentence.startswith("500 of these rows are not like the calibration rows: ")
    assert "the largest probability has a median of " in sentence
    assert "labels on average (" in sentence
    assert "before" not in sentence


def test_labels_alone_may_differ_and_only_some_rows_are_read():
    reference = predictions(2500, 0)
    sentence = compared(average_k(2).fit(reference), reference, predictions(2500, 1, trust=0.5))
    assert sentence.startswith("2,000 of these rows are not like the calibration rows: coverage is ")


def test_rules_that_a_watch_does_not_take_are_passed_over():
    reference = predictions(50, 0)
    assert compared(lac(0.1), reference, reference) is None
    gated = gate(top_k(1), 0.5).fit(
        reference.probs(), np.eye(5, dtype=bool)[reference.target] & (np.arange(50) % 5 > 0)[:, None]
    )
    assert compared(gated, reference, reference) is None
