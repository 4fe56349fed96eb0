"""The two-head loss for average-k sets (Garcin 2023)."""

from fractions import Fraction
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid, pad

from shortlist.checks import number
from shortlist.errors import InputError
from shortlist.kernels.average_k import fused_average_k
from shortlist.kernels.choice import fused
from shortlist.links import Link, Softmax
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss
from shortlist.losses.rows import (
    IGNORING,
    Labels,
    check_reduction,
    global_rows,
    integer_target,
    labelled_rows,
    reduce_coupled,
    single_labels,
    sum_rows,
    without_ignored,
)
from shortlist.processes import gathered, processes, rank, total
from shortlist.tensors import (
    Reduction,
    Scores,
    Target,
    TwoHeadScores,
    check_scores,
    one_hot,
    pick,
    shape_of,
    uncompiled,
)

Rows = TypeVar("Rows", int, Tensor)

FINEST_SHARE = 10**6  # the finest fraction that k is taken as, so that the count of pseudo-labels fits in 64 bits


@domains(k=number(least=1), alpha=number(least=0), **IGNORING)
def average_k_loss(
    scores: Scores,
    target: Target,
    *,
    proposal_scores: Scores,
    k: float,
    alpha: float = 1.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Binary cross-entropy of a multi-label head, whose extra positive labels are proposed by a second, softmax head.

    With ``P = softmax(proposal_scores)`` without gradient, the pseudo-positives S are the ``(k-1)·N`` largest entries of P
    over the whole batch, the true labels excluded, and R is everything that is neither true nor in S:

    .. math:: -\frac1N \sum_i \log \mathrm{softmax}_{target_i}(proposal\_scores_i)
              - \frac1N \sum_i \log σ(scores_{i, target_i})
              - \frac{alpha}{|S|} \sum_S \log σ(scores) - \frac{alpha}{|R|} \sum_R \log(1 - σ(scores))

    The first term trains the proposal head alone, the others the multi-label head alone. Exactly ``(k-1)·N`` entries are
    chosen, rounded half up, ties by lower index; if S or R is empty its term is 0. Couples the rows of the batch, which on
    several processes is the global batch.

    Elicits: the average-k sets of this k, and the order of the labels outside of them; scores of labels inside grow without
    bound, in no particular order. The proposal head elicits probabilities. Link: sigmoid (the paper thresholds a softmax of the
    same scores; both order the labels of a row in the same way).

    Args:
        scores: (N, C), from the multi-label head.
        target: integers (N,).
        proposal_scores: (N, C), from the proposal head.
        k: average number of labels per row, 1 to C, any real number.
        alpha: weight of the pseudo-labels, 0.1 to 10; 0.3 suits CIFAR-100, 5 Pl@ntNet-300K.
        ignore_index: rows with this label are left out of the batch.
        reduction: "mean", or "sum", which is the mean times N.

    Shape: (N, C), (N,), (N, C) → scalar.

    >>> scores = torch.tensor([[2.0, 1.0, 0.0]])
    >>> average_k_loss(scores, torch.tensor([1]), proposal_scores=scores, k=2, alpha=0.5)
    tensor(2.1309)

    Garcin, Servajean, Joly, Salmon, "A two-head loss function for deep average-K classification", 2023, eqs. 10 to 14.
    """
    target = integer_target(scores, target)
    check_scores(proposal_scores, "proposal_scores")
    if proposal_scores.shape != scores.shape:
        raise InputError(f"proposal_scores: expected floating point {tuple(scores.shape)}, got {shape_of(proposal_scores)}")
    if k > scores.shape[1]:
        raise InputError(f"k: expected at most the {scores.shape[1]} classes of scores, got {k:g}")
    check_reduction(reduction, couples=True)
    if can_fuse(scores, proposal_scores):
        labels, more = single_labels(scores, target, ignore_index), more_labels(k).as_integer_ratio()
        return fused_average_k(scores, proposal_scores, labels, ignore_index, more, alpha, summed=reduction == "sum")
    return _plain_average_k(scores, proposal_scores, target, k, alpha, ignore_index, reduction)


def can_fuse(scores: Scores, proposal_scores: Scores) -> bool:
    """Whether the kernels take both heads; several processes choose their pseudo-positives together, in the plain form."""
    together = processes() == 1 and scores.device == proposal_scores.device
    return together and fused("average-k", scores) and fused("average-k", proposal_scores)


def _plain_average_k(
    scores: Scores,
    proposal_scores: Scores,
    given: Target,
    k: float,
    alpha: float,
    ignore_index: int,
    reduction: Reduction,
) -> Tensor:
    """The definition, in torch: the loss of all processes."""
    (target, kept), scores = labelled_rows(scores, given, ignore_index)
    proposal_scores = without_ignored(proposal_scores, kept)
    rows = global_rows(scores, kept)
    barred = barred_entries(target, kept, scores.shape[1])
    chosen = pseudo_positives(proposal_scores, barred, kept, k)
    observed, positive, negative = term_sums(scores, proposal_scores, given, Labels(target, kept), barred, chosen, ignore_index)
    numbers = [total(marks.sum().to(scores.dtype)).clamp(min=1) for marks in (chosen, ~(barred | chosen))]
    loss = total(observed) / rows + alpha * (total(positive) / numbers[0] + total(negative) / numbers[1])
    return reduce_coupled(loss, rows, reduction, scores)


def barred_entries(target: Target, kept: Tensor | None, classes: int) -> Tensor:
    """The entries that are no pseudo-positives, bool (N, C): true labels, and all entries of ignored rows."""
    true = one_hot(target, classes)
    return true if kept is None else true | ~kept[:, None]


def term_sums(
    scores: Scores,
    proposal_scores: Scores,
    given: Target,
    labels: Labels,
    barred: Tensor,
    chosen: Tensor,
    ignore_index: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over these rows: of both terms of the observed label, over pseudo-positives, and over all other entries."""
    proposal = cross_entropy(proposal_scores, given, reduction="sum", ignore_index=ignore_index)
    observed = sum_rows(-logsigmoid(pick(scores, labels.target)), labels.kept)
    positive = torch.where(chosen, -logsigmoid(scores), 0.0).sum()
    negative = torch.where(barred | chosen, 0.0, -logsigmoid(-scores)).sum()
    return proposal + observed, positive, negative


@uncompiled
@torch.no_grad()
def pseudo_positives(proposal_scores: Scores, barred: Tensor, kept: Tensor | None, k: float) -> Tensor:
    """The ``(k-1)·N`` most probable entries of the global batch, bool (N, C).

    Args:
        proposal_scores: (N, C).
        barred: bool (N, C), the entries that cannot be chosen: true labels, and all entries of ignored rows.
        kept: bool (N,), the rows that count; None for all.
        k: average number of labels per row.
    """
    rows, classes = barred.shape
    together = rows if processes() == 1 else int(gathered(torch.tensor(rows, device=barred.device)).sum())
    most = number_chosen(k, together)  # reached if no row is ignored
    if most == 0:
        return torch.zeros_like(barred)
    probs = open_probs(proposal_scores, barred)
    largest = probs.topk(min(most, rows * (classes - 1))).values
    if kept is None and processes() == 1:
        cut, free = largest[-1:], most - (largest > largest[-1]).sum()
    else:
        count = torch.tensor(rows, device=barred.device) if kept is None else kept.sum()
        cut, free = global_cut(largest, number_chosen(k, gathered(count).sum()))
    tied = probs == cut
    chosen = (probs > cut) | (tied & (tied.cumsum(0) <= free))
    return chosen.view(barred.shape)


def open_probs(proposal_scores: Scores, barred: Tensor) -> Tensor:
    """The probabilities of all entries in one row, -1 where they are barred."""
    return proposal_scores.softmax(1).masked_fill_(barred, -1.0).flatten()


def number_chosen(k: float, rows: Rows) -> Rows:
    """``(k-1)·rows`` rounded half up, in whole numbers: k is the decimal that was typed, and 1.3 · 5 in binary is below 6.5."""
    more = more_labels(k)
    return (2 * more.numerator * rows + more.denominator) // (2 * more.denominator)


def more_labels(k: float) -> Fraction:
    """``k - 1`` as a fraction."""
    return (Fraction(str(float(k))) - 1).limit_denominator(FINEST_SHARE)


def global_cut(largest: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The ``wanted``-th largest probability over all processes, and how many entries equal to it this process may choose.

    Nothing here waits for the device on one process. Ties go to the lower process first.

    Args:
        largest: the largest probabilities of this process, in decreasing order.
        wanted: the number of entries to choose.
    """
    lists = largest[None]
    if processes() > 1:
        longest = int(gathered(torch.tensor(len(largest), device=largest.device)).max())
        lists = gathered(pad(largest, (0, longest - len(largest)), value=-1.0))
    ordered = lists.flatten().sort(descending=True).values
    cut = ordered.gather(0, (wanted - 1).clamp(min=0).reshape(1))
    cut = torch.where(wanted > 0, cut, torch.inf)
    return cut, wanted - (lists > cut).sum() - (lists[: rank()] == cut).sum()


class AverageKLoss(Loss):
    """Module form of :func:`average_k_loss`, which also takes the output of a two-head network as it is.

    >>> loss, scores = AverageKLoss(k=2, alpha=0.5), torch.tensor([[2.0, 1.0, 0.0]])
    >>> loss(TwoHeadScores(scores, scores), torch.tensor([1]))
    tensor(2.1309)
    """

    function = staticmethod(average_k_loss)
    elicits = "average-k set"
    couples = True

    def __init__(self, *, k: float, alpha: float = 1.0, ignore_index: int = -100, reduction: Reduction = "mean"):
        super().__init__(k=k, alpha=alpha, ignore_index=ignore_index, reduction=reduction)

    def forward(
        self,
        scores: Scores | TwoHeadScores | tuple[Scores, Scores],
        target: Target,
        *,
        proposal_scores: Scores | None = None,
    ) -> Tensor:
        """The loss of the scores of both heads: a pair ``(scores, proposal_scores)``, or the second by keyword."""
        if isinstance(scores, tuple) and len(scores) == 2 and proposal_scores is None:
            scores, proposal_scores = scores
        if isinstance(scores, tuple) or proposal_scores is None:
            raise InputError(
                "proposal_scores: expected the scores of two heads, as a pair (scores, proposal_scores) or with "
                f"proposal_scores=…, got {'one tensor' if isinstance(scores, Tensor) else 'both'}"
            )
        return average_k_loss(scores, target, proposal_scores=proposal_scores, **self.keywords)

    def link(self) -> Link:
        """Softmax, whose sets are better than those of the sigmoids that the loss trains: ``docs/choosing.md`` has both."""
        return Softmax()
