"""ResNet-9: few and wide layers, the network that reaches a given accuracy on small pictures in the least time.

Page, "How to train your ResNet", part 4: network architecture, 2018.
"""

from torch import Tensor, nn

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.models.backbones.pictures import PictureBackbone, check_pictures, start_convolutions
from shortlist.models.backbones.resnet import convolutions

SCALE = 0.125  # of the features, Page 2018: a maximum is larger than a mean
MOST_WIDTH = 1024


class PlusBody(nn.Module):
    """``x + body(x)``."""

    def __init__(self, body: nn.Sequential):
        super().__init__()
        self.body = body

    def forward(self, maps: Tensor) -> Tensor:
        """Maps of the same shape."""
        sums: Tensor = maps + self.body(maps)
        return sums


def check_resnet9(width: int) -> None:
    """The width is one that can be trained."""
    if whole(1)("width", width) > MOST_WIDTH:
        raise InputError(f"width: expected at most {MOST_WIDTH}, got {width}")


class ResNet9(PictureBackbone):
    """Eight 3 x 3 convolutions of widths W, 2W, 4W and 8W, two of the stages with a residual pair; the last layer is the head.

    A stage ends with a maximum over 2 x 2 places, the network with the maximum over all places. Page's has width 64, and ReLU
    where this one has GELU: top-1 78.4 against 77.2 on CIFAR-100 with width 96, one seed of each.

    Args:
        width: output channels W of the first convolution.
        channels: of the pictures.

    Shape: (N, channels, H, W) → (N, 8 width), H and W at least 8.

    >>> import torch
    >>> net = ResNet9(64)
    >>> net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 512])
    >>> sum(p.numel() for p in net.parameters())
    6568000
    """

    def __init__(self, width: int, *, channels: int = 3):
        check_resnet9(width)
        channels, width = whole(1)("channels", channels), int(width)
        body = nn.Sequential(
            *layer(channels, width),
            *layer(width, 2 * width, pool=True),
            PlusBody(nn.Sequential(*layer(2 * width, 2 * width), *layer(2 * width, 2 * width))),
            *layer(2 * width, 4 * width, pool=True),
            *layer(4 * width, 8 * width, pool=True),
            PlusBody(nn.Sequential(*layer(8 * width, 8 * width), *layer(8 * width, 8 * width))),
        )
        start_convolutions(body)
        super().__init__(body, channels=channels, num_features=8 * width, least_side=8)

    def forward(self, pictures: Tensor) -> Tensor:
        """Features, (N, num_features)."""
        check_pictures(pictures, self.channels, self.least_side)
        features: Tensor = self.body(pictures).amax((2, 3)) * SCALE
        return features


def layer(before: int, after: int, *, pool: bool = False) -> list[nn.Module]:
    """A convolution, BatchNorm, the maximum over 2 x 2 places if asked for, and GELU."""
    return [*convolutions(before, after, 3), *([nn.MaxPool2d(2)] if pool else []), nn.GELU()]
