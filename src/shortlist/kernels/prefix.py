"""The probability of the first labels of each row, without sorting it: values of given labels, and sets, on a GPU.

Sums are of whole numbers, in units of 2⁻⁷⁵, so that they do not depend on their order: a label that lies exactly at a threshold
is within it, whichever function looks at it. :func:`exact_cumsum` is the plain form.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.kernels.registry import operator
from shortlist.kernels.rows import block_of, unit_columns, warps_of
from shortlist.tensors import Probs, Sets

HIGH_BITS, LOW_BITS = 30, 45  # of a probability after the binary point, in two whole numbers: 100,000 of each can be added


class Mass(NamedTuple):
    """How the value of a label follows from the probability of the labels before it.

    Args:
        inclusive: whether its own probability counts.
        slack: rows whose sum is 1 up to this are divided by their sum; below 0 none is.
        penalty: added for each rank beyond ``free``.
        free: ranks without a penalty.
    """

    inclusive: bool
    slack: float = -1.0
    penalty: float = 0.0
    free: int = 0


def exact_cumsum(ordered: Tensor) -> Tensor:
    """The cumulative sums of each row, exact up to one rounding to float64, however the device adds.

    >>> exact_cumsum(torch.tensor([[0.5, 0.25, 0.125]])).tolist()
    [[0.5, 0.75, 0.875]]
    """
    scaled = ordered.double() * 2**HIGH_BITS
    whole = scaled.floor()
    high, low = whole.long().cumsum(1), ((scaled - whole) * 2**LOW_BITS).long().cumsum(1)
    high, low = high + (low >> LOW_BITS), low & (2**LOW_BITS - 1)
    total: Tensor = high.double() * 2.0**-HIGH_BITS + low.double() * 2.0 ** -(HIGH_BITS + LOW_BITS)
    return total


def _shape_of_values(
    probs: Probs, rows: Tensor | None, labels: Tensor, inclusive: bool, slack: float, penalty: float, free: int
) -> Tensor:
    return labels.new_empty(labels.shape, dtype=torch.float64)


@operator(
    "prefix_values(Tensor probs, Tensor? rows, Tensor labels, bool inclusive, float slack, float penalty, int free) -> Tensor",
    _shape_of_values,
)
def prefix_values(
    probs: Probs, rows: Tensor | None, labels: Tensor, inclusive: bool, slack: float, penalty: float, free: int
) -> Tensor:
    """The values of given labels, float64: of one in each row, or of those in these rows."""
    from shortlist.kernels.device.prefix import values_of_labels

    found = _shape_of_values(probs, rows, labels, inclusive, slack, penalty, free)
    if len(labels):
        probs, classes = unit_columns(probs), probs.shape[1]
        values_of_labels[(len(labels),)](
            probs, rows, labels, _numbers(probs, [penalty, slack]), found, classes, probs.stride(0), free,
            ROWS=rows is not None, INCLUSIVE=inclusive, BLOCK=block_of(classes), num_warps=warps_of(classes),
            enable_fp_fusion=False,
        )  # fmt: skip
    return found


def _shape_of_sets(
    probs: Probs, threshold: Tensor, draws: Tensor | None, inclusive: bool, slack: float, penalty: float, free: int
) -> Sets:
    return torch.empty(probs.shape, dtype=torch.bool, device=probs.device)


@operator(
    "prefix_sets(Tensor probs, Tensor threshold, Tensor? draws, bool inclusive, float slack, float penalty, int free) -> "
    "Tensor",
    _shape_of_sets,
)
def prefix_sets(
    probs: Probs, threshold: Tensor, draws: Tensor | None, inclusive: bool, slack: float, penalty: float, free: int
) -> Sets:
    """The labels whose value, minus the draw of the row times their probability, is at most the threshold, bool (N, C)."""
    from shortlist.kernels.device.prefix import sets_of_rows

    sets = _shape_of_sets(probs, threshold, draws, inclusive, slack, penalty, free)
    if sets.numel():
        probs, classes = unit_columns(probs), probs.shape[1]
        numbers = _numbers(probs, [penalty, slack, 0.0])
        numbers[2] = threshold
        sets_of_rows[(len(probs),)](
            probs, None if draws is None else draws.reshape(-1).double(), numbers, sets.view(torch.uint8),
            classes, probs.stride(0), free, DRAWN=draws is not None, INCLUSIVE=inclusive,
            BLOCK=block_of(classes), num_warps=warps_of(classes), enable_fp_fusion=False,
        )  # fmt: skip
    return sets


def _numbers(probs: Tensor, values: list[float]) -> Tensor:
    """Numbers in float64, which a kernel takes only as a tensor, filled without a copy from the host."""
    numbers = torch.empty(len(values), dtype=torch.float64, device=probs.device)
    for place, value in enumerate(values):
        numbers[place].fill_(value)
    return numbers
