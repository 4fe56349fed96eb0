"""Networks from whatever is given: a module, a function that makes one, or the import path of such a function."""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn

from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.words import did_you_mean, printable, shown

GivenNetwork: TypeAlias = nn.Module | Callable[..., nn.Module] | str
COUNTS = ("classes", "num_classes")  # what factories call the number of classes


class NetworkNeededError(InputError):
    """A saved classifier cannot be loaded without its network, whose code was written elsewhere.

    Args:
        message: what to do.
        factory: the import path of the function that made the network, if that was recorded.
    """

    def __init__(self, message: str, factory: str | None = None):
        super().__init__(message)
        self.factory = factory


def build_network(given: GivenNetwork, inputs: InputSpec, classes: int) -> Network:
    """A :class:`~shortlist.models.Network` from a module, from a factory, or from the import path of a factory.

    Args:
        given: a :class:`~shortlist.models.Network`; any module whose output is scores, which is wrapped; a function or class
            that returns either, called with ``classes=`` (or ``num_classes=``, if that is what it takes) and with ``inputs=``
            if it takes it; or the import path of one, ``"package.module:function"``, which is imported.
        inputs: what the network reads.
        classes: the number of classes.

    >>> build_network(lambda classes: nn.Linear(2, classes), InputSpec.features(2), classes=3)
    Network(Linear, features 2, 3 classes)
    """
    factory = None
    made: Any = given
    if not isinstance(given, nn.Module):
        function = import_factory(given) if isinstance(given, str) else given
        factory = given if isinstance(given, str) else import_path(function)
        made = _call(function, inputs, classes, factory)
    network = Network.wrapping(made, inputs, classes)
    if network.num_classes != classes:
        raise InputError(f"network: expected one for {classes} classes, got one for {network.num_classes}")
    if network.inputs.shape != inputs.shape:
        raise InputError(f"network: expected one that reads {_read(inputs)}, got one that reads {_read(network.inputs)}")
    network.factory = factory or network.factory
    return network


def as_network(given: GivenNetwork, inputs: InputSpec | None, classes: int) -> Network:
    """The network as it is, or wrapped together with what it reads."""
    if isinstance(given, Network):
        if inputs is not None and inputs != given.inputs:
            raise InputError(f"inputs: expected those of the network, {given.inputs}, or None, got {inputs}")
        return given
    if not callable(given) and not isinstance(given, str):  # modules are callable
        raise InputError(f"network: expected a Network, a torch.nn.Module or a function, got {type(given).__name__}")
    if inputs is None:
        raise InputError(
            "inputs: expected what the network reads, such as InputSpec.imagenet(224), InputSpec.pictures(32, mean=0.5, "
            "std=0.25) or InputSpec.features(20), got None"
        )
    return build_network(given, inputs, classes)


def _read(inputs: InputSpec) -> str:
    return f"{inputs.kind} {inputs.shape}"


def _call(function: Any, inputs: InputSpec, classes: int, factory: str | None) -> nn.Module:
    if not callable(function):
        raise InputError(
            f"network: expected a module, a function that returns one, or its import path, got {type(function).__name__}"
        )
    made = function(**_arguments(function, inputs, classes))
    if not isinstance(made, nn.Module):
        name = factory or getattr(function, "__name__", type(function).__name__)
        raise InputError(f"network: expected {name} to return a torch.nn.Module, got {type(made).__name__}")
    return made


def _arguments(function: Callable[..., Any], inputs: InputSpec, classes: int) -> dict[str, Any]:
    """The arguments that a factory takes; one with ``**keywords`` alone is called as those of torchvision and timm are."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function that is not written in Python
        return {}
    count = next((name for name in COUNTS if name in parameters), None)
    if count is None and any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        count = COUNTS[1]
    return ({} if count is None else {count: classes}) | ({"inputs": inputs} if "inputs" in parameters else {})


def import_factory(path: str) -> Any:
    """The function or class that an import path names.

    >>> import_factory("torch.nn:Linear")
    <class 'torch.nn.modules.linear.Linear'>
    """
    name, colon, qualname = path.strip().partition(":")
    if not colon or not all(part.isidentifier() for part in (*name.split("."), *qualname.split("."))):
        raise InputError(f"network: expected package.module:function, such as mynets:make, got {shown(path)}")
    try:
        found: Any = importlib.import_module(name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name is not None and name.startswith(error.name)
        why = f"there is no module {error.name!r}; run from its folder, or install it" if missing else str(error)
        raise InputError(f"network: cannot import {path}: {printable(why)}") from error
    for part in qualname.split("."):
        if not hasattr(found, part):
            hint = did_you_mean(part, [other for other in vars(found) if not other.startswith("_")])
            raise InputError(f"network: {hint}expected a function or class in {name}, got {part!r}, which it does not define")
        found = getattr(found, part)
    return found


def import_path(function: Any) -> str | None:
    """The import path of a top-level function or class, ``package.module:name``; None for any other.

    >>> import_path(nn.Linear), import_path(lambda: None)
    ('torch.nn.modules.linear:Linear', None)
    """
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str):
        return None
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if found is not function:
        return None
    return f"{_script_name() if module == '__main__' else module}:{qualname}"


def other_factory(recorded: str, given: GivenNetwork) -> str | None:
    """The import path of a given factory, if it is not the recorded one; None if it is, or if it has no import path.

    The recorded path is compared as text, and with what is already imported: nothing is imported because a file names it.

    >>> other_factory("torch.nn:Linear", nn.Linear), other_factory("torch.nn:Linear", "torch.nn:Bilinear")
    (None, 'torch.nn:Bilinear')
    """
    if isinstance(given, nn.Module):
        return None
    function = import_factory(given) if isinstance(given, str) else given
    path = given.strip() if isinstance(given, str) else import_path(function)
    if path is None or recorded in (path, import_path(function)):
        return None
    module, _, qualname = recorded.partition(":")
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return None if found is function else path


def _script_name() -> str:
    """What a script that is being run is called when it is imported."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return "__main__" if file is None else Path(file).stem
