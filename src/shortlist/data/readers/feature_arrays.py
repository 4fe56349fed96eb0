"""Features and labels as arrays of an npz file."""

import lzma
import struct
import zlib
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile, is_zipfile

import numpy as np
import pyarrow as pa
import torch

from shortlist.checks import check_labels
from shortlist.data.dataset import ALL, Dataset, Split, classes_without_rows
from shortlist.data.names import check_names, is_utf8, superclasses_of
from shortlist.data.problems import LABELS_NOT_USED, Problem, first_of
from shortlist.data.readers.feature_rows import usable_rows
from shortlist.data.readers.label_columns import encode_names
from shortlist.data.readers.named_pictures import distinct_names, shared_names
from shortlist.errors import InputError
from shortlist.predictions.numbered import Numbered
from shortlist.tensors import Array, Target, as_text
from shortlist.words import printable

FEATURE_KEYS, TARGET_KEYS = ("features", "X", "x"), ("target", "y", "label", "labels")
# What numpy and zipfile raise for damaged files.
DAMAGE = (
    BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    TokenError,
    SyntaxError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
)


def read_feature_arrays(
    path: str | Path, *, superclass: str | None = None, tolerance: float = 0.01, require_labels: bool = True
) -> Dataset:
    """Arrays ``features`` or ``X`` (N, D) and ``target`` or ``y``, and where they are given ``classes`` (C,) and ``ids`` (N,).

    The target is (N,) of class names or class numbers, or (N, C) of zeros and ones. Without ``classes``, class numbers are
    used as names, and only those that occur are classes. If ``classes`` are numbers other than their places (1, 2, 3, …), class
    numbers are these names. Python objects are never loaded.

    Args:
        path: the file.
        superclass: how class names give their superclass: ``"first-word"``, ``"last-word"`` or None.
        tolerance: the share of rows with missing features above which this fails.
        require_labels: if False, the target may be missing, and one that cannot be used is reported as a problem.
    """
    file = printable(Path(path).name)
    arrays = load_arrays(Path(path), file)
    features = _features(arrays, file)
    target, classes, problems = _labels(arrays, len(features), file) if require_labels else _optional(arrays, features, file)
    ids = names_in(arrays, "ids", file) or [str(row) for row in range(len(features))]
    if not require_labels and (len(ids) != len(features) or not ids):
        raise InputError(f"{file}: expected rows and an id for each, got {len(features):,} rows, {len(ids):,} ids")
    usable, failures = usable_rows(features, ids, [str(column) for column in range(features.shape[1])], tolerance)
    if not require_labels and not usable.any():
        raise InputError(f"{file}: expected rows to classify, got {len(ids):,} and none that can be used{first_of(failures)}")
    whole = Split(torch.from_numpy(features), target, ids)
    splits = {ALL: whole if usable.all() else whole.rows(torch.from_numpy(np.flatnonzero(usable)))}
    noted = [*failures, *problems]
    if require_labels:
        noted += [*check_names(classes), *classes_without_rows(splits, classes)]
    above = None if target is None else superclasses_of(classes, superclass)
    return Dataset(Path(path).stem, classes, splits, above, problems=noted)


def _features(arrays: dict[str, Array], file: str) -> Array:
    features = pick_array(arrays, FEATURE_KEYS, file)
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise InputError(f"{file}: expected features as numbers (N, D), got {dtype_and_shape(features)}")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and its row is left out
        return features.astype(np.float32)


def _labels(arrays: dict[str, Array], rows: int, file: str) -> tuple[Target, list[str], list[Problem]]:
    written = pick_array(arrays, TARGET_KEYS, file)
    if written.ndim not in (1, 2):
        raise InputError(f"{file}: expected a target (N,) or (N, C), got {dtype_and_shape(written)}")
    if len(written) != rows:
        raise InputError(f"{file}: expected one label for each of the {rows} rows, got {len(written)}")
    numbers, classes, problems = read_target(written, names_in(arrays, "classes", file), file)
    target = torch.from_numpy(numbers)
    check_labels(target, len(classes))
    return target, classes, problems


def _optional(arrays: dict[str, Array], features: Array, file: str) -> tuple[Target | None, list[str], list[Problem]]:
    """The labels where there are some; why they cannot be used is a problem, not an error."""
    if not any(key in arrays for key in TARGET_KEYS):
        return None, [], []
    try:
        return _labels(arrays, len(features), file)
    except InputError as error:
        return None, [], [Problem(LABELS_NOT_USED, file, str(error))]


def load_arrays(path: Path, file: str) -> dict[str, Array]:
    """The arrays of an npz file by name, in the machine's byte order; Python objects are never loaded.

    Args:
        path: the file.
        file: the name of the file, for messages.
    """
    if not path.is_file():
        came = "a folder" if path.is_dir() else "nothing"
        raise InputError(f"{printable(str(path))}: expected an npz file, got {came}")
    try:
        if not is_zipfile(path):
            raise InputError(f"{file}: cannot be read as npz: it is another kind of file, or damaged; numpy.savez writes them")
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{file}: cannot be read as npz: an array in it is larger than the memory") from error
    except DAMAGE as error:
        objects = "pickle" in str(error)
        reason = "it holds Python objects, which are never loaded: save plain arrays" if objects else "it is damaged"
        raise InputError(f"{file}: cannot be read as npz: {reason}") from error
    other = next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None)
    if other is not None:
        raise InputError(f"{file}: expected arrays only, got {other!r}, which is another kind of file")
    texts = {name: as_text(array, f"{file}: {name}") for name, array in arrays.items() if array.dtype.kind == "S"}
    # torch and Arrow only support the byte order of the machine.
    return {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()} | texts


def pick_array(arrays: dict[str, Array], keys: tuple[str, ...], file: str) -> Array:
    """The one array that goes by one of these names.

    >>> pick_array({"y": np.array([3, 5])}, TARGET_KEYS, "leaves.npz")
    array([3, 5])
    """
    found = [key for key in keys if key in arrays]
    if len(found) != 1:
        listed = ", ".join(map(repr, arrays)) or "nothing"
        raise InputError(f"{file}: expected one array called {' or '.join(keys)}, got {listed}")
    return arrays[found[0]]


def names_in(arrays: dict[str, Array], key: str, file: str) -> list[str] | None:
    """An array of names or numbers, as text; None where it is not given.

    >>> names_in({"ids": np.array([3, 5])}, "ids", "leaves.npz")
    ['3', '5']
    """
    if key not in arrays:
        return None
    written = arrays[key]
    if written.ndim != 1 or written.dtype.kind not in "iuU":
        raise InputError(f"{file}: expected {key} as names or numbers, one after the other, got {dtype_and_shape(written)}")
    names = [str(name) for name in written]
    _check_text(names, key, file)
    return names


def _check_text(names: list[str], key: str, file: str) -> None:
    strange = next((name for name in names if not is_utf8(name)), None)
    if strange is not None:
        raise InputError(f"{file}: expected text in {key}, got {printable(strange)!r}, which holds half a letter")


def read_target(written: Array, names: list[str] | None, file: str) -> tuple[Array, list[str], list[Problem]]:
    """The target int64 (N,) or bool (N, C), the C class names, and what is odd about them.

    Args:
        written: class names or class numbers (N,), or zeros and ones (N, C).
        names: of the classes; None where the file does not give them.
        file: the name of the file, for messages.

    >>> read_target(np.array(["oak", "elm", "oak"]), None, "leaves.npz")[:2]
    (array([1, 0, 1]), ['elm', 'oak'])
    """
    shared = list(shared_names(names or []))
    numbered = Numbered.of(names) if names is not None and written.ndim == 1 and written.dtype.kind in "iu" else None
    if shared and (written.dtype.kind == "U" or numbered):
        raise InputError(f"{file}: expected classes with different names, got {shared[0].where!r} more than once")
    classes = None if names is None else distinct_names(names, [str(label) for label in range(len(names))])
    if written.ndim == 2:
        if written.dtype.kind not in "biuf" or not np.isin(written, (0, 1)).all():
            raise InputError(
                f"{file}: expected zeros and ones in a target (N, C), got {dtype_and_shape(written)} with other values"
            )
        return written.astype(bool), classes or [str(label) for label in range(written.shape[1])], shared
    if written.dtype.kind not in "iuU":
        raise InputError(
            f"{file}: expected a target of class names or numbers (N,), or 0 and 1 (N, C), got {dtype_and_shape(written)}"
        )
    if classes is not None and written.dtype.kind in "iu":
        return numbered.places(written.tolist()).numpy() if numbered else written.astype(np.int64), classes, shared
    if written.dtype.kind == "U":
        _check_text(written.tolist(), "the target", file)
    codes, found, problems = encode_names(pa.array(written), "target", exact=classes is not None)
    if classes is not None:
        return _among(found, classes, file)[codes], classes, problems
    if (codes < 0).any():
        raise InputError(f"{file}: expected a label in every row, got none in row {int((codes < 0).argmax())}")
    return codes, found, problems


def _among(found: list[str], classes: list[str], file: str) -> Array:
    unknown = next((name for name in found if name not in classes), None)
    if unknown is not None:
        raise InputError(f"{file}: expected labels among the classes, got {unknown!r}")
    return np.array([*(classes.index(name) for name in found), -1], np.int64)


def dtype_and_shape(array: Array) -> str:
    """The dtype and shape of an array, for messages.

    >>> dtype_and_shape(np.zeros((2, 3)))
    'float64 (2, 3)'
    """
    return f"{array.dtype} {array.shape}"
