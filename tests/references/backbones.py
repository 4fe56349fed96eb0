"""Residual blocks and dense layers, typed from the papers' formulas; BatchNorm as in use, with fixed statistics."""

import torch
from torch import nn
from torch.nn.functional import conv2d


def normalised(maps, norm):
    """BatchNorm with the statistics it has gathered."""
    columns = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    mean, variance, weight, bias = (column[None, :, None, None] for column in columns)
    return weight * (maps - mean) / (variance + 1e-5).sqrt() + bias


def convolutions_and_norms(net):
    """The weights of the convolutions and the BatchNorms, each in the order of use."""
    layers = list(net.modules())
    weights = [layer.weight for layer in layers if isinstance(layer, nn.Conv2d)]
    return iter(weights), iter([layer for layer in layers if isinstance(layer, nn.BatchNorm2d)])


def residual(block, maps, stride, paddings):
    """relu(body + shortcut), the shortcut projected where the shape changes."""
    weights, norms = convolutions_and_norms(block.body)
    inner = maps
    for place, padding in enumerate(paddings):
        weight = next(weights)
        # The stride is at the first 3 x 3 convolution.
        step = stride if padding and place == paddings.index(1) else 1
        inner = normalised(conv2d(inner, weight, stride=step, padding=padding), next(norms))
        inner = inner.clamp(min=0) if place + 1 < len(paddings) else inner
    if not isinstance(block.shortcut, nn.Identity):
        weights, norms = convolutions_and_norms(block.shortcut)
        maps = normalised(conv2d(maps, next(weights), stride=stride), next(norms))
    return (inner + maps).clamp(min=0)


def dense(weights, norms, maps, bottleneck):
    """What came, and behind it conv(relu(norm(·))), once, or twice with a bottleneck."""
    inner = maps
    for padding in [0, 1] if bottleneck else [1]:
        inner = conv2d(normalised(inner, next(norms)).clamp(min=0), next(weights), padding=padding)
    return torch.cat([maps, inner], 1)
