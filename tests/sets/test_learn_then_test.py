"""Learn then test: p-values by definition, the choice among thresholds, and the guarantee on a law of known losses."""

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.sets import SetRule, learn_then_test, parse_rule, register_row_loss, top_k
from shortlist.sets.learn_then_test import ROW_LOSSES, p_value
from tests.references import learn_then_test as literal, sets as ref
from tests.sets.cases import draw


@pytest.mark.parametrize("name", ["recall", "precision", "f1", "miscoverage"])
def test_losses_of_rows_are_those_of_the_definition(name):
    random = np.random.default_rng(0)
    sets, marks = random.random((200, 4)) < 0.4, random.random((200, 4)) < 0.4
    found = ROW_LOSSES[name].of(torch.from_numpy(sets), torch.from_numpy(marks))
    np.testing.assert_allclose(found, [literal.row_loss(name, *pair) for pair in zip(sets, marks, strict=True)])


@pytest.mark.parametrize("total", [0.0, 3.0, 7.4, 50.0])
def test_p_values_are_the_bounds_of_the_paper(total):
    assert p_value(total, 100, 0.1) == pytest.approx(min(1.0, ref.risk_p_value(total, 100, 0.1)))
    assert p_value(3, 100, 0.1, binary=True) == pytest.approx(ref.stats.binom.cdf(3, 100, 0.1))


CHOICES = [{"recall": 0.3}, {"precision": 0.6}, {"recall": 0.35, "precision": 0.6}, {"f1": 0.6}, {"miscoverage": 0.7}]


@pytest.mark.parametrize("losses", CHOICES, ids=str)
def test_the_threshold_is_that_of_the_literal_procedure(losses):
    data = draw(many_labels=True, rows=300)
    cut = literal.learn_then_test_cut(data.calibration, data.target, losses, 0.1)
    rule = learn_then_test(losses, 0.1)
    parts = [(data.calibration[:100], data.target[:100]), (data.calibration[100:], data.target[100:])]
    for source in ((data.calibration, data.target), (parts,)):
        assert float(rule.fit(*source).threshold) == cut
    np.testing.assert_array_equal(rule(data.new), data.new >= cut)


def test_both_losses_hold_in_all_but_delta_of_the_calibrations_where_a_plug_in_threshold_fails_in_many():
    """Two labels a row, one present: its probability is uniform above 0.3, that of the other uniform below 0.5.

    A threshold t from 0.3 to 0.5 misses the label with (t - 0.3) / 0.7, and the other is in with 1 - 2t. 150 calibrations of
    400 rows at δ = 0.1; of more than 30 failures the probability is below 1e-4. The plug-in threshold, the highest whose losses
    on the calibration rows are within their levels, fails in about 4 of 10, and in a quarter or fewer with one below 1e-4.
    """
    random, worse, plugged = np.random.default_rng(0), 0, 0
    target = np.tile([True, False], (400, 1))
    rule = learn_then_test({"recall": 0.25, "precision": 0.25}, 0.1)

    def fails(cut):
        missed, wrong = max(cut - 0.3, 0) / 0.7, max(1 - 2 * cut, 0)
        return missed > 0.25 or (1 - missed) * wrong / 2 + missed * wrong > 0.25

    grid = np.array(literal.GRID)
    for _ in range(150):
        probs = np.stack([random.uniform(0.3, 1, 400), random.uniform(0, 0.5, 400)], 1)
        sets = probs >= grid[:, None, None]
        recall, precision = (~sets[..., 0]).mean(1), (sets[..., 1] / sets.sum(2).clip(1)).mean(1)
        plugged += fails(grid[(recall <= 0.25) & (precision <= 0.25)].max())
        worse += fails(float(rule.fit(probs, target).threshold))
    assert plugged > 150 / 4
    assert worse <= 30


def test_what_cannot_be_shown_is_said_and_changes_nothing():
    data = draw(many_labels=True)
    rule = learn_then_test({"recall": 0.4}, 0.1).fit(data.calibration, data.target)
    before = rule.record()
    rule.constraint.bounds = [1e-6]
    with pytest.raises(InputError, match="no threshold could be shown .* on 150 rows"):
        rule.fit(data.calibration, data.target)
    assert rule.record() == before
    with pytest.raises(InputError, match="got none"):
        learn_then_test({"recall": 0.1}).fit(data.calibration[:0], data.target[:0])


def test_a_loss_of_ones_own_is_registered_and_saved_by_name(tmp_path):
    @register_row_loss("larger-than-two", binary=True)
    def larger_than_two(sets, marks):
        return (sets.sum(1) > 2).double()

    data = draw(many_labels=True, rows=300)
    rule = parse_rule("learn-then-test:larger-than-two=0.3:0.1").fit(data.calibration, data.target)
    assert (rule(data.calibration).sum(1) > 2).mean() < 0.3
    rule.save(tmp_path / "rule")
    loaded = SetRule.load(tmp_path / "rule")
    assert loaded.record() == rule.record()
    assert "larger-than-two loss at most 0.3" in loaded.guarantee
    np.testing.assert_array_equal(loaded(data.new), rule(data.new))
    ROW_LOSSES["larger-than-two"] = ROW_LOSSES["larger-than-two"]._replace(of=lambda sets, marks: 2.0 * marks.sum(1))
    with pytest.raises(InputError, match="loss larger-than-two: expected a number from 0 to 1"):
        rule.fit(data.calibration, data.target)
    del ROW_LOSSES["larger-than-two"]


@pytest.mark.parametrize(
    "text", ["learn-then-test:recal=0.1", "learn-then-test:recall", "learn-then-test:recall=2", "learn-then-test:recall=0.1:1"]
)
def test_wrong_texts_are_explained(text):
    with pytest.raises(InputError, match="expected"):
        parse_rule(text)


def test_one_label_a_row_counts_as_a_set_of_one_and_rows_in_several_places_are_refused():
    random = np.random.default_rng(0)
    probs = random.dirichlet(np.ones(3) / 4, 200)
    target = np.array([random.choice(3, p=row) for row in probs])
    first, second = (learn_then_test({"recall": 0.3}).fit(probs, t) for t in (target, np.eye(3, dtype=bool)[target]))
    assert torch.equal(first.threshold, second.threshold)
    with pytest.raises(InputError, match="use fit"):
        first.first_round()
    assert parse_rule("learn-then-test:recall=0.3").text == "learn-then-test:recall=0.3:0.05"
    assert top_k(1).guarantee != first.guarantee
