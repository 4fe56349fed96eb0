"""A linear head and its loss together, some rows at a time, so that the scores of all rows are never stored."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from shortlist.checks import optional, whole
from shortlist.errors import InputError
from shortlist.kernels.noised import BatchSeed, part_of_batch
from shortlist.kernels.overwriting import has_one_reader, overwriting
from shortlist.losses.average_k import AverageKLoss
from shortlist.losses.head_gradients import ChunkedHead, Features, with_gradients
from shortlist.losses.linear_average_k import average_k_of_chunks
from shortlist.losses.loss import Loss, RowTerm
from shortlist.losses.rows import integer_target, soft_target
from shortlist.processes import processes
from shortlist.tensors import Scores, Target, by_device, check_tensor, shape_of, uncompiled

# Scores of a chunk, at least and at most. On a GPU 100 to 400 MB in bfloat16: matrix products need several hundred rows to be
# fast, and every chunk reads and writes the gradient of the weight once more.
FEWEST_ENTRIES = {"cpu": 2**22, "any": 6 * 2**23}
MOST_ENTRIES = {"cpu": 2**22, "any": 24 * 2**23}
FEWEST_CHUNKS = 4  # between the two, so that a chunk takes little of what the scores of all rows would
ROWS_MULTIPLE = 64  # of which the rows of a chunk are a multiple, as matrix products prefer
# In float16, gradients are computed this many times too large, like those of a scaled loss: most would be below its range.
FLOAT16_SCALE = 16.0

Weights = Tensor | tuple[Tensor, Tensor]
Biases = Tensor | None | tuple[Tensor | None, Tensor | None]


def supports_linear(loss: Loss) -> bool:
    """Whether :func:`loss_of_linear` takes this loss: a sum or mean over rows, or the average-k loss on one process."""
    return processes() == 1 if isinstance(loss, AverageKLoss) else loss.has_row_terms


@uncompiled
def loss_of_linear(
    loss: Loss, inputs: Tensor, weight: Weights, bias: Biases, target: Target | None, *, rows_at_once: int | None = None
) -> Tensor:
    r"""The loss of the scores of a linear head, computed for some rows at a time: for very many classes.

    .. math:: loss(inputs \cdot weight^T + bias, target)

    The same value and the same gradients as computing the scores first, but scores are there only for ``rows_at_once`` rows.
    The gradient in the scores of these rows is turned at once into those in ``inputs``, ``weight`` and ``bias``, so the work is
    done in the forward pass, and the backward pass only multiplies by the incoming gradient. The gradient in ``weight`` is
    summed in float32. With ``reduction="none"`` the scores are computed again in the backward pass. The average-k loss needs
    a threshold of the whole batch first, for which the scores of the proposal head are computed several times.

    Under ``torch.autocast`` the scores have its dtype, as those of ``torch.nn.Linear`` do. Noise that GPU kernels draw is a
    function of the seed and the row, so it does not depend on ``rows_at_once``; draws on the CPU, and those of antithetic
    pairs, do, in value but not in distribution. ``torch.compile`` leaves this function out of its graphs.

    Args:
        loss: a loss module that is a sum or mean over rows, :class:`PenalisedLoss` of such included, or
            :class:`AverageKLoss`; see :func:`supports_linear`.
        inputs: features (N, F).
        weight: (C, F); for :class:`AverageKLoss` a pair, of the multi-label head and of the proposal head.
        bias: (C,), or None; for :class:`AverageKLoss` a pair of these.
        target: as the loss takes it.
        rows_at_once: default None, as many as have 50 to 200 million scores together on a GPU and 4 million elsewhere.

    Shape: (N, F), (C, F), (C,), (N,) or (N, C) → scalar, or (N,) with ``reduction="none"``.

    >>> from shortlist.losses import CrossEntropyLoss
    >>> weight, bias = torch.tensor([[2.0], [1.0], [0.0]]), torch.zeros(3)
    >>> loss_of_linear(CrossEntropyLoss(), torch.tensor([[1.0]]), weight, bias, torch.tensor([1]))
    tensor(1.4076)
    """
    weights, biases = _checked(loss, inputs, weight, bias)
    step = optional(whole(1))("rows_at_once", rows_at_once)
    kind = _score_dtype(inputs)
    scores = inputs.new_empty((), dtype=kind).expand(len(inputs), len(weights[0]))  # a shape, without memory
    if target is not None and soft_target(scores, target, one_label=False) is None:
        target = integer_target(scores, target)
    chunks = list(_chunks(scores, step))
    reduction = getattr(loss, "reduction", "mean")
    if reduction == "none":
        return _each_row(loss, inputs, weights[0], biases[0], target, chunks)
    trains = torch.is_grad_enabled()
    scale = _scale(kind, len(inputs), reduction)
    with torch.no_grad(), torch.autocast(inputs.device.type, enabled=False), torch.cuda.device_of(inputs):
        features = Features(inputs, kind, trains=trains)
        heads = [ChunkedHead(features, *parameters) for parameters in zip(weights, biases, strict=True)]
        if isinstance(loss, AverageKLoss):
            assert target is not None
            value = average_k_of_chunks(loss, heads[0], heads[1], scores, target, chunks, scale)
        else:
            value = _sum_of_chunks(heads[0], loss.row_terms(scores, target), target, chunks, scale)
        gradients = [features.gradient, *(gradient for head in heads for gradient in head.gradients())]
    parameters = [parameter for head in zip(weights, biases, strict=True) for parameter in head]
    return with_gradients(value, 1 / scale, gradients, [inputs, *parameters])


def _checked(loss: Loss, inputs: Tensor, weight: Weights, bias: Biases) -> tuple[list[Tensor], list[Tensor | None]]:
    """The weights and biases of each head."""
    if not isinstance(loss, Loss) or not supports_linear(loss):
        raise InputError(
            "loss: expected a loss module that is a sum or mean over rows, or AverageKLoss on one process, got "
            f"{type(loss).__name__}: compute the scores first"
        )
    number = 2 if isinstance(loss, AverageKLoss) else 1
    weights = list(weight) if isinstance(weight, tuple) else [weight]
    biases: list[Tensor | None] = [bias] if isinstance(bias, Tensor) else [None] * len(weights) if bias is None else [*bias]
    check_tensor(inputs, "inputs")
    if len(weights) != number or len(biases) != number:
        wanted = "a pair, of the multi-label head and of the proposal head," if number == 2 else "one tensor"
        raise InputError(f"weight: expected {wanted} for {type(loss).__name__}, got {len(weights)} and {len(biases)} for bias")
    if inputs.ndim != 2 or not inputs.is_floating_point():
        raise InputError(f"inputs: expected floating point (N, F), got {shape_of(inputs)}")
    for part, limits in zip(weights, biases, strict=True):
        check_tensor(part, "weight")
        if part.shape != (len(weights[0]), inputs.shape[1]) or not part.is_floating_point():
            raise InputError(f"weight: expected floating point (C, {inputs.shape[1]}), got {shape_of(part)}")
        if limits is not None and limits.shape != part.shape[:1]:
            raise InputError(f"bias: expected floating point ({len(part)},), got {shape_of(limits)}")
        if not torch.is_autocast_enabled(inputs.device.type) and part.dtype != inputs.dtype:
            raise InputError(f"weight: expected the dtype of inputs, {inputs.dtype}, got {part.dtype}: convert one of them")
    return weights, biases


def _score_dtype(inputs: Tensor) -> torch.dtype:
    """The dtype of the scores: that of the inputs, or that of autocast, which leaves float64 alone."""
    device = inputs.device.type
    if inputs.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return inputs.dtype
    return torch.get_autocast_dtype(device)


def _chunks(scores: Scores, step: int | None) -> Iterator[slice]:
    """Slices of about equally many rows; one, without rows, for an empty batch."""
    rows, classes = scores.shape
    if step is None:
        entries = min(rows * classes // FEWEST_CHUNKS, by_device(MOST_ENTRIES, scores))
        most = max(1, max(entries, by_device(FEWEST_ENTRIES, scores)) // classes)
        step = -(-rows // max(1, -(-rows // most)))
        step = -(-step // ROWS_MULTIPLE) * ROWS_MULTIPLE
    for start in range(0, max(1, rows), max(1, step)):
        yield slice(start, min(start + step, rows))


def _scale(kind: torch.dtype, rows: int, reduction: str) -> float:
    """What gradients are multiplied by until the backward pass."""
    if kind != torch.float16:
        return 1.0
    return FLOAT16_SCALE if reduction == "sum" else FLOAT16_SCALE * max(1, rows)


def _sum_of_chunks(head: ChunkedHead, terms: list[RowTerm], target: Target | None, chunks: list[slice], scale: float) -> Tensor:
    """The loss, while the head collects its gradients."""
    batch = BatchSeed()
    kind = torch.promote_types(head.weight.dtype, torch.float32)
    upstream = [torch.zeros((), dtype=kind, device=head.weight.device) + scale * term.share for term in terms]
    sums: list[list[Tensor]] = []
    for rows in chunks:
        with part_of_batch(batch, rows.start):
            sums.append(_chunk(head, terms, rows, None if target is None else target[rows], upstream))
    totals = [torch.stack(list(parts)).sum() * term.share for parts, term in zip(zip(*sums, strict=True), terms, strict=True)]
    return torch.stack(totals).sum() if len(totals) > 1 else totals[0]


def _chunk(head: ChunkedHead, terms: list[RowTerm], rows: slice, target: Target | None, upstream: list[Tensor]) -> list[Tensor]:
    """The sum of each term over these rows."""
    scores = head.scores(rows)
    if not head.trains:
        return [term.summed(scores, target) for term in terms]
    scores.requires_grad_()
    with torch.enable_grad():
        sums = [term.summed(scores, target) for term in terms]
    spent = [scores] if len(sums) == 1 and has_one_reader(scores, sums[0]) else []
    with overwriting(*spent):
        (gradient,) = torch.autograd.grad(sums, scores, upstream)
    head.add(rows, gradient)
    return [part.detach() for part in sums]


def _each_row(
    loss: Loss, inputs: Tensor, weight: Tensor, bias: Tensor | None, target: Target | None, chunks: list[slice]
) -> Tensor:
    """The loss of each row; the scores are computed again in the backward pass, where the gradient of each row is known."""
    batch = BatchSeed()

    def values(first: int, some: Tensor, weight: Tensor, bias: Tensor | None, target: Target | None) -> Tensor:
        with part_of_batch(batch, first):
            rows: Tensor = loss(linear(some, weight, bias), target)
            return rows

    parts = [
        checkpoint(
            partial(values, rows.start),
            inputs[rows],
            weight,
            bias,
            None if target is None else target[rows],
            use_reentrant=False,
        )
        for rows in chunks
    ]
    return torch.cat(parts)
