"""The fused two-head loss against its plain form, forward and backward."""

import math

import pytest
import torch

from shortlist.kernels import average_k as kernels, use_kernels
from shortlist.losses import average_k_loss
from tests.references import losses as ref

HALF = {torch.float16: 2e-3, torch.bfloat16: 2e-2}
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def batch(rows, classes, device, dtype=torch.float32, seed=0, spread=2.0):
    generator = torch.Generator().manual_seed(seed)
    scores, proposals = (spread * torch.randn(rows, classes, generator=generator) for _ in range(2))
    target = torch.randint(classes, (rows,), generator=generator)
    return scores.to(device, dtype), proposals.to(device, dtype), target.to(device)


def with_gradients(scores, proposals, target, use="always", **keywords):
    heads = [part.detach().clone().requires_grad_() for part in (scores, proposals)]
    with use_kernels(use):
        value = average_k_loss(heads[0], target, proposal_scores=heads[1], **keywords)
    value.backward()
    return value.detach(), *(head.grad for head in heads)


def assert_as_plain(scores, proposals, target, tolerance=2e-5, **keywords):
    """The same value and gradients as in float64."""
    found = with_gradients(scores, proposals, target, **keywords)
    wide = with_gradients(scores.double(), proposals.double(), target, use="never", **keywords)
    assert found[0].dtype == torch.float32
    assert [part.dtype for part in found[1:]] == [scores.dtype, proposals.dtype]
    for here, there in zip(found, wide, strict=True):
        scale = float(there.abs().max()) if there.numel() else 1.0
        torch.testing.assert_close(here.double(), there, rtol=tolerance, atol=tolerance * min(scale, 1.0), equal_nan=True)
    return found


@pytest.mark.parametrize(("rows", "classes"), [(1, 1), (2, 2), (5, 3), (7, 7), (3, 129), (4, 1025), (2, 5000)])
@pytest.mark.parametrize("k", [1, 1.5, 3])
def test_value_and_gradients_are_those_of_the_plain_form(device, rows, classes, k):
    assert_as_plain(*batch(rows, classes, device), k=min(k, classes), alpha=0.3)


@pytest.mark.parametrize("k", [1, 2, 2.5, 6])
def test_value_is_that_of_the_reference(device, k):
    scores, proposals, target = batch(9, 6, device)
    found, _, _ = with_gradients(scores, proposals, target, k=k, alpha=0.7)
    expected = ref.average_k_loss(scores.tolist(), [(label,) for label in target.tolist()], proposals.tolist(), k, alpha=0.7)
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_ignored_rows_count_nothing_whatever_they_hold(device, reduction):
    scores, proposals, target = batch(8, 11, device)
    target[[1, 6]] = -100
    scores[1], proposals[6] = math.nan, math.inf
    found = assert_as_plain(scores, proposals, target, k=2.5, alpha=0.3, reduction=reduction)
    kept = target != -100
    alone = with_gradients(scores[kept], proposals[kept], target[kept], k=2.5, alpha=0.3, reduction=reduction)
    torch.testing.assert_close(found[0], alone[0])
    for here, there in zip(found[1:], alone[1:], strict=True):
        assert not here[~kept].any()
        torch.testing.assert_close(here[kept], there)


def test_all_rows_ignored_and_an_empty_batch_give_0(device):
    scores, proposals, target = batch(3, 4, device)
    value, *gradients = with_gradients(scores, proposals, torch.full_like(target, -100), k=2)
    assert value == 0
    assert not any(gradient.any() for gradient in gradients)
    value, *gradients = with_gradients(scores[:0], proposals[:0], target[:0], k=2)
    assert value == 0
    assert all(gradient.shape == (0, 4) for gradient in gradients)


@pytest.mark.parametrize("k", [1, 1.3, 2, 2.5, 4])
@pytest.mark.parametrize("rows_each", [1, 3])
def test_ties_go_to_the_lower_index(device, monkeypatch, k, rows_each):
    """Exactly as many as wanted are chosen of equal probabilities, the first rows' first."""
    monkeypatch.setattr(kernels, "PROGRAMS", -(-7 // rows_each))
    scores, _, target = batch(7, 9, device)
    assert_as_plain(scores, torch.zeros_like(scores), target, k=k)
    rows = torch.tensor([3.0, 1.0, 0.0, 0.0, 0.0, 1.0, -2.0, 0.0, 1.0], device=device).expand(7, 9)
    assert_as_plain(scores, rows, torch.full_like(target, 6), k=k)


def test_ties_are_divided_across_blocks_of_columns(device, monkeypatch):
    monkeypatch.setattr(kernels, "MOST_COLUMNS", 32)
    scores, _, target = batch(3, 150, device)
    for k in (1.5, 40, 120):
        assert_as_plain(scores, torch.zeros_like(scores), target, k=k)
    assert_as_plain(scores, batch(3, 150, device, seed=3)[1], target, k=40)


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_computed_in_float32(device, dtype):
    scores, proposals, target = batch(6, 40, device, dtype)
    found = with_gradients(scores, proposals, target, k=3)
    wide = with_gradients(scores.float(), proposals.float(), target, k=3)
    torch.testing.assert_close(found[0], wide[0])
    for here, there in zip(found[1:], wide[1:], strict=True):
        torch.testing.assert_close(here, there.to(dtype), rtol=HALF[dtype], atol=1e-6)
    mixed = with_gradients(scores.float(), proposals, target, k=3)
    torch.testing.assert_close(mixed[0], wide[0])
    assert mixed[2].dtype == dtype


@pytest.mark.parametrize("spread", [1e-3, 30.0, 1e4, 3e37])
def test_extreme_scores_are_as_in_the_plain_form(device, spread):
    scores, proposals, target = batch(6, 12, device, spread=spread)
    found = with_gradients(scores, proposals, target, k=2)
    plain = with_gradients(scores, proposals, target, use="never", k=2)
    for here, there in zip(found, plain, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-5, atol=1e-7, equal_nan=True)


def test_small_terms_keep_their_digits(device):
    """log(1 + exp(-15)) is 3e-7, which float32 loses if it adds 1 first."""
    scores = torch.full((2, 50), -15.0, device=device)
    scores[0, 0] = scores[1, 0] = 15.0
    proposals = 40 * torch.eye(50, device=device)[:1].expand(2, 50)
    assert_as_plain(scores, proposals, torch.zeros(2, dtype=torch.int64, device=device), k=1, tolerance=3e-6)


def test_masked_classes_have_probability_0_and_can_be_chosen_last(device):
    scores, proposals, target = batch(5, 8, device)
    proposals[:, 5:] = -math.inf
    target = target % 5
    for k in (2, 4.5, 7):
        assert_as_plain(scores, proposals, target, k=k)
    scores[:, 6] = -math.inf
    value, first, second = with_gradients(scores, proposals, target, k=2)
    assert value.isfinite()
    assert first.isfinite().all()
    assert second.isfinite().all()


@pytest.mark.parametrize("head", [0, 1])
def test_a_nan_score_in_a_counted_row_makes_the_loss_nan(device, head):
    heads = [*batch(4, 6, device)[:2]]
    target = torch.tensor([0, 1, 2, 3], device=device)
    heads[head][2, 5] = math.nan
    assert with_gradients(*heads, target, k=2)[0].isnan()
    assert not with_gradients(*heads, torch.where(target == 2, -100, target), k=2)[0].isnan()


def test_strided_scores(device):
    wide, other, target = batch(6, 40, device)
    assert_as_plain(wide[:, 3:20], other[:, 3:20], target % 17, k=2)
    assert_as_plain(wide[:, ::3], other.t()[:14, :6].t(), target % 14, k=2)


def test_upstream_gradient_multiplies(device):
    scores, proposals, target = batch(4, 6, device)
    heads = [part.clone().requires_grad_() for part in (scores, proposals)]
    (3 * average_k_loss(heads[0], target, proposal_scores=heads[1], k=2)).backward()
    alone = with_gradients(scores, proposals, target, k=2)
    for head, gradient in zip(heads, alone[1:], strict=True):
        torch.testing.assert_close(head.grad, 3 * gradient)


def test_several_rows_for_each_program(device, monkeypatch):
    monkeypatch.setattr(kernels, "PROGRAMS", 3)
    scores, proposals, target = batch(11, 33, device)
    target[4] = -100
    assert_as_plain(scores, proposals, target, k=2.7)


def test_the_operators_are_what_torch_expects(device):
    scores, proposals, target = batch(4, 6, device)
    torch.library.opcheck(
        torch.ops.shortlist.average_k_forward.default,
        (scores, proposals, target, -100, 3, 2, 0.5, False),
        test_utils=("test_schema", "test_faketensor"),
    )
    loss, *kept = kernels.average_k_forward(scores, proposals, target, -100, 3, 2, 0.5, False)
    torch.library.opcheck(
        torch.ops.shortlist.average_k_backward.default,
        (torch.ones_like(loss), scores, proposals, target, *kept, -100),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_it_compiles_without_a_graph_break(device):
    scores, proposals, target = batch(5, 7, device)

    def loss(scores, proposals):
        return average_k_loss(scores, target, proposal_scores=proposals, k=2.5)

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    heads = [part.clone().requires_grad_() for part in (scores, proposals)]
    compiled(*heads).backward()
    expected = with_gradients(scores, proposals, target, k=2.5)
    for head, gradient in zip(heads, expected[1:], strict=True):
        torch.testing.assert_close(head.grad, gradient)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize(("rows", "classes"), [(1024, 1081), (4096, 8142), (1024, 43_000), (3, 100_000)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0])
def test_large_batches_are_as_in_the_plain_form(rows, classes, spread):
    """The plain form in float32 rounds probabilities in another way: a few entries at the cut may differ."""
    scores, proposals, target = batch(rows, classes, "cuda", spread=spread)
    found = with_gradients(scores, proposals, target, k=5)
    plain = with_gradients(scores, proposals, target, use="never", k=5)
    torch.testing.assert_close(found[0], plain[0], rtol=1e-4, atol=1e-5)
    for here, there in zip(found[1:], plain[1:], strict=True):
        apart = (here - there).abs() > 1e-4 * there.abs().max()
        assert int(apart.sum()) <= 8


@pytest.mark.gpu
@gpu
def test_a_graph_is_recorded_and_replayed():
    scores, proposals, target = batch(64, 300, "cuda")
    heads = [part.clone().requires_grad_() for part in (scores, proposals)]

    def step():
        for head in heads:
            head.grad = None
        value = average_k_loss(heads[0], target, proposal_scores=heads[1], k=3)
        value.backward()
        return value

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = step()
    other = batch(64, 300, "cuda", seed=5)
    with torch.no_grad():
        heads[0].copy_(other[0])
        heads[1].copy_(other[1])
        target.copy_(torch.where(other[2] % 7 == 0, -100, other[2]))
    graph.replay()
    expected = with_gradients(other[0], other[1], target, k=3)
    for here, there in zip((value.detach(), *(head.grad for head in heads)), expected, strict=True):
        torch.testing.assert_close(here, there)


@pytest.mark.gpu
@gpu
def test_offsets_beyond_two_to_the_31():
    rows, classes = 22_000, 100_000
    scores = torch.zeros(rows, classes, dtype=torch.float16, device="cuda")
    target = torch.full((rows,), -100, device="cuda")
    target[-3:] = 7
    scores[-3:] = batch(3, classes, "cuda", torch.float16)[0]
    found = with_gradients(scores, scores, target, k=4)
    alone = with_gradients(scores[-3:], scores[-3:], target[-3:], k=4)
    torch.testing.assert_close(found[0], alone[0])
    torch.testing.assert_close(found[1][-3:], alone[1])
