"""The network of a saved classifier: built from names, or given by the caller, and filled with its weights."""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shortlist.errors import InputError, ShortlistWarning
from shortlist.models.factories import GivenNetwork, NetworkNeededError, build_network, other_factory
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.tensors import shape_of
from shortlist.words import printable


def needs_network(path: Path, config: dict[str, Any]) -> NetworkNeededError:
    """What to write to load a classifier whose network was written elsewhere."""
    factory, foreign = config.get("factory"), config["foreign"]
    place = printable(str(path))
    code = f'Classifier.load("{place}", network="{factory}")' if factory else f'Classifier.load("{place}", network=…)'
    if factory:
        made = f"was made by {factory}, which is imported only if you name it"
        return NetworkNeededError(f"{place}: the network of this classifier {made}: load it with {code}", factory)
    if foreign == ["network"]:
        how = f"a module of class {config['backbone']}, or a function that returns one"
    elif foreign == ["backbone"]:
        how = f"its backbone, a module of class {config['backbone']}, or a function that returns one"
    else:
        how = f"Network({config['backbone']}, {config['head']}, inputs, {config['classes']}), or a function that returns it"
    return NetworkNeededError(
        f"{place}: the network of this classifier is code of your own: load it with {code}, where … is {how}"
    )


def named_network(config: dict[str, Any], inputs: InputSpec) -> Network:
    """The network that is built from names, with weights still to be filled in."""
    with torch.random.fork_rng(devices=[]):  # initial weights are random: loading must not change the caller's numbers
        return Network(config["backbone"], config["head"], inputs, config["classes"])


def given_network(config: dict[str, Any], inputs: InputSpec, given: GivenNetwork) -> Network:
    """The network that the caller gave, or whose factory the caller named."""
    foreign, classes = config.get("foreign", []), config["classes"]
    if not foreign:
        raise InputError(f"network: expected None, since {config['backbone']} is built from its name, got one")
    recorded = config.get("factory")
    other = other_factory(recorded, given) if isinstance(recorded, str) else None
    if other is not None:
        warnings.warn(
            f"network: expected {recorded}, which made the network of this classifier, got {other}: if it computes something "
            "else, the answers are wrong",
            ShortlistWarning,
            stacklevel=2,
        )
    with torch.random.fork_rng(devices=[]):
        if foreign == ["backbone"] and isinstance(given, nn.Module) and not isinstance(given, Network):
            return Network(given, config["head"], inputs, classes)
        try:
            network = build_network(given, inputs, classes)
        except RuntimeError as error:  # the first pass of a module that reads something else
            reason = " ".join(str(error).split())
            raise InputError(f"network: expected one that reads {inputs}, as the saved classifier does: {reason}") from error
    network.inputs = inputs  # those that the weights were trained with
    network.factory = network.factory or config.get("factory")
    return network


def fill(network: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Put the weights into the network; the first that does not fit is named."""
    for name, wanted in network.state_dict().items():
        if name not in weights:
            raise InputError(f"{path}: expected network.{name}, {shape_of(wanted)}, which is missing")
        if weights[name].shape != wanted.shape:
            raise InputError(f"{path}: expected network.{name} as {shape_of(wanted)}, got {shape_of(weights[name])}")
    unknown = sorted(weights.keys() - network.state_dict().keys())
    if unknown:
        raise InputError(f"{path}: expected the tensors of the network only, got network.{unknown[0]}")
    network.load_state_dict(weights)
