"""Losses for one observed label per row out of several that may be correct (Garcin 2023, section 4; Cole et al. 2021).

Shapes: scores (N, C), target integers (N,).
"""

from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import number
from shortlist.links import AssumeNegative, Link, Sigmoid
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss
from shortlist.losses.rows import IGNORING, WEIGHTING, global_rows, labelled_rows, reduce_coupled, reduce_rows, sum_rows
from shortlist.processes import total
from shortlist.tensors import Reduction, Scores, Target, pick


@domains(**WEIGHTING)
def assume_negative_loss(
    scores: Scores,
    target: Target,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Binary cross-entropy that takes all labels but the observed one as absent, together with the weight of one label.

    .. math:: -\log σ(scores_{target}) - \frac{1}{C - 1} \sum_{j \ne target} \log(1 - σ(scores_j))

    Elicits: probabilities, through ``σ(scores - log(C - 1))``, the link :class:`~shortlist.links.AssumeNegative`.

    Args:
        scores: (N, C).
        target: integers (N,).
        weight: (C,), a weight for each class, which multiplies the loss of its rows; the mean is divided by their sum.
        ignore_index: rows with this label count neither in the loss nor in its mean.
        reduction: "mean", "sum" or "none".

    Shape: (N, C), (N,) → scalar, or (N,) with ``reduction="none"``.

    >>> import torch
    >>> assume_negative_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]))
    tensor(1.7233)

    Cole, Mac Aodha, Lorieul, Perona, Morris, Jojic, "Multi-label learning from single positive labels", 2021 (WAN);
    Garcin et al. 2023, eq. 5.
    """
    labels, scores = labelled_rows(scores, target, ignore_index)
    others = logsigmoid(-scores).scatter(1, labels.target[:, None], 0.0).sum(1) / max(1, scores.shape[1] - 1)
    values = -logsigmoid(pick(scores, labels.target)) - others
    return reduce_rows(values, labels, weight, reduction, scores)


class AssumeNegativeLoss(Loss):
    """Module form of :func:`assume_negative_loss`."""

    function = staticmethod(assume_negative_loss)
    elicits = "probabilities"

    def __init__(self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: Reduction = "mean"):
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)

    def link(self) -> Link:
        """The sigmoid of the scores minus log(C - 1), which undoes the weighting of the absent labels."""
        return AssumeNegative()


@domains(k=number(above=0), beta=number(least=0), **IGNORING)
def expected_positive_loss(
    scores: Scores,
    target: Target,
    *,
    k: float,
    beta: float = 0.01,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Likelihood of the observed label, with a penalty unless k labels per row are expected on average.

    .. math:: \frac1N \sum_i -\log σ(scores_{i, target_i}) + beta \cdot (\hat K - k)^2, \quad
              \hat K = \frac1N \sum_{ij} σ(scores_{ij})

    Couples the rows of the batch, which on several processes is the global batch.

    Elicits: the order, up to saturation: the sigmoids are proportional to the probabilities until they reach 1, as those of all
    labels do that are more probable than about ``2 beta (K̂ - k)``. Link: sigmoid.

    Args:
        scores: (N, C).
        target: integers (N,).
        k: the expected number of labels per row.
        beta: weight of the penalty; 0.01 suits CIFAR-100, 0.001 Pl@ntNet-300K.
        ignore_index: rows with this label are left out of the batch.
        reduction: "mean", or "sum", which is the mean times N.

    Shape: (N, C), (N,) → scalar.

    >>> import torch
    >>> expected_positive_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), k=2, beta=1.0)
    tensor(0.3258)

    Cole et al. 2021; Garcin et al. 2023, eqs. 7 and 8.
    """
    (target, kept), scores = labelled_rows(scores, target, ignore_index)
    rows = global_rows(scores, kept)
    likely = total(sum_rows(-logsigmoid(pick(scores, target)), kept)) / rows
    return reduce_coupled(likely + beta * positives_excess(scores.sigmoid(), kept, k, rows), rows, reduction, scores)


class ExpectedPositiveLoss(Loss):
    """Module form of :func:`expected_positive_loss`."""

    function = staticmethod(expected_positive_loss)
    elicits = "order"
    couples = True

    def __init__(self, *, k: float, beta: float = 0.01, ignore_index: int = -100, reduction: Reduction = "mean"):
        super().__init__(k=k, beta=beta, ignore_index=ignore_index, reduction=reduction)

    def link(self) -> Link:
        """Sigmoid."""
        return Sigmoid()


def positives_excess(probs: Tensor, kept: Tensor | None, k: float, rows: Tensor) -> Tensor:
    """``(K̂ - k)²``, where K̂ is the mean number of labels per row that these probabilities expect; 0 without rows."""
    return (total(sum_rows(probs, kept)) / rows - k) ** 2 * (rows >= 1)
