"""CSV files of other programs: their encoding and their delimiter, told from the line of names."""

from pathlib import Path

from shortlist.errors import InputError

UTF16_STARTS = (b"\xff\xfe", b"\xfe\xff")
LONGEST_HEADER = 2**28


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
