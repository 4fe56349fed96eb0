"""RAPS that chooses its penalty: smallest sets on a part of the calibration rows, calibrated on the others."""

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.sets import SetRule, classwise, parse_rule, raps, rule_from_record
from shortlist.sets.tuned_mass import PENALTIES, SHARE, SPLIT
from tests.references import sets as ref
from tests.sets.cases import draw


def rows(n=400, classes=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    probs = (2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)).softmax(1)
    return probs.numpy(), torch.multinomial(probs, 1, generator=generator)[:, 0].numpy()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_choice_is_that_of_the_literal_formula_and_the_rest_calibrates(seed):
    """Without draws, so that the whole fit can be written down."""
    probs, target = rows(seed=seed)
    few = ref.chosen_rows(len(probs))
    assert 0.1 < few.mean() < 0.3
    penalty, k_reg = ref.tuned_penalty(probs[few], target[few], 0.1)
    rule = raps(0.1, "auto", randomized=False).fit(probs, target)
    assert (rule.ordering.penalty, rule.ordering.k_reg) == (penalty, k_reg)
    plain = raps(0.1, penalty, k_reg, randomized=False).fit(probs[~few], target[~few])
    assert torch.equal(rule.threshold, plain.threshold)
    assert int(rule.fitted_labels) == (~few).sum()
    np.testing.assert_array_equal(rule(probs), plain(probs))


@pytest.mark.parametrize("text", ["raps:0.1:auto", "raps:0.1:auto:random", "raps:0.1:auto:deterministic"])
def test_every_source_gives_the_same_rule_and_so_does_the_file(text, tmp_path):
    probs, target = rows()
    whole = parse_rule(text).fit(probs, target)
    assert whole.text == text
    parts = [(probs[start : start + 37], target[start : start + 37]) for start in range(0, 400, 37)]
    for source in (parts, lambda: iter(parts)):
        other = parse_rule(text).fit(source)
        assert other.ordering.config() == whole.ordering.config()
        assert torch.equal(other.threshold, whole.threshold)
    whole.save(tmp_path / "rule")
    loaded = SetRule.load(tmp_path / "rule")
    assert loaded.record() == whole.record()
    np.testing.assert_array_equal(loaded(probs), whole(probs))


def test_coverage_of_rows_that_calibrate_is_what_was_asked_for():
    """The 1,000 new rows are covered in 90 % up to chance: four standard errors of rows and calibration together."""
    probs, target = rows(2000)
    rule = raps(0.1, "auto", randomized=True).fit(probs[:1000], target[:1000])
    hits = rule(probs[1000:])[np.arange(1000), target[1000:]].mean()
    assert abs(hits - 0.9) < 4 * (0.09 / 1000 + 0.09 / 800) ** 0.5


def test_the_split_is_a_fifth_of_the_numbers_whatever_the_rows_hold():
    assert ref.chosen_rows(100_000).mean() == pytest.approx(SHARE, abs=0.006)  # four standard errors
    np.testing.assert_array_equal(SPLIT.shares(torch.arange(1000)).numpy() < SHARE, ref.chosen_rows(1000))


def test_a_file_without_the_choice_among_its_tensors_has_it_in_its_record_and_a_damaged_one_is_refused():
    probs, target = rows()
    rule = raps(0.1, "auto").fit(probs, target)
    record, tensors = rule.record(), rule.state_dict()
    chosen = tensors.pop("ordering.chosen")
    older = rule_from_record(record | {"tensors": sorted(tensors)}, tensors)
    np.testing.assert_array_equal(older(probs), rule(probs))
    for wrong in (-chosen, chosen.float(), chosen[:1], torch.tensor([0.1, torch.inf], dtype=torch.float64), chosen + 0.5):
        with pytest.raises(InputError, match="chosen: expected"):
            rule_from_record(record, tensors | {"ordering.chosen": wrong})


def test_a_failed_fit_leaves_the_earlier_choice():
    data = draw()
    rule = raps(0.2, "auto").fit(data.calibration, data.target)
    before = rule.record()
    with pytest.raises(InputError, match="read twice"):
        rule.fit(part for part in [rows()])
    with pytest.raises(InputError, match="a fifth of them"):
        rule.fit(data.calibration[:3], data.target[:3])
    assert rule.record() == before


@pytest.mark.parametrize("text", ["raps:0.1:auto:5", "raps:auto", "raps:0.1:0.01:auto", "lac:auto"])
def test_auto_stands_for_the_penalty_and_k_reg_together(text):
    with pytest.raises(InputError):
        parse_rule(text)


def test_it_is_fitted_in_one_place_and_class_by_class():
    probs, target = rows(2000)
    with pytest.raises(InputError, match="use fit"):
        raps(0.1, "auto").first_round()
    rule = classwise(raps(0.1, "auto")).fit(probs, target)
    assert rule.threshold.shape == (8,)
    assert rule.ordering.penalty in PENALTIES
