"""PredictionsWriter: a file of predictions to which rows are appended, so that they need never be in memory together."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from shortlist.class_names import check_same_batches, class_list, column_names
from shortlist.errors import InputError
from shortlist.links import Link
from shortlist.predictions.record import Predictions
from shortlist.predictions.storage import check_suffix, header_of, sink_for
from shortlist.predictions.stored import RowKind, Sink


class PredictionsWriter:
    """A file of predictions, written a block of rows at a time; it appears when the ``with`` block ends, whole or not at all.

    The first block decides which dtype the scores have and whether rows have labels and names; the others have to agree.
    Values are checked as :class:`~shortlist.Predictions` checks them. Memory holds one block, and the names of all rows; a
    ``.parquet`` file gathers small blocks into row groups of 2 million scores.

    Args:
        path: a name that ends in ``.safetensors``, ``.npz`` or ``.parquet``.
        classes: C names, all different; by default those of the columns of the first block, if it is a data frame, or else
            numbers from 0.
        link: turns scores into probabilities (a link or its text); None if scores cannot be interpreted as probabilities.
        train_counts: the number of training examples of each class, (C,).
        superclasses: the name of the superclass of each class, C names.
        network_digest: digest of the network that computes the scores, see :meth:`shortlist.models.Network.digest`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with PredictionsWriter(f"{folder}/scores.safetensors", ["ash", "elm"], "softmax") as writer:
    ...         writer.append([[2.0, 0.0]], target=[0])
    ...         writer.append([[0.0, 1.0], [3.0, 0.0]], target=[1, 0])
    ...     Predictions.load(f"{folder}/scores.safetensors")
    Predictions(3 rows, 2 classes, one label a row, link softmax)
    """

    def __init__(
        self,
        path: str | Path,
        classes: Sequence[str] | Mapping[Any, Any] | None = None,
        link: Link | str | None = None,
        *,
        train_counts: Any = None,
        superclasses: Sequence[str] | None = None,
        network_digest: str | None = None,
    ):
        self.path, self.rows = Path(path), 0
        check_suffix(self.path)
        self._columns: dict[str, Any] = {
            "classes": None if classes is None else class_list(classes),
            "link": link,
            "train_counts": train_counts,
            "superclasses": superclasses,
            "network_digest": network_digest,
        }
        self._names: set[str] = set()
        self._names_of: dict[str, list[str] | None] = {}  # the columns of blocks that are data frames
        self._kind: RowKind | None = None
        self._sink: Sink | None = None
        self._open = ExitStack()

    def __enter__(self) -> "PredictionsWriter":
        return self

    def append(
        self, scores: Any, target: Any = None, ids: Sequence[str] | None = None, quality: Any = None, columns: Any = None
    ) -> None:
        """Add rows.

        Args:
            scores: (n, C).
            target: int64 (n,) or bool (n, C), in every block or in none.
            ids: n names, different from all before, in every block or in none.
            quality: n numbers, in every block or in none.
            columns: n texts or numbers by the name of each column, the same columns in every block.
        """
        try:
            named = self._same_columns(scores=scores, target=target)
            block = Predictions(scores, target, ids=ids, quality=quality, columns=columns, **self._columns)
            self._check(block)
        except InputError as error:
            raise InputError(f"{error} (in the block that begins at row {self.rows:,})" if self.rows else str(error)) from error
        if self._sink is None:
            self._begin(block)
        assert self._sink is not None
        self._sink.add(block)
        self.rows += len(block)
        self._names.update(block.ids or ())
        self._names_of = named

    def _begin(self, first: Predictions) -> None:
        self._sink = self._open.enter_context(sink_for(self.path, header_of(first), RowKind.of(first)))
        self._kind = RowKind.of(first)
        self._columns |= {"link": first.link, "classes": first.classes}  # parsed once; those of a data frame are for all blocks

    def _same_columns(self, **matrices: Any) -> dict[str, list[str] | None]:
        """The names of the columns so far, after a check that those of this block are the same in the same order."""
        found = {}
        numbers = [] if self._kind is None else [str(place) for place in range(self._kind.classes)]
        for name, values in matrices.items():
            known, given = self._names_of.get(name), column_names(values)
            check_same_batches(known or numbers, given, name)
            found[name] = known or given
        return found

    def _check(self, block: Predictions) -> None:
        """Refuse a block that differs from those before."""
        if self._kind is not None:
            self._kind.check_same(RowKind.of(block), "in every block, as in the first")
        twice = next((name for name in block.ids or () if name in self._names), None)
        if twice is not None:
            raise InputError(f"ids: expected different names, got {twice!r} more than once")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None and self._sink is None:
            classes = self._columns["classes"]
            if classes is None:
                raise InputError("scores: expected at least one block, or classes, to write a file without rows; got neither")
            self._begin(Predictions(torch.empty(0, len(classes)), **self._columns))
        self._open.__exit__(kind, error, trace)
