"""The network to train: a backbone by name, with weights of one's own if there are any, or the user's own module."""

from dataclasses import replace

from shortlist.errors import InputError
from shortlist.models.factories import GivenNetwork, build_network
from shortlist.models.heads import TwoHeadScores
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.models.weights import load_weights
from shortlist.training.callbacks import Callback
from shortlist.training.recipe import Recipe
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
