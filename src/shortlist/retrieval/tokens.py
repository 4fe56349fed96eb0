"""Tokens of a query, and the error that points at one of them."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from shortlist.errors import InputError
from shortlist.retrieval.names import KEYWORDS, NUMBER, Names, is_word_character, shown, starts_word
from shortlist.words import JOINERS, is_control

MOST_TERMS = 1_000
MOST_DEPTH = 100
WIDTH = 80
SPELLINGS = {">": ">", ">=": ">=", "≥": ">=", "<": "<", "<=": "<=", "≤": "<=", "=": "=", "==": "="}
INSTEAD = {
    "&": "write and",
    "|": "write or",
    "!": "write not",
    "~": "write not",
    "-": "write not, or put the name in quotes",
    ";": "a query does not end in a semicolon",
    "“": "write straight quotes",
    "”": "write straight quotes",
    "„": "write straight quotes",
    "‘": "write straight quotes",
    "’": "write straight quotes",
    "[": "write parentheses",
    "{": "write parentheses",
}


class QueryError(InputError):
    """A query that cannot be parsed: a sentence, the query, and a caret below the place of the error.

    Attributes:
        sentence: what is wrong, and what to write.
        query: the whole query.
        position: place of the error, as an index into the query; its length if something is missing at the end.

    >>> print(QueryError("expected a label", "fork and", 8))
    expected a label
    fork and
            ^
    """

    def __init__(self, sentence: str, query: str, position: int) -> None:
        super().__init__(sentence, query, position)
        self.sentence, self.query, self.position = sentence, query, position

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """The sentence, the query, and the caret."""
        line, column = window(self.query, self.position)
        return self.sentence, line, f"{' ' * column}^"


def window(query: str, position: int) -> tuple[str, int]:
    """At most ``WIDTH`` columns of a query around a position, and the column of the position; wide characters count twice.

    >>> window("水 and 火", 6)
    ('水 and 火', 7)
    """
    room = WIDTH - 2 - _columns(query[position : position + 1] or " ")
    first, left = _leftward(query, position, room // 2)
    last, room = min(position + 1, len(query)), room - room // 2 + left
    while last < len(query) and (used := _columns(query[last])) <= room:
        last, room = last + 1, room - used
    first, _ = _leftward(query, first, room)  # room that the right side did not need
    before = "…" if first > 0 else ""
    line = before + "".join(map(_printable, query[first:last])) + ("…" if last < len(query) else "")
    return line, len(before) + _columns(query[first:position])


def _leftward(query: str, first: int, room: int) -> tuple[int, int]:
    """The first character that still fits to the left, and the room that remains."""
    while first > 0 and (used := _columns(query[first - 1])) <= room:
        first, room = first - 1, room - used
    return first, room


def _printable(character: str) -> str:
    """Replace tabs, line ends and control characters by spaces: they would misplace the caret, or worse."""
    return " " if is_control(character) else character


def _columns(text: str) -> int:
    """Number of terminal columns that a text takes."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me") or c in JOINERS else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its kind (a keyword, a mark, ``word``, ``name``, ``number``, ``sign`` or ``end``), value and place."""

    kind: str
    value: str
    start: int
    end: int


def tokens(query: str, names: Names) -> Iterator[Token]:
    """The tokens of a query, the last of kind ``end``; characters without a meaning raise a :class:`QueryError`."""
    at, start = 0, 0
    while at < len(query):
        character, before, start = query[at], start, at
        if character.isspace():
            at, start = at + 1, before
        elif character in "(),%":
            at += 1
            yield Token(character, character, start, at)
        elif character in "\"'":
            name, at = _quoted_name(query, start)
            yield Token("name", name, start, at)
        elif character in "<>=≤≥" or query.startswith("!=", at):
            while at < len(query) and query[at] in "<>=≤≥!":
                at += 1
            if query[start:at] not in SPELLINGS:
                raise QueryError(f"{shown(query[start:at])} is not a comparison: write >, >=, <, <= or =", query, start)
            yield Token("sign", SPELLINGS[query[start:at]], start, at)
        elif (number := NUMBER.match(query, at)) and not is_word_character(query[number.end() : number.end() + 1] or " "):
            at = number.end()
            yield Token("number", number.group(), start, at)
        elif starts_word(character):
            while at < len(query) and is_word_character(query[at]):
                at += 1
            word = query[start:at]
            yield Token(word.lower() if word.lower() in KEYWORDS else "word", word, start, at)
        else:
            hint = names.phrase(query, before) or INSTEAD.get(character, "a name that contains it is written in quotes")
            raise QueryError(f"{shown(character)} is not allowed here; {hint}", query, start)
    end = len(query.rstrip())
    yield Token("end", "", end, end)


def _quoted_name(query: str, start: int) -> tuple[str, int]:
    """The name between quotes and the place after it; a backslash escapes the next character."""
    name, at = [], start + 1
    while at < len(query) and query[at] != query[start]:
        at += query[at] == "\\"
        name.append(query[at : at + 1])
        at += 1
    if at >= len(query):
        raise QueryError("this quote is not closed", query, start)
    return "".join(name), at + 1


def checked_tokens(query: str, names: Names) -> list[Token]:
    """All tokens, after checking that brackets are balanced and that depth and number of terms are within the limits."""
    found: list[Token] = []
    brackets: list[Token] = []
    terms = negations = 0
    for token in tokens(query, names):
        found.append(token)
        terms += token.kind in ("word", "name", "count")
        negations = negations + 1 if token.kind == "not" else 0
        if terms > MOST_TERMS:
            raise QueryError(f"a query may have at most {MOST_TERMS:,} terms; this is one more", query, token.start)
        if token.kind == "(":
            brackets.append(token)
        elif token.kind == ")":
            if not brackets:
                raise QueryError("this bracket has no opening bracket", query, token.start)
            brackets.pop()
        if len(brackets) + negations > MOST_DEPTH:
            raise too_deep(query, token)
    if brackets:
        raise QueryError("this bracket is not closed", query, brackets[-1].start)
    return found


def too_deep(query: str, token: Token) -> QueryError:
    """The error for a query nested deeper than ``MOST_DEPTH``."""
    return QueryError(f"a query may be nested at most {MOST_DEPTH} deep; this is one more", query, token.start)
