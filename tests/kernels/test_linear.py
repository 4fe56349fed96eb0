"""A linear head and its loss, chunk by chunk, with the kernels: the same as the kernels on all scores, noise included."""

import gc

import pytest
import torch
from torch.nn.functional import linear

from shortlist import losses
from shortlist.kernels.average_k import ROUNDS
from shortlist.losses import loss_of_linear
from shortlist.losses.head_gradients import ChunkedHead, Features

ROWS, CLASSES, FEATURES = 11, 33, 5
LOSSES = [
    losses.NoisedTopkHingeLoss(k=3),
    losses.NoisedTopkHingeLoss(k=3, weight=torch.linspace(0, 2, CLASSES), ignore_index=2),
    losses.NoisedTopkHingeLoss(k=3, samples=2, margin=torch.linspace(0, 1, CLASSES), reduction="sum"),
    losses.NoisedTopkHingeLoss(k=3, reduction="none"),
    losses.NoisedTopkHingeLoss(k=2, smoothing="soft"),
    losses.SparseTopLoss(),
    losses.SpaLoss(),
    losses.AsymmetricFocalLoss(),
    losses.BinaryCrossEntropyLoss(),
    losses.PenalisedLoss(losses.SpaLoss(), losses.LabelPairPenalty()),
    losses.CrossEntropyLoss(),
]


def drawn(device, *shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device).requires_grad_()


def both(loss, scores, chunked, leaves):
    values = []
    for compute in (scores, chunked):
        torch.manual_seed(7)
        value = compute()
        gradient = torch.linspace(0.5, 1.5, value.numel(), device=value.device).reshape(value.shape)
        values.append((value.detach(), *torch.autograd.grad(value, leaves, gradient)))
    for theirs, mine in zip(*values, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_like_the_kernels_on_all_scores(device, loss):
    loss = loss.to(device)
    leaves = [drawn(device, ROWS, FEATURES), drawn(device, CLASSES, FEATURES, seed=1), drawn(device, CLASSES, seed=2)]
    target = torch.arange(ROWS, device=device) % CLASSES
    both(
        loss,
        lambda: loss(linear(*leaves), target),
        lambda: loss_of_linear(loss, *leaves, target, rows_at_once=4),
        leaves,
    )


@pytest.mark.parametrize("rows_at_once", [1, 4, 11])
@pytest.mark.parametrize("k", [1, 2.5, 5])
def test_average_k(device, k, rows_at_once):
    loss = losses.AverageKLoss(k=k, alpha=0.7)
    inputs = drawn(device, ROWS, FEATURES)
    heads = [drawn(device, CLASSES, FEATURES, seed=n) for n in (1, 2)]
    target = torch.arange(ROWS, device=device) % CLASSES
    target[5] = -100
    both(
        loss,
        lambda: loss(tuple(linear(inputs, weight) for weight in heads), target),
        lambda: loss_of_linear(loss, inputs, tuple(heads), None, target, rows_at_once=rows_at_once),
        [inputs, *heads],
    )


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_average_k_without_gradients(device, reduction):
    loss = losses.AverageKLoss(k=3, reduction=reduction)
    inputs, one, other = (drawn(device, n, FEATURES, seed=n).detach() for n in (ROWS, CLASSES, CLASSES))
    target = torch.arange(ROWS, device=device) % CLASSES
    found = loss_of_linear(loss, inputs, (one, other), None, target, rows_at_once=3)
    torch.testing.assert_close(found, loss((linear(inputs, one), linear(inputs, other)), target), rtol=1e-5, atol=1e-6)


def test_average_k_computes_no_chunk_of_proposal_scores_twice_in_a_row(device, monkeypatch):
    computed, scores = [], ChunkedHead.scores
    monkeypatch.setattr(ChunkedHead, "scores", lambda head, rows: computed.append((head, rows.start)) or scores(head, rows))
    inputs, one, other = (drawn(device, n, FEATURES, seed=n) for n in (ROWS, CLASSES, CLASSES))
    loss_of_linear(losses.AverageKLoss(k=3), inputs, (one, other), None, torch.arange(ROWS, device=device), rows_at_once=4)
    heads = [head for head, _ in computed]
    assert sorted(heads.count(head) for head in set(heads)) == [3, (ROUNDS + 1) * 2 + 1]
    assert [start for head, start in computed if head is not heads[0]] == [0, 4, 8]


gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("loss", [*LOSSES[:1], *LOSSES[4:7], *LOSSES[10:]], ids=str)
def test_recorded_in_a_cuda_graph(loss):
    loss = loss.to("cuda")
    leaves = [drawn("cuda", ROWS, FEATURES), drawn("cuda", CLASSES, FEATURES, seed=1), drawn("cuda", CLASSES, seed=2)]
    target = torch.arange(ROWS, device="cuda") % CLASSES
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.autograd.grad(loss_of_linear(loss, *leaves, target, rows_at_once=4), leaves)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = loss_of_linear(loss, *leaves, target, rows_at_once=4)
        gradients = torch.autograd.grad(value, leaves)
    graph.replay()
    assert value.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("loss", [LOSSES[0], LOSSES[6], losses.CrossEntropyLoss(), losses.AverageKLoss(k=5)], ids=str)
def test_bfloat16_at_full_size_in_a_quarter_of_the_memory(loss):
    rows, features, classes = 4096, 768, 43_000
    two = isinstance(loss, losses.AverageKLoss)
    inputs = drawn("cuda", rows, features)
    weights = [(0.05 * drawn("cuda", classes, features, seed=n).detach()).requires_grad_() for n in range(1 + two)]
    biases = [torch.zeros(classes, device="cuda", requires_grad=True) for _ in weights]
    target = torch.randint(classes, (rows,), device="cuda")

    def whole():
        scores = [linear(inputs, *head) for head in zip(weights, biases, strict=True)]
        return loss(tuple(scores) if two else scores[0], target)

    def chunked():
        heads = (tuple(weights), tuple(biases)) if two else (weights[0], biases[0])
        return loss_of_linear(loss, inputs, *heads, target)

    found, peaks = [], []
    for compute in (whole, chunked):
        torch.manual_seed(3)
        gc.collect()  # what other tests have left is not freed in between
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with torch.autocast("cuda", torch.bfloat16):
            value = compute()
        gradients = torch.autograd.grad(value, [inputs, *weights, *biases])
        kept = sum(4 * part.numel() for part in gradients)
        peaks.append(torch.cuda.max_memory_allocated() - before - kept)
        found.append([value.detach().cpu(), *(part.cpu() for part in gradients)])
        del value, gradients
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-3, atol=1e-4)
    for mine, theirs in zip(found[1][1:], found[0][1:], strict=True):
        assert (mine - theirs).norm() < 0.01 * theirs.norm()
    assert peaks[1] <= peaks[0] / 4


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 7, 513, 1024])
def test_gradients_of_a_bias_in_half_precision_are_exact_sums(rows, dtype):
    inputs = Features(drawn("cuda", rows, FEATURES).to(dtype), dtype, trains=True)
    head = ChunkedHead(inputs, drawn("cuda", 10_001, FEATURES), drawn("cuda", 10_001))
    gradients = [drawn("cuda", rows, 10_001, seed=seed).detach().to(dtype) for seed in (3, 4)]
    with torch.no_grad():
        for gradient in gradients:
            head.add(slice(0, rows), gradient)
    expected = sum(gradient.double().sum(0) for gradient in gradients)
    torch.testing.assert_close(head.bias_gradient.double(), expected, rtol=1e-5, atol=1e-4)
