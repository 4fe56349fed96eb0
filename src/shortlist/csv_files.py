"""CSV files of other programs: their encoding and delimiter, told from the line of names, and their decimal point."""

import csv
import re
from itertools import islice
from pathlib import Path

from shortlist.errors import InputError

UTF16_STARTS = (b"\xff\xfe", b"\xfe\xff")
LONGEST_HEADER = 2**28
LOOKED_AT = 100  # rows that show the decimal point
WITH_COMMA, WITH_POINT = (re.compile(rf"[+-]?\d*{mark}\d+(?:[eE][+-]?\d+)?") for mark in (",", r"\."))


def csv_header(path: str | Path) -> bytes:
    """The first line of a CSV file that is not empty; an error if the file is UTF-16."""
    header = b""
    with Path(path).open("rb") as file:
        while not header.strip(b"\r\n") and (line := file.readline(LONGEST_HEADER)):
            header = line
    if header.startswith(UTF16_STARTS):
        raise InputError("expected UTF-8 text, got UTF-16: save the table as UTF-8")
    return header


def csv_delimiter(header: bytes, usual: str = ",") -> str:
    r"""The delimiter that a line of names shows: the usual one if it occurs, else the most frequent of comma, tab, semicolon.

    >>> csv_delimiter(b"id;target;p.ash"), csv_delimiter(b"id,target;p.ash"), csv_delimiter(b"id\ttarget,p.ash", usual="\t")
    (';', ',', '\t')
    """
    counts = {mark: header.count(mark.encode()) for mark in (",", "\t", ";")}
    return usual if counts[usual] else max(counts, key=lambda mark: counts[mark])


def csv_decimal_point(path: str | Path, delimiter: str) -> str:
    r"""The decimal point of a CSV file: a comma if its first rows have numbers such as 0,25 and none such as 0.25.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "mine.csv").write_text("id;p.ash\n1.jpg;0,25\n")
    ...     csv_decimal_point(Path(folder, "mine.csv"), ";")
    ','
    """
    commas = False
    with Path(path).open(encoding="utf-8-sig", errors="replace", newline="") as text:
        try:
            for cells in islice(csv.reader(text, delimiter=delimiter), 1, LOOKED_AT + 1):
                numbers = [cell.strip() for cell in cells]
                if any(WITH_POINT.fullmatch(cell) for cell in numbers):
                    return "."
                commas = commas or any(WITH_COMMA.fullmatch(cell) for cell in numbers)
        except csv.Error:  # Arrow says what is wrong with the file
            return "."
    return "," if commas else "."
