"""Where rules are fitted from: a matrix, predictions, or batches that are read as often as needed."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.tensors import Probs, Target, as_target, as_tensor, check_scores, check_target

Batch: TypeAlias = tuple[Probs, Target | None]
Source: TypeAlias = Tensor | np.ndarray[Any, Any] | Predictions | Iterable[Any] | Callable[[], Iterable[Any]]

SAMPLED_ENTRIES = 2**18
PROBABILITY_SLACK = 1e-3


class Batches:
    """Rows in blocks: ``for probs, target in batches``, as often as the source can be read.

    The source is a tensor or an array (with its target beside it), predictions, a re-iterable of batches such as a
    ``DataLoader``, or a callable that starts a new pass. A batch is ``probs``, ``(probs,)`` or ``(probs, target)``. A generator
    can be read once.
    """

    def __init__(self, source: Source, target: Any = None):
        self.source = source
        self.whole: Probs | None = None
        self.target = None if target is None else as_target(target)
        self._peeked: list[Any] = []
        if isinstance(source, Tensor | np.ndarray):
            self.whole = _plain(as_tensor(source))
            check_scores(self.whole, "probs")
            if self.target is not None:
                check_target(self.whole, self.target, "probs")
        elif target is not None:
            raise InputError("target: batches bring their labels themselves, as (probs, target); got a second target")
        elif not isinstance(source, Predictions) and not callable(source) and not isinstance(source, Iterable):
            raise InputError(f"probs: expected a tensor, an array, predictions or batches of them, got {type(source).__name__}")

    @property
    def repeatable(self) -> bool:
        """Whether the source can be read more than once."""
        return callable(self.source) or self.whole is not None or not isinstance(self.source, Iterator)

    def __iter__(self) -> Iterator[Batch]:
        if self.whole is not None:
            yield self.whole, self.target
        elif isinstance(self.source, Predictions):
            for block in self.source.blocks():
                yield block.plausibility(), block.target
        else:
            yield from self._read()

    def _read(self) -> Iterator[Batch]:
        classes = None
        for item in self._items():
            probs, target = self._batch(item)
            if probs.shape[1] != (classes := classes or probs.shape[1]):
                raise InputError(f"probs: expected batches with the same classes, got {classes} and {probs.shape[1]}")
            yield probs, target

    @staticmethod
    def _batch(item: Any) -> Batch:
        """A batch is probabilities, alone or in a list, or a pair of probabilities and target."""
        parts = item if isinstance(item, tuple | list) and len(item) <= 2 else (item,)
        probs = _plain(as_tensor(parts[0]))
        check_scores(probs, "probs")
        target = as_target(parts[1]) if len(parts) == 2 and parts[1] is not None else None
        if target is not None:
            check_target(probs, target, "probs")
        return probs, target

    def _items(self) -> Iterator[Any]:
        items = iter(self.source() if callable(self.source) else self.source)  # type: ignore[arg-type]
        if isinstance(self.source, Iterator):
            yield from self._peeked
            self._peeked = []
        yield from items

    def check_probabilities(self) -> None:
        """The first batch with rows holds probabilities: a rule that adds them up would take logits for granted."""
        head = self.sample()
        if head is not None and not (head.min() >= -PROBABILITY_SLACK and head.max() <= 1 + PROBABILITY_SLACK):
            raise InputError(
                f"probs: this rule needs probabilities from 0 to 1, got numbers from {float(head.min()):.4g} to "
                f"{float(head.max()):.4g}: pass them through their link (softmax, sigmoid, …) first"
            )

    def labelled(self) -> Iterator[tuple[Probs, Target]]:
        """The batches, which all must bring labels."""
        for probs, target in self:
            if target is None:
                raise InputError("target: this rule is fitted on labelled rows; pass target, or batches (probs, target)")
            yield probs, target

    def sample(self) -> Probs | None:
        """Some rows like all the others: spread over a matrix, or over the first batch of anything else; None without rows."""
        if self.whole is not None:
            found = self.whole if self.whole.numel() else None
        elif isinstance(self.source, Iterator):
            found = self._peek(self.source)
        else:
            found = next((probs for probs, _ in self if probs.numel()), None)
        return None if found is None else found[:: max(1, found.numel() // SAMPLED_ENTRIES)]

    def _peek(self, items: Iterator[Any]) -> Probs | None:
        """The first batch with rows of something that can be read once; what was read is kept for the pass to come."""
        for probs, _ in map(self._batch, self._peeked):  # it may have been asked before
            if probs.numel():
                return probs
        for item in items:
            self._peeked.append(item)
            probs, _ = self._batch(item)
            if probs.numel():
                return probs
        return None


def _plain(probs: Probs) -> Probs:
    """bfloat16 as float32, which holds it exactly and which numpy knows."""
    return probs.float() if probs.dtype == torch.bfloat16 else probs
