"""From predictions to segments: the link turns scores into log odds once, here, in float64."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from shortlist.errors import InputError
from shortlist.links import Sigmoid
from shortlist.predictions import Predictions
from shortlist.predictions.checks import check_storable
from shortlist.retrieval.columns import THUMBNAIL, Columns, Kinds, Thumbnails, column_arrays
from shortlist.retrieval.manifest import SegmentEntry
from shortlist.retrieval.parquet import Floats
from shortlist.retrieval.segments import SegmentWriter, group_rows


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
    with SegmentWriter(folder, name, classes, columns=columns.kinds, exact=_exact_type(predictions)) as writer:
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


def _blocks(predictions: Predictions) -> Iterator[Predictions]:
    size = group_rows(predictions.num_classes)
    for start in range(0, len(predictions), size):
        yield predictions.rows(slice(start, start + size))
