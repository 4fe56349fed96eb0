"""``shortlist demo``: the whole decision half on real data, in seconds: handwritten digits, a logistic regression, sets."""

from pathlib import Path
from typing import Annotated

import torch
import typer

from shortlist.cli.console import say, show
from shortlist.errors import InputError
from shortlist.links import Temperature
from shortlist.predictions import Predictions
from shortlist.report import Evaluation, evaluate, headline, write_report
from shortlist.sets import average_k, lac, top_k
from shortlist.sets.lists import list_writer, lists_of
from shortlist.tensors import Array


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for everything the demo makes.")] = Path("runs/demo"),
) -> None:
    """Handwritten digits: train a small classifier, calibrate it, choose sets three ways, write a report."""
    calibration, test = digits()
    calibration.save(out / "calibration.safetensors")
    test.save(out / "test.safetensors")
    say(f"a logistic regression sees digits as 4 × 4 pixels: scores → {out}/calibration.safetensors, {out}/test.safetensors")

    assert calibration.target is not None
    link = Temperature().fit(calibration.scores, calibration.target)
    calibration, test = calibration.with_link(link), test.with_link(link)
    say(f"temperature {float(link.fitted_buffer('temperature')):.3f} makes its probabilities frequencies")

    rules = [top_k(2), average_k(2).fit(calibration), lac(0.05).fit(calibration)]
    evaluations: list[Evaluation] = [evaluate(test, rule, name=rule.text) for rule in rules]
    show(headline(evaluations).transposed())
    with list_writer(out / "sets.jsonl") as write:
        for _, lists in lists_of(test, rules[1]):
            write(lists)
    write_report(evaluations, out / "report.html", title="Handwritten digits, three ways to answer with a set")
    say(f"the sets of average-k:2 → {out}/sets.jsonl")
    say(f"the report → {out}/report.html")


def digits() -> tuple[Predictions, Predictions]:
    """Scores of a logistic regression that sees digits as 4 × 4 pixels, so that some of them are hard to tell apart."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise InputError("the demo needs scikit-learn: pip install 'shortlist[sklearn]'") from error
    data = load_digits()
    pixels = torch.tensor(data.images).reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16).numpy() / 16
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0)).numpy()
    train, calibration, test = order[:600], order[600:1200], order[1200:]
    model = LogisticRegression(max_iter=1000).fit(pixels[train], data.target[train])
    counts = torch.bincount(torch.tensor(data.target[train]), minlength=10)
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

    def predictions(rows: Array) -> Predictions:
        scores = torch.tensor(model.decision_function(pixels[rows]), dtype=torch.float32)
        return Predictions(scores, data.target[rows], names, "softmax", [f"digit-{row}" for row in rows], counts)

    return predictions(calibration), predictions(test)
