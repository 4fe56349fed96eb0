"""Evaluation: every number about one prediction file and one rule, gathered in one pass over row blocks."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.metrics import Curve, calibration_definition, mean_average_precision
from shortlist.metrics.accuracy import class_accuracy, class_hits, shot_groups
from shortlist.metrics.calibration import Over, bin_error, width_bins
from shortlist.metrics.curves import curve_of_ranks, curve_of_sizes, rank_counts, size_histograms
from shortlist.metrics.ranking import binned_precision, binned_precision_bounds, example_sums, precision_histograms
from shortlist.metrics.totals import ratio
from shortlist.predictions import Predictions
from shortlist.selection import count_rows
from shortlist.sets import SetRule
from shortlist.sets.lists import LabelList, label_lists
from shortlist.sets.sizes import SizeSummary
from shortlist.tensors import Probs, Sets, Target, is_single_label, pick

BINS = 15
EXAMPLES = 8
# Exact class mAP keeps every score: beyond this many, the binned form stands in, with its bounds.
EXACT_ENTRIES = 2**25
PRECISION_BINS = 512


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What is known about the sets of one rule on one prediction file, and about the probabilities behind them."""

    name: str
    rule: SetRule
    classes: tuple[str, ...]
    single_label: bool
    labelled: bool
    sizes: Tensor  # number of sets of size 0, 1, 2, …
    group_sizes: dict[str, Tensor]  # the same by shot group of the row's label
    hits: Tensor  # (2, C): labels in their set, labels, by class
    moments: Tensor  # over rows: squared hits, hits times labels, squared labels
    rank_curve: Curve | None
    size_curve: Curve | None
    reliability: dict[str, Tensor]  # (3, bins) over "top" and "all" pairs
    mean_average_precision: dict[str, float]
    train_counts: Tensor | None
    examples: list[LabelList]
    row_recall: float  # of many labels a row: the mean over rows of the share that is in the set, 1 without labels
    source: str  # what the scores are called, whatever the rule
    details: dict[str, str] = field(default_factory=dict)  # where scores and rule come from
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        measured = f"accuracy {self.accuracy:.4g}, size {self.size.mean:.4g}"
        return f"Evaluation({self.name}: {self.rule.text}, {self.rows} rows, {measured})"

    @property
    def size(self) -> SizeSummary:
        """Mean and variance of the set sizes."""
        return SizeSummary.of(self.sizes)

    @property
    def rows(self) -> int:
        """How many rows there were."""
        return int(self.sizes.sum())

    @property
    def accuracy(self) -> float:
        """Share of labels in their set."""
        hits, count = self.hits.sum(1).tolist()
        return hits / count if count else math.nan

    @property
    def accuracy_error(self) -> float:
        """Standard error of the accuracy, rows being independent and the labels of one row not."""
        count = float(self.hits[1].sum())
        hits, both, labels = self.moments.tolist()
        squares = hits - 2 * self.accuracy * both + self.accuracy**2 * labels
        return math.sqrt(max(0.0, squares)) / count if count else math.nan

    @property
    def precision(self) -> float:
        """Share of the returned labels that are right."""
        returned = self.size.mean * self.rows
        return float(self.hits[0].sum()) / returned if returned else math.nan

    @property
    def macro_accuracy(self) -> float:
        """Mean of the accuracies of the classes present."""
        return float(class_accuracy(self.hits).nanmean())

    @property
    def empty_rate(self) -> float:
        """Share of empty sets."""
        return float(self.sizes[0] / self.sizes.sum())

    def shot_accuracies(self) -> dict[str, float]:
        """Mean accuracy over few-, medium- and many-shot classes, where training counts are known."""
        if self.train_counts is None:
            return {}
        accuracy = class_accuracy(self.hits)
        return {name: float(accuracy[group].nanmean()) for name, group in shot_groups(self.train_counts).items()}

    def calibration(self) -> dict[str, float]:
        """Calibration errors by their definition."""
        found = {}
        for over, table in self.reliability.items():
            pairs: Over = "top" if over == "top" else "all"
            found[calibration_definition("expected", BINS, "width", pairs)] = float(bin_error(table, "expected"))
        return found

    def numbers(self) -> dict[str, Any]:
        """Everything that is one number, by name, for tables and machines."""
        size = self.size
        numbers: dict[str, Any] = {"name": self.name, "rule": self.rule.text, "rows": self.rows}
        if self.labelled:
            word = "accuracy" if self.single_label else "recall"
            numbers |= {word: self.accuracy, f"{word}_se": self.accuracy_error, f"macro_{word}": self.macro_accuracy}
            numbers |= self.shot_accuracies()
            if not self.single_label:
                numbers |= {"row_recall": self.row_recall, "precision": self.precision}
        numbers |= {"size": size.mean, "size_sd": math.sqrt(size.variance), "empty": self.empty_rate}
        if self.rank_curve is not None:
            numbers["top1"] = float(self.rank_curve.accuracies[1])
        return numbers | self.mean_average_precision | {f"calibration_{o}": v for o, v in self._errors().items()}

    def _errors(self) -> dict[str, float]:
        return {over: float(bin_error(table, "expected")) for over, table in self.reliability.items()}


def evaluate(
    predictions: Predictions,
    rule: SetRule,
    *,
    name: str = "predictions",
    source: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Evaluation:
    """Apply a fitted rule to predictions and measure its sets, in one pass over row blocks.

    Args:
        predictions: with or without a target; without one only sizes are known.
        rule: fitted, or one that needs no fit.
        name: how tables call it.
        source: how pictures of the scores alone call it, where several rules share them; the name, unless given.
        progress: called with the number of rows after each block.
    """
    if not len(predictions):
        raise InputError("expected rows to evaluate, got none")
    rule.check_reads(predictions)
    gathering = _Gathering(predictions)
    start = 0
    with torch.no_grad():
        for block in predictions.blocks():
            probs = block.plausibility()
            gathering.add(probs, rule(probs), block.target)
            start += len(block)
            progress(start)
    return gathering.evaluation(name, source or name, rule)


class _Gathering:
    """The totals of one pass, each the sum of what the blocks add."""

    def __init__(self, predictions: Predictions):
        self.predictions = predictions
        self.single = predictions.target is None or is_single_label(predictions.target)
        self.readable = predictions.link is not None
        self.exact = predictions.scores.numel() <= EXACT_ENTRIES or not self.readable
        self.sizes = torch.zeros(predictions.num_classes + 1, dtype=torch.float64)
        self.groups = {} if predictions.train_counts is None else shot_groups(predictions.train_counts)
        self.totals: dict[str, Tensor] = {}
        self.kept: list[Probs] = []

    def add(self, probs: Probs, sets: Sets, target: Target | None) -> None:
        sizes = count_rows(sets)
        self.sizes += sizes.bincount(minlength=len(self.sizes))
        if target is not None:
            for name, added in self._additions(probs, sets, sizes, target):
                self.totals[name] = self.totals[name] + added if name in self.totals else added

    def _additions(self, probs: Probs, sets: Sets, sizes: Tensor, target: Target) -> Iterator[tuple[str, Tensor]]:
        yield "hits", class_hits(sets, target)
        yield "moments", _moments(sets, target)
        if self.readable:
            yield "curve", size_histograms(probs, target)
            yield "top", width_bins(probs, target, BINS, "top")
            yield "all", width_bins(probs, target, BINS, "all")
        if self.single:
            yield "ranks", rank_counts(probs, target)
            for group, members in self.groups.items():
                yield group, sizes[members[target]].bincount(minlength=len(self.sizes)).double()
        else:
            yield "examples", example_sums(probs, target)
            yield "rows", _row_recall(sets, target)
            if self.exact:
                self.kept.append(probs)
            else:
                yield "histograms", precision_histograms(probs, target, PRECISION_BINS)

    def evaluation(self, name: str, source: str, rule: SetRule) -> Evaluation:
        totals = self.totals
        return Evaluation(
            name=name,
            rule=rule,
            classes=tuple(self.predictions.class_names),
            single_label=self.single,
            labelled=self.predictions.target is not None,
            sizes=self.sizes,
            group_sizes={group: totals[group] for group in self.groups if group in totals},
            hits=totals.get("hits", torch.zeros(2, self.predictions.num_classes, dtype=torch.float64)),
            moments=totals.get("moments", torch.zeros(3, dtype=torch.float64)),
            rank_curve=curve_of_ranks(totals["ranks"]) if "ranks" in totals else None,
            size_curve=curve_of_sizes(totals["curve"]) if "curve" in totals else None,
            reliability={over: totals[over] for over in ("top", "all") if over in totals},
            mean_average_precision=self._mean_average_precision() if "examples" in totals else {},
            train_counts=self.predictions.train_counts,
            row_recall=float(ratio(totals["rows"])) if "rows" in totals else math.nan,
            source=source,
            details=_details(self.predictions, rule),
            examples=_examples(self.predictions, rule),
            notes=[*rule.notes],
        )

    def _mean_average_precision(self) -> dict[str, float]:
        by_example = float(ratio(self.totals["examples"]))
        if self.exact:
            by_class = mean_average_precision(torch.cat(self.kept), self.predictions.target)
            return {"map_class": float(by_class), "map_example": by_example}
        histograms = self.totals["histograms"]
        low, high = binned_precision_bounds(histograms)
        bounds = {"map_class_low": float(low), "map_class_high": float(high)}
        return {"map_class": float(binned_precision(histograms)), "map_example": by_example} | bounds


def _row_recall(sets: Sets, target: Target) -> Tensor:
    labels = count_rows(target)
    share = torch.where(labels > 0, count_rows(sets & target) / labels.clamp(min=1).double(), 1.0)
    return torch.stack([share.sum(), torch.tensor(float(len(target)), dtype=torch.float64)])


def _details(predictions: Predictions, rule: SetRule) -> dict[str, str]:
    """What someone who doubts a number would ask first."""
    found = {"link": "none" if predictions.link is None else repr(predictions.link)}
    if rule.threshold is not None:
        many = rule.threshold.ndim > 0
        found["threshold"] = f"{len(rule.threshold)}, one a class" if many else f"{float(rule.threshold):.6g}"
    if rule.calibrated is not None:
        found["fitted on"] = f"{rule.calibrated.rows:,} rows, {rule.calibrated.mean:.4g} labels on average"
    return found


def _moments(sets: Sets, target: Target) -> Tensor:
    """Squares and products of the hits and labels of each row, summed."""
    if is_single_label(target):
        hits, labels = pick(sets, target).double(), torch.ones(len(target), dtype=torch.float64)
    else:
        hits, labels = count_rows(sets & target).double(), count_rows(target).double()
    return torch.stack([(hits * hits).sum(), (hits * labels).sum(), (labels * labels).sum()])


def _examples(predictions: Predictions, rule: SetRule) -> list[LabelList]:
    """A few rows with sets of different sizes, from the smallest to the largest, all from the first rows."""
    head = predictions.rows(slice(0, max(1, min(len(predictions), 2**20 // predictions.num_classes, 1000))))
    probs = head.plausibility()
    sets = rule(probs)
    order = count_rows(sets).argsort(stable=True)
    places = torch.linspace(0, len(order) - 1, min(EXAMPLES, len(order))).round().long()
    chosen = order[places]
    rows = head.rows(chosen)
    return label_lists(sets[chosen], probs[chosen], head.class_names, rows.ids or (), rows.target)
