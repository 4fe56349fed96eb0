"""A watch on rows with several labels: what decides the recall is bet on, and the recall has an interval."""

import numpy as np
import pytest

import shortlist as sl
from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.sets import parse_rule, risk_control, top_k
from shortlist.shift import Watch, compared
from shortlist.shift.signals import places
from tests.references import shift as ref
from tests.shift.test_watch import rows as single

CLASSES = 6


def rows(n, seed, *, trust=1.0):
    """Probabilities of labels that are independent, and labels that follow them in this share of the rows."""
    random = np.random.default_rng(seed)
    probs = random.beta(0.4, 1.0, (n, CLASSES))
    believed = np.where(random.uniform(size=(n, 1)) < trust, probs, 0.3)
    return probs, random.uniform(size=probs.shape) < believed


@pytest.mark.parametrize("text", ["risk-control:recall:0.2", "top-k:2", "threshold:0.3", "per-label:recall:0.8"])
def test_labels_alone_may_change_and_what_is_calm_stays_calm(text):
    probs, target = rows(400, 0)
    watch = Watch(parse_rule(text).fit(probs, target), probs, target)
    assert watch.add(*rows(300, 1)) == []
    (alarm,) = watch.add(*rows(400, 2, trust=0.3))
    assert alarm.signal == "label"
    assert abs(alarm.since - 300) < 60
    assert alarm.change.startswith("recall is ")
    assert "% before)" in alarm.change


def test_the_recall_is_that_of_the_rows_with_an_interval():
    probs, target = rows(500, 3)
    rule = risk_control("recall", 0.2).fit(*rows(500, 4))
    watch = Watch(rule)
    for start in range(0, 500, 125):
        watch.add(probs[start : start + 125], target[start : start + 125])
    held = [target[row][chosen].sum() / max(1, target[row].sum()) for row, chosen in enumerate(rule(probs))]
    recall = np.mean([share if target[row].any() else 1 for row, share in enumerate(held)])  # nothing is missed of nothing
    share, low, high = watch.recall
    assert share == pytest.approx(recall)
    assert low < share < high
    assert (low, high) == sl.shift.coverage_interval(watch.missed, 500, watch.level)
    assert watch.coverage is None
    assert watch.sentences()[1] == f"recall {share:.1%} on 500 labelled rows ({low:.1%} to {high:.1%})"


@pytest.mark.parametrize(("text", "allowed"), [("risk-control:recall:0.4", 0.4), ("top-k:2", 0), ("average-k:2", 0)])
def test_what_decides_the_loss_of_a_row_is_bet_on(text, allowed):
    probs, target = rows(60, 5)
    rule = parse_rule(text).fit(probs, target)
    watch = Watch(rule)
    watch.add(probs, target)
    values = rule.ordering(sl.tensors.as_tensor(probs)).numpy()
    sign = 1 if rule.ordering.descending else -1
    worst = [sign * ref.deciding(sign * values[row][target[row]], allowed) for row in range(60)]
    expected = places(np.maximum(worst, 0))
    assert [place for _, place, _ in watch.label_rows] == expected.tolist()


def test_where_each_label_has_a_threshold_the_share_that_is_found_is_bet_on():
    probs, target = rows(60, 5)
    rule = parse_rule("per-label:f1").fit(probs, target)
    watch = Watch(rule)
    watch.add(probs, target)
    missed = [(target[row] & ~chosen).sum() / max(1, target[row].sum()) for row, chosen in enumerate(rule(probs))]
    np.testing.assert_allclose([share for *_, share in watch.label_rows], missed)
    assert [place for _, place, _ in watch.label_rows] == places(1 - np.array(missed)).tolist()


@pytest.mark.parametrize("text", ["risk-control:recall:0.2", "per-label:f1"])
def test_division_and_resuming_change_nothing(text, tmp_path):
    probs, target = rows(100, 6)
    new, labels = rows(90, 7)
    rule = parse_rule(text).fit(probs, target)
    whole, parts = Watch(rule, probs, target), Watch(rule, probs, target)
    whole.add(new, labels)
    whole.add_labels(new[:40], labels[:40])
    for start, stop in ((0, 7), (7, 90)):
        parts.add(new[start:stop], labels[start:stop])
        parts.save(tmp_path / "watch.safetensors")
        parts = Watch.load(tmp_path / "watch.safetensors")
    for start, stop in ((0, 39), (39, 40)):
        parts.add_labels(new[start:stop], labels[start:stop])
    assert (parts.capital, parts.recall, parts.missed) == (whole.capital, whole.recall, whole.missed)
    assert parts.several is True


def test_labels_of_both_kinds_are_refused_and_change_nothing():
    (probs, target), (other, labels) = rows(30, 8), single(30, 0)
    watch = Watch(top_k(2))
    watch.add(probs, target)
    for call in (
        lambda: watch.add(probs, target.argmax(1)),
        lambda: watch.add_labels(probs, target.argmax(1)),
        lambda: Watch(top_k(2)).add([(other[:9], labels[:9]), (other[9:], np.eye(5, dtype=bool)[labels[9:]])]),
    ):
        with pytest.raises(InputError, match="target: expected labels as before, got one label a row in some, and several"):
            call()
    assert (watch.rows, watch.labelled) == (30, 30)


def test_two_files_are_compared_by_their_labels_too():
    first, second, changed = (Predictions(*rows(900, n, trust=t), link="identity") for n, t in ((0, 1), (1, 1), (2, 0.3)))
    rule = risk_control("recall", 0.2).fit(first)
    assert "nothing differs" in str(compared(rule, first, second))
    assert "recall is " in str(compared(rule, first, changed))
