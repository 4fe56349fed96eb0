"""The section of docs/benchmarks.md on a head and its loss together, from the newest results."""

from typing import Any

from benchmarks.results_files import foot, newest

CAPTION = (
    "`loss_of_linear` against the loss of scores that are computed first, forward and backward: time, called from Python and "
    "after the stroke replayed from a CUDA graph, and the peak of memory above inputs, weights and their gradients."
)
PARTS_CAPTION = (
    "Milliseconds of the device in one call, by torch's profiler: matrix products; the kernels of the loss; and the rest: "
    "sums for the bias, conversions to half precision and back, and the product with the incoming gradient. What a head with "
    "its loss takes more is in the products: those of a chunk are less efficient than those of all rows, they sum the gradient "
    "of the weight in float32 and that of the bias as well, and average-k computes its proposal scores several times."
)
CHUNKS_CAPTION = (
    "Milliseconds replayed and megabytes of peak memory by the rows that are computed at once. Each chunk adds to the gradient "
    "of the weight, which is read and written in float32: 264 MB here, while the scores of 1,024 rows are 88 MB. Fewer, larger "
    "chunks are faster and need more memory; by default a chunk is a quarter of the rows, within bounds."
)
PRODUCTS, REST = ("nvjet", "gemm", "cutlass"), "of torch"


def section() -> str:
    """The tables; nothing without results."""
    called = newest("linear-losses")
    if not called:
        return ""
    replayed, memory = (
        {line["setting"]: line for line in newest(f"linear-{name}")} for name in ("losses-replayed", "loss-memory")
    )
    rows = ["## A head and its loss together", "", CAPTION, ""]
    rows += ["| | scores first, ms | together | scores first, MB | together |", "|---|---:|---:|---:|---:|"]
    for line in called:
        setting = line["setting"]
        both = [part["contenders"]["scores first"] for part in (line, replayed.get(setting, line))]
        mine, theirs = (memory[setting]["extra_mb"][way] for way in ("together", "scores first"))
        times = " / ".join(f"{n['median_ms']:.2f}" for n in both)
        shares = " / ".join(f"× {1 / n['ratio']:.2f}" for n in both)
        rows.append(f"| {setting} | {times} | {shares} | {theirs:.0f} | × {mine / theirs:.2f} |")
    return "\n".join([*rows, "", foot(called[-1]), *_parts(called), *_chunks()])


def _parts(called: list[dict[str, Any]]) -> list[str]:
    """Where the time of the device goes."""
    found = {line["setting"]: line for line in newest("linear-loss-kernels")}
    if not found:
        return []
    rows = ["", "### Where a head with its loss spends its time", "", PARTS_CAPTION, ""]
    rows += ["| | | launches | products | loss | rest | together |", "|---|---|---:|---:|---:|---:|---:|"]
    for line in called:
        for way in ("scores first", "together"):
            measured = found.get(f"{line['setting']}, {way}")
            if measured is not None:
                rows.append(_part(line["setting"].split(", 4,096")[0], way, measured))
    return rows


def _part(name: str, way: str, measured: dict[str, Any]) -> str:
    times = measured["microseconds"]
    products = sum(time for kernel, time in times.items() if any(part in kernel for part in PRODUCTS))
    rest = times.get(REST, 0.0)
    whole = sum(times.values())
    numbers = " | ".join(f"{time / 1e3:.2f}" for time in (products, whole - products - rest, rest, whole))
    return f"| {name} | {way} | {measured['launches']:g} | {numbers} |"


def _chunks() -> list[str]:
    """Time and memory by the size of a chunk."""
    lines = newest("linear-loss-chunks")
    if not lines:
        return []
    sizes = list(lines[0]["rows_at_once"])
    rows = ["", "### By the size of a chunk", "", CHUNKS_CAPTION, ""]
    rows += ["| | " + " | ".join(f"{int(size):,} rows" for size in sizes) + " |", "|---|" + "---:|" * len(sizes)]
    for line in lines:
        cells = [f"{found['median_ms']:.2f} ms, {found['extra_mb']:.0f} MB" for found in line["rows_at_once"].values()]
        rows.append(f"| {line['setting']} | " + " | ".join(cells) + " |")
    return [*rows, "", foot(lines[-1])]
