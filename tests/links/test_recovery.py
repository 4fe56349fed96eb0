"""SPA's inverse link and the φ map against their formulas, and against the risks they undo."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar

from shortlist.errors import InputError
from shortlist.links import SPA, FocalRecovery, Sigmoid
from tests.references import links as reference

PHI_CASES = [(0, 0, 0), (2, 2, 0), (0, 4, 0), (1, 4, 0), (0.5, 0.5, 0), (0, 4, 0.05), (1, 4, 0.2), (0, 0, 0.1), (3, 0, 0)]
POSITIVE = st.floats(0.1, 6)
SHIFT = st.floats(-3, 3)


def column(values):
    return torch.tensor(values, dtype=torch.float64)[:, None]


@given(st.tuples(POSITIVE, POSITIVE, SHIFT, POSITIVE, POSITIVE, SHIFT), st.floats(-20, 20))
@settings(max_examples=50, deadline=None)
def test_spa_equals_the_formula(six, score):
    odds = SPA(*six).log_odds(column([score])).item()
    assert odds == pytest.approx(reference.spa_logit(score, *six), rel=1e-9, abs=1e-9)


def test_spa_has_the_published_points_at_its_defaults():
    probs = SPA().probs(column([0.0, 0.95207]))
    assert probs[0].item() == pytest.approx(0.053847, abs=5e-7)
    assert probs[1].item() == pytest.approx(0.5, abs=5e-6)


def test_spa_with_unit_scales_and_no_shift_is_the_sigmoid():
    scores = column(np.linspace(-30, 30, 41))
    torch.testing.assert_close(SPA(1, 1, 0, 1, 1, 0).log_odds(scores), scores)
    torch.testing.assert_close(SPA(1, 1, 0, 1, 1, 0).probs(scores), Sigmoid().probs(scores))


@pytest.mark.parametrize("eta", [0.01, 0.3, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("six", [(1, 1, 0, 5, 3, 1), (2, 0.5, -1, 1, 2, 0.5)])
def test_spa_gives_back_the_probability_from_the_minimiser_of_its_risk(eta, six):
    best = minimize_scalar(lambda v: reference.spa_risk(v, eta, *six), bounds=(-30, 30), options={"xatol": 1e-10}).x
    assert SPA(*six).probs(column([best])).item() == pytest.approx(eta, abs=1e-6)


@pytest.mark.parametrize(("gamma_pos", "gamma_neg", "shift"), PHI_CASES)
def test_focal_recovery_equals_the_formula(gamma_pos, gamma_neg, shift):
    scores = np.linspace(-15, 15, 301)
    expected = [reference.phi(reference.sigmoid(v), gamma_pos, gamma_neg, shift) for v in scores]
    found = FocalRecovery(gamma_pos, gamma_neg, shift).probs(column(scores))[:, 0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-15)


@pytest.mark.parametrize(("gamma_pos", "gamma_neg", "shift"), PHI_CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_focal_recovery_takes_the_limits_at_both_ends(gamma_pos, gamma_neg, shift, dtype):
    found = FocalRecovery(gamma_pos, gamma_neg, shift).probs(torch.tensor([[-1e4, 1e4]], dtype=dtype))[0].tolist()
    assert found[0] == 0
    assert found[1] == pytest.approx(reference.phi(1.0, gamma_pos, gamma_neg, shift), rel=1e-6)


def test_focal_recovery_has_the_published_limit_at_one():
    assert FocalRecovery(0, 4, 0.05).probs(column([1e4])).item() == pytest.approx(0.9637, abs=5e-5)


@pytest.mark.parametrize(("gamma_neg", "shift"), [(4, 0.05), (0, 0.05), (1, 0.3)])
def test_focal_recovery_is_zero_up_to_the_shift_and_above_it_after(gamma_neg, shift):
    edge = reference.logit(shift)
    probs = FocalRecovery(0, gamma_neg, shift).probs(column([-50, edge - 1e-3, edge + 1e-3]))[:, 0]
    assert probs[:2].tolist() == [0, 0]
    assert probs[2] > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_focal_recovery_without_gammas_and_shift_is_the_sigmoid(dtype):
    scores = torch.linspace(-80, 80, 161, dtype=dtype)[:, None]
    torch.testing.assert_close(FocalRecovery(0, 0, 0).log_odds(scores), scores)


@pytest.mark.parametrize(("gamma_pos", "gamma_neg", "shift"), [(2, 2, 0), (0, 4, 0), (1, 4, 0), (0, 4, 0.05), (1, 4, 0.2)])
@pytest.mark.parametrize("eta", [0.05, 0.4, 0.8])
def test_focal_recovery_gives_back_the_probability_from_the_minimiser_of_its_risk(gamma_pos, gamma_neg, shift, eta):
    def risk(z):
        return reference.focal_risk(z, eta, gamma_pos, gamma_neg, shift)

    grid = np.linspace(1e-4, 1 - 1e-4, 2001)
    near = grid[np.argmin([risk(z) for z in grid])]
    best = minimize_scalar(risk, bounds=(near - 1e-3, min(near + 1e-3, 1 - 1e-9)), options={"xatol": 1e-12}).x
    found = FocalRecovery(gamma_pos, gamma_neg, shift).probs(column([reference.logit(best)])).item()
    assert found == pytest.approx(eta, abs=1e-5)


@given(st.floats(0, 6), st.floats(0, 6), st.floats(0, 0.9))
@settings(max_examples=50, deadline=None)
def test_focal_recovery_never_decreases_without_shift_and_stays_in_range_with_one(gamma_pos, gamma_neg, shift):
    scores = column(np.linspace(-40, 40, 401))
    assert (FocalRecovery(gamma_pos, gamma_neg, 0).log_odds(scores).diff(dim=0) > 0).all()
    shifted = FocalRecovery(gamma_pos, gamma_neg, shift).probs(scores)
    assert ((shifted >= 0) & (shifted <= 1)).all()


@pytest.mark.parametrize(
    "link", [SPA(), SPA(2, 0.5, -1, 1, 2, 0.5), FocalRecovery(0, 4), FocalRecovery(2, 2), FocalRecovery(1, 0)]
)
def test_inverse_meets_extreme_and_impossible_probabilities(link):
    scores = link.scores(column([0.0, 1e-12, 0.5, 1 - 1e-12, 1.0]))[:, 0]
    assert scores[0] == -math.inf
    assert scores[-1] == math.inf
    torch.testing.assert_close(link.probs(scores[1:-1, None])[:, 0], column([1e-12, 0.5, 1 - 1e-12])[:, 0], rtol=1e-6, atol=0)


def test_focal_recovery_with_a_shift_cannot_be_undone():
    with pytest.raises(InputError, match="has no inverse"):
        FocalRecovery(0, 4, 0.05).scores(column([0.5]))


@pytest.mark.parametrize("name", ["zeta_pos", "k_pos", "zeta_neg", "k_neg"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_spa_refuses_scales_that_are_not_above_zero_and_finite(name, value):
    with pytest.raises(InputError, match=name):
        SPA(**{name: value})


@pytest.mark.parametrize("name", ["b_pos", "b_neg"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_spa_refuses_shifts_that_are_not_finite(name, value):
    with pytest.raises(InputError, match=name):
        SPA(**{name: value})


@pytest.mark.parametrize(
    "wrong",
    [{"gamma_pos": -1}, {"gamma_neg": -0.1}, {"gamma_pos": math.nan}, {"gamma_neg": math.nan}, {"gamma_neg": math.inf}]
    + [{"shift": value} for value in (-0.1, 1, 1.5, math.nan)],
)
def test_focal_recovery_refuses_parameters_out_of_range(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        FocalRecovery(**wrong)
