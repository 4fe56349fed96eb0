"""Backbones of tables: rows of D numbers → features."""

from torch import Tensor, nn

from shortlist.checks import whole
from shortlist.errors import InputError

DEEPEST, WIDEST = 64, 65536


class FeatureTable(nn.Module):
    """The identity: the columns of the table are the features, as for features that another network made.

    Shape: (N, D) → (N, D).

    >>> import torch
    >>> FeatureTable(features=3)(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 2., 3.]])
    """

    def __init__(self, *, features: int):
        super().__init__()
        self.num_features = whole(1)("features", features)

    def forward(self, table: Tensor) -> Tensor:
        """The table itself."""
        check_table(table, self.num_features)
        return table


def check_table(table: Tensor, columns: int) -> None:
    """A float table of so many columns."""
    if table.ndim != 2 or table.shape[1] != columns:
        raise InputError(f"features: expected shape (N, {columns}), got {tuple(table.shape)}")
    if not table.is_floating_point():
        raise InputError(f"features: expected a float dtype, got {str(table.dtype).removeprefix('torch.')}")


def check_mlp(width: int, layers: int = 1) -> None:
    """Width and number of layers make a network."""
    if whole(1)("width", width) > WIDEST:
        raise InputError(f"width: expected at most {WIDEST}, got {width}")
    if whole(1)("layers", layers) > DEEPEST:
        raise InputError(f"layers: expected at most {DEEPEST}, got {layers}")


class MLP(nn.Module):
    """Linear layers of one width, each with ReLU: ``h ← relu(W h + b)``. No BatchNorm.

    Weights start from a normal law of variance 2 / inputs, biases at 0: He et al. 2015, eq. 10.

    Args:
        width: of every layer, and so the number of features.
        layers: how many.
        features: columns of the table, D.

    Shape: (N, D) → (N, width).

    >>> import torch
    >>> net = MLP(16, layers=2, features=4)
    >>> net(torch.zeros(3, 4)).shape, net.num_features
    (torch.Size([3, 16]), 16)
    >>> sum(p.numel() for p in net.parameters())  # 16 (4 + 1) + 16 (16 + 1)
    352
    """

    def __init__(self, width: int, *, layers: int = 1, features: int):
        super().__init__()
        check_mlp(width, layers)
        self.columns = whole(1)("features", features)
        self.num_features = int(width)
        body: list[nn.Module] = []
        for place in range(layers):
            layer = nn.Linear(width if place else self.columns, width)
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
            body += [layer, nn.ReLU()]
        self.body = nn.Sequential(*body)

    def forward(self, table: Tensor) -> Tensor:
        """Features, (N, width)."""
        check_table(table, self.columns)
        features: Tensor = self.body(table)
        return features
