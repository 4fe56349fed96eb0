"""How messages are worded: suggestions for misspelt names, lists, counts, values. One home, so that all messages read alike."""

import functools
import os
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_VALUE = 60  # characters of a value in a message
JOINERS = "\u200c\u200d"  # invisible, but part of words in Persian and Hindi, and of emoji
MOST_LISTED = 12  # names in a message
LONGEST_TYPO = 80  # beyond which a text is no misspelt name


def similar(name: object, known: Iterable[str], most: int = 3) -> list[str]:
    """Up to ``most`` known names that this one may have been meant to be, the most similar first.

    >>> similar("avarage_K", ["top-k", "average-k"])
    ['average-k']
    """
    if not isinstance(name, str) or not name or len(name) > LONGEST_TYPO:
        return []
    import difflib  # only misspelt names need it

    spellings = {_folded(one): one for one in known}
    return [spellings[found] for found in difflib.get_close_matches(_folded(name), spellings, most, 0.65)]


def did_you_mean(name: object, known: Iterable[str], most: int = 1) -> str:
    """``"did you mean 'average-k'? "``, to be put before what was expected; empty where nothing is similar.

    >>> did_you_mean("sofmax", ["softmax", "sigmoid"])
    "did you mean 'softmax'? "
    """
    near = similar(name, known, most)
    return f"did you mean {' or '.join(map(repr, near))}? " if near else ""


def listed(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """The names separated by commas: the first ``most`` of them, and how many more there are.

    >>> listed(["oak", "elm", "ash"]), listed(["oak", "elm", "ash", "fir"], most=2)
    ('oak, elm, ash', 'oak, elm and 2 more')
    """
    first = ", ".join(names[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most:,} more"


def expected_one_of(name: object, known: Collection[str], where: str = "") -> str:
    """What a misspelt name was expected to be: a suggestion, then the names, a long list cut short.

    Args:
        name: what came.
        known: the names.
        where: where all of them are listed, for a list that is cut short.

    >>> expected_one_of("sofmax", ["softmax", "sigmoid"])
    "did you mean 'softmax'? expected one of softmax, sigmoid"
    """
    all_there = f" ({where} lists them)" if where and len(known) > MOST_LISTED else ""
    return f"{did_you_mean(name, known)}expected one of {listed(list(known))}{all_there}"


def quoted(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """The same with every name in quotes, for names that may hold spaces.

    >>> quoted(["leaf width", "species"]), quoted([])
    ("'leaf width', 'species'", 'none')
    """
    return listed([repr(name) for name in names], most) or "none"


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A number and what it counts, with a verb behind it if wanted.

    >>> counted(1, "row"), counted(1200, "row"), counted(2, "class has", "classes have")
    ('1 row', '1,200 rows', '2 classes have')
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def sized(number: int) -> str:
    """A number of bytes.

    >>> sized(812), sized(43_000), sized(170_052_171)
    ('812 bytes', '43.0 kB', '170.1 MB')
    """
    if number < 1000:
        return counted(number, "byte")
    return f"{number / 1e3:,.1f} kB" if number < 1e6 else f"{number / 1e6:,.1f} MB"


def shown(value: Any, longest: int = LONGEST_VALUE) -> str:
    """The value as it would be typed, cut to a length that fits a line.

    >>> shown("lac"), shown(0.5), shown("x" * 100, longest=4)
    ("'lac'", '0.5', "'xxx…")
    """
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write an integer of more than 4,300 digits
        return "a number of thousands of digits"
    text = printable(text)
    return text if len(text) <= longest else f"{text[:longest]}…"


def printable(text: str) -> str:
    r"""The text on one line and safe for a terminal: control characters, and bytes of a path that are not UTF-8, as escapes.

    >>> printable("caf\udce9.jpg"), printable("two\nlines")
    ('caf\\xe9.jpg', 'two\\nlines')
    """
    try:
        readable = os.fsencode(text).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can hold it, a file name cannot
        readable = text.encode("utf-8", "backslashreplace").decode()
    if readable.isprintable():  # nearly always, and quick to find out
        return readable
    return "".join(sign.encode("unicode_escape").decode() if is_control(sign) else sign for sign in readable)


def is_control(sign: str) -> bool:
    r"""Whether a character steers the terminal instead of showing something: escapes, line ends, marks that turn the direction.

    >>> [is_control(sign) for sign in ("\x1b", "\n", "\x9b", "\u202e", "é", "\xa0")]
    [True, True, True, True, False, False]
    """
    if sign.isprintable():
        return False
    category = unicodedata.category(sign)
    return category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and sign not in JOINERS)


def understands(**synonyms: str | tuple[str, Callable[[Any], Any]]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: the function also takes keywords by the names that other libraries have for them.

    Args:
        **synonyms: for each foreign keyword our own name for it, or our name and a function that converts the value.

    >>> @understands(n_bins="bins", confidence_level=("alpha", lambda level: 1 - level))
    ... def both(bins=15, alpha=0.1):
    ...     return bins, alpha
    >>> both(n_bins=10, confidence_level=0.75)
    (10, 0.25)
    """
    own = {name: value if isinstance(value, tuple) else (value, _as_is) for name, value in synonyms.items()}

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def translated(*positional: P.args, **keywords: P.kwargs) -> R:
            return function(*positional, **(_translated(keywords, own) if own.keys() & keywords.keys() else keywords))

        return translated

    return decorate


def refused(sentence: str) -> tuple[str, Callable[[Any], Any]]:
    """For :func:`understands`: a keyword that another library has and this one does not, answered with a sentence.

    >>> @understands(num_classes=refused("num_classes: not needed, it is read from the columns"))
    ... def rows(probs):
    ...     return len(probs)
    >>> rows([[0.5, 0.5]], num_classes=2)
    Traceback (most recent call last):
    TypeError: num_classes: not needed, it is read from the columns
    """

    def refuse(value: Any) -> Any:
        raise TypeError(sentence)

    return sentence, refuse


def _translated(keywords: Mapping[str, Any], own: Mapping[str, tuple[str, Callable[[Any], Any]]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for given, value in keywords.items():
        name, convert = own.get(given, (given, _as_is))
        if name in found or (name != given and name in keywords):
            raise TypeError(f"{name}: given twice, also as {given}")
        found[name] = convert(value)
    return found


def _as_is(value: Any) -> Any:
    return value


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")
