"""``shortlist demo --scores``: from the scores of a logistic regression on handwritten digits to sets, in seconds."""

from pathlib import Path

import torch

from shortlist.cli.console import say, show
from shortlist.cli.outputs import check_outputs
from shortlist.errors import InputError
from shortlist.links import Temperature
from shortlist.predictions import Predictions
from shortlist.report import evaluate, headline, write_report
from shortlist.sets import average_k, lac, top_k
from shortlist.sets.lists import list_writer, lists_of
from shortlist.tensors import Array

# Training examples of zero, one, …, nine: a long tail, each digit having four fifths as many as the one before.
SHOWN = (70, 56, 45, 36, 29, 23, 18, 15, 12, 9)
WRITTEN = ("calibration.safetensors", "test.safetensors", "sets.jsonl", "report.html")


def demo_scores(out: Path) -> None:
    """Score handwritten digits, calibrate the scores, compare three set rules, write a report."""
    _check_place(out)
    calibration, test, temperature = digits()
    calibration.save(out / "calibration.safetensors")
    test.save(out / "test.safetensors")
    say(f"logistic regression on handwritten digits of 4 × 4 pixels, calibrated with temperature {temperature:.3f}")

    rules = [top_k(2), average_k(2).fit(calibration), lac(0.05).fit(calibration)]
    evaluations = [evaluate(test, rule, name=rule.text, source="digits") for rule in rules]
    show(headline(evaluations).transposed())
    with list_writer(out / "sets.jsonl") as write:
        for _, lists in lists_of(test, rules[1]):
            write(lists)
    write_report(evaluations, out / "report.html", title="Handwritten digits: three set rules")
    say(f"scores: {out}/calibration.safetensors and {out}/test.safetensors")
    say(f"sets of average-k:2: {out}/sets.jsonl")
    say(f"report: {out}/report.html")


def _check_place(out: Path) -> None:
    """Raise an error unless the folder holds none of the files, or all of them, from an earlier demo."""
    files = [out / name for name in WRITTEN]
    check_outputs(files, [])
    there = [path for path in files if path.exists()]
    if there and len(there) < len(files):
        raise InputError(
            f"{there[0]} exists already, is not from an earlier demo, and would be overwritten: choose another folder"
        )


def digits() -> tuple[Predictions, Predictions, float]:
    """Calibration and test scores of a logistic regression, and the temperature of its link.

    Digits are reduced to 4 × 4 pixels, which makes some of them ambiguous, and higher digits have fewer training rows. The rows
    are divided into four parts: to train, to fit the temperature, to fit rules, and to test.
    """
    try:
        from sklearn.datasets import load_digits
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise InputError("the demo needs scikit-learn: pip install 'shortlist[sklearn]'") from error
    data = load_digits()
    pixels = torch.tensor(data.images).reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16).numpy() / 16
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0)).numpy()
    pool, link, calibration, test = order[:800], order[800:1000], order[1000:1400], order[1400:]
    train = [row for digit, count in enumerate(SHOWN) for row in pool[data.target[pool] == digit][:count]]
    model = LogisticRegression(max_iter=1000).fit(pixels[train], data.target[train])
    counts = torch.bincount(torch.tensor(data.target[train]), minlength=10)
    temperature = Temperature().fit(model.decision_function(pixels[link]), data.target[link])
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

    def predictions(rows: Array) -> Predictions:
        scores = torch.tensor(model.decision_function(pixels[rows]), dtype=torch.float32)
        return Predictions(scores, data.target[rows], names, temperature, [f"digit-{row}" for row in rows], counts)

    return predictions(calibration), predictions(test), float(temperature.fitted_buffer("temperature"))
