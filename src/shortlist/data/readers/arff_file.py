"""ARFF files, dense or sparse: attributes and their values as numbers.

The format is that of the Weka manual (Waikato/weka-wiki, ``docs/arff_stable.md``): keywords in any case, ``%`` before a
comment, names and values in quotes where they hold blanks, ``?`` for a missing value, and ``{index value, …}`` for a row of
which only the values that are not 0 (or not the first of a nominal attribute) are written.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import printable

Cell: TypeAlias = str | None  # None: a missing value
KINDS: dict[str, Literal["numeric", "text"]] = {
    "numeric": "numeric",
    "real": "numeric",
    "integer": "numeric",
    "string": "text",
    "date": "text",
}
KEYWORD = re.compile(r"@(\w+)\s*(.*)", re.DOTALL)
QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
SEPARATOR = re.compile(r"\s*[,\t]\s*")
BARE, BRACED = re.compile(r"[^,\t%{}]+"), re.compile(r"\{[^}]*\}")
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
LETTERS = {"n": "\n", "t": "\t", "r": "\r"}
WEIGHT = re.compile(r"\{\s*[0-9.eE+-]+\s*\}")
UNUSUAL = re.compile(r"['\"%?]")  # what a row must not hold to be split at its commas alone
BLOCK_CELLS = 2**20
MOST_CELLS = 2**31  # 8 GiB in float32: a few letters of a sparse file may stand for any number of zeros
LONGEST_INDEX = 9  # digits


@dataclass(frozen=True)
class Attribute:
    """A column: numbers, one of several values, or text, which is not read."""

    name: str
    kind: Literal["numeric", "nominal", "text"]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ArffFile:
    """What an ARFF file holds.

    Args:
        relation: its name for itself.
        attributes: the columns.
        values: float32 (N, A): a number, or the place of a nominal value among those of its attribute; NaN where it is missing,
            and 0 in columns of text.
        weighted: how many rows had a weight, which is not read.
    """

    relation: str
    attributes: list[Attribute]
    values: Array
    weighted: int = 0


def read_arff_file(path: str | Path) -> ArffFile:
    """The whole file."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{printable(path.name)}: expected UTF-8 text, got other bytes: save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"{printable(str(path))}: expected an ARFF file: {error.strerror}") from error
    parser = _Parser(printable(path.name))
    parser.read(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return parser.result()


@dataclass
class _Parser:
    """Goes through the lines once; values are turned into numbers a block of rows at a time."""

    file: str
    relation: str = ""
    attributes: list[Attribute] = field(default_factory=list)
    blocks: list[Array] = field(default_factory=list)
    weighted: int = 0
    line: int = 0
    underscores: bool = False  # whether the rows at hand hold any

    def read(self, lines: list[str]) -> None:
        header_ends = self._read_header(lines)
        self.convert = [_converter(attribute) for attribute in self.attributes]
        step = max(1, BLOCK_CELLS // len(self.attributes))
        rows = [
            (number, line)
            for number, text in enumerate(lines[header_ends:], header_ends + 1)
            if (line := text.strip()) and line[0] != "%"
        ]
        check_cells(len(rows), len(self.attributes), self.file)
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and its row is left out later
            self.blocks = [self._block(rows[start : start + step]) for start in range(0, len(rows), step)]

    def result(self) -> ArffFile:
        empty = np.zeros((0, len(self.attributes)), np.float32)
        return ArffFile(self.relation, self.attributes, np.concatenate([empty, *self.blocks]), self.weighted)

    # The header

    def _read_header(self, lines: list[str]) -> int:
        """Relation and attributes; the number of lines up to ``@data``."""
        for self.line, text in enumerate(lines, 1):
            line = text.strip()
            if not line or line.startswith("%"):
                continue
            found = KEYWORD.match(line)
            word = found[1].lower() if found else ""
            if word == "data":
                self._check_attributes()
                return self.line
            if word == "relation" and found:
                self.relation = self._name(found[2])[0] if found[2] else ""
            elif word == "attribute" and found:
                self.attributes.append(self._attribute(found[2]))
            else:
                raise self._wrong("expected @relation, @attribute or @data", line)
        raise InputError(f"{self.file}: expected a line @data, got none in {len(lines):,} lines")

    def _attribute(self, text: str) -> Attribute:
        if text[:1] in ("'", '"') and not QUOTED.match(text):
            raise self._wrong("expected a quote at the end of the name", text)
        name, rest = self._name(text)
        if rest.startswith("{"):
            end = _without_quotes(rest).find("}")
            if end < 0:
                raise self._wrong("expected } after the values", text)
            values = [cell for cell in self._cells(rest[1:end]) if cell is not None] if rest[1:end].strip() else []
            return Attribute(name, "nominal", tuple(values))
        word = (rest.split() or [""])[0].lower()
        if word not in KINDS:
            raise self._wrong("expected numeric, real, integer, string, date or {values} as the type", text)
        return Attribute(name, KINDS[word])

    def _name(self, text: str) -> tuple[str, str]:
        quoted = QUOTED.match(text)
        if quoted:
            return _unescaped(quoted), text[quoted.end() :].strip()
        bare = re.match(r"[^\s{]+", text)
        if bare is None:
            raise self._wrong("expected a name", text)
        return bare[0], text[bare.end() :].strip()

    def _check_attributes(self) -> None:
        if not self.attributes:
            raise InputError(f"{self.file}: expected @attribute lines before @data, got none")
        names = [attribute.name for attribute in self.attributes]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{self.file}: expected attributes with different names, got {twice!r} more than once")

    # The rows

    def _block(self, rows: Sequence[tuple[int, str]]) -> Array:
        values = np.zeros((len(rows), len(self.attributes)), np.float32)
        places, dense = [], []
        self.underscores = any("_" in line for _, line in rows)
        for place, (self.line, line) in enumerate(rows):
            if line[0] == "{":
                for column, number in self._sparse(line):
                    values[place, column] = number
            else:
                places.append(place)
                dense.append(self._dense(line))
        if dense:
            columns = [self._column(column, cells, places, rows) for column, cells in enumerate(zip(*dense, strict=True))]
            values[places] = np.array(columns, np.float32).T
        return values

    def _dense(self, line: str) -> list[Cell]:
        cells = self._cells(line)
        if len(cells) == len(self.attributes) + 1 and WEIGHT.fullmatch(cells[-1] or ""):
            self.weighted += 1
            cells.pop()
        if len(cells) != len(self.attributes):
            raise InputError(f"{self._here}: expected {len(self.attributes)} values, got {len(cells)} in {line[:60]!r}")
        return cells

    def _column(self, column: int, cells: Sequence[Cell], places: list[int], rows: Sequence[tuple[int, str]]) -> Array:
        """The cells of one attribute as numbers; if one is wrong, the row it came from is named."""
        try:
            if self.attributes[column].kind == "numeric" and not self.underscores:
                return np.array(cells, np.float64)  # None becomes NaN, and 1_000 would be a number
            return np.fromiter(map(self.convert[column], cells), np.float64, len(cells))
        except (ValueError, KeyError):
            for place, cell in zip(places, cells, strict=True):
                self.line = rows[place][0]
                self._number(column, cell)
            raise

    def _sparse(self, line: str) -> Iterator[tuple[int, float]]:
        """Places and values that are written; the others are 0."""
        inside, rest = self._braces(line)
        if rest.strip(" ,\t") and WEIGHT.fullmatch(rest.strip(" ,\t")):
            self.weighted += 1
        elif rest.strip():
            raise self._wrong("expected the end of the row after }", line)
        seen = set()
        for entry in inside:
            index, _, value = entry.replace("\t", " ").partition(" ")
            column = int(index) if index.isdecimal() and len(index) <= LONGEST_INDEX else -1
            if not 0 <= column < len(self.attributes):
                raise self._wrong(f"expected an index from 0 to {len(self.attributes) - 1} before each value", entry)
            if column in seen:
                raise InputError(f"{self._here}: expected each index once, got {column} again")
            seen.add(column)
            yield column, self._number(column, self._cells(value)[0])

    def _braces(self, line: str) -> tuple[list[str], str]:
        """The entries between the braces, and what follows them."""
        masked = _without_quotes(line)
        end = masked.find("}")
        if end < 0:
            raise self._wrong("expected } at the end of the row", line)
        cuts = [0, *(comma.start() for comma in re.finditer(",", masked[:end])), end]
        entries = [line[before + 1 : after].strip() for before, after in pairwise(cuts)]
        return ([] if entries == [""] else entries), masked[end + 1 :]

    def _number(self, column: int, cell: Cell) -> float:
        try:
            return self.convert[column](cell)
        except (ValueError, KeyError):
            attribute = self.attributes[column]
            allowed = "a number" if attribute.kind == "numeric" else f"one of {', '.join(attribute.values[:8]) or 'no value'}"
            raise self._wrong(f"expected {allowed} for {attribute.name!r}", str(cell)) from None

    def _cells(self, line: str) -> list[Cell]:
        """The values between commas or tabs."""
        if not UNUSUAL.search(line):
            return list(SEPARATOR.split(line.strip())) if "\t" in line or " " in line else list(line.split(","))
        return list(self._scanned(line.strip()))

    def _scanned(self, line: str) -> Iterator[Cell]:
        """The same, a value at a time, minding quotes, comments and missing values."""
        place = 0
        while True:
            quoted = QUOTED.match(line, place)
            if quoted:
                yield _unescaped(quoted)
                place = quoted.end()
            else:
                bare = BARE.match(line, place) or BRACED.match(line, place)
                text = bare[0].strip() if bare else ""
                if text[:1] in ("'", '"'):
                    raise self._wrong("expected a quote at the end of the value", text)
                yield None if text == "?" else text
                place = bare.end() if bare else place
            rest = line[place:].lstrip(" ")
            if not rest or rest[0] == "%":
                return
            separator = SEPARATOR.match(line, place)
            if separator is None:
                raise self._wrong("expected a comma between values", line[place:])
            place = separator.end()

    @property
    def _here(self) -> str:
        return f"{self.file}, line {self.line}"

    def _wrong(self, expected: str, got: str) -> InputError:
        return InputError(f"{self._here}: {expected}, got {got[:60]!r}")


def _converter(attribute: Attribute) -> Callable[[Cell], float]:
    if attribute.kind == "numeric":
        return lambda cell: float("nan") if cell is None else as_float(cell)
    if attribute.kind == "text":
        return lambda cell: 0.0
    place: dict[Any, float] = {value: float(number) for number, value in enumerate(attribute.values)}
    place[None] = float("nan")
    return place.__getitem__


def as_float(text: str) -> float:
    """The number that is written; ``1_000`` is not one, although Python reads it.

    >>> as_float("1e3")
    1000.0
    """
    if "_" in text:
        raise ValueError(text)
    return float(text)


def check_cells(rows: int, columns: int, file: str) -> None:
    """Refuse a table that would not fit before any of it is made."""
    if rows * columns > MOST_CELLS:
        raise InputError(
            f"{file}: expected at most {MOST_CELLS:,} values, zeros that are not written included, got {rows:,} rows of "
            f"{columns:,}: leave out rows or attributes"
        )


def _without_quotes(line: str) -> str:
    """The line up to a comment, what is in quotes blotted out: commas and braces there part nothing."""
    if not UNUSUAL.search(line):
        return line
    return QUOTED.sub(lambda quoted: "'" * len(quoted[0]), line).partition("%")[0]


def _unescaped(quoted: re.Match[str]) -> str:
    text = quoted[1] if quoted[1] is not None else quoted[2]
    return ESCAPED.sub(lambda found: LETTERS.get(found[1], found[1]), text)
