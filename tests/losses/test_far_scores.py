"""Scores that are masked, far apart, or beyond what their precision can tell apart."""

import math

import pytest
import torch

from shortlist import losses
from shortlist.links import FocalRecovery, Quasibinary, SoftmaxFocalRecovery
from shortlist.losses import AsymmetricFocalLoss, LabelPairPenalty, PenalisedLoss
from shortlist.operators import expected_top_value, noised_top_value, soft_top_value, sparse_top

NEAR = torch.arange(10) / 10


@pytest.mark.parametrize("far", [-1e4, -65504.0, -1e6, -1e9, -math.inf])
@pytest.mark.parametrize("k", [1, 5, 8, 9.0, 9.5])
def test_scores_far_below_do_not_touch_the_projection_of_the_others(far, k):
    scores = torch.cat([torch.full((10,), far), NEAR])[None]
    torch.testing.assert_close(sparse_top(scores, k)[:, 10:], sparse_top(NEAR[None], k), rtol=0, atol=1e-5)
    assert not sparse_top(scores, k)[:, :10].any()


def test_the_sparse_top_loss_of_many_labels_beside_scores_far_below():
    scores = torch.cat([torch.full((10,), -1e9), NEAR])[None]
    target = torch.zeros(1, 20, dtype=torch.bool)
    target[0, -9:] = True
    assert losses.sparse_top_loss(scores, target).item() == pytest.approx(0.25, abs=1e-5)


def test_a_total_that_rounds_to_all_or_nothing_gives_all_or_nothing():
    assert torch.equal(sparse_top(torch.zeros(1, 9), 9 - 1e-9), torch.ones(1, 9))
    assert torch.equal(sparse_top(torch.zeros(1, 9), 1e-46), torch.zeros(1, 9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mask", ["min", -1e30, -1e9, -math.inf])
@pytest.mark.parametrize("noise", ["normal", "logistic"])
def test_masked_classes_do_not_touch_the_soft_level(dtype, mask, noise):
    scores = torch.randn(50, 8, dtype=dtype, generator=torch.Generator().manual_seed(0))
    low = torch.finfo(dtype).min if mask == "min" else mask
    masked = torch.cat([torch.full((50, 5), low, dtype=dtype), scores], dim=1).requires_grad_()
    for k in (1, 3, 8):
        value = soft_top_value(masked, k, noise=noise)
        torch.testing.assert_close(value, soft_top_value(scores, k, noise=noise), rtol=0, atol=1e-5)
        (gradient,) = torch.autograd.grad(value.sum(), masked)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("mask", [-math.inf, -1e9, -50.0])
def test_draws_among_masked_classes_have_the_expectation_of_the_others(mask):
    """Four standard errors of 20,000 draws: a false alarm once in 16,000 runs."""
    scores = torch.linspace(-1, 1, 8, dtype=torch.float64)
    masked = torch.cat([scores, torch.full((60,), mask, dtype=torch.float64)]).repeat(2000, 1)
    drawn = noised_top_value(masked, 3, 0.7, 10, generator=torch.Generator().manual_seed(0))
    expected = expected_top_value(scores[None], 3, 0.7)
    assert abs(float(drawn.mean()) - float(expected)) < 4 * float(drawn.std()) / 2000**0.5


def test_noise_below_the_resolution_of_the_scores_is_no_error():
    drawn = noised_top_value(torch.full((4, 500), 1e4), 6, 1e-5)
    torch.testing.assert_close(drawn, torch.full((4,), 1e4))


@pytest.mark.parametrize("temperature", [1e-20, 1e-8, 1e-5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smooth_hinge_at_next_to_no_temperature_is_a_hinge(temperature, dtype):
    """Towards 0 it is (1 + (k-th largest other - true) / k)+."""
    scores = (10 * torch.randn(100, 7, dtype=dtype, generator=torch.Generator().manual_seed(0))).requires_grad_()
    target = torch.arange(100) % 7
    found = losses.smooth_topk_hinge_loss(scores, target, k=3, temperature=temperature, reduction="none")
    others = scores.detach().scatter(1, target[:, None], -torch.inf).topk(3, dim=1).values[:, -1]
    true = scores.detach().gather(1, target[:, None]).squeeze(1)
    torch.testing.assert_close(found.detach(), (1 + (others - true) / 3).relu(), rtol=1e-3, atol=1e-3)
    found.sum().backward()
    open_rows = (1 + (others - true) / 3 > 1e-3)[:, None]
    rival = torch.where(scores.detach() == others[:, None], 1 / 3, 0.0)
    expected = torch.where(open_rows, rival.scatter_add(1, target[:, None], torch.full((100, 1), -1 / 3)), 0.0)
    torch.testing.assert_close(scores.grad, expected.to(dtype), rtol=0, atol=1e-3)


def test_the_smooth_hinge_with_fewer_rivals_than_k_left_unmasked_costs_nothing():
    scores = torch.tensor([[1.0, -math.inf, -math.inf, -math.inf], [1.0, 2.0, -math.inf, -math.inf]], requires_grad=True)
    rows = losses.smooth_topk_hinge_loss(scores, torch.tensor([0, 0]), k=2, reduction="none")
    assert rows.tolist() == [0.0, 0.0]
    rows.sum().backward()
    assert scores.grad.isfinite().all()


def test_label_pairs_of_probabilities_that_are_exactly_zero_cost_something_finite():
    scores = (torch.randn(64, 20, generator=torch.Generator().manual_seed(0)) - 3).requires_grad_()
    target = torch.rand(64, 20, generator=torch.Generator().manual_seed(1)) < 0.1
    loss = PenalisedLoss(AsymmetricFocalLoss(shift=0.05), LabelPairPenalty())(scores, target)
    loss.backward()
    assert loss.isfinite()
    assert scores.grad.isfinite().all()


def test_the_focal_recovery_has_a_gradient_at_the_shift_itself():
    scores = torch.zeros(1, 1, requires_grad=True)
    FocalRecovery(0, 4, 0.5).probs(scores).sum().backward()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("gamma", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("lead", [10.0, 17.0, 25.0, 80.0])
def test_the_recovery_of_the_focal_loss_is_right_however_sure(gamma, lead):
    row = torch.tensor([[lead, 0.0, 0.0]])
    exact = SoftmaxFocalRecovery(gamma).log_odds(row.double())
    torch.testing.assert_close(SoftmaxFocalRecovery(gamma).log_odds(row).double(), exact, rtol=1e-5, atol=1e-5)


def test_a_normaliser_given_as_a_number_keeps_its_digits():
    zero, present = torch.zeros(1, 1, dtype=torch.float64), torch.tensor([[True]])
    assert losses.quasibinary_loss(zero, present, log_normalizer=3.7).item() == 3.7


def test_the_quasibinary_link_refuses_labels_out_of_range():
    with pytest.raises(ValueError, match="expected labels from 0 to 2, got"):
        Quasibinary().update(torch.zeros(2, 3), torch.tensor([7, -1]))


def test_margins_of_a_module_are_its_own():
    margins = torch.ones(3)
    loss = losses.LdamLoss(margins=margins)
    margins.zero_()
    assert loss.margins.tolist() == [1, 1, 1]


@pytest.mark.parametrize("far", [6e4, 3e6, 1e8])
def test_the_confidence_of_large_scores_keeps_its_digits(far):
    scores = torch.tensor([[far, far, 0.0], [far, far - 1, 0.0]])
    expected = torch.log_softmax(scores.double(), 1).amax(1)
    found = losses.confidence_outlier_loss(scores, reduction="none")
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)
