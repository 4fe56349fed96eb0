"""Predictions → segments: probabilities are read by the link once, here, in float64."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from shortlist.data.pictures import Pictures
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.links import Link, Sigmoid, Softmax
from shortlist.predictions import Predictions
from shortlist.retrieval.manifest import SegmentEntry
from shortlist.retrieval.searched_file import Floats
from shortlist.retrieval.segments import SegmentWriter, group_rows
from shortlist.retrieval.thumbnails import small_jpeg

MOST_HANDS = 16  # threads that make small pictures


@dataclass(frozen=True)
class PicturesOf:
    """Where the pictures of the rows are, for whoever looks at what was found.

    Args:
        pictures: one for each row, in the same order.
        paths: where each lies, if it lies anywhere.
        side: of the small pictures that the index keeps; None: it keeps none.
        problems: filled while the index is written with the pictures that could not be read.
    """

    pictures: Pictures
    paths: Sequence[str] | None = None
    side: int | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def extras(self) -> list[str]:
        """What the index keeps of them."""
        return [*(["path"] if self.paths else []), *(["thumbnail"] if self.side else [])]


def check_predictions(predictions: Predictions) -> None:
    """They can be indexed: there are rows, and they read as probabilities."""
    if not isinstance(predictions, Predictions):
        raise InputError(f"predictions: expected Predictions, got {type(predictions).__name__}")
    if predictions.link is None:
        raise InputError(
            "the scores have no reading as probabilities, and a query is ranked by its probability: give a link "
            "(--link sigmoid, …), better one that was calibrated"
        )
    if not len(predictions):
        raise InputError("predictions: expected rows to index, got none")


def of_one_label(link: Link | None) -> bool:
    """Whether the probabilities of a row sum to one, so that its labels exclude each other."""
    base = getattr(link, "base", None)
    return isinstance(link, Softmax) or bool(getattr(link, "single", False)) or (base is not None and of_one_label(base))


def write_segment(
    predictions: Predictions,
    folder: Path,
    name: str,
    first: int,
    *,
    pictures: PicturesOf | None = None,
    progress: Callable[[int], None] | None = None,
) -> SegmentEntry:
    """Write the files of a segment.

    Args:
        predictions: with a link.
        folder: where to.
        name: of the segment.
        first: the number of its first row.
        pictures: of the rows.
        progress: told how many rows are done.
    """
    extras = [] if pictures is None else pictures.extras
    classes = predictions.num_classes
    with SegmentWriter(folder, name, classes, extras=extras, exact=_exact_type(predictions)) as writer:
        done = 0
        for block in _blocks(predictions):
            places = range(done, done + len(block))
            rows = np.arange(first + done, first + done + len(block), dtype=np.int64)
            names = map(str, rows.tolist()) if predictions.ids is None else predictions.ids[places.start : places.stop]
            writer.write(rows, pa.array(names, pa.string()), log_odds(block), _extras(pictures, extras, places))
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
    """float32 where that holds the log odds without loss, which of a sigmoid are the scores; else float64."""
    lossless = isinstance(predictions.link, Sigmoid) and predictions.scores.dtype != torch.float64
    return np.dtype(np.float32 if lossless else np.float64)


def _blocks(predictions: Predictions) -> Iterator[Predictions]:
    size = group_rows(predictions.num_classes)
    for start in range(0, len(predictions), size):
        yield predictions.rows(slice(start, start + size))


def _extras(pictures: PicturesOf | None, names: Sequence[str], places: range) -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
    if pictures is None:
        return found
    if "path" in names:
        assert pictures.paths is not None
        found["path"] = pa.array([pictures.paths[place] for place in places], pa.string())
    if "thumbnail" in names:
        assert pictures.side is not None
        found["thumbnail"] = pa.array(_thumbnails(pictures, places, pictures.side), pa.binary())
    return found


def _thumbnails(pictures: PicturesOf, places: range, side: int) -> list[bytes | None]:
    """Small JPEGs that show the whole picture; None, and a problem, for those that cannot be read."""
    with ThreadPoolExecutor(min(MOST_HANDS, os.cpu_count() or 1)) as pool:
        found = list(pool.map(lambda place: _thumbnail(pictures.pictures, place, side), places))
    pictures.problems.extend(one for one in found if isinstance(one, Problem))
    return [one if isinstance(one, bytes) else None for one in found]


def _thumbnail(pictures: Pictures, place: int, side: int) -> bytes | Problem:
    from shortlist.data.decoding import PictureError
    from shortlist.data.loading import UNREADABLE

    try:
        image = pictures.decode(place, at_least=side).image
    except PictureError as error:
        return Problem(UNREADABLE, str(pictures.ids[place]), str(error))
    return small_jpeg(image, side)
