"""The rule of ``shortlist predict --rule``: another one than that of the classifier, fitted where it needs to be."""

from pathlib import Path

from shortlist.cli.console import noticed, say, warn
from shortlist.cli.runs import run_at
from shortlist.errors import InputError
from shortlist.models import Classifier
from shortlist.predictions import Predictions
from shortlist.sets import SetRule, parse_rule
from shortlist.training.run_folder import CALIBRATION


def with_other_rule(model: Classifier, path: Path, text: str) -> Classifier:
    """The classifier with the rule of this text, or of a file that ``--save-rule`` wrote.

    Args:
        model: the classifier.
        path: its folder, or that of its run, whose calibration rows a rule is fitted on if it needs a fit.
        text: the rule.
    """
    found: list[str] = []
    with noticed(found):
        model = model.with_rule(SetRule.load(text)) if Path(text).suffix == ".safetensors" else _fitted(model, path, text)
    for warning in found:
        warn(warning)
    return model


def _fitted(model: Classifier, path: Path, text: str) -> Classifier:
    counts = model.train_counts
    prior = None if counts is None else counts.double() / counts.sum()
    rule = parse_rule(text, prior=lambda: prior, superclasses=model.superclasses)
    if not rule.needs_fit:
        return model.with_rule(rule)
    run = run_at(path)
    if run is None:
        raise InputError(
            f"--rule: {text} is fitted on calibration rows, which only a run has: give the folder of the run, or fit the rule "
            "with shortlist sets --save-rule rule.safetensors and use --rule rule.safetensors"
        )
    rows = run.calibration_path
    fitted = model.fit_rule(rule, Predictions.load(rows))
    kind = "calibration" if rows.stem == CALIBRATION else "validation"
    say(f"{text}, fitted on the {len(Predictions.load(rows)):,} {kind} rows of {path}")
    return fitted
