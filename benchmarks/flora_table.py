"""The table of docs/flora.md: how near a network comes to the best possible answer."""

import json
import statistics
from typing import Any

from benchmarks.harness import RESULTS
from benchmarks.marked_tables import write_table

PAGE = "flora.md"
COLUMNS = ("top-1", "top-3", "top-5", "average-3", "average-5")


def text() -> str:
    lines = _lines()
    if not lines:
        return ""
    rows = ["| trained on | seeds | " + " | ".join(COLUMNS) + " |", "|---|---:|" + "---:|" * len(COLUMNS)]
    for setting in dict.fromkeys(line["setting"] for line in lines):
        runs = [line for line in lines if line["setting"] == setting]
        cells = [_mean_and_spread([run["network"][column] for run in runs]) for column in COLUMNS]
        rows.append(f"| {setting} | {len(runs)} | " + " | ".join(cells) + " |")
    best = lines[-1]["best"]
    rows.append("| **best possible** | | " + " | ".join(f"**{best[column]:.2f}**" for column in COLUMNS) + " |")
    last = lines[-1]
    foot = (
        f"Accuracy in percent on {last['test']:,} pictures of 32 px, mean and half the range over seeds; the last line is the "
        "posterior on the same pictures. A residual network of 2.5 million weights, cross-entropy, no augmentation; "
        f"{last['accelerator']}, {last['date']}."
    )
    return "\n".join([*rows, "", foot, ""])


def _lines() -> list[dict[str, Any]]:
    path = RESULTS / "flora-limit.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    newest = {(line["setting"], line["seed"]): line for line in found}
    return list(newest.values())


def _mean_and_spread(values: list[float]) -> str:
    spread = f" ± {(max(values) - min(values)) / 2:.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def write() -> None:
    write_table(PAGE, text())
