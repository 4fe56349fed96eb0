"""The quasibinary loss and its running normaliser by kernels, against the plain form in float64."""

import datetime
import math
import os
import sys

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.kernels import use_kernels
from shortlist.kernels.quasibinary import quasibinary_cost, quasibinary_sums
from shortlist.links import Quasibinary
from shortlist.links.quasibinary import batch_log_normalizer
from shortlist.losses import QuasibinaryLoss, quasibinary_loss
from tests import warm
from tests.kernels.labels import DTYPES, QUIET, SHAPES, assert_like_plain, draw, plain, with_gradient
from tests.references import losses as reference

pytestmark = QUIET
BY = {"own": {}, "constant": {"log_normalizer": 0.3}, "constant tensor": {"log_normalizer": torch.tensor([-1.0])}}
normalisers = pytest.mark.parametrize("keywords", BY.values(), ids=BY)


@normalisers
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("single", [False, True])
def test_value_and_gradient_are_those_of_the_plain_form(keywords, shape, single, device):
    assert_like_plain(quasibinary_loss, *draw(*shape, device, single=single, seed=3), **keywords)


@normalisers
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_half_precision_is_computed_in_float32(keywords, dtype, device):
    assert_like_plain(quasibinary_loss, *draw(4, 33, device, dtype=dtype), **keywords)


@normalisers
def test_sum(keywords, device):
    assert_like_plain(quasibinary_loss, *draw(4, 33, device), reduction="sum", **keywords)


def test_rows_have_no_value_of_their_own(device):
    with pytest.raises(InputError, match="reduction: .*got 'none'"):
        quasibinary_loss(*draw(4, 33, device), reduction="none")


def test_many_rows(device):
    """More than the last program takes at once."""
    assert_like_plain(quasibinary_loss, *draw(1100, 2, device, scale=20.0))


def test_the_value_is_that_of_the_literal_formula(device):
    scores, target = draw(4, 9, device)
    labels = [row.nonzero().flatten().tolist() for row in target]
    assert quasibinary_loss(scores, target).item() == pytest.approx(
        reference.quasibinary_loss(scores.double().tolist(), labels), rel=1e-5
    )


@normalisers
@pytest.mark.parametrize("offset", [1e4, -1e4])
def test_far_scores(keywords, offset, device):
    """The softmax keeps its digits; the cost has those that are left of scores of this size."""
    scores, target = draw(4, 9, device)
    scores = (scores + offset).round()
    value, gradient = with_gradient(quasibinary_loss, scores, target, **keywords)
    expected, slopes = plain(quasibinary_loss, scores, target, **keywords)
    torch.testing.assert_close(value.double(), expected, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(gradient.double(), slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("far", [3e38, -3e38, -math.inf])
@pytest.mark.parametrize("place", [(1, 0), (2, 3)], ids=str)
def test_one_score_far_away_is_as_in_the_plain_form(far, place, device):
    for mark in (True, False):
        scores, target = draw(4, 5, device)
        scores[place], target[place] = far, mark
        value, gradient = with_gradient(quasibinary_loss, scores, target)
        with use_kernels("never"):
            expected, slopes = with_gradient(quasibinary_loss, scores, target)
        torch.testing.assert_close(value, expected)
        if value.isfinite():
            torch.testing.assert_close(gradient, slopes)


@pytest.mark.parametrize("level", [0.0, -math.inf])
def test_equal_and_masked_scores(level, device):
    scores, target = draw(3, 5, device)
    scores[:2] = level
    target[:2] = False
    assert_like_plain(quasibinary_loss, scores, target)


@normalisers
def test_nan_and_infinity_show(keywords, device):
    for spoilt in (math.nan, math.inf):
        for row in range(3):
            scores, target = draw(3, 7, device)
            scores[row, 6] = spoilt
            assert not quasibinary_loss(scores, target, **keywords).isfinite()
            assert not quasibinary_loss(scores, target & False, **keywords).isfinite()


@normalisers
def test_a_batch_without_labels(keywords, device):
    scores, target = draw(3, 7, device)
    value, gradient = assert_like_plain(quasibinary_loss, scores, target & False, **keywords)
    if not keywords:
        assert value == 0
        assert not gradient.any()
    masked = torch.full_like(scores, -math.inf)
    value, gradient = with_gradient(quasibinary_loss, masked, target & False, **keywords)
    assert value == 0
    assert not gradient.any()


@normalisers
@pytest.mark.parametrize("single", [False, True])
def test_an_empty_batch(keywords, single, device):
    value, gradient = with_gradient(quasibinary_loss, *draw(0, 7, device, single=single), **keywords)
    assert value == 0
    assert gradient.shape == (0, 7)


def test_a_label_that_is_no_class_makes_the_batch_nan(device):
    scores, _ = draw(2, 7, device)
    for wrong in (7, -1):
        target = torch.tensor([wrong, 3], device=device)
        sums = quasibinary_sums(scores, target)
        assert sums[1].isnan()
        assert quasibinary_cost(scores, target, sums, None)[0].isnan()
        assert quasibinary_cost(scores, target, None, torch.tensor(0.3, device=device))[0].isnan()


def test_any_layout_in_memory(device):
    scores, target = draw(5, 33, device)
    expected, slopes = with_gradient(quasibinary_loss, scores, target)
    for seen in (scores.t().contiguous().t(), torch.cat([scores, scores], dim=1)[:, :33]):
        for marks in (target.t().contiguous().t(), torch.cat([target, target], dim=1)[:, :33]):
            value, gradient = with_gradient(quasibinary_loss, seen, marks)
            assert torch.equal(value, expected)
            assert torch.equal(gradient, slopes)


def steps(batches, dtype):
    """The losses, gradients and normalisers of a training on these batches."""
    state, found = QuasibinaryLoss().training_state(4, 5, 0), []
    for scores, target in batches:
        value, gradient = with_gradient(lambda s, t: state(s, t, torch.arange(len(s))), scores.to(dtype), target)
        running = state.link.log_normalizer
        found.append((value, gradient, torch.tensor(math.nan) if running is None else running.clone()))
    return [torch.stack([x.double().cpu() for x in column]) for column in zip(*found, strict=True)]


def test_the_state_of_training_is_as_in_the_plain_form(device):
    """Batches without labels before and after the first with labels; one that is not finite, and one after it."""
    batches = [draw(4, 5, device, seed=seed) for seed in range(6)]
    for unlabelled in (0, 3):
        batches[unlabelled] = (batches[unlabelled][0] + 3, batches[unlabelled][1] & False)
    batches[4][0][1, 1] = math.inf
    found = steps(batches, torch.float32)
    with use_kernels("never"):
        expected = steps(batches, torch.float64)
    kept = torch.tensor([0, 1, 2, 3, 5])
    assert not found[0][4].isfinite()
    torch.testing.assert_close(found[0][kept], expected[0][kept], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[1][kept], expected[1][kept], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[2], expected[2], rtol=1e-6, atol=1e-6, equal_nan=True)


def test_losses_of_two_batches_may_be_summed_before_the_backward_pass(device):
    state = QuasibinaryLoss().training_state(4, 5, 0)
    (first, marks), (second, others) = draw(4, 5, device), draw(4, 5, device, seed=1)
    leaf = first.clone().requires_grad_()
    state(second, others, torch.arange(4))
    (state(leaf, marks, torch.arange(4)) + state(second, others, torch.arange(4))).backward()
    alone = first.clone().requires_grad_()
    quasibinary_loss(alone, marks).backward()
    assert torch.equal(leaf.grad, alone.grad)


def test_an_updated_link_is_changed_in_place_and_its_twin_is_not(device):
    link = Quasibinary()
    link.update(*draw(4, 5, device))
    tensor, before, twin = link.log_normalizer, link.log_normalizer.clone(), link.twin()
    link.update(*draw(4, 5, device, seed=1))
    assert link.log_normalizer is tensor
    assert tensor != before
    assert twin.log_normalizer == before


def test_operators_are_registered_with_their_shapes(device):
    ops, constant = torch.ops.shortlist, torch.tensor(0.3, device=device)
    above, gradient = torch.tensor(1.0, device=device), torch.tensor(0.5, device=device)
    for single in (False, True):
        scores, target = draw(3, 7, device, single=single)
        sums = quasibinary_sums(scores, target)
        torch.library.opcheck(ops.quasibinary_sums, (scores, target))
        torch.library.opcheck(ops.quasibinary_cost, (scores, target, sums, None))
        torch.library.opcheck(ops.quasibinary_cost, (scores, target, None, constant))
        torch.library.opcheck(ops.quasibinary_gradient, (scores, target, sums, constant, above, gradient))


def test_compiled_without_a_graph_break(device):
    torch.compiler.reset()
    scores, target = draw(3, 7, device)
    compiled = torch.compile(quasibinary_loss, fullgraph=True, backend="aot_eager")
    for found, expected in zip(
        with_gradient(compiled, scores, target), with_gradient(quasibinary_loss, scores, target), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


SPLITS = [(2, 5), (0, 4), (4, 0), (0, 0)]  # rows of the first and of the second process


def results(split, rows):
    """Value, gradient and normaliser for some rows of a global batch, with and without labels."""
    scores, target = draw(sum(split), 5, "cpu", seed=sum(split))
    found = []
    for marks, keywords in ((target, {}), (target & False, {}), (target & False, {"log_normalizer": 0.3})):
        found += with_gradient(quasibinary_loss, scores[rows], marks[rows], **keywords)
    link = Quasibinary()
    link.follow(batch_log_normalizer(scores[rows], target[rows]))
    return [*found, torch.tensor(math.nan) if link.log_normalizer is None else link.log_normalizer]


def _one_process(rank, store, out):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=60)
    )
    try:
        with use_kernels("always"):
            parts = [results(split, slice(0, split[0]) if rank == 0 else slice(split[0], sum(split))) for split in SPLITS]
        np.savez(f"{out}{rank}.npz", **{f"{n}/{m}": v.numpy() for n, part in enumerate(parts) for m, v in enumerate(part)})
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.skipif(torch.cuda.is_available(), reason="the processes of this test have CPU tensors")
def test_on_two_processes_value_and_gradients_are_those_of_the_global_batch(tmp_path):
    warm.two_processes(_one_process, str(tmp_path / "store"), str(tmp_path / "out"))
    parts = [dict(np.load(tmp_path / f"out{rank}.npz")) for rank in range(2)]
    for n, split in enumerate(SPLITS):
        for m, expected in enumerate(results(split, slice(None))):
            own = [part[f"{n}/{m}"] for part in parts]
            if expected.ndim:  # gradients, which data-parallel training averages
                np.testing.assert_allclose(np.concatenate(own), 2 * expected.numpy(), rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_allclose(own, [expected.item()] * 2, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_step_of_training_is_recorded_and_replayed():
    state = QuasibinaryLoss().training_state(64, 1081, 0)
    rows = torch.arange(64, device="cuda")
    scores, target = draw(64, 1081, "cuda", present=0.003)
    leaf, marks = scores.clone().requires_grad_(), target.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        state(leaf, marks, rows).backward()
        state(leaf, marks, rows).backward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    leaf.grad = None
    with torch.cuda.graph(graph):
        value = state(leaf, marks, rows)
        value.backward()
    other = QuasibinaryLoss().training_state(64, 1081, 0)
    other.link.log_normalizer = state.link.log_normalizer.clone()
    for seed in (1, 2, 3):
        scores, target = draw(64, 1081, "cuda", seed=seed, present=0.003)
        if seed == 2:
            target &= False
        with torch.no_grad():
            leaf.copy_(scores)
            marks.copy_(target)
        graph.replay()
        own = scores.clone().requires_grad_()
        expected = other(own, target, rows)
        expected.backward()
        assert torch.equal(value, expected)
        assert torch.equal(leaf.grad, own.grad)
        assert torch.equal(state.link.log_normalizer, other.link.log_normalizer)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("shape", [(1024, 1081), (64, 43_000), (8, 100_000)], ids=str)
def test_large_shapes(shape):
    scores, target = draw(*shape, "cuda", present=3 / shape[1])
    value, gradient = with_gradient(quasibinary_loss, scores, target)
    expected, slopes = plain(quasibinary_loss, scores, target)
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), slopes, rtol=1e-4, atol=1e-6 * slopes.abs().amax().item())
