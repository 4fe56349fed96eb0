"""Classes that are ruled out (-inf): with at most k others, no hinge is left, and no gradient is NaN."""

import pytest
import torch
from torch.testing import assert_close

from shortlist.losses import (
    CalibratedTopkHingeLoss,
    NoisedTopkHingeLoss,
    SmoothTopkHingeLoss,
    TopkHingeLoss,
    cross_entropy_loss,
    focal_loss,
    label_pair_penalty,
    role_loss,
    sparse_top_loss,
)
from shortlist.operators import expected_top_value, noised_top_value, soft_top_value

LOSSES = {
    "plain": lambda: TopkHingeLoss(k=2),
    "calibrated": lambda: CalibratedTopkHingeLoss(k=2),
    "smooth": lambda: SmoothTopkHingeLoss(k=2),
    **{
        f"{smoothing}, epsilon {epsilon}": lambda s=smoothing, e=epsilon: NoisedTopkHingeLoss(
            k=2, smoothing=s, epsilon=e, samples=6
        )
        for smoothing in ("noised", "antithetic", "soft", "expected")
        for epsilon in (0, 0.3, 1.0)
    },
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rows_with_at_most_k_classes_have_no_hinge_and_change_no_other(loss, dtype):
    ruled_out, loss = -torch.inf, loss()
    rows = torch.tensor(
        [[1.0, 2.0, ruled_out, ruled_out], [1.0, *[ruled_out] * 3], [0.3, 1.0, 0.5, 2.0]], dtype=dtype, requires_grad=True
    )
    target = torch.tensor([0, 0, 0])
    torch.manual_seed(0)
    found = loss.of_rows(rows, target)
    assert found[:2].tolist() == [0, 0]
    assert found[2] > 0
    found.sum().backward()
    assert (rows.grad[:2] == 0).all()
    assert rows.grad[2].isfinite().all()
    assert rows.grad[2, 0] < 0


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("others", [1, 2, 3])
def test_a_true_class_that_is_ruled_out_costs_infinitely_much(loss, others):
    row = torch.full((1, 4), -torch.inf)
    row[0, 4 - others :] = torch.tensor([1.0, 2.0, 0.5])[:others]
    assert loss()(row, torch.tensor([0])) == torch.inf


@pytest.mark.parametrize("smooth", [soft_top_value, expected_top_value, noised_top_value])
@pytest.mark.parametrize("epsilon", [0, 0.5])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_kth_largest_that_is_ruled_out_is_so_in_every_smooth_form(smooth, epsilon, k):
    rows = torch.tensor([[1.0, -torch.inf, 2.0, -torch.inf], [1.0, 0.3, 2.0, 0.0], [-torch.inf] * 4], requires_grad=True)
    found = smooth(rows, k, epsilon)
    assert found.isfinite().tolist() == [k <= 2, True, False]
    assert (found[~found.isfinite()] == -torch.inf).all()
    found[found.isfinite()].sum().backward()
    assert rows.grad.isfinite().all()
    assert rows.grad.sum(1).tolist() == pytest.approx([float(k <= 2), 1, 0], abs=1e-5)


@pytest.mark.parametrize("smooth", [soft_top_value, expected_top_value, noised_top_value])
@pytest.mark.parametrize("epsilon", [0, 1e-30, 0.5])
@pytest.mark.parametrize("classes", [6, 400], ids=["few", "many"])  # of which all are drawn in full, or some
def test_a_score_that_is_nan_stays_so(smooth, epsilon, classes):
    """Sorted, NaN is the largest: it hid behind the k-th, wherever in the row it was."""
    if smooth is expected_top_value and classes > 6:
        return  # for few classes
    rows = torch.randn(5, classes, generator=torch.Generator().manual_seed(0))
    rows[0, 0], rows[2, -1], rows[3, 2] = torch.nan, torch.nan, torch.nan
    rows[2, :-1] = -torch.inf  # none of the others is left
    for k in (1, 2, 5):
        assert smooth(rows, k, epsilon).isnan().tolist() == [True, False, True, True, False], k


@pytest.mark.parametrize("keywords", [{"antithetic": True, "samples": 4}, {"noise": torch.zeros(2, 2, 6)}], ids=len)
def test_a_score_that_is_nan_stays_so_with_other_draws(keywords):
    rows = torch.tensor([[1.0, torch.nan, 0.5, 2.0, 0.0, -1.0], [1.0, 1.5, 0.5, 2.0, 0.0, -1.0]])
    for k in (1, 2, 6):
        assert noised_top_value(rows, k, **keywords).isnan().tolist() == [True, False]


def test_a_score_that_is_nan_has_a_gradient_that_is_not_hidden_either():
    rows = torch.tensor([[1.0, torch.nan, 0.5], [1.0, 2.0, 0.5]], requires_grad=True)
    soft_top_value(rows, 2).sum().backward()
    assert rows.grad.isnan().all(1).tolist() == [True, False]


@pytest.mark.parametrize("target", [torch.tensor([0]), torch.tensor([[True, False, True, False]])], ids=["one", "several"])
def test_a_present_label_that_is_ruled_out_costs_infinitely_much(target):
    """The plain forms gave NaN: -inf less -inf."""
    ruled_out = -torch.inf
    for loss in (label_pair_penalty, sparse_top_loss):
        for row in ([ruled_out, 1.0, 1.5, 0.5], [ruled_out, 1.0, ruled_out, 0.5], [ruled_out, 1.0, 1.5, ruled_out]):
            scores = torch.tensor([row], requires_grad=True)
            found = loss(scores, target)
            found.backward()
            assert found.item() == torch.inf, (loss, row)
            assert not scores.grad.isnan().any()
            assert scores.grad[0, 0] < 0
            assert scores.grad[0, 1] > 0


def test_pairs_of_labels_that_are_both_ruled_out_cost_nothing():
    scores = torch.tensor([[-torch.inf, -torch.inf, 1.0]], requires_grad=True)
    found = label_pair_penalty(scores, torch.tensor([[True, False, True]]))
    found.backward()
    assert found.item() == 0
    assert scores.grad.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("target", [torch.tensor([1]), torch.tensor([[0.25, 0.75, 0.0]])], ids=["label", "shares"])
def test_a_true_class_that_is_ruled_out_has_the_gradient_of_cross_entropy_under_the_focal_loss(gamma, target):
    """There (1 - p)^gamma is 1; its slope is 0, but beside an infinite loss it made the whole row NaN."""
    found = []
    for loss in (cross_entropy_loss, lambda s, t: focal_loss(s, t, gamma=gamma)):
        scores = torch.tensor([[1.0, -torch.inf, 0.0]], requires_grad=True)
        value = loss(scores, target)
        value.backward()
        found.append((value.item(), scores.grad))
    assert found[0][0] == found[1][0] == torch.inf
    assert found[1][1].isfinite().all()
    if target.ndim == 1:
        assert_close(found[1][1], found[0][1])


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_a_class_that_is_ruled_out_in_scores_and_estimates_costs_nothing_under_role(weight):
    """It did 0 · log 0."""
    scores = torch.tensor([[1.0, -torch.inf, 0.0], [0.5, -torch.inf, -1.0]])
    estimates = torch.tensor([[0.3, -torch.inf, -0.2], [2.0, -torch.inf, 0.1]])
    kept, target = [0, 2], torch.tensor([0, 1])
    found = []
    for columns, labels in (([0, 1, 2], torch.tensor([0, 2])), (kept, target)):
        leaves = [part[:, columns].requires_grad_() for part in (scores, estimates)]
        value = role_loss(leaves[0], labels, estimates=leaves[1], k=1.5, weight=weight)
        value.backward()
        found.append((value.detach(), *(leaf.grad for leaf in leaves)))
    assert_close(found[0][0], found[1][0])
    for whole, part in zip(found[0][1:], found[1][1:], strict=True):
        assert_close(whole[:, kept], part)
        assert (whole[:, 1] == 0).all()


def test_a_class_that_only_the_scores_rule_out_costs_infinitely_much_under_role():
    scores, estimates = torch.tensor([[1.0, -torch.inf, 0.0]]), torch.tensor([[0.3, 0.1, -0.2]])
    assert role_loss(scores, torch.tensor([0]), estimates=estimates, k=1) == torch.inf
