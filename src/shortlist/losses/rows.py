"""What losses share about the rows of a batch: which of them count, by how much, and how they are reduced to one number."""

from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.checks import (
    LARGEST_COUNT,
    SLACK,
    Check,
    check_each_class,
    check_labels_now,
    labels_fit,
    optional,
    per_class,
    whole,
)
from shortlist.errors import InputError
from shortlist.processes import total
from shortlist.tensors import (
    Reduction,
    Scores,
    Target,
    as_target,
    check_scores,
    check_target,
    check_tensor,
    is_single_label,
    one_hot,
    reduce,
    shape_of,
    working,
)

IGNORING: dict[str, Check] = {"ignore_index": whole(-LARGEST_COUNT)}
WEIGHTING: dict[str, Check] = {"weight": optional(per_class(least=0)), **IGNORING}


class Labels(NamedTuple):
    """One label per row, and which rows count.

    Args:
        target: int64 (N,); class 0 for ignored rows, so that it can be used as an index everywhere.
        kept: bool (N,), False for ignored rows; None if every row is known to count.
    """

    target: Target
    kept: Tensor | None


def integer_target(scores: Scores, target: Target, name: str = "scores") -> Target:
    """The target, checked against the scores; integer labels of any dtype become int64."""
    check_scores(scores, name)
    check_tensor(target, "target")
    target = as_target(target)
    check_target(scores, target, name)
    return target


def soft_target(scores: Scores, target: Target, *, one_label: bool) -> Tensor | None:
    """The shares of the labels of each row, (N, C), in the precision of the loss; None if the target is labels or marks.

    Args:
        scores: (N, C).
        target: of which floating point (N, C) are shares: how probable each label is, or how many of the votes it got.
        one_label: whether every row has one label, so that its shares sum to 1.
    """
    if not isinstance(target, Tensor) or not target.is_floating_point() or target.ndim != 2:
        return None
    check_scores(scores)
    if target.shape != scores.shape:
        raise InputError(f"target: expected shares {tuple(scores.shape)} like scores, got {shape_of(target)}")
    if target.device != scores.device:
        raise InputError(f"target is on {target.device} and scores on {scores.device}: move one to the other")
    if target.device.type == "cpu" and not torch.compiler.is_compiling():
        _check_shares(target, one_label)
    return target.detach().to(working(scores).dtype)


def _check_shares(target: Tensor, one_label: bool) -> None:
    outside = ~((target >= -SLACK) & (target <= 1 + SLACK))
    if outside.any():
        raise InputError(f"target: expected shares from 0 to 1, got {target[outside][0].item():g}: divide votes by their sum")
    sums = target.double().sum(1)
    wrong = (sums - 1).abs() > SLACK
    if one_label and wrong.any():
        raise InputError(
            f"target: expected shares that sum to 1 in each row, got a sum of {sums[wrong][0].item():g}; if it holds zeros and "
            "ones, give target.bool()"
        )


def labelled_rows(scores: Scores, target: Target, ignore_index: int) -> tuple[Labels, Scores]:
    """The checked labels and the scores of a loss that takes one label per row; half precision becomes float32.

    On the CPU the labels are looked at: those out of range are refused, and without an ignored row nothing has to be masked.
    Elsewhere that would wait for the device.
    """
    return counted_rows(scores, single_labels(scores, target, ignore_index), ignore_index)


def counted_rows(scores: Scores, target: Target, ignore_index: int) -> tuple[Labels, Scores]:
    """The same for a target that has been checked."""
    kept = target != ignore_index
    if target.device.type == "cpu" and not torch.compiler.is_compiling() and kept.all():
        return Labels(target, None), working(scores)
    return Labels(torch.where(kept, target, 0), kept), without_ignored(scores, kept)


def single_labels(scores: Scores, target: Target, ignore_index: int) -> Target:
    """The checked target of a loss that takes one label per row; on the CPU the labels are looked at too."""
    target = integer_target(scores, target)
    if not is_single_label(target):
        raise InputError(f"target: expected int64 ({scores.shape[0]},), one label per row, got {shape_of(target)}")
    # Most batches have no ignored row: then the labels are looked at without a copy.
    looked_at = target.device.type == "cpu" and not torch.compiler.is_compiling()
    if looked_at and not labels_fit(target, scores.shape[1]):
        check_labels_now(target[target != ignore_index], scores.shape[1])
    return target


def without_ignored(scores: Scores, kept: Tensor | None) -> Scores:
    """The scores with those of ignored rows at 0, so that whatever they hold has neither loss nor gradient."""
    return working(scores) if kept is None else torch.where(kept[:, None], working(scores), 0.0)


def any_labels(scores: Scores, target: Target, name: str = "scores") -> Target:
    """The checked target of a loss that takes any number of labels per row: bool (N, C), or int64 (N,)."""
    target = integer_target(scores, target, name)
    check_labels_now(target, scores.shape[1])
    return target


def label_marks(scores: Scores, target: Target, name: str = "scores") -> Tensor:
    """The same as bool (N, C)."""
    return one_hot(any_labels(scores, target, name), scores.shape[1])


def reduce_rows(
    values: Tensor, labels: Labels, weight: Tensor | None, reduction: Reduction, scores: Scores, *, no_nan: bool = False
) -> Tensor:
    """Mean, sum or rows of the values (N,): ignored rows are 0, the others are multiplied by the weight of their class.

    The mean is ``Σ weight_y · value / Σ weight_y`` over the rows that count, and 0 if there are none. With ``no_nan`` no score
    is NaN, so none has to be looked for.
    """
    values = values if no_nan else marked_nan(values, scores)
    if labels.kept is None and weight is None:
        return reduce(values, reduction)
    shares = row_shares(values, labels, weight, scores)
    values = values if labels.kept is None else torch.where(labels.kept, values, 0.0)
    values = values if weight is None else shares * values
    if reduction != "mean":
        return reduce(values, reduction)
    whole = shares.sum()
    return values.sum() / torch.where(whole > 0, whole, 1.0)


def reduce_weighted(values: Tensor, shares: Tensor, reduction: Reduction) -> Tensor:
    """Mean, sum or rows of values (N,) that a GPU kernel has multiplied by their shares (N,), 0 for ignored rows."""
    if reduction != "mean":
        return reduce(values, reduction)
    return values.sum() / shares.sum().clamp(min=torch.finfo(shares.dtype).tiny)


def row_shares(values: Tensor, labels: Labels, weight: Tensor | None, scores: Scores) -> Tensor:
    """How much each row counts in a mean, (N,): the weight of its class, or 1; nothing if it is ignored."""
    shares = torch.ones_like(values) if weight is None else check_each_class(weight, scores, "weight")[labels.target]
    return shares if labels.kept is None else torch.where(labels.kept, shares, 0.0)


def mean_share(scores: Scores, target: Target | None, weight: Tensor | None, ignore_index: int | None) -> Tensor | float:
    """What the sum of a loss over rows is multiplied by to give its mean; of the scores only shape, dtype and device are used.

    Args:
        scores: (N, C).
        target: the labels; None if the loss takes none.
        weight: (C,), the weights of the classes; None if there are none.
        ignore_index: the label of rows that do not count; None if the loss ignores no rows.
    """
    if target is None or ignore_index is None or not is_single_label(target):
        return 1 / max(1, len(scores))
    kept = target != ignore_index
    if weight is None:
        whole = kept.sum().to(torch.promote_types(scores.dtype, torch.float32))
    else:
        known = kept & (target >= 0) & (target < scores.shape[1])
        shares = check_each_class(weight, scores, "weight")[torch.where(known, target, 0)]
        whole = torch.where(kept, shares, 0.0).sum()
    return 1 / torch.where(whole > 0, whole, 1.0)


def class_weight(weight: Tensor | None, scores: Scores) -> Tensor | None:
    """The weights as kernels read them, checked."""
    return None if weight is None else check_each_class(weight, scores, "weight")


def excess(rival: Tensor, true: Tensor) -> Tensor:
    """``rival - true``, (N,); infinite if the true class is ruled out (-inf), even if its rivals are too."""
    return torch.where((rival == -torch.inf) & (true == -torch.inf), 0.0, rival) - true


def expected_of_labels(shares: Tensor, values: Tensor) -> Tensor:
    """``Σ_j shares_j · values_j`` of each row, (N,); a label without a share costs nothing, however much it would."""
    return (shares * torch.where(shares == 0, 0.0, values)).sum(1)


def check_no_weight(weight: Tensor | None, target: Target) -> None:
    """Class weights are for one label per row: with several, a row has no class of its own."""
    if weight is not None:
        raise InputError(f"weight: expected none unless target has one label per row, got a target of {shape_of(target)}")


def sum_rows(values: Tensor, kept: Tensor | None) -> Tensor:
    """The sum of the values of the rows that count; values are (N,) or (N, C)."""
    if kept is None:
        return values.sum()
    return torch.where(kept, values if values.ndim == 1 else values.sum(1), 0.0).sum()


def check_reduction(reduction: str, *, couples: bool) -> None:
    """The reduction is known; losses that couple the rows of a batch have no value per row."""
    if reduction not in ("mean", "sum", "none"):
        raise InputError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")
    if couples and reduction == "none":
        raise InputError("reduction: expected 'mean' or 'sum', got 'none': this loss couples the rows of a batch")


def reduce_labels(values: Tensor, reduction: Reduction, scores: Scores) -> Tensor:
    """Mean, sum or rows of the values (N,) of a loss that takes any number of labels per row."""
    return reduce(marked_nan(values, scores), reduction)


def reduce_coupled(mean: Tensor, rows: Tensor, reduction: str, scores: Scores) -> Tensor:
    """The reduction of a loss that is computed as the mean over the global batch; its sum is the mean times the rows."""
    check_reduction(reduction, couples=True)
    spoilt = total(scores.detach().amax(1).isnan().any().to(mean.dtype)) > 0
    mean = torch.where(spoilt, torch.nan, mean)
    return mean * rows if reduction == "sum" else mean


def marked_nan(values: Tensor, scores: Scores) -> Tensor:
    """The values of the rows, NaN where a score of the row is NaN.

    A hinge, a maximum or a mask can hide such a score from the loss, while the gradient, or the next step, is NaN all the
    same. Every loss ends in one of the reductions here, so none can.
    """
    return torch.where(scores.detach().amax(1).isnan(), torch.nan, values)


def global_rows(scores: Scores, kept: Tensor | None = None) -> Tensor:
    """The number of rows of the global batch that count, clamped to 0.5 so that 0/0 gives 0."""
    own = scores.new_full((), len(scores)) if kept is None else kept.sum().to(scores.dtype)
    return total(own).clamp(min=0.5)
