"""Densely connected networks in the three-block form for small pictures.

Huang, Liu, van der Maaten, Weinberger, "Densely Connected Convolutional Networks", CVPR 2017.
"""

import torch
from torch import Tensor, nn

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.models.backbones.pictures import PictureBackbone, start_convolutions

BLOCKS = 3
DEEPEST, FASTEST = 1000, 512


class DenseLayer(nn.Module):
    """``concatenate(x, body(x))`` along the channels: what came stays, ``growth`` maps are added.

    The body is BatchNorm, ReLU, 3 x 3 convolution; with a bottleneck, BatchNorm, ReLU and a 1 x 1 convolution to
    ``4 growth`` maps come before it (Huang et al. 2017, section 3, "Bottleneck layers").

    Shape: (N, before, H, W) → (N, before + growth, H, W).

    >>> DenseLayer(16, 12)(torch.zeros(1, 16, 5, 5)).shape
    torch.Size([1, 28, 5, 5])
    """

    def __init__(self, before: int, growth: int, *, bottleneck: bool = False):
        super().__init__()
        if bottleneck:
            self.body = nn.Sequential(*activated(before, 4 * growth, 1), *activated(4 * growth, growth, 3))
        else:
            self.body = activated(before, growth, 3)

    def forward(self, maps: Tensor) -> Tensor:
        """The maps that came, and the new ones behind them."""
        return torch.cat((maps, self.body(maps)), 1)


def activated(before: int, after: int, kernel: int) -> nn.Sequential:
    """BatchNorm, ReLU, and a convolution that keeps the sides."""
    convolution = nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(nn.BatchNorm2d(before), nn.ReLU(inplace=True), convolution)


def check_densenet(depth: int, growth: int, *, bottleneck: bool = False) -> None:
    """Depth and growth make a network of three equal blocks."""
    step, usual = (6, "40, 100, 190, 250") if bottleneck else (3, "22, 40, 100")
    depth = whole(1)("depth", depth)
    if depth < step + 4 or (depth - 4) % step or depth > DEEPEST:
        raise InputError(f"depth: expected {step}n + 4 ({usual}, … up to {DEEPEST}), got {depth}")
    if whole(1)("growth", growth) > FASTEST:
        raise InputError(f"growth: expected at most {FASTEST}, got {growth}")


class DenseNet(PictureBackbone):
    """A densely connected network without its last layer: three blocks, each layer reads the maps of all before it.

    A 3 x 3 convolution comes first, to 16 maps, or ``2 growth`` with a bottleneck. Between blocks are BatchNorm, ReLU, a
    1 x 1 convolution and a 2 x 2 mean; with a bottleneck, the convolution halves the maps (compression 0.5, rounded down).
    BatchNorm and ReLU come last. The papers' "DenseNet 40-40" is ``DenseNet(40, 40)``. There is no dropout (Huang et al. put
    0.2 after each convolution where they trained without augmentation). The concatenations are kept for the gradient, so
    memory grows with the square of the depth.

    Args:
        depth: layers with weights, the head counted: 3n + 4, with a bottleneck 6n + 4.
        growth: maps that each layer adds, k in the paper.
        bottleneck: the DenseNet-BC of the paper.
        channels: of the pictures, which need at least 4 x 4 pixels.

    Shape: (N, channels, H, W) → (N, num_features).

    >>> net = DenseNet(10, 12)
    >>> net(torch.zeros(2, 3, 32, 32)).shape, net.num_features  # 16 + 6 layers of 12
    (torch.Size([2, 88]), 88)

    Huang, Liu, van der Maaten, Weinberger, "Densely Connected Convolutional Networks", 2017, section 3 and table 2.
    """

    def __init__(self, depth: int, growth: int, *, bottleneck: bool = False, channels: int = 3):
        check_densenet(depth, growth, bottleneck=bottleneck)
        channels = whole(1)("channels", channels)
        first = 2 * growth if bottleneck else 16
        layers = (depth - 4) // (6 if bottleneck else 3)
        blocks, features = _blocks(first, growth, layers, bottleneck)
        last = (nn.BatchNorm2d(features), nn.ReLU(inplace=True))
        body = nn.Sequential(nn.Conv2d(channels, first, 3, padding=1, bias=False), *blocks, *last)
        start_convolutions(body)
        super().__init__(body, channels=channels, num_features=features, least_side=2 ** (BLOCKS - 1))


def _blocks(maps: int, growth: int, layers: int, bottleneck: bool) -> tuple[list[nn.Module], int]:
    """The blocks with the transitions between them, and how many maps they end in."""
    made: list[nn.Module] = []
    for block in range(BLOCKS):
        if block:
            kept = maps // 2 if bottleneck else maps
            made.append(nn.Sequential(*activated(maps, kept, 1), nn.AvgPool2d(2)))
            maps = kept
        made.append(nn.Sequential(*(DenseLayer(maps + n * growth, growth, bottleneck=bottleneck) for n in range(layers))))
        maps += layers * growth
    return made, maps
