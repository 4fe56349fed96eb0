"""Names as numbers: users, items and labels, text or integers, become codes that count from 0.

Codes follow the sorted names, so they do not depend on the order of the rows; where a list of names is given, they follow that
list. The work is done on the distinct names: ten million rows are looked at a few times, not sorted.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from shortlist.errors import InputError
from shortlist.tensors import Array

# A table of flags over a range of integers is quicker than hashing while it is not much longer than the rows themselves.
SPARSEST = 4
SHORT_RANGE = 2**20
MOST_NAMES = 2**31 - 1


def encode(values: Any, name: str, known: Any = None, known_name: str = "") -> tuple[Array, Array]:
    """Codes ``int32 (V,)`` of the values, and the names they stand for.

    Args:
        values: integers or text: a list, an array, a tensor, a column of a data frame or of an Arrow table.
        name: what messages call the values.
        known: all names there are, in the order of their codes; None: those that occur, sorted.
        known_name: what messages call that list.

    >>> codes, names = encode(["oak", "ash", "oak"], "label")
    >>> codes, names
    (array([1, 0, 1], dtype=int32), array(['ash', 'oak'], dtype=object))
    >>> encode([7, 9, 7], "label", known=[9, 8, 7])[0]
    array([2, 0, 2], dtype=int32)
    """
    codes, names = _factorise(_column(values, name), name)
    if known is None:
        return codes, names
    listed = distinct_names(known, known_name or f"{name}s")
    return _places(names, listed, name, known_name or f"{name}s")[codes], listed


def distinct_names(values: Any, name: str) -> Array:
    """A list of names in its own order, refused if one is there twice.

    >>> distinct_names(["oak", "ash"], "labels")
    array(['oak', 'ash'], dtype=object)
    """
    column = _column(values, name)
    if isinstance(column, np.ndarray):
        names: Array = column.astype(np.int64)  # whatever arithmetic follows has room
    else:
        names = _decoded(column).to_numpy(zero_copy_only=False)
    codes, found = _factorise(column, name)
    if len(found) < len(names):
        again = plain(found[np.bincount(codes).argmax()])
        raise InputError(f"{name}: expected different names, got {again!r} more than once")
    return names


def plain(name: Any) -> int | str:
    """A name as Python writes it: 7, not np.int64(7).

    >>> plain(np.int64(7)), plain("oak")
    (7, 'oak')
    """
    return name if isinstance(name, str) else int(name)


def _column(values: Any, name: str) -> Any:
    """A numpy array of integers, or an Arrow array of text or of dictionary codes; without gaps."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    if getattr(values, "ndim", 1) != 1:
        raise InputError(f"{name}: expected one value a row, got an array of shape {tuple(values.shape)}")
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuU":
        values = values.astype(values.dtype.newbyteorder("="), copy=False)  # Arrow holds the order of this machine only
        if values.dtype.kind == "i":
            return values
    try:
        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name}: expected integers or text, all of one kind, got {type(values).__name__}") from error
    return _checked(one_piece(column), name)


def one_piece(column: Any) -> Any:
    """An Arrow column in one piece; text in pieces is encoded first, because one piece holds only so many letters."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if not column.num_chunks:
        return pa.array([], column.type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.dictionary_encode()
    return column.combine_chunks()


def _checked(column: Any, name: str) -> Any:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if column.null_count:
        row = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise InputError(
            f"{name}: expected a value in every row, got {column.null_count:,} empty, the first in row {row}: fill or drop them"
        )
    if pa.types.is_null(kind):
        return column.cast(pa.string())  # an empty list
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (text or pa.types.is_integer(kind)):
        raise InputError(f"{name}: expected integers or text, got {kind}")
    return _integers(column, name) if pa.types.is_integer(column.type) else column


def _integers(column: Any, name: str) -> Array:
    try:
        numbers: Array = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise InputError(f"{name}: expected integers below 2**63, got larger ones") from error
    return numbers


def _decoded(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _factorise(column: Any, name: str) -> tuple[Array, Array]:
    """Codes of the rows among the sorted names that occur."""
    if isinstance(column, np.ndarray):
        flagged = _by_flags(column)
        if flagged is not None:
            return flagged
    codes, names = _by_hashing(column)
    if len(names) > MOST_NAMES:
        raise InputError(f"{name}: expected at most {MOST_NAMES:,} different names, got {len(names):,}")
    return codes, names


def _by_flags(numbers: Array) -> tuple[Array, Array] | None:
    """Integers in a short range: mark those that occur, and count the marks below each."""
    if not len(numbers):
        return np.empty(0, np.int32), numbers.astype(np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > max(SPARSEST * len(numbers), SHORT_RANGE):
        return None
    # In 64 bits: a narrow type cannot hold the difference of its own extremes.
    shifted = np.subtract(numbers, low, dtype=np.int64) if low else numbers
    occurs = np.zeros(high - low + 1, bool)
    occurs[shifted] = True
    names = np.flatnonzero(occurs).astype(np.int64) + low
    if len(names) == len(occurs):
        return shifted.astype(np.int32), names
    return (np.cumsum(occurs, dtype=np.int32) - np.int32(1))[shifted], names


def _by_hashing(column: Any) -> tuple[Array, Array]:
    encoded = pa.array(column) if isinstance(column, np.ndarray) else column
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    # A dictionary may contain a value twice, and values that no row has.
    words = encoded.dictionary.dictionary_encode()
    word = words.indices.to_numpy(zero_copy_only=False)
    occurs = np.zeros(len(words.dictionary), bool)
    occurs[word[np.flatnonzero(np.bincount(codes, minlength=len(word)))]] = True
    order = pc.array_sort_indices(words.dictionary).to_numpy()
    order = order[occurs[order]]
    rank = np.zeros(len(occurs), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    names = words.dictionary.take(pa.array(order)).to_numpy(zero_copy_only=False)
    return rank[word][codes], names.astype(np.int64) if names.dtype.kind in "iu" else names


def _places(names: Array, listed: Array, name: str, known_name: str) -> Array:
    """Where each name is in the list."""
    if names.dtype.kind != listed.dtype.kind and len(names) and len(listed):
        kinds = {"O": "text", "i": "integers"}
        wanted, came = (kinds[part.dtype.kind] for part in (names, listed))
        raise InputError(f"{known_name}: expected {wanted}, like the values of {name!r}, got {came}")
    places = pc.index_in(pa.array(names), value_set=pa.array(listed, pa.array(names).type))
    if places.null_count:
        first = plain(names[int(places.is_null().to_numpy(zero_copy_only=False).argmax())])
        raise InputError(
            f"{name}: expected names from the list {known_name!r}, got {places.null_count:,} others, the first {first!r}"
        )
    found: Array = places.to_numpy(zero_copy_only=False).astype(np.int32)
    return found
