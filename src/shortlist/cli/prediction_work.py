"""The rows that ``shortlist predict`` classifies: scored a batch at a time, with what is noticed on the way."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from shortlist.cli.console import Bar, say
from shortlist.data.dataset import Split
from shortlist.data.problems import LEFT_OUT, Problem
from shortlist.models import Classifier
from shortlist.models.quality import RowQuality
from shortlist.predictions import Predictions
from shortlist.row_order import count_rows
from shortlist.runs.part_scoring import UNKNOWN_LABEL, checked_batches, form_of, things
from shortlist.sets.lists import Describer, LabelList, label_lists
from shortlist.tensors import Scores, Target


@dataclass
class Work:
    """The rows to classify, and counts and problems that are collected on the way."""

    model: Classifier
    rows: Split
    batch_size: int
    wanted: str | None = None  # the name of the quality to compute
    target: Target | None = None
    known: Tensor | None = None  # which rows have a label that the classifier knows; None if all or none have
    left_out: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.counts = torch.zeros(len(self.model.classes) + 1, dtype=torch.float64)  # of sets, by their size
        self.done, self.refused, self.device = 0, 0, self.model.device.type
        self.quality = None if self.wanted is None else RowQuality(self.wanted, len(self.rows))
        self.batches = self._scored()

    @property
    def things(self) -> str:
        """What the rows are, in messages."""
        return things(self.model)

    def _scored(self) -> Iterator[tuple[Tensor, Scores]]:
        """Row numbers and scores; unreadable pictures are noted and left out."""
        with Bar(self.things, len(self.rows)) as bar:
            for numbers, scores in checked_batches(self.model, self.rows, self.batch_size, self.problems, self.quality):
                self.done += len(numbers)
                yield numbers, scores
                bar.at(int(numbers[-1]) + 1)

    def lists(self) -> Iterator[list[LabelList]]:
        """The sets as lists, a batch at a time."""
        called = "scores" if self.model.link is None else "probs"
        assert self.model.rule is not None
        sets_of, describe = self.model.rule.in_blocks(), self.describer
        for numbers, scores in self.batches:
            quality = self.quality_of(numbers)
            probs, sets = self.model.decide(scores, sets_of, quality)
            self.count(sets)
            ids = [self.rows.ids[row] for row in numbers.tolist()]
            target = None if self.target is None else self.target[numbers]
            lists = describe(label_lists(sets, probs, self.model.classes, ids, target, called), sets, probs, quality)
            if self.known is not None:
                has_label = self.known[numbers].tolist()
                lists = [one if yes else replace(one, target=None) for one, yes in zip(lists, has_label, strict=True)]
            self.refused += sum(one.refused for one in lists)
            yield lists

    def labelled_batches(self) -> Iterator[tuple[Tensor, Scores]]:
        """Row numbers and scores; rows whose label the classifier does not know are left out and noted."""
        for numbers, scores in self.batches:
            kept = torch.ones(len(numbers), dtype=torch.bool) if self.known is None else self.known[numbers]
            names = [self.rows.ids[row] for row in numbers[~kept].tolist()]
            self.left_out += [
                Problem(UNKNOWN_LABEL, name, f"the classifier does not know its label: {LEFT_OUT}") for name in names
            ]
            self.done -= len(names)
            if kept.any():
                yield numbers[kept], scores[kept.to(scores.device)]

    def scored_rows(self, ids: Sequence[str]) -> Iterator[tuple[Scores, Target | None, list[str], Tensor | None]]:
        """Scores, labels, names and quality of the labelled rows; the rule, if there is one, gives the sizes of their sets."""
        for numbers, scores in self.labelled_batches():
            quality = self.quality_of(numbers)
            if self.makes_sets:
                self.count(self.model.decide(scores, quality=quality)[1])
            target = None if self.target is None else self.target[numbers]
            yield scores, target, [ids[row] for row in numbers.tolist()], quality

    def names(self) -> Sequence[str]:
        """The names of the rows, or their numbers if some have the same."""
        if len(set(self.rows.ids)) == len(self.rows.ids):
            return self.rows.ids
        say("some rows have the same name, so rows are numbered instead")
        return [str(row) for row in range(len(self.rows))]

    def like(self) -> Predictions:
        """Predictions without rows that say what all rows hold."""
        return form_of(self.model, self.target, self.quality is not None)

    @property
    def describer(self) -> Describer:
        """Says what the sets of the model's rule are."""
        assert self.model.rule is not None
        return Describer(self.model.rule, self.model.superclasses)

    def quality_of(self, numbers: Tensor) -> Tensor | None:
        """The quality of these rows, which have been scored, if it is wanted."""
        return None if self.quality is None else self.quality.values[numbers]

    @property
    def makes_sets(self) -> bool:
        """Whether the classifier has a rule, and all that it needs."""
        rule = self.model.rule
        return rule is not None and (self.quality is not None or not rule.needs_quality)

    def count(self, sets: Tensor) -> None:
        """Count the sets by their size."""
        self.counts += count_rows(sets).bincount(minlength=len(self.counts))
