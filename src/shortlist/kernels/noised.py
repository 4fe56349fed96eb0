"""The k-th largest noised score of each row, and the hinge that uses it, on the GPU.

The noise is that of ``noise.py``, so the result is a function of the scores and the seed alone. ``device/noised.py`` explains
how almost all of the noise is never computed.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shortlist.kernels.choice import fused
from shortlist.kernels.derivatives import differentiates_again
from shortlist.kernels.overwriting import room_for_gradient
from shortlist.kernels.registry import operator
from shortlist.kernels.rows import unit_columns
from shortlist.tensors import Reduction, Scores, Target

MOST_ROOM = 8192  # classes of a row that are compared at once: beyond it, the plain form is as fast


def takes_draws(scores: Scores, k: int, samples: int) -> bool:
    """Whether these draws are made on the GPU without a tensor of noise."""
    return fused("noised", scores) and _room(scores.shape[1], k, samples) <= MOST_ROOM


class BatchSeed:
    """The seed of a batch that is given to the loss in parts; drawn when the first part needs it."""

    def __init__(self) -> None:
        self.seed: Tensor | None = None
        self.first_row = 0


_batch: BatchSeed | None = None


@contextmanager
def part_of_batch(batch: BatchSeed, first_row: int) -> Iterator[None]:
    """Inside, scores are those of a batch from this row on: the same noise as if all its rows were there."""
    global _batch
    before, _batch = _batch, batch
    batch.first_row = first_row
    try:
        yield
    finally:
        _batch = before


def new_seed(scores: Scores, generator: torch.Generator | None) -> tuple[Tensor, int]:
    """A seed from torch's generator, int64 (1,), which stays on the device, and the number of the first row."""
    if _batch is not None and _batch.seed is not None:
        return _batch.seed, _batch.first_row
    seed = torch.randint(2**62, (1,), device=scores.device, generator=generator)
    if _batch is None:
        return seed, 0
    _batch.seed = seed
    return seed, _batch.first_row


class Setting(NamedTuple):
    """The numbers of a noised hinge.

    Args:
        k: the rank of the rival.
        epsilon: scale of the noise.
        samples: draws per row.
        margin: the margin of all classes; ignored if there is one for each.
        scale: multiplies the argument of the hinge.
        ignore_index: the label of rows that do not count.
    """

    k: int
    epsilon: float
    samples: int
    margin: float = 0.0
    scale: float = 1.0
    ignore_index: int = 0


def _shapes_of_draws(scores: Scores, seed: Tensor, k: int, epsilon: float, samples: int) -> tuple[Tensor, Tensor]:
    shape = len(scores), samples
    return scores.new_empty(shape, dtype=torch.int32), scores.new_empty(shape, dtype=torch.float32)


@operator("noised_draws(Tensor scores, Tensor seed, int k, float epsilon, int samples) -> (Tensor, Tensor)", _shapes_of_draws)
def noised_draws(scores: Scores, seed: Tensor, k: int, epsilon: float, samples: int) -> tuple[Tensor, Tensor]:
    """The class of the k-th largest noised score in each draw, int32 (N, samples), and the noise there, epsilon included."""
    places, shifts = _shapes_of_draws(scores, seed, k, epsilon, samples)
    notes = _launch(scores, seed, None, None, None, places, None, Setting(k, epsilon, samples), mean=False)
    if notes is not None:
        shifts.copy_(notes[:, -samples:].view(torch.float32))
    return places, shifts


class Hinges(NamedTuple):
    """What the forward pass of the hinge finds.

    Args:
        values: the hinge of each row, float32 (N,).
        places: the class of the k-th largest in each draw, int32 (N, samples).
        reduced: their weighted sum or mean, float32 ().
        divisor: what the sum was divided by, float32 ().
    """

    values: Tensor
    places: Tensor
    reduced: Tensor
    divisor: Tensor


def _shapes_of_hinge(
    scores: Scores,
    seed: Tensor,
    target: Target,
    margins: Tensor | None,
    weight: Tensor | None,
    k: int,
    epsilon: float,
    samples: int,
    margin: float,
    scale: float,
    ignore_index: int,
    mean: bool,
    first_row: int = 0,
) -> Hinges:
    values = scores.new_empty(len(scores), dtype=torch.float32)
    places = scores.new_empty((len(scores), samples), dtype=torch.int32)
    return Hinges(values, places, values.new_empty(()), values.new_empty(()))


@operator(
    "noised_hinge(Tensor scores, Tensor seed, Tensor target, Tensor? margins, Tensor? weight, int k, float epsilon, "
    "int samples, float margin, float scale, int ignore_index, bool mean, int first_row=0) -> (Tensor, Tensor, Tensor, Tensor)",
    _shapes_of_hinge,
)
def noised_hinge(
    scores: Scores,
    seed: Tensor,
    target: Target,
    margins: Tensor | None,
    weight: Tensor | None,
    k: int,
    epsilon: float,
    samples: int,
    margin: float,
    scale: float,
    ignore_index: int,
    mean: bool,
    first_row: int = 0,
) -> Hinges:
    """The hinges of all rows, and their sum or mean; the noise is that of the rows from ``first_row`` on."""
    setting = Setting(k, epsilon, samples, margin, scale, ignore_index)
    found = _shapes_of_hinge(scores, seed, target, margins, weight, *setting, mean)
    if _launch(scores, seed, target, margins, weight, found.places, found, setting, mean=mean, first_row=first_row) is None:
        found.reduced.zero_()
        found.divisor.fill_(1.0)
    return found


def _shape_of_gradient(
    upstream: Tensor,
    weight: Tensor | None,
    divisor: Tensor | None,
    values: Tensor,
    places: Tensor,
    target: Target,
    scores: Scores,
    scale: float,
    ignore_index: int,
) -> Tensor:
    return room_for_gradient(scores)


@operator(
    "noised_hinge_gradient(Tensor upstream, Tensor? weight, Tensor? divisor, Tensor values, Tensor places, Tensor target, "
    "Tensor scores, float scale, int ignore_index) -> Tensor",
    _shape_of_gradient,
)
def noised_hinge_gradient(
    upstream: Tensor,
    weight: Tensor | None,
    divisor: Tensor | None,
    values: Tensor,
    places: Tensor,
    target: Target,
    scores: Scores,
    scale: float,
    ignore_index: int,
) -> Tensor:
    """The gradient of the hinges in the scores, from that of their rows (N,), or of their weighted mean or sum ()."""
    from shortlist.kernels.device.noised import hinge_gradient

    gradient = room_for_gradient(scores)
    rows, columns = gradient.shape
    if rows:
        block = _block(columns)
        step = upstream.stride(0) if upstream.ndim else 0
        hinge_gradient[(rows,)](
            gradient, upstream, weight, divisor, values, places, target, columns, step, scale, ignore_index,
            SAMPLES=places.shape[1], BLOCK=block, WEIGHTED=weight is not None, DIVIDED=divisor is not None,
            num_warps=max(1, min(8, block // 256)),
        )  # fmt: skip
    return gradient


class _NoisedHinge(torch.autograd.Function):
    """Scores to the hinges of their rows, or to the weighted mean or sum of these."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Scores,
        seed: Tensor,
        target: Target,
        margins: Tensor | None,
        weight: Tensor | None,
        reduction: Reduction,
        first_row: int,
        k: int,
        epsilon: float,
        samples: int,
        margin: float,
        scale: float,
        ignore_index: int,
    ) -> Tensor:
        mean = reduction == "mean"
        values, places, reduced, divisor = noised_hinge(
            scores, seed, target, margins, weight, k, epsilon, samples, margin, scale, ignore_index, mean, first_row
        )
        ctx.scale, ctx.ignore_index = scale, ignore_index
        each = reduction == "none"
        ctx.save_for_backward(None if each else weight, None if each else divisor, values, places, target, scores)
        return values if each else reduced

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        kept = *ctx.saved_tensors, ctx.scale, ctx.ignore_index
        if not differentiates_again():
            return (noised_hinge_gradient(upstream, *kept), *(None,) * 12)
        # The hinge is piecewise linear, so its slopes are constants: its gradient depends on the incoming one alone.
        with torch.no_grad():
            slopes = noised_hinge_gradient(torch.ones_like(upstream), *kept)
        return ((slopes * (upstream[:, None] if upstream.ndim else upstream)).to(slopes.dtype), *(None,) * 12)


def noised_hinge_loss(
    scores: Scores,
    target: Target,
    setting: Setting,
    *,
    margins: Tensor | None,
    weight: Tensor | None,
    generator: torch.Generator | None,
    reduction: Reduction,
) -> Tensor:
    """``(scale · (margin_target + t - scores_target))_+``, where t is the mean over draws of the k-th largest noised score.

    Reduced over the rows, with a weight for each class. Ignored rows count 0; rows with a NaN score, or with a label that is
    no class, are NaN.
    """
    seed, first_row = new_seed(scores, generator)
    loss: Tensor = _NoisedHinge.apply(scores, seed, target, margins, weight, reduction, first_row, *setting)  # type: ignore[no-untyped-call]
    if reduction == "none" and weight is not None:
        counted = target != setting.ignore_index
        return loss * torch.where(counted, weight[torch.where(counted, target, 0)], 0.0)
    return loss


def _launch(
    scores: Scores,
    seed: Tensor,
    target: Target | None,
    margins: Tensor | None,
    weight: Tensor | None,
    places: Tensor,
    hinges: Hinges | None,
    setting: Setting,
    *,
    mean: bool,
    first_row: int = 0,
) -> Tensor | None:
    """Fill places, and hinges if given; returns the notes of the kernels, or None for an empty batch."""
    from shortlist.kernels.device.noised import collect_rows, finish_rows, select_draws

    rows, columns = scores.shape
    if not rows:
        return None
    scores = unit_columns(scores)
    k, epsilon, samples, margin, scale, ignore_index = setting
    room, block = _room(columns, k, samples), _block(columns)
    more = min(2 * room, MOST_ROOM)  # for the rows that need it
    notes = torch.empty((rows + 1, more + 2 + samples), dtype=torch.int32, device=scores.device)
    arrived = notes[-1]  # how many programs have ended
    wanted, more_wanted = _wanted(columns, room, samples), _wanted(columns, more, samples)
    values, reduced, divisor = (None, None, None) if hinges is None else (hinges.values, hinges.reduced, hinges.divisor)
    stride, inverse, hinge = scores.stride(0), 1 / epsilon, hinges is not None
    sizes = {"SAMPLES": samples, "ROOM": room, "MORE": more}
    collect_rows[(rows,)](
        scores, seed, target, notes, arrived, columns, stride, epsilon, inverse, wanted, ignore_index, first_row,
        **sizes, BLOCK=block, HINGE=hinge, num_warps=4 if columns <= 8192 else 8,
    )  # fmt: skip
    select_draws[(rows, samples)](
        scores, seed, places, notes, stride, k, epsilon, first_row, **sizes, num_warps=_selection_warps(room)
    )  # fmt: skip
    finish_rows[(rows,)](
        scores, seed, target, margins, weight, values, places, notes, arrived, reduced, divisor,
        columns, stride, k, epsilon, inverse, margin, scale, more_wanted, ignore_index, first_row, rows,
        **sizes, PADDED=_power_of_two(samples), BLOCK=block, HINGE=hinge, MARGINS=margins is not None,
        MEAN=mean, WEIGHTED=weight is not None, num_warps=4,
    )  # fmt: skip
    return notes[:-1]


def _wanted(columns: int, room: int, samples: int) -> float:
    """How many classes should exceed the level in each draw, so that those of all draws together fit into the room.

    All of them, if there is room for all.
    """
    if room >= columns:
        return math.inf
    # The number written down is about Poisson: its mean and three standard deviations must fit.
    return (math.sqrt(room + 2.25) - 1.5) ** 2 / (1.1 * samples)


def _room(columns: int, k: int, samples: int) -> int:
    """Room for the classes that may exceed the level in some draw, a power of two.

    Enough for about three standard deviations more than k in each draw: fewer than k exceed the level in some draw, or there is
    too little room, in one row out of hundreds.
    """
    together = 1.1 * samples * (k + 3.3 * math.sqrt(k) + 3)
    return _power_of_two(min(columns, int(together + 3 * math.sqrt(together))))


def _selection_warps(room: int) -> int:
    """The warps that compare the classes of one draw."""
    return max(1, min(4, room // 128))


def _block(columns: int) -> int:
    return min(1024, max(32, _power_of_two(columns)))


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()
