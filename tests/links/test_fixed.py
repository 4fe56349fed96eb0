"""Identity, softmax and sigmoid against their formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from shortlist.links import Identity, Sigmoid, Softmax
from tests.references import links as reference

SCORES = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.floats(-60, 60, allow_subnormal=False)
)


@given(SCORES)
@settings(max_examples=50, deadline=None)
def test_softmax_equals_the_formula(scores):
    np.testing.assert_allclose(Softmax().probs(torch.from_numpy(scores)).numpy(), reference.softmax(scores), rtol=1e-12)


@given(SCORES)
@settings(max_examples=50, deadline=None)
def test_sigmoid_equals_the_formula(scores):
    expected = np.vectorize(reference.sigmoid)(scores)
    np.testing.assert_allclose(Sigmoid().probs(torch.from_numpy(scores)).numpy(), expected, rtol=1e-12)


@given(SCORES)
@settings(max_examples=50, deadline=None)
def test_softmax_log_odds_are_the_score_against_the_sum_of_the_others(scores):
    expected = np.full(scores.shape, np.inf)
    for i, j in np.ndindex(*scores.shape):
        others = np.delete(scores[i], j)
        if len(others):
            expected[i, j] = scores[i, j] - np.logaddexp.reduce(others)
    np.testing.assert_allclose(Softmax().log_odds(torch.from_numpy(scores)).numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gap", [20.0, 50.0, 200.0, 1e4])
def test_softmax_log_odds_keep_what_rounding_takes_from_the_probability(gap):
    odds = Softmax().log_odds(torch.tensor([[gap, 0.0, 0.0]]))
    assert Softmax().probs(torch.tensor([[gap, 0.0, 0.0]]))[0, 0] == 1
    torch.testing.assert_close(odds, torch.tensor([[gap - math.log(2), -gap, -gap]]))


def test_softmax_log_odds_of_two_tied_scores_are_zero():
    assert Softmax().log_odds(torch.tensor([[3.0, 3.0]])).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("gap", [1.0, 20.0, 1e4])
def test_softmax_log_odds_have_a_finite_gradient_where_the_probability_rounds_to_one(gap):
    scores = torch.tensor([[gap, 0.0, -1.0]], requires_grad=True)
    Softmax().log_odds(scores)[0, 0].backward()
    share = math.exp(0) / (math.exp(0) + math.exp(-1))
    torch.testing.assert_close(scores.grad, torch.tensor([[1.0, -share, share - 1]]))


def test_softmax_ignores_a_constant_added_to_a_row():
    scores = torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(Softmax().probs(scores + 700), Softmax().probs(scores))


def test_identity_draws_rounding_in_to_the_unit_interval():
    assert Identity().probs(torch.tensor([[-1e-7, 0.25, 1 + 1e-6]])).tolist() == [[0, 0.25, 1]]


def test_identity_reads_probabilities_as_they_are():
    probs = torch.tensor([[0.0, 0.1, 1.0]], dtype=torch.float64)
    assert torch.equal(Identity().probs(probs), probs)
    assert Identity().log_odds(probs)[0].tolist() == pytest.approx([-math.inf, math.log(1 / 9), math.inf])
