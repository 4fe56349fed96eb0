"""The coverage of one calibration: its exact distribution, and what calibration rows can promise."""

import json

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.sets import ClassLaws, CoverageLaw, class_laws, coverage_law, lac, parse_rule, rule_from_record
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
    "text", ["lac:0.1", "aps:0.1:deterministic", "raps:0.1:deterministic", "aps:0.1:random", "lac:0.1,floor:1"]
)
def test_conformal_rules_have_a_law_of_their_calibration_rows(text):
    assert coverage_law(parse_rule(text)) is None  # not fitted
    rule = parse_rule(text, generator=0).fit(*draw(120, 30))
    assert coverage_law(rule) == CoverageLaw(120, 0.1)
    again = rule_from_record(json.loads(json.dumps(rule.record())), rule.state_dict())
    assert coverage_law(again) == CoverageLaw(120, 0.1)


@pytest.mark.parametrize("text", ["aps:0.1", "raps:0.1"])
def test_a_randomised_calibration_alone_has_a_law_from_below(text):
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
