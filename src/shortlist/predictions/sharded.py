"""ShardedPredictions: a folder of parts as predictions, of which only what is asked for is read."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.links import Link, link_from_config
from shortlist.predictions.checks import check_names
from shortlist.predictions.columns import as_columns, joined, taken
from shortlist.predictions.part_files import PartFiles
from shortlist.predictions.parts import Manifest
from shortlist.predictions.record import Predictions
from shortlist.predictions.tables import room
from shortlist.tensors import BLOCK_ENTRIES, Array, Scores, Target, row_blocks

FEW_ENTRIES = 2 * BLOCK_ENTRIES  # scores: selections of at most as many are read at once, larger ones stay in the files


class ShardedPredictions(Predictions):
    """Predictions in a folder of parts, as :meth:`Predictions.load` opens it; they are used like any others.

    Blocks and rows are read when they are asked for, and memory holds a few million scores, whatever the size of the folder.
    Larger selections, such as the halves of :meth:`split`, stay in the files too. Whole columns are read by ``target``, ``ids``
    and ``quality``, without the scores. ``scores`` reads everything: beyond 256 MB into a temporary mapped file.
    """

    _files: PartFiles
    _numbers: Array | None
    _form: Predictions
    _given: "_Given"

    def __new__(cls, *fields: Any, **named: Any) -> Predictions:  # type: ignore[misc]
        """Predictions in memory: what ``dataclasses.replace`` makes of these with other fields."""
        return Predictions(*fields, **named)

    @staticmethod
    def open(where: str | Path) -> "ShardedPredictions":
        """The predictions of a finished folder; an error if parts are missing, have other sizes, or do not belong to it."""
        files = PartFiles(where)
        header, kind = files.manifest.header, files.manifest.kind
        target = None
        if kind.target is not None:
            target = torch.empty((0, kind.classes) if kind.multi_label else 0, dtype=kind.target)
        form = Predictions(
            torch.empty((0, kind.classes), dtype=kind.scores),
            target,
            header.classes,
            None if header.link is None else link_from_config(header.link, header.link_tensors),
            () if kind.ids else None,
            header.train_counts,
            header.superclasses,
            header.network_digest,
            () if kind.quality else None,
            {name: joined([], what) for name, what in kind.columns},
        )
        return _view(files, form, None, _Given(named=kind.ids))

    def verify(self) -> None:
        """Read all parts and compare their checksums; an error names the first that is damaged."""
        self._files.verify()

    @property
    def manifest(self) -> Manifest:
        """What the folder says of itself: its parts, and what their rows hold."""
        return self._files.manifest

    @property
    def shards(self) -> list[Predictions]:
        """The rows of each part, in order; parts without rows are left out."""
        numbers = self._chosen(slice(None))
        ends = np.flatnonzero(np.diff(np.searchsorted(self._files.starts, numbers, side="right"))) + 1
        cuts = pairwise([0, *ends.tolist(), len(numbers)])
        return [self._view_of(numbers[start:end], slice(start, end)) for start, end in cuts if start < end]

    def __len__(self) -> int:
        return len(self._files) if self._numbers is None else len(self._numbers)

    def __repr__(self) -> str:
        target = self._form.target
        labels = "no target" if target is None else "one label a row" if target.ndim == 1 else "many labels"
        parts = len(self._files.parts)
        return (
            f"ShardedPredictions({len(self)} rows in {parts} parts, {self.num_classes} classes, {labels}, link {self.link!r})"
        )

    @property
    def num_classes(self) -> int:
        """C, the number of classes."""
        return self._form.num_classes

    @property
    def scores(self) -> Scores:
        """All scores, read into memory or a temporary file."""
        found = room(len(self), self.num_classes, self._form.scores.numpy().dtype)
        done = 0
        for block in self.blocks():
            found[done : done + len(block)] = block.scores
            done += len(block)
        return found

    @property
    def target(self) -> Target | None:
        """All labels."""
        if self._form.target is None:
            return None
        return self._column("target", self._form.target)

    @property
    def quality(self) -> Tensor | None:
        """The quality of all rows."""
        if self._given.quality is not None or self._form.quality is None:
            return self._given.quality
        return self._column("quality", self._form.quality)

    @property
    def columns(self) -> Mapping[str, Array]:
        """What else is known of all rows."""
        known: dict[str, Array] | None = self.__dict__.get("_columns")
        if known is None:
            stored = {name: like for name, like in self._form.columns.items() if name not in self._given.columns}
            parts = [] if not stored else [part.columns for part in self._files.without_scores()]
            every = {name: joined([part[name] for part in parts], like.dtype.kind) for name, like in stored.items()}
            found = every if self._numbers is None else {name: column[self._numbers] for name, column in every.items()}
            both = {**found, **self._given.columns}
            known = {name: both[name] for name in self._form.columns}
            self.__dict__["_columns"] = known
        return known

    @property
    def ids(self) -> Sequence[str] | None:
        """The names of all rows."""
        if not self._given.named:
            return None
        known: tuple[str, ...] | None = self.__dict__.get("_ids")
        if known is None and self._given.names is not None:
            known = tuple(map(str, self._given.names.tolist()))
        if known is None:
            every = [name for stored in self._files.without_scores() for name in stored.ids or ()]
            check_names(every, len(every), "ids")
            known = tuple(every if self._numbers is None else (every[row] for row in self._numbers.tolist()))
        self.__dict__["_ids"] = known
        return known

    def _column(self, name: str, like: Tensor) -> Tensor:
        """The labels or the quality of all rows, which are kept once they were read."""
        known: Tensor | None = self.__dict__.get(f"_all_{name}")
        if known is None:
            known = torch.cat([like, *(getattr(stored, name) for stored in self._files.without_scores())])
            known = known if self._numbers is None else known[torch.from_numpy(self._numbers)]
            self.__dict__[f"_all_{name}"] = known
        return known

    def without_rows(self) -> Predictions:
        """What is known about the columns, and which fields rows have, without any row."""
        form = self._form.without_rows()
        object.__setattr__(form, "ids", () if self._given.named else None)
        return form

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[Predictions]:
        """The same rows in order, in blocks of about ``entries`` scores; each part is read once."""
        for rows in row_blocks(len(self), self.num_classes, entries):
            yield self._gathered(rows)

    def with_link(self, link: Link | str | None) -> "ShardedPredictions":
        """The same scores with another link, by which values are checked when they are read."""
        return _view(self._files, self._form.with_link(link), self._numbers, self._given)

    def with_quality(self, quality: object) -> "ShardedPredictions":
        """The same rows with another quality: one number per row, or None."""
        from shortlist.predictions.checks import as_quality

        values = None if quality is None else as_quality(quality, len(self))
        form = self._form.with_quality(None if quality is None else ())
        return _view(self._files, form, self._numbers, self._given._replace(quality=values))

    def with_columns(self, columns: Any) -> "ShardedPredictions":
        """The same rows with these columns besides those that they have, which stay in the files."""
        found = as_columns(columns, len(self))
        form = self._form.with_columns({name: column[:0] for name, column in found.items()})
        return _view(self._files, form, self._numbers, self._given._replace(columns={**self._given.columns, **found}))

    def _chosen(self, index: Tensor | slice) -> Array:
        """The numbers in the folder of some rows."""
        if self._numbers is not None:
            return self._numbers[index if isinstance(index, slice) else index.cpu().numpy()]
        if isinstance(index, slice):
            return np.arange(*index.indices(len(self)))
        found: Array = index.cpu().numpy().astype(np.int64)
        return np.where(found < 0, found + len(self), found)

    def _rows(self, index: Tensor | slice) -> Predictions:
        numbers = self._chosen(index)
        if len(numbers) * self.num_classes > FEW_ENTRIES:
            return self._view_of(numbers, index)
        return self._gathered(index)

    def _view_of(self, numbers: Array, index: Tensor | slice) -> "ShardedPredictions":
        """These rows of the files, which are those of this index here."""
        return _view(self._files, self._form, numbers, self._given_of(index, numbers))

    def _given_of(self, index: Tensor | slice, numbers: Array) -> "_Given":
        """What is known of the rows of this index, which have these numbers in the folder.

        Names follow the law of predictions in memory: rows without names are named by their numbers here, and rows that are
        there twice have none.
        """
        given = self._given
        names = given.names if given.named else np.arange(len(self))
        if names is not None:
            names = names[index if isinstance(index, slice) else index.cpu().numpy()]
        told = numbers if names is None else names
        named = len(np.unique(told)) == len(told)
        return given.rows(index)._replace(names=names if named else None, named=named)

    def _gathered(self, index: Tensor | slice) -> Predictions:
        """These rows in memory, in this order."""
        numbers = self._chosen(index)
        order = None if (np.diff(numbers) >= 0).all() else np.argsort(numbers, kind="stable")
        found = [rows for _, rows in self._files.rows(numbers if order is None else numbers[order], self.link)]
        rows = _together(found, self._form, self._given)
        if order is not None:
            rows = rows.rows(torch.from_numpy(np.argsort(order)))
        given = self._given_of(index, numbers)
        if not given.named:
            object.__setattr__(rows, "ids", None)
        elif given.names is not None:
            object.__setattr__(rows, "ids", tuple(map(str, given.names.tolist())))
        both = {**rows.columns, **given.columns}
        columns = {name: both[name] for name in self._form.columns}
        object.__setattr__(rows, "columns", columns)
        if given.quality is not None:
            object.__setattr__(rows, "quality", given.quality)
        return rows


class _Given(NamedTuple):
    """What was given for the rows in place of what the files hold, or beside it.

    Args:
        quality: float64 (N,); None leaves that of the files.
        columns: of all rows, by name.
        names: numbers that name the rows, int64 (N,); None leaves the names in the files.
        named: whether the rows have names.
    """

    quality: Tensor | None = None
    columns: Mapping[str, Array] = MappingProxyType({})
    names: Array | None = None
    named: bool = True

    def rows(self, index: Tensor | slice) -> "_Given":
        """The same quality and columns of these rows."""
        quality = None if self.quality is None else self.quality[index]
        return self._replace(quality=quality, columns=taken(self.columns, index))


def _view(files: PartFiles, form: Predictions, numbers: Array | None, given: _Given) -> ShardedPredictions:
    """Predictions of these rows of the files, all by default."""
    found = object.__new__(ShardedPredictions)
    columns = ("classes", "link", "train_counts", "superclasses", "network_digest")
    fields = {name: getattr(form, name) for name in columns}
    fields |= {"_files": files, "_form": form, "_numbers": numbers, "_given": given}
    for name, value in fields.items():
        object.__setattr__(found, name, value)
    return found


def _together(parts: Sequence[Predictions], form: Predictions, given: _Given) -> Predictions:
    """The rows of all parts, with what is known about their columns and the names in the files. What was given is left out."""
    found = object.__new__(Predictions)
    ids = [name for part in parts for name in part.ids or ()]
    columns = ("classes", "link", "train_counts", "superclasses", "network_digest")
    fields: dict[str, Any] = {name: getattr(form, name) for name in columns}
    fields["ids"] = tuple(ids) if len(set(ids)) == sum(map(len, parts)) else None  # rows that are there twice have no names
    for name in ("scores", "target", "quality"):
        like = getattr(form, name) if name != "quality" or given.quality is None else None
        every = [] if like is None else [getattr(part, name) for part in parts]
        fields[name] = like if not every else every[0] if len(every) == 1 else torch.cat(every)
    fields["columns"] = {
        name: joined([part.columns[name] for part in parts], like.dtype.kind)
        for name, like in form.columns.items()
        if name not in given.columns
    }
    for name, value in fields.items():
        object.__setattr__(found, name, value)
    return found
