"""Rows that are hard for every kernel that looks for a level, and both forms of a function side by side."""

import math

import torch

from shortlist.kernels import use_kernels

SHAPES = [(3, 1), (4, 2), (2, 3), (3, 7), (2, 129), (2, 1025)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def random_scores(rows, classes, device, dtype=torch.float32, scale=2.0):
    return (scale * torch.randn(rows, classes, generator=torch.Generator().manual_seed(rows + classes))).to(device, dtype)


def labels_of(rows, classes, device):
    return (torch.arange(rows, device=device) * 5) % classes


def hard_rows(device):
    """(N, 12): ties, clusters, far and masked classes."""
    spread = torch.linspace(-1, 1.75, 12)
    rows = [spread, torch.zeros(12), spread.round(), 1e4 + spread, spread * 1e4, spread * 1e-4]
    rows += [torch.where(torch.arange(12) % 3 == 0, spread, far) for far in (-math.inf, -1e9, -3e38, -50.0)]
    rows += [torch.where(torch.arange(12) < 2, far, spread) for far in (1e9, 60.0)]
    return torch.stack(rows).to(device)


def value_and_gradient(function, scores, *, use, dtype=None):
    """The function's value and the gradient of its weighted sum, by the kernels or by the plain form in ``dtype``."""
    leaf = scores.detach().to(scores.dtype if dtype is None else dtype).requires_grad_()
    with use_kernels(use):
        value = function(leaf)
        weights = torch.linspace(1, -2, value.numel(), dtype=value.dtype, device=value.device).reshape(value.shape)
        (gradient,) = torch.autograd.grad((value * weights).nansum(), leaf)
    return value.detach(), gradient


def check_against_plain(function, scores, rtol=1e-5, atol=1e-5):
    """The kernel in the dtype of the scores against the plain form in float64."""
    value, gradient = value_and_gradient(function, scores, use="always")
    expected, slope = value_and_gradient(function, scores, use="never", dtype=torch.float64)
    assert value.dtype == torch.float32
    assert gradient.dtype == scores.dtype
    torch.testing.assert_close(value.double(), expected, rtol=rtol, atol=atol, equal_nan=True)
    coarse = torch.finfo(scores.dtype).eps
    torch.testing.assert_close(gradient.double(), slope, rtol=max(rtol, coarse), atol=max(atol, coarse * 1e-2), equal_nan=True)
