"""The table of docs/size.md: accuracy and time by backbone, picture size, epochs and number of pictures."""

import json
import statistics
from typing import Any

from benchmarks.harness import RESULTS
from benchmarks.marked_tables import write_table
from benchmarks.sizes import NAME, SPECIES, TEST

PAGE = "size.md"
KEYS = ("pictures", "backbone", "size", "epochs")


def text() -> str:
    """The table, and below it what it was measured on; empty without results."""
    lines = _lines()
    if not lines:
        return ""
    rows = [
        "| training pictures | backbone | side | epochs | seeds | top-1 | top-3 | CPU time |",
        "|---:|---|" + "---:|" * 6,
    ]
    for choice in dict.fromkeys(tuple(line[key] for key in KEYS) for line in lines):
        runs = [line for line in lines if tuple(line[key] for key in KEYS) == choice]
        pictures, backbone, size, epochs = choice
        top = [_mean_and_spread([run[f"top-{k}"] for run in runs]) for k in (1, 3)]
        seconds = statistics.mean(run["cpu_seconds"] for run in runs)
        rows.append(f"| {pictures:,} | {backbone} | {size} | {epochs} | {len(runs)} | {top[0]} | {top[1]} | {seconds:.0f} s |")
    last = lines[-1]
    rows.append(f"| **best possible** | | | | | **{last['best-1']:.1f}** | **{last['best-3']:.1f}** | |")
    foot = (
        f"Accuracy in percent on {TEST} other pictures of {SPECIES} species of Flora, mean and half the range over "
        "seeds; the recipe that a folder of pictures gets, with cross-entropy. CPU time of one core, all included; "
        f"{last['machine']}, {last['date']}."
    )
    return "\n".join([*rows, "", foot, ""])


def _lines() -> list[dict[str, Any]]:
    path = RESULTS / f"{NAME}.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    newest = {(*(line[key] for key in KEYS), line["seed"]): line for line in found}
    return sorted(newest.values(), key=lambda line: line["pictures"])


def _mean_and_spread(values: list[float]) -> str:
    spread = f" ± {(max(values) - min(values)) / 2:.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def write() -> None:
    """Put the table into its page."""
    write_table(PAGE, text())
