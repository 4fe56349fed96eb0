"""Checks of a recipe's settings that are more than a range: mappings, milestones, links, rules, parameters of methods."""

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from shortlist.checks import Check, flag, number, one_of, text, whole
from shortlist.errors import InputError
from shortlist.links import Identity, Link, parse_link
from shortlist.links.fitted import FittedLink
from shortlist.methods import Method, find_method
from shortlist.training.settings import NONE, frozen
from shortlist.words import shown

OWN = "own"


def real(**bounds: float) -> Check:
    """A number within these bounds, as a float.

    >>> real(above=0)("lr", 1)
    1.0
    """
    check = number(**bounds)
    return lambda name, value: float(check(name, value))


def table(*, lists: bool = False) -> Check:
    """A read-only mapping from names to values.

    Args:
        lists: whether every value has to be a list.

    >>> dict(table(lists=True)("grid", {"lr": [0.1, 0.3]}))
    {'lr': (0.1, 0.3)}
    """

    def entry(name: str, key: str, value: Any) -> Any:
        if lists and not (isinstance(value, list | tuple) and value):
            raise InputError(f"{name}[{key!r}]: expected a list of values, got {shown(value)}")
        return frozen(value)

    def check(name: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise InputError(f"{name}: expected a mapping of names to values, got {shown(value)}")
        return MappingProxyType({str(key): entry(name, str(key), found) for key, found in value.items()})

    return check


def flag_or_auto(name: str, value: Any) -> Any:
    """True, False or ``"auto"``.

    >>> flag_or_auto("fused_head", "auto"), flag_or_auto("fused_head", False)
    ('auto', False)
    """
    if isinstance(value, str):
        return one_of("auto")(name, value)
    return flag(name, value)


def milestones(name: str, value: Any) -> tuple[int, ...]:
    """Epochs in increasing order.

    >>> milestones("milestones", [150, 225])
    (150, 225)
    """
    if not isinstance(value, list | tuple):
        raise InputError(f"{name}: expected a list of epochs, got {shown(value)}")
    epochs = tuple(whole(1)(name, epoch) for epoch in value)
    if list(epochs) != sorted(set(epochs)):
        raise InputError(f"{name}: expected epochs in increasing order, got {shown(epochs)}")
    return epochs


def link(name: str, value: Any) -> str | None:
    """The text of a link; ``"own"`` is None, the link of the method.

    >>> link("link", " Softmax "), link("link", "own"), link("link", "none")
    ('softmax', None, 'none')
    """
    if value is None or (given := text(name, value).strip().lower()) == OWN:
        return None
    kind = Link.kinds.get(given.partition(":")[0])
    if kind is not None and issubclass(kind, FittedLink):
        raise InputError(f"{name}: {given} is fitted on validation rows: use calibration={given} instead")
    found = parse_link(given)
    if found is not None and found.running:
        raise InputError(f"{name}: {given} is learnt during training: use method={found.kind} with link=own")
    if isinstance(found, Identity):
        raise InputError(f"{name}: expected a link from scores to probabilities, such as softmax or sigmoid, got 'identity'")
    return given


def rule(name: str, value: Any) -> str | None:
    """The text of a rule, in lower case; ``"none"`` is None, the default rule of the method.

    >>> rule("rule", " Top-K:3"), rule("rule", "none")
    ('top-k:3', None)
    """
    return None if value is None or (given := text(name, value).strip().lower()) in ("", NONE) else given


def rule_size(rule_text: str | None) -> float | None:
    """The k of a rule that has one.

    >>> rule_size("average-k:2.5:prior,cap:3"), rule_size("lac:0.1")
    (2.5, None)
    """
    name, *numbers = (rule_text or "").split(",")[0].strip().lower().split(":")
    if name not in ("top-k", "average-k") or not numbers:
        return None
    try:
        return float(Fraction(numbers[0].strip()))
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def rule_of_size(rule_text: str, k: float) -> str:
    """A rule that has a k with another k, and everything else as it was.

    >>> rule_of_size("average-k:5:prior,cap:8", 2.5)
    'average-k:2.5:prior,cap:8'
    """
    sized, *bounds = rule_text.split(",")
    kind, _, *rest = sized.split(":")
    return ",".join([":".join([kind, f"{k:g}", *rest]), *bounds])


def monitor_of_size(monitor: str | None, old: float, new: float) -> str | None:
    """The monitor for sets of another size: one that counts sets of the old size counts those of the new one instead.

    ``top-1`` is measured whatever k is, and stays.

    >>> monitor_of_size("macro-top-5", 5, 3), monitor_of_size("average-5", 5, 2.5), monitor_of_size("top-1", 1, 3)
    ('macro-top-3', 'average-2.5', 'top-1')
    """
    name, _, size = (monitor or "").rpartition("-")
    whole_sets = name in ("top", "macro-top")
    if monitor == "top-1" or not (whole_sets or name in ("average", "macro-average")):
        return monitor
    known, wanted = (round(old), max(1, round(new))) if whole_sets else (old, new)
    return f"{name}-{wanted:g}" if size == f"{known:g}" else monitor


def default_k(classes: int) -> int:
    """The set size where none is given: 5, or half of the classes if there are fewer than ten.

    A set of nearly all classes says nothing, and its accuracy is 100 % from the first epoch on.

    >>> [default_k(classes) for classes in (2, 3, 5, 7, 10, 1000)]
    [1, 1, 2, 3, 5, 5]
    """
    return max(1, min(5, classes // 2))


def checked_parameters(method: Method) -> dict[str, Any]:
    """The parameters of a method, each of the type of its default and in the domain that the loss declares for it.

    Whole numbers are ints if the default is one, so that equal recipes have equal records.

    >>> checked_parameters(find_method("average-k", k=5.0, alpha=1))
    {'k': 5, 'alpha': 1.0}
    """
    defaults = find_method(method.name).parameters
    found = {name: _like(name, value, defaults[name]) for name, value in method.parameters.items()}
    try:
        method.with_parameters(**found).loss((1, 1))  # class counts, for methods that derive margins from them
    except InputError as error:
        raise InputError(_renamed(str(error), method)) from error
    return found


def _like(name: str, value: Any, default: Any) -> Any:
    if isinstance(default, str):
        return text(name, value)
    found: float = real()(name, value)
    return int(found) if isinstance(default, int) and found.is_integer() else found


def _renamed(message: str, method: Method) -> str:
    """The message of a loss, with its parameter called as in the method."""
    own = message.partition(":")[0]
    if own in method.parameters:
        return message
    longer = [name for name in method.parameters if name.endswith(f"_{own}")]
    return message.replace(own, longer[0], 1) if longer else f"method {method.name}: {message}"
