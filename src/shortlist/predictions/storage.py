"""Predictions in files: safetensors (the default), npz, Parquet; CSV and npy are read only.

All formats hold the same fields under the same names, so that converting from one to another loses nothing. Files of other
programs are read by the names of their arrays or columns; nothing is guessed from values.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import check_labels
from shortlist.class_names import class_list
from shortlist.errors import InputError, ShortlistWarning
from shortlist.files import written_whole
from shortlist.links import Link, link_from_config, parse_link
from shortlist.predictions import arrays, csv_tables, tables
from shortlist.predictions.array_sinks import NpzSink, SafetensorsSink
from shortlist.predictions.checks import check_storable
from shortlist.predictions.numbered import Numbered
from shortlist.predictions.record import Predictions
from shortlist.predictions.stored import Header, Keys, RowKind, Sink, Stored
from shortlist.predictions.table_sinks import ParquetSink
from shortlist.words import did_you_mean, quoted

UNREADABLE = (*arrays.UNREADABLE, *tables.UNREADABLE)


def save(predictions: Predictions, path: Path) -> None:
    """Write the file by its suffix, whole or not at all."""
    with sink_for(path, header_of(predictions), RowKind.of(predictions.without_rows())) as sink:
        for block in predictions.blocks():
            sink.add(block)


@contextmanager
def sink_for(path: Path, header: Header, kind: RowKind) -> Iterator[Sink]:
    """A file to append rows of this kind to; it appears when the block ends, and not at all after an error."""
    make: type[Sink] = _by_suffix(SINKS, path, "write")
    check_storable(header.classes, "classes")
    check_storable(header.superclasses, "superclasses")
    with written_whole(path) as temporary:
        try:
            sink = make(temporary, header, kind)
            try:
                yield sink
                sink.finish()
            finally:
                sink.close()
        except UNREADABLE as error:  # most often a full disk
            raise InputError(f"cannot write {path}: {_first_line(error)}") from error


def check_suffix(path: Path) -> None:
    """Refuse a path whose suffix names no format that can be written."""
    _by_suffix(SINKS, path, "write")


def load(
    path: Path | str, keys: Keys, link: Link | str | None = None, classes: Sequence[str] | Mapping[Any, Any] | None = None
) -> Predictions:
    """Read the file by its suffix; a link that is given replaces the file's, and classes name those of a file that has none."""
    if isinstance(path, str) or path.is_dir():
        return _load_folder(path, keys, link, classes)
    read = _by_suffix(READERS, path, "read")
    if not path.is_file():
        raise InputError(f"cannot read {path}: there is no such file")
    try:
        names = None if classes is None else class_list(classes)
        stored = read(path, replace(keys, classes=None if names is None else tuple(names)))
        _check_no_label(stored, keys)
        if names is not None:
            stored.classes = _given_classes(names, stored)
        return _predictions(stored, link)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, RecursionError, *UNREADABLE) as error:
        raise InputError(f"cannot read {path} as {path.suffix[1:]}: {_first_line(error)}") from error


def unread_columns(path: Path, keys: Keys) -> list[str]:
    """The columns of a table of another program that :func:`load` passes over; none of other files, which may hold anything."""
    names = {".csv": csv_tables.csv_names, ".parquet": tables.foreign_names}.get(path.suffix.lower())
    found = [] if names is None or not path.is_file() else names(path)
    return keys.unread(found) if found else []


def _load_folder(
    where: Path | str, keys: Keys, link: Link | str | None, classes: Sequence[str] | Mapping[Any, Any] | None
) -> Predictions:
    from shortlist.predictions.sharded import ShardedPredictions

    if (others := replace(keys, columns=(), numbers=(), votes=None)) != Keys():
        name = next(field.name for field in fields(keys) if getattr(others, field.name) not in (None, ()))
        name = name if name == "no_label" else f"{name}_key"
        raise InputError(f"{name}: expected None, as a folder of parts says what its columns are, got one for {where}")
    if classes is not None:
        raise InputError(f"classes: expected None, as a folder of parts names its classes, got some for {where}")
    found = ShardedPredictions.open(where)
    known = found.without_rows().columns
    if missing := next((name for name in keys.columns if name not in known), None):
        raise InputError(f"{where}: columns: expected {missing!r}, found {quoted(list(known)) if known else 'none'}")
    return found if link is None else found.with_link(link)


READERS: dict[str, Callable[[Path, Keys], Stored]] = {
    ".safetensors": arrays.read_safetensors,
    ".npz": arrays.read_npz,
    ".npy": arrays.read_npy,
    ".parquet": tables.read_parquet,
    ".csv": csv_tables.read_csv,
}
SINKS: dict[str, type[Sink]] = {".safetensors": SafetensorsSink, ".npz": NpzSink, ".parquet": ParquetSink}


def _by_suffix(table: dict[str, Any], path: Path, verb: str) -> Any:
    if path.suffix.lower() not in table:
        raise InputError(f"cannot {verb} {path}: expected a name that ends in {', '.join(table)}")
    return table[path.suffix.lower()]


def _given_classes(classes: Sequence[str], stored: Stored) -> list[str]:
    """The classes that were given for the columns of a file, which may not have other names for them."""
    count = stored.scores.shape[-1]
    if len(classes) != count:
        raise InputError(f"classes: expected a name for each of the {count} columns of scores, got {len(classes)}")
    own = list(stored.classes or ())
    numbers = [str(place) for place in range(count)]
    if own and own not in (numbers, list(classes)):
        raise InputError(f"classes: expected none, as the file names its classes ({quoted(own, 3)}), got {quoted(classes, 3)}")
    return list(classes)


def header_of(predictions: Predictions) -> Header:
    """Everything about the columns of predictions, as files hold it."""
    link = predictions.link
    return Header(
        classes=None if predictions.classes is None else list(predictions.classes),
        superclasses=None if predictions.superclasses is None else list(predictions.superclasses),
        train_counts=predictions.train_counts,
        link=None if link is None else link.config(),
        link_tensors={} if link is None else dict(link.state_dict()),
        network_digest=predictions.network_digest,
    )


def _predictions(stored: Stored, link: Link | str | None) -> Predictions:
    for what in ("classes", "superclasses", "ids"):
        check_storable(getattr(stored, what), what)
    if link is None and stored.link is not None:
        link = link_from_config(stored.link, stored.link_tensors)
    if isinstance(link, str):
        link = parse_link(link)
    target = stored.target
    if target is not None and not isinstance(target, Tensor):
        if stored.classes is None:
            raise InputError("target: holds class names, but the file does not list the classes: name them with classes")
        target = Numbered(stored.classes).places(target)
    elif target is not None:
        target = _foreign_target(target, stored.scores.shape[-1])
        if stored.numbered and target.ndim == 1:
            target = stored.numbered.places(target.tolist())
    if stored.labelled is not None and target is not None:
        target = _spread(target, stored.labelled, stored.scores.shape[-1])
    return Predictions(
        stored.scores,
        target,
        stored.classes,
        link,
        stored.ids,
        stored.train_counts,
        stored.superclasses,
        stored.network_digest,
        stored.quality,
        stored.columns,
    )


def _check_no_label(stored: Stored, keys: Keys) -> None:
    """Warn if rows without a label were to be told apart, and there are none: the entry may be misspelt."""
    if keys.no_label is None or not len(stored.scores):
        return
    if stored.target is None:
        warnings.warn("no_label: the file holds no labels, so no row is without one", ShortlistWarning, stacklevel=2)
    elif stored.labelled is not None and bool(stored.labelled.all()):
        meant = did_you_mean(keys.no_label, stored.classes or ())
        message = f"no_label: no entry of the target is {keys.no_label!r}, so every row has a label"
        warnings.warn(f"{message}: {meant.rstrip()}" if meant else message, ShortlistWarning, stacklevel=2)


def _spread(labels: Tensor, labelled: Tensor, classes: int) -> Tensor:
    """One label for each of the labelled rows as bool (N, C), the other rows without a label."""
    check_labels(labels, classes)
    target = torch.zeros((len(labelled), classes), dtype=torch.bool)
    target[labelled.nonzero()[:, 0], labels.long()] = True
    return target


def _foreign_target(target: Tensor, classes: int) -> Tensor:
    """Other forms of labels: a column (N, 1), and zeros and ones (N, C) of any dtype."""
    if target.ndim == 2 and target.shape[1] == 1 < classes and target.dtype != torch.bool:
        target = target.squeeze(1)
    if target.ndim == 2 and target.dtype != torch.bool:
        if not ((target == 0) | (target == 1)).all():
            raise InputError("target: expected zeros and ones in a matrix (N, C)")
        return target.bool()
    if target.ndim == 1 and target.is_floating_point():
        wrong = target[~((target == target.round()) & (target.abs() < 2.0**63))]
        if len(wrong):
            raise InputError(f"target: expected whole numbers, one label a row, got {wrong[0].item():g}")
        return target.long()
    return target


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
