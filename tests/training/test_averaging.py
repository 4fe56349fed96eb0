"""The average of the weights, against the recursion one number at a time."""

import pytest
import torch
from torch import nn

from shortlist.training.averaging import AveragedWeights
from tests.references import training as reference


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2, bias=False))


def disturbed(model, step):
    """Another set of weights and statistics, as a step of training would leave them."""
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            else:
                tensor.fill_(step + 7)


@pytest.mark.parametrize("decay", [0.01, 0.5, 0.9, 0.999])
def test_every_weight_and_statistic_follows_the_recursion(decay):
    model = network()
    follower = AveragedWeights(model, decay)
    seen = {name: [tensor.double()] for name, tensor in model.state_dict().items()}
    for step in range(30):
        disturbed(model, step)
        follower.update(model, step)
        for name, tensor in model.state_dict().items():
            seen[name].append(tensor.double())
            found = follower.network.state_dict()[name]
            if found.is_floating_point():
                torch.testing.assert_close(found.double(), reference.averages(seen[name], decay)[-1], rtol=1e-5, atol=1e-6)


def test_counts_are_copied():
    model = network()
    follower = AveragedWeights(model, 0.9)
    disturbed(model, 3)
    follower.update(model, 0)
    assert int(follower.network[1].num_batches_tracked) == 10


def test_the_start_is_forgotten_quickly():
    model = nn.Linear(1, 1, bias=False)
    follower = AveragedWeights(model, 0.9999)
    start = model.weight.item()
    with torch.no_grad():
        model.weight.fill_(1.0)
    follower.update(model, 0)
    assert follower.network.weight.item() == pytest.approx(0.1 * start + 0.9)


def test_the_average_is_a_network_of_its_own_that_learns_nothing():
    model = network()
    follower = AveragedWeights(model, 0.5)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert not follower.network.training
    assert model.training
    assert all(not weight.requires_grad for weight in follower.network.parameters())
    assert all(weight.requires_grad for weight in model.parameters())
    follower.update(model, 0)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert tensor.data_ptr() != follower.network.state_dict()[name].data_ptr()


def test_weights_that_stand_still_are_their_own_average():
    model = network()
    follower = AveragedWeights(model, 0.99)
    for step in range(5):
        follower.update(model, step)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(follower.network.state_dict()[name], tensor)


def test_double_precision_beside_single():
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2).double()])
    follower = AveragedWeights(model, 0.5)
    disturbed(model, 0)
    follower.update(model, 1000)
    assert follower.network[1].weight.dtype == torch.float64


def test_a_weight_that_two_layers_share_moves_once():
    shared = nn.Linear(2, 2, bias=False)
    model = nn.Sequential(shared, shared)
    follower = AveragedWeights(model, 0.5)
    with torch.no_grad():
        start = shared.weight.clone()
        shared.weight.add_(1.0)
    follower.update(model, 1000)
    torch.testing.assert_close(follower.network[0].weight, start + 0.5)
    assert follower.network[0].weight is follower.network[1].weight


def test_a_mask_of_infinities_is_copied():
    network = nn.Linear(1, 1)
    network.register_buffer("mask", torch.full((2, 2), -torch.inf).triu(1))
    follower = AveragedWeights(network, 0.9)
    follower.update(network, 5)
    assert torch.equal(follower.network.mask, network.mask)
