"""The images of the README and of the landing page, from a run on Flora: ``python docs/make_images.py [RUN]``.

``make demo`` writes the run, ``runs/demo``. ``answer.png`` shows pictures with their sets; ``report.png`` is the top of the
report in a headless Chromium.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from shortlist import Run
from shortlist.data import Flora
from shortlist.models import Answers
from shortlist.report.style import SETTINGS

FOLDER = Path(__file__).parent / "images"
SIZES = (1, 2, 3, 5)  # labels in the sets of the pictures that are shown
SHOWN = 192  # pixels of a picture that is shown; the classifier gets the size it was trained with
ROWS, SEED = 400, 3
GREEN, GREY, TRACK = "#2e7d5b", "#9aa4b2", "#eef0f3"


def draw_answers(run: Run, path: Path) -> None:
    """One picture for each set size, with the probabilities of its set; the true species is green."""
    garden, classifier = Flora(), run.classifier
    small, labels, _ = garden.specimens(ROWS, seed=SEED, size=classifier.inputs.size)
    large, _, _ = garden.specimens(ROWS, seed=SEED, size=SHOWN)
    answers = classifier.predict(small)
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        axes = figure.subplots(2, len(SIZES), height_ratios=(2.1, 1.3))
        for (above, below), size in zip(axes.T, SIZES, strict=True):
            row = _row_of_size(answers, labels, size)
            above.imshow(large[row].permute(1, 2, 0))
            above.set_axis_off()
            _bars(below, answers, row, answers.classes[labels[row]])
        figure.savefig(path, dpi=125)


def _row_of_size(answers: Answers, labels: torch.Tensor, size: int) -> int:
    """The first picture with a set of this size that contains the true species."""
    right = answers.sets[torch.arange(len(labels)), labels] & (answers.sets.sum(dim=1) == size)
    return int(right.nonzero()[0])


def _bars(axes: Axes, answers: Answers, row: int, truth: str) -> None:
    names, probs = zip(*answers[row], strict=True)
    places = range(len(names))
    axes.barh(places, [1.0] * len(names), height=0.72, color=TRACK)
    axes.barh(places, probs, height=0.72, color=[GREEN if name == truth else GREY for name in names])
    for place, (name, prob) in enumerate(zip(names, probs, strict=True)):
        axes.text(1.06, place, f"{prob:.0%}", va="center", fontsize=8, fontweight="bold" if name == truth else None)
        axes.text(1.56, place, name, va="center", fontsize=8, fontweight="bold" if name == truth else None)
    axes.set(xlim=(0, 3.4), ylim=(max(SIZES) - 0.5, -0.5))
    axes.set_axis_off()


def photograph_report(run: Run, path: Path) -> None:
    """The top of the report, as a browser shows it."""
    with tempfile.TemporaryDirectory() as folder:
        report = run.report(Path(folder) / "report.html")
        shot = Path(folder) / "shot.png"
        browser = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1100,1600"]
        address = report.resolve().as_uri()
        subprocess.run([*browser, f"--screenshot={shot}", address], check=True, capture_output=True)
        with Image.open(shot) as image:
            image.convert("RGB").resize((825, 1200), Image.Resampling.LANCZOS).save(path)


def shrink(path: Path) -> None:
    """Save the image with a palette of 256 colours."""
    Image.open(path).convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE).save(path, optimize=True)


def main(folder: str = "runs/demo") -> None:
    """Make both images from this run."""
    run = Run(folder)
    FOLDER.mkdir(exist_ok=True)
    draw_answers(run, FOLDER / "answer.png")
    photograph_report(run, FOLDER / "report.png")
    for path in FOLDER.glob("*.png"):
        shrink(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
