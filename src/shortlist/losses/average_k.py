"""The two-head loss for average-k sets (Garcin 2023)."""

import math
from fractions import Fraction

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

from shortlist.checks import number
from shortlist.errors import InputError
from shortlist.links import Link, Sigmoid
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss, global_rows, reduce_coupled
from shortlist.processes import gathered, processes, total
from shortlist.tensors import Reduction, Scores, Target, check_scores, check_single_label, one_hot, pick, shape_of, working


@domains(k=number(least=1), alpha=number(least=0))
def average_k_loss(
    scores: Scores,
    target: Target,
    *,
    proposal_scores: Scores,
    k: float,
    alpha: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Cross-entropy proposes which other labels could be right; the multi-label head learns to return them too.

    With ``P = softmax(proposal_scores)`` without gradient, the pseudo-positives S are the ``(k-1)·N`` largest entries of P
    over the whole batch, the true ones left out, and the rest R is everything neither true nor in S:

    .. math:: -\frac1N \sum_i \log \mathrm{softmax}_{target_i}(proposal\_scores_i)
              - \frac1N \sum_i \log σ(scores_{i, target_i})
              - \frac{alpha}{|S|} \sum_S \log σ(scores) - \frac{alpha}{|R|} \sum_R \log(1 - σ(scores))

    The first term trains the proposal head alone, the others the multi-label head alone. Exactly ``(k-1)·N`` entries are
    chosen, rounded half up, ties by lower index; where S or R is empty its term is 0. Couples the batch: on several
    processes it is the global one.

    Elicits: the average-k sets of this k, and the order of the labels outside of them; labels inside all grow without end,
    at no particular order. The proposal head elicits probabilities. Link: sigmoid (the paper thresholds a softmax of the
    same scores; both order the labels of one row alike).

    Args:
        scores: (N, C), the multi-label head's.
        target: int64 (N,).
        proposal_scores: (N, C), the proposal head's.
        k: labels a row on average, 1 to C, any real number.
        alpha: weight of the pseudo-labels, 0.1 to 10; 0.3 suits CIFAR-100, 5 Pl@ntNet-300K.
        reduction: "mean", or "sum", that times N.

    Shape: (N, C), (N,), (N, C) → scalar.

    >>> scores = torch.tensor([[2.0, 1.0, 0.0]])
    >>> average_k_loss(scores, torch.tensor([1]), proposal_scores=scores, k=2, alpha=0.5)
    tensor(2.1309)

    Garcin, Servajean, Joly, Salmon, "A two-head loss function for deep average-K classification", 2023, eqs. 10 to 14.
    """
    check_single_label(scores, target)
    check_scores(proposal_scores, "proposal_scores")
    if proposal_scores.shape != scores.shape:
        raise InputError(f"proposal_scores: expected floating point {tuple(scores.shape)}, got {shape_of(proposal_scores)}")
    if k > scores.shape[1]:
        raise InputError(f"k: expected at most the {scores.shape[1]} classes of scores, got {k:g}")
    scores, proposal_scores = working(scores), working(proposal_scores)
    rows = global_rows(scores)
    true = one_hot(target, scores.shape[1])
    chosen = pseudo_positives(proposal_scores, true, k)
    rest = ~(true | chosen)
    proposal = total(cross_entropy(proposal_scores, target, reduction="sum")) / rows
    observed = total(-logsigmoid(pick(scores, target)).sum()) / rows
    loss = proposal + observed + alpha * (_mean_over(-logsigmoid(scores), chosen) + _mean_over(-logsigmoid(-scores), rest))
    return reduce_coupled(loss, rows, reduction)


def _mean_over(values: Tensor, marks: Tensor) -> Tensor:
    """The mean of the marked values of the global batch, 0 where none is."""
    return total(torch.where(marks, values, 0.0).sum()) / total(marks.sum().to(values.dtype)).clamp(min=1)


@torch.no_grad()
def pseudo_positives(proposal_scores: Scores, true: Tensor, k: float) -> Tensor:
    """The ``(k-1)·N`` most probable entries of the global batch that are not true, bool (N, C)."""
    probs = proposal_scores.softmax(1).masked_fill_(true, -1.0).flatten()
    rows = len(true) if processes() == 1 else int(gathered(torch.tensor(len(true), device=probs.device)).sum())
    # k is the decimal that was typed: 1.3 · 5 in binary fractions is below 6.5.
    wanted = min(math.floor((Fraction(str(float(k))) - 1) * rows + Fraction(1, 2)), rows * (true.shape[1] - 1))
    mine = min(wanted, len(true) * (true.shape[1] - 1))
    chosen = torch.zeros_like(true).flatten()
    if wanted == 0:
        return chosen.view(true.shape)
    ordered = _largest(probs, mine)
    if processes() > 1:
        ordered = ordered[: _share(probs[ordered], wanted)]
    chosen[ordered] = True
    return chosen.view(true.shape)


def _largest(values: Tensor, number: int) -> Tensor:
    """Places of the largest, in decreasing order, ties by lower index."""
    if number == 0:
        return torch.zeros(0, dtype=torch.int64, device=values.device)
    cut = values.topk(number, sorted=False).values.amin()
    above, tied = (values > cut).nonzero().squeeze(1), (values == cut).nonzero().squeeze(1)
    above = above[values[above].sort(descending=True, stable=True).indices]
    return torch.cat([above, tied[: number - len(above)]])


def _share(values: Tensor, wanted: int) -> int:
    """How many of this process's values, in decreasing order, are among the largest of all processes' together."""
    rank = torch.distributed.get_rank()
    longest = int(gathered(torch.tensor(len(values), device=values.device)).max())
    padded = torch.nn.functional.pad(values, (0, longest - len(values)), value=-1.0)
    everyone = gathered(padded)
    order = everyone.flatten().sort(descending=True, stable=True).indices[:wanted]  # stable: the lower process first
    return int(((order // max(1, longest)) == rank).sum())


class AverageKLoss(Loss):
    """Module form of :func:`average_k_loss`."""

    function = staticmethod(average_k_loss)
    elicits = "average-k set"
    couples = True

    def link(self) -> Link:
        """Sigmoid."""
        return Sigmoid()
