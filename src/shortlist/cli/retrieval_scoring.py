"""What ``shortlist retrieval-eval`` does: all queries of several labels, ranked and counted."""

import hashlib
from pathlib import Path

from shortlist.cli.console import Bar, emit_json, say, show, warn
from shortlist.cli.engines import Engine
from shortlist.cli.outputs import check_outputs
from shortlist.cli.prepare import Reading, looks_like_probabilities, short_names
from shortlist.cli.runs import run_at
from shortlist.errors import InputError
from shortlist.files import without_links
from shortlist.metrics import RetrievalScores, evaluate_retrieval, logs_of
from shortlist.predictions import Predictions
from shortlist.query_rankings.asking import Across, on_all_cores
from shortlist.query_rankings.sampling import NORMAL_95
from shortlist.report import Table
from shortlist.report.display import SUFFIXES
from shortlist.tensors import is_single_label


def retrieval_eval(
    scores: list[Path],
    link: str | None,
    scores_key: str | None,
    target_key: str | None,
    longest: int,
    most: int,
    sample: int,
    seed: int,
    plot: Path | None,
    reliability: Path | None,
    as_json: bool,
    engine: str,
    address: str | None,
    workers: int | None,
) -> None:
    """Measure retrieval by combined queries: some labels present, others absent."""
    for name, path in (("--plot", plot), ("--reliability", reliability)):
        if path is not None and path.suffix not in SUFFIXES:
            raise InputError(f"{name}: expected a name that ends in {', '.join(SUFFIXES)}, got {path}")
    check_outputs([plot, reliability], scores)
    _check_different(scores)
    who = Engine(engine, address, workers)
    reading, found, asked = Reading(scores_key, target_key, link), {}, set()
    with who.pool() as pool:
        across = on_all_cores if pool is None else pool.in_order
        for name, path in zip(short_names(scores), scores, strict=True):
            predictions = _load(path, reading)
            asked.add(_fingerprint(predictions))
            found[name] = _evaluated(predictions, name, across, max_length=longest, most=most, sample=sample, seed=seed)
    if as_json:
        emit_json({name: one.to_json() for name, one in found.items()})
    else:
        show(_table(found))
    _check_comparable(found, asked)
    for name, one in found.items():
        if one.unseen:
            kinds = ", ".join(f"{present} present and {absent} absent" for present, absent in one.unseen)
            warn(f"{name}: no drawn query of {kinds} labels is satisfied by any row: increase --sample")
    _draw(found, plot, reliability)


def _load(path: Path, reading: Reading) -> Predictions:
    run = run_at(path)
    predictions = reading.load(path if run is None else run.predictions_path())
    _check(predictions, path)
    return predictions


def _evaluated(predictions: Predictions, name: str, across: Across, **asked: int) -> RetrievalScores:
    with Bar(name, 1) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.at(done)

        yes, no = logs_of(predictions)
        return evaluate_retrieval(yes, no, predictions.target, progress=progress, across=across, **asked)


def _check(predictions: Predictions, path: Path) -> None:
    if predictions.target is None:
        raise InputError(f"{path}: expected labels to measure against, got none: name them with --target-key")
    if predictions.link is None:
        raise InputError(f"{path}: expected a link, because queries combine probabilities: pass --link sigmoid, …")
    if is_single_label(predictions.target):
        warn(f"{path}: every row has one label, so no row satisfies a query with two labels present")
    if looks_like_probabilities(predictions):
        warn(f"{path}: the scores look like probabilities; if they are, pass --link identity")


def _check_comparable(found: dict[str, RetrievalScores], asked: set[bytes]) -> None:
    """Warn if the files do not have the same labels of the same rows."""
    if len(asked) > 1:
        shown = ", ".join(f"{name} {one.rows:,} rows × {one.classes:,} labels" for name, one in found.items())
        warn(f"the files have different rows or labels, so their results are not comparable: {shown}")


def _fingerprint(predictions: Predictions) -> bytes:
    """Fingerprint of the labels, independent of their order and names."""
    assert predictions.target is not None
    target = predictions.target.numpy()
    columns = target.T if target.ndim == 2 else target[None]
    return b"".join(sorted(hashlib.sha256(column.tobytes()).digest() for column in columns))


def _check_different(paths: list[Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        if without_links(path) in seen:
            raise InputError(f"expected different files of scores, got {path} twice")
        seen.add(without_links(path))


def _table(found: dict[str, RetrievalScores]) -> Table:
    """mAP by length, with the half-width of the 95 % interval for sampled queries; then the metrics over all queries."""
    lengths = max(len(one.by_length) for one in found.values())
    columns = [
        "predictions",
        *(f"mAP, length {length}" for length in range(1, lengths + 1)),
        "mAP, all",
        "precision at 10",
        "calibration error",
    ]
    rows = [
        [
            name,
            *(_with_interval(each.map, (each.high - each.low) / 2) for each in one.by_length),
            *[None] * (lengths - len(one.by_length)),
            _with_interval(one.map, (one.interval[1] - one.interval[0]) / 2),
            _with_interval(one.overall.precision_at_10, NORMAL_95 * one.overall.precision_error),
            f"{one.calibration_error:.2%}",
        ]
        for name, one in found.items()
    ]
    return Table(columns, rows)


def _with_interval(value: float, half: float) -> str:
    if value != value:
        return "–"
    return f"{value:.1%}" if half == 0 else f"{value:.1%} ± {half:.1%}"


def _draw(found: dict[str, RetrievalScores], plot: Path | None, reliability: Path | None) -> None:
    if plot is None and reliability is None:
        return
    from shortlist.report import QueryReliability, RetrievalByLength

    for path, kind in ((plot, RetrievalByLength), (reliability, QueryReliability)):
        if path is not None:
            kind(found).save(path)
            say(f"→ {path}")
