"""MkDocs hook: draws the figures of the gallery, of Flora and of the retrieval results when the pages are built."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from benchmarks import loss_levels
from benchmarks.retrieval_table import curves
from matplotlib.figure import Figure

from shortlist import losses
from shortlist.data import Flora, flora_dataset
from shortlist.losses import Loss
from shortlist.report import Display, LossLevels, PartialLosses, contact_sheet
from shortlist.report.style import SETTINGS

FOLDER = Path(__file__).parent / "gallery"
RETRIEVAL = ("yeast", "flora-quadrats")
MARGINS = torch.tensor([0.1, 0.1, 0.5], dtype=torch.float64)

LEVELS: dict[str, Loss] = {
    "cross-entropy": losses.CrossEntropyLoss(),
    "focal, gamma 2": losses.FocalLoss(gamma=2.0),
    "LDAM, margin 0.5, scale 5": losses.LdamLoss(margins=MARGINS, scale=5.0),
    "top-k hinge": losses.TopkHingeLoss(k=2),
    "convex top-k hinge": losses.ConvexTopkHingeLoss(k=2),
    "calibrated top-k hinge": losses.CalibratedTopkHingeLoss(k=2),
    "smooth top-k hinge, temperature 0.1": losses.SmoothTopkHingeLoss(k=2, temperature=0.1),
    "noised, epsilon 0.3, 30 draws": losses.NoisedTopkHingeLoss(k=2, epsilon=0.3, samples=30),
    "soft, epsilon 0.3": losses.NoisedTopkHingeLoss(k=2, epsilon=0.3, smoothing="soft"),
    "expected, epsilon 0.3": losses.NoisedTopkHingeLoss(k=2, epsilon=0.3, smoothing="expected"),
    "imbalanced, margin 0.5": losses.NoisedTopkHingeLoss(k=2, epsilon=0.3, samples=30, margin=MARGINS),
    "sparse-top": losses.SparseTopLoss(),
    "assume-negative": losses.AssumeNegativeLoss(),
    "expected-positive": losses.ExpectedPositiveLoss(k=2, beta=0.1),
    "ROLE, estimates as the scores": losses.RoleLoss(k=2),
    "average-k, proposals as the scores": losses.AverageKLoss(k=2, alpha=1.0),
}
PARTIALS: dict[str, Any] = {
    "BCE": losses.BinaryCrossEntropyLoss(),
    "focal, gammas 2": losses.AsymmetricFocalLoss(gamma_pos=2.0, gamma_neg=2.0),
    "asymmetric focal, gammas 0 and 4": losses.AsymmetricFocalLoss(),
    "ASY, shift 0.05": losses.AsymmetricFocalLoss(shift=0.05),
    "SPA": losses.SpaLoss(),
}


def on_pre_build(config: Any) -> None:
    """Draw the figures before the pages are read."""
    FOLDER.mkdir(exist_ok=True)
    for name, loss in LEVELS.items():
        _draw(LossLevels(loss, resolution=30 if loss.couples or "expected" in name else 80), name)
    for name, loss in PARTIALS.items():
        _draw(PartialLosses(loss), name)
    loss_levels.run()
    _draw_garden()
    for dataset in RETRIEVAL:
        curves(dataset).save(FOLDER / f"retrieval-{dataset}.png")


def _draw_garden() -> None:
    garden = Flora()
    specimens = flora_dataset(garden, train=4000, val=0, test=0, size=96)
    contact_sheet(specimens, classes=10, per_class=10, seed=1).save(FOLDER / "flora-specimens.png")
    plots = flora_dataset(garden, kind="quadrats", train=60, val=0, test=0, size=128)
    contact_sheet(plots, classes=3, per_class=8, size=128, seed=1).save(FOLDER / "flora-quadrats.png")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Insert the figures of the losses into the gallery page."""
    if page.file.src_path != "gallery.md":
        return markdown
    for mark, names in (("<!-- levels -->", LEVELS), ("<!-- partials -->", PARTIALS)):
        markdown = markdown.replace(mark, "\n".join(f"![{name}](gallery/{_file(name)}){{ width=330 }}" for name in names))
    return markdown


def _file(name: str) -> str:
    return name.lower().replace(",", "").replace(".", "").replace(" ", "-") + ".png"


def _draw(display: Display, name: str) -> None:
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(3.3, 2.7), layout="constrained")
        display.plot(figure.subplots()).set_title(name, fontsize=9)
        figure.savefig(FOLDER / _file(name), dpi=160)
