"""One observed label a row, of several that could be right: independent sigmoids (Garcin 2023, section 4; Cole et al. 2021).

Shapes: scores (N, C), target int64 (N,).
"""

from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import number
from shortlist.links import AssumeNegative, Link, Sigmoid
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss, global_rows, reduce_coupled
from shortlist.processes import total
from shortlist.tensors import Reduction, Scores, Target, check_single_label, pick, reduce, working


def assume_negative_loss(scores: Scores, target: Target, *, reduction: Reduction = "mean") -> Tensor:
    r"""Binary cross-entropy in which all labels but the observed one count as absent, at the weight of one.

    .. math:: -\log σ(scores_{target}) - \frac{1}{C - 1} \sum_{j \ne target} \log(1 - σ(scores_j))

    Elicits: probabilities, through ``σ(scores - log(C - 1))``, the link :class:`~shortlist.links.AssumeNegative`.

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> import torch
    >>> assume_negative_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]))
    tensor(1.7233)

    Cole, Mac Aodha, Lorieul, Perona, Morris, Jojic, "Multi-label learning from single positive labels", 2021 (WAN);
    Garcin et al. 2023, eq. 5.
    """
    check_single_label(scores, target)
    scores = working(scores)
    others = logsigmoid(-scores).scatter(1, target[:, None], 0.0).sum(1) / max(1, scores.shape[1] - 1)
    return reduce(-logsigmoid(pick(scores, target)) - others, reduction)


class AssumeNegativeLoss(Loss):
    """Module form of :func:`assume_negative_loss`."""

    function = staticmethod(assume_negative_loss)
    elicits = "probabilities"

    def link(self) -> Link:
        """The sigmoid of scores lowered by what the weight of the negatives raised them."""
        return AssumeNegative()


@domains(k=number(above=0), beta=number(least=0))
def expected_positive_loss(
    scores: Scores, target: Target, *, k: float, beta: float = 0.01, reduction: Reduction = "mean"
) -> Tensor:
    r"""The observed label should be likely, and k labels a row on average.

    .. math:: \frac1N \sum_i -\log σ(scores_{i, target_i}) + beta \cdot (\hat K - k)^2, \quad
              \hat K = \frac1N \sum_{ij} σ(scores_{ij})

    Couples the batch: on several processes it is the global one.

    Elicits: the order, up to saturation: the sigmoids are proportional to the probabilities until they reach 1, which all
    labels do that are more probable than about ``2 beta (K̂ - k)``. Link: sigmoid.

    Args:
        scores: (N, C).
        target: int64 (N,).
        k: the expected number of labels a row.
        beta: 0.01 suits CIFAR-100, 0.001 Pl@ntNet-300K.
        reduction: "mean", or "sum", that times N.

    Shape: (N, C), (N,) → scalar.

    >>> import torch
    >>> expected_positive_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=2, beta=1.0)
    tensor(0.3258)

    Cole et al. 2021; Garcin et al. 2023, eqs. 7 and 8.
    """
    check_single_label(scores, target)
    scores = working(scores)
    rows = global_rows(scores)
    likely = total(-logsigmoid(pick(scores, target)).sum()) / rows
    return reduce_coupled(likely + beta * positives_excess(scores.sigmoid(), k, rows), rows, reduction)


class ExpectedPositiveLoss(Loss):
    """Module form of :func:`expected_positive_loss`."""

    function = staticmethod(expected_positive_loss)
    elicits = "order"
    couples = True

    def link(self) -> Link:
        """Sigmoid."""
        return Sigmoid()


def positives_excess(probs: Tensor, k: float, rows: Tensor) -> Tensor:
    """``(K̂ - k)²``, K̂ the mean number of labels a row that these probabilities expect; 0 of no rows."""
    return (total(probs.sum()) / rows - k) ** 2 * (rows >= 1)
