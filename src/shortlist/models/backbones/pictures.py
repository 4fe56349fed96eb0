"""What the picture backbones share: the check of their inputs, the pool at their end, and the smallest of them."""

from collections.abc import Sequence

from torch import Tensor, nn

from shortlist.checks import whole
from shortlist.errors import InputError

MOST_LAYERS, MOST_WIDTH = 12, 8192


class PictureBackbone(nn.Module):
    """Pictures (N, channels, H, W) → features (N, num_features): a stack of layers, then the mean over all places.

    Args:
        body: layers that make maps (N, num_features, h, w) out of pictures.
        channels: of the pictures; 3 for colours.
        num_features: how many maps the body ends in.
        least_side: height and width from which the body has at least one place left.
    """

    def __init__(self, body: nn.Sequential, *, channels: int, num_features: int, least_side: int = 1):
        super().__init__()
        self.body = body
        self.channels, self.num_features, self.least_side = channels, num_features, least_side

    def forward(self, pictures: Tensor) -> Tensor:
        """Features, (N, num_features)."""
        check_pictures(pictures, self.channels, self.least_side)
        features: Tensor = self.body(pictures).mean((2, 3))
        return features


def check_pictures(pictures: Tensor, channels: int, least_side: int = 1) -> None:
    """Prepared pictures: float, of four dimensions, with these channels, not too small."""
    if pictures.ndim != 4 or pictures.shape[1] != channels:
        raise InputError(f"pictures: expected shape (N, {channels}, H, W), got {tuple(pictures.shape)}")
    if not pictures.is_floating_point():
        came = str(pictures.dtype).removeprefix("torch.")
        raise InputError(f"pictures: expected prepared pictures of a float dtype, got {came}: scale and normalise them first")
    if pictures.shape[2] < least_side or pictures.shape[3] < least_side:
        side = f"{pictures.shape[2]} x {pictures.shape[3]}"
        raise InputError(f"pictures: expected at least {least_side} x {least_side} pixels for this backbone, got {side}")


def start_convolutions(body: nn.Module) -> None:
    """Weights from a normal law of variance ``2 / (kernel places · output channels)``, for convolutions beside BatchNorm.

    He, Zhang, Ren, Sun, "Delving Deep into Rectifiers", 2015, eq. 14.
    """
    for layer in body.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")


def check_plain(widths: Sequence[int]) -> None:
    """One to twelve layers, each with a width."""
    if not 1 <= len(widths) <= MOST_LAYERS:
        raise InputError(f"widths: expected from 1 to {MOST_LAYERS} of them, got {len(widths)}")
    for width in widths:
        if whole(1)("width", width) > MOST_WIDTH:
            raise InputError(f"width: expected at most {MOST_WIDTH}, got {width}")


class PlainNet(PictureBackbone):
    """A few convolutions and no BatchNorm, for tests and tiny data: rows never depend on the others of their batch.

    Each layer is a 3 x 3 convolution of stride 2 with a bias, then ReLU. The weights start from a normal law of variance
    ``2 / (9 · input channels)``, which keeps the size of what goes through (He et al. 2015, eq. 10): there is no BatchNorm to
    restore it.

    Args:
        widths: the output channels of each layer; the last is the number of features.
        channels: of the pictures.

    Shape: (N, channels, H, W) → (N, widths[-1]).

    >>> import torch
    >>> net = PlainNet([8, 16])
    >>> net(torch.zeros(2, 3, 33, 33)).shape, net.num_features
    (torch.Size([2, 16]), 16)
    >>> sum(p.numel() for p in net.parameters())  # 8 (3·9 + 1) + 16 (8·9 + 1)
    1392
    """

    def __init__(self, widths: Sequence[int], *, channels: int = 3):
        check_plain(widths)
        layers: list[nn.Module] = []
        before = whole(1)("channels", channels)
        for width in map(int, widths):
            convolution = nn.Conv2d(before, width, 3, stride=2, padding=1)
            nn.init.kaiming_normal_(convolution.weight, mode="fan_in", nonlinearity="relu")
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
            layers += [convolution, nn.ReLU(inplace=True)]
            before = width
        super().__init__(nn.Sequential(*layers), channels=int(channels), num_features=before)
