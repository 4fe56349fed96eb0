"""Rules and modifiers by the name that their text starts with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from shortlist.errors import InputError

if TYPE_CHECKING:
    from shortlist.sets.rule import SetRule

F = TypeVar("F", bound=Callable[..., Any])

PRIOR, RANDOM, SUPERCLASSES = "prior", "random", "superclasses"
COLUMN = "column"  # an argument that keeps its capitals
DETERMINISTIC, AUTO = "deterministic", "auto"
RANDOM_OR_NOT = f"{RANDOM}|{DETERMINISTIC}"
WORDS = (PRIOR, RANDOM, RANDOM_OR_NOT)  # arguments that are written as they are, at the end


@dataclass(frozen=True)
class TextForm:
    """How a rule or modifier is written as text, and the function that makes it.

    Args:
        name: the first word of the text.
        function: makes the rule from keyword arguments; a modifier takes the rule to modify first.
        arguments: names of the arguments in the order of the text; ``?`` marks those that may be left out.
        texts: the arguments that are words rather than numbers.
        prior: whether the function always takes a class prior, as the keyword ``prior``.
        superclasses: whether it takes the superclass of each class, as the keyword ``superclasses``.
        auto: the arguments that may be the word ``auto`` in place of a number.
    """

    name: str
    function: "Callable[..., SetRule]"
    arguments: tuple[str, ...]
    texts: tuple[str, ...] = ()
    prior: bool = False
    superclasses: bool = False
    auto: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """How the text is written, for example ``raps:ALPHA[:PENALTY[:K_REG[:random|deterministic]]]``."""
        text, closing = self.name, ""
        for argument in self.arguments:
            word = argument.rstrip("?")
            word = word if word in WORDS else word.upper() + f"|{AUTO}" * (word in self.auto)
            text += f"[:{word}" if argument.endswith("?") else f":{word}"
            closing += "]" if argument.endswith("?") else ""
        return text + closing


RULES: dict[str, TextForm] = {}
MODIFIERS: dict[str, TextForm] = {}


def register_rule(
    name: str,
    *arguments: str,
    texts: tuple[str, ...] = (),
    prior: bool = False,
    superclasses: bool = False,
    auto: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Decorator: give the function that makes a rule a text, for the command line and configuration files.

    Args:
        name: the first word of the text.
        *arguments: the arguments of the function in the order in which the text names them, separated by colons. ``?`` at the
            end marks those that may be left out. Some have a fixed meaning: with ``"prior?"`` the word ``prior`` in the text
            passes the class prior as ``prior``; with ``"random?"`` the word ``random`` passes a seed or a generator as
            ``generator``; with ``"random|deterministic?"`` it is passed with either word and without, and so is what they
            say, as ``randomized``: True, False or ``"calibration"``.
        texts: the arguments that are words rather than numbers.
        prior: whether the function always takes the class prior, as ``prior``.
        superclasses: whether it takes the superclass of each class, as ``superclasses``.
        auto: the arguments that may be the word ``auto`` in place of a number.

    For example, with ``alpha`` in the text as ``careful:0.1``::

        @register_rule("careful", "alpha")
        def careful(alpha):
            return SetRule(f"careful:{alpha}", Probability(), AverageError(alpha / 2))
    """
    return _register(RULES, name, arguments, texts, prior, superclasses, auto)


def register_modifier(name: str, *arguments: str, texts: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Decorator: give a function that makes one rule from another a text, written after a comma (``lac:0.1,cap:5``).

    Args:
        name: the first word of the text.
        *arguments: as for :func:`register_rule`; the function takes the rule to modify before them.
        texts: the arguments that are words rather than numbers.
    """
    return _register(MODIFIERS, name, arguments, texts)


def _register(
    table: dict[str, TextForm],
    name: str,
    arguments: tuple[str, ...],
    texts: tuple[str, ...],
    prior: bool = False,
    superclasses: bool = False,
    auto: tuple[str, ...] = (),
) -> Callable[[F], F]:
    if name != name.lower() or not name or any(sign in name for sign in ":, "):
        raise InputError(f"name: expected small letters without spaces, commas and colons, got {name!r}")
    optional = [argument.endswith("?") for argument in arguments]
    if optional != sorted(optional):
        raise InputError(f"arguments: expected those that may be left out (?) at the end, got {', '.join(arguments)}")

    def decorate(function: F) -> F:
        old = table.get(name)
        # A notebook cell or a reloaded module may define the same function again.
        if old is not None and _place(old.function) != _place(function):
            raise InputError(f"name: {name!r} is already {'.'.join(_place(old.function))}")
        table[name] = TextForm(name, function, arguments, texts, prior, superclasses, auto)
        return function

    return decorate


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__
