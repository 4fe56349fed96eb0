"""Rules behind a gate: which rows are refused, what the rule is fitted on, and what is promised."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError, NotFittedError
from shortlist.sets import SetRule, average_k, bound_cost, cap, classwise, gate, lac, parse_rule, raps, threshold, top_k

CLASSES = 6


def rows(count, seed, outliers=0.4, strength=4.0):
    """Probabilities of rows, some of which have no label and no strong class, and their labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(CLASSES, size=count)
    known = random.uniform(size=count) >= outliers
    scores = random.normal(size=(count, CLASSES))
    scores[np.arange(count), labels] += np.where(known, strength, 0)
    probs = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return probs, np.eye(CLASSES, dtype=bool)[labels] & known[:, None]


def test_the_rule_is_fitted_on_the_labelled_rows_that_pass():
    probs, target = rows(300, 0)
    rule = gate(lac(0.1), 0.9).fit(probs, target)
    passed = (probs.max(1) > float(rule.gate.threshold)) & target.any(1)
    alone = lac(0.1).fit(probs[passed], target[passed].argmax(1))
    assert torch.equal(rule.threshold, alone.threshold)
    assert rule.calibrated == alone.calibrated
    new, _ = rows(80, 1)
    expected = alone.predict(new) & (new.max(1) > float(rule.gate.threshold))[:, None]
    assert np.array_equal(rule.predict(new), expected)
    assert not rule.predict(new).any(1).all()


@pytest.mark.parametrize("by", ["confidence", "any-label"])
def test_rows_without_a_label_are_refused_as_often_as_promised(by):
    """Over many calibration sets: P(refused) ≥ 0.8, and above by less than 1 / (n + 1)."""
    shares, covered = [], []
    for seed in range(400):
        rule = parse_rule(f"lac:0.2,gate:0.8:{by}").fit(*rows(60, seed, strength=2.0))
        new, target = rows(60, 10_000 + seed, strength=2.0)
        passed = rule.gate.accepts(torch.from_numpy(new)).numpy()
        shares.append(1 - passed[~target.any(1)].mean())
        kept = passed & target.any(1)
        if kept.any():
            covered.append((rule.predict(new) & target).any(1)[kept].mean())
    for found, least, most in ((shares, 0.8, 0.8 + 1 / 15), (covered, 0.8, 0.8 + 1 / 8)):
        spread = 4 * np.std(found) / len(found) ** 0.5
        assert least - spread < np.mean(found) < most + spread


def test_a_floor_does_not_fill_the_set_of_a_refused_row():
    probs, target = rows(200, 0)
    rule = parse_rule("average-k:2,floor:1,gate:0.9").fit(probs, target)
    refused = ~rule.gate.accepts(torch.from_numpy(probs)).numpy()
    sizes = rule.predict(probs).sum(1)
    assert refused.any()
    assert (sizes[refused] == 0).all()
    assert (sizes[~refused] >= 1).all()
    assert torch.equal(rule.threshold, parse_rule("average-k:2,gate:0.9,floor:1").fit(probs, target).threshold)


@pytest.mark.parametrize(
    "text", ["top-k:2,gate:0.9", "lac:0.1,classwise,gate:0.8", "lac:0.2,gate:0.8,classwise", "aps:0.1:random,gate:0.8"]
)
def test_a_gate_goes_with_any_rule_in_any_order_and_survives_saving(text, tmp_path):
    probs, target = rows(300, 2)
    rule = parse_rule(text).fit(probs, target)
    assert rule.text == text
    rule.save(tmp_path / "rule.safetensors")
    new = Predictions(rows(50, 3)[0], link="identity")
    again = SetRule.load(tmp_path / "rule.safetensors")
    assert torch.equal(again(new), rule(new))
    assert again.guarantee == rule.guarantee
    assert "at least 0.8" in rule.guarantee or "at least 0.9" in rule.guarantee


def test_batches_predictions_and_a_matrix_give_the_same_gate():
    probs, target = (torch.from_numpy(part) for part in rows(200, 4))
    whole = gate(average_k(2), 0.9).fit(probs, target)
    batches = gate(average_k(2), 0.9).fit(lambda: zip(probs.split(33), target.split(33), strict=True))
    predictions = gate(average_k(2), 0.9).fit(Predictions(probs, target, link="identity"))
    for other in (batches, predictions):
        assert torch.equal(other.threshold, whole.threshold)
        assert torch.equal(other.gate.threshold, whole.gate.threshold)


def test_a_fitted_rule_put_behind_a_gate_has_to_be_fitted_again():
    probs, target = rows(100, 5)
    fitted = average_k(2).fit(probs)
    rule = gate(fitted, 0.5)
    assert fitted.fitted
    assert not rule.fitted
    with pytest.raises(NotFittedError):
        rule.predict(probs)
    with pytest.raises(NotFittedError):
        gate(top_k(1), 0.5).predict(probs)
    assert gate(top_k(1), 0.5).fit(probs, target).fitted


def test_fitting_a_class_wise_twin_leaves_the_first_gate_alone():
    rule = gate(lac(0.2), 0.5)
    classwise(rule).fit(*rows(100, 6))
    assert not rule.gate.fitted


def test_ties_with_the_threshold_are_refused():
    probs, target = [[0.6, 0.4], [0.6, 0.4], [0.9, 0.1]], [[False, False], [False, False], [True, False]]
    rule = gate(top_k(1), 0.5).fit(probs, target)
    assert rule.predict([[0.4, 0.6], [0.61, 0.39]]).any(1).tolist() == [False, True]


@pytest.mark.parametrize(
    ("refuse", "message"), [(0, "refuse: .*got 0"), (1, "refuse: .*got 1"), ("much", "refuse: .*got .?much")]
)
def test_a_share_that_is_none_is_refused(refuse, message):
    with pytest.raises(InputError, match=message):
        gate(top_k(1), refuse)


def test_what_cannot_be_fitted_is_refused():
    probs, target = rows(40, 7)
    with pytest.raises(InputError, match="by: .*got 'size'"):
        gate(top_k(1), 0.5, "size")
    with pytest.raises(InputError, match="gate: expected a rule without a gate, got top-k:1,gate:0.5"):
        gate(gate(top_k(1), 0.5), 0.5)
    with pytest.raises(InputError, match="at least 19 calibration rows without a label, got 2"):
        gate(top_k(1), 0.95).fit(probs[-2:], target[-2:] & False)
    with pytest.raises(InputError, match="got one label a row"):
        gate(top_k(1), 0.5).fit(probs, target.argmax(1))
    with pytest.raises(InputError, match="expected labels"):
        gate(top_k(1), 0.5).fit(probs)
    with pytest.raises(InputError, match="got an iterator"):
        gate(average_k(1), 0.5).fit(iter([(probs, target)]))
    unsure = np.where(target.any(1, keepdims=True), 0.1, 0.9) * np.ones_like(probs)
    with pytest.raises(InputError, match="gate:0.5: .*refuses all of them"):
        gate(average_k(1), 0.5).fit(unsure, target)
    with pytest.raises(InputError, match="got many labels"):
        gate(raps(0.1), 0.5).fit(probs, np.ones_like(target) & target.any(1, keepdims=True))


def test_a_refit_that_fails_leaves_gate_and_rule_as_they_were():
    probs, target = rows(200, 8)
    rule = gate(lac(0.1), 0.9).fit(probs, target)
    before, state = rule.record(), {name: value.clone() for name, value in rule.state_dict().items()}
    several = target.copy()
    several[target.any(1).nonzero()[0][0]] = True
    flat = probs**0.5 / (probs**0.5).sum(1, keepdims=True)
    unsure = np.where(target.any(1, keepdims=True), 0.1, 0.9) * np.ones_like(probs)
    for refused, labels in ((flat, several), (unsure, target), (flat, target[:, :5]), (flat, None), (flat, target & False)):
        with pytest.raises(InputError):
            rule.fit(refused, labels)
        assert rule.record() == before
        assert all(torch.equal(value, state[name]) for name, value in rule.state_dict().items())
    fresh = gate(lac(0.1), 0.9)
    with pytest.raises(InputError, match="many labels"):
        fresh.fit(flat, several)
    assert not fresh.fitted
    assert not fresh.gate.fitted


def test_a_damaged_gate_is_refused():
    from shortlist.sets import rule_from_record

    rule = gate(threshold(0.2), 0.5).fit(*rows(50, 8))
    for record, message in (
        ({"gate": []}, r"gate: .*got \[\]"),
        ({"gate": {"refuse": 2, "by": "confidence"}}, "refuse: .*got 2"),
        ({"gate": None}, "gate.threshold"),
    ):
        with pytest.raises(InputError, match=message):
            rule_from_record(rule.record() | record, rule.state_dict())
    with pytest.raises(InputError, match="gate.threshold: .*float32"):
        rule_from_record(rule.record(), rule.state_dict() | {"gate.threshold": torch.tensor(0.5)})


def test_bounds_change_no_set_of_a_refused_row():
    probs, target = rows(100, 9)
    rule = cap(gate(threshold(0.01), 0.9), 2).fit(probs, target)
    accepted = rule.gate.accepts(torch.from_numpy(probs)).numpy()
    free = threshold(0.01).predict(probs).sum(1) * accepted
    found = bound_cost(rule, probs, target)
    assert 0 < found.shortened == (free > 2).sum() < (threshold(0.01).predict(probs).sum(1) > 2).sum()
    assert found.size_before == free.mean()
    assert found.size_after == rule.predict(probs).sum(1).mean()
    assert found.coverage_after == (rule.predict(probs) & target).sum() / target.sum()


@pytest.mark.parametrize("by", ["confidence", "any-label"])
def test_probabilities_that_rounding_left_above_1_count_as_1(by):
    probs, target = rows(300, 0)
    probs[5] = np.eye(CLASSES)[2]
    above = np.where(probs == 1, 1.0005, probs)
    expected, found = (gate(lac(0.1), 0.9, by).fit(values, target) for values in (probs, above))
    assert torch.equal(found.gate.threshold, expected.gate.threshold)
    assert np.array_equal(found.predict(above), expected.predict(probs))
    assert found.predict(above)[5].any()


def quality_of(target, seed):
    """A number per row that is higher for rows with a label, by chance."""
    return np.random.default_rng(50_000 + seed).normal(size=len(target)) + 1.5 * target.any(1)


def test_a_gate_by_quality_asks_nothing_of_the_probabilities():
    """Against the definition: the rank of the rows without a label, the rule fitted on the others that pass."""
    probs, target = rows(300, 10)
    new = rows(80, 11)[0]
    quality, new_quality = quality_of(target, 10), np.random.default_rng(1).normal(size=80)
    rule = gate(lac(0.1), 0.7, "quality").fit(probs, target, quality=quality)
    refused = sorted(quality[~target.any(1)])
    level = refused[math.ceil((len(refused) + 1) * Fraction(7, 10)) - 1]
    assert float(rule.gate.threshold) == level
    kept = target.any(1) & (quality > level)
    alone = lac(0.1).fit(probs[kept], target[kept].argmax(1))
    assert torch.equal(rule.threshold, alone.threshold)
    assert rule.calibrated == alone.calibrated
    expected = alone.predict(new) & (new_quality > level)[:, None]
    assert np.array_equal(rule.predict(new, new_quality), expected)
    assert 0 < expected.any(1).sum() < (new_quality > level).sum() + 1 < 81


def test_a_gate_by_quality_refuses_as_often_as_promised():
    """Over many calibration sets: P(refused) ≥ 0.8, and above by less than 1 / (n + 1); the rule covers what it promises."""
    shares, covered = [], []
    for seed in range(400):
        probs, target = rows(60, seed, strength=2.0)
        rule = parse_rule("lac:0.2,gate:0.8:quality").fit(probs, target, quality=quality_of(target, seed))
        new, target = rows(60, 10_000 + seed, strength=2.0)
        quality = quality_of(target, 10_000 + seed)
        passed = rule.gate.accepts(torch.from_numpy(new), torch.from_numpy(quality)).numpy()
        shares.append(1 - passed[~target.any(1)].mean())
        kept = passed & target.any(1)
        if kept.any():
            covered.append((rule.predict(new, quality) & target).any(1)[kept].mean())
    for found, least, most in ((shares, 0.8, 0.8 + 1 / 15), (covered, 0.8, 0.8 + 1 / 8)):
        spread = 4 * np.std(found) / len(found) ** 0.5
        assert least - spread < np.mean(found) < most + spread


@pytest.mark.parametrize("text", ["average-k:2,gate:0.9:quality", "aps:0.1:random,cap:2,gate:0.8:sharpness"])
def test_a_gate_by_quality_is_the_same_from_any_source_and_survives_saving(text, tmp_path):
    probs, target = (torch.from_numpy(part) for part in rows(200, 12))
    quality = torch.from_numpy(quality_of(target.numpy(), 12))
    whole = parse_rule(text).fit(probs, target, quality=quality.tolist())
    batches = [part.split(33) for part in (probs, target, quality)]
    from_batches = parse_rule(text).fit(lambda: zip(*batches, strict=True))
    predictions = Predictions(probs, target, link="identity", quality=quality)
    from_predictions = parse_rule(text).fit(predictions)
    for other in (from_batches, from_predictions):
        assert torch.equal(other.threshold, whole.threshold)
        assert torch.equal(other.gate.threshold, whole.gate.threshold)
        assert other.calibrated == whole.calibrated or "random" in text
    assert whole.text == text
    assert whole.needs_quality
    from_predictions.save(tmp_path / "rule.safetensors")
    again = SetRule.load(tmp_path / "rule.safetensors")
    assert torch.equal(again(predictions), from_predictions(predictions))
    in_blocks = again.in_blocks()
    parts = [in_blocks(block.probs(), block.scores, block.quality) for block in predictions.blocks(entries=100)]
    assert torch.equal(torch.cat(parts), again(predictions))


def test_a_gate_by_quality_needs_no_probabilities():
    scores, target = np.log(rows(200, 13)[0]), rows(200, 13)[1]
    quality = quality_of(target, 13)
    rule = gate(top_k(1), 0.5, "quality").fit(scores, target, quality=quality)
    assert not rule.needs_probabilities
    assert rule.predict(scores, quality).any(1).sum() == (quality > float(rule.gate.threshold)).sum()


def test_rows_without_the_quality_that_a_gate_needs_are_refused():
    probs, target = rows(100, 14)
    quality, text = quality_of(target, 14), "top-k:1,gate:0.5:quality"
    rule = parse_rule(text).fit(probs, target, quality=quality)
    predictions = Predictions(probs, target, link="identity")
    for call in (
        lambda: parse_rule(text).fit(probs, target),
        lambda: parse_rule(text).fit(predictions),
        lambda: parse_rule(text).fit([(probs, target)]),
        lambda: rule(probs),
        lambda: rule.predict(predictions),
        lambda: rule.in_blocks()(torch.from_numpy(probs)),
        lambda: bound_cost(cap(rule, 1), probs),
    ):
        with pytest.raises(
            InputError, match="expected a quality, one number for each row, got none: (pass quality=|.*with_quality)"
        ):
            call()
    for wrong, message in (
        (quality[:-1], r"quality: .*\(100,\), got float64 \(99,\)"),
        (quality[:, None], r"quality: .*got float64 \(100, 1\)"),
        (np.where(np.arange(100) == 7, np.nan, quality), "quality: .*got nan in row 7"),
    ):
        with pytest.raises(InputError, match=message):
            parse_rule(text).fit(probs, target, quality=wrong)
        with pytest.raises(InputError, match=message):
            rule(probs, wrong)
    for call in (lambda: rule.fit(predictions, quality=quality), lambda: rule(predictions.with_quality(quality), quality)):
        with pytest.raises(InputError, match="quality: expected None.*with_quality"):
            call()
    with pytest.raises(InputError, match="quality: expected None.*batches"):
        rule.fit([(probs, target)], quality=quality)
    with pytest.raises(InputError, match="gate:0.5:quality: expected at least 1 calibration rows without a label, got 0"):
        parse_rule(text).fit(probs[target.any(1)], target[target.any(1)], quality=quality[target.any(1)])
    with pytest.raises(InputError, match="gate:0.5:quality: .*refuses all of them"):
        parse_rule(text).fit(probs, target, quality=-1.0 * target.any(1))


def test_the_cost_of_bounds_counts_the_rows_that_pass_by_quality():
    probs, target = rows(100, 15)
    quality = quality_of(target, 15)
    rule = cap(gate(threshold(0.01), 0.6, "quality"), 2).fit(probs, target, quality=quality)
    found = bound_cost(rule, probs, target, quality=quality)
    free = threshold(0.01).predict(probs).sum(1) * (quality > float(rule.gate.threshold))
    assert found.size_before == free.mean()
    assert found.size_after == rule.predict(probs, quality).sum(1).mean()
