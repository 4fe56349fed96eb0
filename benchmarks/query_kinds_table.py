"""Queries of every kind, as a table of docs/benchmarks.md."""

from typing import Any

from benchmarks.query_kinds import NAME
from benchmarks.results_files import foot, newest

INTRO = (
    "The best 20 rows; five labels, others in every round. *By kind*: each beside the conjunction. DuckDB has the "
    "logarithms of all labels in memory, and is sent the SQL of `to_sql`, or a sum as one would type it. A count "
    "over all labels reads every column, sixteen times those of the others, and has the distribution of 80 events "
    "to compute; the SQL for it needs more than 20 GB. *First search*: a conjunction of five labels that nobody was "
    "asked for before the round, in a process that has searched for others; all files are in the system's memory. The "
    "index is opened in the measured time, or before it without having read any of these columns. DuckDB in memory has "
    "made its table of all columns before; on the same files, a new connection reads them as Parquet."
)
IN_MEMORY = "DuckDB in memory"
WHY = (
    "In memory DuckDB has opened, read and converted all columns before the clock starts, and does not check what it "
    "reads. A search of an index opens the files if they are not open, verifies the checksum of every page that it "
    "reads for the first time, and reads for each of the 20 results a group of exact log odds, verified too, to rank "
    "them in float64: a cost that does not grow with the rows, and so counts most where there are few."
)


def section() -> str:
    """Each race after the other; empty without results."""
    lines = newest(NAME)
    if not lines:
        return ""
    rows = [
        "## Queries of every kind",
        "",
        INTRO,
        "",
        "| setting | | median, ms | range, ms | ratio | rounds |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for line in lines:
        for place, (name, n) in enumerate(line["contenders"].items()):
            times = f"{n['median_ms']:.1f} | {n['low_ms']:.1f}–{n['high_ms']:.1f} | {n['ratio']:.1f}"
            setting, rounds = ("", "") if place else (line["setting"], line["rounds"])
            rows.append(f"| {setting} | {name} | {times} | {rounds} |")
    measured = {key: value for key, value in lines[-1].items() if key != "rounds"}
    measured["commit"] = ", ".join(dict.fromkeys(line["commit"] for line in lines))
    return "\n".join([*rows, "", *_where_behind(lines), foot(measured)])


def _where_behind(lines: list[dict[str, Any]]) -> list[str]:
    """Where DuckDB in memory was faster than ours in the median of the rounds, and why."""
    behind = [
        f"{line['setting']}: {name} takes {n['ratio']:.2f} of {next(iter(line['contenders']))}"
        for line in lines
        for name, n in line["contenders"].items()
        if name.startswith(IN_MEMORY) and n["ratio"] < 1
    ]
    return ["### Where DuckDB is ahead", "", f"{'; '.join(behind)}. {WHY}", ""] if behind else []
