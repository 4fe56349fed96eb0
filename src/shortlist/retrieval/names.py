"""Labels by their names: how a name is written in a query, which label a word means, and which ones come near it."""

import re
import unicodedata
from collections.abc import Sequence

from shortlist.errors import InputError
from shortlist.words import similar

KEYWORDS = ("and", "or", "not", "at", "least", "most", "exactly", "of", "count")
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]{1,4})?", re.IGNORECASE)


def is_word_character(character: str) -> bool:
    """Whether a bare word may hold it: letters, digits, marks and pictographs of any script, and ``_-./'’:+#@*``."""
    if character.isalnum() or character in "_-./'’:+#@*\u200c\u200d":
        return True
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "So", "Sk")


def starts_word(character: str) -> bool:
    """Whether a bare word may begin with it: not with a mark, a quote or a sign, which mean something else there."""
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
    r"""A name in quotes, its own quotes and backslashes escaped.

    >>> print(quoted('the "big" one'))
    "the \"big\" one"
    """
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def shown(text: str) -> str:
    """A piece of a query inside a sentence: printable, and not longer than 40 characters."""
    return repr(text if len(text) <= 40 else text[:39] + "…")


def folded(name: str) -> str:
    """A name without its case, in the composed form of its letters."""
    return unicodedata.normalize("NFC", name).casefold()


class UnknownError(InputError):
    """No label has this name."""


class AmbiguousError(InputError):
    """Several labels have this name."""


class Names:
    """The labels of an index, found by name: exactly, or without regard to case where that is one label only.

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
        """The one label that a word means.

        Raises:
            UnknownError: there is none.
            AmbiguousError: there are several.
        """
        found = self._exact.get(word)
        if found is None:
            found = self._without_case().get(folded(word), [])
            if len(found) > 1:
                raise AmbiguousError(f"{shown(word)} may be {self._list(found)}: write it exactly")
        if len(found) > 1:
            raise AmbiguousError(f"{len(found)} labels are named {shown(word)}: a query cannot tell them apart")
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
        """``did you mean "fork" or "cork"?``: up to three names that hold the word or are spelt nearly so, if any."""
        known = self._without_case()
        near = [name for text in spellings for name in known if folded(text) in name.split()][:3]
        near += [name for text in spellings for name in similar(folded(text), known)]
        found = [known[name][0] for name in dict.fromkeys(near)][:3]
        return f"did you mean {self._list(found)}?" if found else ""

    def phrase(self, query: str, start: int) -> str:
        """``write the label "dining table" in quotes``, where a query goes on with a name that needs them; else nothing."""
        fitting = [name for name in self.classes if not is_bare(name) and _goes_on_with(query, start, name)]
        return f"write the label {quoted(max(fitting, key=len))} in quotes" if fitting else ""

    def in_quotes(self, word: str) -> str:
        """``the label "count" is written in quotes``, where a keyword or number is also a label; else nothing."""
        found = self._without_case().get(folded(word)) if word else None
        return f"the label {quoted(self.classes[found[0]])} is written in quotes" if found else ""


def _goes_on_with(query: str, start: int, name: str) -> bool:
    """Whether a query goes on with these words, whatever the case and the spaces between them."""
    words = folded(" ".join(name.split()))
    here = folded(" ".join(query[start : start + 2 * len(name) + 20].split()))
    return bool(words) and here.startswith(words) and not is_word_character(here[len(words) : len(words) + 1] or " ")
