"""Fit the link or the rule of a classifier again: the same weights, other probabilities and sets."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from shortlist import cluster
from shortlist.cli.alike import check_alike, check_same_labels
from shortlist.cli.console import noticed, say, warn
from shortlist.cli.counting import ALIKE, Counted, CountKeys, by_option
from shortlist.cli.engines import LOCAL, Engine
from shortlist.cli.linking import fitted_link
from shortlist.cli.outputs import check_outside_runs
from shortlist.cli.predicting import load_classifier
from shortlist.cli.prepare import check_quality, check_there
from shortlist.cli.runs import run_at
from shortlist.cluster.rows import Rows
from shortlist.errors import InputError
from shortlist.files import check_new_folder
from shortlist.links.fitted import FittedLink
from shortlist.models import Classifier
from shortlist.predictions import Predictions
from shortlist.sets import SetRule, parse_rule


def holds_classifier(path: Path) -> bool:
    """Whether this is the folder of a classifier or of a run."""
    return path.is_dir() and (run_at(path) is not None or (path / "config.json").is_file())


def recalibrate(
    path: Path,
    out: Path,
    on: Path | None,
    method: str | None,
    rule: str | None,
    network: str | None = None,
    engine: Engine = LOCAL,
    counts: CountKeys = ALIKE,
) -> None:
    """Fit the link on one half of the rows and the rule on the other, and write the classifier to a new folder.

    For a run, the link is fitted on its validation rows and the rule on its calibration rows, unless ``on`` names others. Both
    are fitted by the workers of the engine, if it has some.
    """
    check_outside_runs(out)
    check_new_folder(out)
    classifier = load_classifier(path, network=network)
    old = copy.deepcopy(classifier.rule)
    if counts and on is None:
        raise InputError("--on: expected labelled scores with what --weights-key and --votes-key name, got none")
    if method is None and rule is not None and on is None and run_at(path) is None:
        bare = Predictions(
            torch.empty(0, len(classifier.classes)), train_counts=classifier.train_counts, superclasses=classifier.superclasses
        )
        chosen = _chosen(rule, None, bare)
        if not chosen.needs_fit:
            classifier.with_rule(chosen).save(out)
            return say(f"rule {rule}, which needs no fit", f"the classifier → {out}")
    for_link, for_rule, counted = _rows(path, on, classifier, counts, both=method is not None)
    found: list[str] = []
    with engine.pool() as pool:
        counted.check_in_one_place(pool)
        if method is not None:
            old_link = classifier.link
            base = old_link.base if isinstance(old_link, FittedLink) else old_link
            classifier = classifier.with_link(fitted_link(method, base, for_link.here, pool, for_link.there))
        read = for_rule.here.with_link(classifier.link)
        with noticed(found), by_option():
            chosen = _chosen(rule, old, read)
            check_quality(on or path, chosen, read)
            if pool is None:
                chosen.fit(read, **counted.keywords())
            else:
                cluster.fit(pool, chosen, for_rule.there.linked(classifier.link))
    classifier.with_rule(chosen).save(out)
    for warning in found:
        warn(warning)
    if method is not None:
        say(f"link {classifier.link!r}, fitted on {len(for_link.here):,} rows")
    how = f"fitted on {len(for_rule.here):,} rows" if chosen.needs_fit else "which needs no fit"
    say(f"rule {chosen.text}, {how}: {chosen.guarantee}", f"the classifier → {out}")


def _chosen(text: str | None, old: SetRule | None, rows: Predictions) -> SetRule:
    """The rule of the text, or the old one to be fitted again."""
    if text is not None:
        return parse_rule(text, prior=lambda: rows.prior, superclasses=rows.superclasses)
    if old is None:
        raise InputError(
            "--rule: expected a rule, such as average-k:5 or lac:0.1, got none, and the classifier has none to fit again"
        )
    return old


@dataclass(frozen=True)
class _Part:
    """Rows to fit on, as this process reads them and as the workers of a cluster open them."""

    here: Predictions
    there: Rows


def _rows(path: Path, on: Path | None, classifier: Classifier, counts: CountKeys, both: bool) -> tuple[_Part, _Part, Counted]:
    """The rows for the link, those for the rule, and what these count for."""
    run, counted = run_at(path), Counted()
    if on is None and run is None:
        raise InputError("--on: expected labelled scores of this classifier, as shortlist predict writes them, got none")
    if on is None and run is not None:
        if run.calibration_path.name != "calibration.safetensors":
            warn(
                "the run has no calibration rows: the rule is fitted on the validation rows, which chose the epoch, so "
                "that its guarantee does not hold exactly"
            )
        files = (run.predictions_path("val"), run.calibration_path)
        parts = [_Part(Predictions.load(file), Rows.at(file)) for file in files]
    else:
        assert on is not None
        check_there(on)
        whole = Predictions.load(on)
        if whole.without_rows().target is None and (both or counts.votes is None):
            raise InputError(f"{on}: expected labelled scores to fit on, got a file without labels")
        if run is not None and whole.ids is not None and (trained := run.count_trained(whole.ids)):
            warn(
                f"{trained:,} of the {len(whole):,} rows in {on} were training rows of {path}: what is fitted on them promises "
                "too much"
            )
        counted = counts.of(on, whole, lambda path, columns: Predictions.load(path, columns=columns))
        every = _Part(whole, Rows.at(on))
        parts = [every, every]
        if both:
            first, second = whole.split_rows(0.5)
            parts = [_Part(whole.rows(chosen), every.there.only(chosen)) for chosen in (first, second)]
            counted = counted.rows(second)
    for part in (one.here for one in parts):
        if tuple(part.class_names) != classifier.classes:
            raise InputError(f"{on or path}: expected scores of this classifier, got other classes")
        if on is not None:
            link = None if part.link is None else classifier.link
            check_alike(on, part, path, replace(part, link=link, network_digest=classifier.network.digest()))
            if run is not None:
                check_same_labels(on, part, path, run.predictions("val"))
    return parts[0], parts[1], counted
