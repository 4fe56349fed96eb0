"""The level sets that Garcin et al. 2022 draw: figures 1 and 6 (every top-k loss) and 4 and 5 (the series of B and epsilon).

``python -m benchmarks loss_levels`` writes them to docs/gallery, as the documentation does when it is built. As in the paper,
the scores sum to 2, each loss is rescaled to 0 to 1, noised losses are averaged over 100 replications, and every margin is 1
except that of the imbalanced loss. The text of the paper does not give the values of B and epsilon in figures 4 and 5; values
of its Tables 2 and 3 that change the plot are drawn.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from torch import Tensor

from shortlist import losses
from shortlist.report import LossLevels
from shortlist.report.loss_plots import RowLoss
from shortlist.report.style import SETTINGS

FOLDER = Path(__file__).parent.parent / "docs" / "gallery"
IMBALANCED = torch.tensor([1.0, 1.0, 5.0], dtype=torch.float64)  # the true class is the third
SAMPLES = (1, 3, 10, 50)
EPSILONS = (0.01, 0.1, 0.3, 1.0)
RESOLUTION, REPLICATIONS = 80, 100

Series = dict[str, losses.Loss | RowLoss]


def figures() -> dict[str, Series]:
    """The losses of each figure, by the name of its file."""
    return {
        "levels-figure-1": top_k_losses(2),
        "levels-figure-4": {f"k = {k}, B = {n}": _noised(k, 1.0, n) for k in (1, 2) for n in SAMPLES},
        "levels-figure-5": {f"k = {k}, ε = {e:g}": _noised(k, e, 50) for k in (1, 2) for e in EPSILONS},
        "levels-figure-6": top_k_losses(1),
    }


def top_k_losses(k: int) -> Series:
    """The ten losses of the paper's Table 1, in the order of its figures."""
    return {
        "top-k error": _TopkError(k),
        "cross-entropy": losses.CrossEntropyLoss(),
        "hinge": losses.TopkHingeLoss(k=k),
        "calibrated hinge": losses.CalibratedTopkHingeLoss(k=k),
        "convex hinge": losses.ConvexTopkHingeLoss(k=k),
        "smooth hinge, τ = 0.1": losses.SmoothTopkHingeLoss(k=k, temperature=0.1),
        "smooth hinge, τ = 1": losses.SmoothTopkHingeLoss(k=k, temperature=1.0),
        "noised, ε = 0.3": _noised(k, 0.3, 30),
        "noised, ε = 1": _noised(k, 1.0, 30),
        "noised imbalanced, ε = 1": _noised(k, 1.0, 30, margin=IMBALANCED),
    }


class _TopkError:
    """1 where the true class is not among the k largest scores."""

    def __init__(self, k: int):
        self.k = k

    def __call__(self, scores: Tensor, target: Tensor) -> Tensor:
        own = scores.gather(1, target[:, None])
        return ((scores > own).sum(1) >= self.k).double()


def _noised(k: int, epsilon: float, samples: int, **more: Any) -> losses.Loss:
    return losses.NoisedTopkHingeLoss(k=k, epsilon=epsilon, samples=samples, **more)


def draw(name: str, series: Series) -> Path:
    """One figure of small plots, four or five in a row."""
    columns = 5 if len(series) % 5 == 0 else 4
    rows = -(-len(series) // columns)
    path = FOLDER / f"{name}.png"
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(3.1 * columns, 2.9 * rows), layout="constrained")
        axes = figure.subplots(rows, columns).flat
        for ax, (title, loss) in zip(axes, series.items(), strict=True):
            levels = LossLevels(loss, scale=2.0, resolution=RESOLUTION, replications=REPLICATIONS, rescaled=True)
            levels.plot(ax).set_title(title)
        figure.savefig(path, dpi=130)
    return path


def run() -> None:
    """Draw all four figures."""
    FOLDER.mkdir(exist_ok=True)
    for name, series in figures().items():
        print(draw(name, series))
