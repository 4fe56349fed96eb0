"""``shortlist demo --scores``: the decision half on real data, in seconds: handwritten digits, a logistic regression, sets."""

from pathlib import Path

import torch

from shortlist.cli.console import say, show
from shortlist.errors import InputError
from shortlist.links import Temperature
from shortlist.predictions import Predictions
from shortlist.report import evaluate, headline, write_report
from shortlist.sets import average_k, lac, top_k
from shortlist.sets.lists import list_writer, lists_of
from shortlist.tensors import Array

# Training examples of zero, one, …, nine: each digit four fifths as many as the one before.
SHOWN = (70, 56, 45, 36, 29, 23, 18, 15, 12, 9)


def demo_scores(out: Path) -> None:
    """Handwritten digits: train a small classifier, calibrate it, choose sets three ways, write a report."""
    calibration, test, temperature = digits()
    calibration.save(out / "calibration.safetensors")
    test.save(out / "test.safetensors")
    say(f"a logistic regression sees digits as 4 × 4 pixels; its link is given the temperature {temperature:.3f}")
    say(f"its scores → {out}/calibration.safetensors, {out}/test.safetensors")

    rules = [top_k(2), average_k(2).fit(calibration), lac(0.05).fit(calibration)]
    evaluations = [evaluate(test, rule, name=rule.text, source="digits") for rule in rules]
    show(headline(evaluations).transposed())
    with list_writer(out / "sets.jsonl") as write:
        for _, lists in lists_of(test, rules[1]):
            write(lists)
    write_report(evaluations, out / "report.html", title="Handwritten digits, three ways to answer with a set")
    say(f"the sets of average-k:2 → {out}/sets.jsonl")
    say(f"the report → {out}/report.html")


def digits() -> tuple[Predictions, Predictions, float]:
    """Calibration and test scores of a logistic regression, and the temperature that its link was given.

    It sees digits as 4 × 4 pixels, so that some look alike, and few of the higher ones, so that there is a long tail. Four
    parts, none shared: one trains, one fits the temperature, one is to fit rules on, one to measure on.
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
