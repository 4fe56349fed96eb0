"""The label pair penalty by kernels, against the plain form in float64."""

import math

import pytest
import torch

from shortlist.kernels.pairs import pair_sums
from shortlist.losses import LabelPairPenalty, PenalisedLoss, SpaLoss, label_pair_penalty
from tests.kernels.labels import DTYPES, QUIET, SHAPES, assert_like_plain, draw, with_gradient
from tests.references import losses as reference

pytestmark = QUIET


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("single", [False, True])
def test_rows_and_gradient_are_those_of_the_plain_form(shape, single, device):
    present = 3 / shape[1] if shape[1] > 1000 else 0.3
    scores, target = draw(*shape, device, single=single, present=present)
    assert_like_plain(label_pair_penalty, scores, target, reduction="none")


def test_labels_in_several_blocks_of_a_row(device):
    scores, _ = draw(2, 4100, device)
    target = torch.zeros(2, 4100, dtype=torch.bool, device=device)
    target[0, [0, 5, 2047, 2048, 4099]] = True
    target[1, 3000] = True
    assert_like_plain(label_pair_penalty, scores, target, reduction="none")


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_half_precision_is_computed_in_float32(dtype, device):
    assert_like_plain(label_pair_penalty, *draw(4, 33, device, dtype=dtype), reduction="none")


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reductions(reduction, device):
    assert_like_plain(label_pair_penalty, *draw(4, 33, device), reduction=reduction)


def test_the_values_are_those_of_the_literal_formula(device):
    scores, target = draw(4, 9, device)
    labels = [row.nonzero().flatten().tolist() for row in target]
    found = label_pair_penalty(scores, target, reduction="none")
    assert found.tolist() == pytest.approx(reference.label_pair_penalty(scores.double().tolist(), labels), rel=1e-5)


def test_rows_without_present_or_without_absent_labels_cost_nothing(device):
    scores, target = draw(4, 5, device)
    value, gradient = with_gradient(label_pair_penalty, scores, target, reduction="none")
    assert (value == 0).tolist() == [True, False, False, True]
    assert (gradient == 0).all(1).tolist() == [True, False, False, True]


@pytest.mark.parametrize("far", [30.0, 80.0, 1e4])
def test_pairs_in_the_right_order_by_far_keep_their_digits(far, device):
    marks = torch.tensor([[True, False, False, True, False]], device=device)
    scores = torch.where(marks, far / 2, -far / 2)
    found = label_pair_penalty(scores, marks, reduction="none")
    assert found.item() == pytest.approx(2 / (5 * 4) * 6 * math.log1p(math.exp(-far)), rel=2e-5)


@pytest.mark.parametrize("far", [1e4, -1e4, 1e37, -1e37])
def test_far_and_equal_odds(far, device):
    scores, target = draw(5, 6, device)
    scores[1, :3], scores[2, 4], scores[3] = far, far, 0.25
    assert_like_plain(label_pair_penalty, scores, target, reduction="none")


def test_a_masked_class_that_is_absent_costs_nothing(device):
    scores, target = draw(4, 6, device)
    scores[1, 2], target[1, 2], target[1, 3] = -math.inf, False, True
    value, gradient = assert_like_plain(label_pair_penalty, scores, target, reduction="none")
    assert value.isfinite().all()
    assert gradient[1, 2] == 0


@pytest.mark.parametrize("single", [False, True])
def test_nan_marks_its_row_and_no_other(single, device):
    for row in range(4):
        for label in (0, 6):
            scores, target = draw(4, 7, device, single=single)
            scores[row, label] = math.nan
            assert label_pair_penalty(scores, target, reduction="none").isnan().tolist() == [n == row for n in range(4)]


def test_a_label_that_is_no_class_makes_its_row_nan(device):
    scores, _ = draw(4, 7, device)
    assert pair_sums(scores, torch.tensor([0, 7, -1, 6], device=device), 1.0).isnan().tolist() == [False, True, True, False]


def test_any_layout_in_memory(device):
    scores, target = draw(5, 33, device)
    expected, slopes = with_gradient(label_pair_penalty, scores, target, reduction="none")
    for seen in (scores.t().contiguous().t(), torch.cat([scores, scores], dim=1)[:, :33]):
        for marks in (target.t().contiguous().t(), torch.cat([target, target], dim=1)[:, :33]):
            value, gradient = with_gradient(label_pair_penalty, seen, marks, reduction="none")
            assert torch.equal(value, expected)
            assert torch.equal(gradient, slopes)


@pytest.mark.parametrize("single", [False, True])
def test_an_empty_batch(single, device):
    value, gradient = with_gradient(label_pair_penalty, *draw(0, 7, device, single=single))
    assert value == 0
    assert gradient.shape == (0, 7)


def test_a_penalty_on_the_log_odds_of_a_link(device):
    assert_like_plain(PenalisedLoss(SpaLoss(), LabelPairPenalty(), weight=0.5), *draw(5, 33, device))


@pytest.mark.parametrize("single", [False, True])
def test_operators_are_registered_with_their_shapes(single, device):
    scores, target = draw(3, 7, device, single=single)
    torch.library.opcheck(torch.ops.shortlist.pair_rows, (scores, target, 0.1))
    torch.library.opcheck(torch.ops.shortlist.pair_gradient, (scores, target, torch.randn(3, device=device), 0.1))


def test_compiled_without_a_graph_break(device):
    torch.compiler.reset()
    scores, target = draw(3, 7, device)
    compiled = torch.compile(label_pair_penalty, fullgraph=True, backend="aot_eager")
    for found, expected in zip(
        with_gradient(compiled, scores, target), with_gradient(label_pair_penalty, scores, target), strict=True
    ):
        assert torch.equal(found, expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_recorded_and_replayed():
    scores, target = draw(64, 1081, "cuda", present=0.003)
    leaf, marks = scores.clone().requires_grad_(), target.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        label_pair_penalty(leaf, marks).backward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    leaf.grad = None
    with torch.cuda.graph(graph):
        value = label_pair_penalty(leaf, marks)
        value.backward()
    scores, target = draw(64, 1081, "cuda", seed=1, present=0.01)
    with torch.no_grad():
        leaf.copy_(scores)
        marks.copy_(target)
    graph.replay()
    own = scores.clone().requires_grad_()
    expected = label_pair_penalty(own, target)
    expected.backward()
    assert torch.equal(value, expected)
    assert torch.equal(leaf.grad, own.grad)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("shape", [(1024, 1081), (64, 43_000), (8, 100_000)], ids=str)
def test_large_shapes(shape):
    scores, target = draw(*shape, "cuda", present=3 / shape[1])
    target[-1] = target[-2]
    assert_like_plain(label_pair_penalty, scores, target, reduction="none")


@pytest.mark.parametrize("row", [[1.0, 1.5, 0.5], [1.0, -math.inf, 0.5], [1.0, 1.5, -math.inf], [-math.inf] * 3], ids=str)
@pytest.mark.parametrize("marks", [[True, False, False, False], [True, False, True, False]], ids=["one", "two"])
def test_a_present_label_that_is_ruled_out_costs_as_much_as_in_the_plain_form(row, marks, device):
    scores, target = torch.tensor([[-math.inf, *row]], device=device), torch.tensor([marks], device=device)
    value, _ = assert_like_plain(label_pair_penalty, scores, target, reduction="none")
    assert value.item() == (0 if row[0] == -math.inf else math.inf)
