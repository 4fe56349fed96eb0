"""Features of rows, from a file of scores that holds them beside: ``--features-key``."""

import fnmatch
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from shortlist.cli.counting import array_of
from shortlist.cli.prepare import Reading
from shortlist.csv_files import csv_names
from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.tensors import Array
from shortlist.words import quoted

OPTION = "--features-key"


def feature_names(path: Path, key: str) -> tuple[str, ...] | None:
    """The columns of a file that a key stands for; None for an array, whose features have no names."""
    if "*" not in key and path.suffix.lower() in (".npz", ".safetensors"):
        return None
    known = _column_names(path)
    names = tuple(name for name in known if fnmatch.fnmatchcase(name, key))
    if not names:
        raise InputError(f"{path}: {OPTION}: expected columns {key!r}, found {quoted(known)}")
    return names


def features(path: Path, rows: Predictions, key: str, reading: Reading, like: tuple[str, ...] | None) -> Array:
    """The features of these rows, float64 (N, D).

    Args:
        path: the file.
        rows: what was read of it.
        key: the name of an array (N, D) or a column; with a ``*`` of several columns.
        reading: how the file is read again, with some columns.
        like: the names of the features that they are compared with, and their order; None if these have no names.
    """
    names = feature_names(path, key)
    if names is None:
        found = np.asarray(array_of(path, key, OPTION, "name columns with a *, such as emb_*"), np.float64)
        if found.ndim not in (1, 2) or len(found) != len(rows):
            raise InputError(f"{path}: {OPTION}: expected an array ({len(rows)}, features) called {key!r}, got {found.shape}")
        return found.reshape(len(rows), -1)
    if like is not None and set(names) != set(like):
        raise InputError(f"{path}: {OPTION}: expected the columns of the calibration file, {quoted(like)}, got {quoted(names)}")
    names = like or names
    columns = reading.with_columns(path, names).columns
    texts = next((name for name in names if columns[name].dtype.kind not in "if"), None)
    if texts is not None:
        raise InputError(f"{path}: {OPTION}: expected a number in every row of {texts!r}, got texts")
    return np.stack([columns[name].astype(np.float64) for name in names], 1)


def _column_names(path: Path) -> list[str]:
    if path.suffix.lower() == ".parquet":
        found: list[str] = pq.read_schema(path).names
        return found
    if path.suffix.lower() == ".csv":
        return csv_names(path)
    raise InputError(f"{path}: {OPTION}: expected columns of a .csv or .parquet file, or an array of .npz or .safetensors")
