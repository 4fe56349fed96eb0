"""Names of classes: names that are nearly the same, and superclasses derived from names."""

import unicodedata
from collections.abc import Iterator, Sequence

from shortlist.data.problems import Problem
from shortlist.errors import InputError

FIRST_WORD, LAST_WORD = "first-word", "last-word"


def is_utf8(name: str) -> bool:
    """Whether a file name is valid UTF-8; other names cannot be written into reports."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_names(classes: Sequence[str]) -> Iterator[Problem]:
    """Names that differ by case, spaces or Unicode form only, which are usually one class in two spellings.

    The Unicode form is whether ``é`` is one character or a letter and its accent, as macOS writes names of files: such names
    cannot be told apart by eye, so the message shows them in ASCII.

    >>> [str(problem) for problem in check_names(["Acer campestre", "acer  campestre", "Acer rubrum"])]
    ["acer  campestre: differs from 'Acer campestre' by case or spaces only: kept as two classes"]
    """
    first: dict[str, str] = {}
    for name in classes:
        same = first.setdefault(_one_spelling(name), name)
        if same == name:
            continue
        if _composed(same) == _composed(name):
            how = f"is the same text as another name in another Unicode form ({same!a} and {name!a})"
            yield Problem("names alike", name, f"{how}: kept as two classes: rename one if they are the same")
        else:
            yield Problem("names alike", name, f"differs from {same!r} by case or spaces only: kept as two classes")


def _one_spelling(name: str) -> str:
    return _composed(" ".join(name.replace("_", " ").split()).casefold())


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def check_separators(classes: Sequence[str]) -> Iterator[Problem]:
    """Names that are several other names with a sign between: several labels, read as one.

    >>> [str(problem) for problem in check_separators(["sky", "sky|water", "water"])]
    ["sky|water: looks like several labels: set separator='|' if so"]
    """
    known = set(classes)
    for name in classes:
        for separator in "|;,":
            parts = name.split(separator)
            if len(parts) > 1 and any(part.strip() in known for part in parts):
                yield Problem("labels in one", name, f"looks like several labels: set separator={separator!r} if so")
                break


def superclasses_of(classes: Sequence[str], rule: str | None) -> list[str] | None:
    """The superclass of each class, derived from its name.

    >>> superclasses_of(["Acer campestre", "Acer rubrum", "Ilex_aquifolium"], "first-word")
    ['Acer', 'Acer', 'Ilex']
    >>> superclasses_of(["Herring gull", "Common_Gull", "Grey heron"], "last-word")
    ['gull', 'gull', 'heron']
    """
    if rule is None:
        return None
    if rule not in (FIRST_WORD, LAST_WORD):
        raise InputError(f"superclass: expected {FIRST_WORD!r}, {LAST_WORD!r} or nothing, got {rule!r}")
    words = [(name.replace("_", " ").split() or [name])[0 if rule == FIRST_WORD else -1] for name in classes]
    if rule == FIRST_WORD:
        return words
    spelt: dict[str, str] = {}  # Gull and gull end names of one kind: the first spelling stands for both
    return [spelt.setdefault(word.casefold(), word) for word in words]
