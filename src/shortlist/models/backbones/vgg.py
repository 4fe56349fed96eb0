"""VGG networks with batch normalisation, in the form for small pictures: one linear head instead of three wide layers.

Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2015; batch normalisation is due to
Ioffe, Szegedy, 2015.
"""

from torch import nn

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.models.backbones.pictures import PictureBackbone, start_convolutions

WIDTHS = (64, 128, 256, 512, 512)
# Convolutions of each of the five stages: configurations A, B, D and E of table 1. The depth counts three linear layers, too.
STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def check_vgg(depth: int) -> None:
    """The depth is one of the published ones."""
    if whole(1)("depth", depth) not in STAGES:
        raise InputError(f"depth: expected {', '.join(map(str, STAGES))}, got {depth}")


class VGG(PictureBackbone):
    """Five stages of 3 x 3 convolutions, BatchNorm and ReLU, each followed by a maximum over 2 x 2 places.

    Args:
        depth: 11, 13, 16 or 19.
        channels: of the pictures.

    Shape: (N, channels, H, W) → (N, 512), H and W at least 32.

    >>> import torch
    >>> VGG(11)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 512])
    """

    def __init__(self, depth: int, *, channels: int = 3):
        check_vgg(depth)
        layers: list[nn.Module] = []
        before = whole(1)("channels", channels)
        for width, count in zip(WIDTHS, STAGES[depth], strict=True):
            for _ in range(count):
                layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
                before = width
            layers.append(nn.MaxPool2d(2))
        super().__init__(nn.Sequential(*layers), channels=int(channels), num_features=before, least_side=2 ** len(WIDTHS))
        start_convolutions(self)
