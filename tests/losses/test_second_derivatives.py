"""Gradients that are differentiated again, as gradient penalties and Hessian-vector products do: right, or refused."""

import pytest
import torch
from torch.func import jacrev
from torch.testing import assert_close

from shortlist.errors import InputError
from shortlist.losses import (
    CrossEntropyLoss,
    LabelPairPenalty,
    PenalisedLoss,
    SpaLoss,
    label_pair_penalty,
    loss_of_linear,
    sparse_top_loss,
)
from shortlist.operators import expected_top_value, soft_top_value
from tests.losses.cases import CASES, draw

STEP = 1e-6
# Where the weight of a label is detached, the gradient is on purpose not the derivative of the value, nor is its own.
DIFFERENTIABLE = [case for case in CASES if not case.keywords.get("detach_weight")]

NO_TRANSFORMS = ("noised_topk_hinge_loss", "smooth_topk_hinge_loss")  # torch.func refuses what computes them


def random_like(tensor, seed=0):
    return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=tensor.dtype)


def gradient(function, at):
    at = at.detach().requires_grad_()
    return torch.autograd.grad(function(at), at)[0]


def assert_differentiable_twice(function, at, **tolerances):
    """The Hessian times a direction is the difference of gradients along it, also of scores that something else computes."""
    for whole in (function, lambda x: function(2 * torch.tanh(x))):
        leaf, direction = at.detach().clone().requires_grad_(), random_like(at)
        (first,) = torch.autograd.grad(whole(leaf), leaf, create_graph=True)
        assert_close(first.detach(), gradient(whole, at))
        if not first.requires_grad:
            first = first + 0 * leaf  # linear: nothing is left to differentiate
        (found,) = torch.autograd.grad((first * direction).sum(), leaf)
        ahead, behind = (gradient(whole, at + sign * STEP * direction) for sign in (1, -1))
        assert_close(found, (ahead - behind) / (2 * STEP), **({"rtol": 1e-5, "atol": 1e-6} | tolerances))


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_every_loss_has_the_second_derivatives_of_its_gradient(case):
    """For many of them the gradient was taken for a constant: torch refuses only if the incoming gradient requires one."""
    batch = draw(case)
    constants = {name: leaf.detach() for name, leaf in batch.leaves().items()}
    for name, leaf in constants.items():
        assert_differentiable_twice(lambda x, name=name: case.loss(batch.put(**(constants | {name: x}))), leaf)


@pytest.mark.parametrize("case", [case for case in DIFFERENTIABLE if not str(case).startswith(NO_TRANSFORMS)], ids=str)
def test_nearly_every_loss_has_a_jacobian_in_reverse(case):
    """torch.func.jacrev maps the backward pass over the entries of the result: what that calls has to allow it."""
    batch = draw(case)
    constants = {name: leaf.detach() for name, leaf in batch.leaves().items()}
    for name, leaf in constants.items():

        def value(x, name=name):
            return case.loss(batch.put(**(constants | {name: x})))

        assert_close(jacrev(value)(leaf), gradient(value, leaf))


def test_the_sparse_top_loss_has_jacobians_of_jacobians():
    scores, target = random_like(torch.zeros(3, 4, dtype=torch.float64)), torch.tensor([0, 1, 2])
    hessian = jacrev(jacrev(lambda s: sparse_top_loss(s, target, reduction="sum")))(scores)
    assert_close(hessian, torch.autograd.functional.hessian(lambda s: sparse_top_loss(s, target, reduction="sum"), scores))
    each = jacrev(lambda s: sparse_top_loss(s, target, reduction="none"))(scores)
    assert_close(each.sum(0), gradient(lambda s: sparse_top_loss(s, target, reduction="sum"), scores))


def test_a_loss_with_a_penalty_has_second_derivatives():
    target = torch.tensor([[True, False, False, True], [False, True, False, False]])
    loss = PenalisedLoss(SpaLoss(), LabelPairPenalty())
    assert_differentiable_twice(lambda scores: loss(scores, target), random_like(torch.zeros(2, 4, dtype=torch.float64)))


@pytest.mark.parametrize("noise", ["normal", "logistic"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_soft_kth_largest_has_second_and_third_derivatives(noise, k):
    scores = random_like(torch.zeros(3, 4, dtype=torch.float64))
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    assert_differentiable_twice(lambda s: (weights * soft_top_value(s, k, 0.7, noise=noise)).sum(), scores)
    assert_differentiable_twice(lambda s: soft_top_value(s, k, 0.7, noise=noise).square().sum(), scores)

    def curvature(s):
        (first,) = torch.autograd.grad(soft_top_value(s, k, 0.7, noise=noise).sum(), s, create_graph=True)
        return first.square().sum()

    assert_differentiable_twice(curvature, scores)


@pytest.mark.parametrize("classes", [1, 2, 3, 5, 8])
def test_the_expected_kth_largest_has_second_derivatives(classes):
    scores = random_like(torch.zeros(2, classes, dtype=torch.float64))
    for k in range(1, classes + 1):
        assert_differentiable_twice(lambda s, k=k: expected_top_value(s, k, 0.7).square().sum(), scores)


def test_classes_that_are_ruled_out_have_no_second_derivatives():
    ruled_out = -torch.inf
    scores = torch.tensor([[1.0, 0.5, ruled_out, 0.0], [1.0, *[ruled_out] * 3]], dtype=torch.float64)
    target = torch.tensor([[True, False, False, False]] * 2)
    for function in (
        lambda s: soft_top_value(s, 2, 0.7).masked_fill(torch.tensor([False, True]), 0).sum(),
        lambda s: label_pair_penalty(s, target),
    ):
        leaf = scores.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(leaf), leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), leaf)
        assert second.isfinite().all()
        assert (second[scores == ruled_out] == 0).all()
        assert (second[0, [0, 1, 3]] != 0).all()


def test_a_head_and_its_loss_together_have_first_derivatives_only_and_say_so():
    features, weight, bias = (random_like(torch.zeros(shape)).requires_grad_() for shape in ((5, 3), (4, 3), (4,)))
    target = torch.tensor([0, 1, 2, 3, 0])
    for leaf in (features, weight, bias):
        value = loss_of_linear(CrossEntropyLoss(), features.tanh(), weight.tanh(), bias.tanh(), target)
        (expected,) = torch.autograd.grad(value, leaf, retain_graph=True)
        (first,) = torch.autograd.grad(value, leaf, create_graph=True)
        assert torch.equal(first, expected)
        with pytest.raises(InputError, match="cannot differentiate the gradient of loss_of_linear again: compute the scores"):
            first.square().sum().backward()
