"""Thresholds of groups that lie between their own and the common one."""

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.sets import Ordering, SetRule, by, lac, parse_rule, per_label, rule_from_record
from shortlist.sets.conformal import AverageError
from tests.references import sets as ref, weighted_sets as weighted
from tests.sets.cases import SUPERCLASSES

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
PLACES = np.array(["north"] * 150 + ["south"] * 40 + ["east"] * 5)
PRIOR = np.array([0.1, 0.2, 0.3, 0.2, 0.2])


def garden(seed=0):
    """Three sites, in the south the classifier is overconfident; the east has too few rows for an error of 0.1."""
    random = np.random.default_rng(seed)
    truth = random.dirichlet(np.ones(5), len(PLACES))
    target = np.array([random.choice(5, p=row) for row in truth])
    probs = np.where((PLACES == "south")[:, None], truth**3, truth)
    return probs / probs.sum(1, keepdims=True), target


def separate(text, probs, target, **given):
    """The threshold of a fit on these rows alone."""
    return parse_rule(text, prior=PRIOR, superclasses=SUPERCLASSES).fit(probs, target, **given).threshold.numpy()


# The rule, and the smallest and the largest value of its ordering for five classes.
RULES = [
    ("lac:0.1", 0, 1),
    ("pas:0.1", 0, 10),
    ("aps:0.1:deterministic", 0, 1),
    ("raps:0.1:0.25:2:deterministic", 0, 1.75),
    ("sure-node:0.1", 0, 1),
    ("risk-control:recall:0.1", 0, 1),
    ("average-k:2", 0, 1),
    ("lac:0.1,pac:0.05", 0, 1),
]


@pytest.mark.parametrize(("text", "lowest", "highest"), RULES)
@pytest.mark.parametrize("m", [1, 20])
def test_thresholds_lie_between_as_far_as_there_are_rows(text, lowest, highest, m):
    probs, target = garden()
    rule = parse_rule(f"{text},by:site:1:{m}", prior=PRIOR, superclasses=SUPERCLASSES).fit(probs, target, groups=PLACES)
    common = separate(text, probs, target)
    assert float(rule.threshold) == common
    for name, found in zip(rule.groups.names, rule.groups.thresholds.tolist(), strict=True):
        here = name == PLACES
        own = separate(text, probs[here], target[here])
        assert found == pytest.approx(ref.shrunk(own, common, here.sum(), m, lowest, highest), rel=1e-14), name
        assert found != common


def test_class_by_class_the_rows_of_the_class_count_and_a_class_without_rows_has_the_common_threshold():
    probs, target = garden()
    target[(PLACES == "south") & (target == 3)] = 0
    rule = parse_rule("lac:0.2,classwise,by:site:1:10").fit(probs, target, groups=PLACES)
    common, south = separate("lac:0.2,classwise", probs, target), PLACES == "south"
    own = separate("lac:0.2,classwise", probs[south], target[south])
    counts = np.bincount(target[south], minlength=5)
    assert counts[3] == 0
    expected = [ref.shrunk(o, c, n, 10, 0, 1) if n else c for o, c, n in zip(own, common, counts, strict=True)]
    np.testing.assert_allclose(rule.groups.thresholds[rule.groups.names.index("south")], expected, rtol=1e-14)


def test_a_label_that_a_small_group_would_never_return_is_returned_sometimes():
    probs, target = garden()
    marks = np.eye(5, dtype=bool)[target]
    marks[PLACES == "east", 2] = False
    rule = by(per_label(), "site", shrink=5).fit(probs, marks, groups=PLACES)
    common = per_label().fit(probs, marks).threshold
    east = rule.groups.thresholds[rule.groups.names.index("east")]
    assert float(east[2]) == pytest.approx(ref.shrunk(np.inf, float(common[2]), 5, 5, 0, 1), rel=1e-14)


def test_rows_count_by_what_they_are_worth():
    probs, target = garden()
    weights = np.random.default_rng(1).integers(1, 4, len(PLACES))
    rule = parse_rule("lac:0.1,by:site:1:20").fit(probs, target, weights=weights, groups=PLACES)
    common = -weighted.quantile(-probs, target, weights, 3, 0.1)
    for name, found in zip(rule.groups.names, rule.groups.thresholds.tolist(), strict=True):
        here = name == PLACES
        own = -weighted.quantile(-probs[here], target[here], weights[here], 3, 0.1)
        n = int(weighted.worth(weights[here]))
        assert found == pytest.approx(ref.shrunk(own, common, n, 20, 0, 1), rel=1e-14)


def test_groups_below_the_least_have_the_common_threshold():
    probs, target = garden()
    rule = by(lac(0.1), "site", 30, 20).fit(probs, target, groups=PLACES)
    assert dict(zip(rule.groups.names, rule.groups.own.tolist(), strict=True)) == {"north": True, "south": True, "east": False}
    assert rule.groups.thresholds[rule.groups.names.index("east")] == rule.threshold
    assert by(lac(0.1), "site", shrink=20).text == "lac:0.1,by:site:1:20"


def test_the_guarantee_says_that_it_is_approximate():
    exact, found = by(lac(0.1), "site", 1).guarantee, by(lac(0.1), "site", shrink=20).guarantee
    assert "this holds only approximately, both among all rows and among those of each value of site" in found
    assert "n / (n + 20) of the way" in found
    assert "approximately" not in exact


def test_it_is_saved_and_a_file_from_before_there_was_shrinkage_is_read(tmp_path):
    probs, target = garden()
    rule = by(lac(0.1), "site", shrink=20).fit(probs, target, groups=PLACES)
    rule.save(tmp_path / "rule")
    loaded = SetRule.load(tmp_path / "rule")
    assert (loaded.text, loaded.groups.shrink, loaded.guarantee) == (rule.text, 20, rule.guarantee)
    np.testing.assert_array_equal(*(one.predict(probs, groups=PLACES) for one in (rule, loaded)))
    plain = by(lac(0.1), "site").fit(probs, target, groups=PLACES)
    record = plain.record()
    del record["groups"]["shrink"]
    assert rule_from_record(record, plain.state_dict()).record() == plain.record()


def test_values_have_to_have_known_bounds():
    class LogOdds(Ordering):
        kind = "log-odds-of-a-test"
        descending = True

        def forward(self, probs):
            return torch.logit(probs)

    with pytest.raises(InputError, match="shrink: expected an ordering that has a span, .*, got log-odds-of-a-test"):
        by(SetRule("mine", LogOdds(), AverageError(0.1)), "site", shrink=5)
    probs, target = garden()
    with pytest.raises(InputError, match="probs: expected"):
        by(lac(0.1), "site", shrink=5).fit(np.log(probs), target, groups=PLACES)
    by(lac(0.1), "site").fit(np.log(probs), target, groups=PLACES)
