"""BCE, SPA and the asymmetric focal loss by kernels, against the plain form in float64."""

import math
from functools import partial

import pytest
import torch

from shortlist import losses
from shortlist.kernels import partials, use_kernels
from tests.kernels.labels import DTYPES, QUIET, SHAPES, assert_like_plain, draw, plain, with_gradient
from tests.references import losses as reference

pytestmark = QUIET
OTHER = {"zeta_pos": 2.0, "k_pos": 0.5, "b_pos": -1.0, "zeta_neg": 0.7, "k_neg": 2.0, "b_neg": 0.5}
LOSSES = {
    "bce": losses.binary_cross_entropy_loss,
    "spa": losses.spa_loss,
    "spa, other shape": partial(losses.spa_loss, **OTHER),
    "focal": losses.asymmetric_focal_loss,
    "focal, both gammas": partial(losses.asymmetric_focal_loss, gamma_pos=1.0, gamma_neg=0.5),
    "focal, no gamma": partial(losses.asymmetric_focal_loss, gamma_neg=0.0),
    "focal, shift": partial(losses.asymmetric_focal_loss, gamma_pos=0.5, shift=0.05),
    "focal, detached": partial(losses.asymmetric_focal_loss, gamma_pos=1.0, detach_weight=True),
    "focal, detached shift": partial(losses.asymmetric_focal_loss, gamma_pos=2.0, shift=0.1, detach_weight=True),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@every_loss
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("single", [False, True])
def test_rows_and_gradient_are_those_of_the_plain_form(loss, shape, single, device):
    assert_like_plain(loss, *draw(*shape, device, single=single), reduction="none")


@every_loss
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_half_precision_is_computed_in_float32(loss, dtype, device):
    assert_like_plain(loss, *draw(4, 33, device, dtype=dtype), reduction="none")


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reductions(loss, reduction, device):
    assert_like_plain(loss, *draw(4, 33, device), reduction=reduction)


def test_the_values_are_those_of_the_literal_formula(device):
    scores, target = draw(4, 9, device)
    labels = [row.nonzero().flatten().tolist() for row in target]
    found = losses.asymmetric_focal_loss(scores, target, gamma_pos=1.0, shift=0.05, reduction="none")
    expected = reference.asymmetric_focal_loss(scores.double().tolist(), labels, gamma_pos=1.0, gamma_neg=4.0, shift=0.05)
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("far", [5.0, 16.0, 30.0, 80.0, 1e4, 3e38])
@pytest.mark.parametrize("loss", ["bce", "spa"])
def test_tiny_losses_keep_their_digits(loss, far, device):
    """Every label is right by a wide margin: the row is a sum of numbers far below the resolution of 1."""
    marks = torch.tensor([[True, False, False, True, False]], device=device)
    scores = torch.where(marks, far, -far)
    value, _ = with_gradient(LOSSES[loss], scores, marks, reduction="none")
    expected, _ = plain(LOSSES[loss], scores, marks, reduction="none")
    torch.testing.assert_close(value.double(), expected, rtol=2e-5, atol=1e-38)


@every_loss
def test_the_product_of_brackets_does_not_overflow(loss, device):
    assert_like_plain(loss, torch.zeros(1, 100_000, device=device), torch.tensor([7], device=device), reduction="none")


@every_loss
@pytest.mark.parametrize("far", [1e4, -1e4, 3e38, -3e38, math.inf, -math.inf])
def test_far_scores_are_as_in_the_plain_form(loss, far, device):
    for place in ((1, 0), (2, 3)):
        scores, target = draw(4, 5, device)
        scores[place] = far
        for mark in (True, False):
            target[place] = mark
            value, gradient = with_gradient(loss, scores, target, reduction="none")
            with use_kernels("never"):  # in float32, where some of these overflow
                expected, slopes = with_gradient(loss, scores, target, reduction="none")
            torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
            finite = value.isfinite()
            torch.testing.assert_close(gradient[finite], slopes[finite], rtol=1e-5, atol=1e-6)


@every_loss
@pytest.mark.parametrize("single", [False, True])
def test_nan_marks_its_row_and_no_other(loss, single, device):
    for label in (0, 6):
        scores, target = draw(4, 7, device, single=single)
        scores[1, label] = math.nan
        assert loss(scores, target, reduction="none").isnan().tolist() == [False, True, False, False]


def test_a_label_that_is_no_class_makes_its_row_nan(device):
    scores, _ = draw(4, 7, device)
    target = torch.tensor([0, 7, -1, 6], device=device)
    for found in (
        partials.spa_means(scores, target),
        partials.asymmetric_focal_means(scores, target, gamma_pos=0.0, gamma_neg=4.0, shift=0.0, detach_weight=False),
    ):
        assert found.isnan().tolist() == [False, True, True, False]


@every_loss
def test_any_layout_in_memory(loss, device):
    scores, target = draw(5, 33, device)
    expected, slopes = with_gradient(loss, scores, target, reduction="none")
    for seen in (
        scores.t().contiguous().t(),
        torch.cat([scores, scores], dim=1)[:, :33],
        scores[:, None].expand(5, 2, 33)[:, 1],
    ):
        for marks in (target, target.t().contiguous().t(), torch.cat([target, target], dim=1)[:, :33]):
            leaf = seen.detach().requires_grad_()
            value = loss(leaf, marks, reduction="none")
            assert torch.equal(value, expected)
            random = torch.randn(5, generator=torch.Generator().manual_seed(1)).to(device)
            assert torch.equal(torch.autograd.grad(value, leaf, random)[0], slopes)


@every_loss
@pytest.mark.parametrize("single", [False, True])
def test_an_empty_batch(loss, single, device):
    value, gradient = with_gradient(loss, *draw(0, 7, device, single=single))
    assert value == 0
    assert gradient.shape == (0, 7)


@pytest.mark.parametrize("single", [False, True])
def test_operators_are_registered_with_their_shapes(single, device):
    scores, target = draw(3, 7, device, single=single)
    gradient = torch.randn(3, device=device)
    spa, focal = [1.0, 1.0, 0.0, 0.2, 3.0, 1.0], [1.0, 4.0, 0.05]
    ops = torch.ops.shortlist
    torch.library.opcheck(ops.spa_rows, (scores, target, spa))
    torch.library.opcheck(ops.spa_gradient, (scores, target, gradient, spa))
    torch.library.opcheck(ops.focal_rows, (scores, target, focal))
    torch.library.opcheck(ops.focal_gradient, (scores, target, gradient, focal, True))


@pytest.mark.parametrize("name", ["bce", "spa", "focal, shift"])
def test_compiled_without_a_graph_break(name, device):
    torch.compiler.reset()
    scores, target = draw(3, 7, device)
    compiled = torch.compile(LOSSES[name], fullgraph=True, backend="aot_eager")
    for found, expected in zip(
        with_gradient(compiled, scores, target), with_gradient(LOSSES[name], scores, target), strict=True
    ):
        assert torch.equal(found, expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@every_loss
def test_recorded_and_replayed(loss):
    scores, target = draw(64, 1081, "cuda")
    leaf, marks = scores.clone().requires_grad_(), target.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        loss(leaf, marks).backward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    leaf.grad = None
    with torch.cuda.graph(graph):
        value = loss(leaf, marks)
        value.backward()
    for seed in (1, 2):
        scores, target = draw(64, 1081, "cuda", seed=seed)
        with torch.no_grad():
            leaf.copy_(scores)
            marks.copy_(target)
        graph.replay()
        own = scores.clone().requires_grad_()
        expected = loss(own, target)
        expected.backward()
        assert torch.equal(value, expected)
        assert torch.equal(leaf.grad, own.grad)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@every_loss
def test_entries_beyond_2_to_the_31(loss):
    scores = torch.zeros(22_000, 100_000, dtype=torch.bfloat16, device="cuda")
    scores[-1] = torch.randn(100_000, device="cuda")
    target = torch.full((22_000,), 3, device="cuda")
    value, gradient = with_gradient(loss, scores, target, reduction="none")
    last, slopes = with_gradient(loss, scores[-1:].clone(), target[-1:], reduction="none")
    torch.testing.assert_close(value[-1:], last)
    assert torch.equal(gradient[-1].sign(), slopes[0].sign() * gradient[-1, 3].sign() * slopes[0, 3].sign())
