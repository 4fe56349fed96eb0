"""What rules are fitted on: a matrix, predictions, or batches that are read as often as needed."""

import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import check_entries
from shortlist.class_names import check_same_batches, check_same_columns, column_names
from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.tensors import Probs, Target, as_target, as_tensor, check_scores, check_target

Batch: TypeAlias = tuple[Probs, Target | None]
Source: TypeAlias = Tensor | np.ndarray[Any, Any] | Predictions | Iterable[Any] | Callable[[], Iterable[Any]]
Progress: TypeAlias = Callable[[int], None]  # called with the number of rows read so far in a pass

SAMPLED_ENTRIES = 2**18


class Batches:
    """Rows in batches: ``for probs, target in batches``, as often as the source can be read.

    Args:
        source: a matrix (tensor, array, data frame or nested list), predictions, an iterable of batches such as a
            ``DataLoader``, or a function that starts a new pass over batches. A batch is ``probs``, ``(probs,)`` or
            ``(probs, target)``. A generator can be read only once.
        target: the labels of a matrix; other sources bring their own.
        progress: callback, called after each batch with the number of rows read so far; every pass starts from 0.
        probabilities: whether the values must be probabilities, rather than any scores.
        widen: whether bfloat16 is read as float32, as fits need it; true by default.

    The first pass checks the values of every batch as it is read: no NaN, labels below the number of classes, and
    probabilities from 0 to 1 where they are needed. Predictions were checked when they were made.

    Attributes:
        classes: the number of classes, once a batch has been read.
        names: the names of the columns, if batches are data frames, once one has been read.
    """

    def __init__(
        self,
        source: Source,
        target: Any = None,
        progress: Progress | None = None,
        *,
        probabilities: bool = False,
        widen: bool = True,
    ):
        self.widen = widen
        self.source, self.progress, self.probabilities = source, progress, probabilities
        self._checked = isinstance(source, Predictions)  # they check their values themselves
        self.whole: Probs | None = None
        self.classes: int | None = None
        self.names: list[str] | None = None
        self.target = None if target is None else as_target(target)
        self._peeked: list[Any] = []
        if is_matrix(source):
            check_same_columns(source, target)
            self.whole, self.names = as_probs(source), column_names(source)
            if self.target is not None:
                check_target(self.whole, self.target, "probs")
        elif target is not None:
            raise InputError("target: expected None, because batches and predictions bring their own labels, got a target")
        elif not isinstance(source, Predictions) and not callable(source) and not isinstance(source, Iterable):
            raise InputError(f"probs: expected a matrix, predictions or batches, got {type(source).__name__}")

    @property
    def repeatable(self) -> bool:
        """Whether the source can be read more than once."""
        return callable(self.source) or self.whole is not None or not isinstance(self.source, Iterator)

    def __iter__(self) -> Iterator[Batch]:
        for probs, target, _ in self.with_scores():
            yield probs, target

    def with_scores(self) -> Iterator[tuple[Probs, Target | None, Tensor | None]]:
        """The batches with the scores behind their probabilities, where the source is predictions; otherwise None."""
        done = 0
        for probs, target, scores in self._batches():
            probs = _widened(probs) if self.widen else probs
            self.classes = probs.shape[1]
            if not self._checked:
                check_entries(probs, target, "probabilities" if self.probabilities else "scores")
            yield probs, target, scores
            done += len(probs)
            if self.progress is not None:
                self.progress(done)
        self._checked = True

    def _batches(self) -> Iterator[tuple[Probs, Target | None, Tensor | None]]:
        if self.whole is not None:
            yield self.whole, self.target, None
        elif isinstance(self.source, Predictions):
            for block in self.source.blocks():
                yield block.plausibility(), block.target, block.scores
        else:
            for probs, target in self._read():
                yield probs, target, None

    def _read(self) -> Iterator[Batch]:
        classes = None
        for item in self._items():
            probs, target = self._batch(item)
            if probs.shape[1] != (classes := classes or probs.shape[1]):
                raise InputError(f"probs: expected batches with the same classes, got {classes} and {probs.shape[1]}")
            yield probs, target

    def _batch(self, item: Any) -> Batch:
        """The probabilities and the target of ``probs``, ``(probs,)`` or ``(probs, target)``."""
        parts = item if isinstance(item, tuple | list) and len(item) <= 2 and not is_matrix(item) else (item,)
        probs = as_probs(parts[0])
        self._check_names(column_names(parts[0]))
        check_same_columns(parts[0], parts[-1] if len(parts) == 2 else None)
        target = as_target(parts[1]) if len(parts) == 2 and parts[1] is not None else None
        if target is not None:
            check_target(probs, target, "probs")
        return probs, target

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
        for probs, target in self:
            if target is None:
                raise InputError(
                    "target: expected labels, which this rule is fitted on, got none: pass target, or batches (probs, target)"
                )
            yield probs, target

    def sample(self) -> Probs | None:
        """A sample of rows: spread over a matrix, or over the first batch of other sources; None if there are no rows."""
        if self.whole is not None:
            found = self.whole if self.whole.numel() else None
        elif isinstance(self.source, Iterator):
            found = self._peek(self.source)
        else:
            found = next((probs for probs, _, _ in self._batches() if probs.numel()), None)
        return None if found is None else _widened(found[:: max(1, found.numel() // SAMPLED_ENTRIES)])

    def _peek(self, items: Iterator[Any]) -> Probs | None:
        """The first batch with rows of a source that can be read only once; batches read here are kept for the pass."""
        for probs, _ in map(self._batch, self._peeked):  # from an earlier call
            if probs.numel():
                return probs
        for item in items:
            self._peeked.append(item)
            probs, _ = self._batch(item)
            if probs.numel():
                return probs
        return None


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


def _widened(probs: Probs) -> Probs:
    """bfloat16, which numpy lacks, as float32."""
    return probs.float() if probs.dtype == torch.bfloat16 else probs
