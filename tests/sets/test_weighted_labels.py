"""Thresholds for each label, of rows that count by weights: what they have in common with rows that count alike."""

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.sets import LabelObjective, parse_rule, per_label
from shortlist.sets.weighted_labels import best_place
from tests.references import weighted_sets as weighted

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
OBJECTIVES = [("f1",), ("precision", 0.5), ("precision", 0.9), ("recall", 0.5), ("recall", 0.9)]
every_objective = pytest.mark.parametrize("how", OBJECTIVES, ids=str)


def rows(seed=0, n=60, classes=4, decimals=1):
    """Many equal values, and a last label that no row has."""
    random = np.random.default_rng(seed)
    probs = np.round(random.uniform(size=(n, classes)), decimals)
    target = random.uniform(size=probs.shape) < probs
    target[:, -1] = False
    return probs, target, random.integers(0, 4, n)


@every_objective
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_whole_weights_are_that_many_equal_rows(how, dtype, seed):
    probs, target, times = rows(seed)
    probs, again = torch.from_numpy(probs).to(dtype), np.repeat(np.arange(60), times)
    plain = per_label(*how).fit(probs[again], target[again])
    found = per_label(*how).fit(probs, target, weights=times)
    assert torch.equal(found.threshold, plain.threshold)
    assert [note for note in found.notes if "worth" not in note] == list(plain.notes)
    assert torch.equal(found(probs), plain(probs))


@every_objective
def test_votes_are_rows_with_each_label_in_these_shares(how):
    """Two votes a row: every row twice, once with each of its labels."""
    probs, _, _ = rows(5, decimals=2)
    first, second = np.random.default_rng(5).integers(0, 4, (2, 60))
    votes = np.eye(4)[first] + np.eye(4)[second]
    plain = per_label(*how).fit(np.concatenate([probs, probs]), np.concatenate([first, second]))
    assert torch.equal(per_label(*how).fit(probs, votes).threshold, plain.threshold)


def test_shares_that_floating_point_cannot_tell_apart_are_compared_in_fractions():
    probs, target, weights = np.array([[0.9], [0.8], [0.7]]), np.array([[True], [False], [True]]), np.array([1, 4, 1])
    assert float("0.33333333333333334") == 1 / 3
    for level, cut in (("0.33333333333333333", 0.7), ("0.33333333333333334", (0.9 + 0.8) / 2)):
        assert float(per_label("precision", level).fit(probs, target, weights=weights).threshold) == cut
    n = 2**40
    assert 2 * n / (2 * n + 1) == 2 * (n + 1) / (2 * n + 3), "F1 at the first value and at the last, which is larger"
    right, returned = np.array([n, n, n + 1]), np.array([n, n + 1, n + 2])
    assert best_place(LabelObjective("f1"), right, returned) == 2


@every_objective
def test_each_group_has_the_thresholds_of_its_own_rows_if_they_are_worth_enough(how):
    probs, target, times = rows(2, 200, decimals=3)
    times[-1] = 3
    site = np.random.default_rng(2).choice(["north", "south", "west"], 200, p=[0.5, 0.45, 0.05])
    rule = parse_rule(f"{per_label(*how).text},by:site:20").fit(probs, target, weights=times, groups=site)
    for name, own, found in zip(rule.groups.names, rule.groups.own, rule.groups.thresholds, strict=True):
        here = site == name
        enough = weighted.worth(times[here]) >= 20
        assert own.tolist() == [enough] * 4
        part = here if enough else np.ones(200, bool)
        np.testing.assert_array_equal(found, weighted.label_cuts(probs[part], target[part], times[part], *how))
    assert rule.groups.own.any()
    assert not rule.groups.own.all()


def test_the_weights_are_in_the_guarantee_and_their_worth_in_the_notes():
    probs, target, _ = rows()
    rule = per_label().fit(probs, target, weights=np.where(np.arange(60) < 5, 1, 1e-3))
    assert "calibration rows count by their weights" in rule.guarantee
    assert any("60 calibration rows are worth 5.1 rows" in note for note in rule.notes)
    with pytest.raises(InputError, match="class_weights: expected a conformal rule .*, got per-label:f1"):
        per_label().fit(probs, target, class_weights=[1, 2, 3, 4])
