"""Proper scores: what their parts add up to, and what they are worth where the answer is known."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist import metrics
from shortlist.errors import InputError
from tests.metrics.cases import as_numbers


def rows(seed, n=60, classes=4, *, many=False, grid=None):
    random = np.random.default_rng(seed)
    probs = random.dirichlet(np.full(classes, 0.4), n)
    probs = probs if grid is None else np.round(probs * grid) / grid
    return probs, random.uniform(size=probs.shape) < probs if many else random.integers(classes, size=n)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6), bins=st.sampled_from([None, 1, 2, 15]), many=st.booleans(), grid=st.sampled_from([None, 1, 8])
)
def test_the_parts_of_the_brier_score_add_up_to_it(seed, bins, many, grid):
    probs, target = rows(seed, many=many, grid=grid)
    parts = metrics.brier_decomposition(probs, target, bins=bins)
    added = parts["reliability"] - parts["resolution"] + parts["uncertainty"]
    added += parts["within_variance"] - parts["within_covariance"]
    assert added == pytest.approx(parts["brier"], abs=1e-13)
    assert parts["brier"] == pytest.approx(float(metrics.brier_score(probs, target)), abs=1e-13)
    if bins is None or (grid == 1 and bins > 1):
        assert parts["within_variance"] == pytest.approx(0, abs=1e-15)
        assert parts["within_covariance"] == pytest.approx(0, abs=1e-15)


def test_parts_where_they_are_known():
    """The shares of the classes as the forecast of every row: nothing but uncertainty. The labels themselves: resolution."""
    target = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2])
    shares, labels = np.tile([0.3, 0.2, 0.5], (10, 1)), np.eye(3)[target]
    uncertainty = 1 - 0.3**2 - 0.2**2 - 0.5**2
    for bins in (15, None):
        constant = metrics.brier_decomposition(shares, target, bins=bins)
        assert as_numbers(constant) == pytest.approx([uncertainty, 0, 0, uncertainty, 0, 0], abs=1e-15)
        perfect = metrics.brier_decomposition(labels, target, bins=bins)
        assert as_numbers(perfect) == pytest.approx([0, 0, uncertainty, uncertainty, 0, 0], abs=1e-15)
    assert metrics.brier_score(1 - labels[:, :2], (target == 1).astype(int)) > 1  # beyond 1 with one label a row


def test_a_score_of_two_labels_is_twice_that_of_one_of_them():
    p, y = np.array([0.1, 0.4, 0.9, 0.6]), np.array([0, 1, 1, 0])
    single, marks = np.stack([1 - p, p], 1), np.stack([1 - y, y], 1) > 0
    assert metrics.brier_score(single, y) == pytest.approx(2 * metrics.brier_score(p[:, None], y[:, None] > 0))
    assert metrics.brier_score(single, marks) == pytest.approx(metrics.brier_score(p[:, None], y[:, None] > 0))
    assert metrics.log_loss(single, y) == pytest.approx(metrics.log_loss(p[:, None], y[:, None] > 0))


def test_a_label_of_probability_0_costs_as_much_as_the_smallest_number():
    probs = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
    assert float(metrics.log_loss(probs, torch.tensor([0, 0]))) == pytest.approx((745 + math.log(2)) / 2)
    assert float(metrics.log_loss(probs[:1], torch.tensor([[True, False]]))) == 745
    assert float(metrics.log_loss(probs[:1], torch.tensor([1]))) == 0


def test_rows_with_one_label_and_with_several_have_no_common_parts():
    probs, target = rows(0)
    metric = metrics.BrierDecomposition()
    metric.update(probs, target)
    metric.update(*rows(1, many=True))
    with pytest.raises(InputError, match="target: expected one label a row in every batch or several"):
        metric.compute()


@pytest.mark.parametrize("bins", [0, -1, 2.5, "all"])
def test_bins_are_checked(bins):
    for call in (lambda: metrics.brier_decomposition(*rows(0), bins=bins), lambda: metrics.BrierDecomposition(bins)):
        with pytest.raises(InputError, match="bins: expected"):
            call()
