"""Codes among the columns of a CSV file: what Arrow would read as numbers, and says more than these: 007, 1.1 beside 1.10."""

from collections.abc import Container, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from shortlist.predictions.columns import is_plain_number, name_of_number
from shortlist.predictions.group_spellings import TRUTHS, group_of, name_of_value

LEADING_ZERO = r"^\s*[+-]?0[0-9xX]"  # 0017 and 0xFF, which Arrow reads as 17 and 255
TRAILING_ZERO = r"\.[0-9]+0\s*([eE]|$)"  # 1.10, but not 1.0, the usual form of a whole number among others
TOO_LONG = r"^\s*[+-]?[0-9]{16}"  # more digits than a double holds
TOO_LONG_CODE = r"^[+-]?[0-9]{16,}([^0-9.]|\.[0-9]*[^0]|$)"  # but not 1234567890123456.0, as programs write a double
POINT_OR_SIGN, EXPONENT = r"[.+-]", r"[eE]"  # 1e5 beside 23 may be the end of a hash; programs write 1e+05 and 1.0e5
NOT_ZERO, NOT_INFINITE = r"^[^eE]*[1-9]", r"[0-9]"  # 1E-400 is no 0, and 1E400 not infinite
NO_NUMBER = ("nan", "NaN", "-nan", "-NaN", "null", "NULL")  # how programs write a missing number
DECIMALS = r"^[^.]*\.?([0-9]*).*$"
WHOLE, NEGATIVE_ZERO = r"^([+-]?[0-9]+)\.0$", r"^-(0+(\.0*)?)$"  # the same numbers for every program as 3 and 0


def is_code(written: pa.ChunkedArray, guessed: pa.ChunkedArray, point: str = ".") -> bool:
    """Whether a column that rows may be grouped by has to be text, as its numbers or truth values would merge some cells.

    Numbers stay numbers where they are written as programs do: then they are the same groups as those of a file that holds
    numbers, such as Parquet. So 3 and 3.0 are one, and 0.50 is a number beside 0.25, but a code beside 0.5. Dates stay dates.

    Args:
        written: the cells as text, without the empty ones.
        guessed: as Arrow reads them.
        point: the decimal point of the file.
    """
    if guessed.type == pa.null():
        return not are_missing_numbers(written)
    if guessed.type == pa.bool_():
        return has_digits_for_truths(written)
    if guessed.type not in (pa.int64(), pa.float64()):
        return False
    present = guessed.is_valid()
    cells, numbers = pc.utf8_trim_whitespace(written.filter(present)), guessed.filter(present)
    cells = cells if point == "." else pc.replace_substring(cells, point, ".")
    spelt = pc.replace_substring_regex(pc.replace_substring_regex(cells, WHOLE, r"\1"), NEGATIVE_ZERO, r"\1")
    patterns = [LEADING_ZERO, TOO_LONG_CODE, *([] if _have_as_many_decimals(cells) else [TRAILING_ZERO])]
    return _changes(cells, numbers, patterns, spelt)


def spelt_as_groups(written: Iterable[str | None], names: Iterable[str], known: Container[str], point: str = ".") -> list[str]:
    """The entries of a column as known groups are called: {1.1, 1.10} beside a file in which 1.10 is a number.

    An entry is the group that is spelt as it is, or the one that it stands for, as
    :func:`~shortlist.predictions.group_spellings.group_of` tells, whatever is beside it. Any other spelling of a number, such
    as 1.10, is a text, and a group of its own.

    Args:
        written: the cells; None for an empty one.
        names: what they are called by themselves, as :func:`~shortlist.predictions.columns.as_names` gives it.
        known: the groups.
        point: the decimal point of the file.
    """
    entries = list(zip(written, names, strict=True))
    spelt = {(cell, name): name if cell is None else _spelt(cell, name, known, point) for cell, name in set(entries)}
    return [spelt[entry] for entry in entries]


def _spelt(cell: str, name: str, known: Container[str], point: str) -> str:
    forms = _forms(cell, point)
    found = next((group for form in forms if (group := group_of(form, known)) is not None), None)
    if found is not None:
        return found
    is_merged = cell != name and name_of_number(name) is not None and not is_plain_number(forms[-1])
    return cell.strip() if is_merged else name


def _forms(cell: str, point: str) -> list[str]:
    """A cell as it is written; a number or a time also without blanks around it and with a decimal point, as Arrow reads it."""
    bare = cell.strip()
    plain = bare if point == "." or "." in bare else bare.replace(point, ".")
    if name_of_number(plain) is not None:
        return [cell, bare, plain]
    return [cell] if bare in TRUTHS or name_of_value(bare) is None else [cell, bare]


def are_missing_numbers(written: pa.ChunkedArray) -> bool:
    """Whether the cells of a column in which Arrow finds no value are missing numbers, rather than words such as NA."""
    return bool(pc.all(pc.is_in(written.drop_null(), pa.array(NO_NUMBER)), min_count=0).as_py())


def has_digits_for_truths(written: pa.ChunkedArray) -> bool:
    """Whether a column of truth values has 1 beside true: Arrow takes both for the same."""
    return bool(pc.any(pc.is_in(written, pa.array(["0", "1"]))).as_py())


def holds_codes(written: pa.ChunkedArray, numbers: pa.ChunkedArray, *, known_as_numbers: bool) -> bool:
    """Whether a column is more than its numbers: 0017 has a zero that they lack, 1.1 and 1.10 are one number, 1E-400 is none.

    In a column that is known to hold numbers, 0.50 is one of them, and so is 1e5.
    """
    patterns = [LEADING_ZERO, TOO_LONG] if known_as_numbers else [LEADING_ZERO, TOO_LONG, TRAILING_ZERO]
    return _changes(written, numbers, patterns, pc.utf8_trim_whitespace(written), plain_exponents=known_as_numbers)


def _changes(
    written: pa.ChunkedArray,
    numbers: pa.ChunkedArray,
    patterns: list[str],
    spelt: pa.ChunkedArray,
    *,
    plain_exponents: bool = False,
) -> bool:
    """Whether cells are no numbers, or are merged by them.

    Args:
        written: the cells as text.
        numbers: as Arrow reads them; none is missing.
        patterns: of cells that are no numbers; those of long ones apply to doubles only.
        spelt: the cells in a form in which those that may be merged are equal.
        plain_exponents: whether 1e5 is a number in a column without points and signs.
    """
    if numbers.type == pa.float64():
        if not plain_exponents and not _any(written, POINT_OR_SIGN) and _any(written, EXPONENT):
            return True
        if _any(written.filter(pc.equal(numbers, 0)), NOT_ZERO) or _any(written.filter(pc.is_inf(numbers)), NOT_INFINITE):
            return True
    else:  # which are exact
        patterns = [pattern for pattern in patterns if pattern not in (TOO_LONG, TOO_LONG_CODE)]
    if any(_any(written, pattern) for pattern in patterns):
        return True
    without_sign = pc.add(numbers, 0)  # of zero: -0.0 and 0.0 are one number
    return bool(pc.count_distinct(spelt).as_py() > pc.count_distinct(without_sign).as_py())


def _any(written: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(written, pattern)).as_py())


def _have_as_many_decimals(cells: pa.ChunkedArray) -> bool:
    """Whether all cells have one number of decimals, as programs write them: 0.50 beside 0.25."""
    lengths = pc.min_max(pc.utf8_length(pc.replace_substring_regex(cells, DECIMALS, r"\1")))
    return bool(lengths["min"] == lengths["max"])
