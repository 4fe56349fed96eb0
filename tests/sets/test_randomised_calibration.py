"""APS and RAPS by default: calibration rows are drawn at random, new rows are not."""

import json

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.sets import SetRule, aps, classwise, parse_rule, raps, rule_from_record
from tests.sets.cases import draw
from tests.sets.test_hints import confident
from tests.sets.test_random_aps import law

PAIRS = [
    (aps, {}),
    (raps, {"penalty": 0.05, "k_reg": 1}),
    (aps, {"generator": 7}),
]


@pytest.mark.parametrize(("make", "more"), PAIRS, ids=["aps", "raps", "seed"])
@pytest.mark.parametrize("modified", [lambda rule: rule, classwise], ids=["common", "classwise"])
def test_sets_hold_those_of_the_rule_that_is_random_on_both_sides(make, more, modified):
    """The same calibration draws, the same threshold; and a label that some draw includes is in."""
    data = draw(rows=400)
    rows = torch.from_numpy(np.concatenate([data.new, data.calibration]))
    mixed, random = (
        modified(make(0.2, **more, randomized=how)).fit(data.calibration, data.target) for how in ("calibration", True)
    )
    assert torch.equal(mixed.threshold, random.threshold)
    held, drawn = mixed.sets(rows), [random.sets(rows, torch.full((len(rows), 1), share)) for share in (0.0, 0.4, 1 - 2**-20)]
    for sets in drawn:
        assert (held >= sets).all()
    assert (held != drawn[0]).any()
    assert (held != drawn[-1]).float().mean() < 0.01  # only where a draw would have to be nearer still to 1
    if modified is not classwise:
        assert (held.sum(1) - drawn[0].sum(1)).max() == 1


def test_the_default_answers_the_same_whenever_it_is_asked():
    data = draw()
    rule = aps(0.2).fit(data.calibration, data.target)
    sets = rule(data.new)
    np.testing.assert_array_equal(rule(np.tile(data.new[:1], (50, 1))), np.tile(sets[:1], (50, 1)))
    np.testing.assert_array_equal(rule(data.new[::-1].copy()), sets[::-1])
    predictions = Predictions(data.new, np.zeros(60, dtype=int), link="identity")
    np.testing.assert_array_equal(rule(predictions).numpy(), sets)
    assert sets.any(1).all()  # the first label is always within the boundary


def test_seeds_of_the_calibration_are_honoured():
    data = draw()
    rules = [parse_rule("aps:0.2", generator=seed).fit(data.calibration, data.target) for seed in (0, 0, 1)]
    assert rules[0].threshold == rules[1].threshold != rules[2].threshold
    assert aps(0.2).fit(data.calibration, data.target).threshold == rules[0].threshold


@pytest.mark.parametrize("make", [aps, lambda alpha: raps(alpha, 0.05, 1)], ids=["aps", "raps"])
def test_coverage_on_average_over_calibrations_is_at_least_what_was_asked_for(make):
    """9 calibration rows, one new row, 1,500 times, labels drawn from the probabilities themselves.

    Coverage is at least 0.9: fails with a probability below 6e-5 where that is so (3.8 standard errors). The test would see a
    boundary label that is left out: then coverage is below 0.8.
    """
    random, covered = np.random.default_rng(0), 0
    for _ in range(1500):
        probs, target = law(random, 10, alike=False)
        covered += bool(make(0.1).fit(probs[:9], target[:9])(probs[9:])[0, target[9]])
    assert covered / 1500 > 0.9 - 3.8 * (0.9 * 0.1 / 1500) ** 0.5


def test_a_confident_network_gets_large_sets_without_chance_and_small_ones_by_default():
    """The network is right in 97 % of the rows, and sure of it: one label covers more than the 90 % asked for."""
    probs, target = confident(0.97, rows=2000)
    half = slice(1000), slice(1000, 2000)
    with pytest.warns(match="without :deterministic, gives smaller sets"):
        plain = aps(0.1, randomized=False).fit(probs[half[0]], target[half[0]])
    default, random = (aps(0.1, randomized=how).fit(probs[half[0]], target[half[0]]) for how in ("calibration", True))
    sizes = [rule(probs[half[1]]).sum(1).double().mean() for rule in (plain, default, random)]
    assert sizes[0] > 4 * sizes[1]
    assert sizes[2] <= sizes[1] <= sizes[2] + 0.3
    hits = default(probs[half[1]])[torch.arange(1000), target[half[1]]]
    assert hits.double().mean() > 0.9


def test_a_rule_that_was_saved_before_keeps_its_sets_and_is_named_as_it_is_now():
    data = draw()
    rule = aps(0.2, randomized=False).fit(data.calibration, data.target)
    record = json.loads(json.dumps(rule.record())) | {"text": "aps:0.2,cap:4"}
    assert record["ordering"] == {"kind": "cumulative-mass", "penalty": 0.0, "k_reg": 0, "randomized": False}
    loaded = rule_from_record(record | {"most": 4}, rule.state_dict())
    assert loaded.text == "aps:0.2:deterministic,cap:4"
    assert parse_rule(loaded.text).text == loaded.text
    np.testing.assert_array_equal(loaded(data.new), parse_rule(loaded.text).fit(data.calibration, data.target)(data.new))


def test_the_default_is_saved_without_a_seed(tmp_path):
    data = draw()
    rule = aps(0.2).fit(data.calibration, data.target)
    assert list(rule.state_dict()) == ["threshold"]
    rule.save(tmp_path / "rule")
    loaded = SetRule.load(tmp_path / "rule")
    assert (loaded.text, loaded.record()) == ("aps:0.2", rule.record())
    np.testing.assert_array_equal(loaded(data.new), rule(data.new))


def test_the_guarantee_says_what_is_drawn():
    assert "only the calibration is randomised" in aps(0.1).guarantee
    assert "randomised" not in aps(0.1, randomized=True).guarantee
    assert "randomised" not in aps(0.1, randomized=False).guarantee
