"""Rules as text, for the command line and configuration files: ``average-k:5,cap:10,floor:1``."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from shortlist.checks import decimal
from shortlist.errors import InputError
from shortlist.sets import rules
from shortlist.sets.rule import SetRule
from shortlist.words import did_you_mean

PRIOR, RANDOM = "prior", "random"
# name → function and what stands between its colons, in order; "?" marks what may be left out.
RULES: dict[str, tuple[Callable[..., SetRule], tuple[str, ...]]] = {
    "top-k": (rules.top_k, ("k",)),
    "average-k": (rules.average_k, ("k", "prior?")),
    "threshold": (rules.threshold, ("p",)),
    "mass": (rules.mass, ("alpha",)),
    "lac": (rules.lac, ("alpha",)),
    "aps": (rules.aps, ("alpha", "random?")),
    "raps": (rules.raps, ("alpha", "penalty?", "k_reg?", "random?")),
    "pas": (rules.pas, ("alpha",)),
    "risk-control": (rules.risk_control, ("risk", "alpha")),
    "per-label": (rules.per_label, ("objective?", "level?")),
}
MODIFIERS: dict[str, tuple[Callable[..., SetRule], tuple[str, ...]]] = {
    "classwise": (rules.classwise, ()),
    "interpolated": (rules.interpolated, ("weight",)),
    "cap": (rules.cap, ("n",)),
    "floor": (rules.floor, ("n?",)),
}
WORDS = (PRIOR, RANDOM)  # stand for themselves
TEXTS = {"risk", "objective", *WORDS}


def parse_rule(text: str, prior: Any = None, *, generator: torch.Generator | None = None) -> SetRule:
    """The rule of a text: a rule, then modifiers, separated by commas; arguments after colons.

    Args:
        text: for example ``lac:0.1,classwise,cap:10``, ``average-k:5:prior``, ``per-label:precision:0.9``.
        prior: class prior for the rules that take one (``average-k:K:prior``, ``pas``).
        generator: for the randomised rules (``aps:ALPHA:random``); without one, they draw from seed 0.

    >>> parse_rule("average-k:5,cap:10,floor:1")
    SetRule(average-k:5,cap:10,floor:1, not fitted)
    """
    first, *others = [part.strip() for part in text.split(",")]
    given = {PRIOR: prior, RANDOM: generator}
    rule = _call(RULES, first, text, given)
    for part in others:
        rule = _call(MODIFIERS, part, text, given, rule)
    return rule


def _call(table: dict[str, Any], part: str, text: str, given: dict[str, Any], *rule: SetRule) -> SetRule:
    name, *values = part.lower().split(":")
    if name not in table:
        hint = did_you_mean(name, table)
        where = "a rule" if table is RULES else "a modifier"
        raise InputError(f"rule {text!r}: {name!r} is not {where}; {hint}expected one of {', '.join(map(usage, table))}")
    function, names = table[name]
    required = sum(not argument.endswith("?") for argument in names)
    if not required <= len(values) <= len(names):
        raise InputError(f"rule {text!r}: expected {usage(name)}, got {part!r}")
    if values and values[-1] in WORDS and f"{values[-1]}?" == names[-1]:  # the last word may follow any number of numbers
        names = (*names[: len(values) - 1], names[-1])
    keywords = {n.rstrip("?"): v for n, v in zip(names, values, strict=False)}
    arguments = {n: v if n in TEXTS else _number(v, n, text) for n, v in keywords.items()}
    if any(arguments.get(word, word) != word for word in WORDS):
        raise InputError(f"rule {text!r}: expected {usage(name)}, got {part!r}")
    if PRIOR in arguments or name == "pas":
        if given[PRIOR] is None:
            raise InputError(
                f"rule {text!r}: needs a class prior: give the number of training examples of each class as train_counts, an "
                "array of the file"
            )
        arguments[PRIOR] = given[PRIOR]
    if arguments.pop(RANDOM, None):
        arguments["generator"] = given[RANDOM] or torch.Generator().manual_seed(0)
    made: SetRule = function(*rule, **arguments)
    return made


def usage(name: str) -> str:
    """``raps:ALPHA[:PENALTY[:K_REG]]``, how a rule or modifier is written."""
    _, names = (RULES | MODIFIERS)[name]
    text, closing = name, ""
    for argument in names:
        word = argument.rstrip("?")
        word = word if word in WORDS else word.upper()
        text += f"[:{word}" if argument.endswith("?") else f":{word}"
        closing += "]" if argument.endswith("?") else ""
    return text + closing


def _number(value: str, name: str, text: str) -> Any:
    """A number that keeps how it was typed: whole numbers as int, all others as float (whose text is the same)."""
    exact = decimal(f"rule {text!r}: {name}", value)
    if value.isdigit():
        return int(value)
    return float(value) if "/" not in value and decimal(name, float(value)) == exact else _AsTyped(exact, value)


class _AsTyped(Fraction):
    """A number that no float holds, and the text it came as."""

    def __new__(cls, exact: Fraction, typed: str) -> "_AsTyped":
        made = super().__new__(cls, exact)
        made.typed = typed
        return made

    typed: str

    def __str__(self) -> str:
        return self.typed
