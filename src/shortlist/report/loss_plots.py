"""Plots of losses: level sets, and partial losses against the score."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from shortlist.checks import number, whole
from shortlist.losses import AverageKLoss, Loss, RoleLoss
from shortlist.losses.multilabel import PartialLoss
from shortlist.report.display import Display
from shortlist.report.style import INK, MUTED, SERIES, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RowLoss = Callable[[Tensor, Tensor], Tensor]
CORNERS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]], dtype=torch.float64)


class LossLevels(Display):
    """Level sets of a loss for one label a row, over the scores of three classes on a triangle.

    >>> from shortlist.losses import CrossEntropyLoss
    >>> LossLevels(CrossEntropyLoss()).frame().shape
    (3321, 4)

    Args:
        loss: a loss module, or a function of scores (N, 3) and target (N,) that returns a loss for each row.
        scale: the scores sum to this number; the published figures have 2.
        resolution: points along each side of the triangle.
        replications: the number of times the noise of a noised loss is drawn; the plot shows the mean. The published figures
            have 100.
        rescaled: map the values linearly onto 0 to 1, as the published figures do.

    Garcin et al. 2022, figures 1 and 4 to 6.
    """

    title: ClassVar[str] = "Level sets"
    caption: ClassVar[str] = (
        "Scores from 0 to 1 that sum to 1 (times `scale`); the true class is at the top. Dark means a high loss. "
        "The true class ties with one of the others along the dotted lines: it ranks first above both, third below both."
    )

    def __init__(
        self,
        loss: Loss | RowLoss,
        *,
        scale: float = 1.0,
        resolution: int = 80,
        replications: int = 1,
        rescaled: bool = False,
    ):
        self.loss, self.scale = loss, number(above=0)("scale", scale)
        resolution, replications = whole(1)("resolution", resolution), whole(1)("replications", replications)
        steps = torch.arange(resolution + 1, dtype=torch.float64) / resolution
        grid = torch.cartesian_prod(steps, steps)
        grid = grid[grid.sum(1) <= 1 + 1e-9]
        self.scores = scale * torch.cat([grid, (1 - grid.sum(1, keepdim=True)).clamp(min=0)], dim=1)
        self.values = _values(loss, self.scores, replications)
        if rescaled:
            low, high = self.values.min(), self.values.max()
            self.values = (self.values - low) / (high - low).clamp(min=torch.finfo(torch.float64).tiny)

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
        for start, end in ((CORNERS[0], CORNERS[[1, 2]].mean(0)), (CORNERS[1], CORNERS[[0, 2]].mean(0))):
            ax.plot([start[0], end[0]], [start[1], end[1]], linestyle=(0, (2, 3)), linewidth=0.9, color=MUTED)
        for (x, y), name in zip((CORNERS * 1.1 - 0.05).tolist(), ("1", "2", "true"), strict=True):
            ax.text(x, y, name, ha="center", va="center", color=INK)
        ax.set(aspect="equal", xlim=(-0.1, 1.1), ylim=(-0.1, 0.96))
        ax.set_axis_off()
        return ax


def _values(loss: Loss | RowLoss, scores: Tensor, replications: int) -> Tensor:
    """The loss of each point by itself; a second head or estimates get the same scores."""
    target = torch.full((len(scores),), 2)
    with torch.no_grad():
        if not isinstance(loss, Loss):
            return loss(scores, target).to(scores.dtype)
        if not loss.couples:
            return _mean_over_draws(loss, scores, target, replications)
        name = "proposal_scores" if isinstance(loss, AverageKLoss) else "estimates" if isinstance(loss, RoleLoss) else None
        rows = [loss(row[None], target[:1], **({name: row[None]} if name else {})) for row in scores]
    return torch.stack(rows)


def _mean_over_draws(loss: Loss, scores: Tensor, target: Tensor, replications: int) -> Tensor:
    """The same noise at every point, so that the plot shows the loss rather than the noise."""
    keywords = {**loss.keywords, "reduction": "none"}
    if getattr(loss, "smoothing", None) != "noised":
        return type(loss).function(scores, target, **keywords)
    generator, samples = torch.Generator().manual_seed(0), loss.keywords["samples"]
    total = torch.zeros(len(scores), dtype=scores.dtype)
    for _ in range(replications):
        noise = torch.randn(samples, 1, 3, generator=generator, dtype=scores.dtype).expand(-1, len(scores), -1)
        total += type(loss).function(scores, target, **keywords, noise=noise)
    return total / replications


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
