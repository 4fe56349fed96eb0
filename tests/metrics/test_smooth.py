"""Smooth calibration error where it is known, and the laws it obeys."""

import numpy as np
import pytest
import torch

from shortlist import metrics
from shortlist.errors import InputError
from shortlist.metrics.smooth import NARROWEST, error_at, residual_sums
from tests.references import metrics as ref


def rows(n=200, seed=0, power=1.0):
    random = np.random.default_rng(seed)
    true = random.dirichlet([0.4, 0.4, 0.4], n)
    target = (true.cumsum(1) > random.uniform(size=(n, 1))).argmax(1)
    probs = true**power
    return probs / probs.sum(1, keepdims=True), target


def test_residuals_of_one_sign_are_their_mean_whatever_the_bandwidth():
    probs = np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]])
    assert metrics.smooth_calibration_error(probs, [0, 0, 0]) == pytest.approx((0.1 + 0.3 + 0.4) / 3, abs=1e-15)
    assert metrics.smooth_calibration_error(probs, [1, 1, 1]) == pytest.approx((0.9 + 0.7 + 0.6) / 3, abs=1e-15)
    assert metrics.smooth_calibration_error(np.eye(3), [0, 1, 2]) == 0
    assert metrics.smooth_calibration_error(np.eye(3), [1, 2, 0]) == pytest.approx(1, abs=1e-14)


def test_residuals_of_one_probability_cancel():
    """Half of the rows at 0.5 are right: without bins there is nothing left, at any bandwidth."""
    assert metrics.smooth_calibration_error([[0.5, 0.5], [0.5, 0.5]], [0, 1]) == pytest.approx(0, abs=1e-16)


@pytest.mark.parametrize("bandwidth", [0.003, 0.02, 0.1, 0.5])
def test_the_error_at_a_bandwidth_is_that_of_the_reflected_gaussian(bandwidth):
    probs, target = rows(30, power=2)
    sums = residual_sums(torch.from_numpy(probs), torch.from_numpy(target), "all").numpy()
    expected = ref.smooth_error_at(ref.confidence_pairs(probs, target, "all"), bandwidth)
    assert error_at(sums[:-1] / sums[-1], bandwidth) == pytest.approx(expected, rel=1e-6 if bandwidth < 0.01 else 1e-11)


def test_the_error_falls_as_the_bandwidth_grows_and_meets_it_at_the_result():
    probs, target = rows(power=2)
    sums = residual_sums(torch.from_numpy(probs), torch.from_numpy(target), "all").numpy()
    errors = [error_at(sums[:-1] / sums[-1], width) for width in (0.001, 0.01, 0.1, 1.0)]
    assert errors == sorted(errors, reverse=True)
    found = float(metrics.smooth_calibration_error(probs, target, over="all"))
    assert error_at(sums[:-1] / sums[-1], found) == pytest.approx(found, abs=1e-13)


def test_errors_below_the_narrowest_bandwidth_are_at_most_that():
    target = rows(10)[1]
    nearly = np.where(np.eye(3)[target] > 0, 1 - 1e-5, 5e-6)
    assert metrics.smooth_calibration_error(nearly, target) == pytest.approx(1e-5, rel=1e-9)
    assert metrics.smooth_calibration_error(nearly, target, over="all") <= 1e-5 < NARROWEST


def test_small_changes_of_probabilities_change_it_little_where_bins_jump():
    """Half of the rows at 0.5 are right; on either side of the edge of a bin they look miscalibrated."""
    target = np.arange(100) % 2
    apart = np.where(target == 0, 0.5 - 1e-6, 0.5 + 1e-6)  # the less probable label is always right
    probs = np.stack([apart, 1 - apart], 1)
    assert metrics.calibration_error(probs, 1 - target, bins=2, over="all") > 0.49
    assert metrics.smooth_calibration_error(probs, 1 - target, over="all") < 1e-2


def test_overconfidence_shows():
    calibrated, sharper = (float(metrics.smooth_calibration_error(*rows(2000, power=power))) for power in (1, 3))
    assert calibrated < 0.05 < 0.1 < sharper


def test_batches_of_both_kinds_need_to_be_told_which_pairs_count():
    probs, target = rows()
    metric = metrics.SmoothCalibrationError()
    metric.update(probs, target)
    with pytest.raises(InputError, match="set over"):
        metric.update(probs, np.eye(3)[target] > 0)
