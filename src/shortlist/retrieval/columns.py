"""Columns of an index: values that it keeps of each row, by name, and returns with the results of a search.

A column holds text, numbers, booleans or bytes, and may lack values. Two names mean something to the page of results: ``path``
is the file that a result links to, and ``thumbnail`` is a small JPEG that is shown.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from shortlist.class_names import is_missing
from shortlist.errors import InputError
from shortlist.row_names import check_row_names
from shortlist.words import counted, shown

if TYPE_CHECKING:
    from shortlist.data.pictures import Pictures
    from shortlist.data.problems import Problem

Columns: TypeAlias = Mapping[str, Iterable[Any]]
Kinds: TypeAlias = dict[str, pa.DataType]

PATH, THUMBNAIL = "path", "thumbnail"
KINDS = {
    pa.string(): "text",
    pa.int64(): "whole numbers",
    pa.float64(): "numbers",
    pa.bool_(): "booleans",
    pa.binary(): "bytes",
}
MEANT = {PATH: pa.string(), THUMBNAIL: pa.binary()}
OWN = ("row", "id", "odds")  # columns that every index has
MOST_THREADS = 16  # that make thumbnails


def column_arrays(columns: Columns | None, rows: int, known: Kinds, ids: Sequence[str] | None = None) -> dict[str, pa.Array]:
    """The columns as Arrow arrays, checked.

    Args:
        columns: values by name, one for each row; None and NaN are missing values.
        rows: number of rows.
        known: types of the columns that the index already has, which later rows must fit.
        ids: the names of the rows, which a pandas series may not have in another order; None if they have none.

    >>> column_arrays({"place": ["Lyon", None]}, rows=2, known={})["place"].to_pylist()
    ['Lyon', None]
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(f"columns: expected a mapping from names to values, got {type(columns).__name__}")
    found = {}
    for name, values in (columns or {}).items():
        if not isinstance(name, str) or not name or name in OWN:
            raise InputError(f"columns: expected names other than {', '.join(OWN)}, got {shown(name)}")
        check_row_names(ids, values, f"columns[{name!r}]")
        array = _array(f"columns[{name!r}]", values, known.get(name, MEANT.get(name)))
        if len(array) != rows:
            raise InputError(f"columns[{name!r}]: expected {counted(rows, 'value')}, one for each row, got {len(array):,}")
        found[name] = array
    return found


def _array(where: str, values: Any, known: pa.DataType | None) -> pa.Array:
    """Values as an array of one of the kinds; of the known one if there is one."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{where}: expected one value for each row, got {shown(values)}")
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, OverflowError):
        large = _beyond_int64(values)
        if large is not None:
            raise InputError(f"{where}: expected whole numbers from -2^63 to 2^63 - 1, got {large}: pass text") from None
        raise InputError(f"{where}: expected values of one kind ({', '.join(KINDS.values())}), got a mixture") from None
    if array.type == pa.null():
        return pa.nulls(len(array), known or pa.string())
    if array.type not in KINDS:
        raise InputError(f"{where}: expected {', '.join(KINDS.values())}, got {array.type}")
    if known is None or array.type == known:
        return array
    if (array.type, known) == (pa.int64(), pa.float64()):
        return _as_floats(where, array)
    advice = ""
    if (array.type, known) == (pa.float64(), pa.int64()):
        advice = f", such as {_fraction(array)}: build the index again with this column as numbers"
    raise InputError(f"{where}: expected {KINDS[known]}, got {KINDS[array.type]}{advice}")


def _beyond_int64(values: list[Any]) -> int | None:
    """The first of these whole numbers that 64 bits cannot hold; None if there is none, or if some are no whole numbers."""
    numbers = [value for value in values if not is_missing(value)]
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in numbers):
        return None
    return next((value for value in numbers if not -(2**63) <= value < 2**63), None)


def _as_floats(where: str, array: pa.Array) -> pa.Array:
    """Whole numbers as floating point, if that changes none."""
    try:
        return array.cast(pa.float64())
    except pa.ArrowInvalid:  # beyond 2^53
        large = max((value for value in array.to_pylist() if value is not None), key=abs)
        raise InputError(
            f"{where}: expected {KINDS[pa.float64()]}, which the index keeps as floating point, got {large}, which that cannot "
            "hold: build the index again with this column as whole numbers or text"
        ) from None


def _fraction(array: pa.Array) -> float:
    """The first number that is not whole; the first of all if there is none."""
    numbers = [value for value in array.to_pylist() if value is not None]
    return float(next((value for value in numbers if not float(value).is_integer()), numbers[0]))


@dataclass(frozen=True)
class Thumbnails:
    """Thumbnails that an index is to keep, made from the images of its rows.

    Args:
        images: one for each row, in the same order.
        side: maximum width and height in pixels.
        problems: filled, while the index is written, with the images that could not be read.
    """

    images: "Pictures"
    side: int = 320
    problems: "list[Problem]" = field(default_factory=list)

    def __post_init__(self) -> None:
        from shortlist.checks import whole

        whole(1)("side", self.side)

    def make(self, places: range) -> pa.Array:
        """The thumbnails of these rows as JPEGs; null, and a problem, for images that cannot be read."""
        from shortlist.data.problems import Problem

        if self.images.one_reader:
            found = [self._make_one(place) for place in places]
        else:
            with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
                found = list(pool.map(self._make_one, places))
        self.problems.extend(one for one in found if isinstance(one, Problem))
        return pa.array([one if isinstance(one, bytes) else None for one in found], pa.binary())

    def _make_one(self, place: int) -> "bytes | Problem":
        from shortlist.data.decoding import PictureError
        from shortlist.data.loading import UNREADABLE
        from shortlist.data.problems import Problem
        from shortlist.data.thumbnails import small_jpeg

        try:
            image = self.images.decode(place, at_least=self.side).image
        except PictureError as error:
            return Problem(UNREADABLE, str(self.images.ids[place]), str(error))
        return small_jpeg(image, self.side)
