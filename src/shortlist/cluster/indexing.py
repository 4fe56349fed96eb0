"""An index that the workers of a cluster write, a segment each; its answers are those of an index that one process built."""

from collections.abc import Callable
from pathlib import Path

from shortlist.cluster.pooling import Pool
from shortlist.cluster.rows import Rows
from shortlist.predictions import Predictions
from shortlist.retrieval import Index, Thumbnails
from shortlist.retrieval.building import RowColumns, Segmenting, segment_tasks
from shortlist.retrieval.columns import Columns
from shortlist.retrieval.manifest import SegmentEntry


def build_index(
    pool: Pool,
    rows: Rows | Predictions,
    path: str | Path,
    *,
    columns: Columns | None = None,
    thumbnails: Thumbnails | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Index:
    """Build an index as :meth:`Index.build` does, in several segments; the manifest that makes them one is written last.

    Args:
        pool: workers.
        rows: scores with a link.
        path: a new or empty folder, which every machine must see under this path.
        columns: as for that function; each worker is sent those of its rows.
        thumbnails: as for that function; workers make them, and read the images.
        progress: callback, called with the number of rows written so far.
    """
    rows = rows if isinstance(rows, Rows) else Rows.of(rows)

    def across(folder: Path, given: RowColumns) -> list[SegmentEntry]:
        entries, done = [], 0
        job = Segmenting(folder.absolute(), rows.part)
        for entry, problems in pool.in_order(job, segment_tasks(len(rows), rows.classes, given)):
            entries.append(entry)
            if thumbnails is not None:
                thumbnails.problems.extend(problems)
            done += entry.rows
            progress(done)
        return entries

    return Index.build(rows.whole(), path, columns=columns, thumbnails=thumbnails, across=across)
