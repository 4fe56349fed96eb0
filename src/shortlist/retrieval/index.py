"""Index: scored rows on disk that answer queries. Every change makes a new state, whole or not at all."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.errors import InputError
from shortlist.files import folder_written_whole
from shortlist.retrieval import changes
from shortlist.retrieval.columns import places
from shortlist.retrieval.engines import Candidates, Engine, find_engine
from shortlist.retrieval.locking import writers_lock
from shortlist.retrieval.manifest import Manifest
from shortlist.retrieval.query import Query
from shortlist.retrieval.results import Result, Results
from shortlist.retrieval.segments import Rows, logs_of_odds
from shortlist.retrieval.snapshot import Facts, Snapshot

if TYPE_CHECKING:
    from shortlist.predictions import Predictions
    from shortlist.retrieval.building import PicturesOf

Progress = Callable[[int], None]
MOST_HANDS = 8
LOOKED_AT_ONCE = 16_384  # candidates; there are seldom more than a few dozen
FORMAT = "%06d"


class Index:
    """Scored rows that answer queries, as they were when the index was opened; :meth:`refresh` looks again.

    Several readers and one writer may work on one index at the same time. ``Index.open`` and ``search`` need neither torch nor
    the scores.

    >>> from shortlist import Predictions
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> scores = Predictions([[3.0, -2.0], [2.0, 2.0]], classes=["fork", "knife"], link="sigmoid", ids=["a", "b"])
    >>> index = Index.build(scores, f"{folder}/cutlery")
    >>> [(found.id, round(found.probability, 3)) for found in index.search("fork and not knife")]
    [('a', 0.839), ('b', 0.105)]
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.refresh()

    @classmethod
    def open(cls, path: str | Path) -> "Index":
        """The index in this folder."""
        return cls(path)

    @classmethod
    def build(
        cls,
        predictions: "Predictions",
        path: str | Path,
        *,
        pictures: "PicturesOf | None" = None,
        progress: Progress | None = None,
    ) -> "Index":
        """A new index of these rows, in a new folder.

        Args:
            predictions: scores with a link; calibrated, if the probabilities are to mean anything.
            path: a new or empty folder.
            pictures: of the rows, to be shown with what is found.
            progress: told how many rows are done.
        """
        from shortlist.retrieval.building import check_predictions, write_segment

        check_predictions(predictions)
        with folder_written_whole(path) as folder:
            entry = write_segment(predictions, folder, FORMAT % 1, 0, pictures=pictures, progress=progress)
            assert predictions.link is not None
            Manifest(tuple(predictions.class_names), predictions.link.fingerprint()).with_segment(entry).write(folder)
        return cls(path)

    @property
    def manifest(self) -> Manifest:
        """The state that is open."""
        return self.snapshot.manifest

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self.manifest.classes

    def __len__(self) -> int:
        return self.manifest.rows

    def __repr__(self) -> str:
        return f"Index({self.path}: {len(self):,} rows, {len(self.classes)} labels, {len(self.manifest.segments)} segments)"

    def refresh(self) -> None:
        """Look at the index as it is now."""
        self.snapshot = Snapshot(self.path, _hands())

    def search(self, query: str | Query, n: int = 20, *, engine: str | Engine = "arrow", skip_damaged: bool = False) -> Results:
        """The n rows of which the whole query is most probably true.

        Rows are ranked by the probability in float64; of equal ones the lower row number comes first. Rows of which the query
        cannot be true are left out.

        Args:
            query: such as ``fork and apple and not knife``.
            n: how many.
            engine: ``arrow``, or ``duckdb``, which finds the same.
            skip_damaged: leave out what cannot be read, and name it, rather than fail.
        """
        asked = query if isinstance(query, Query) else Query.parse(query, self.classes)
        if asked.classes != self.classes:
            raise InputError("query: expected one that was parsed for the labels of this index, got one for others")
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError(f"n: expected a whole number above 0, got {n!r}")
        if asked.contradiction is not None:
            return Results([], asked, note=asked.contradiction)
        chosen = find_engine(engine) if isinstance(engine, str) else engine
        found = chosen.candidates(self.snapshot, asked, min(n, max(1, self.manifest.rows)), skip_damaged=skip_damaged)
        return self._ranked(asked, n, found, skip_damaged)

    def _ranked(self, query: Query, n: int, found: Candidates, skip_damaged: bool) -> Results:
        """The candidates looked at again, by their exact log odds; the best n are kept as they come."""
        best: list[tuple[float, int, Facts, int]] = []
        for rows in np.array_split(np.sort(found.rows), max(1, -(-len(found.rows) // LOOKED_AT_ONCE))):
            facts = self.snapshot.look_up(rows, found.damaged if skip_damaged else None)
            if not len(facts.rows):
                continue
            log_yes, log_no = (dict(enumerate(part.T)) for part in logs_of_odds(facts.odds))
            scores = query.log_probability(log_yes, log_no)
            order = np.lexsort((facts.rows, -scores))[:n]
            new = [
                (-float(scores[place]), int(facts.rows[place]), facts, int(place)) for place in order if scores[place] > -np.inf
            ]
            best = sorted([*best, *new], key=lambda one: one[:2])[:n]
        results = [self._result(query, facts, place, -score) for score, _, facts, place in best]
        return Results(results, query, groups=found.groups, read=found.read, damaged=found.damaged)

    def _result(self, query: Query, facts: Facts, place: int, score: float) -> Result:
        with np.errstate(over="ignore"):
            probs = 1 / (1 + np.exp(-facts.odds[place]))
        why = tuple(query.explain(probs))
        path, thumbnail = (facts.extras.get(name, [None] * len(facts.rows))[place] for name in ("path", "thumbnail"))
        assert path is None or isinstance(path, str)
        assert thumbnail is None or isinstance(thumbnail, bytes)
        return Result(int(facts.rows[place]), facts.ids[place], score, why, path, thumbnail)

    def add(
        self,
        predictions: "Predictions",
        *,
        pictures: "PicturesOf | None" = None,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """More rows, of the same classes read by the same link.

        Args:
            predictions: scores with a link.
            pictures: of the rows.
            replace: rows that are there under the same id give way; otherwise they are refused.
            progress: told how many rows are done.

        Returns:
            How many rows gave way.
        """
        from shortlist.retrieval.building import check_predictions, write_segment

        check_predictions(predictions)
        if replace and predictions.ids is None:
            raise InputError("replace (--replace): expected scores whose rows have ids, got none: every row would be a new one")
        with writers_lock(self.path):
            self.refresh()
            changes.check_same(self.manifest, predictions, self.path)
            changes.clear(self.path, self.manifest)
            first = self.manifest.next_row
            ids = predictions.ids or [str(row) for row in range(first, first + len(predictions))]
            old, taken = self._rows_of(ids)
            if taken and not replace:
                advice = "give the new rows ids (ids_key, --ids-key): without, they are counted on"
                if predictions.ids is not None:
                    advice = "leave them out, or let the new rows replace them (replace=True, --replace)"
                raise InputError(f"{len(taken):,} of the ids are in the index already, such as {taken[0]!r}: {advice}")
            lost = self._extras_of(old) - set([] if pictures is None else pictures.extras)
            if lost:
                raise InputError(
                    f"{len(taken):,} of the rows are in the index with their {' and '.join(sorted(lost))}, which the new rows "
                    "would lose: give pictures with side (--pictures FOLDER --thumbnails PIXELS), or delete those rows first"
                )
            manifest = self.manifest
            name = FORMAT % manifest.next_name
            with changes.new_files(self.path) as folder:
                entry = write_segment(predictions, folder, name, manifest.next_row, pictures=pictures, progress=progress)
            changed = manifest.with_segment(entry)
            changes.mark_deleted(self.path, changed, np.union1d(self.snapshot.deleted, old)).write(self.path)
            self.refresh()
            return len(old)

    def delete(self, ids: Iterable[str]) -> int:
        """Rows of these ids are not found any more; how many there were. Ids that are not in the index are refused."""
        if isinstance(ids, str):
            raise InputError(f"ids: expected a list of ids, got the text {ids!r}: put it into a list")
        with writers_lock(self.path):
            self.refresh()
            changes.clear(self.path, self.manifest)
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
        """All rows in one segment, without those that were deleted; row numbers stay."""
        with writers_lock(self.path):
            self.refresh()
            changes.clear(self.path, self.manifest)
            if len(self.manifest.segments) == 1 and not self.manifest.deleted_rows:
                return  # it is compact already
            changes.compacted(self.snapshot, progress).write(self.path)
            self.refresh()
            changes.clear(self.path, self.manifest)

    def check(self) -> list[str]:
        """Read everything; what is damaged, named."""
        return changes.damage(self.snapshot)

    def _extras_of(self, rows: Rows) -> set[str]:
        """What the index keeps of the pictures of these rows: path, thumbnail."""
        found: set[str] = set()
        for segment in self.snapshot.segments:
            if ((rows >= segment.entry.first) & (rows <= segment.entry.last)).any():
                found |= set(segment.extras)
        return found

    def _rows_of(self, ids: Iterable[str]) -> tuple[Rows, list[str]]:
        """The numbers of the rows of these ids, deleted ones aside, and those of the ids that there are."""
        wanted = list(ids)
        if not all(isinstance(name, str) for name in wanted):
            raise InputError("ids: expected texts, got something else among them")
        values, rows, names = pa.array(wanted, pa.string()), [np.zeros(0, dtype=np.int64)], []
        for segment in self.snapshot.segments:
            for group in range(segment.groups):
                here = segment.ids(group)
                hits = np.flatnonzero(pc.is_in(here, value_set=values).to_numpy(zero_copy_only=False))
                if len(hits):
                    numbers = segment.row_numbers(group)[hits]
                    kept = ~np.isin(numbers, self.snapshot.deleted)
                    rows.append(numbers[kept])
                    names += here.take(places(hits[kept])).to_pylist()
        return np.concatenate(rows), names

    def info(self) -> dict[str, Any]:
        """What the index holds, as JSON holds it."""
        names = self.manifest.files()
        size = sum((self.path / name).stat().st_size for name in names if (self.path / name).exists())
        return {
            "rows": len(self),
            "deleted": self.manifest.deleted_rows,
            "labels": len(self.classes),
            "link": self.manifest.link[0],
            "segments": len(self.manifest.segments),
            "groups": sum(segment.groups for segment in self.snapshot.segments),
            "pictures": sorted({name for segment in self.snapshot.segments for name in segment.extras}),
            "bytes": size,
        }


def _hands() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_HANDS)
