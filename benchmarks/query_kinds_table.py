"""Queries of every kind, as a table of docs/benchmarks.md."""

from benchmarks.query_kinds import NAME
from benchmarks.results_files import foot, newest

INTRO = (
    "The best 20 rows; five labels, others in every round. *By kind*: each beside the conjunction. DuckDB has the "
    "logarithms of all labels in memory, and is sent the SQL of `to_sql`, or a sum as one would type it. A count "
    "over all labels reads every column, sixteen times those of the others, and has the distribution of 80 events "
    "to compute; the SQL for it needs more than 20 GB."
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
        "| setting | | median, ms | range, ms | ratio |",
        "|---|---|---:|---:|---:|",
    ]
    for line in lines:
        for place, (name, n) in enumerate(line["contenders"].items()):
            times = f"{n['median_ms']:.1f} | {n['low_ms']:.1f}–{n['high_ms']:.1f} | {n['ratio']:.1f}"
            rows.append(f"| {'' if place else line['setting']} | {name} | {times} |")
    return "\n".join([*rows, "", foot(lines[-1])])
