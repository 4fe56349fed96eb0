"""Residual networks: the small ones of He et al. for CIFAR, and the ImageNet family, both with the stem of your choice.

He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.models.backbones.pictures import PictureBackbone, start_convolutions

# Blocks of the four stages of the ImageNet family, He et al. 2016, table 1.
STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
BOTTLENECKS = (50, 101, 152)
STEMS = (1, 2, 4)
DEEPEST, WIDEST = 1202, 64  # 1202 is the deepest that He et al. trained


class ResidualBlock(nn.Module):
    """``relu(body(x) + shortcut(x))``.

    The shortcut is the identity where the shape stays and a 1 x 1 convolution with BatchNorm where it changes (option B of
    He et al. 2016, section 3.3). He's own CIFAR networks pad with zeros there (option A), which has no parameters; B adds
    2,752 of them to a network of widths 16, 32, 64.

    Shape: (N, before, H, W) → (N, after, H / stride, W / stride), sides rounded up.

    >>> ResidualBlock(convolutions(4, 8, 3, stride=2), 4, 8, stride=2)(torch.zeros(1, 4, 9, 9)).shape
    torch.Size([1, 8, 5, 5])
    """

    def __init__(self, body: nn.Sequential, before: int, after: int, stride: int):
        super().__init__()
        self.body = body
        same = before == after and stride == 1
        self.shortcut: nn.Module = nn.Identity() if same else convolutions(before, after, 1, stride=stride)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps of the next block."""
        return torch.relu(self.body(maps) + self.shortcut(maps))


def convolutions(before: int, after: int, kernel: int, *, stride: int = 1) -> nn.Sequential:
    """A convolution that keeps the sides (rounded up, over the stride), and its BatchNorm."""
    convolution = nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after))


def basic_block(before: int, width: int, stride: int) -> ResidualBlock:
    """Two 3 x 3 convolutions, He et al. 2016, figure 5 left; ends in ``width`` channels.

    >>> sum(p.numel() for p in basic_block(16, 16, 1).parameters())  # 2 (16·16·9 + 2·16)
    4672
    """
    first, second = convolutions(before, width, 3, stride=stride), convolutions(width, width, 3)
    return ResidualBlock(nn.Sequential(*first, nn.ReLU(inplace=True), *second), before, width, stride)


def bottleneck_block(before: int, width: int, stride: int) -> ResidualBlock:
    """1 x 1, 3 x 3 and 1 x 1 convolutions, He et al. 2016, figure 5 right; ends in ``4 width`` channels.

    The stride is at the 3 x 3 convolution, as nearly everybody has it today; He's is at the first 1 x 1, which leaves three
    of four places unread.

    >>> sum(p.numel() for p in bottleneck_block(256, 64, 1).parameters())  # 2·256·64 + 64·64·9 + 2 (64 + 64 + 256)
    70400
    """
    narrow, middle = convolutions(before, width, 1), convolutions(width, width, 3, stride=stride)
    body = nn.Sequential(*narrow, nn.ReLU(inplace=True), *middle, nn.ReLU(inplace=True), *convolutions(width, 4 * width, 1))
    return ResidualBlock(body, before, 4 * width, stride)


def check_resnet(depth: int, width: int = 1, stem: int = 1) -> None:
    """These three make a network."""
    depth = whole(1)("depth", depth)
    small = depth >= 8 and depth % 6 == 2 and depth <= DEEPEST
    if not small and depth not in STAGES:
        named = ", ".join(map(str, STAGES))
        raise InputError(f"depth: expected 6n + 2 (8, 14, 20, 32, 44, 56, 110, … {DEEPEST}) or one of {named}; got {depth}")
    if whole(1)("width", width) > WIDEST:
        raise InputError(f"width: expected at most {WIDEST} times the published widths, got {width}")
    if stem not in STEMS:
        raise InputError(f"stem: expected a total stride of 1, 2 or 4, got {stem}")


class ResNet(PictureBackbone):
    """A residual network without its last layer.

    Depths 6n + 2 (8, 14, 20, 32, 44, 56, 110, …) are the small networks of He et al. 2016, section 4.2: three stages of n
    basic blocks, of widths 16, 32, 64. Depths 18 and 34 (basic blocks) and 50, 101 and 152 (bottlenecks) are the ImageNet
    family of table 1: four stages of widths 64, 128, 256, 512, times 4 at the end of a bottleneck. (50 and 152 are 6n + 2 as
    well: they are read as what everybody calls by these names.) Convolutions start from He et al. 2015, eq. 14; every
    BatchNorm starts at weight 1.

    Args:
        depth: layers with weights on the longest way, the head counted and the shortcuts not.
        width: multiplies every number of channels, that of the stem included; a whole number.
        stem: total stride of what comes before the first stage. 1: a 3 x 3 convolution, for pictures of about 32 pixels.
            2: a 4 x 4 convolution of stride 2, for about 64. 4: a 7 x 7 convolution of stride 2 and a 3 x 3 maximum of
            stride 2 as in table 1, for about 224. Each with BatchNorm and ReLU after the convolution.
        channels: of the pictures.

    Shape: (N, channels, H, W) → (N, num_features), ``num_features`` = 64, 512 or 2048 times ``width``.

    >>> net = ResNet(20)
    >>> net(torch.zeros(2, 3, 32, 32)).shape, net.num_features
    (torch.Size([2, 64]), 64)
    >>> sum(p.numel() for p in net.parameters())
    271824

    He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2016, section 4.2 and table 1.
    """

    def __init__(self, depth: int, *, width: int = 1, stem: int = 1, channels: int = 3):
        check_resnet(depth, width, stem)
        channels = whole(1)("channels", channels)
        stages = STAGES.get(depth) or 3 * ((depth - 2) // 6,)
        first = width * (64 if depth in STAGES else 16)
        body = nn.Sequential(stem_layers(channels, first, stem), *_stages(stages, first, depth in BOTTLENECKS))
        start_convolutions(body)
        features = first * 2 ** (len(stages) - 1) * (4 if depth in BOTTLENECKS else 1)
        super().__init__(body, channels=channels, num_features=features, least_side=2 if stem == 2 else 1)


def stem_layers(channels: int, width: int, stride: int) -> nn.Sequential:
    """What comes before the first stage; ``stride`` is 1, 2 or 4 in total."""
    if stride == 1:
        convolution = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    elif stride == 2:
        convolution = nn.Conv2d(channels, width, 4, stride=2, padding=1, bias=False)
    else:
        convolution = nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
    layers = [convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.MaxPool2d(3, stride=2, padding=1)) if stride == 4 else nn.Sequential(*layers)


def _stages(stages: tuple[int, ...], first: int, bottlenecks: bool) -> Iterator[nn.Sequential]:
    """Each stage doubles the channels and, but for the first, halves the sides in its first block."""
    make, growth = (bottleneck_block, 4) if bottlenecks else (basic_block, 1)
    before = first
    for place, blocks in enumerate(stages):
        width = first * 2**place
        made = [make(before, width, 1 if place == 0 else 2)]
        made += [make(growth * width, width, 1) for _ in range(blocks - 1)]
        before = growth * width
        yield nn.Sequential(*made)
