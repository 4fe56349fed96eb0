"""A loss for a head that chooses the size of each set (Cortes et al. 2024)."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shortlist.checks import increasing, number, one_of
from shortlist.errors import InputError
from shortlist.links import Link, Softmax
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss
from shortlist.losses.rows import WEIGHTING, expected_of_labels, labelled_rows, marked_nan, reduce_rows, without_ignored
from shortlist.tensors import Reduction, Scores, Target, check_scores, pick, shape_of

COSTS: dict[str, Callable[[int], float]] = {"log": math.log, "linear": float}


@domains(sizes=increasing(least=1), size_weight=number(least=0), size_cost=one_of(*COSTS), **WEIGHTING)
def cardinality_aware_loss(
    scores: Scores,
    target: Target,
    *,
    size_scores: Scores,
    sizes: Sequence[int] = (1, 2, 4, 8),
    size_weight: float = 0.05,
    size_cost: str = "log",
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Cross-entropy of the labels, and that of a second head which chooses the size of each set by what it costs.

    A set of the ``sizes[j]`` highest scores costs 1 if it misses the label, and ``size_weight · cost(sizes[j])`` for its
    size, where cost is the logarithm or the size itself. With ``m`` the highest cost possible, that of a miss with the largest
    size,

    .. math:: c_j = \tfrac1m \big([target \notin \mathrm{top}_{sizes_j}(scores)] + size\_weight \cdot cost(sizes_j)\big)

    .. math:: -\log \mathrm{softmax}_{target}(scores) - \sum_j (1 - c_j) \log \mathrm{softmax}_j(size\_scores)

    The first term trains the scores alone (for a classifier that is not trained any more it is a constant), the second the
    size scores alone. Ties between scores are broken by lower index.

    Elicits: probabilities. The largest size score is that of the size whose expected cost is lowest, since softmax(size_scores)
    becomes proportional to the expectation of ``1 - c``. Where probabilities can be trusted no second head is needed: with a
    linear cost, the cheapest of all sets holds the labels with a probability above ``size_weight``. Link: softmax.

    Args:
        scores: (N, C).
        target: integers (N,).
        size_scores: (N, S), one for each size.
        sizes: S sizes of sets, increasing, each from 1 to C.
        size_weight: what a unit of cost counts beside a miss; 0.05 to 0.1 in the paper.
        size_cost: "log" or "linear".
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,), (N, S) → scalar, or (N,) with ``reduction="none"``.

    >>> scores, size_scores = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> cardinality_aware_loss(scores, torch.tensor([1]), size_scores=size_scores, sizes=(1, 2))
    tensor(1.7544)

    Cortes, Mao, Mohri, Mohri, Zhong, "Cardinality-aware set prediction and top-k classification", 2024: the cost-sensitive
    logistic loss.
    """
    labels, counted = labelled_rows(scores, target, ignore_index)
    _check_sizes(scores, size_scores, sizes)
    choices = torch.log_softmax(without_ignored(size_scores, labels.kept), dim=1)
    costs = set_costs(counted.detach(), labels.target, sizes, size_weight, size_cost)
    values = cross_entropy(counted, labels.target, reduction="none")
    values = values + expected_of_labels(1 - costs, -choices)
    return reduce_rows(marked_nan(values, choices), labels, weight, reduction, counted)


def set_costs(scores: Scores, target: Target, sizes: Sequence[int], size_weight: float, size_cost: str) -> Tensor:
    """What the set of each size costs for each row, from 0 to 1, (N, S)."""
    true = pick(scores, target)[:, None]
    before = torch.arange(scores.shape[1], device=scores.device) < target[:, None]
    rank = ((scores > true) | ((scores == true) & before)).sum(1, keepdim=True)
    of_sizes = [size_weight * COSTS[size_cost](size) for size in sizes]
    missed: Tensor = (rank >= torch.tensor(sizes, device=scores.device)).to(scores.dtype)
    return (missed + scores.new_tensor(of_sizes)) / (1 + of_sizes[-1])


def _check_sizes(scores: Scores, size_scores: Scores, sizes: Sequence[int]) -> None:
    if sizes[-1] > scores.shape[1]:
        raise InputError(f"sizes: expected at most the {scores.shape[1]} classes of scores, got {sizes[-1]}")
    check_scores(size_scores, "size_scores")
    expected = (len(scores), len(sizes))
    if size_scores.shape != expected:
        raise InputError(
            f"size_scores: expected floating point {expected}, one for each of the sizes, got {shape_of(size_scores)}"
        )


class CardinalityAwareLoss(Loss):
    """Module form of :func:`cardinality_aware_loss`."""

    function = staticmethod(cardinality_aware_loss)
    elicits = "probabilities"

    def __init__(
        self,
        *,
        sizes: Sequence[int] = (1, 2, 4, 8),
        size_weight: float = 0.05,
        size_cost: str = "log",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ):
        super().__init__(
            sizes=sizes,
            size_weight=size_weight,
            size_cost=size_cost,
            weight=weight,
            ignore_index=ignore_index,
            reduction=reduction,
        )

    def forward(self, scores: Scores, target: Target, *, size_scores: Scores) -> Tensor:  # type: ignore[override]
        """The loss of the scores of both heads."""
        return cardinality_aware_loss(scores, target, size_scores=size_scores, **self.keywords)

    @property
    def has_row_terms(self) -> bool:
        """No: its rows have scores of a second head."""
        return False

    def link(self) -> Link:
        """Softmax."""
        return Softmax()
