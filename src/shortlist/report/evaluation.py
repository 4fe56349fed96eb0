"""Evaluation: every number about one prediction file and one rule, gathered in one pass over row blocks."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.metrics import (
    BinnedMeanAveragePrecision,
    Curve,
    MeanAveragePrecision,
    RankCurve,
    SetPrecision,
    SizeAccuracyCurve,
    calibration_definition,
)
from shortlist.metrics.accuracy import class_accuracy, class_hits, shot_groups
from shortlist.metrics.calibration import Over, bin_error, width_bins
from shortlist.predictions import Predictions
from shortlist.sets import SetRule
from shortlist.sets.lists import LabelList, label_lists
from shortlist.sets.sizes import SizeSummary
from shortlist.tensors import Probs, Sets, Target, is_single_label

BINS = 15
EXAMPLES = 8
# Exact class mAP keeps every score: beyond this many, the binned form stands in, with its bounds.
EXACT_ENTRIES = 2**25


@dataclass(frozen=True)
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
    precision: float
    rank_curve: Curve | None
    size_curve: Curve | None
    reliability: dict[str, Tensor]  # (3, bins) over "top" and "all" pairs
    mean_average_precision: dict[str, float]
    train_counts: Tensor | None
    examples: list[LabelList]
    notes: list[str] = field(default_factory=list)

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
        """Standard error of the accuracy."""
        count = float(self.hits[1].sum())
        return math.sqrt(self.accuracy * (1 - self.accuracy) / count) if count else math.nan

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
                numbers["precision"] = self.precision
        numbers |= {"size": size.mean, "size_sd": math.sqrt(size.variance), "empty": self.empty_rate}
        if self.rank_curve is not None:
            numbers["top1"] = float(self.rank_curve.accuracies[1])
        return numbers | self.mean_average_precision | {f"calibration_{o}": v for o, v in self._errors().items()}

    def _errors(self) -> dict[str, float]:
        return {over: float(bin_error(table, "expected")) for over, table in self.reliability.items()}


def evaluate(
    predictions: Predictions, rule: SetRule, *, name: str = "predictions", progress: Callable[[int], None] = lambda rows: None
) -> Evaluation:
    """Apply a fitted rule to predictions and measure its sets, in one pass over row blocks.

    Args:
        predictions: with or without a target; without one only sizes are known.
        rule: fitted, or one that needs no fit.
        name: how tables call it.
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
    return gathering.evaluation(name, rule)


class _Gathering:
    """The totals of one pass."""

    def __init__(self, predictions: Predictions):
        self.predictions = predictions
        self.single = predictions.target is None or is_single_label(predictions.target)
        self.sizes = torch.zeros(predictions.num_classes + 1, dtype=torch.float64)
        self.groups = {} if predictions.train_counts is None else shot_groups(predictions.train_counts)
        self.group_sizes = {group: torch.zeros_like(self.sizes) for group in self.groups} if self.single else {}
        self.hits = torch.zeros(2, predictions.num_classes, dtype=torch.float64)
        self.bins: dict[str, Tensor] = {}
        self.precision = SetPrecision()
        self.rank_curve = RankCurve() if self.single else None
        self.size_curve = SizeAccuracyCurve() if predictions.link is not None else None
        self.by_class: MeanAveragePrecision | BinnedMeanAveragePrecision | None = None
        self.by_example: MeanAveragePrecision | None = None
        if not self.single:
            exact = predictions.scores.numel() <= EXACT_ENTRIES or predictions.link is None
            self.by_class = MeanAveragePrecision() if exact else BinnedMeanAveragePrecision()
            self.by_example = MeanAveragePrecision(axis="example")

    def add(self, probs: Probs, sets: Sets, target: Target | None) -> None:
        sizes = sets.sum(1)
        self.sizes += sizes.bincount(minlength=len(self.sizes))
        if target is None:
            return
        self.hits += class_hits(sets, target)
        self.precision.update(sets, target)
        for group, members in self.groups.items() if self.single else ():
            self.group_sizes[group] += sizes[members[target]].bincount(minlength=len(self.sizes))
        for metric in (self.rank_curve, self.size_curve, self.by_class, self.by_example):
            if metric is not None:
                metric.update(probs, target)
        if self.predictions.link is not None:
            overs: tuple[Literal["top", "all"], ...] = ("top", "all")
            for over in overs:
                found = width_bins(probs, target, BINS, over)
                self.bins[over] = self.bins[over] + found if over in self.bins else found

    def evaluation(self, name: str, rule: SetRule) -> Evaluation:
        labelled = self.predictions.target is not None
        return Evaluation(
            name=name,
            rule=rule,
            classes=tuple(self.predictions.class_names),
            single_label=self.single,
            labelled=labelled,
            sizes=self.sizes,
            group_sizes=self.group_sizes if labelled else {},
            hits=self.hits,
            precision=float(self.precision.compute()) if labelled else math.nan,
            rank_curve=self.rank_curve.compute() if labelled and self.rank_curve else None,
            size_curve=self.size_curve.compute() if labelled and self.size_curve else None,
            reliability=self.bins,
            mean_average_precision=self._mean_average_precision() if labelled else {},
            train_counts=self.predictions.train_counts,
            examples=_examples(self.predictions, rule),
            notes=[*rule.notes],
        )

    def _mean_average_precision(self) -> dict[str, float]:
        if self.by_class is None or self.by_example is None:
            return {}
        found = {"map_class": float(self.by_class.compute()), "map_example": float(self.by_example.compute())}
        if isinstance(self.by_class, BinnedMeanAveragePrecision):
            low, high = self.by_class.bounds()
            found |= {"map_class_low": float(low), "map_class_high": float(high)}
        return found


def _examples(predictions: Predictions, rule: SetRule) -> list[LabelList]:
    """A few rows with sets of different sizes, from the smallest to the largest, all from the first rows."""
    head = predictions.rows(slice(0, max(1, min(len(predictions), 2**20 // predictions.num_classes, 1000))))
    probs = head.plausibility()
    sets = rule(probs)
    order = sets.sum(1).argsort(stable=True)
    places = torch.linspace(0, len(order) - 1, min(EXAMPLES, len(order))).round().long()
    chosen = order[places]
    rows = head.rows(chosen)
    return label_lists(sets[chosen], probs[chosen], head.class_names, rows.ids or (), rows.target)
