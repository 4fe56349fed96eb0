"""The network to train: a backbone by name, with weights of one's own if there are any, or the user's own module.

A run records its own module by name, and is resumed with no other.
"""

from dataclasses import replace
from typing import Any

from torch import nn

from shortlist.errors import InputError
from shortlist.models.backbones import check_backbone
from shortlist.models.factories import (
    GivenNetwork,
    NetworkNeededError,
    build_network,
    import_factory,
    import_path,
    other_factory,
)
from shortlist.models.heads import TwoHeadScores
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.models.weights import check_weights_path, load_weights
from shortlist.training.callbacks import Callback
from shortlist.training.recipe import Recipe
from shortlist.training.run_folder import RunFolder
from shortlist.words import quoted


def network_to_train(
    recipe: Recipe, inputs: InputSpec, classes: int, given: GivenNetwork | None, new: Callback | None
) -> Network:
    """The recipe's network, or the one that was given, whose output has to suit the method.

    Args:
        recipe: the recipe.
        inputs: what the network reads.
        classes: their number.
        given: the user's own network, if there is one.
        new: gets a message about the weights that training starts from; None if it continues from a checkpoint.
    """
    head = recipe.chosen_method.head_kind
    if given is None:
        network = Network(recipe.backbone, head, inputs, classes, pretrained=recipe.pretrained)
        if recipe.weights is not None and new is not None:
            new.message(f"backbone {recipe.backbone}: {load_weights(network.backbone, recipe.weights)}")
        return network
    network = build_network(given, inputs, classes)
    network.inputs = network.inputs.named(inputs.feature_names)
    if recipe.mirror and inputs.is_pictures:
        network.inputs = replace(network.inputs, mirror=True)
    if network.inputs.feature_names != inputs.feature_names:
        raise InputError(
            f"network: expected one that reads the features {quoted(inputs.feature_names)}, in this order, got one that reads "
            f"{quoted(network.inputs.feature_names)}: give the network's InputSpec as inputs"
        )
    if not any(weight.requires_grad for weight in network.parameters()):
        raise InputError(f"network: expected weights that can be trained, got none in {network.describe()}")
    pair = isinstance(network.check_output(), TwoHeadScores)
    if pair != (head == "two-head"):
        wanted, came = ("a TwoHeadScores pair", "scores") if not pair else ("scores", "a TwoHeadScores pair")
        raise InputError(
            f"network: expected {wanted} as output, which method {recipe.method} is trained with, got {came}: choose another "
            f"method, such as cross-entropy, or return Network(backbone, {head!r}, inputs, classes)"
        )
    return network


def check_network(run: RunFolder, recipe: Recipe, network: GivenNetwork | None, resumed: bool) -> None:
    """Raise an error, before any data is read, if the network cannot be built or is another than the run's."""
    if isinstance(network, str):
        import_factory(network)
    made = run.network_record if resumed else None
    if recipe.pretrained and recipe.weights is not None:
        raise InputError("weights: expected None with pretrained=True, which brings published weights, got a file")
    if network is not None and recipe.weights is not None:
        raise InputError("weights: expected None beside a network of your own, which brings its own weights, got a file")
    if network is not None:
        recorded = made.get("factory") if made is not None else None
        other = other_factory(recorded, network) if isinstance(recorded, str) else None
        if other is not None:
            raise _other_network(run, str(recorded), other)
        return
    check_backbone(recipe.backbone)
    if recipe.weights is not None and not run.checkpoint_path.exists():
        check_weights_path(recipe.weights)
    if made is not None:
        factory = made.get("factory")
        shown = f"network={factory!r}" if factory else f"network=…, a {made.get('class')} or a function that returns one"
        raise NetworkNeededError(f"{run.path}: this run trains a network of your own: resume it with {shown}", factory)


def check_same_network(run: RunFolder, network: Network) -> None:
    """Raise an error if a network is of another class than that of the run, or reads other inputs."""
    made, inputs = run.network_record, run.inputs_record
    if inputs is not None and not InputSpec.from_record(inputs).is_close(network.inputs):
        raise InputError(
            f"inputs: expected {InputSpec.from_record(inputs)}, as the run in {run.path} began with, got {network.inputs}: "
            "resume it with the same inputs, or start a new run in another folder"
        )
    if made is not None and made.get("class") != network.describe():
        raise _other_network(run, str(made.get("class")), network.describe())


def _other_network(run: RunFolder, recorded: str, given: str) -> InputError:
    return InputError(
        f"network: expected {recorded}, which the run in {run.path} trains, got {given}: resume it with its own network, or "
        "start a new run in another folder"
    )


def given_record(network: GivenNetwork | None) -> dict[str, Any]:
    """What is known of the user's own network before it is built, so that the run cannot be resumed without it."""
    if network is None:
        return {}
    factory = network if isinstance(network, str) else None if isinstance(network, nn.Module) else import_path(network)
    name = network if isinstance(network, str) else getattr(network, "__name__", type(network).__name__)
    return {"network": {"class": name, "factory": factory}}


def network_record(network: Network) -> dict[str, Any] | None:
    """What a run records of the user's own network; None for one that is built from names."""
    return {"class": network.describe(), "factory": network.factory} if network.foreign else None
