"""Second derivatives: kernels have none, and say so instead of taking their gradient for a constant."""

import pytest
import torch
from torch.testing import assert_close

from shortlist import losses
from shortlist.errors import InputError
from shortlist.kernels import use_kernels
from shortlist.operators import soft_top_value, sparse_top

ONE = torch.tensor([0, 2, 1])
MANY = torch.tensor([[True, False, False, True], [False, True, False, False], [True, True, False, False]])
REFUSED = {
    "cross-entropy": lambda s: losses.cross_entropy_loss(s, ONE.to(s.device)),
    "focal": lambda s: losses.focal_loss(s, ONE.to(s.device)),
    "ldam": lambda s: losses.ldam_loss(s, ONE.to(s.device), margins=torch.full((4,), 0.2, device=s.device), scale=2.0),
    "smooth hinge": lambda s: losses.smooth_topk_hinge_loss(s, ONE.to(s.device), k=2),
    "soft hinge": lambda s: losses.noised_topk_hinge_loss(s, ONE.to(s.device), k=2, smoothing="soft"),
    "soft": lambda s: soft_top_value(s, 2).sum(),
    "sparse-top": lambda s: losses.sparse_top_loss(s, ONE.to(s.device)),
    "sparse-top, many": lambda s: losses.sparse_top_loss(s, MANY.to(s.device)),
    "bce": lambda s: losses.binary_cross_entropy_loss(s, MANY.to(s.device)),
    "spa": lambda s: losses.spa_loss(s, MANY.to(s.device)),
    "asymmetric focal": lambda s: losses.asymmetric_focal_loss(s, MANY.to(s.device), shift=0.05),
    "label pairs": lambda s: losses.label_pair_penalty(s, MANY.to(s.device)),
    "quasibinary": lambda s: losses.quasibinary_loss(s, MANY.to(s.device)),
    "average-k": lambda s: losses.average_k_loss(s, ONE.to(s.device), proposal_scores=s, k=2),
}
# Piecewise linear: their gradient depends on the incoming one alone.
RIGHT = {
    "noised": lambda s: noised(s, "mean"),
    "noised, each row": lambda s: (noised(s, "none") * torch.tensor([1.0, 0.2, 3.0], device=s.device)).sum(),
    "noised, squared": lambda s: noised(s, "none").square().sum(),
    "projection": lambda s: sparse_top(s, 2).square().sum(),
    "projection, own totals": lambda s: sparse_top(s, torch.tensor([1.0, 2.0, 0.0], device=s.device)).square().sum(),
}
EVERY = {**REFUSED, **RIGHT}


def noised(scores, reduction):
    """With noise too small to matter, so that the plain form draws the same."""
    return losses.noised_topk_hinge_loss(
        scores, ONE.to(scores.device), k=2, epsilon=1e-6, margin=3.0, reduction=reduction, weight=torch.ones(4).to(scores)
    )


def leaf_and_scores(device):
    random = torch.Generator().manual_seed(0)
    leaf = torch.randn(3, 4, generator=random).to(device).requires_grad_()
    return leaf, 2 * torch.tanh(leaf)


@pytest.mark.parametrize("name", EVERY)
def test_gradients_are_the_same_if_they_may_be_differentiated_again(name, device):
    found = []
    for again in (False, True):
        leaf, scores = leaf_and_scores(device)
        found.append(torch.autograd.grad(EVERY[name](scores), leaf, create_graph=again)[0])
    assert_close(found[1].detach(), found[0])
    assert found[1].requires_grad


@pytest.mark.parametrize("function", REFUSED.values(), ids=REFUSED)
def test_a_gradient_penalty_is_refused_in_a_sentence(function, device):
    sentence = r"cannot differentiate the gradient of the GPU kernel of .* again: .*use_kernels\(\"never\"\)"
    for whole in (function, lambda s: function(s).square()):
        leaf, scores = leaf_and_scores(device)
        (first,) = torch.autograd.grad(whole(scores), leaf, create_graph=True)
        with pytest.raises(InputError, match=sentence):
            first.square().sum().backward()


@pytest.mark.parametrize("function", EVERY.values(), ids=EVERY)
def test_the_plain_functions_to_which_the_sentence_sends_have_them(function, device):
    leaf, scores = leaf_and_scores(device)
    with use_kernels("never"):
        (first,) = torch.autograd.grad(function(scores), leaf, create_graph=True)
        first.square().sum().backward()
    assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("function", RIGHT.values(), ids=RIGHT)
def test_piecewise_linear_ones_have_the_second_derivatives_of_the_plain_functions(function, device):
    found = []
    for use in ("always", "never"):
        leaf, scores = leaf_and_scores(device)
        with use_kernels(use):
            (first,) = torch.autograd.grad(function(scores), leaf, create_graph=True)
            (second,) = torch.autograd.grad(first.square().sum(), leaf, create_graph=True)
            (third,) = torch.autograd.grad(second.square().sum(), leaf)
        found.append((first.detach(), second.detach(), third))
    assert_close(found[0], found[1], rtol=1e-4, atol=1e-4)
