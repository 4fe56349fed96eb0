"""What rules are fitted on: a matrix, predictions, or batches that are read as often as needed."""

import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import check_entries
from shortlist.class_names import check_same_batches, check_same_names, column_names, labels_by_name
from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.predictions.checks import as_quality
from shortlist.predictions.columns import as_column
from shortlist.row_names import check_same_rows
from shortlist.tensors import Array, Probs, Sets, Target, as_target, as_tensor, check_scores, check_target

Source: TypeAlias = Tensor | np.ndarray[Any, Any] | Predictions | Iterable[Any] | Callable[[], Iterable[Any]]
Progress: TypeAlias = Callable[[int], None]  # called with the number of rows read so far in a pass

SAMPLED_ENTRIES = 2**18


class Batch(NamedTuple):
    """Rows with everything that is known about them.

    Args:
        probs: (N, C).
        target: their labels, if these are known.
        scores: what the probabilities were computed from, where the source is predictions; otherwise None.
        quality: one number for each row, (N,), if there is any.
        numbers: the number of each row among all rows, int64 (N,); they follow the order of the source by default.
        groups: the group of each row, an array of texts or numbers (N,), if there are groups.
    """

    probs: Probs
    target: Target | None = None
    scores: Tensor | None = None
    quality: Tensor | None = None
    numbers: Tensor | None = None
    groups: Array | None = None

    def rows(self, index: Tensor) -> "Batch":
        """These rows, by number or truth value."""

        def taken(part: Tensor | None) -> Tensor | None:
            return None if part is None else part[index.to(part.device)]

        probs, groups = (
            self.probs[index.to(self.probs.device)],
            None if self.groups is None else self.groups[index.cpu().numpy()],
        )
        return Batch(probs, taken(self.target), taken(self.scores), taken(self.quality), taken(self.numbers), groups)

    @property
    def labels(self) -> Target:
        """The target; an error if there is none."""
        if self.target is None:
            raise InputError(
                "target: expected labels, which this rule is fitted on, got none: pass target, or batches (probs, target)"
            )
        return self.target

    @property
    def row_numbers(self) -> Tensor:
        """The numbers; only of batches that were read."""
        assert self.numbers is not None
        return self.numbers


class Batches:
    """Rows in batches: ``for probs, target in batches``, as often as the source can be read.

    Args:
        source: a matrix (tensor, array, data frame or nested list), predictions, an iterable of batches such as a
            ``DataLoader``, or a function that starts a new pass over batches. A batch is ``probs``, ``(probs,)``,
            ``(probs, target)``, ``(probs, target, quality)`` or ``(probs, target, quality, groups)``. A generator can be read
            only once.
        target: the labels of a matrix; other sources bring their own.
        progress: callback, called after each batch with the number of rows read so far; every pass starts from 0.
        quality: one number for each row of a matrix; other sources bring their own.
        probabilities: whether the values must be probabilities, rather than any scores.
        widen: whether bfloat16 is read as float32, as fits need it; true by default.
        first_row: the number of the first row, where the source is a part of all rows.
        groups: the group of each row of a matrix, texts or numbers; other sources bring their own.
        column: the column of predictions that holds the groups of their rows, if there are groups.

    The first pass checks the values of every batch as it is read: no NaN, labels below the number of classes, and
    probabilities from 0 to 1 where they are needed. Predictions were checked when they were made.

    Attributes:
        classes: the number of classes, once a batch has been read.
        names: the names of the columns, if batches are data frames, once one has been read.
        rows: the number of rows that were read in the last pass.
    """

    def __init__(
        self,
        source: Source,
        target: Any = None,
        progress: Progress | None = None,
        *,
        quality: Any = None,
        probabilities: bool = False,
        widen: bool = True,
        first_row: int = 0,
        groups: Any = None,
        column: str | None = None,
    ):
        self.column = column
        self.groups: Array | None = None
        self.widen, self.first_row = widen, first_row
        self.source, self.progress, self.probabilities = source, progress, probabilities
        self._checked = isinstance(source, Predictions)  # they check their values themselves
        self.whole: Probs | None = None
        self.classes: int | None = None
        self.names: list[str] | None = None
        self.rows = 0
        target = labels_by_name(target, source)
        self.target = None if target is None else as_target(target)
        self.quality: Tensor | None = None
        self._peeked: list[Any] = []
        if is_matrix(source):
            check_same_names(source, target)
            self.whole, self.names = as_probs(source), column_names(source)
            if self.target is not None:
                check_target(self.whole, self.target, "probs")
            check_same_rows(source, quality, "quality")
            self.quality = None if quality is None else as_quality(quality, len(self.whole))
            check_same_rows(source, groups, "groups")
            self.groups = None if groups is None else as_column(groups, len(self.whole), "groups")
        elif quality is not None or groups is not None:
            check_no_quality(quality, source)
            check_no_groups(groups, source)
        elif target is not None:
            raise InputError("target: expected None, because batches and predictions bring their own labels, got a target")
        elif not isinstance(source, Predictions) and not callable(source) and not isinstance(source, Iterable):
            raise InputError(f"probs: expected a matrix, predictions or batches, got {type(source).__name__}")

    @property
    def repeatable(self) -> bool:
        """Whether the source can be read more than once."""
        return callable(self.source) or self.whole is not None or not isinstance(self.source, Iterator)

    def __iter__(self) -> Iterator[tuple[Probs, Target | None]]:
        for batch in self.whole_rows():
            yield batch.probs, batch.target

    def whole_rows(self) -> Iterator[Batch]:
        """The batches with the scores behind their probabilities and their quality, where the source has them."""
        done = self.rows = 0
        for batch in self._batches():
            batch = batch._replace(probs=_widened(batch.probs)) if self.widen else batch
            self.classes = batch.probs.shape[1]
            if batch.numbers is None:
                start = self.first_row + done
                batch = batch._replace(numbers=torch.arange(start, start + len(batch.probs), device=batch.probs.device))
            if not self._checked:
                check_entries(batch.probs, batch.target, "probabilities" if self.probabilities else "scores")
            yield batch
            done += len(batch.probs)
            self.rows = done
            if self.progress is not None:
                self.progress(done)
        self._checked = True

    def _batches(self) -> Iterator[Batch]:
        if self.whole is not None:
            yield Batch(self.whole, self.target, None, self.quality, groups=self.groups)
        elif isinstance(self.source, Predictions):
            for block in self.source.blocks():
                groups = None if self.column is None else block.columns.get(self.column)
                yield Batch(block.plausibility(), block.target, block.scores, block.quality, groups=groups)
        else:
            yield from self._read()

    def _read(self) -> Iterator[Batch]:
        classes = None
        for item in self._items():
            batch = self._batch(item)
            if batch.probs.shape[1] != (classes := classes or batch.probs.shape[1]):
                raise InputError(f"probs: expected batches with the same classes, got {classes} and {batch.probs.shape[1]}")
            yield batch

    def _batch(self, item: Any) -> Batch:
        """The parts of ``probs``, ``(probs,)``, ``(probs, target)``, … as the class lists them."""
        if isinstance(item, Batch):
            return item
        parts = item if isinstance(item, tuple | list) and len(item) <= 4 and not is_matrix(item) else (item,)
        values, labels, quality, groups = (*parts, None, None, None)[:4]
        probs = as_probs(values)
        self._check_names(column_names(values))
        labels = labels_by_name(labels, values, self.names)
        check_same_names(values, labels, self.names)
        check_same_rows(values, quality, "quality")
        target = None if labels is None else as_target(labels)
        if target is not None:
            check_target(probs, target, "probs")
        check_same_rows(values, groups, "groups")
        quality = None if quality is None else as_quality(quality, len(probs))
        return Batch(probs, target, None, quality, groups=None if groups is None else as_column(groups, len(probs), "groups"))

    def _check_names(self, names: list[str] | None) -> None:
        """Raise an error if the columns of a batch have other names than those before, or the same in another order."""
        check_same_batches(self.names, names)
        self.names = names if self.names is None else self.names

    def _items(self) -> Iterator[Any]:
        items = iter(self.source() if callable(self.source) else self.source)  # type: ignore[arg-type]
        if isinstance(self.source, Iterator):
            yield from self._peeked
            self._peeked = []
        yield from items

    def labelled(self) -> Iterator[tuple[Probs, Target]]:
        """The batches, all of which must have labels."""
        for batch in self.whole_rows():
            yield batch.probs, batch.labels

    def sample(self) -> Probs | None:
        """A sample of rows: spread over a matrix, or over the first batch of other sources; None if there are no rows."""
        if self.whole is not None:
            found = self.whole if self.whole.numel() else None
        elif isinstance(self.source, Iterator):
            found = self._peek(self.source)
        else:
            found = next((batch.probs for batch in self._batches() if batch.probs.numel()), None)
        return None if found is None else _widened(found[:: max(1, found.numel() // SAMPLED_ENTRIES)])

    def _peek(self, items: Iterator[Any]) -> Probs | None:
        """The first batch with rows of a source that can be read only once; batches read here are kept for the pass."""
        for batch in map(self._batch, self._peeked):  # from an earlier call
            if batch.probs.numel():
                return batch.probs
        for item in items:
            self._peeked.append(item)
            batch = self._batch(item)
            if batch.probs.numel():
                return batch.probs
        return None


def check_no_quality(quality: Any, source: Any) -> None:
    """Raise an error if a quality is given beside rows that bring their own."""
    if quality is not None:
        how = "use predictions.with_quality(…)" if isinstance(source, Predictions) else "use batches (probs, target, quality)"
        raise InputError(f"quality: expected None, because batches and predictions bring their own, got one: {how}")


def check_no_groups(groups: Any, source: Any) -> None:
    """Raise an error if groups are given beside rows that bring their own."""
    if groups is not None:
        named = isinstance(source, Predictions)
        how = "use predictions.with_columns(…)" if named else "use batches (probs, target, quality, groups)"
        raise InputError(f"groups: expected None, because batches and predictions bring their own, got some: {how}")


def is_matrix(values: Any) -> bool:
    """Whether this is a matrix (tensor, array, data frame, list of rows) rather than batches of them."""
    if isinstance(values, list | tuple):
        return bool(values) and _is_row(values[0])
    return isinstance(values, Tensor | np.ndarray) or hasattr(values, "to_numpy")


def _is_row(values: Any) -> bool:
    if isinstance(values, list | tuple):
        return bool(values) and all(isinstance(value, numbers.Real) for value in values)
    return getattr(values, "ndim", None) == 1


def as_probs(values: Any) -> Probs:
    """A matrix as a floating-point tensor (N, C); numbers in lists as float64."""
    if isinstance(values, list | tuple):
        try:
            values = np.asarray([np.asarray(row) for row in values])
        except ValueError as error:
            raise InputError(f"probs: expected rows of the same length, got a list of {len(values)} different ones") from error
    probs = as_tensor(values)
    check_scores(probs, "probs")
    return probs


def like_probs(sets: Sets, probs: Any) -> Any:
    """Sets as their probabilities came: a tensor for a tensor, a data frame for a pandas data frame, otherwise an array."""
    if isinstance(probs, Tensor):
        return sets
    if hasattr(probs, "columns") and hasattr(probs, "index"):
        return type(probs)(sets.numpy(), index=probs.index, columns=probs.columns)
    return sets.numpy()


def _widened(probs: Probs) -> Probs:
    """bfloat16, which numpy lacks, as float32."""
    return probs.float() if probs.dtype == torch.bfloat16 else probs
