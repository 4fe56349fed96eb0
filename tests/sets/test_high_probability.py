"""Guarantees with a probability over calibrations, against the exact law of coverage and a law of known risk."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch
from scipy import stats

from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import PacError, SetRule, aps, cap, classwise, coverage_law, gate, lac, pac, parse_rule, risk_control, top_k
from shortlist.sets.high_probability import errors_allowed, loss_allowed
from tests.references import sets as ref


@pytest.mark.parametrize("alpha", [Fraction(1, 10), Fraction(1, 2), Fraction(1, 3), Fraction(9, 10)])
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 8), Fraction(1, 2)])
def test_the_errors_that_are_allowed_are_those_of_the_binomial_law(alpha, delta):
    """Exactly: with α = 1/2 and δ = 1/8, three rows may have no error, because (1/2)³ = δ."""
    for n in range(1, 41):
        probability, allowed = Fraction(0), -1
        for m in range(n + 1):
            probability += comb(n, m) * alpha**m * (1 - alpha) ** (n - m)
            allowed = m if probability <= delta else allowed
        assert errors_allowed(n, alpha, delta) == allowed, n
    assert errors_allowed(3, Fraction(1, 2), Fraction(1, 8)) == 0


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.2, 0.5, 0.75, 0.9])
@pytest.mark.parametrize("delta", [0.001, 0.05, 0.1, 0.25, 0.64, 0.81])
def test_the_fewest_rows_are_those_from_which_an_error_is_allowed(alpha, delta):
    fewest = PacError(alpha, delta).fewest_rows
    assert errors_allowed(fewest, Fraction(str(alpha)), Fraction(str(delta))) >= 0
    assert errors_allowed(fewest - 1, Fraction(str(alpha)), Fraction(str(delta))) == -1
    assert PacError("1e-300", delta).fewest_rows > 10**297


@pytest.mark.parametrize("n", [29, 50, 500, 5000])
def test_coverage_falls_short_in_at_most_delta_of_the_calibrations_and_that_of_the_plain_rule_in_about_half(n):
    """Of continuous values the coverage at rank r is Beta(r, n + 1 - r); the next rank would be one too many."""
    allowed = errors_allowed(n, Fraction(1, 10), Fraction(1, 20))
    short = stats.beta.cdf(0.9, n - allowed, allowed + 1)
    assert short <= 0.05
    assert stats.beta.cdf(0.9, n - allowed - 1, allowed + 2) > 0.05
    if n >= 500:
        rank = coverage_law_rank(n)
        assert 0.4 < stats.beta.cdf(0.9, rank, n + 1 - rank) < 0.6


def coverage_law_rank(n):
    probs = (torch.arange(1, n + 1, dtype=torch.float64) / (n + 1))[:, None]
    return coverage_law(lac(0.1).fit(probs, torch.zeros(n, dtype=torch.int64))).parameters[0]


@pytest.mark.parametrize("n", [29, 100, 500])
def test_the_threshold_leaves_out_as_many_calibration_rows(n):
    probs = (torch.randperm(n, generator=torch.Generator().manual_seed(0)) + 1.0)[:, None] / (n + 1)
    rule = pac(lac(0.1), 0.05).fit(probs, torch.zeros(n, dtype=torch.int64))
    assert int((~rule(probs)).sum()) == errors_allowed(n, Fraction(1, 10), Fraction(1, 20))
    assert int(rule.fitted_labels) == n


@pytest.mark.parametrize("rule", [lac(0.1), risk_control("recall", 0.1)], ids=["lac", "recall"])
def test_too_few_rows_return_every_label(rule):
    probs, target = torch.rand(20, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(20, dtype=torch.int64)
    with pytest.warns(ShortlistWarning, match=r"20 calibration rows are too few to show an error of 0.1 with delta=0.05"):
        fitted = pac(rule, 0.05).fit(probs, target)
    assert fitted(probs).all()


@pytest.mark.parametrize(("n", "alpha", "delta"), [(100, "0.1", "0.05"), (500, "0.2", "0.1"), (40, "0.3", "0.01")])
def test_the_loss_that_is_allowed_is_the_largest_by_either_bound(n, alpha, delta):
    found = float(loss_allowed(n, Fraction(alpha), Fraction(delta)))
    assert ref.risk_p_value(found, n, float(alpha)) <= float(delta)
    assert ref.risk_p_value(found + 1e-6 * n, n, float(alpha)) > float(delta)


def test_recall_falls_short_in_about_half_of_the_calibrations_of_risk_control_and_in_at_most_delta_here():
    """Three labels in every row, their probabilities uniform: a threshold t misses a share t of them, so its risk is t.

    200 calibrations of 200 rows. CRC: between 36 % and 64 %; with an exact half outside of that with probability 6e-5. RCPS:
    at most 10 % + 3.9 standard errors, exceeded with probability below 1e-4 where the guarantee holds.
    """
    generator, worse = torch.Generator().manual_seed(0), np.zeros(2)
    target = torch.ones(200, 3, dtype=torch.bool)
    rules = risk_control("recall", 0.1), pac(risk_control("recall", 0.1), 0.1)
    for _ in range(200):
        probs = torch.rand(200, 3, generator=generator, dtype=torch.float64)
        worse += [float(rule.fit(probs, target).threshold) > 0.1 for rule in rules]
    shares = worse / 200
    assert 0.36 < shares[0] < 0.64
    assert shares[1] <= 0.1 + 3.9 * (0.1 * 0.9 / 200) ** 0.5


def test_sets_are_larger_than_on_average_and_still_small():
    generator = torch.Generator().manual_seed(0)
    probs = (2 * torch.randn(1000, 5, generator=generator)).softmax(1)
    target = torch.multinomial(probs, 1, generator=generator)[:, 0]
    for plain in (lac(0.1), aps(0.1), risk_control("recall", 0.1)):
        sizes = [rule.fit(probs, target)(probs).sum(1).double().mean() for rule in (plain, pac(plain, 0.05))]
        assert sizes[0] < sizes[1] < sizes[0] + 0.6


@pytest.mark.parametrize("text", ["lac:0.1,pac:0.05", "risk-control:recall:0.1,pac:0.05", "aps:0.1,cap:3,pac:0.05,floor:1"])
def test_the_text_and_the_file_hold_the_rule(text, tmp_path):
    rule = parse_rule(text)
    assert rule.text == text
    assert "probability of at least 0.95 over calibration rows" in rule.guarantee
    rule.fit(torch.rand(60, 4, generator=torch.Generator().manual_seed(0)).softmax(1), torch.arange(60) % 4)
    rule.save(tmp_path / "rule")
    loaded = SetRule.load(tmp_path / "rule")
    assert loaded.record() == rule.record()
    assert coverage_law(rule) is None  # that law is one of average guarantees


@pytest.mark.parametrize("rule", [top_k(2), classwise(lac(0.1)), pac(lac(0.1), 0.1)], ids=repr)
def test_only_errors_on_average_get_a_probability(rule):
    with pytest.raises(InputError, match="pac: expected a conformal rule"):
        pac(rule, 0.05)


@pytest.mark.parametrize("delta", [0, 1, -0.1, "much", float("nan")])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(InputError, match="delta: expected a number"):
        pac(lac(0.1), delta)


def test_bounds_and_gates_are_kept():
    rule = pac(gate(cap(risk_control("recall", 0.1), 3), 0.5), 0.05)
    assert (rule.most, rule.gate.refuse) == (3, 0.5)
    assert rule.text == "risk-control:recall:0.1,cap:3,gate:0.5,pac:0.05"
