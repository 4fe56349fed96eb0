"""The table of docs/choosing.md: average-k against cross-entropy on CIFAR-100, means over seeds with 95 % intervals."""

import json
import math
import statistics
from typing import Any

from scipy.stats import t

from benchmarks.harness import RESULTS
from benchmarks.marked_tables import with_table, write_table
from shortlist.recipes import find_recipe

PAGE = "choosing.md"
BEGIN, END = "<!-- cifar100 -->\n", "<!-- /cifar100 -->\n"  # marks of its own, as the page may get other tables
OURS, RIVAL = "average-k", "cross-entropy"
COLUMNS = {  # heading: key of the results
    "top-1": "top-1",
    "top-5": "top-5",
    "average-5": "accuracy",
    "labels a set": "size",
    "average-5 without temperature": "average-5 softmax",
    "by sigmoid": "average-5 sigmoid",
}
LEVEL = 0.95
EPOCHS = find_recipe("cifar100-resnet18").epochs


def text() -> str:
    runs = _runs()
    if not runs:
        return ""
    rows = ["| method | seeds | " + " | ".join(COLUMNS) + " | s an epoch |", "|---|---:|" + "---:|" * (len(COLUMNS) + 1)]
    for method, seeds in runs.items():
        cells = [mean_and_half_width([run["test"][key] for run in seeds.values()]) for key in COLUMNS.values()]
        seconds = statistics.median(run["epoch_seconds"] for run in seeds.values())
        rows.append(f"| `{method}` | {len(seeds)} | {' | '.join(cells)} | {seconds:.2f} |")
    both = [seed for seed in runs.get(OURS, {}) if seed in runs.get(RIVAL, {})]
    if both:
        cells = [_difference(runs, both, key) for key in COLUMNS.values()]
        rows.append(f"| difference, seed by seed | {len(both)} | {' | '.join(cells)} | |")
    last = next(reversed(next(reversed(runs.values())).values()))
    foot = (
        f"Percent of 10,000 test pictures; mean and half-width of a {100 * LEVEL:.0f} % t interval over seeds. Recipe "
        f"`cifar100-resnet18`: ResNet-18, {last['epochs']} epochs of 45,000 pictures; 2,500 others choose the epoch and fit "
        f"the temperature, 2,500 the threshold. {last['accelerator']}, torch {last['versions']['torch']}, {last['date']}."
    )
    return "\n".join([*rows, "", foot, "", *_other_lengths(), ""])


def _other_lengths() -> list[str]:
    """How long a training is best, from runs of other lengths with as many seeds."""
    kept = len(_runs().get(OURS, {}))
    found = []
    for epochs in sorted({line["epochs"] for line in _lines()} - {EPOCHS}):
        seeds = _runs(epochs).get(OURS, {})
        if len(seeds) == kept:
            top, average = (mean_and_half_width([run["test"][key] for run in seeds.values()]) for key in ("top-5", "accuracy"))
            found.append(f"{epochs} epochs {top} and {average}")
    return [f"Top-5 and average-5 of `{OURS}` at other lengths, {kept} seeds each: {'; '.join(found)}."] if found else []


def _lines() -> list[dict[str, Any]]:
    path = RESULTS / "cifar100.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _runs(epochs: int = EPOCHS) -> dict[str, dict[int, dict[str, Any]]]:
    """The newest result of each method and seed, seeds in order."""
    runs: dict[str, dict[int, dict[str, Any]]] = {}
    for line in _lines():
        if line["epochs"] == epochs:
            runs.setdefault(line["setting"], {})[line["seed"]] = line
    return {method: dict(sorted(seeds.items())) for method, seeds in runs.items()}


def _difference(runs: dict[str, dict[int, dict[str, Any]]], seeds: list[int], key: str) -> str:
    """Of the same split and the same order of rows, so that what both share drops out."""
    return mean_and_half_width([runs[OURS][seed]["test"][key] - runs[RIVAL][seed]["test"][key] for seed in seeds], sign=True)


def mean_and_half_width(values: list[float], *, sign: bool = False, digits: int = 2) -> str:
    """``mean ± t s / √n``, t the quantile of Student's distribution with n - 1 degrees of freedom.

    >>> mean_and_half_width([1.0, 2.0, 3.0])
    '2.00 ± 2.48'
    """
    mean = f"{round(statistics.mean(values), digits) + 0.0:{'+' if sign else ''}.{digits}f}"  # no minus before a zero
    if len(values) < 2:
        return mean
    quantile = float(t.ppf((1 + LEVEL) / 2, len(values) - 1))
    return f"{mean} ± {quantile * statistics.stdev(values) / math.sqrt(len(values)):.{digits}f}"


def placed(page: str) -> str:
    """The page with the table between its marks."""
    return with_table(page, text(), BEGIN, END)


def write() -> None:
    """Put the table into the page."""
    write_table(PAGE, text(), BEGIN, END)
