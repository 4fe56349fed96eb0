"""Parts of a rule by kind: how orderings and constraints are written to a record, and built again from one."""

import inspect
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from shortlist.errors import InputError
from shortlist.words import did_you_mean, listed, shown


class RulePart:
    """Base of orderings and constraints: a class with a ``kind`` is registered, and can be saved and loaded.

    The configuration of a part is its kind and its parameters: those of the constructor, read from attributes of the same
    names, unless :attr:`parameter_names` lists others. Parameters are what JSON can hold: text, numbers, booleans, lists.
    """

    kind: ClassVar[str]
    parameter_names: ClassVar[tuple[str, ...] | None] = None
    kinds: ClassVar[dict[str, type[Any]]]  # every class of this sort by its kind
    role: ClassVar[str]  # "ordering" or "constraint", for messages

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "kind" not in cls.__dict__:
            return
        other = cls.kinds.get(cls.kind)
        # A notebook cell or a reloaded module may define the same class again.
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InputError(f"kind: {cls.kind!r} is already the {cls.role} {other.__module__}.{other.__qualname__}")
        cls.kinds[cls.kind] = cls

    def config(self) -> dict[str, Any]:
        """The kind and the parameters, from which :meth:`from_config` builds the part again."""
        own = type(self).__dict__.get("kind")
        if own is None:
            raise InputError(
                f"{type(self).__name__}: expected a kind of its own, by which a saved rule finds its class again: add "
                f'kind = "my-{self.role}" to the class'
            )
        return {"kind": own, **{name: self._parameter(name) for name in self._names()}}

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """The part with this configuration; its class must have been imported."""
        if not isinstance(config, Mapping):
            raise InputError(f"{cls.role}: expected a kind and its parameters, got {shown(config)}")
        parameters = dict(config)
        kind = parameters.pop("kind", None)
        found = cls.kinds.get(kind) if isinstance(kind, str) else None
        if found is None:
            raise InputError(
                f"{cls.role}: {did_you_mean(kind, cls.kinds)}expected one of {listed(list(cls.kinds), most=20)}, got "
                f"{shown(kind)}; if a module of your own defines it, import that module first (import my_rules, or on the "
                "command line shortlist --import my_rules)"
            )
        wanted = found._names()
        if set(parameters) != set(wanted):
            came = listed(sorted(map(str, parameters))) or "none"
            raise InputError(f"{cls.role} {kind}: expected the parameters {listed(wanted) or 'none'}, got {came}")
        part: Self = found(**parameters)
        return part

    @classmethod
    def _names(cls) -> list[str]:
        if cls.parameter_names is not None:
            return list(cls.parameter_names)
        own = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return [one.name for one in own if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]

    def _parameter(self, name: str) -> Any:
        try:
            return _plain(getattr(self, name))
        except (AttributeError, TypeError):
            raise InputError(
                f"{self.role} {self.kind}: expected the parameter {name} as an attribute that JSON can hold (text, a finite "
                f"number, a list), got {shown(getattr(self, name, None))}"
            ) from None


def _plain(value: Any) -> Any:
    """The value as JSON holds it; numbers of numpy and torch as Python's."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0 and not isinstance(value, float):
        return _plain(value.item())
    raise TypeError
