"""Gradients written over the scores: the same numbers, in the memory of the scores, and only where nothing else reads them."""

import pytest
import torch

from shortlist import losses
from shortlist.kernels.overwriting import has_one_reader, overwriting, room_for_gradient
from shortlist.losses import loss_of_linear
from shortlist.losses.head_gradients import ChunkedHead

ROWS, CLASSES = 5, 37
LOSSES = [
    losses.CrossEntropyLoss(),
    losses.FocalLoss(),
    losses.LdamLoss(margins=torch.full((CLASSES,), 0.5)),
    losses.NoisedTopkHingeLoss(k=3),
    losses.NoisedTopkHingeLoss(k=3, smoothing="soft"),
    losses.SmoothTopkHingeLoss(k=3),
    losses.SparseTopLoss(),
    losses.SpaLoss(),
    losses.AsymmetricFocalLoss(),
    losses.BinaryCrossEntropyLoss(),
]


def scores_of(device, dtype=torch.float32):
    values = torch.randn(ROWS, CLASSES, generator=torch.Generator().manual_seed(0))
    return values.to(device, dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_same_numbers_in_the_memory_of_the_scores(device, loss, dtype):
    loss, target = loss.to(device), torch.arange(ROWS, device=device) % CLASSES
    found = []
    for spent in (False, True):
        torch.manual_seed(3)
        scores = scores_of(device, dtype)
        value = loss(scores, target)
        assert has_one_reader(scores, value)
        with overwriting(*[scores][: int(spent)]):
            (gradient,) = torch.autograd.grad(value, scores)
        assert (gradient.data_ptr() == scores.data_ptr()) == spent
        found.append(gradient.clone())
    assert torch.equal(*found)


def test_scores_that_two_terms_read_are_kept(device):
    scores, target = scores_of(device), torch.arange(ROWS, device=device)
    loss = losses.CrossEntropyLoss()
    assert not has_one_reader(scores, loss(scores, target) + scores.logsumexp(1).sum())
    assert not has_one_reader(scores, loss(scores, target) + losses.SpaLoss()(scores, target))
    assert not has_one_reader(scores, torch.zeros((), device=device))


def test_only_these_scores_and_only_inside(device):
    spent, other = scores_of(device), scores_of(device)
    with overwriting(spent):
        assert room_for_gradient(spent) is spent
        assert room_for_gradient(other) is not other
        assert room_for_gradient(spent[:, ::2]).data_ptr() != spent.data_ptr()
    assert room_for_gradient(spent) is not spent


@pytest.mark.parametrize("loss", [*LOSSES, losses.AverageKLoss(k=3)], ids=str)
def test_a_head_with_its_loss_needs_no_memory_for_gradients_in_scores(device, loss, monkeypatch):
    loss, heads = loss.to(device), 2 if isinstance(loss, losses.AverageKLoss) else 1
    made, gradients = set(), []
    scores, add = ChunkedHead.scores, ChunkedHead.add

    def kept(head, rows):
        values = scores(head, rows)
        made.add(values.data_ptr())
        return values

    def added(head, rows, gradient, **further):
        gradients.append(gradient.data_ptr())
        add(head, rows, gradient, **further)

    monkeypatch.setattr(ChunkedHead, "scores", kept)
    monkeypatch.setattr(ChunkedHead, "add", added)
    inputs = torch.randn(ROWS, 4, device=device, requires_grad=True)
    weights = [torch.randn(CLASSES, 4, device=device, requires_grad=True) for _ in range(heads)]
    target = torch.arange(ROWS, device=device)
    loss_of_linear(loss, inputs, tuple(weights) if heads == 2 else weights[0], None, target, rows_at_once=2)
    assert len(gradients) == 3 * heads
    assert set(gradients) <= made
