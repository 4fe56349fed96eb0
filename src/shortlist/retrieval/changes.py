"""How an index changes: one writer at a time writes new files beside the old ones, then a new manifest; then the old files go.

Everything that a manifest names is on disk before the manifest is, so that a crash or a loss of power leaves either the state
before the change or the state after it.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.errors import InputError
from shortlist.files import flush, folder_written_whole, written_whole
from shortlist.locks import LOCK
from shortlist.retrieval.manifest import Manifest, link_text
from shortlist.retrieval.parquet import DamagedError, Floats, RowNumbers, file_seal, numbers_of
from shortlist.retrieval.segments import STORED, SegmentWriter, group_rows, odds_of, packed_odds
from shortlist.retrieval.snapshot import Snapshot

if TYPE_CHECKING:
    from shortlist.predictions import Predictions

# Names of our files, and their names while they are written; other files in the folder are left alone.
OURS = re.compile(r"(logs|rows|deleted)-\d{6,}\.parquet|\.(deleted-\d{6,}\.parquet|index\.json|\.new)\.\w+\.partial|\.new")


def check_same(manifest: Manifest, predictions: "Predictions", path: Path) -> None:
    """Check that predictions have the classes and the link of the index."""
    if tuple(predictions.class_names) != manifest.classes:
        pairs = enumerate(zip(predictions.class_names, manifest.classes, strict=False))
        first = (f"class {place} is {new!r}, not {old!r}" for place, (new, old) in pairs if new != old)
        differs = next(first, f"{predictions.num_classes}, not {len(manifest.classes)}")
        raise InputError(f"{path}: expected scores of the same classes, got others ({differs}): build another index for them")
    assert predictions.link is not None
    if predictions.link.fingerprint() != manifest.link:
        old, new = link_text(manifest.link[0]), link_text(predictions.link.config())
        raise InputError(
            f"{path}: expected the link that the index was built with, {old}, got {new}"
            f"{' with other parameters' if new == old else ''}: probabilities of two links are not comparable; "
            "build another index"
        )


@contextmanager
def new_files(path: Path) -> Iterator[Path]:
    """A hidden folder to write files to, which are then moved into the index, where no manifest names them yet."""
    with folder_written_whole(path / ".new") as folder:
        yield folder
        for file in folder.iterdir():
            flush(file)
            file.rename(path / file.name)
    (path / ".new").rmdir()


def remove_unused(path: Path, manifest: Manifest) -> None:
    """Remove replaced files and what interrupted writers left behind; processes that have them open can still read them."""
    kept = manifest.files() | {LOCK}
    for file in path.iterdir():
        if file.name in kept or not OURS.fullmatch(file.name):
            continue
        if file.is_dir():
            shutil.rmtree(file, ignore_errors=True)
        else:
            file.unlink(missing_ok=True)


def mark_deleted(path: Path, manifest: Manifest, rows: RowNumbers) -> Manifest:
    """The state without these rows, which are all deleted rows, not only the new ones."""
    if len(rows) == manifest.deleted_rows:
        return manifest
    name = f"deleted-{manifest.next_name:06d}.parquet"
    with written_whole(path / name) as temporary:
        pq.write_table(pa.table({"row": rows.astype(np.int64)}), temporary, **STORED)
        flush(temporary)
    seal = tuple(file_seal(path / name))
    return replace(manifest, deleted=name, deleted_rows=len(rows), deleted_seal=seal, next_name=manifest.next_name + 1)


def compacted(snapshot: Snapshot, progress: Callable[[int], None] | None) -> Manifest:
    """Write all rows that are not deleted to one segment, and return the state that consists of it."""
    manifest, columns = snapshot.manifest, snapshot.columns
    name = f"{manifest.next_name:06d}"
    if not manifest.rows:
        return replace(manifest, segments=(), deleted=None, deleted_rows=0, deleted_seal=())
    kinds = [segment.odds_type for segment in snapshot.segments]
    exact = np.dtype(np.float64 if np.dtype(np.float64) in kinds else np.float32)
    with new_files(snapshot.folder) as folder:
        with SegmentWriter(folder, name, len(manifest.classes), columns=columns, exact=exact, single=snapshot.single) as writer:
            for table in _blocks(_kept_groups(snapshot, exact), group_rows(len(manifest.classes))):
                kept = {column: table.column(column).combine_chunks() for column in columns}
                ids = table.column("id").combine_chunks()
                odds: Floats = odds_of(table, len(manifest.classes))
                writer.write(numbers_of(table.column("row")), ids, odds, kept)
                if progress is not None:
                    progress(writer.rows)
        entry = writer.entry()
    whole = replace(manifest, deleted=None, deleted_rows=0, deleted_seal=())
    return replace(whole, segments=(entry,), next_name=manifest.next_name + 1)


def _kept_groups(snapshot: Snapshot, exact: "np.dtype[Any]") -> Iterator[pa.Table]:
    """All groups of the records without deleted rows, all with the same columns."""
    labels = len(snapshot.classes)
    for segment in snapshot.segments:
        for group in range(segment.record_groups):
            table = segment.records(group)
            kept = ~np.isin(numbers_of(table.column("row")), snapshot.deleted)
            if not kept.any():
                continue
            if not kept.all():
                table = table.filter(pa.array(kept))
            columns = {"row": table.column("row"), "id": table.column("id")}
            for name, kind in snapshot.columns.items():
                columns[name] = table.column(name) if name in segment.columns else pa.nulls(len(table), kind)
            columns["odds"] = packed_odds(odds_of(table, labels), exact)
            yield pa.table(columns)


def _blocks(tables: Iterator[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same rows, in blocks of the size of a group of the searched file."""
    held: list[pa.Table] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += len(table)
        while rows >= size:
            whole = pa.concat_tables(held)
            yield whole.slice(0, size)
            held, rows = [whole.slice(size)], rows - size
    if rows:
        yield pa.concat_tables(held)


def find_damage(snapshot: Snapshot) -> list[str]:
    """Read everything, and name each group that cannot be read."""
    found: list[str] = []
    for segment in snapshot.segments:
        parts: list[tuple[Callable[[int], Any], int]] = [(segment.searched, group) for group in range(segment.groups)]
        parts += [(segment.records, group) for group in range(segment.record_groups)]
        for read, group in parts:
            try:
                read(group)
            except DamagedError as error:
                found.append(str(error))
    return found
