"""Groups of rules that look at all rows together: what is chosen first, and what is shown of several losses."""

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.sets import by, fit_shards, learn_then_test, parse_rule, raps
from tests.references import learn_then_test as literal, sets as ref

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")


def garden(rows=600, seed=0, classes=6):
    """Three sites; in the south the classifier is overconfident, the east has few rows."""
    random = np.random.default_rng(seed)
    site = random.choice(["north", "south", "east"], rows, p=[0.6, 0.37, 0.03])
    truth = random.dirichlet(np.ones(classes) / 2, rows)
    target = np.array([random.choice(classes, p=row) for row in truth])
    probs = np.where((site == "south")[:, None], truth**3, truth)
    return probs / probs.sum(1, keepdims=True), target, site


@pytest.mark.parametrize("least", [None, 60])
@pytest.mark.parametrize("seed", range(3))
def test_the_penalty_is_chosen_on_a_fifth_of_all_rows_and_each_group_calibrates_on_its_others(least, seed):
    probs, target, site = garden(seed=seed)
    new, _, new_site = garden(100, seed=seed + 10)
    rule = by(raps(0.1, "auto", randomized=False), "site", least).fit(probs, target, groups=site)
    few = ref.chosen_rows(len(probs))
    penalty, k_reg = ref.tuned_penalty(probs[few], target[few], 0.1)
    assert (rule.ordering.penalty, rule.ordering.k_reg) == (penalty, k_reg)
    rest = (probs[~few], target[~few])

    def scores(rows, prior=None):
        return ref.aps_scores(rows, penalty=penalty, k_reg=k_reg)

    expected = ref.by_group(
        lambda own: ref.conformal(scores, rest[0][own], rest[1][own], new, 0.1), site[~few], new_site, least or 9
    )
    np.testing.assert_array_equal(rule.predict(new, groups=new_site), expected)
    assert rule.groups.rows.tolist() == [(site[~few] == name).sum() for name in rule.groups.names]
    assert not (expected == ref.conformal(scores, *rest, new, 0.1)).all()


@pytest.mark.parametrize("after", ["", ",classwise", ",pac:0.1"])
def test_the_plain_rule_with_that_penalty_on_the_other_rows_is_the_same(after):
    probs, target, site = garden()
    rule = parse_rule(f"raps:0.1:auto:deterministic{after},by:site").fit(probs, target, groups=site)
    few = ref.chosen_rows(len(probs))
    plain = parse_rule(f"raps:0.1:{rule.ordering.penalty}:{rule.ordering.k_reg}:deterministic{after},by:site")
    plain.fit(probs[~few], target[~few], groups=site[~few])
    assert torch.equal(rule.groups.thresholds, plain.groups.thresholds)
    assert torch.equal(rule.groups.own, plain.groups.own)


@pytest.mark.parametrize("text", ["raps:0.2:auto:random", "raps:0.2:auto"])
def test_groups_are_covered_by_randomised_rules_too(text):
    """The coverage of each large group on 4,000 new rows; four standard errors of rows and of about 170 calibration rows."""
    probs, target, site = garden()
    new, labels, new_site = garden(8000, seed=1)
    rule = parse_rule(f"{text},by:site").fit(probs, target, groups=site)
    hit = rule.predict(new, groups=new_site)[np.arange(8000), labels]
    for name in ("north", "south"):
        error = (0.16 / (new_site == name).sum() + 0.16 / (0.8 * (site == name).sum())) ** 0.5
        assert hit[new_site == name].mean() > 0.8 - 4 * error
        assert "random" not in text or hit[new_site == name].mean() < 0.8 + 4 * error
    assert len(set(rule.groups.thresholds.tolist())) == 3


def test_weights_and_groups_of_a_chosen_penalty():
    probs, target, site = garden()
    weights = np.random.default_rng(0).integers(1, 4, 600)
    rule = parse_rule("raps:0.1:auto:deterministic,by:site").fit(probs, target, groups=site, weights=weights)
    few = ref.chosen_rows(len(probs))
    plain = parse_rule(f"raps:0.1:{rule.ordering.penalty}:{rule.ordering.k_reg}:deterministic,by:site")
    plain.fit(probs[~few], target[~few], groups=site[~few], weights=weights[~few])
    assert torch.equal(rule.groups.thresholds, plain.groups.thresholds)


@pytest.mark.parametrize("losses", [{"recall": 0.4}, {"miscoverage": 0.5}, {"recall": 0.7, "precision": 0.75}])
def test_losses_are_shown_to_be_small_in_each_group_that_has_its_own_threshold(losses):
    probs, target, site = garden()
    rule = by(learn_then_test(losses, 0.1), "site", 200).fit(probs, target, groups=site)
    for name, found in zip(rule.groups.names, rule.groups.thresholds.tolist(), strict=True):
        own = site == name if (site == name).sum() >= 200 else np.ones(600, bool)
        marks = np.eye(6, dtype=bool)[target[own]]
        assert found == literal.learn_then_test_cut(probs[own], marks, losses, 0.1)
    assert rule.groups.own.tolist() == [False, True, True]
    batches = [(probs[cut], target[cut], None, site[cut]) for cut in (slice(0, 90), slice(90, 600))]
    again = by(learn_then_test(losses, 0.1), "site", 200).fit(batches)
    assert torch.equal(again.groups.thresholds, rule.groups.thresholds)


def test_a_group_in_which_nothing_can_be_shown_is_named():
    probs, target, site = garden()
    with pytest.raises(InputError, match="by:site:1: among the 2. rows of 'east', probs: no threshold could be shown"):
        by(learn_then_test({"recall": 0.1}), "site", 1).fit(probs, target, groups=site)


@pytest.mark.parametrize("text", ["raps:0.1:auto,by:site", "learn-then-test:recall=0.4,by:site"])
def test_what_needs_all_rows_in_one_place_is_refused_in_several(text):
    probs, target, site = garden()
    with pytest.raises(InputError, match="needs all rows in one place: use fit"):
        fit_shards(parse_rule(text), [(probs, target, None, site)])
