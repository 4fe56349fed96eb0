"""The coverage of one calibration: its exact distribution, and what calibration rows can promise."""

import json
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import (
    ClassLaws,
    CoverageLaw,
    class_laws,
    coverage_law,
    fit_shards,
    lac,
    nested,
    parse_rule,
    rule_from_record,
)
from tests.references import sets as reference


@pytest.mark.parametrize(("n", "alpha"), [(9, 0.1), (10, 0.1), (40, 0.05), (57, 0.1), (99, "1/3"), (200, 0.2)])
def test_the_ends_of_the_range_are_quantiles_of_the_literal_beta_distribution(n, alpha):
    law = CoverageLaw(n, alpha)
    rank = reference.conformal_rank(n, alpha if alpha != "1/3" else reference.Fraction(1, 3))
    assert law.parameters == (rank, n + 1 - rank)
    for end, share in zip(law.interval(), (0.025, 0.975), strict=True):
        assert reference.beta_cdf(end, *law.parameters) == pytest.approx(share, rel=1e-9)
    low, high = law.interval(0.5)
    assert reference.beta_cdf(high, *law.parameters) - reference.beta_cdf(low, *law.parameters) == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize(("n", "alpha", "rows"), [(9, 0.1, 30), (57, 0.1, 100), (40, 0.2, 7), (19, 0.05, 1)])
def test_the_measured_range_holds_the_literal_beta_binomial_distribution(n, alpha, rows):
    law = CoverageLaw(n, alpha)
    shares = np.cumsum([float(share) for share in reference.beta_binomial(rows, *law.parameters)])
    low, high = law.measured_interval(rows)
    assert low == int((shares < 0.025).sum()) / rows
    assert high == int((shares < 0.975).sum()) / rows


def test_calibrations_of_uniform_scores_have_this_coverage():
    n, alpha, draws = 60, 0.1, 400
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(draws, n, generator=generator, dtype=torch.float64)
    law = CoverageLaw(n, alpha)
    # Values are uniform, so the coverage of a threshold t on them is 1 - t.
    reached = [
        1 - float(lac(alpha).fit(torch.stack([row, 1 - row], 1), torch.zeros(n).long()).threshold) for row in probs[:400]
    ]
    inside = np.mean([law.interval()[0] <= value <= law.interval()[1] for value in reached])
    assert 0.91 < inside < 0.985  # 0.95 ± 4 standard errors of 400 draws


@pytest.mark.parametrize("n", [9, 50, 333, 1000])
def test_the_rows_that_halve_the_range_do_and_one_less_does_not(n):
    law = CoverageLaw(n, 0.1)
    more = law.rows_to_halve()
    assert CoverageLaw(more, 0.1).width <= law.width / 2 < CoverageLaw(more - 1, 0.1).width


def test_a_million_rows_measured_take_no_other_form():
    low, high = CoverageLaw(100_000, 0.1).measured_interval(1_000_000)
    assert 0.895 < low < 0.9 < high < 0.905


def test_too_few_rows_promise_every_label():
    law = CoverageLaw(8, 0.1)
    assert law.too_few
    assert law.needed == 9
    assert law.interval() == law.measured_interval(5) == (1.0, 1.0)
    assert "8 calibration rows are too few for an error of 0.1, which needs 9" in law.sentence()
    assert law.record()["rows_to_halve"] is None
    with pytest.raises(InputError, match="n: .*at least 9 .*got 8"):
        _ = law.parameters
    assert not CoverageLaw(9, 0.1).too_few


def test_the_sentence_holds_the_numbers():
    text = CoverageLaw(500, 0.1).sentence()
    assert "500 calibration rows" in text
    assert "between 87.3% and 92.5%" in text
    assert "about 2,000 rows would halve" in text


def draw(rows, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    probs = torch.randn(rows, classes, generator=generator).softmax(1)
    return probs, torch.multinomial(probs, 1, generator=generator).squeeze(1)


@pytest.mark.parametrize(
    "text", ["lac:0.1", "aps:0.1:deterministic", "raps:0.1:deterministic", "aps:0.1:random", "lac:0.1,floor:0"]
)
def test_conformal_rules_have_a_law_of_their_calibration_rows(text):
    assert coverage_law(parse_rule(text)) is None  # not fitted
    rule = parse_rule(text, generator=0).fit(*draw(120, 30))
    assert coverage_law(rule) == CoverageLaw(120, 0.1)
    again = rule_from_record(json.loads(json.dumps(rule.record())), rule.state_dict())
    assert coverage_law(again) == CoverageLaw(120, 0.1)


@pytest.mark.parametrize("text", ["aps:0.1", "raps:0.1", "lac:0.1,floor:1", "aps:0.1:random,floor:2"])
def test_sets_with_further_labels_have_a_law_from_below(text):
    law = coverage_law(parse_rule(text).fit(*draw(120, 30)))
    assert law == CoverageLaw(120, 0.1, exact=False)
    exact = CoverageLaw(120, 0.1)
    assert law.interval() == (exact.interval()[0], 1.0)
    assert law.measured_interval(50) == (exact.measured_interval(50)[0], 1.0)
    assert law.rows_to_halve() == exact.rows_to_halve()
    assert f"at least {exact.interval()[0]:.1%}" in law.sentence()


@pytest.mark.parametrize("text", ["average-k:2", "top-k:1", "lac:0.1,cap:2", "lac:0.1,interpolated:0.5", "lac:0.1,classwise"])
def test_other_rules_have_none(text):
    rule = parse_rule(text)
    assert coverage_law(rule.fit(*draw(120)) if rule.needs_fit else rule) is None
    assert coverage_law(None) is None


def test_a_record_without_counts_falls_back_on_the_calibration_rows():
    rule = lac(0.1).fit(*draw(50))
    record = rule.record()
    del record["labels"]
    assert coverage_law(rule_from_record(record, rule.state_dict())) == CoverageLaw(50, 0.1)


@pytest.mark.parametrize("labels", [[50], -1, 1.5, "fifty"])
def test_damaged_counts_are_refused(labels):
    rule = lac(0.1).fit(*draw(50))
    with pytest.raises(InputError, match="labels"):
        rule_from_record(rule.record() | {"labels": labels}, rule.state_dict())


def test_class_wise_rules_say_which_classes_are_too_small():
    probs, target = draw(60)
    target[:] = torch.tensor([0] * 40 + [1] * 12 + [2] * 8)
    with pytest.warns(UserWarning, match="1 of 3 classes"):
        rule = parse_rule("lac:0.1,classwise").fit(probs, target)
    laws = class_laws(rule)
    assert laws == ClassLaws([40, 12, 8], rule.constraint.alpha)
    assert laws.too_small() == [2]
    assert laws.of(1) == CoverageLaw(12, rule.constraint.alpha)
    assert "1 of 3 classes" in laws.sentence()
    assert "add 1 labelled rows" in laws.sentence()
    assert class_laws(lac(0.1)) is None
    again = rule_from_record(json.loads(json.dumps(rule.record())), rule.state_dict())
    assert class_laws(again) == laws


def test_small_classes_come_smallest_first():
    assert ClassLaws([3, 50, 0, 3], 0.1).too_small() == [2, 0, 3]
    assert "too small" not in ClassLaws([50, 60], 0.1).sentence()
    assert "in every set" not in ClassLaws([50, 60], 0.1).sentence()


ALARM = 1e-6  # the probability that a test of a right range fails, for each seed


def trials(text, laws_of, calibrations=150, rows=60, decimals=None, classes=3):
    """For each law of many calibrations, whether the coverage measured on 400 new rows is outside of its range."""
    random, outside = np.random.default_rng(0), []
    given = {"prior": [0.3, 0.3, 0.4], "superclasses": ["a", "a", "b"]} if text.startswith(("pas", "sure-node")) else {}
    given = {name: value for name, value in given.items() if (name == "prior") == text.startswith("pas")}
    for seed in range(calibrations):
        scores = random.normal(size=(rows + 400, classes))
        target = random.integers(0, classes, rows + 400)
        scores[np.arange(len(target)), target] += 1.5
        probs = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        probs = probs if decimals is None else np.round(probs, decimals)
        rule = parse_rule(text, generator=seed, **given) if ":random" in text else parse_rule(text, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShortlistWarning)
            rule.fit(probs[:rows], target[:rows])
        hits = rule.predict(probs[rows:])[np.arange(400), target[rows:]]
        for law, own in laws_of(rule, target[rows:]):
            low, high = law.measured_interval(int(own.sum()))
            outside.append(not low <= hits[own].mean() <= high)
    return outside


SETS = [("lac:0.2", None), ("lac:0.2,floor:1", None), ("lac:0.3,floor:2", None), ("lac:0.2", 1), ("lac:0.1", 1), ("lac:0.2", 2),
        ("aps:0.3", None), ("aps:0.3:random", None), ("aps:0.3:random,floor:1", None), ("aps:0.3:deterministic", 1),
        ("raps:0.3:0.1:1:deterministic", None), ("raps:0.3", None), ("pas:0.2", None), ("pas:0.2", 1),
        ("sure-node:0.3", None), ("sure-node:0.1", None), ("sure-node:0.4,floor:2", None)]  # fmt: skip


@pytest.mark.parametrize(("text", "decimals"), SETS)
def test_measured_coverage_leaves_the_range_no_more_often_than_it_says(text, decimals):
    """Rows of one source, in 150 calibrations: at most 5 % outside, and more than chance allows once in a million tests."""
    outside = trials(text, lambda rule, target: [(coverage_law(rule), np.ones(len(target), bool))], decimals=decimals)
    assert len(outside) == 150
    assert sum(outside) <= stats.binom.isf(ALARM, 150, 0.05)


BY_CLASS = [("lac:0.3,classwise", None), ("lac:0.3,classwise,floor:1", None), ("lac:0.3,classwise", 1),
            ("aps:0.3,classwise", None), ("aps:0.3:random,classwise", None), ("raps:0.3,classwise", None)]  # fmt: skip


@pytest.mark.parametrize(("text", "decimals"), BY_CLASS)
def test_measured_coverage_of_a_class_leaves_its_range_no_more_often_than_it_says(text, decimals):
    """The first class alone, whose calibrations are independent."""
    outside = trials(text, lambda rule, target: [(class_laws(rule).of(0), target == 0)], decimals=decimals, rows=150)
    assert sum(outside) <= stats.binom.isf(ALARM, 150, 0.05)


def tied():
    """120 rows, most of whose labels have one of three probabilities."""
    probs, target = draw(120, 3)
    return torch.where(probs > 0.5, 0.75, torch.where(probs > 0.2, 0.25, 0.125)).double(), target


@pytest.mark.parametrize("text", ["lac:0.2", "lac:0.2,classwise", "sure-node:0.2", "aps:0.2:deterministic"])
def test_labels_that_tie_at_the_threshold_are_counted(text):
    probs, target = tied()
    given = {"superclasses": [0, 0, 1]} if "sure" in text else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortlistWarning)
        rule = parse_rule(text, **given).fit(probs, target, keep=True)
        parts = fit_shards(parse_rule(text, **given), [(probs[:50], target[:50]), (probs[50:], target[50:])])
        lower = parse_rule(text.replace("0.2", "0.4"), **given).fit(probs, target)
    covered = rule.predict(probs)[torch.arange(120), target]
    own = [torch.ones(120, dtype=torch.bool)] if rule.threshold.ndim == 0 else [target == label for label in range(3)]
    for part, more in zip(own, np.atleast_1d(rule.fitted_ties), strict=True):
        needed = reference.conformal_rank(int(part.sum()), 0.2)
        assert int(covered[part].sum()) == needed + max(more, 0)
    assert rule.fitted_ties.any()
    for other in (parts, rule_from_record(json.loads(json.dumps(rule.record())), rule.state_dict())):
        assert torch.equal(other.fitted_ties, rule.fitted_ties)
    [other] = nested(rule, [0.4])
    assert torch.equal(other.fitted_ties, lower.fitted_ties)


def test_ties_raise_the_upper_end_to_that_of_clopper_and_pearson():
    plain, law = CoverageLaw(500, 0.2), CoverageLaw(500, 0.2, tied=60)
    assert law.interval()[0] == plain.interval()[0]
    covered = plain.parameters[0] + 60
    assert reference.beta_cdf(law.interval()[1], covered + 1, 500 - covered) == pytest.approx(0.975, rel=1e-9)
    assert law.measured_interval(200)[0] == plain.measured_interval(200)[0]
    assert plain.measured_interval(200)[1] < law.measured_interval(200)[1] < 1
    assert CoverageLaw(500, 0.2, tied=500 - plain.parameters[0]).interval()[1] == 1
    assert "labels that tie at the threshold are included besides" in law.sentence()
    assert law.width == plain.width
    with pytest.raises(InputError, match="tied"):
        CoverageLaw(500, 0.2, tied=-2)


def test_ties_with_labels_that_were_needed_raise_the_upper_end_as_well():
    """Six of 18 labels have probability 0, the 18th of which was needed: every label is in every set."""
    probs = torch.tensor([[0.0, 1.0]] * 6 + [[1.0, 0.0]] * 12)
    target = torch.zeros(18, dtype=torch.int64)
    rule = lac(0.1).fit(probs, target, keep=True)
    law = coverage_law(rule)
    assert law == CoverageLaw(18, 0.1, tied=-1)
    assert law.interval() == (CoverageLaw(18, 0.1).interval()[0], 1.0)
    assert law.measured_interval(100)[1] == 1.0
    assert "0.9 was asked for, and labels tie)" in law.sentence()
    below = CoverageLaw(500, 0.2, tied=-1)
    assert reference.beta_cdf(below.interval()[1], below.parameters[0] + 1, 500 - below.parameters[0]) == pytest.approx(0.975)
    again = rule_from_record(json.loads(json.dumps(rule.record())), rule.state_dict())
    parts = fit_shards(lac(0.1), [(probs[:9], target[:9]), (probs[9:], target[9:])])
    [other] = nested(lac(0.2).fit(probs, target, keep=True), [0.1])
    classwise = parse_rule("lac:0.1,classwise").fit(torch.cat([probs, probs.flip(1)]), torch.cat([target, target + 1]))
    assert [coverage_law(one) for one in (again, parts, other)] == [law] * 3
    assert [class_laws(classwise).of(label) for label in range(2)] == [law] * 2
    probs[:5] = 0.5
    assert coverage_law(lac(0.1).fit(probs, target)) == law, "the threshold was met once, but may be the last value"
    distinct = torch.linspace(0.1, 0.9, 18, dtype=torch.float64)
    assert coverage_law(lac(0.1).fit(torch.stack([distinct, 1 - distinct], 1), target)) == CoverageLaw(18, 0.1)


ATOMS = [(9, [0.5, 0.5]), (9, [0.1] * 10), (12, [0.2] * 5), (18, [0.05] * 20), (18, [0.9, 0.1]), (19, [0.987, 0.013]),
         (24, [0.96, 0.04]), (40, [0.1] * 10)]  # fmt: skip


@pytest.mark.parametrize(("n", "shares"), ATOMS)
def test_the_true_coverage_of_tied_values_is_seldom_beyond_either_end(n, shares):
    """Of 1,000 calibrations whose labels have one of a few probabilities, with these shares from the largest down."""
    random, calibrations = np.random.default_rng(0), 1000
    values, covered = np.linspace(0.9, 0.1, len(shares)), np.minimum(np.cumsum(shares), 1)
    above = below = 0
    for drawn in random.choice(len(shares), (calibrations, n), p=shares):
        rule = lac(0.1).fit(np.stack([values[drawn], 1 - values[drawn]], 1), np.zeros(n, np.int64))
        low, high = coverage_law(rule).interval()
        true = covered[np.flatnonzero(values >= float(rule.threshold))[-1]]
        above, below = above + (true > high), below + (true < low)
    assert max(above, below) <= stats.binom.isf(ALARM, calibrations, 0.025)


def test_a_rule_that_was_saved_before_ties_were_counted_has_a_law_from_below():
    rule = lac(0.1).fit(*draw(50))
    record = rule.record()
    del record["tied"]
    old = rule_from_record(record, rule.state_dict())
    assert coverage_law(old) == CoverageLaw(50, 0.1, exact=False)
    assert old.record() == record, "by which a server knows the rule again that it watched"
    with pytest.raises(InputError, match="tied"):
        rule_from_record(rule.record() | {"tied": [1]}, rule.state_dict())


def test_class_laws_of_sets_with_further_labels_are_laws_from_below():
    probs, target = draw(150, 3)
    for text in ("aps:0.2,classwise", "lac:0.2,classwise,floor:1"):
        laws = class_laws(parse_rule(text).fit(probs, target))
        assert not laws.exact
        assert laws.of(1) == CoverageLaw(laws.counts[1], 0.2, exact=False)
        assert "it is at least" in laws.sentence()
        assert "between" not in laws.sentence()
    assert "more where values tie" in ClassLaws([50, 60], 0.1, tied=[0, 3]).sentence()
    assert ClassLaws([50, 60], 0.1, tied=[0, 3]).of(1) == CoverageLaw(60, 0.1, tied=3)
