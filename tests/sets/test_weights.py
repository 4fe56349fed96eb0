"""Rules fitted on rows that count by weights, and on votes: the literal formulas, and what they guarantee."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import SetRule, average_k, classwise, coverage_law, effective_sample_size, gate, lac, parse_rule
from tests.references import sets as ref

TEXTS = ["lac:0.2", "aps:0.2", "aps:0.2:random", "lac:0.2,classwise", "average-k:1.5", "lac:0.2,cap:2,floor:1"]


def quiet(rule, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortlistWarning)
        return rule.fit(*args, **kwargs)


def rows(n=80, seed=0, classes=4):
    """Probabilities with ties, labels drawn from them, and weights that floats hold exactly or not."""
    random = np.random.default_rng(seed)
    probs = np.round(random.dirichlet(np.ones(classes), n), 2)
    target = np.array([random.choice(classes, p=row / row.sum()) for row in probs])
    return probs, target, random.choice([0.0, 0.1, 0.25, 1, 3.7], n)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("weight", [1, 0.1, 1e-300, 3e17])
def test_equal_weights_change_nothing(text, weight):
    probs, target, _ = rows()
    plain = quiet(parse_rule(text), probs, target)
    for given in ({"weights": np.full(80, weight)}, {"class_weights": [weight] * 4}):
        found = quiet(parse_rule(text), probs, target, **given)
        assert found.record() == plain.record()
        assert torch.equal(found.threshold, plain.threshold)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.7])
def test_the_threshold_is_the_literal_quantile(seed, alpha):
    probs, target, weights = rows(seed=seed)
    scores = -probs[np.arange(80), target]
    rule = quiet(lac(alpha), probs, target, weights=weights)
    assert float(rule.threshold) == -ref.weighted_quantile(scores, weights, weights.max(), alpha)
    new = np.array([0, 0.1, 1, 3.7, 20, 1e9])
    expected = [probs[:6][row] >= -ref.weighted_quantile(scores, weights, new[row], alpha) for row in range(6)]
    np.testing.assert_array_equal(rule.predict(probs[:6], weights=new), expected)
    by_class = np.array([0.5, 2, 0, 1])
    rule = quiet(lac(alpha), probs, target, class_weights=by_class)
    expected = [-ref.weighted_quantile(scores, by_class[target], by_class[label], alpha) for label in range(4)]
    np.testing.assert_array_equal(rule.threshold, expected)


@pytest.mark.parametrize("seed", range(3))
def test_each_class_has_the_quantile_of_its_own_rows(seed):
    probs, target, weights = rows(200, seed)
    rule = quiet(classwise(lac(0.3)), probs, target, weights=weights)
    for label in range(4):
        own = target == label
        expected = -ref.weighted_quantile(-probs[own, label], weights[own], weights.max(), 0.3)
        assert float(rule.threshold[label]) == expected


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [0.4, 1.5, 3])
def test_the_average_size_is_that_of_the_weighted_rows(seed, k):
    """No other threshold comes nearer to the average that was asked for."""
    probs, _, weights = rows(seed=seed)
    found = quiet(average_k(k), probs, weights=weights)

    def size(threshold):
        return (weights * (probs >= threshold).sum(1)).sum() / weights.sum()

    best = min(abs(size(threshold) - k) for threshold in [*np.unique(probs), np.inf])
    assert abs(size(float(found.threshold)) - k) == pytest.approx(best, abs=1e-9)


def test_votes_count_by_their_share():
    probs, target, _ = rows()
    one_hot = np.eye(4)[target]
    plain = quiet(lac(0.2), probs, target)
    assert torch.equal(quiet(lac(0.2), probs, one_hot * 3).threshold, plain.threshold)
    votes = np.random.default_rng(1).integers(0, 4, (80, 4)) + one_hot
    shares = votes / votes.sum(1, keepdims=True)
    at = np.nonzero(shares)
    expected = -ref.weighted_quantile(-probs[at], shares[at], 1, 0.2)
    for source, given in ((probs, votes), (Predictions(probs, link="identity"), torch.from_numpy(votes))):
        rule = quiet(lac(0.2), source, given)
        assert float(rule.threshold) == pytest.approx(expected, abs=1e-12)
        assert "at least 0.8" in rule.guarantee
    assert quiet(parse_rule("aps:0.2:random"), probs, votes).fitted


def test_votes_are_covered_by_the_rule_fitted_on_votes_where_the_rule_fitted_on_majorities_falls_short():
    """Three votes a row, drawn from its probabilities, so that the coverage of a new vote is the sum of those in the set.

    The coverage of one calibration has a standard deviation of at most 0.02, the mean of 40 one of 0.0032: 0.0125 below what
    was asked for would be a chance of 1 in 10,000.
    """
    random, covered = np.random.default_rng(0), {"majority": [], "votes": []}
    for _ in range(40):
        probs, new = random.dirichlet(np.ones(5), 300), random.dirichlet(np.ones(5), 1000)
        cast = random.multinomial(3, probs).astype(float)
        for name, target in (("majority", cast.argmax(1)), ("votes", cast)):
            sets = lac(0.1).fit(probs, target).predict(new)
            covered[name].append((sets * new).sum(1).mean())
    assert np.std(covered["votes"], ddof=1) < 0.02
    assert np.mean(covered["votes"]) > 0.9 - 0.0125
    assert np.mean(covered["majority"]) < 0.9 - 0.03


def test_every_source_gives_the_same_fit():
    probs, target, weights = rows()
    expected = quiet(lac(0.2), probs, target, weights=weights).threshold
    cuts = [slice(0, 30), slice(30, 30), slice(30, 80)]
    batches = [(torch.from_numpy(probs[cut]), torch.from_numpy(target[cut])) for cut in cuts]
    for source in (batches, lambda: iter(batches), Predictions(probs, target, link="identity")):
        assert torch.equal(quiet(lac(0.2), source, weights=weights).threshold, expected)


def test_a_saved_rule_keeps_what_new_rows_need(tmp_path):
    probs, target, weights = rows()
    for given in ({"weights": weights}, {"class_weights": [1, 2, 3, 4]}):
        rule = quiet(lac(0.2), probs, target, **given)
        rule.save(tmp_path / "rule.safetensors")
        loaded = SetRule.load(tmp_path / "rule.safetensors")
        assert loaded.guarantee == rule.guarantee != lac(0.2).guarantee
        np.testing.assert_array_equal(loaded(probs), rule(probs))
        if "weights" in given:
            np.testing.assert_array_equal(*(one.predict(probs, weights=weights) for one in (loaded, rule)))
    assert coverage_law(loaded) is None
    assert loaded.calibrated is None
    assert torch.equal(quiet(rule, probs, target).threshold, quiet(lac(0.2), probs, target).threshold)


def test_how_many_rows_they_are_worth_is_told():
    probs, target, weights = rows()
    with pytest.warns(ShortlistWarning, match=f"are worth {weights.sum() ** 2 / (weights**2).sum():,.1f} rows of equal weight"):
        lac(0.5).fit(probs, target, weights=weights)
    assert effective_sample_size(weights) == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


@pytest.mark.parametrize(
    ("rule", "given", "message"),
    [
        (lac(0.1), {"weights": [1.0] * 79 + [1000.0]}, "weights: expected calibration rows worth at least 9"),
        (lac(0.1), {"weights": [1.0] * 79 + [2.0, 3.0]}, "weights: expected one for each of 80 rows, got 81"),
        (lac(0.1), {"weights": [1.0, 2.0]}, "weights: expected one for each of 80 rows, got 2"),
        (lac(0.1), {"weights": [-1.0] * 80}, "weights: expected finite numbers from 0, got -1.0 at 0"),
        (lac(0.1), {"weights": [float("nan")] * 80}, "weights: .*nan"),
        (lac(0.1), {"weights": [0.0] * 80}, "weights: expected a number above 0"),
        (lac(0.1), {"weights": [1.0, 1.0]}, "weights: expected one for each of 80 rows, got 2"),
        (lac(0.1), {"class_weights": [1, 1]}, "class_weights: expected one for each of 4 classes, got 2"),
        (lac(0.1), {"class_weights": [1, 2]}, "class_weights: expected one for each of 4 classes, got 2"),
        (average_k(2), {"class_weights": [1, 2, 3, 4]}, "class_weights: expected a conformal rule"),
        (gate(lac(0.1), 0.5), {"weights": range(80)}, "some rows of which have no label"),
    ],
)
def test_what_is_wrong_is_told(rule, given, message):
    probs, target, _ = rows()
    with pytest.raises(InputError, match=message):
        quiet(rule, probs, target, **given)
    with pytest.raises(InputError, match="weights: expected a rule with one threshold that was fitted with weights"):
        quiet(lac(0.2), probs, target).predict(probs, weights=np.ones(80))


def test_weights_in_another_order_of_rows_are_refused():
    frame = pd.DataFrame({"ash": [0.2, 0.8], "elm": [0.8, 0.2]}, index=["a", "b"])
    with pytest.raises(InputError, match="weights: expected the rows in their order"):
        quiet(lac(0.5), frame, [0, 1], weights=pd.Series([1.0, 2.0], index=["b", "a"]))


def test_under_shifted_rows_the_weighted_rule_covers_where_the_plain_rule_does_not():
    """A row is hard (its label is drawn from all four) or easy; calibration rows are hard in a share of 1/10, new ones of 1/2.

    The weights 5 and 5/9 are the exact ratios. Coverage over 60 calibrations of 300 rows on the exact law of new rows has a
    standard error of about 0.03/√60 = 0.004; the bound of 5 standard errors fails less than once in a million seeds. The plain
    rule covers about 1 - (0.2 · 0.1 + …) of the easy rows and far less of the hard ones.
    """
    covered = {"plain": [], "rows": [], "classes": []}
    for seed in range(60):
        random = np.random.default_rng(seed)

        def draw(n, share, random=random):
            hard = random.uniform(size=n) < share
            probs = np.where(hard[:, None], random.dirichlet(np.ones(4), n), random.dirichlet([50, 0.2, 0.2, 0.2], n))
            return probs, np.array([random.choice(4, p=row) for row in probs]), hard

        probs, target, hard = draw(300, 0.1)
        new, labels, _ = draw(1500, 0.5)
        for name, given in (("plain", {}), ("rows", {"weights": np.where(hard, 5, 5 / 9)})):
            sets = quiet(lac(0.2), probs, target, **given)(new)
            covered[name].append(sets[np.arange(1500), labels].mean())
    assert np.mean(covered["rows"]) > 0.8 - 0.02
    assert np.mean(covered["plain"]) < 0.75


def test_under_shifted_classes_the_weighted_rule_covers_where_the_plain_rule_does_not():
    """Two classes with shares (0.9, 0.1), then (0.3, 0.7); p of the label is Beta(8, 1) of the first and uniform of the second.

    Standard error over 60 calibrations of 300 rows about 0.03/√60 = 0.004; the bounds are 5 of them away and more.
    """
    plain, weighted = [], []
    for seed in range(60):
        random = np.random.default_rng(seed)

        def draw(n, share, random=random):
            target = (random.uniform(size=n) < share).astype(int)
            own = np.where(target == 0, random.beta(8, 1, n), random.uniform(size=n))
            return np.stack([np.where(target == 0, own, 1 - own), np.where(target == 1, own, 1 - own)], 1), target

        probs, target = draw(300, 0.1)
        new, labels = draw(1500, 0.7)
        for found, given in ((plain, {}), (weighted, {"class_weights": [0.3 / 0.9, 0.7 / 0.1]})):
            found.append(quiet(lac(0.1), probs, target, **given)(new)[np.arange(1500), labels].mean())
    assert np.mean(weighted) > 0.9 - 0.02
    assert np.mean(plain) < 0.8


def test_class_weights_go_by_the_names_of_predictions():
    random = np.random.default_rng(0)
    probs, target = random.dirichlet(np.ones(3), 60), random.integers(0, 3, 60)
    named = Predictions(probs, target, ["ash", "elm", "oak"], "identity")
    rule = lac(0.2).fit(named, class_weights={"oak": 5, "ash": 1, "elm": 2})
    assert torch.equal(rule.threshold, lac(0.2).fit(probs, target, class_weights=[1, 2, 5]).threshold)
    with pytest.raises(InputError, match="none for .oak."):
        lac(0.2).fit(named, class_weights={"fir": 5, "ash": 1, "elm": 2})


@pytest.mark.parametrize("exponent", [2**62, -(10**6)])
def test_a_damaged_scale_is_refused_rather_than_computed_with(exponent):
    random = np.random.default_rng(0)
    rule = lac(0.2).fit(random.dirichlet(np.ones(3), 60), random.integers(0, 3, 60), weights=random.uniform(size=60))
    rule.weighting.check_buffers()
    rule.weighting.exponent = torch.tensor(exponent)
    with pytest.raises(InputError, match="exponent"):
        rule.weighting.check_buffers()
