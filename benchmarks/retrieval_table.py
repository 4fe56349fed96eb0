"""The tables of docs/retrieval-evaluation.md: what each loss retrieves, and what calibration adds as queries grow."""

import json
import statistics
from typing import Any

from benchmarks.cifar_table import mean_and_half_width
from benchmarks.harness import RESULTS
from benchmarks.marked_tables import write_table
from benchmarks.retrieval_methods import METHODS
from shortlist.metrics import QueryScores, RetrievalScores
from shortlist.report import RetrievalByLength

PAGE = "retrieval-evaluation.md"
READINGS = ("sigmoid", "own link", "Platt", "isotonic")
EXACT = ("exact", "marginals")
Runs = dict[tuple[str, str], dict[int, dict[str, Any]]]  # (method, reading) → seed → result


def text() -> str:
    parts = []
    for dataset, runs in _runs().items():
        exact = runs.pop(EXACT, {})
        parts += [_title(dataset, runs), "", *_by_method(runs), "", *_ceiling(exact), *_gaps(runs), "", _machine(runs), ""]
    if parts:
        parts += [
            "Means over seeds (each another start, and another split of the rows that choose the epoch and fit the link) with "
            "95 % t intervals, in percent. The classifiers are those of the recipes `mulan-*` and `flora-quadrats` with the "
            "loss exchanged; the latter in 30 epochs."
        ]
    return "\n".join(parts) + "\n"


def curves(dataset: str) -> RetrievalByLength:
    """What is lost with every label of a query when scores are taken for logits; means over the seeds."""
    runs = _runs()[dataset]
    shown = {"bce": ("bce", "sigmoid")}
    shown |= {f"{loss}, {reading}": (loss, reading) for loss in ("asy", "spa") for reading in ("own link", "sigmoid")}
    shown |= {"exact probabilities": EXACT}
    return RetrievalByLength({name: _mean(list(runs[key].values())) for name, key in shown.items() if key in runs})


def _mean(seeds: list[dict[str, Any]]) -> RetrievalScores:
    """The scores that the display draws, of several runs together."""
    found = [
        QueryScores(
            map=statistics.mean(run["map"][place] for run in seeds),
            error=0.0,
            precision_at_10=statistics.mean(run["precision_at_10"][place] for run in seeds),
            precision_error=0.0,
            queries=seeds[0]["queries"],
            asked=1,
            exact=True,
            bins=(),
            length=place or None,
        )
        for place in range(len(seeds[0]["map"]))
    ]
    return RetrievalScores(found[0], tuple(found[1:]), (), seeds[0]["rows"], seeds[0]["labels"], seed=0)


def _lines() -> list[dict[str, Any]]:
    path = RESULTS / "retrieval-methods.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _runs() -> dict[str, Runs]:
    """By dataset; the newest result of each seed."""
    found: dict[str, Runs] = {}
    for line in _lines():
        method, _, reading = line["setting"].partition(": ")[2].partition(", ")
        found.setdefault(line["dataset"], {}).setdefault((method, reading), {})[line["seed"]] = line
    return found


def _title(dataset: str, runs: Runs) -> str:
    one = next(iter(next(iter(runs.values())).values()))
    counts = [run["queries"] for seeds in runs.values() for run in seeds.values()]
    sampled = " (estimated)" if any(any(run["error"]) for seeds in runs.values() for run in seeds.values()) else ""
    seeds = len(next(iter(runs.values())))
    return (
        f"**{dataset}**: {one['rows']:,} test rows, {one['labels']} labels, {statistics.median(counts):,.0f} queries{sampled} "
        f"of up to 5 labels, {seeds} seed{'s' if seeds > 1 else ''}. mAP over all of them, by how the scores are read:"
    )


def _by_method(runs: Runs) -> list[str]:
    rows = ["| loss | " + " | ".join(READINGS) + " |", "|---|" + "---:|" * len(READINGS)]
    for method in _methods(runs):
        cells = [_percent(runs.get((method, reading), {}), "map", 0) for reading in READINGS]
        rows.append(f"| `{method}` | {' | '.join(cells)} |")
    return rows


def _methods(runs: Runs) -> list[str]:
    return sorted({method for method, _ in runs}, key=METHODS.index)


def _ceiling(exact: dict[int, dict[str, Any]]) -> list[str]:
    """What the best possible marginals would retrieve, where they are known."""
    if not exact:
        return []
    found = next(iter(exact.values()))["map"]
    by_length = " → ".join(f"{100 * value:.2f}" for value in found[1:])
    return [f"The exact probability of each label, asked the same queries: {100 * found[0]:.2f} (by length {by_length}).", ""]


def _machine(runs: Runs) -> str:
    last = [run for seeds in runs.values() for run in seeds.values()][-1]
    return f"{last['machine']}, torch {last['versions']['torch']}, {last['date']}."


def _percent(seeds: dict[int, dict[str, Any]], key: str, place: int) -> str:
    return mean_and_half_width([100 * run[key][place] for run in seeds.values()]) if seeds else "–"


def _gaps(runs: Runs) -> list[str]:
    """What the loss's own link or Platt scaling gains over the sigmoid, relative to it, by length, seed by seed."""
    lengths = len(next(iter(next(iter(runs.values())).values()))["map"]) - 1
    rows = [
        "What the loss's own link, or else Platt scaling, adds to the sigmoid's mAP, in percent of it, by query length:",
        "",
        "| loss | reading | " + " | ".join(str(length) for length in range(1, lengths + 1)) + " |",
        "|---|---|" + "---:|" * lengths,
    ]
    for method in _methods(runs):
        reading = "own link" if (method, "own link") in runs else "Platt"
        raw, better = runs[method, "sigmoid"], runs[method, reading]
        both = [seed for seed in raw if seed in better]
        cells = []
        for place in range(1, lengths + 1):
            gains = [100 * (better[seed]["map"][place] / raw[seed]["map"][place] - 1) for seed in both]
            cells.append(mean_and_half_width(gains, sign=True, digits=1))
        rows.append(f"| `{method}` | {reading} | {' | '.join(cells)} |")
    return rows


def write() -> None:
    write_table(PAGE, text())
