"""The tables of docs/retrieval-evaluation.md: what each loss retrieves, and what calibration adds as queries grow."""

import json
import statistics
from typing import Any

from benchmarks.cifar_table import mean_and_half_width
from benchmarks.harness import RESULTS
from benchmarks.marked_tables import write_table

PAGE = "retrieval-evaluation.md"
READINGS = ("sigmoid", "own link", "Platt", "isotonic")
Runs = dict[tuple[str, str], dict[int, dict[str, Any]]]  # (method, reading) → seed → result


def text() -> str:
    parts = []
    for dataset, runs in _runs().items():
        parts += [_title(dataset, runs), "", *_by_method(runs), "", *_gaps(runs), ""]
    if parts:
        last = _lines()[-1]
        parts += [
            "Means over seeds (each another split and another start) with 95 % t intervals, in percent. The classifiers are "
            "those of the recipes `mulan-*` and `flora-quadrats` with the loss exchanged. "
            f"{last['machine']}, torch {last['versions']['torch']}, {last['date']}."
        ]
    return "\n".join(parts) + "\n"


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
    for method in dict.fromkeys(method for method, _ in runs):
        cells = [_percent(runs.get((method, reading), {}), "map", 0) for reading in READINGS]
        rows.append(f"| `{method}` | {' | '.join(cells)} |")
    return rows


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
    for method in dict.fromkeys(method for method, _ in runs):
        reading = "own link" if (method, "own link") in runs else "Platt"
        raw, better = runs[method, "sigmoid"], runs[method, reading]
        both = [seed for seed in raw if seed in better]
        cells = [
            mean_and_half_width([100 * (better[seed]["map"][place] / raw[seed]["map"][place] - 1) for seed in both], sign=True)
            for place in range(1, lengths + 1)
        ]
        rows.append(f"| `{method}` | {reading} | {' | '.join(cells)} |")
    return rows


def write() -> None:
    write_table(PAGE, text())
