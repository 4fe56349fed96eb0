"""Reading the results: the newest of each setting, and how pages show them."""

import json
from typing import Any

from benchmarks.harness import RESULTS


def newest(name: str) -> list[dict[str, Any]]:
    """The last result of each setting."""
    path = RESULTS / f"{name}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return list({line["setting"]: line for line in lines}.values())


def ratio(value: float) -> str:
    """Two decimals where a few percent matter."""
    return f"{value:.2f}" if value < 2 else f"{value:.1f}"


def foot(line: dict[str, Any]) -> str:
    """When, where and with what a result was measured."""
    versions = ", ".join(f"{name} {number}" for name, number in line["versions"].items() if number)
    rounds = f"{line['rounds']} rounds, " if "rounds" in line else ""
    note = f"; {line['note']}" if "note" in line else ""
    return f"<small>{rounds}{line['date']}, commit {line['commit']}, {line['machine']}{note}; {versions}.</small>\n"
