"""Plots of losses: level sets, and partial losses against the score."""

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from shortlist.losses import AverageKLoss, Loss, RoleLoss
from shortlist.losses.multilabel import PartialLoss
from shortlist.report.display import Display
from shortlist.report.style import INK, MUTED, SERIES, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CORNERS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]], dtype=torch.float64)


class LossLevels(Display):
    """Level sets of a loss for one label a row, over the scores of three classes on a triangle.

    >>> from shortlist.losses import CrossEntropyLoss
    >>> LossLevels(CrossEntropyLoss()).frame().shape
    (3321, 4)

    Garcin et al. 2022, figure 1.
    """

    title: ClassVar[str] = "Level sets"
    caption: ClassVar[str] = (
        "Scores from 0 to 1 that sum to 1 (times `scale`); the true class is at the top. Dark means a high loss. "
        "The dashed lines separate the regions in which the true class ranks first, second and third."
    )

    def __init__(self, loss: Loss, *, scale: float = 1.0, resolution: int = 80):
        self.loss, self.scale = loss, scale
        steps = torch.arange(resolution + 1, dtype=torch.float64) / resolution
        grid = torch.cartesian_prod(steps, steps)
        grid = grid[grid.sum(1) <= 1 + 1e-9]
        self.scores = scale * torch.cat([grid, (1 - grid.sum(1, keepdim=True)).clamp(min=0)], dim=1)
        self.values = _values(loss, self.scores)

    def points(self) -> dict[str, list[object]]:
        """left, right and top score, loss."""
        columns = [*self.scores.T, self.values]
        return {name: list(column.tolist()) for name, column in zip(("left", "right", "top", "loss"), columns, strict=True)}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Filled contours on the triangle."""
        ax = new_axes() if ax is None else ax
        places = (self.scores / self.scale) @ CORNERS
        levels = 14 if float(self.values.max() - self.values.min()) > 1e-9 else 1
        x, y = places.T.numpy()
        drawn = ax.tricontourf(x, y, self.values.numpy(), levels=levels, cmap="YlGnBu")
        ax.figure.colorbar(drawn, ax=ax, shrink=0.7, pad=0.02).ax.tick_params(labelsize=8)
        for end in (CORNERS[[0, 1]].mean(0), CORNERS[[0, 2]].mean(0), CORNERS[[1, 2]].mean(0)):
            start = CORNERS.sum(0) / 3
            ax.plot([start[0], end[0]], [start[1], end[1]], linestyle=(0, (2, 3)), linewidth=0.9, color=MUTED)
        for (x, y), name in zip((CORNERS * 1.1 - 0.05).tolist(), ("1", "2", "true"), strict=True):
            ax.text(x, y, name, ha="center", va="center", color=INK)
        ax.set(aspect="equal", xlim=(-0.1, 1.1), ylim=(-0.1, 0.96))
        ax.set_axis_off()
        return ax


def _values(loss: Loss, scores: Tensor) -> Tensor:
    """The loss of each point by itself; a second head or estimates get the same scores."""
    target = torch.full((len(scores),), 2)
    with torch.no_grad():
        if not loss.couples:
            return type(loss).function(scores, target, **{**loss.keywords, "reduction": "none"}, **_draws(loss, scores))
        name = "proposal_scores" if isinstance(loss, AverageKLoss) else "estimates" if isinstance(loss, RoleLoss) else None
        rows = [loss(row[None], target[:1], **({name: row[None]} if name else {})) for row in scores]
    return torch.stack(rows)


def _draws(loss: Loss, scores: Tensor) -> dict[str, Tensor]:
    """The same noise at every point, so that the plot shows the loss rather than the noise."""
    if getattr(loss, "smoothing", None) != "noised":
        return {}
    noise = torch.randn(loss.keywords["samples"], 1, 3, generator=torch.Generator().manual_seed(0), dtype=scores.dtype)
    return {"noise": noise.expand(-1, len(scores), -1)}


class PartialLosses(Display):
    """The loss of a present and of an absent label against its score, and the probability that the link gives.

    >>> from shortlist.losses import SpaLoss
    >>> list(PartialLosses(SpaLoss()).points())
    ['score', 'present', 'absent', 'probability']

    Cheng, figure 2.
    """

    title: ClassVar[str] = "Partial losses and inverse link"
    caption: ClassVar[str] = (
        "The loss of a present and of an absent label (left axis), and the probability that the link gives (right axis)."
    )

    def __init__(self, loss: PartialLoss, *, reach: float = 6.0, resolution: int = 241):
        self.scores = torch.linspace(-reach, reach, resolution, dtype=torch.float64)
        with torch.no_grad():
            self.present, self.absent = loss.partial_losses(self.scores)
            link = loss.link()
            self.probability = None if link is None else link.probs(self.scores[:, None]).squeeze(1)

    def points(self) -> dict[str, list[object]]:
        """score, present, absent, probability."""
        columns = {"score": self.scores, "present": self.present, "absent": self.absent}
        if self.probability is not None:
            columns["probability"] = self.probability
        return {name: list(column.tolist()) for name, column in columns.items()}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Two curves, and the probability on an axis of its own."""
        ax = self._axes(ax, "score", "loss")
        lines = ax.plot(self.scores, self.present, color=SERIES[0], label="present")
        lines += ax.plot(self.scores, self.absent, color=SERIES[1], label="absent")
        if self.probability is not None:
            other = ax.twinx()
            other.set_ylim(0, 1)
            other.set_ylabel("probability")
            other.grid(False)
            lines += other.plot(self.scores, self.probability, color=MUTED, linestyle="--", label="probability")
        ax.set_ylim(bottom=0, top=min(6.0, 1.05 * float(torch.maximum(self.present, self.absent).max())))
        names = [str(line.get_label()) for line in lines]
        ax.legend(lines, names, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=len(names), fontsize="small")
        return ax
