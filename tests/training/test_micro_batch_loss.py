"""The forward pass of a step as one module: the same loss as network and criterion apart, in float32."""

import pytest
import torch

from shortlist.models import InputSpec, Network
from shortlist.training.augmented_network import AugmentedNetwork, MicroBatchLoss
from shortlist.training.criterion import Criterion
from tests.training.small import recipe

CLASSES, ROWS = 5, 6
COUNTS = torch.full((CLASSES,), 4)


def parts(method):
    """An augmented network without augmentation, the criterion of the method, and a batch."""
    torch.manual_seed(0)
    chosen = recipe(method=method)
    inputs = InputSpec("pictures", 8, (0.5, 0.5, 0.5), (0.3, 0.3, 0.3))
    network = Network("resnet-8", chosen.chosen_method.head_kind, inputs, CLASSES)
    raw = torch.randint(256, (ROWS, 3, 8, 8), dtype=torch.uint8)
    return (
        AugmentedNetwork(network, inputs, None),
        Criterion(chosen, COUNTS, ROWS),
        raw,
        torch.arange(ROWS) % CLASSES,
        torch.arange(ROWS),
    )


@pytest.mark.parametrize("method", ["cross-entropy", "average-k"])
def test_the_loss_is_that_of_network_and_criterion(method):
    model, criterion, raw, target, rows = parts(method)
    model.eval()
    expected = criterion(model(raw), target, rows, ROWS, 2 * ROWS)
    torch.testing.assert_close(MicroBatchLoss(model, criterion)(raw, target, rows, ROWS, 2 * ROWS), expected)


@pytest.mark.parametrize("method", ["cross-entropy", "average-k"])
def test_under_autocast_the_scores_are_half_and_the_loss_is_single_precision(method):
    model, criterion, raw, target, rows = parts(method)
    seen = []
    criterion.register_forward_pre_hook(lambda _, given: seen.append((given[0], torch.is_autocast_enabled("cpu"))))
    with torch.autocast("cpu", torch.bfloat16):
        output = model(raw)
        value = MicroBatchLoss(model, criterion)(raw, target, rows, ROWS, ROWS)
    scores = [output] if isinstance(output, torch.Tensor) else output
    assert {half.dtype for half in scores} == {torch.bfloat16}
    ((given, autocast),) = seen
    assert {single.dtype for single in ([given] if isinstance(given, torch.Tensor) else given)} == {torch.float32}
    assert not autocast
    assert value.dtype == torch.float32


@pytest.mark.parametrize(
    ("method", "recordable"),
    [("cross-entropy", True), ("noised-topk", True), ("average-k", True), ("quasibinary", False), ("role", False)],
)
def test_only_a_loss_that_keeps_nothing_between_steps_goes_into_a_recorded_graph(method, recordable):
    assert Criterion(recipe(method=method), COUNTS, ROWS).recordable is recordable
