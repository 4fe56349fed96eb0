"""Settings: what a person types or gives → the value that a recipe keeps; what it cannot mean is refused in a sentence."""

import math
import types
from collections.abc import Mapping, Sequence
from fractions import Fraction
from numbers import Real
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin

from shortlist.errors import InputError
from shortlist.links import Identity, Link, parse_link
from shortlist.links.fitted import FittedLink
from shortlist.methods import Method, find_method
from shortlist.words import did_you_mean, shown

NONE, OWN = "none", "own"
# Of these, "none" is a value: that scores have no reading as probabilities.
NONE_IS_A_VALUE = ("link",)


def parse_value(name: str, value: Any, hint: Any) -> Any:
    """A value as it is, or a text as the value that the setting takes.

    Args:
        name: of the setting.
        value: what was given.
        hint: the setting's type.

    >>> parse_value("milestones", "150,225", tuple[int, ...]), parse_value("patience", "none", int | None)
    ((150, 225), None)
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    choices = _choices(hint)
    if type(None) in choices and text.lower() == NONE and name not in NONE_IS_A_VALUE:
        return None
    if bool in choices and text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return text.lower() in ("true", "yes", "on", "1")
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
    raise InputError(f"{name}: expected {_wanted(hint)}, got {shown(value)}")


def checked_value(name: str, value: Any, hint: Any) -> Any:
    """The value, frozen, if it is of the setting's type.

    >>> checked_value("lr", 1, float), checked_value("milestones", [150, 225], tuple[int, ...])
    (1.0, (150, 225))
    """
    if _is_table(hint):
        if not isinstance(value, Mapping):
            raise InputError(f"{name}: expected names and values, got {shown(value)}")
        kind = get_args(hint)[1]
        return MappingProxyType({str(key): _entry(name, str(key), entry, kind) for key, entry in value.items()})
    for choice in _choices(hint):
        if get_origin(choice) is Literal and isinstance(value, str) and value in get_args(choice):
            return value
        if get_origin(choice) is tuple and isinstance(value, list | tuple) and all(type(entry) is int for entry in value):
            return tuple(value)
        if choice is float and (number := _finite(value)) is not None:
            return number
        if isinstance(choice, type) and choice is not float and type(value) is choice:
            return value
    words = [word for choice in _choices(hint) if get_origin(choice) is Literal for word in get_args(choice)]
    raise InputError(f"{name}: {did_you_mean(value, words)}expected {_wanted(hint)}, got {shown(value)}")


def method_numbers(method: Method) -> dict[str, Any]:
    """The method's parameters, each of the kind of its default and in the domain that the loss declares for it.

    Numbers are kept in one form, whole ones as int where the default is one, so that equal recipes are written alike.

    >>> method_numbers(find_method("average-k", k=5.0, alpha=1))
    {'k': 5, 'alpha': 1.0}
    """
    usual = find_method(method.name).parameters
    numbers = {name: _like(name, value, usual[name]) for name, value in method.parameters.items()}
    try:
        method.with_parameters(**numbers).loss((1, 1))  # counts, for methods that make margins of them
    except InputError as error:
        raise InputError(_naming(str(error), method)) from error
    return numbers


def link_text(text: str | None) -> str | None:
    """The text of a link that reads a network's scores; ``"own"`` is None, the method's.

    >>> link_text(" Softmax "), link_text("own"), link_text("none")
    ('softmax', None, 'none')
    """
    if text is None or (text := text.strip().lower()) == OWN:
        return None
    kind = Link.kinds.get(text.partition(":")[0])
    if kind is not None and issubclass(kind, FittedLink):
        raise InputError(f"link: {text} is fitted on validation rows: expected calibration={text} in its place")
    link = parse_link(text)
    if link is not None and link.running:
        raise InputError(f"link: {text} is learnt during training: use method={link.kind} with link=own")
    if isinstance(link, Identity):
        raise InputError("link: expected one that makes probabilities of scores, such as softmax or sigmoid, got 'identity'")
    return text


def rule_text(text: str | None) -> str | None:
    """The text of a rule, in small letters; ``"none"`` is None, the rule that the method is for.

    >>> rule_text(" Top-K:3"), rule_text("none")
    ('top-k:3', None)
    """
    return None if text is None or (text := text.strip().lower()) in ("", NONE) else text


def rule_size(text: str | None) -> float | None:
    """The k of a rule that has one.

    >>> rule_size("average-k:2.5:prior,cap:3"), rule_size("lac:0.1")
    (2.5, None)
    """
    name, *numbers = (text or "").split(",")[0].strip().lower().split(":")
    if name not in ("top-k", "average-k") or not numbers:
        return None
    try:
        return float(Fraction(numbers[0].strip()))
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def frozen(value: Any) -> Any:
    """Lists as tuples, within one another too."""
    return tuple(frozen(entry) for entry in value) if isinstance(value, list | tuple) else value


def plain(value: Any) -> Any:
    """Tables and lists as JSON has them."""
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def hashable(value: Any) -> Any:
    """What has one hash for equal values, however they are written: 5 and 5.0, tables in another order."""
    if isinstance(value, Mapping):
        return frozenset((name, hashable(entry)) for name, entry in value.items())
    return tuple(hashable(entry) for entry in value) if isinstance(value, list | tuple) else value


def _entry(table: str, name: str, value: Any, kind: Any) -> Any:
    """An entry of a table of numbers, of lists, or of anything."""
    if kind is float and (value := _finite(given := value)) is None:
        raise InputError(f"{table}: expected a number for {name!r}, got {shown(given)}")
    if get_origin(kind) is Sequence and not (isinstance(value, list | tuple) and value):
        raise InputError(f"{table}: expected a list of values of {name!r}, got {shown(value)}")
    return frozen(value)


def _like(name: str, value: Any, usual: Any) -> Any:
    if isinstance(usual, str):
        return checked_value(name, value, str)
    number: float = checked_value(name, value, float)
    return int(number) if isinstance(usual, int) and number.is_integer() else number


def _naming(message: str, method: Method) -> str:
    """The message of a loss with the name that its parameter has in the method."""
    own = message.partition(":")[0]
    if own in method.parameters:
        return message
    longer = [name for name in method.parameters if name.endswith(f"_{own}")]
    return message.replace(own, longer[0], 1) if longer else f"method {method.name}: {message}"


def _finite(value: Any) -> float | None:
    """The number, if it is one that a float holds."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is_whole(text: str) -> bool:
    try:
        return float(text) == int(float(text))
    except (ValueError, OverflowError):
        return False


def _is_table(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _wanted(hint: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}
    names = []
    for choice in _choices(hint):
        if get_origin(choice) is Literal:
            names.append(", ".join(get_args(choice)))
        elif get_origin(choice) is tuple:
            names.append("whole numbers separated by commas")
        else:
            names.append("names and values" if _is_table(choice) else words.get(choice, str(choice)))
    return " or ".join(names)
