"""Whether probabilities are frequencies: calibration errors and the bins behind them.

Every (row, label) pair that counts has a confidence and an outcome. Pairs are put into bins by confidence; a bin's gap is the
difference between its mean confidence and its share of right outcomes.
"""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.checks import one_of, whole
from shortlist.errors import InputError
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.inputs import checked
from shortlist.row_order import count_rows, first_largest
from shortlist.tensors import Probs, Target, is_single_label, one_hot, pick, summed, working
from shortlist.words import refused, shown, understands

Norm: TypeAlias = Literal["expected", "average", "max"]
Binning: TypeAlias = Literal["width", "mass"]
Over: TypeAlias = Literal["all", "top"] | int

NAMES = {"expected": "ECE", "average": "ACE", "max": "MCE"}
NO_CLASSES = refused("num_classes: not needed, the number of classes is that of the columns of probs")
TOP_N = refused("top_k: use over=n for the n most confident labels of each row")


@understands(n_bins="bins", num_bins="bins", num_classes=NO_CLASSES, top_k=TOP_N)
@like_input
def calibration_error(
    probs: Any, target: Any, *, norm: Norm = "expected", bins: int = 15, binning: Binning = "width", over: Over | None = None
) -> Answer:
    """The gap between confidence and frequency, over bins of confidence.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).
        norm: ``expected`` weighs bins by their pairs (ECE, also ``l1``), ``average`` is the plain mean over the non-empty bins
            (ACE), ``max`` the largest gap (MCE).
        bins: number of bins.
        binning: ``width``: equal intervals [a, b), the last one closed; ``mass``: equal numbers of pairs, in the order of
            confidence, tied confidences sharing their outcomes evenly.
        over: ``top`` label of each row, ``all`` (row, label) pairs, or the n most confident labels of each row. By default
            ``top`` for one label a row and ``all`` for several: with one label among many classes nearly all pairs are
            obviously wrong, and the error over them is small whatever the classifier.

    >>> probs, target = torch.tensor([[0.9, 0.1], [0.7, 0.3]]), torch.tensor([0, 1])
    >>> calibration_error(probs, target, bins=2)
    tensor(0.3000, dtype=torch.float64)
    >>> calibration_error(probs, target, bins=2, over="all")
    tensor(0.3000, dtype=torch.float64)

    Guo et al. 2017 (expected, over the top label); Cheng, section 5.1 (average and max, over all pairs).
    """
    norm = check_definition(norm, bins, binning, over)
    bins = int(bins)
    probs, target = checked(probs, target, "probabilities")
    counted = usual_pairs(target) if over is None else over
    table = width_bins(probs, target, bins, counted) if binning == "width" else mass_bins(probs, target, bins, counted)
    return bin_error(table, norm)


def calibration_definition(
    norm: Norm = "expected", bins: int = 15, binning: Binning = "width", over: Over | None = None
) -> str:
    """The definition in words, to be printed with the number.

    >>> calibration_definition("average", over=4)
    'ACE, 15 bins of equal width, over the 4 most confident labels of a row'
    >>> calibration_definition()
    'ECE, 15 bins of equal width, over the top label of a row (all pairs if rows have several labels)'
    """
    norm = check_definition(norm, bins, binning, over)
    pairs = {
        "all": "all (row, label) pairs",
        "top": "the top label of a row",
        "None": "the top label of a row (all pairs if rows have several labels)",
    }.get(str(over), f"the {over} most confident labels of a row")
    return f"{NAMES[norm]}, {bins} bins of equal {binning}, over {pairs}"


def usual_pairs(target: Target) -> Over:
    """Which pairs count unless told otherwise: the top label of a row with one label, all pairs with several."""
    return "top" if is_single_label(target) else "all"


def check_definition(norm: Any, bins: int, binning: Binning, over: Over | None) -> Norm:
    """Check the four parameters; returns the norm by our name for it."""
    if norm == "l2":
        raise InputError("norm: expected 'expected', 'average' or 'max', got 'l2': root mean squares of gaps are not offered")
    found: Norm = one_of(*NAMES)("norm", "expected" if norm == "l1" else norm)
    whole(1)("bins", bins)
    one_of("width", "mass")("binning", binning)
    if over is not None and over not in ("all", "top") and not (isinstance(over, int) and over >= 1):
        raise InputError(f"over: expected 'all', 'top' or a whole number from 1, got {shown(over)}")
    return found


def width_bins(probs: Probs, target: Target, bins: int, over: Over) -> Tensor:
    """Pairs, summed confidence and right outcomes in each bin of equal width: float64 (3, bins)."""
    probs = working(probs)
    if over == "all" and is_single_label(target):
        # All but N outcomes are wrong: no (N, C) matrix of them is needed.
        confidence, right = probs.flatten(), pick(probs, target)
    else:
        confidence, outcome = pairs(probs, target, over)
        right = confidence[outcome]
    right_counts = bin_of(right, bins).bincount(minlength=bins).double()
    # With many classes nearly all pairs lie in the first bin: it is the total less what the other bins hold.
    first = 1 / bins if bins > 1 else torch.inf
    upper = confidence[confidence > first * (1 - 1e-3)]  # a few pairs of the first bin among them do no harm
    place = bin_of(upper, bins)
    counts = place.bincount(minlength=bins).double()
    sums = torch.zeros_like(counts).index_add_(0, place, upper.double())
    counts[0] = confidence.numel() - counts[1:].sum()
    sums[0] = summed(confidence) - sums[1:].sum()
    return torch.stack([counts, sums, right_counts])


def bin_of(confidence: Tensor, bins: int) -> Tensor:
    """The bin of equal width of each confidence, edges compared in float64; a value at an edge belongs to the upper bin."""
    edges = torch.arange(1, bins, dtype=torch.float64, device=confidence.device) / bins
    return torch.bucketize(confidence.double(), edges, right=True)


def mass_bins(probs: Probs, target: Target, bins: int, over: Over) -> Tensor:
    """The same in bins of equal mass: ranks ⌊i·n/bins⌋ to ⌊(i+1)·n/bins⌋ of the confidences in increasing order."""
    confidence, outcome = pairs(probs, target, over)
    value, place, counts = confidence.double().unique(return_inverse=True, return_counts=True)
    right = torch.zeros_like(value).index_add_(0, place, outcome.double()) / counts
    value, right = value.repeat_interleave(counts), right.repeat_interleave(counts)
    n = len(value)
    bounds = torch.arange(bins + 1, device=probs.device) * n // bins
    running = torch.stack([torch.ones_like(value), value, right]).cumsum(1)
    running = torch.cat([running.new_zeros(3, 1), running], dim=1)
    return running[:, bounds].diff(dim=1)


def pairs(probs: Probs, target: Target, over: Over) -> tuple[Tensor, Tensor]:
    """Confidence and outcome (bool) of every pair that counts, flat."""
    probs = working(probs)
    if over == "all":
        return probs.flatten(), one_hot(target, probs.shape[1]).flatten()
    n = 1 if over == "top" else min(int(over), probs.shape[1])
    if n == 1 and is_single_label(target):
        confidence = probs.amax(1)
        return confidence, _ranks_first(probs, target, confidence)
    if n == 1:
        label = first_largest(probs)
        confidence = probs.gather(1, label)
    else:
        ordered, order = probs.sort(dim=1, descending=True, stable=True)  # ties by lower index
        confidence, label = ordered[:, :n], order[:, :n]
    outcome = label == target[:, None] if is_single_label(target) else target.gather(1, label)
    return confidence.flatten(), outcome.flatten()


def _ranks_first(probs: Probs, target: Target, highest: Tensor) -> Tensor:
    """Whether the label is the most probable one of its row, ties by lower index: several times faster than argmax."""
    first = pick(probs, target) == highest
    reached = probs == highest[:, None]
    if int(reached.count_nonzero()) > len(probs):  # otherwise there are no ties
        tied = first & (count_rows(reached) > 1)
        first[tied] = first_largest(probs[tied]).squeeze(1) == target[tied]
    return first


def bin_error(table: Tensor, norm: Norm) -> Tensor:
    """Combine the gaps of the bins, the last axis of (3, …, bins); NaN if there are no pairs."""
    counts, confidence, right = table.unbind()
    filled = counts > 0
    gaps = torch.where(filled, (confidence - right).abs() / counts, 0.0)
    if norm == "expected":
        return (gaps * counts).sum(-1) / counts.sum(-1)
    if norm == "average":
        return gaps.sum(-1) / filled.sum(-1)
    return torch.where(filled.any(-1), gaps.amax(-1), torch.nan)
