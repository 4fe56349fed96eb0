"""P-values of rules with a threshold for each group: from the values of the group, or of all rows if it has the common one."""

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import SetRule, by, lac, nested, parse_rule, rule_from_record
from tests.references import sets as ref, weighted_sets as weighted

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
ALPHAS = (0.03, 0.1, 0.2, 0.3, 0.6)


def garden(rows=200, seed=0, *, tied=False):
    """Three sites, one of few rows, one row of no site; probabilities in sixteenths tie."""
    random = np.random.default_rng(seed)
    site = random.choice(["north", "south", "east"], rows, p=[0.55, 0.42, 0.03])
    site[0] = ""
    truth = random.dirichlet(np.ones(5), rows)
    target = np.array([random.choice(5, p=row) for row in truth])
    probs = np.where((site == "south")[:, None], truth**3, truth)
    probs = np.round(probs / probs.sum(1, keepdims=True) * 16) + 1 if tied else probs
    return probs / probs.sum(1, keepdims=True), target, site


TEXTS = ["lac:0.1,by:site", "lac:0.3,by:site:100", "lac:0.2,by:site:1", "aps:0.2,by:site", "aps:0.2:random,by:site",
         "raps:0.2:auto,by:site", "lac:0.3,classwise,by:site", "aps:0.3:deterministic,classwise,by:site:5",
         "lac:0.2,cap:5,by:predicted"]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["labels", "weights", "class_weights", "votes"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_label_is_in_the_set_if_and_only_if_its_p_value_exceeds_alpha(text, kind, tied):
    probs, target, site = garden(tied=tied)
    new, _, new_site = garden(60, seed=1, tied=tied)
    groups, asked = ({"groups": site}, {"groups": new_site}) if "site" in text else ({}, {})
    given = {"weights": np.random.default_rng(2).choice([0.5, 1, 2.5], 200)} if kind == "weights" else {}
    given |= {"class_weights": [1, 2, 0.5, 1, 1]} if kind == "class_weights" else {}
    labels = np.eye(5)[target] + np.eye(5)[np.roll(target, 1)] if kind == "votes" else target
    rule = parse_rule(text).fit(probs, labels, keep=True, **groups, **given)
    found, sets = rule.p_values(new, **asked), rule.predict(new, **asked)
    np.testing.assert_array_equal(found > rule.alpha, sets)
    assert len(np.unique(found)) > 20
    assert 0 < sets.mean() < 1


def test_each_label_of_a_row_with_several_is_of_the_group_of_the_row():
    probs, target, site = garden()
    marks = np.eye(5, dtype=bool)[target] | (probs > 0.3)
    rule = parse_rule("lac:0.3,classwise,by:site").fit(probs, marks, groups=site, keep=True)
    np.testing.assert_array_equal(rule.p_values(probs, groups=site) > 0.3, rule.predict(probs, groups=site))


def test_p_values_are_those_of_the_definition_within_each_group(tmp_path):
    probs, target, site = garden()
    new, _, new_site = garden(60, seed=1)
    rule = by(lac(0.1), "site", 20).fit(probs, target, groups=site, keep=True)
    rule.save(tmp_path / "rule")
    for one in (rule, SetRule.load(tmp_path / "rule")):
        found = one.p_values(new, groups=new_site)
        for row, name, own in zip(new, new_site, found, strict=True):
            here = site == name if name in ("north", "south") else np.ones(200, bool)
            np.testing.assert_array_equal(own, ref.p_values(-probs[here], target[here], -row))


def test_weighted_p_values_are_those_of_the_definition_within_each_group():
    probs, target, site = garden()
    new, _, new_site = garden(60, seed=1)
    weights = np.random.default_rng(2).choice([0.5, 1, 2.5], 200)
    found = by(lac(0.1), "site", 20).fit(probs, target, groups=site, weights=weights, keep=True).p_values(new, groups=new_site)
    for name in ("north", "south", "east"):
        here, asked = site == name if name != "east" else np.ones(200, bool), new_site == name
        expected = weighted.p_values(-probs[here], target[here], weights[here], np.full(asked.sum(), 2.5), -new[asked])
        np.testing.assert_allclose(found[asked], expected, rtol=1e-11)


@pytest.mark.parametrize(
    "text", ["lac:A,by:site", "lac:A,by:site:40", "aps:A,by:site", "lac:A,classwise,by:site", "lac:A,by:predicted"]
)
def test_nested_rules_are_those_of_a_fit_for_each_error(text):
    probs, target, site = garden()
    given = {"groups": site} if "site" in text else {}
    kept = parse_rule(text.replace("A", "0.2")).fit(probs, target, keep=True, **given)
    for alpha, other in zip(ALPHAS, nested(kept, ALPHAS), strict=True):
        fitted = parse_rule(text.replace("A", str(alpha))).fit(probs, target, **given)
        assert (other.text, other.guarantee) == (fitted.text, fitted.guarantee)
        for name in ("rows", "thresholds", "own"):
            assert torch.equal(getattr(other.groups, name), getattr(fitted.groups, name)), name
        np.testing.assert_array_equal(other.predict(probs, **given), fitted.predict(probs, **given))
    assert kept.alpha == 0.2


def test_nested_rules_of_a_chosen_penalty_keep_it_and_say_so():
    probs, target, _ = garden()
    kept = parse_rule("raps:0.2:auto:deterministic").fit(probs, target, keep=True)
    few, (penalty, k_reg) = ref.chosen_rows(200), (kept.ordering.penalty, kept.ordering.k_reg)
    [same, other] = nested(kept, [0.2, 0.4])
    assert (same.text, other.text) == ("raps:0.2:auto:deterministic", "raps:0.2:auto:deterministic at 0.4")
    plain = parse_rule(f"raps:0.4:{penalty}:{k_reg}:deterministic").fit(probs[~few], target[~few])
    assert torch.equal(other.threshold, plain.threshold)
    assert (other.ordering.penalty, other.ordering.k_reg) == (penalty, k_reg)


def test_groups_are_given_as_to_the_rule():
    probs, target, site = garden()
    rule = by(lac(0.2), "site").fit(probs, target, groups=site, keep=True)
    predictions = Predictions(probs, target, link="identity", columns={"site": site})
    np.testing.assert_array_equal(rule.p_values(predictions), rule.p_values(probs, groups=site))
    with pytest.warns(ShortlistWarning, match="1 of 2 rows are of no site .*'west'"):
        found = rule.p_values(probs[:2], groups=["west", "north"])
    np.testing.assert_array_equal(found[0], lac(0.2).fit(probs, target, keep=True).p_values(probs[:1])[0])
    assert rule.p_values(probs[:0], groups=[]).shape == (0, 5)
    with pytest.raises(InputError, match="by:site: expected the site of each row, got none"):
        rule.p_values(probs)
    with pytest.raises(InputError, match="groups: expected None"):
        lac(0.2).fit(probs, target, keep=True).p_values(probs, groups=site)
    with pytest.raises(InputError, match="weights: expected a rule with one threshold"):
        rule.p_values(probs, groups=site, weights=np.ones(200))


def test_a_damaged_file_is_refused():
    probs, target, site = garden()
    rule = by(lac(0.2), "site").fit(probs, target, groups=site, keep=True)
    with pytest.raises(InputError, match="kept_groups: expected int64, one for each value"):
        rule_from_record(rule.record(), rule.state_dict() | {"kept_groups": torch.zeros(3, dtype=torch.int64)})


def test_what_has_no_p_values_or_no_rules_at_other_errors_is_refused():
    probs, target, site = garden()
    with pytest.raises(InputError, match="keep: expected groups with thresholds of their own.*got lac:0.2,by:site:1:20"):
        by(lac(0.2), "site", shrink=20).fit(probs, target, groups=site, keep=True)
    kept = by(lac(0.2), "site").fit(probs, target, groups=site, weights=np.arange(200) % 3 + 1, keep=True)
    with pytest.raises(InputError, match="rule: expected lac:0.2,by:site fitted without weights and votes"):
        nested(kept, [0.1])
