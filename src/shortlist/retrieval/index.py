"""Index: scored rows on disk that answer queries. Every change makes a new state, completely or not at all."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.class_names import check_listed
from shortlist.errors import InputError
from shortlist.files import folder_written_whole
from shortlist.locks import folder_lock
from shortlist.retrieval import changes
from shortlist.retrieval.columns import KINDS, Columns
from shortlist.retrieval.engines import Candidates, Engine, find_engine
from shortlist.retrieval.manifest import SEGMENT_NAME, Manifest, SegmentEntry, is_exclusive, state_stamp
from shortlist.retrieval.parquet import RowNumbers, as_indices
from shortlist.retrieval.query import Query, Reason, check_n
from shortlist.retrieval.ranking import Ranked, ranked
from shortlist.retrieval.results import Result, Results
from shortlist.retrieval.snapshot import Snapshot
from shortlist.words import did_you_mean, quoted

if TYPE_CHECKING:
    from shortlist.predictions import Predictions
    from shortlist.retrieval.building import RowColumns
    from shortlist.retrieval.columns import Thumbnails

Progress = Callable[[int], None]
MOST_THREADS = 8


class Index:
    """Scored rows that answer queries, in the state they had when the index was opened.

    :meth:`refresh` opens the latest state. Several readers and one writer may use an index at the same time. Opening and
    searching it need neither torch nor the scores.

    >>> from shortlist import Predictions
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> scores = Predictions([[3.0, -2.0], [2.0, 2.0]], classes=["fork", "knife"], link="sigmoid", ids=["a", "b"])
    >>> index = Index.build(scores, f"{folder}/cutlery", columns={"place": ["Lyon", "Rome"]})
    >>> [(result.id, round(result.probability, 3), result.columns["place"]) for result in index.search("fork and not knife")]
    [('a', 0.839, 'Lyon'), ('b', 0.105, 'Rome')]
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.refresh()

    @classmethod
    def open(cls, path: str | Path) -> "Index":
        """Open the index in this folder."""
        return cls(path)

    @classmethod
    def build(
        cls,
        predictions: "Predictions",
        path: str | Path,
        *,
        columns: Columns | None = None,
        thumbnails: "Thumbnails | None" = None,
        progress: Progress | None = None,
        across: "Callable[[Path, RowColumns], list[SegmentEntry]] | None" = None,
    ) -> "Index":
        """Build an index of these rows in a new folder.

        Args:
            predictions: scores with a link, preferably a calibrated one.
            path: a new or empty folder.
            columns: further values of the rows, by name: text, numbers, booleans or bytes, one for each row; None where
                missing. They are returned with results. The page of results links to ``path`` and shows ``thumbnail``, a JPEG.
            thumbnails: makes the column ``thumbnail`` from the images of the rows.
            progress: callback, called with the number of rows written so far.
            across: writes all segments elsewhere, as :func:`shortlist.cluster.build_index` does; by default one is written
                here.
        """
        from shortlist.retrieval.building import RowColumns, check_predictions, write_segment

        check_predictions(predictions)
        given = RowColumns(columns, thumbnails, predictions, {})
        with folder_written_whole(path) as folder:
            if across is None:
                entries = [write_segment(predictions, folder, SEGMENT_NAME % 1, 0, given, progress)]
            else:
                entries = across(folder, given)
            assert predictions.link is not None
            manifest = Manifest(tuple(predictions.class_names), predictions.link.fingerprint())
            for entry in entries:
                manifest = manifest.with_segment(entry)
            manifest.write(folder)
        return cls(path)

    @property
    def manifest(self) -> Manifest:
        """The state that is open."""
        return self.snapshot.manifest

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the labels."""
        return self.manifest.classes

    @property
    def exclusive(self) -> bool:
        """Whether each row has exactly one label, as with a softmax; otherwise labels are independent given the row."""
        return is_exclusive(self.manifest.link[0])

    @property
    def columns(self) -> dict[str, str]:
        """Columns that are returned with results, by name, and what each holds: ``{"place": "text"}``."""
        return {name: KINDS[kind] for name, kind in self.snapshot.columns.items()}

    def __len__(self) -> int:
        return self.manifest.rows

    def __repr__(self) -> str:
        return f"Index({self.path}: {len(self):,} rows, {len(self.classes)} labels, {len(self.manifest.segments)} segments)"

    def refresh(self) -> None:
        """Open the latest state of the index."""
        self.snapshot = Snapshot(self.path, _threads())

    def latest(self) -> "Index":
        """This index if its folder still has the state that is open, else the latest state, opened beside it.

        For readers that stay, such as servers: searches under way go on with the state that they began with. While there is no
        state that can be read, it is this one.
        """
        stamp = state_stamp(self.path)
        if stamp in (None, self.snapshot.stamp):
            return self
        try:
            return Index.open(self.path)
        except InputError:
            return self

    def search(
        self,
        query: str | Query,
        n: int = 20,
        *,
        engine: str | Engine = "arrow",
        columns: Sequence[str] | None = None,
        skip_damaged: bool = False,
    ) -> Results:
        """Find the n rows for which the query is most probably true.

        Rows are ranked by probability in float64; ties are broken by lower row number. Rows for which the query cannot be true
        are left out.

        Args:
            query: such as ``fork and apple and not knife``.
            n: maximum number of results.
            engine: ``arrow`` (the default), or ``duckdb``, which finds the same rows, those below 1e-308 aside.
            columns: names of the columns to return with the results; default all.
            skip_damaged: whether to search only what can be read, and list the rest in ``damaged``, instead of raising.
        """
        asked = query if isinstance(query, Query) else Query.parse(query, self.classes, exclusive=self.exclusive)
        if asked.classes != self.classes:
            raise InputError("query: expected a query parsed for the labels of this index, got one for other labels")
        if asked.exclusive != self.exclusive:
            raise InputError(f"query: expected one parsed with exclusive={self.exclusive}, as the link of this index says")
        check_n(n)
        wanted = self._named_columns(columns)
        if asked.contradiction is not None:
            return Results([], asked, note=asked.contradiction)
        chosen = find_engine(engine) if isinstance(engine, str) else engine
        found = chosen.candidates(self.snapshot, asked, min(n, max(1, self.manifest.rows)), skip_damaged=skip_damaged)
        return self._ranked(asked, n, found, wanted, skip_damaged)

    def _named_columns(self, names: Sequence[str] | None) -> list[str]:
        known = list(self.snapshot.columns)
        check_listed("columns", names)
        for name in names if names is not None else ():
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"columns: {hint}expected names of columns of this index ({quoted(known)}), got {name!r}")
        return known if names is None else list(names)

    def _ranked(self, query: Query, n: int, found: Candidates, columns: Sequence[str], skip_damaged: bool) -> Results:
        """Rank the candidates again by their exact log odds, and read the columns of the best n."""
        damaged = found.damaged if skip_damaged else None
        best = ranked(self.snapshot, query, n, found, damaged)
        numbers = np.array([one.row for one in best], dtype=np.int64)
        values = self.snapshot.values(numbers, columns, damaged) if columns else {}
        empty = dict.fromkeys(columns)
        results = [
            Result(one.row, one.exact.ids[one.place], one.score, _why(query, one), {**empty, **values.get(one.row, {})})
            for one in best
        ]
        return Results(results, query, groups=found.groups, read=found.read, damaged=found.damaged)

    def add(
        self,
        predictions: "Predictions",
        *,
        columns: Columns | None = None,
        thumbnails: "Thumbnails | None" = None,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Add rows with the same classes and the same link.

        Args:
            predictions: scores with a link.
            columns: further values of the rows, as in :meth:`build`; a column that the index already has must hold the same
                kind of values.
            thumbnails: makes the column ``thumbnail`` from the images of the rows.
            replace: whether to replace rows with the same ids; by default they are refused.
            progress: callback, called with the number of rows written so far.

        Returns:
            The number of rows that were replaced.
        """
        from shortlist.retrieval.building import RowColumns, check_predictions, write_segment

        check_predictions(predictions)
        if replace and predictions.ids is None:
            raise InputError("replace: expected scores whose rows have ids, got none: every row would be a new one")
        with folder_lock(self.path):
            self.refresh()
            changes.check_same(self.manifest, predictions, self.path)
            given = RowColumns(columns, thumbnails, predictions, self.snapshot.columns)
            changes.remove_unused(self.path, self.manifest)
            manifest = self.manifest
            old = self._replaced(predictions, given, replace)
            with changes.new_files(self.path) as folder:
                name = SEGMENT_NAME % manifest.next_name
                entry = write_segment(predictions, folder, name, manifest.next_row, given, progress)
            changed = manifest.with_segment(entry)
            changes.mark_deleted(self.path, changed, np.union1d(self.snapshot.deleted, old)).write(self.path)
            self.refresh()
            return len(old)

    def _replaced(self, predictions: "Predictions", given: "RowColumns", replace: bool) -> RowNumbers:
        """The rows of the index whose ids the new rows have; refused where that is not wanted, or would lose columns."""
        first = self.manifest.next_row
        old, taken = self._rows_of(predictions.ids or [str(row) for row in range(first, first + len(predictions))])
        if taken and not replace:
            advice = "give the new rows ids; without ids they are named after their row numbers"
            if predictions.ids is not None:
                advice = "leave those rows out, or replace the old ones (replace=True; --replace on the command line)"
            raise InputError(f"{len(taken):,} of the ids are in the index already, such as {taken[0]!r}: {advice}")
        lost = self._columns_of(old) - set(given.kinds)
        if lost:
            raise InputError(
                f"{len(taken):,} of the rows are in the index with columns that the new rows lack ({', '.join(sorted(lost))}): "
                "give these columns, or delete the old rows first"
            )
        return old

    def delete(self, ids: Iterable[str]) -> int:
        """Delete the rows with these ids, and return how many there were. Ids that are not in the index are refused."""
        if isinstance(ids, str):
            raise InputError(f"ids: expected a list of ids, got the text {ids!r}: put it into a list")
        with folder_lock(self.path):
            self.refresh()
            changes.remove_unused(self.path, self.manifest)
            wanted = list(dict.fromkeys(ids))
            rows, found = self._rows_of(wanted)
            known = set(found)
            if len(known) < len(wanted):
                missing = [name for name in wanted if name not in known]
                raise InputError(
                    f"{len(missing):,} of the ids are not in the index, such as {missing[0]!r}; nothing was deleted"
                )
            changes.mark_deleted(self.path, self.manifest, np.union1d(self.snapshot.deleted, rows)).write(self.path)
            self.refresh()
            return len(rows)

    def compact(self, progress: Progress | None = None) -> None:
        """Rewrite all rows as one segment, without the deleted ones; row numbers stay the same."""
        with folder_lock(self.path):
            self.refresh()
            changes.remove_unused(self.path, self.manifest)
            if len(self.manifest.segments) == 1 and not self.manifest.deleted_rows:
                return  # it is compact already
            changes.compacted(self.snapshot, progress).write(self.path)
            self.refresh()
            changes.remove_unused(self.path, self.manifest)

    def check(self) -> list[str]:
        """Read everything, and return one sentence for each damaged part."""
        return changes.find_damage(self.snapshot)

    def _columns_of(self, rows: RowNumbers) -> set[str]:
        """Columns that the index keeps for any of these rows."""
        found: set[str] = set()
        for segment in self.snapshot.segments:
            if ((rows >= segment.entry.first) & (rows <= segment.entry.last)).any():
                found |= set(segment.columns)
        return found

    def _rows_of(self, ids: Iterable[str]) -> tuple[RowNumbers, list[str]]:
        """Numbers of the rows with these ids, without deleted rows, and the ids that were found."""
        wanted = list(ids)
        if not all(isinstance(name, str) for name in wanted):
            raise InputError("ids: expected texts, got other types among them")
        try:
            values = pa.array(wanted, pa.string())
        except UnicodeEncodeError:
            raise InputError("ids: expected Unicode text, got a name that holds half of a surrogate pair") from None
        rows, names = [np.zeros(0, dtype=np.int64)], []
        for segment in self.snapshot.segments:
            for group in range(segment.groups):
                here = segment.ids(group)
                hits = np.flatnonzero(pc.is_in(here, value_set=values).to_numpy(zero_copy_only=False))
                if len(hits):
                    numbers = segment.row_numbers(group)[hits]
                    kept = ~np.isin(numbers, self.snapshot.deleted)
                    rows.append(numbers[kept])
                    names += here.take(as_indices(hits[kept])).to_pylist()
        return np.concatenate(rows), names

    def info(self) -> dict[str, Any]:
        """What the index holds, as JSON types."""
        names = self.manifest.files()
        size = sum((self.path / name).stat().st_size for name in names if (self.path / name).exists())
        return {
            "rows": len(self),
            "deleted": self.manifest.deleted_rows,
            "labels": len(self.classes),
            "link": self.manifest.link[0],
            "segments": len(self.manifest.segments),
            "groups": sum(segment.groups for segment in self.snapshot.segments),
            "columns": self.columns,
            "bytes": size,
        }


def _why(query: Query, found: Ranked) -> tuple[Reason, ...]:
    with np.errstate(over="ignore"):
        return tuple(query.explain(1 / (1 + np.exp(-found.exact.odds[found.place]))))


def _threads() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)
