"""Rules as text, for the command line and configuration files: ``average-k:5,cap:10,floor:1``."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from shortlist.checks import as_typed
from shortlist.errors import InputError
from shortlist.sets import by_group, high_probability, learn_then_test, rules  # noqa: F401 (register our own)
from shortlist.sets.groups import PREDICTED
from shortlist.sets.registry import (
    AUTO,
    COLUMN,
    DETERMINISTIC,
    MODIFIERS,
    PRIOR,
    RANDOM,
    RANDOM_OR_NOT,
    RULES,
    SUPERCLASSES,
    WORDS,
    TextForm,
)
from shortlist.sets.rule import SetRule
from shortlist.words import did_you_mean, shown

SHARES = ("alpha", "p", "level", "weight", "refuse")  # arguments from 0 to 1, which may be written as percentages
DECIMAL_COMMA = re.compile(r":(\d+),(\d+)(?=\s*(?:[:,]|$))")  # no modifier is a number
# What other libraries call a modifier, and what they call rules that have another name here.
SYNONYMS = {"class-conditional": "classwise", "class_conditional": "classwise", "mondrian": "classwise"}
FOREIGN = {"thr": "lac", "naive": "mass", "cumulated-score": "aps", "crc": "risk-control", "label-conditional": "classwise"}


def parse_rule(text: str, prior: Any = None, *, generator: Any = None, superclasses: Any = None) -> SetRule:
    """Build the rule that a text describes: a rule, then modifiers, separated by commas; arguments after colons.

    Args:
        text: for example ``lac:0.1,classwise,cap:10``, ``average-k:5:prior``, ``per-label:precision:0.9``.
        prior: class prior for the rules that need one (``average-k:K:prior``, ``pas``), or a function that returns it and is
            called only then.
        generator: for rules that draw random numbers (``aps``, ``raps``): a seed (0 by default), which the draws follow from
            together with the data, or a torch or numpy generator, which is drawn from in turn.
        superclasses: the superclass of each class for the rules that need them (``sure-node``), or a function that returns
            them.

    >>> parse_rule("average-k:5,cap:10,floor:1")
    SetRule(average-k:5,cap:10,floor:1, not fitted)
    """
    if not isinstance(text, str):
        raise InputError(f"rule: expected a text such as 'average-k:5' or 'lac:0.1', got {type(text).__name__}")
    if comma := DECIMAL_COMMA.search(text):
        point = f"{comma[1]}.{comma[2]}"
        raise InputError(
            f"rule {shown(text)}: commas separate a rule from its modifiers: write {point} with a point, "
            f"{text[: comma.start(1)]}{point}{text[comma.end(2) :]}"
        )
    first, *others = [part.strip() for part in text.split(",")]
    given = {PRIOR: prior, RANDOM: generator, SUPERCLASSES: superclasses}
    rule = _call(RULES, first, text, given)
    for part in others:
        rule = _call(MODIFIERS, part, text, given, rule)
    return rule


def column_in(text: str) -> str | None:
    """The column that a rule groups rows by, as far as its text says so.

    >>> column_in("lac:0.1,by:Site:20"), column_in("lac:0.1,by:predicted"), column_in("lac:0.1")
    ('Site', None, None)
    """
    for part in text.split(",")[1:]:
        name, *values = part.strip().split(":")
        if name.lower() == "by" and values and values[0] != PREDICTED:
            return values[0]
    return None


def usage(name: str) -> str:
    """How a rule or modifier is written, for example ``raps:ALPHA[:PENALTY[:K_REG[:random|deterministic]]]``."""
    return (RULES | MODIFIERS)[name].usage


def _call(table: dict[str, TextForm], part: str, text: str, given: dict[str, Any], *rule: SetRule) -> SetRule:
    name, *values = [word.lower() if place == 0 else word for place, word in enumerate(part.split(":"))]
    form = table.get(SYNONYMS.get(name, name))
    values = values if form is not None and COLUMN in form.arguments else [value.lower() for value in values]
    if form is None:
        raise InputError(_unknown(table, name, text))
    arguments = _arguments(form, values, part, text)
    if PRIOR in arguments or form.prior:
        arguments[PRIOR] = _prior(given[PRIOR], text)
    if form.superclasses:
        arguments[SUPERCLASSES] = _superclasses(given[SUPERCLASSES], text)
    arguments |= _randomness(form, arguments.pop(RANDOM, None), arguments.pop(DETERMINISTIC, None), given[RANDOM])
    made = form.function(*rule, **arguments)
    if not isinstance(made, SetRule):
        raise InputError(
            f"rule {shown(text)}: expected {form.function.__qualname__} to return a SetRule, got {type(made).__name__}"
        )
    return made


def _randomness(form: TextForm, random: str | None, deterministic: str | None, generator: Any) -> dict[str, Any]:
    """What a rule that draws random numbers is told: where from, and for which rows."""
    given = {"generator": 0 if generator is None else generator}
    if f"{RANDOM_OR_NOT}?" not in form.arguments:
        return given if random else {}
    if deterministic:
        return {"randomized": False}
    return given | {"randomized": True if random else "calibration"}


def _unknown(table: dict[str, TextForm], name: str, text: str) -> str:
    what = "a rule" if table is RULES else "a modifier"
    ours = FOREIGN.get(name)
    hint = f"it is called {ours!r} here; " if ours in table else did_you_mean(name, table)
    if table is RULES and name in MODIFIERS:
        example = f"average-k:5,{MODIFIERS[name].usage}"
        return f"rule {shown(text)}: {name!r} modifies a rule and comes after it, separated by a comma: {example}"
    return (
        f"rule {shown(text)}: {name!r} is not {what}; {hint}expected one of {', '.join(form.usage for form in table.values())}"
        "; a rule of your own is known once the module that registers it is imported (on the command line, shortlist --import)"
    )


def _arguments(form: TextForm, values: list[str], part: str, text: str) -> dict[str, Any]:
    """The keyword arguments between the colons; words such as ``prior`` and ``random`` may follow any number of the others."""
    names = [argument.rstrip("?") for argument in form.arguments]
    allowed = [word for name in names if name in WORDS for word in name.split("|")]
    words = {values[-1]: values[-1]} if values and values[-1] in allowed else {}
    values = values[: len(values) - len(words)]
    plain = [name for name in names if name not in WORDS]
    required = {argument for argument in form.arguments if not argument.endswith("?")}
    if not len(required - set(WORDS)) <= len(values) <= len(plain) or not required & set(WORDS) <= set(words):
        raise InputError(f"rule {shown(text)}: expected {form.usage}, got {shown(part)}")
    found: dict[str, Any] = {}
    for name, value in zip(plain, values, strict=False):
        found[name] = (
            value
            if name in form.texts or (value == AUTO and name in form.auto)
            else as_typed(f"rule {shown(text)}: {name}", _of_hundred(name, value))
        )
    return found | words


def _of_hundred(name: str, value: str) -> str:
    """A share that was written as a percentage, ``10%``, as a number; other values as they are.

    >>> _of_hundred("alpha", "10 %"), _of_hundred("alpha", "0.1"), _of_hundred("k", "5%")
    ('0.1', '0.1', '5%')
    """
    number = value.strip().removesuffix("%").strip()
    if name not in SHARES or number == value.strip() or not re.fullmatch(r"\d+\.?\d*|\.\d+", number):
        return value
    return format(Decimal(number) / 100, "f")


def _prior(prior: Any | Callable[[], Any], text: str) -> Any:
    found = prior() if callable(prior) else prior
    if found is None:
        raise InputError(
            f"rule {shown(text)}: needs a class prior: pass prior, or train_counts with the predictions (the number of "
            "training examples of each class)"
        )
    return found


def _superclasses(superclasses: Any | Callable[[], Any], text: str) -> Any:
    found = superclasses() if callable(superclasses) else superclasses
    if found is None:
        raise InputError(
            f"rule {shown(text)}: needs the superclass of each class: pass superclasses, or predictions that have them"
        )
    return found
