"""From predictions to segments: the link turns scores into log odds once, here, in float64."""

import copy
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from shortlist.errors import InputError
from shortlist.files import flush
from shortlist.links import Identity, Sigmoid
from shortlist.predictions import Predictions
from shortlist.predictions.checks import check_storable
from shortlist.retrieval.columns import THUMBNAIL, Columns, Kinds, Thumbnails, column_arrays
from shortlist.retrieval.manifest import SEGMENT_NAME, SegmentEntry
from shortlist.retrieval.parquet import Floats
from shortlist.retrieval.segments import SegmentWriter, group_rows

if TYPE_CHECKING:
    from shortlist.data.problems import Problem

SEGMENT_GROUPS = 4  # groups of a segment that is one of many


def check_predictions(predictions: Predictions) -> None:
    """Check that there are rows to index, and a link that turns their scores into probabilities."""
    if not isinstance(predictions, Predictions):
        raise InputError(f"predictions: expected Predictions, got {type(predictions).__name__}")
    if predictions.link is None:
        raise InputError(
            "predictions: expected scores with a link, because queries are ranked by probability, got none: "
            "set a link such as sigmoid, preferably a calibrated one"
        )
    if not len(predictions):
        raise InputError("predictions: expected rows to index, got none")
    check_storable(predictions.class_names, "classes")
    check_storable(predictions.ids, "ids")


class RowColumns:
    """The columns that come with the rows of a segment: given ones, and thumbnails, which are made block by block."""

    def __init__(self, columns: Columns | None, thumbnails: Thumbnails | None, predictions: Predictions, known: Kinds):
        rows = len(predictions)
        self.arrays, self.thumbnails = column_arrays(columns, rows, known, predictions.ids), thumbnails
        if thumbnails is None:
            return
        if THUMBNAIL in self.arrays:
            raise InputError(f"columns: expected no column {THUMBNAIL!r} together with thumbnails, got one")
        if len(thumbnails.images) != rows:
            raise InputError(f"thumbnails: expected {rows:,} images, one for each row, got {len(thumbnails.images):,}")

    @property
    def kinds(self) -> Kinds:
        """Types of the columns, by name."""
        kinds = {name: array.type for name, array in self.arrays.items()}
        return kinds if self.thumbnails is None else {**kinds, THUMBNAIL: pa.binary()}

    def block(self, places: range) -> dict[str, pa.Array]:
        """The values of these rows."""
        found = {name: array.slice(places.start, len(places)) for name, array in self.arrays.items()}
        return found if self.thumbnails is None else {**found, THUMBNAIL: self.thumbnails.make(places)}

    def part(self, places: range) -> "RowColumns":
        """Those of these rows, with problems of their own."""
        found = copy.copy(self)
        chosen = pa.array(places, pa.int64())
        found.arrays = {name: array.take(chosen) for name, array in self.arrays.items()}
        if self.thumbnails is not None:
            images = self.thumbnails.images.rows(torch.tensor(places))
            found.thumbnails = replace(self.thumbnails, images=images, problems=[])
        return found


@dataclass(frozen=True)
class SegmentTask:
    """Rows that become a segment of their own.

    Args:
        name: of the segment.
        first: number of its first row.
        last: number of the row after its last.
        columns: that come with the rows.
    """

    name: str
    first: int
    last: int
    columns: RowColumns


def segment_tasks(rows: int, classes: int, columns: RowColumns) -> Iterator[SegmentTask]:
    """Segments of whole groups, so that several processes can write an index; they depend on the rows alone."""
    length = SEGMENT_GROUPS * group_rows(classes)
    for number, first in enumerate(range(0, rows, length), start=1):
        last = min(first + length, rows)
        yield SegmentTask(SEGMENT_NAME % number, first, last, columns.part(range(first, last)))


@dataclass(frozen=True)
class Segmenting:
    """A job: write a segment; its entry of the manifest, and problems with images.

    Args:
        folder: of all segments, without a manifest so far.
        part: predictions of a range of rows.
    """

    folder: Path
    part: Callable[[int, int], Predictions]

    def __call__(self, task: SegmentTask) -> "tuple[SegmentEntry, list[Problem]]":
        """Write the files aside: whoever was taken for dead and writes the same segment does not meet them."""
        aside = self.folder / uuid.uuid4().hex
        aside.mkdir()
        try:
            entry = write_segment(self.part(task.first, task.last), aside, task.name, task.first, task.columns)
            for name in (entry.logs, entry.records):
                flush(aside / name)
                (aside / name).replace(self.folder / name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return entry, [] if task.columns.thumbnails is None else task.columns.thumbnails.problems


def write_segment(
    predictions: Predictions,
    folder: Path,
    name: str,
    first: int,
    columns: RowColumns,
    progress: Callable[[int], None] | None = None,
) -> SegmentEntry:
    """Write the files of a segment.

    Args:
        predictions: with a link.
        folder: where to write.
        name: of the segment.
        first: number of its first row.
        columns: columns of the rows.
        progress: callback, called with the number of rows written so far.
    """
    classes = predictions.num_classes
    with SegmentWriter(
        folder, name, classes, columns=columns.kinds, exact=_exact_type(predictions), single=_is_single(predictions)
    ) as writer:
        done = 0
        for block in _blocks(predictions):
            places = range(done, done + len(block))
            rows = np.arange(first + done, first + done + len(block), dtype=np.int64)
            names = map(str, rows.tolist()) if predictions.ids is None else predictions.ids[places.start : places.stop]
            writer.write(rows, pa.array(names, pa.string()), log_odds(block), columns.block(places))
            done += len(block)
            if progress is not None:
                progress(done)
    return writer.entry()


def log_odds(predictions: Predictions) -> Floats:
    """``log(η / (1 - η))`` of every row and label, float64 (N, C)."""
    assert predictions.link is not None
    with torch.no_grad():
        found = predictions.link.log_odds(predictions.scores.double())
    return np.asarray(found.numpy())


def _exact_type(predictions: Predictions) -> "np.dtype[Any]":
    """float32 if it holds the log odds without loss, as for a sigmoid of float32 scores; otherwise float64."""
    lossless = isinstance(predictions.link, Sigmoid) and predictions.without_rows().scores.dtype != torch.float64
    return np.dtype(np.float32 if lossless else np.float64)


def _is_single(predictions: Predictions) -> bool:
    """Whether the rows come with probabilities in float32: 0.16 is then not quite the number that was meant."""
    return isinstance(predictions.link, Identity) and predictions.without_rows().scores.dtype == torch.float32


def _blocks(predictions: Predictions) -> Iterator[Predictions]:
    size = group_rows(predictions.num_classes)
    for start in range(0, len(predictions), size):
        yield predictions.rows(slice(start, start + size))
