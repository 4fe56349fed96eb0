"""Classes that are ruled out (-inf): with at most k others, no hinge is left, and no gradient is NaN."""

import pytest
import torch

from shortlist.losses import (
    CalibratedTopkHingeLoss,
    NoisedTopkHingeLoss,
    SmoothTopkHingeLoss,
    TopkHingeLoss,
    label_pair_penalty,
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


def test_a_score_that_is_nan_stays_so():
    rows = torch.tensor([[torch.nan, -torch.inf, -torch.inf, -torch.inf]])
    assert soft_top_value(rows, 1).isnan().all()
    assert expected_top_value(rows, 1).isnan().all()


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
