"""The table of docs/choosing.md: one label or none on CIFAR60+40, measured, beside the published numbers."""

import json
import statistics
from typing import Any

from benchmarks.harness import RESULTS
from benchmarks.marked_tables import with_table, write_table
from shortlist.recipes import published_numbers

PAGE = "choosing.md"
BEGIN, END = "<!-- open set -->\n", "<!-- /open set -->\n"
COLUMNS = {  # heading: key of the results, factor, digits, published metric
    "top-1 with a label": ("top1_in", 100, 1, "top-1 in"),
    "confidence without": ("confidence_out", 100, 1, "confidence out"),
    "AUROC": ("auroc_confidence", 1, 3, "AUROC"),
    "FPR at 95 % TPR": ("fpr95", 100, 1, None),
}


def text() -> str:
    """The table, and a line on where it comes from."""
    runs = _runs()
    if not runs:
        return ""
    rows = ["| method | seeds | " + " | ".join(COLUMNS) + " |", "|---|---:|" + "---:|" * len(COLUMNS)]
    for method, lines in runs.items():
        cells = [_cell(method, lines, *column) for column in COLUMNS.values()]
        rows.append(f"| `{method}` | {len(lines)} | {' | '.join(cells)} |")
    last = next(reversed(runs.values()))[-1]
    foot = (
        f"Mean over seeds, in brackets the published number (Liao, Table II). 10,000 test pictures, 4,000 of them without a "
        f"label; `python -m benchmarks.open_set`: ResNet-18, {last['epochs']} epochs, the same settings for all four, "
        f"which are not the paper's. {last['machine'].split(', ')[3]}, torch {last['versions']['torch']}, {last['date']}."
    )
    return "\n".join([*rows, "", foot, ""])


def _cell(method: str, lines: list[dict[str, Any]], key: str, factor: int, digits: int, metric: str | None) -> str:
    measured = f"{factor * statistics.mean(line['test'][key] for line in lines):.{digits}f}"
    published = [] if metric is None else published_numbers(paper="liao", table="II", method=method, metric=metric)
    return f"{measured} ({published[0].value:g})" if published else measured


def _runs() -> dict[str, list[dict[str, Any]]]:
    """The newest result of each seed, by method."""
    path = RESULTS / "open-set.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    newest = {(line["setting"], line["seed"]): line for line in lines}
    runs: dict[str, list[dict[str, Any]]] = {}
    for (method, _), line in sorted(newest.items(), key=lambda item: item[0]):
        runs.setdefault(method, []).append(line)
    return runs


def placed(page: str) -> str:
    """The page with the table between its marks."""
    return with_table(page, text(), BEGIN, END)


def write() -> None:
    """Put the table into the page."""
    write_table(PAGE, text(), BEGIN, END)
