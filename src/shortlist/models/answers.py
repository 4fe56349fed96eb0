"""Answers: the sets that a classifier predicts for some rows, with names and probabilities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

from torch import Tensor

from shortlist.links import Link
from shortlist.predictions import Predictions
from shortlist.sets import label_lists
from shortlist.tensors import Scores, Sets
from shortlist.words import printable

SHOWN_ROWS, SHOWN_LABELS = 5, 5


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """Sets of labels, one per row.

    ``answers[i]`` is the list of (name, probability) of row i, most probable first; a slice gives the answers of its rows.

    Args:
        scores: float32 (N, C), the output of the network.
        probabilities: (N, C), from the link; the scores themselves if there is no link.
        sets: bool (N, C).
        classes: C names.
        ids: the name of each row: the path of its file, or its number.
        link: the link that turned scores into probabilities; None if there is none.
        train_counts: the number of training examples of each class, (C,), if known.
        superclasses: the name of the superclass of each class, if known.
        quality: float64 (N,), the quality of each row that a gate compared, if there is any.

    >>> import torch
    >>> probs = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    >>> answers = Answers(probs.log(), probs, probs > 0.3, ["ash", "elm"], ["leaf.jpg", "twig.jpg"])
    >>> answers[0]
    [('elm', 0.75)]
    >>> answers
    Answers(2 rows, 1.5 labels on average)
      leaf.jpg: elm 0.750
      twig.jpg: ash 0.500, elm 0.500
    """

    scores: Scores
    probabilities: Tensor
    sets: Sets
    classes: Sequence[str]
    ids: Sequence[str]
    link: Link | None = None
    train_counts: Tensor | None = None
    superclasses: Sequence[str] | None = None
    quality: Tensor | None = None

    @cached_property
    def _lists(self) -> list[list[tuple[str, float]]]:
        found = label_lists(self.sets, self.probabilities, self.classes, self.ids)
        return [list(zip(row.labels, row.probs, strict=True)) for row in found]

    @property
    def names(self) -> list[list[str]]:
        """The labels of each set, most probable first."""
        return [[name for name, _ in row] for row in self._lists]

    def __len__(self) -> int:
        return len(self.sets)

    def __iter__(self) -> Iterator[list[tuple[str, float]]]:
        return iter(self._lists)

    @overload
    def __getitem__(self, row: int) -> list[tuple[str, float]]: ...
    @overload
    def __getitem__(self, row: slice) -> "Answers": ...
    def __getitem__(self, row: int | slice) -> "list[tuple[str, float]] | Answers":
        if isinstance(row, slice):
            parts = (self.scores[row], self.probabilities[row], self.sets[row])
            quality = None if self.quality is None else self.quality[row]
            return Answers(*parts, self.classes, self.ids[row], self.link, self.train_counts, self.superclasses, quality)
        return self._lists[row]

    def predictions(self) -> Predictions:
        """The scores as predictions without labels, to be saved, or to apply another rule to."""
        ids = self.ids if len(set(self.ids)) == len(self.ids) else None  # duplicate names: rows are numbered instead
        known = (self.train_counts, self.superclasses)
        return Predictions(self.scores, None, self.classes, self.link, ids, *known, quality=self.quality)

    def __repr__(self) -> str:
        size = f", {float(self.sets.sum()) / len(self):.3g} labels on average" if len(self) else ""
        lines = [f"Answers({len(self)} rows{size})"]
        for name, row in zip(self.ids[:SHOWN_ROWS], self[:SHOWN_ROWS]._lists, strict=True):
            shown = [f"{printable(label)} {number:.3f}" for label, number in row[:SHOWN_LABELS]]
            more = [f"… and {len(row) - SHOWN_LABELS} more"] if len(row) > SHOWN_LABELS else []
            lines.append(f"  {printable(name)}: {', '.join(shown + more) or 'no label'}")
        return "\n".join([*lines, *(["  …"] if len(self) > SHOWN_ROWS else [])])
