"""A loss with a penalty: label pairs by log-odds with a gradient everywhere, outlier terms as a second expectation."""

import math

import pytest
import torch
from torch.testing import assert_close

from shortlist.errors import InputError
from shortlist.losses import (
    AsymmetricFocalLoss,
    CalibratedTopkHingeLoss,
    ConfidenceOutlierLoss,
    CrossEntropyLoss,
    FocalLoss,
    LabelPairPenalty,
    PenalisedLoss,
    QuasibinaryLoss,
    SpaLoss,
    UniformOutlierLoss,
    label_pair_penalty,
)
from tests.references import losses as ref


def test_the_pair_penalty_of_a_loss_with_a_shift_takes_the_log_odds_of_the_sigmoid():
    scores = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = torch.rand(6, 5, generator=torch.Generator().manual_seed(1)) < 0.4
    asy = AsymmetricFocalLoss(gamma_neg=4.0, shift=0.05)
    expected = asy(scores, target) + 0.7 * label_pair_penalty(scores, target)
    assert_close(PenalisedLoss(asy, LabelPairPenalty(), 0.7)(scores, target), expected, rtol=1e-12, atol=0)


def test_a_present_label_below_the_shift_is_pushed_up_by_its_penalty():
    """Through φ, which is 0 there, the penalty would be 66.6 and its gradient 0."""
    scores = torch.tensor([[-4.0, 2.0, -1.0]], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[True, False, False]])
    loss = PenalisedLoss(AsymmetricFocalLoss(shift=0.05), LabelPairPenalty())
    penalty = loss.weighted_penalty(scores, target, loss.loss.log_odds_link())
    assert penalty.item() == pytest.approx((math.log1p(math.exp(6)) + math.log1p(math.exp(3))) / 3, rel=1e-12)
    penalty.backward()
    assert scores.grad[0, 0] < -0.5


def test_losses_without_a_shift_keep_their_own_link():
    focal = AsymmetricFocalLoss(gamma_pos=2.0, gamma_neg=2.0)
    assert focal.log_odds_link().config() == focal.link().config()
    assert SpaLoss().log_odds_link().config() == SpaLoss().link().config()


def two_means(scores, labels, weight, term):
    """The mean cross-entropy of the rows with a label, and the weighted mean of the term over the others."""
    rows = list(zip(scores, labels, strict=True))
    inside = [-ref.mean(ref.log_softmax(row)[label] for label in own) for row, own in rows if own]
    outside = term([row for row, own in rows if not own], [[] for _, own in rows if not own])
    return ref.mean(inside) + weight * ref.mean(outside)


TERMS = [(UniformOutlierLoss, ref.uniform_outlier_loss), (ConfidenceOutlierLoss, ref.confidence_outlier_loss)]


@pytest.mark.parametrize(("term", "reference"), TERMS)
@pytest.mark.parametrize("outliers", [0, 4, 10])
def test_outlier_terms_are_a_second_expectation(term, reference, outliers):
    """On 6 rows with a label and 4 without, one mean over all rows would weigh the term 0.67 times as much."""
    scores = torch.randn(10, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = torch.rand(10, 5, generator=torch.Generator().manual_seed(1)) < 0.4
    target[:, 0] |= ~target.any(1)
    target[10 - outliers :] = False
    labels = [row.nonzero().flatten().tolist() for row in target]
    loss = PenalisedLoss(CrossEntropyLoss(), term(), 1.5)
    assert loss.couples
    assert loss(scores, target).item() == pytest.approx(two_means(scores.tolist(), labels, 1.5, reference), rel=1e-12)
    found = loss.training_state(10, 5, 0)(scores, target, torch.arange(10))
    assert_close(found, loss(scores, target))


def test_with_a_label_in_each_row_only_the_loss_is_left():
    scores, target = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)), torch.arange(7) % 4
    loss = PenalisedLoss(CrossEntropyLoss(), UniformOutlierLoss())
    assert_close(loss(scores, target), CrossEntropyLoss()(scores, target))


@pytest.mark.parametrize("term", [UniformOutlierLoss, ConfidenceOutlierLoss])
@pytest.mark.parametrize("loss", [CrossEntropyLoss, FocalLoss, CalibratedTopkHingeLoss])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_without_unlabelled_rows_it_is_the_loss_with_its_weights_and_ignored_rows(loss, term, dtype):
    scores = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    target = torch.tensor([0, 1, -100, 3, 0, 2, -100])
    weight = torch.tensor([0.01, 0.02, 0.05, 0.001], dtype=dtype)  # their sum is below 0.5
    inner = loss(k=2, weight=weight) if loss is CalibratedTopkHingeLoss else loss(weight=weight)
    penalised = PenalisedLoss(inner, term(), 0.7)
    assert torch.equal(penalised(scores, target), inner(scores, target))
    found, expected = (torch.autograd.grad(part(scores, target), scores)[0] for part in (penalised, inner))
    assert_close(found, expected)
    nobody = torch.full((7,), -100)
    assert penalised(scores, nobody) == inner(scores, nobody) == 0


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_a_sum_of_two_means_takes_no_other_reduction(reduction):
    with pytest.raises(InputError, match=f"reduction: expected 'mean'.*CrossEntropyLoss.*{reduction}"):
        PenalisedLoss(CrossEntropyLoss(reduction=reduction), UniformOutlierLoss())
    with pytest.raises(InputError, match=f"reduction: expected 'mean'.*UniformOutlierLoss.*{reduction}"):
        PenalisedLoss(CrossEntropyLoss(), UniformOutlierLoss(reduction=reduction))


def test_the_gradient_of_each_part_is_divided_by_its_own_rows():
    scores = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    target = torch.zeros(5, 3, dtype=torch.bool)
    target[0, 1] = True
    loss = PenalisedLoss(CrossEntropyLoss(), UniformOutlierLoss(), 0.5)
    assert torch.autograd.gradcheck(lambda values: loss(values, target), (scores,))
    loss(scores, target).backward()
    expected = scores.detach()[0].softmax(0) - torch.tensor([0.0, 1.0, 0.0])
    assert_close(scores.grad[0], expected)


def test_an_outlier_term_beside_a_loss_without_rows_is_refused():
    with pytest.raises(InputError, match="loss: expected .*UniformOutlierLoss"):
        PenalisedLoss(QuasibinaryLoss(), UniformOutlierLoss())
    with pytest.raises(InputError, match="loss: expected .*UniformOutlierLoss"):
        PenalisedLoss(PenalisedLoss(SpaLoss(), LabelPairPenalty()), UniformOutlierLoss())
