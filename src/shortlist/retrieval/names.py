"""Names of labels: how a name is written in a query, which label a word means, and which names are similar."""

import re
import unicodedata
from collections.abc import Sequence

from shortlist.errors import InputError
from shortlist.words import similar

KEYWORDS = ("and", "or", "not", "at", "least", "most", "exactly", "of", "count")
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]{1,4})?", re.IGNORECASE)


def is_word_character(character: str) -> bool:
    """Whether a word without quotes may contain it: letters, digits, marks and emoji of any script, and ``_-./'’:+#@*``."""
    if character.isalnum() or character in "_-./'’:+#@*\u200c\u200d":
        return True
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "So", "Sk")


def starts_word(character: str) -> bool:
    """Whether a word without quotes may begin with it: not with a mark, a quote or a sign, which have other meanings there."""
    return is_word_character(character) and character not in "-+'’/*:\u200c\u200d"


def is_bare(name: str) -> bool:
    """Whether a label can be written without quotes.

    >>> is_bare("fork"), is_bare("dining table"), is_bare("count"), is_bare("2")
    (True, False, False, False)
    """
    if not name or name.lower() in KEYWORDS or NUMBER.fullmatch(name):
        return False
    return starts_word(name[0]) and all(map(is_word_character, name))


def quoted(name: str) -> str:
    r"""A name in quotes, with its own quotes and backslashes escaped.

    >>> print(quoted('the "big" one'))
    "the \"big\" one"
    """
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def shown(text: str) -> str:
    """A piece of a query for a message: in quotes, printable, and at most 40 characters."""
    return repr(text if len(text) <= 40 else text[:39] + "…")


def folded(name: str) -> str:
    """A name in lower case and Unicode form NFC, for comparisons."""
    return unicodedata.normalize("NFC", name).casefold()


class UnknownError(InputError):
    """No label has this name."""


class AmbiguousError(InputError):
    """Several labels have this name."""


class Names:
    """Looks up labels by name: exactly, or ignoring case if that gives a single label.

    >>> names = Names(["fork", "dining table", "Knife"])
    >>> names.position("fork"), names.position("knife")
    (0, 2)
    """

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = classes
        self._exact: dict[str, list[int]] = {}
        for position, name in enumerate(classes):
            self._exact.setdefault(name, []).append(position)
        self._folded: dict[str, list[int]] | None = None

    def position(self, word: str) -> int:
        """Position of the label that a word means.

        Raises:
            UnknownError: no label has this name.
            AmbiguousError: several labels have it.
        """
        found = self._exact.get(word)
        if found is None:
            found = self._without_case().get(folded(word), [])
            if len(found) > 1:
                raise AmbiguousError(f"{shown(word)} is ambiguous: it may be {self._list(found)}; write it exactly")
        if len(found) > 1:
            raise AmbiguousError(f"{len(found)} labels are named {shown(word)}: a query cannot distinguish them")
        if not found:
            raise UnknownError(f"unknown label {shown(word)}")
        return found[0]

    def _without_case(self) -> dict[str, list[int]]:
        if self._folded is None:
            self._folded = {}
            for position, name in enumerate(self.classes):
                self._folded.setdefault(folded(name), []).append(position)
        return self._folded

    def _list(self, found: Sequence[int]) -> str:
        names = [quoted(self.classes[position]) for position in found[:3]]
        return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))

    def nearest(self, *spellings: str) -> str:
        """``did you mean "fork" or "cork"?``: up to three names that contain the word or are spelled similarly; else empty."""
        known = self._without_case()
        near = [name for text in spellings for name in known if folded(text) in name.split()][:3]
        near += [name for text in spellings for name in similar(folded(text), known)]
        found = [known[name][0] for name in dict.fromkeys(near)][:3]
        return f"did you mean {self._list(found)}?" if found else ""

    def phrase(self, query: str, start: int) -> str:
        """``write the label "dining table" in quotes``, if the query continues with a name that needs them; else empty."""
        fitting = [name for name in self.classes if not is_bare(name) and _continues_with(query, start, name)]
        return f"write the label {quoted(max(fitting, key=len))} in quotes" if fitting else ""

    def in_quotes(self, word: str) -> str:
        """``the label "count" must be written in quotes``, if a keyword or number is also a label; else empty."""
        found = self._without_case().get(folded(word)) if word else None
        return f"the label {quoted(self.classes[found[0]])} must be written in quotes" if found else ""


def _continues_with(query: str, start: int, name: str) -> bool:
    """Whether a query continues with these words, ignoring case and spaces."""
    words = folded(" ".join(name.split()))
    here = folded(" ".join(query[start : start + 2 * len(name) + 20].split()))
    return bool(words) and here.startswith(words) and not is_word_character(here[len(words) : len(words) + 1] or " ")
