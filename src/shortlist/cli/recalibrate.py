"""A classifier with a new link or a new rule: the same weights, other probabilities, other sets."""

import json
from pathlib import Path

import torch

from shortlist.cli.console import noticed, say, warn
from shortlist.cli.predict import classifier_folder, load_classifier
from shortlist.cli.prepare import check_there
from shortlist.cli.runs import Run
from shortlist.errors import InputError
from shortlist.links import Link
from shortlist.links.fitted import FittedLink
from shortlist.models import Classifier
from shortlist.predictions import Predictions
from shortlist.sets import parse_rule
from shortlist.sets.calibrating import calibrate_rule

UNKNOWN = torch.ones(1)  # a prior, where only the kind of rule is asked for


def holds_classifier(path: Path) -> bool:
    """Whether this is the folder of a classifier, or of a run with one."""
    return path.is_dir() and (Run.at(path) is not None or (path / "config.json").is_file())


def recalibrate(
    path: Path, out: Path, on: Path | None, kind: type[FittedLink] | None, rule: str | None, network: str | None = None
) -> None:
    """Fit the link on one half of the rows and the rule on the other, and write the classifier to a new folder.

    Of a run, the link is fitted on its validation rows and the rule on its calibration rows, unless others are named.
    """
    if out.resolve() == classifier_folder(path).resolve():
        raise InputError(f"{out}: expected another folder than the classifier's own, which is kept")
    classifier = load_classifier(path, network=network)
    if kind is None and rule is not None and on is None and Run.at(path) is None and not parse_rule(rule, UNKNOWN).needs_fit:
        classifier.with_rule(parse_rule(rule)).save(out)
        return say(f"rule {rule}, which needs no fit\nthe classifier → {out}")
    for_link, for_rule = _rows(path, on, classifier, both=kind is not None)
    if kind is not None:
        classifier = classifier.with_link(_fitted(kind, classifier.link, for_link))
    text = rule or _old_rule(path)
    found: list[str] = []
    if text is None:
        raise InputError("--rule: expected a rule, such as average-k:5 or lac:0.1; the classifier has none to fit again")
    read = for_rule.with_link(classifier.link)
    chosen = parse_rule(text, prior=read.prior if "prior" in text or text.lower().startswith("pas") else None)
    chosen.check_reads(read)
    with noticed(found):
        calibrate_rule(chosen, read)
    classifier.with_rule(chosen).save(out)
    for warning in found:
        warn(warning)
    if kind is not None:
        say(f"link {classifier.link!r}, fitted on {len(for_link):,} rows")
    how = f"fitted on {len(for_rule):,} rows" if chosen.needs_fit else "which needs no fit"
    say(f"rule {chosen.text}, {how}: {chosen.guarantee}\nthe classifier → {out}")


def _rows(path: Path, on: Path | None, classifier: Classifier, both: bool) -> tuple[Predictions, Predictions]:
    run = Run.at(path)
    if on is None and run is None:
        raise InputError("--on: expected labelled scores of this classifier, as shortlist predict writes them")
    if on is None and run is not None:
        if run.calibration.name != "calibration.safetensors":
            warn(
                "the run kept no rows apart for the rule: it is fitted on those that chose the epoch, so that what it promises "
                "does not hold exactly"
            )
        parts = Predictions.load(run.folder / "val.safetensors"), Predictions.load(run.calibration)
    else:
        assert on is not None
        check_there(on)
        whole = Predictions.load(on)
        if whole.target is None:
            raise InputError(f"{on}: expected labelled scores to fit on, and the file holds no labels")
        parts = whole.split(0.5) if both else (whole, whole)
    for part in parts:
        if tuple(part.class_names) != classifier.classes:
            raise InputError(f"{on or path}: expected scores of this classifier, and the classes differ from its own")
    return parts


def _fitted(kind: type[FittedLink], old: Link | None, rows: Predictions) -> Link:
    """The new link on top of what the old one was fitted on top of."""
    base = old.base if isinstance(old, FittedLink) else old
    return kind(base).fit(rows.scores, rows.target)  # type: ignore[arg-type]


def _old_rule(path: Path) -> str | None:
    record = json.loads((classifier_folder(path) / "config.json").read_text(encoding="utf-8")).get("rule")
    return None if record is None else str(record["text"])
