"""CSV files: of those of other programs their encoding and delimiter, told from the first two rows, and their decimal point;
and how rows are written."""

import csv
import io
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shortlist.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

UTF16_STARTS = (b"\xff\xfe", b"\xfe\xff")
MARKS = (",", "\t", ";")  # between cells
LONGEST_HEADER = 2**28
MOST_LINES = 64  # of the first two rows
LOOKED_AT = 2**17  # cells that show the decimal point
WITH_COMMA, WITH_POINT = (re.compile(rf"[+-]?\d*{mark}\d+(?:[eE][+-]?\d+)?") for mark in (",", r"\."))
NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE)
GROUPED = re.compile(r"[+-]?\d{1,3}(?:(?P<mark>[.,' \u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*(?:[.,]\d+)?")


def csv_header(path: str | Path) -> bytes:
    """The first line of a CSV file that is not empty; an error if the file is UTF-16."""
    header = next(_filled_lines(path), b"")
    if header.startswith(UTF16_STARTS):
        raise InputError("expected UTF-8 text, got UTF-16: save the table as UTF-8")
    return header


def csv_start(path: str | Path) -> bytes:
    """The lines of the first two rows of a CSV file that are not empty, whichever sign separates the cells.

    Cells in quotes may go on in other lines. Where one does not end within so many, these are what there is.
    """
    csv_header(path)
    start = b""
    for line in islice(_filled_lines(path, inside=True), MOST_LINES):
        start += line
        if all(_first_rows(start, mark)[1] for mark in MARKS):
            break
    return start


def _filled_lines(path: str | Path, *, inside: bool = False) -> Iterator[bytes]:
    """The lines of a file without its byte order mark, without the empty ones, or only without those before the first other."""
    with Path(path).open("rb") as file:
        if file.read(len(BOM_UTF8)) != BOM_UTF8:
            file.seek(0)
        begun = False
        while line := file.readline(LONGEST_HEADER):
            filled = bool(line.strip(b"\r\n"))
            begun = begun or filled
            if filled or (inside and begun):
                yield line


def _first_rows(start: bytes, delimiter: str) -> tuple[list[list[str]], bool]:
    """The cells of the first two rows that are not empty, as far as these are there, and whether it takes no more lines."""
    text = io.StringIO(start.decode("latin-1") + "\n-", newline="")  # a row of its own unless a cell in quotes goes on
    rows: list[list[str]] = []
    try:
        rows.extend(islice(filter(None, csv.reader(text, delimiter=delimiter)), 3))
    except csv.Error:
        return [], True
    return (rows[:2], True) if len(rows) == 3 else (rows[:-1], False)


def csv_names(path: str | Path) -> list[str]:
    """The names of the columns of a CSV file, as its first line that is not empty has them."""
    delimiter = csv_delimiter(csv_start(path))
    with Path(path).open(encoding="utf-8-sig", errors="replace", newline="") as text:
        return next(filter(None, csv.reader(text, delimiter=delimiter)), [])


def csv_delimiter(start: bytes, usual: str = ",") -> str:
    r"""The delimiter that a line of names shows: the usual one if it occurs, else the most frequent of comma, tab, semicolon.

    If it does not divide the first row into as many cells, it is the one of the others that does, or that does and gives a
    number among them. It is also another one if that gives more cells with a number among them, while the likely one gives
    no number.

    Args:
        start: the first rows of the file, as :func:`csv_start` gives them.
        usual: the delimiter of such files.

    >>> csv_delimiter(b"id;target;p.ash"), csv_delimiter(b"id,target;p.ash"), csv_delimiter(b"id\ttarget,p.ash", usual="\t")
    (';', ',', '\t')
    >>> csv_delimiter(b"target;p.ash, common;p.elm\nelm;0.25;0.75")
    ';'
    >>> csv_delimiter(b"target;p.ash, common;p.elm\nash, common;0.25;0.75")
    ';'
    """
    rows = {mark: _first_rows(start, mark)[0] for mark in MARKS}
    counts = {
        mark: len(found[0]) - 1 if found else start.partition(b"\n")[0].count(mark.encode()) for mark, found in rows.items()
    }
    likely = usual if counts[usual] else max(counts, key=lambda mark: counts[mark])
    fitting = {mark: two[1] for mark, two in rows.items() if counts[mark] and len(two) == 2 and len(two[0]) == len(two[1])}
    cells = len(fitting[likely]) if likely in fitting else 0
    if cells and _has_number(fitting[likely], likely):
        return likely
    better = [mark for mark, row in fitting.items() if len(row) > cells and _has_number(row, mark)]
    others = better if cells or len(better) == 1 else list(fitting)
    return others[0] if len(others) == 1 else likely


def _has_number(cells: list[str], delimiter: str) -> bool:
    """Whether a cell is a number, with a decimal comma where cells are not separated by commas."""
    forms = (NUMBER,) if delimiter == "," else (NUMBER, WITH_COMMA)
    return any(form.fullmatch(cell.strip()) for cell in cells for form in forms)


def csv_decimal_point(path: str | Path, delimiter: str, counts: Callable[[str], bool] = lambda name: True) -> str:
    r"""The decimal point of a CSV file: a comma if its first rows have numbers such as 0,25 and none such as 0.25.

    1,234 may be a thousand and more, and is then no number for Arrow: it tells nothing, unless cells are separated by
    semicolons, which programs use where the comma is the decimal point.

    Args:
        path: the file.
        delimiter: of its cells.
        counts: whether the column of this name can tell; names and labels may look like numbers. By default all do.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "mine.csv").write_text("id;p.ash\n1.5;0,25\n")
    ...     csv_decimal_point(Path(folder, "mine.csv"), ";", lambda name: name != "id")
    ','
    """
    commas, seen = False, 0
    with Path(path).open(encoding="utf-8-sig", errors="replace", newline="") as text:
        rows = filter(None, csv.reader(text, delimiter=delimiter))
        try:
            looked_at = [place for place, name in enumerate(next(rows, [])) if counts(name.strip())]
            for cells in rows:
                numbers = [cells[place].strip() for place in looked_at if place < len(cells)]
                if any(WITH_POINT.fullmatch(cell) for cell in numbers):
                    return "."
                commas = commas or any(
                    WITH_COMMA.fullmatch(cell) and (delimiter == ";" or not _may_be_grouped(cell)) for cell in numbers
                )
                seen += len(cells)
                if seen > LOOKED_AT:
                    break
        except csv.Error:  # Arrow says what is wrong with the file
            return "."
    return "," if commas else "."


def _may_be_grouped(cell: str) -> bool:
    """Whether a comma in a number may separate thousands.

    >>> _may_be_grouped("1,234"), _may_be_grouped("0,234"), _may_be_grouped("1,25")
    (True, False, False)
    """
    return bool(GROUPED.fullmatch(cell)) and not cell.lstrip("+-").startswith("0")


def first_no_number(cells: Iterable[str | None]) -> tuple[int, str] | None:
    """The first cell that is no number with a decimal point, with its row; None if all are, or empty.

    >>> first_no_number(["0.5", None, "0,25"])
    (2, '0,25')
    """
    found = ((row, cell) for row, cell in enumerate(cells) if cell is not None and not NUMBER.fullmatch(cell.strip()))
    return next(found, None)


def number_advice(cell: str) -> str:
    """What to do about a cell that should be a number: a sentence's end, or nothing where nobody knows.

    >>> number_advice("0,25"), number_advice("ash")
    (': write all numbers of the file with a decimal point, or all with a decimal comma', '')
    >>> number_advice("1,234")
    ': write it with a decimal point, or without what separates thousands'
    """
    cell = cell.strip()
    if WITH_COMMA.fullmatch(cell) and _may_be_grouped(cell):
        return ": write it with a decimal point, or without what separates thousands"
    if WITH_COMMA.fullmatch(cell) or WITH_POINT.fullmatch(cell):
        return ": write all numbers of the file with a decimal point, or all with a decimal comma"
    if cell.endswith("%"):
        return ": write shares as numbers, 0.1 for 10%"
    if GROUPED.fullmatch(cell):
        return ": leave out what separates thousands"
    return ""


def cells_advice(message: str, delimiter: str) -> str | None:
    """What Arrow's message about a row with more cells than the line of names means; None for other messages.

    >>> cells_advice("CSV parse error: Expected 2 columns, got 4: 0,5,0,5", ",")
    'expected 2 cells in every row, as in the names, got 4 in 0,5,0,5: if commas are decimal points, separate cells by ;'
    """
    found = re.search(r"Expected (\d+) columns, got (\d+): (.*)", message)
    if found is None:
        return None
    advice = ": if commas are decimal points, separate cells by ;" if delimiter == "," and int(found[2]) > int(found[1]) else ""
    return f"expected {found[1]} cells in every row, as in the names, got {found[2]} in {found[3][:60]}{advice}"


@contextmanager
def rows_of_one_length(delimiter: str) -> Iterator[None]:
    """Inside, Arrow's error about a row with other cells than the line of names is an InputError that says what to do."""
    try:
        yield
    except ValueError as error:  # among them those of Arrow
        advice = cells_advice(str(error), delimiter)
        if advice is None:
            raise
        raise InputError(advice) from error


class Writable(Protocol):
    """What rows are written to: an open file, or text in memory."""

    def write(self, text: str, /) -> object:
        """Take a text."""


class CsvLines:
    r"""Rows of a CSV file, of which each ends in a line feed, while cells with a carriage return are quoted as others are.

    Python up to 3.12 quotes only the sign at which its own rows end, and a carriage return ends a row for every reader: so rows
    are to end in both for what makes them, ``csv.writer`` or pandas.

    Args:
        target: where they are written, a row at a time.

    >>> import io
    >>> text = io.StringIO(newline="")
    >>> csv_writer(text).writerow(["oak\rtree", 0.5])
    >>> text.getvalue()
    '"oak\rtree",0.5\n'
    """

    END = "\r\n"  # of a row, for what makes it

    def __init__(self, target: Writable):
        self._target = target

    def write(self, row: str) -> None:
        """Write a row."""
        self._target.write(row.removesuffix(self.END) + "\n")


def csv_writer(target: Writable, delimiter: str = ",") -> Any:
    """What writes rows of cells to a file that was opened with ``newline=""``."""
    return csv.writer(CsvLines(target), delimiter=delimiter, lineterminator=CsvLines.END)


def write_csv_frame(frame: "pd.DataFrame", target: Writable) -> None:
    """Write a data frame, without its index."""
    lines: Any = CsvLines(target)  # which pandas writes to, and asks for no more
    frame.to_csv(lines, index=False, lineterminator=CsvLines.END)
