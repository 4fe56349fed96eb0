"""The projection onto the top-k simplex and its loss by kernels, against the plain form in float64."""

import importlib
import math
import sys

import pytest
import torch

from shortlist import losses
from shortlist.errors import InputError
from shortlist.kernels import use_kernels
from shortlist.operators import sparse_top
from tests.kernels.rows import DTYPES, SHAPES, check_against_plain, hard_rows, labels_of, random_scores, value_and_gradient
from tests.references import operators as reference


def marks_of(rows, classes, device):
    """Rows without labels, with all, and with a third of the classes."""
    marks = torch.arange(rows * classes, device=device).reshape(rows, classes) % 3 == 0
    marks[0] = False
    marks[-1] = True
    return marks


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_loss_is_that_of_the_plain_form(shape, dtype, device):
    scores = random_scores(*shape, device, dtype)
    target, marks = labels_of(*shape, device), marks_of(*shape, device)
    check_against_plain(lambda s: losses.sparse_top_loss(s, target, reduction="none"), scores)
    check_against_plain(lambda s: losses.sparse_top_loss(s, marks, reduction="none"), scores)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_projection_is_that_of_the_plain_form(shape, device):
    scores, classes = random_scores(*shape, device), shape[1]
    for k in (0, 0.3, 1, 0.4 * classes, classes - 0.5, classes):
        check_against_plain(lambda s, k=k: sparse_top(s, k), scores)
    own = torch.linspace(0, classes, shape[0], device=device)
    check_against_plain(lambda s: sparse_top(s, own), scores)
    check_against_plain(lambda s: sparse_top(s, own.long()), scores.bfloat16())


def test_small_rows_are_projected_onto_the_nearest_face(device):
    scores = torch.tensor([[0.5, 0.25, 0.25, -1.0, 2.0], [0.0, 0.0, 1.0, 1.0, 1.0]], device=device)
    for k in (0.7, 1, 2, 2.5, 4):
        expected = torch.tensor([reference.sparse_top(row, k).tolist() for row in scores.tolist()])
        torch.testing.assert_close(sparse_top(scores, k).cpu().double(), expected.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3.5])
def test_hard_rows(k, device):
    scores = hard_rows(device)
    check_against_plain(lambda s: sparse_top(s, k), scores)
    target = torch.zeros(len(scores), 12, dtype=torch.bool, device=device)
    target[:, 3 : 3 + math.ceil(k)] = True
    for labels in (target, target.int().argmax(1)):
        # The loss of true classes that are ruled out is beyond float32.
        check_against_plain(
            lambda s, t=labels: losses.sparse_top_loss(s, t, reduction="none").clamp(max=1e38).nan_to_num(1e38), scores
        )


def test_scores_that_absorb_a_width_of_1_keep_their_ties(device):
    scores = torch.tensor([[1e30, 1e30, 0.9e30, 0.9e30, 0.9e30, -1e30], [-3e38, -3e38, -3e38, -3e38, 0.0, 3e38]], device=device)
    for use in ("always", "never"):
        with use_kernels(use):
            torch.testing.assert_close(sparse_top(scores, 1)[0].cpu(), torch.tensor([0.5, 0.5, 0, 0, 0, 0]))
    assert sparse_top(scores, 3)[0].tolist() == pytest.approx([1, 1, 1 / 3, 1 / 3, 1 / 3, 0])
    assert sparse_top(scores, 3)[1].tolist() == pytest.approx([0.25, 0.25, 0.25, 0.25, 1, 1])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_ignored_rows_are_0_whatever_they_hold(value, device):
    scores, target = random_scores(4, 5, device), torch.tensor([1, -100, 2, -100], device=device)
    scores[1] = value
    scores[3, 2] = value
    for reduction in ("none", "sum", "mean"):
        found, gradient = value_and_gradient(
            lambda s, r=reduction: losses.sparse_top_loss(s, target, reduction=r), scores, use="always"
        )
        expected, slope = value_and_gradient(
            lambda s, r=reduction: losses.sparse_top_loss(s, target, reduction=r), scores, use="never"
        )
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(gradient, slope)
        assert (gradient[1::2] == 0).all()


def test_nan_is_never_hidden(device):
    scores = random_scores(4, 5, device)
    scores[2, 3] = math.nan
    marks = marks_of(4, 5, device)
    for target in (labels_of(4, 5, device), marks, marks.flip(0), torch.zeros_like(marks)):
        assert losses.sparse_top_loss(scores, target, reduction="none").isnan().tolist() == [False, False, True, False]


def test_a_true_class_that_is_ruled_out_costs_infinitely_much(device):
    scores = torch.tensor([[-math.inf, 0.0, 1.0]], device=device)
    assert losses.sparse_top_loss(scores, torch.tensor([0], device=device)).item() == math.inf


def test_weights_and_reductions(device):
    scores, target = random_scores(6, 5, device, torch.float16), torch.tensor([0, 1, 4, -100, 1, 2], device=device)
    weight = torch.tensor([1.0, 0.3, 0.0, 7.0, 2.0], device=device)
    for reduction in ("none", "sum", "mean"):
        check_against_plain(lambda s, r=reduction: losses.sparse_top_loss(s, target, weight=weight, reduction=r), scores)
    everything = torch.full((6,), -100, device=device)
    assert losses.sparse_top_loss(scores, everything).item() == 0
    with pytest.raises(InputError, match=r"weight: .*\(4,\)"):
        losses.sparse_top_loss(scores, target, weight=weight[:4])


def test_any_stride_and_no_rows(device):
    wide = random_scores(10, 21, device)
    marks = marks_of(10, 21, device)
    for scores, target in (
        (wide[::2, 3:10], marks[::2, 3:10]),
        (wide.T, marks.T),
        (wide[:0], marks[:0]),
        (wide[:1], marks[5:6]),
    ):
        check_against_plain(lambda s, t=target: losses.sparse_top_loss(s, t, reduction="none"), scores)
        check_against_plain(lambda s: sparse_top(s, 3), scores)
    assert losses.sparse_top_loss(wide[:0], torch.zeros(0, dtype=torch.long, device=device)).item() == 0


def test_the_operators_follow_the_rules_of_torch(device):
    scores, target = random_scores(3, 7, device), torch.tensor([1, -100, 6], device=device)
    weight = torch.rand(7, device=device)
    importlib.import_module("shortlist.kernels.sparse_top")  # registers its operators
    ops = torch.ops.shortlist
    rows = ops.sparse_top_loss(scores, target, weight, -100)
    gradient = torch.ones((), device=device).expand(3)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(ops.sparse_top_loss.default, (scores, target, weight, -100), test_utils=checks)
    torch.library.opcheck(ops.sparse_top_loss_backward.default, (gradient, scores, target, rows), test_utils=checks)
    torch.library.opcheck(ops.sparse_top.default, (scores, None, 2.0), test_utils=checks)
    torch.library.opcheck(
        ops.sparse_top_backward.default, (scores, ops.sparse_top(scores, None, 2.0), scores.dtype), test_utils=checks
    )


def test_it_is_compiled_without_a_break(device):
    scores, target = random_scores(3, 7, device), torch.tensor([1, -100, 6], device=device)
    compiled = torch.compile(losses.sparse_top_loss, fullgraph=True, backend="aot_eager")
    check = value_and_gradient(lambda s: losses.sparse_top_loss(s, target), scores, use="always")
    found = value_and_gradient(lambda s: compiled(s, target), scores, use="always")
    torch.testing.assert_close(found, check)
    projection = torch.compile(lambda s: sparse_top(s, 2), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(projection(scores), sparse_top(scores, 2))


def test_the_plain_form_is_not_asked(device, monkeypatch):
    monkeypatch.setattr(sys.modules["shortlist.operators.sparse_top"], "project", None)
    monkeypatch.setattr(sys.modules["shortlist.losses.sparse_top"], "project", None)
    scores = random_scores(3, 7, device)
    sparse_top(scores, 2)
    losses.sparse_top_loss(scores, labels_of(3, 7, device))
    with pytest.raises(TypeError):
        losses.sparse_top_loss(scores.double(), labels_of(3, 7, device))


@pytest.mark.parametrize("classes", [1081, 8142, 43_000, 100_000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_many_classes(classes, dtype):
    scores = random_scores(64, classes, "cuda", dtype)
    target, marks = labels_of(64, classes, "cuda"), marks_of(64, classes, "cuda")
    check_against_plain(lambda s: losses.sparse_top_loss(s, target, reduction="none"), scores, rtol=1e-4)
    check_against_plain(lambda s: losses.sparse_top_loss(s, marks, reduction="none"), scores, rtol=1e-4, atol=1e-4)
    if dtype == torch.float32:  # coarser scores lie exactly at the ends of [0, 1], where either gradient is right
        check_against_plain(lambda s: sparse_top(s, 50), scores, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recorded_graph_gives_the_loss_of_new_scores():
    scores, target = random_scores(64, 1000, "cuda").requires_grad_(), labels_of(64, 1000, "cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        losses.sparse_top_loss(scores, target).backward()
    torch.cuda.current_stream().wait_stream(stream)
    scores.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = losses.sparse_top_loss(scores, target)
        value.backward()
    with torch.no_grad():
        scores.copy_(3 * scores.flip(0))
    graph.replay()
    expected, slope = value_and_gradient(lambda s: losses.sparse_top_loss(s, target), scores, use="never", dtype=torch.float64)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad.double(), slope, rtol=1e-4, atol=1e-7)
