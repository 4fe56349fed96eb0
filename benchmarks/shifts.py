"""What rules for rows unlike the calibration rows cost in size, beside the plain rule on the same rows: draws of Flora.

The sites and the overconfident classifier are those of :mod:`benchmarks.situations`. New rows are drawn with the
weights that the rule is given, which are the true ones; votes are five draws of the true law of each row; the stream
learns each label before the next row.
"""

import statistics
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.harness import record
from benchmarks.marked_tables import write_table
from benchmarks.results_files import foot, newest
from benchmarks.situations import ROWS, drawn
from shortlist.data import Flora
from shortlist.metrics import coverage, set_size
from shortlist.sets import CoverageStream, lac
from shortlist.sklearn import SetClassifier

NAME, PAGE = "shifts", "rules.md"
CALIBRATIONS, NEW, SPECIES, VOTES, ALPHA = 40, 2_000, 20, 5, 0.1
BEGIN, END = "<!-- shifts: written by `python -m benchmarks page` -->\n", "<!-- end of shifts -->\n"
Answers = Iterator[tuple[str, str, np.ndarray, np.ndarray]]  # situation, rule, sets, labels


def run() -> None:
    warnings.simplefilter("ignore")
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for seed in range(CALIBRATIONS):
        for make in (other_sites, other_shares, votes, drift, few_labels):
            for situation, rule, sets, target in make(seed):
                found.setdefault((situation, rule), []).append((float(coverage(sets, target)), float(set_size(sets))))
    rows = [
        {
            "situation": situation,
            "rule": rule,
            "coverage": _spread([c for c, _ in every]),
            "size": _spread([s for _, s in every]),
        }
        for (situation, rule), every in found.items()
    ]
    record(NAME, "Flora, 20 species", {"calibrations": CALIBRATIONS, "rows": ROWS, "found": rows})


def _spread(values: list[float]) -> list[float]:
    return [statistics.mean(values), statistics.stdev(values)]


def resampled(weights: np.ndarray, seed: int) -> np.ndarray:
    """Numbers of new rows, of those that are not for calibration, drawn with these weights."""
    chances = weights[ROWS:] / weights[ROWS:].sum()
    return ROWS + np.random.default_rng(seed).choice(len(chances), NEW, p=chances)


def other_sites(seed: int) -> Answers:
    """Nine tenths of the new rows are from the south, half of the calibration rows are."""
    probs, target, south = drawn(seed)
    weights = np.where(south, 1.8, 0.2)
    new = resampled(weights, seed)
    plain = lac(ALPHA).fit(probs[:ROWS], target[:ROWS])
    yield "new rows look different", "`lac:0.1`", plain.predict(probs[new]), target[new]
    rule = lac(ALPHA).fit(probs[:ROWS], target[:ROWS], weights=weights[:ROWS])
    yield "new rows look different", "the same, `weights=`", rule.predict(probs[new], weights=weights[new]), target[new]


def other_shares(seed: int) -> Answers:
    """The shares of the classes go from 0.2 to 1.8 times what they are among the calibration rows."""
    probs, target, _ = drawn(seed)
    ratio = np.linspace(0.2, 1.8, SPECIES)[np.random.default_rng(0).permutation(SPECIES)]
    new = resampled(ratio[target], seed)
    plain = lac(ALPHA).fit(probs[:ROWS], target[:ROWS])
    yield "new shares of the classes", "`lac:0.1`", plain.predict(probs[new]), target[new]
    rule = lac(ALPHA).fit(probs[:ROWS], target[:ROWS], class_weights=ratio)
    yield "new shares of the classes", "the same, `class_weights=`", rule.predict(probs[new]), target[new]


def votes(seed: int) -> Answers:
    """Rules fitted on the label of the majority, and on all votes; covered is a vote of somebody else."""
    labels, posterior = Flora(species=SPECIES, genera=6, abundance="balanced").observe(ROWS + NEW, seed=seed + 1)
    probs, target = posterior.double().numpy(), labels.numpy()
    probs = probs / probs.sum(1, keepdims=True)
    cast = np.random.default_rng(seed).multinomial(VOTES, probs[:ROWS]).astype(np.float64)
    rules = {"`lac:0.1`, the label of the majority": cast.argmax(1), "`lac:0.1`, the votes": cast}
    for name, given in rules.items():
        yield "labels are votes", name, lac(ALPHA).fit(probs[:ROWS], given).predict(probs[ROWS:]), target[ROWS:]


def drift(seed: int) -> Answers:
    """Calibrated in the north, and then all rows are from the south."""
    probs, target, south = drawn(seed)
    north, new = np.flatnonzero(~south)[:ROWS], np.flatnonzero(south)[:NEW]
    fixed = lac(ALPHA).fit(probs[north], target[north])
    yield "a source that drifts", "`lac:0.1`", fixed.predict(probs[new]), target[new]
    for name, options in {"": {}, ", window=500": {"window": 500}}.items():
        stream = CoverageStream(lac(ALPHA), probs[north], target[north], **options)
        sets = np.asarray(stream.replay(probs[new], target[new]))
        yield "a source that drifts", f"`CoverageStream(lac(0.1), …{name})`", sets, target[new]


def few_labels(seed: int) -> Answers:
    """A classifier and its rule from 200 labelled rows."""
    rows, labels, _ = Flora(species=SPECIES, genera=6, abundance="balanced").measurements(200 + NEW, seed=seed + 1)
    table, target = rows.numpy(), labels.numpy()
    few = "200 labelled rows for classifier and rule"
    for name, options in {"a quarter of them calibrates": {}, "`cv=5`": {"cv": 5}}.items():
        model = SetClassifier(LogisticRegression(max_iter=200), f"lac:{ALPHA}", random_state=seed, **options)
        yield (
            few,
            f"`SetClassifier`, {name}",
            np.asarray(model.fit(table[:200], target[:200]).predict_set(table[200:])),
            target[200:],
        )


def table() -> str:
    """The table, and what it was measured on; empty without results."""
    lines = newest(NAME)
    if not lines:
        return ""
    line = lines[-1]
    rows = ["| situation | rule | coverage | mean size |", "|---|---|---:|---:|"]
    for one in line["found"]:
        (share, spread), (size, wide) = one["coverage"], one["size"]
        rows.append(f"| {one['situation']} | {one['rule']} | {share:.1%} ± {spread:.1%} | {size:.2f} ± {wide:.2f} |")
    what = (
        f"Flora, 20 species; {line['calibrations']} calibrations on {line['rows']} rows each (the last: 200 with the "
        f"classifier), measured on {NEW:,} others; mean ± standard deviation over calibrations. Weights are the true ones."
    )
    return "\n".join([*rows, "", what, "", foot(line)])


def write() -> None:
    """Put the table into its page."""
    write_table(PAGE, table(), BEGIN, END)
