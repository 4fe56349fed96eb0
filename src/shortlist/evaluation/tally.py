"""What is added up over blocks of rows: each total is a sum, or a few numbers for each row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.evaluation.hashing import hashed
from shortlist.evaluation.superclasses import superclass_answers, superclass_nodes, superclass_top, superclasses_of
from shortlist.links import Link, Quasibinary
from shortlist.links.based import BasedLink
from shortlist.metrics.accuracy import class_hits, shot_groups, superclass_hits
from shortlist.metrics.binned_pairs import bins_by, row_moments, row_residuals, rows_in_bins
from shortlist.metrics.calibration import pairs, usual_pairs, width_bins
from shortlist.metrics.curves import rank_counts, size_histograms
from shortlist.metrics.outliers import row_scores
from shortlist.metrics.proper import LARGEST_LOSS, right_mass, squared_errors
from shortlist.metrics.ranking import example_sums, precision_histograms, top_counts
from shortlist.metrics.smooth import residual_sums
from shortlist.metrics.strata import size_hits
from shortlist.predictions import Predictions
from shortlist.row_order import count_rows, first_largest
from shortlist.sets import SetRule, top_k
from shortlist.tensors import Probs, Sets, Target, is_single_label, pick, summed

BINS = 15
# Exact mAP over classes keeps every score. Beyond this many entries a histogram replaces them, with bounds on the exact value.
EXACT_ENTRIES = 2**25
PRECISION_BINS = 512
SMALL = 60.0  # -log p from which p is computed from log-odds
HITS, LABELS, SIZE, TOP_1, CHECKSUM = range(5)  # of the total ``outcomes``


@dataclass(frozen=True)
class Block:
    """A block of rows with everything a total may need.

    Args:
        predictions: scores, link and target of the rows.
        probs: their probabilities, or the scores where there is no link.
        sets: what the rule returns for them; None without a rule.
        k: size of the sets of the ``top_hits`` total.
        bins: number of calibration bins of equal width.
        top_n: number of most probable labels of each row in the ``top_n`` totals; None leaves them out.
        accepted: bool (N,), the rows that the gate of the rule accepts; None without a gate.
        shots: edges of the shot groups; None for few, medium and many.
        groups: the number of the superclass of each class, (C,); None where superclasses are not known.
    """

    predictions: Predictions
    probs: Probs
    sets: Sets | None
    k: int = 1
    bins: int = BINS
    top_n: int | None = None
    accepted: Tensor | None = None
    shots: tuple[int, ...] | None = None
    groups: Tensor | None = None

    @property
    def n(self) -> int:
        """``top_n``; only for totals that need it."""
        assert self.top_n is not None
        return self.top_n

    @property
    def target(self) -> Target:
        """The labels; only for totals that need them."""
        assert self.predictions.target is not None
        return self.predictions.target

    @property
    def answers(self) -> Sets:
        """The sets; only for totals that need them."""
        assert self.sets is not None
        return self.sets


@dataclass(frozen=True)
class Total:
    """One total: what a block adds to it, and what the predictions must have for it to be defined."""

    adds: Callable[[Block], Tensor]
    sets: bool = False
    labels: bool = True
    probabilities: bool = False
    single: bool | None = None  # True: one label a row only; False: several labels only
    by_row: bool = False  # a column of numbers for each row, rather than a sum

    def defined(self, predictions: Predictions, has_rule: bool) -> bool:
        """Whether the total can be computed from these predictions."""
        if (self.sets and not has_rule) or (self.probabilities and predictions.link is None):
            return False
        if predictions.target is None:
            return not self.labels
        return self.single is None or self.single == is_single_label(predictions.target)


def _sizes(block: Block) -> Tensor:
    return count_rows(block.answers).bincount(minlength=block.answers.shape[1] + 1).double()


def _group_sizes(block: Block) -> Tensor:
    """Number of sets by size, of the rows with a label in each shot group: float64 (groups, C + 1)."""
    counts, target = block.predictions.train_counts, block.target
    assert counts is not None
    sizes, columns = count_rows(block.answers), block.answers.shape[1] + 1
    tables = []
    for members in shot_groups(counts, block.shots).values():
        rows = members[target] if is_single_label(target) else target[:, members].any(1)
        tables.append(sizes[rows].bincount(minlength=columns))
    return torch.stack(tables).double()


def _superclass_hits(block: Block) -> Tensor:
    assert block.groups is not None
    return superclass_hits(block.answers, block.target, block.groups)


def _superclass_top(block: Block) -> Tensor:
    assert block.groups is not None
    return superclass_top(block.probs, block.target, block.groups)


def _superclass_nodes(block: Block) -> Tensor:
    assert block.groups is not None
    return superclass_nodes(block.answers, block.groups)


def _superclass_answers(block: Block) -> Tensor:
    assert block.groups is not None
    return superclass_answers(block.probs, block.sets, block.target, block.groups)


def _class_sizes(block: Block) -> Tensor:
    """Sum of the sizes of the sets of the rows with each class, float64 (C,)."""
    sizes, target = count_rows(block.answers).double(), block.target
    if is_single_label(target):
        return torch.zeros(block.answers.shape[1], dtype=torch.float64).index_add_(0, target.cpu(), sizes.cpu())
    return (sizes @ target.double()).cpu()


def _outcomes(block: Block) -> Tensor:
    """For each row its labels in its set, its labels, the size of its set, whether the most probable label is right (one label
    a row), and a number that stands for its labels: float64 (5, n)."""
    sets, target = block.answers, block.target
    if is_single_label(target):
        hits, labels, checksum = pick(sets, target), torch.ones(len(target)), target
        right = first_largest(block.probs).squeeze(1) == target
    else:
        hits, labels, right = count_rows(sets & target), count_rows(target), torch.zeros(len(target))
        checksum = target.double() @ _class_hashes(target.shape[1]).to(target.device)
    return torch.stack([part.double().cpu() for part in (hits, labels, count_rows(sets), right, checksum)])


def _class_hashes(classes: int) -> Tensor:
    """A hash of each class, float64 (C,): whole numbers so small that their sum is exact, whatever the order of the terms."""
    bits = 52 - classes.bit_length()
    return torch.from_numpy((hashed(np.arange(classes)) >> np.uint64(64 - bits)).astype(np.float64))


def gate_counts(block: Block) -> Tensor:
    """Rows and refused rows, then the same of rows with a label and of rows without, as far as labels are known; then the
    labels of accepted rows, and those of them in their sets: float64 (8,)."""
    assert block.accepted is not None
    refused, target = ~block.accepted.cpu(), block.predictions.target
    counts = [torch.tensor(len(refused)), refused.sum()]
    if target is None:
        return torch.stack([*counts, *[torch.tensor(0)] * 6]).double()
    labels = torch.nn.functional.one_hot(target, block.answers.shape[1]).bool() if is_single_label(target) else target
    labelled = labels.any(1)
    for kind in (labelled, ~labelled):
        counts += [kind.sum(), (kind & refused).sum()]
    return torch.stack([*counts, labels[~refused].sum(), (block.answers & labels).sum()]).double()


def _moments(block: Block) -> Tensor:
    """Sums over rows of hits², hits · labels and labels², for the standard error of a ratio."""
    sets, target = block.answers, block.target
    if is_single_label(target):
        hits, labels = pick(sets, target).double(), torch.ones(len(target), dtype=torch.float64)
    else:
        hits, labels = count_rows(sets & target).double(), count_rows(target).double()
    return torch.stack([(hits * hits).sum(), (hits * labels).sum(), (labels * labels).sum()])


def _row_recall(block: Block) -> Tensor:
    labels = count_rows(block.target)
    # A row without labels has recall 1.
    share = torch.where(labels > 0, count_rows(block.answers & block.target) / labels.clamp(min=1).double(), 1.0)
    return torch.stack([summed(share), torch.tensor(float(len(block.target)), dtype=torch.float64)])


def _log_loss(block: Block) -> Tensor:
    """Sum of -log p of the labels (of labels and non-labels where a row has several), and the number of terms."""
    target, link = block.target, block.predictions.link
    assert link is not None
    if is_single_label(target):
        losses = -pick(block.probs, target).double().log()
        tiny = (losses > SMALL).nonzero().squeeze(1)  # where float32 has lost digits, or the probability is rounded to 0
        if len(tiny):
            odds = link.log_odds(block.predictions.scores[tiny])
            losses[tiny] = -logsigmoid(_finite_odds(pick(odds, target[tiny])))
    else:
        odds = _finite_odds(link.log_odds(block.predictions.scores))
        losses = torch.nn.functional.binary_cross_entropy_with_logits(odds, target.double(), reduction="none")
    return torch.stack([summed(losses), torch.tensor(float(losses.numel()), dtype=torch.float64)])


def _finite_odds(odds: Tensor) -> Tensor:
    """Log-odds in float64; those of a probability of exactly 0 or 1 as of the smallest number above 0."""
    return odds.double().nan_to_num(posinf=LARGEST_LOSS, neginf=-LARGEST_LOSS)


def _outliers(block: Block) -> Tensor:
    """For each row its largest probability, the number for any label, whether it has one and the first is right: (4, n)."""
    confidence, labelled = row_scores(block.probs, block.target, "confidence")
    right = block.target.gather(1, first_largest(block.probs)).squeeze(1)
    any_label = row_scores(block.probs, block.target, "any-label").scores
    return torch.stack([confidence, any_label, labelled.double(), right.double()]).cpu()


def _quality(block: Block) -> Tensor:
    """The quality of each row, and whether it has a label: (2, n)."""
    assert block.predictions.quality is not None
    return torch.stack([block.predictions.quality, block.target.any(1).double()]).cpu()


def _above_one(block: Block) -> Tensor:
    """Number of pairs of a row and a label whose q is above 1, of pairs, of rows with such a pair, and of rows."""
    link = quasibinary_of(block.predictions.link)
    assert link is not None
    above = link.exceeds_one(block.predictions.scores)
    counts = [int(above.sum()), above.numel(), int(above.any(1).sum()), len(above)]
    return torch.tensor(counts, dtype=torch.float64)


def quasibinary_of(link: Link | None) -> Quasibinary | None:
    """The quasibinary link that this link is, or is on top of; None for other links."""
    while isinstance(link, BasedLink):
        link = link.base
    return link if isinstance(link, Quasibinary) else None


def _top_pairs(block: Block) -> Tensor:
    """Probability of the top label of each row, and whether it is right: (2, n)."""
    confidence, right = pairs(block.probs, block.target, "top")
    return torch.stack([confidence.double(), right.double()]).cpu()


def _binned(over: Literal["top", "all"] | None) -> Callable[[Block], Tensor]:
    """Pairs, summed probability and right pairs in each bin, over these pairs or the top n: (3, bins)."""
    return lambda block: width_bins(block.probs, block.target, block.bins, over or block.n)


def _moments_by_row(over: Literal["all"] | None) -> Callable[[Block], Tensor]:
    return lambda block: row_moments(rows_in_bins(block.probs, block.target, block.bins, over or block.n))


TOTALS: Mapping[str, Total] = {
    "sizes": Total(_sizes, sets=True, labels=False),
    "hits": Total(lambda block: class_hits(block.answers, block.target), sets=True),
    "size_hits": Total(lambda block: size_hits(block.answers, block.target)[:2], sets=True),
    "moments": Total(_moments, sets=True),
    "group_sizes": Total(_group_sizes, sets=True),
    "gate": Total(gate_counts, sets=True, labels=False),
    "first_hits": Total(lambda block: class_hits(top_k(1).sets(block.probs), block.target), single=True),
    "superclass_hits": Total(_superclass_hits, sets=True),
    "superclass_top": Total(_superclass_top, probabilities=True, single=True),
    "superclass_nodes": Total(_superclass_nodes, sets=True, labels=False),
    "superclass_answers": Total(_superclass_answers, probabilities=True, single=True),
    "class_sizes": Total(_class_sizes, sets=True),
    "outcomes": Total(_outcomes, sets=True, by_row=True),
    "row_recall": Total(_row_recall, sets=True, single=False),
    "ranks": Total(lambda block: rank_counts(block.probs, block.target), single=True),
    "top_hits": Total(lambda block: class_hits(top_k(block.k).sets(block.probs), block.target), single=True),
    "curve": Total(lambda block: size_histograms(block.probs, block.target), probabilities=True),
    "top": Total(_binned("top"), probabilities=True),
    "all": Total(_binned("all"), probabilities=True),
    "top_n": Total(_binned(None), probabilities=True),
    "all_moments": Total(_moments_by_row("all"), probabilities=True),
    "top_n_moments": Total(_moments_by_row(None), probabilities=True),
    "class_bins": Total(lambda block: bins_by("class", block.probs, block.target, block.bins), probabilities=True),
    "top_pairs": Total(_top_pairs, probabilities=True, by_row=True),
    "residuals": Total(
        lambda block: row_residuals(block.probs, block.target, block.bins, "all").T.cpu(),
        probabilities=True,
        single=False,
        by_row=True,
    ),
    "top_n_counts": Total(lambda block: top_counts(block.probs, block.target, block.n)),
    "right_mass": Total(lambda block: right_mass(block.probs, block.target, block.bins), probabilities=True),
    "smooth": Total(lambda block: residual_sums(block.probs, block.target, usual_pairs(block.target)), probabilities=True),
    "squared_errors": Total(lambda block: squared_errors(block.probs, block.target), probabilities=True),
    "log_loss": Total(_log_loss, probabilities=True),
    "outliers": Total(_outliers, probabilities=True, single=False, by_row=True),
    "quality": Total(_quality, single=False, by_row=True),
    "above_one": Total(_above_one, probabilities=True, labels=False),
    "examples": Total(lambda block: example_sums(block.probs, block.target), single=False),
    "histograms": Total(
        lambda block: precision_histograms(block.probs, block.target, PRECISION_BINS), probabilities=True, single=False
    ),
}


def wanted_totals(
    predictions: Predictions,
    rule: SetRule | None,
    only: frozenset[str] | None = None,
    top_n: int | None = None,
    *,
    bounded: bool = False,
) -> list[str]:
    """Names of the totals that these predictions and this rule define, or of those among ``only``.

    Args:
        predictions: any of the rows.
        rule: what answers them, if anything does.
        only: the names to choose from.
        top_n: as in :class:`Block`.
        bounded: whether only totals are wanted whose size does not depend on the number of rows, as rows in several places need
            it: nothing is kept of single rows, and mAP over classes is that of histograms.
    """
    form = predictions.without_rows()
    names = [name for name, total in TOTALS.items() if total.defined(form, rule is not None)]
    left_out = {"top_hits"} if only is None else TOTALS.keys() - only
    if predictions.train_counts is None:
        left_out |= {"group_sizes", "first_hits"}
    if superclasses_of(predictions, rule) is None:
        left_out |= {"superclass_hits", "superclass_top", "superclass_nodes", "superclass_answers"}
    if rule is None or rule.gate is None:
        left_out |= {"gate"}
    if form.quality is None:
        left_out |= {"quality"}
    # With one class there is one pair a row, as with one label: the exact test of calibration needs no flips.
    several = form.target is not None and not is_single_label(form.target) and predictions.num_classes > 1
    left_out |= {"top_pairs"} if several else {"residuals"}
    if top_n is None:
        left_out |= {"top_n", "top_n_moments", "top_n_counts"}
    if bounded:
        left_out |= {name for name, total in TOTALS.items() if total.by_row}
    elif keeps_scores(predictions):
        left_out |= {"histograms"}
    if quasibinary_of(predictions.link) is None:
        left_out |= {"above_one"}
    return [name for name in names if name not in left_out]


def keeps_scores(predictions: Predictions) -> bool:
    """Whether mAP over classes is computed exactly, from every score."""
    return len(predictions) * predictions.num_classes <= EXACT_ENTRIES or predictions.link is None
