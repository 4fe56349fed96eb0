"""Conformal rules: the rank in exact arithmetic, the coverage law, few rows, class by class."""

import numpy as np
import pytest
import torch
from scipy import stats

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import aps, classwise, interpolated, lac, mass, pas, raps, threshold, top_k
from shortlist.sets.conformal import conformal_rank
from shortlist.sets.constraints import check_alpha
from tests.references import sets as ref
from tests.sets.cases import draw


def percent_rank(n, percent):
    """⌈(n + 1)(100 - percent) / 100⌉ in whole numbers."""
    return -((n + 1) * (percent - 100) // 100)


def test_the_rank_is_exact_for_every_n_up_to_200_and_every_percent():
    for n in range(1, 201):
        for percent in range(1, 100):
            alpha = percent / 100
            assert conformal_rank(n, check_alpha(alpha)) == percent_rank(n, percent) == ref.conformal_rank(n, alpha), (n, alpha)


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lac, lambda n, rank: 1 - rank / 256),
        (lambda alpha: pas(alpha, [1.0, 1.0]), lambda n, rank: 1 - rank / 256),
        (lambda alpha: aps(alpha, randomized=False), lambda n, rank: 1 - (n + 1 - rank) / 256),
    ],
    ids=["lac", "pas", "aps"],
)
@pytest.mark.parametrize("n", [9, 19, 99, 200])
def test_the_threshold_is_the_value_of_that_rank(make, value, n):
    """The label comes first in its row, with 1 - p = 1/256, …, n/256; at n = 9, alpha = 0.7 floats are off by one."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)) + 1
    probs = torch.stack([1 - order.double() / 256, torch.zeros(n)], 1)
    for percent in range(1, 100):
        rank = percent_rank(n, percent)
        if rank <= n:
            rule = make(percent / 100).fit(probs, torch.zeros(n, dtype=torch.long))
            assert rule.threshold.item() == value(n, rank), percent


def labelled(rows, classes, generator):
    """Rows whose label is never the least plausible one, so that no two masses tie at 1."""
    probs = torch.rand(rows, classes, generator=generator, dtype=torch.float64).log().neg()
    probs = probs / probs.sum(1, keepdim=True)
    place = (torch.rand(rows, generator=generator) ** 2 * (classes - 1)).long()
    return probs, probs.argsort(dim=1, descending=True).gather(1, place[:, None]).squeeze(1)


RULES = {
    "lac": lambda: lac(0.2),
    "aps": lambda: aps(0.2, randomized=False),
    "aps at random": lambda: aps(0.2, torch.Generator().manual_seed(1)),
    "raps": lambda: raps(0.2, 0.05, 2, randomized=False),
    "pas": lambda: pas(0.2, [0.1, 0.2, 0.3, 0.05, 0.15, 0.2]),
}


@pytest.mark.parametrize("name", RULES)
def test_coverage_follows_its_beta_binomial_law(name):
    """Of m new rows, BetaBinomial(m, r, n + 1 - r) are covered, r the conformal rank.

    Kolmogorov-Smirnov on the randomised distribution transform, which is uniform under the law. False alarms: 1e-4 a case.
    An error of one in the rank moves the mean coverage by 1/31, some 6 standard errors.
    """
    n, m, draws = 30, 40, 300
    generator, rule, covered = torch.Generator().manual_seed(7), RULES[name](), []
    for _ in range(draws):
        probs, target = labelled(n + m, 6, generator)
        sets = rule.fit(probs[:n], target[:n])(probs[n:])
        covered.append(int(sets.gather(1, target[n:, None]).sum()))
    rank = ref.conformal_rank(n, 0.2)
    law = stats.betabinom(m, rank, n + 1 - rank)
    share = np.random.default_rng(0).uniform(size=draws)
    uniform = law.cdf(np.array(covered) - 1) + share * law.pmf(covered)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("make", RULES.values(), ids=RULES.keys())
def test_too_few_rows_return_everything_and_say_so(make):
    """An error of 0.2 needs 4 rows."""
    probs, target = labelled(4, 6, torch.Generator().manual_seed(0))
    with pytest.warns(match=r"3 calibration rows are too few for an error of 0.2 \(4 are needed\)"):
        rule = make().fit(probs[:3], target[:3])
    assert rule(torch.eye(6)).all()
    assert not make().fit(probs, target)(torch.eye(6)).all()


def test_the_same_expression_stands_on_both_sides():
    """A new row that is the calibration row of the quantile has its label in, in every precision."""
    for dtype in (torch.float16, torch.float32, torch.float64):
        probs = torch.linspace(0.01, 0.99, 99, dtype=torch.float64).to(dtype)[:, None]
        rule = lac(0.3).fit(probs, torch.zeros(99, dtype=torch.long))
        assert int(rule(probs).sum()) >= percent_rank(99, 30)
        assert rule.threshold.item() in probs.double().flatten().tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lac_tells_small_probabilities_apart(dtype):
    """1 - p in float32 is 1 for all of them; the threshold is near p = 1e-13."""
    own = torch.logspace(-1, -14, 99, dtype=torch.float64)
    rule = lac(0.1).fit(torch.stack([own, 1 - own], 1).to(dtype), torch.zeros(99, dtype=torch.long))
    assert rule(torch.tensor([[1e-9, 1e-14], [0.5, 1e-30]], dtype=dtype)).tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, "much", None, float("nan")])
@pytest.mark.parametrize("make", [lac, aps, raps, mass, lambda alpha: pas(alpha, [1.0])])
def test_an_alpha_that_is_no_error_is_refused(make, alpha):
    with pytest.raises(InputError, match=r"^alpha: expected a number"):
        make(alpha)


@pytest.mark.parametrize("make", [lac, aps, raps, lambda alpha: interpolated(lac(alpha), 0.5)])
def test_many_labels_a_row_are_refused_with_a_hint(make):
    with pytest.raises(InputError, match=r"one label a row.*risk-control.*classwise"):
        make(0.1).fit(torch.rand(20, 3), torch.ones(20, 3, dtype=torch.bool))


@pytest.mark.parametrize(
    "make",
    [aps, raps, lambda alpha: pas(alpha, [1.0] * 3), lambda alpha: interpolated(lac(alpha), 0.5)],
    ids=["aps", "raps", "pas", "interpolated"],
)
def test_scores_without_a_link_are_refused_where_probabilities_are_needed(make):
    scores = Predictions(torch.randn(50, 3), torch.arange(50) % 3)
    with pytest.raises(InputError, match="probabilities"):
        make(0.2).fit(scores)


def test_lac_acts_on_scores_without_a_link():
    scores, target = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 3
    assert torch.equal(lac(0.2).fit(Predictions(scores, target)).threshold, lac(0.2).fit(scores, target).threshold)


def rare():
    """Class 2 has three calibration rows, fewer than an error of 0.2 needs."""
    data = draw(classes=3, rows=60)
    target = np.where(np.arange(60) < 3, 2, data.target % 2)
    return data.calibration, target, data.new


@pytest.mark.parametrize("make", [lac, aps, raps, lambda alpha: pas(alpha, [0.5, 0.3, 0.2])])
def test_classwise_always_returns_a_class_with_too_few_rows(make):
    calibration, target, new = rare()
    with pytest.warns(match="1 of 3 classes have fewer than the 4 calibration rows that an error of 0.2 needs"):
        rule = classwise(make(0.2)).fit(calibration, target)
    sets = rule(new)
    assert sets[:, 2].all()
    assert not sets[:, :2].all()


@pytest.mark.parametrize("weight", [0, 0.25, 0.5, 1])
def test_interpolation_takes_a_class_with_too_few_rows_as_one_with_the_threshold_0(weight):
    calibration, target, new = rare()
    with pytest.warns(match="1 of 3 classes have too few rows"):
        rule = interpolated(lac(0.2), weight).fit(calibration, target)
    cuts = -ref.class_quantiles(-calibration, target, 0.2)
    common = -ref.conformal_quantile((-calibration)[np.arange(60), target].tolist(), 0.2)
    expected = weight * np.append(cuts[:2], 0.0) + (1 - weight) * common
    np.testing.assert_allclose(rule.threshold.numpy(), expected, rtol=1e-15)
    np.testing.assert_array_equal(rule(new), ref.interpolated(calibration, target, new, 0.2, weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weight", [0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
def test_a_label_exactly_at_a_threshold_in_between_is_in(weight, dtype):
    """Rounded, w · q + (1 - w) · q may lie above q: every label would be left out."""
    target = torch.tensor([0, 1]).repeat(50)
    for percent in range(51, 100):
        own = torch.tensor([percent / 100, 1 - percent / 100], dtype=dtype)
        probs = torch.stack([own, own.flip(0)]).repeat(50, 1)
        sets = interpolated(lac(0.1), weight).fit(probs, target)(probs)
        assert sets[torch.arange(100), target].all(), percent


def test_interpolation_ends_at_the_common_and_the_class_wise_rule():
    data = draw()
    ends = [interpolated(lac(0.2), w).fit(data.calibration, data.target)(data.new) for w in (0, 1)]
    np.testing.assert_array_equal(ends[0], lac(0.2).fit(data.calibration, data.target)(data.new))
    np.testing.assert_array_equal(ends[1], classwise(lac(0.2)).fit(data.calibration, data.target)(data.new))


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_0_and_1_is_refused(weight):
    with pytest.raises(InputError, match="weight"):
        interpolated(lac(0.1), weight)


@pytest.mark.parametrize("rule", [top_k(1), threshold(0.5), mass(0.1), classwise(lac(0.1))], ids=repr)
def test_only_conformal_rules_have_class_wise_forms(rule):
    with pytest.raises(InputError, match="expected a conformal rule"):
        classwise(rule)
    with pytest.raises(InputError, match="expected a conformal rule"):
        interpolated(rule, 0.5)


@pytest.mark.parametrize("rule", [aps(0.1), raps(0.1), pas(0.1, [1.0])], ids=repr)
def test_only_lac_is_interpolated(rule):
    with pytest.raises(InputError, match="expected lac"):
        interpolated(rule, 0.5)


@pytest.mark.parametrize(("penalty", "k_reg"), [(0.3, 0), (0.01, 2), (0.1, 1), (0.0, 0)])
def test_raps_adds_the_penalty_beyond_k_reg_in_float64(penalty, k_reg):
    data = draw()
    scores = ref.aps_scores(data.calibration, penalty=penalty, k_reg=k_reg)[np.arange(150), data.target]
    rule = raps(0.1, penalty, k_reg, randomized=False).fit(data.calibration, data.target)
    assert rule.threshold.item() == pytest.approx(ref.conformal_quantile(scores.tolist(), 0.1), rel=1e-13)


@pytest.mark.parametrize("arguments", [(0.1, -0.1), (0.1, float("nan")), (0.1, 0.1, -1), (0.1, 0.1, 1.5)])
def test_raps_refuses_what_is_no_penalty_or_rank(arguments):
    with pytest.raises(InputError):
        raps(*arguments)


ONCE = {"lac": lac, "aps": aps, "raps": raps}
ONCE |= {"classwise": lambda alpha: classwise(lac(alpha)), "interpolated": lambda alpha: interpolated(lac(alpha), 0.5)}


@pytest.mark.parametrize("make", ONCE.values(), ids=ONCE)
def test_one_pass_suffices_for_a_conformal_rule(make):
    data = draw()
    parts = [(data.calibration[:50], data.target[:50]), (data.calibration[50:], data.target[50:])]
    whole = make(0.2).fit(data.calibration, data.target).threshold
    assert torch.equal(make(0.2).fit(part for part in parts).threshold, whole)


def test_coverage_far_beyond_what_was_asked_for_is_told():
    probs = torch.tensor([[1.0, 0.0]]).repeat(200, 1)
    with pytest.warns(ShortlistWarning, match="tie at the threshold"):
        aps(0.2, randomized=False).fit(probs, torch.zeros(200, dtype=torch.long))


@pytest.mark.parametrize("make", [aps, raps, lambda alpha: pas(alpha, [0.5, 0.5])])
@pytest.mark.parametrize("once", [True, False])
def test_rules_that_need_probabilities_refuse_logits(make, once):
    batch = (torch.tensor([[5.0, -2.0]] * 20), torch.zeros(20, dtype=torch.long))
    with pytest.raises(InputError, match="probs: expected probabilities from 0 to 1, got 5 in row 0"):
        make(0.2).fit((part for part in [batch]) if once else [batch])
