"""Networks as users write them: nothing here knows of shortlist but the two that name its classes."""

import torch
from torch import nn

from shortlist.models import InputSpec, Network, TwoHeadScores

PIXELS = InputSpec.pictures(8, mean=0.5, std=0.25)


class HandWritten(nn.Module):
    """Convolutions, batch normalisation, dropout, ``.view``, a buffer, and two names for one weight."""

    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.drop = nn.Dropout(0.5)
        self.hidden = nn.Linear(6 * 16, 6 * 16)
        self.tied = nn.Linear(6 * 16, 6 * 16)
        self.tied.weight = self.hidden.weight
        self.last = nn.Linear(6 * 16, classes)
        self.register_buffer("scale", torch.tensor(1.5))
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))

    def forward(self, x):
        x = nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)
        x = self.drop(x.view(x.size(0), -1))
        return self.scale * self.last(self.tied(self.hidden(x).relu()) + self.mask[0])


class TimmStyle(nn.Module):
    """The methods of timm's models."""

    def __init__(self, num_classes, num_features=5):
        super().__init__()
        self.num_features = num_features
        self.stem = nn.Conv2d(3, num_features, 3, stride=2)
        self.classifier = nn.Linear(num_features, num_classes)

    def forward_features(self, x):
        return self.stem(x).relu()

    def forward_head(self, x, pre_logits=False):
        pooled = x.mean((2, 3))
        return pooled if pre_logits else self.classifier(pooled)

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


class Body(nn.Module):
    """A backbone without ``num_features``."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x).relu().view(x.size(0), -1)


class Output(dict):
    """As transformers returns it."""

    @property
    def logits(self):
        return self["logits"]


class Returning(nn.Module):
    """A linear layer whose output is packed."""

    def __init__(self, pack, classes=4):
        super().__init__()
        self.linear, self.pack = nn.Linear(3, classes), pack

    def forward(self, x):
        return self.pack(self.linear(x))


class RawPixels(nn.Module):
    """Takes uint8 as it is."""

    def __init__(self, classes=4):
        super().__init__()
        self.linear = nn.Linear(3, classes)

    def forward(self, pixels):
        assert pixels.dtype == torch.uint8
        return self.linear(pixels.float().mean((2, 3)) / 255)


class Pair(nn.Module):
    """Two heads."""

    def __init__(self, classes):
        super().__init__()
        self.one, self.other = nn.Linear(192, classes), nn.Linear(192, classes)

    def forward(self, x):
        return TwoHeadScores(self.one(x.flatten(1)), self.other(x.flatten(1)))


def make(classes):
    return HandWritten(classes)


def make_on_backbone(classes, inputs):
    return Network(Body(), "linear", inputs, classes)
