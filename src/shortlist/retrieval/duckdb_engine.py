"""The DuckDB engine: runs the SQL of :func:`~shortlist.retrieval.to_sql` over the searched files, as a warehouse would."""

import math
from typing import Any

import numpy as np

from shortlist.errors import InputError
from shortlist.retrieval.engines import Candidates, margin
from shortlist.retrieval.parquet import DamagedError
from shortlist.retrieval.query import Query
from shortlist.retrieval.segments import yes
from shortlist.retrieval.snapshot import Snapshot
from shortlist.retrieval.sql import parquet_source, to_sql

CLOSE = 2.0**-20  # relative distance to the threshold of a condition that float32 cannot resolve
MORE = 64  # rows fetched beyond n, which are usually enough


class DuckDBEngine:
    """SQL over the Parquet files; needs ``pip install shortlist[sql]``.

    It cannot skip damaged groups. On Linux it reads the files of the snapshot, even if the index has been compacted since.
    """

    name = "duckdb"

    def candidates(self, snapshot: Snapshot, query: Query, n: int, *, skip_damaged: bool = False) -> Candidates:
        """All rows that may be among the n most probable ones."""
        if skip_damaged:
            raise InputError("skip_damaged: the engine duckdb cannot skip damaged groups, got True: use the engine arrow")
        groups = sum(segment.groups for segment in snapshot.segments)
        if not groups:
            return Candidates(np.zeros(0, dtype=np.int64))
        run = _Connection(snapshot, query)
        rows = {row for row, _ in run.best(n)} | run.undecided()
        return Candidates(np.array(sorted(rows), dtype=np.int64), groups, groups)


class _Connection:
    def __init__(self, snapshot: Snapshot, query: Query):
        try:
            import duckdb
        except ImportError:
            raise InputError("engine: duckdb is not installed: pip install 'shortlist[sql]'") from None
        self.errors = (duckdb.Error,)
        self.query, self.connection = query, duckdb.connect()
        self.paths = [segment.searched_path() for segment in snapshot.segments]
        self.source = parquet_source(self.paths)
        if len(snapshot.deleted):
            self.connection.register("deleted_rows", _table(snapshot))
            self.source = f"(SELECT * FROM {self.source} WHERE row NOT IN (SELECT row FROM deleted_rows)) AS kept"

    def best(self, n: int) -> list[tuple[int, float]]:
        """Row numbers and scores of the n best rows that are decided, and of all that rounding may have put behind them."""
        asked = n + MORE
        tests = self._close_to_thresholds()
        # Rows that may be left out later must not take the places of others.
        source = f"(SELECT * FROM {self.source} WHERE NOT ({tests})) AS decided" if tests else self.source
        while True:
            found = [(int(row), float(score)) for row, _, score in self._fetched(to_sql(self.query, asked, source))]
            if len(found) < asked:
                return found
            worst = found[n - 1][1]
            if found[-1][1] < worst - margin(self.query, worst):
                return found
            asked *= 4

    def undecided(self) -> set[int]:
        """Rows for which the rounded logarithms do not decide whether they meet a condition."""
        tests = self._close_to_thresholds()
        return {int(row) for (row,) in self._fetched(f"SELECT row FROM {self.source} WHERE {tests}")} if tests else set()

    def _close_to_thresholds(self) -> str:
        """A test of these rows; empty if there are none."""
        return " OR ".join(
            f"ABS({yes(label)} - ({math.log(value)!r})) <= {CLOSE * abs(math.log(value)) + CLOSE!r}"
            for label, value in self.query.conditions
            if value > 0
        )

    def _fetched(self, sql: str) -> list[Any]:
        try:
            return list(self.connection.execute(sql).fetchall())
        except self.errors as error:
            if not all(path.exists() for path in self.paths):
                raise InputError("the index has changed since it was opened: call refresh, or open it again") from error
            raise DamagedError(f"DuckDB cannot read the index ({str(error).splitlines()[0]}): try the engine arrow") from error


def _table(snapshot: Snapshot) -> Any:
    import pyarrow as pa

    return pa.table({"row": snapshot.deleted})
