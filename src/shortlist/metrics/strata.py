"""Coverage where it may differ: by the size of the set, and by class."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import whole
from shortlist.metrics.accuracy import NO_CLASSES, OF_SETS, check_edges, class_hits, class_shares
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.inputs import checked
from shortlist.row_order import count_rows
from shortlist.sets.constraints import check_alpha
from shortlist.tensors import Sets, Target, is_single_label, pick
from shortlist.words import understands

SIZE_EDGES = (1, 3, 10, 100, 1000)  # of the strata 0–1, 2–3, 4–10, 11–100, 101–1000 and above (Angelopoulos et al. 2021)


@understands(num_classes=NO_CLASSES, top_k=OF_SETS)
@like_input
def size_stratified_coverage(sets: Any, target: Any, *, edges: Sequence[int] | None = None, min_rows: int = 1) -> Answer:
    """The lowest coverage over rows whose sets have the same size (SSC).

    A rule can cover 90 % of all rows, and far less of those with large sets, which are the difficult ones. With several labels
    a row the coverage is the share of labels that are in the set of their row. Empty sets are a stratum too, whose coverage
    is 0.

    Args:
        sets: bool (N, C).
        target: int64 (N,) or bool (N, C).
        edges: the largest size of each stratum but the last: ``(1, 3, 10, 100, 1000)`` has the strata 0–1, 2–3, 4–10, 11–100,
            101–1000 and above, those of the paper on RAPS; by default each size is a stratum.
        min_rows: strata with fewer rows are left out, since their coverage is mostly chance.

    >>> sets = [[True, False, False], [True, False, False], [True, True, False], [False, True, True]]
    >>> size_stratified_coverage(sets, [0, 0, 0, 0]), size_stratified_coverage(sets, [0, 0, 0, 0], edges=(2,))
    (np.float64(0.5), np.float64(0.75))

    Angelopoulos, Bates, "A gentle introduction to conformal prediction and distribution-free uncertainty quantification", 2021;
    the strata of Angelopoulos, Bates, Jordan, Malik, "Uncertainty sets for image classifiers using conformal prediction", 2021.
    """
    bounds, least = check_edges(edges), whole(1)("min_rows", min_rows)
    return lowest_share(strata(size_hits(*checked(sets, target, "sets")), bounds), least)


@understands(num_classes=NO_CLASSES, top_k=OF_SETS)
@like_input
def class_coverage_gap(sets: Any, target: Any, alpha: Any) -> Answer:
    """Mean over the classes present of how far their coverage is from 1 - alpha, above or below (CovGap).

    Papers print it in percent.

    Args:
        sets: bool (N, C).
        target: int64 (N,) or bool (N, C).
        alpha: the allowed error of the rule.

    >>> class_coverage_gap([[True, False], [False, True], [False, True]], [0, 1, 0], alpha=0.1)
    np.float64(0.25)

    Ding, Angelopoulos, Bates, Jordan, Tibshirani, "Class-conditional conformal prediction with many classes", 2023.
    """
    level = 1 - float(check_alpha(alpha))
    return mean_gap(class_hits(*checked(sets, target, "sets")), level)


def mean_gap(hits: Tensor, level: float) -> Tensor:
    """Mean distance of the coverages of the classes present from a level; ``hits`` is (2, C) of labels found and labels."""
    return (class_shares(hits) - level).abs().nanmean()


def size_hits(sets: Sets, target: Target) -> Tensor:
    """For each size from 0 to C, labels that are in their set, labels, and rows: float64 (3, C + 1)."""
    sizes = count_rows(sets)
    if is_single_label(target):
        found, labels = pick(sets, target), torch.ones_like(target)
    else:
        found, labels = count_rows(sets & target), count_rows(target)
    sums = torch.zeros(3, sets.shape[1] + 1, dtype=torch.float64, device=sets.device)
    return sums.index_add_(1, sizes, torch.stack([found.double(), labels.double(), torch.ones_like(sizes).double()]))


def strata(hits: Tensor, edges: Sequence[int] | None) -> Tensor:
    """(3, C + 1) by size as sums over strata, (3, strata); the last stratum is that of all larger sizes."""
    if edges is None:
        return hits
    sizes = torch.arange(hits.shape[1], device=hits.device)
    place = torch.bucketize(sizes, torch.tensor(edges, device=hits.device))
    return hits.new_zeros(len(hits), len(edges) + 1).index_add_(1, place, hits)


def lowest_share(hits: Tensor, min_rows: int = 1) -> Tensor:
    """The lowest coverage of the strata with labels and enough rows; NaN if there is none."""
    shares = (hits[0] / hits[1])[(hits[1] > 0) & (hits[2] >= min_rows)]
    return shares.amin() if len(shares) else torch.full((), torch.nan, dtype=torch.float64, device=hits.device)
