"""All classes in one table: support, coverage with its interval, mean set size, calibration, of one evaluation or several.

The page holds the numbers once, as JSON; its script sorts, filters and shows some of them, and writes them all as CSV.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.evaluation import Evaluation
from shortlist.metrics.binned_pairs import frequency_bands
from shortlist.report.displays import distinct
from shortlist.report.table import Table

MOST_CLASSES = 50_000  # that a page holds
ROWS = "rows"
FIRST = 12  # rows that are there without a script, and in print


@dataclass(frozen=True)
class ClassColumn:
    """A column of the table of classes.

    Args:
        title: heading.
        values: one of each class; NaN where there is nothing to measure.
        form: format of a number.
        meaning: what it is, in a sentence.
        low: lower end of its 95 % interval, where it has one.
        high: upper end.
    """

    title: str
    values: Sequence[Any]
    form: str = ""
    meaning: str = ""
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None

    @property
    def is_support(self) -> bool:
        """Whether it is the number of rows of each class, of all evaluations or of one."""
        return self.title.partition(",")[0] == ROWS

    def parts(self) -> dict[str, Sequence[Any]]:
        """The values, and the ends of their intervals where they have any."""
        found = {"values": self.values, "low": self.low, "high": self.high}
        return {name: part for name, part in found.items() if part is not None}

    def part(self, places: Sequence[int]) -> "ClassColumn":
        """Only these classes, in this order."""
        picked = [None if ends is None else [ends[place] for place in places] for ends in (self.low, self.high)]
        return ClassColumn(self.title, [self.values[place] for place in places], self.form, self.meaning, *picked)

    def shown(self, place: int) -> str:
        """One value as text, with its interval."""
        value = self.values[place]
        if isinstance(value, str):
            return value
        if value is None or math.isnan(value):
            return "–"
        ends = "" if self.low is None or self.high is None else f" ({100 * self.low[place]:.0f}–{100 * self.high[place]:.0f})"
        return format(value, self.form) + ends


class ClassTable:
    """The table of all classes of evaluations that share them.

    Args:
        evaluations: one, or several with the same classes.
        most: classes kept; those with the most rows, if there are more.
    """

    def __init__(self, evaluations: Sequence[Evaluation], most: int = MOST_CLASSES):
        self.evaluations, self.classes = evaluations, len(evaluations[0].classes)
        columns = list(_columns(evaluations))
        self.cut = self.classes > most
        if self.cut:
            support = torch.tensor(next(column.values for column in columns if column.is_support))
            kept = sorted(support.argsort(descending=True, stable=True)[:most].tolist())
            columns = [column.part(kept) for column in columns]
        self.columns = columns

    def meanings(self) -> list[tuple[str, str]]:
        """What the columns are, each once, whatever the evaluation."""
        return list({one.meaning: (one.title.partition(",")[0], one.meaning) for one in self.columns if one.meaning}.values())

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def worst(self, n: int = FIRST) -> Table:
        """The classes with the lowest coverage, as the page shows them before anything is sorted."""
        order = self.order()[:n]
        rows = [[column.shown(place) for column in self.columns] for place in order]
        return Table([column.title for column in self.columns], rows, flush_right=[bool(one.form) for one in self.columns])

    def order(self) -> list[int]:
        """The classes by increasing coverage, those with more rows first among equals, those without rows last."""
        share = next((one.values for one in self.columns if one.low is not None), [math.nan] * len(self))
        rows = next((one.values for one in self.columns if one.is_support), [0] * len(self))
        return sorted(range(len(self)), key=lambda place: (math.isnan(share[place]), share[place], -rows[place]))

    def json(self) -> str:
        """The columns, for the script of the page; safe inside an element of it."""
        columns = [
            {"title": column.title, "form": column.form}
            | {name: [_short(value) for value in part] for name, part in column.parts().items()}
            for column in self.columns
        ]
        text = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

    def table(self) -> Table:
        """Every number of every class, for ``.csv()`` and ``.frame()``: the columns that the page writes as CSV."""
        names, values = [], []
        for column in self.columns:
            for name, part in column.parts().items():
                names.append(column.title if name == "values" else f"{column.title}, {name}")
                values.append(part)
        return Table(names, [list(row) for row in zip(*values, strict=True)])


def class_tables(evaluations: Sequence[Evaluation]) -> list[ClassTable]:
    """A table for each different list of classes, of the evaluations with labels."""
    groups: dict[tuple[str, ...], list[Evaluation]] = {}
    for evaluation in evaluations:
        if evaluation.labelled and ("hits" in evaluation.totals or "class_bins" in evaluation.totals):
            groups.setdefault(evaluation.classes, []).append(evaluation)
    return [ClassTable(group) for group in groups.values()]


def _columns(evaluations: Sequence[Evaluation]) -> Iterator[ClassColumn]:
    yield ClassColumn("class", evaluations[0].classes)
    if evaluations[0].superclasses is not None:
        yield ClassColumn("superclass", evaluations[0].superclasses)
    counts = [(one, one.train_counts.tolist()) for one in evaluations if one.train_counts is not None]
    yield from _of_data("training examples", counts, "number of training examples of the class")
    support = [(one, _support(one)) for one in evaluations]
    yield from _of_data(ROWS, support, "number of rows evaluated that have the class")
    for evaluation in evaluations:
        if "hits" in evaluation.totals:
            yield from _of_sets(evaluation, _suffix(evaluation, evaluations))
    shown = [one for one in evaluations if "class_bins" in one.totals]
    alike = distinct(shown, lambda one, other: torch.equal(one.totals["class_bins"], other.totals["class_bins"]))
    for evaluation in alike:
        yield from _of_probabilities(evaluation, _suffix(evaluation, alike))


def _of_data(title: str, counts: Sequence[tuple[Evaluation, list[int]]], meaning: str) -> Iterator[ClassColumn]:
    """One column of counts, or one for each evaluation where those of other rows or of another training differ."""
    shared = all(values == counts[0][1] for _, values in counts)
    for evaluation, values in counts[:1] if shared else counts:
        yield ClassColumn(title if shared else f"{title}, {evaluation.name}", values, ",d", meaning)


def _support(evaluation: Evaluation) -> list[int]:
    if "hits" in evaluation.totals:
        return [int(count) for count in evaluation.hits[1].tolist()]
    return [int(count) for count in evaluation.class_numbers()["labels"].tolist()]


def _suffix(evaluation: Evaluation, evaluations: Sequence[Evaluation]) -> str:
    return f", {evaluation.name}" if len(evaluations) > 1 else ""


def _of_sets(evaluation: Evaluation, suffix: str) -> Iterator[ClassColumn]:
    hits, rows = evaluation.hits.cpu()
    low, high = frequency_bands(torch.stack([rows, rows, hits]))
    word = "coverage" if evaluation.single_label else "recall"
    meaning = "share of the rows of the class that have it in their set, with its 95 % Wilson interval in percent"
    yield ClassColumn(word + suffix, (hits / rows).tolist(), ".1%", meaning, _known(low, rows), _known(high, rows))
    yield ClassColumn("mean size" + suffix, evaluation.class_sizes.tolist(), ".2f", "mean size of the sets of its rows")


def _known(ends: Tensor, rows: Tensor) -> list[float]:
    return torch.where(rows > 0, ends, math.nan).tolist()


def _of_probabilities(evaluation: Evaluation, suffix: str) -> Iterator[ClassColumn]:
    numbers = evaluation.class_numbers()
    meanings = {
        "gap": ("gap", "+.2%", "mean probability of the class less the share of rows that have it"),
        "z": ("z", "+.1f", "the gap in standard errors; beyond ±2 for one calibrated class in twenty"),
        "ece": ("ECE", ".2%", "expected calibration error of the class, over its pairs with all rows"),
    }
    for name, (title, form, meaning) in meanings.items():
        yield ClassColumn(title + suffix, numbers[name].tolist(), form, meaning)


def _short(value: Any) -> Any:
    """A value with as many digits as the table can show, to keep the page small; null for NaN."""
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else float(f"{value:.5g}") if math.isfinite(value) else None
