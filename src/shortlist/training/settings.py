"""Settings given as text, such as ``lr=0.05``, and the plain forms in which their values are recorded and compared.

Whether a value is allowed is checked elsewhere: ``setting_checks`` and the table in ``recipe``.
"""

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from shortlist.errors import InputError
from shortlist.words import shown

NONE = "none"
# Settings for which "none" is a value of its own: scores that cannot be interpreted as probabilities.
NONE_IS_A_VALUE = ("link",)
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def parse_value(name: str, value: Any, hint: Any) -> Any:
    """Convert text to a value of the type of the setting; other values are returned unchanged.

    Args:
        name: the setting.
        value: text, or a value.
        hint: the type of the setting.

    >>> parse_value("milestones", "150,225", tuple[int, ...]), parse_value("patience", "none", int | None)
    ((150, 225), None)
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    choices = _choices(hint)
    if type(None) in choices and text.lower() == NONE and name not in NONE_IS_A_VALUE:
        return None
    if bool in choices and text.lower() in (*YES, *NO):
        return text.lower() in YES
    for kind in (int, float):
        if kind in choices:
            try:
                return kind(text)
            except ValueError:
                continue
    if any(get_origin(choice) is tuple for choice in choices):
        return tuple(parse_value(name, part, int) for part in text.split(",") if part.strip())
    if int in choices and float not in choices and _is_whole(text):
        return int(float(text))
    if str in choices or any(get_origin(choice) is Literal for choice in choices):
        return text
    raise InputError(f"{name}: expected {_described(hint)}, got {shown(value)}")


def frozen(value: Any) -> Any:
    """The value with lists replaced by tuples, nested ones too."""
    return tuple(frozen(entry) for entry in value) if isinstance(value, list | tuple) else value


def plain(value: Any) -> Any:
    """The value with mappings and tuples replaced by what JSON has: dictionaries and lists."""
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def hashable(value: Any) -> Any:
    """A form with the same hash for equal values: 5 and 5.0, mappings in another order."""
    if isinstance(value, Mapping):
        return frozenset((name, hashable(entry)) for name, entry in value.items())
    return tuple(hashable(entry) for entry in value) if isinstance(value, list | tuple) else value


def _is_whole(text: str) -> bool:
    try:
        return float(text) == int(float(text))
    except (ValueError, OverflowError):
        return False


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _described(hint: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", type(None): "none"}
    return " or ".join(words.get(choice, "a mapping, which cannot be given as text") for choice in _choices(hint))
