"""What the tests of kernels for any number of labels share: batches, and comparison with the plain form in float64."""

import pytest
import torch

from shortlist.kernels import use_kernels

QUIET = [pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")]  # by torch's compiler
SHAPES = [(1, 1), (3, 2), (2, 3), (5, 7), (3, 129), (2, 1025), (2, 2049)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}  # of gradients, which are rounded to the dtype


def draw(rows, classes, device, *, single=False, seed=0, dtype=torch.float32, scale=3.0, present=0.3):
    """Scores and a target; with several rows the first has no label and the last has all."""
    random = torch.Generator().manual_seed(seed)
    scores = (scale * torch.randn(rows, classes, generator=random)).to(dtype)
    if single:
        return scores.to(device), torch.randint(classes, (rows,), generator=random).to(device)
    marks = torch.rand(rows, classes, generator=random) < present
    if rows > 2:
        marks[0], marks[-1] = False, True
    return scores.to(device), marks.to(device)


def with_gradient(loss, scores, target, seed=1, **keywords):
    """The value, and the gradient of it times random numbers of the same shape."""
    leaf = scores.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    value = loss(leaf, target, **keywords)
    random = torch.Generator().manual_seed(seed)
    (gradient,) = torch.autograd.grad(value, leaf, torch.randn(value.shape, generator=random).to(value))
    return value.detach(), gradient


def plain(loss, scores, target, **keywords):
    """The same by the plain form in float64."""
    with use_kernels("never"):
        return with_gradient(loss, scores.double(), target, **keywords)


def assert_like_plain(loss, scores, target, **keywords):
    """Value and gradient of the kernel are those of the plain form; returns them."""
    value, gradient = with_gradient(loss, scores, target, **keywords)
    expected, slopes = plain(loss, scores, target, **keywords)
    assert value.dtype == torch.float32
    assert gradient.dtype == scores.dtype
    torch.testing.assert_close(value.double(), expected, rtol=2e-6, atol=1e-7)
    error = TOLERANCE[scores.dtype]
    largest = slopes.abs().amax().item() if slopes.numel() else 0.0
    torch.testing.assert_close(gradient.double(), slopes, rtol=error, atol=error * largest)
    return value, gradient
