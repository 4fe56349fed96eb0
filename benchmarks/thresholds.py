"""The average-k threshold: against sorting everything, against selecting from everything, against one read."""

import subprocess
import sys
import time
import tracemalloc

import numpy as np
import torch

from benchmarks.data import single_label
from benchmarks.harness import compare, record
from shortlist.sets import average_k


def run() -> None:
    probs, _ = single_label(31_118, 1_081)
    flat, kept = probs.numpy().ravel(), 5 * len(probs)
    compare(
        "average-k-threshold",
        "31,118 × 1,081 float32, k = 5",
        {
            "shortlist": lambda: average_k(5).fit(probs),
            "shortlist, batches of 1,024 rows": lambda: average_k(5).fit(list(probs.split(1024))),
            "numpy.partition of everything": lambda: np.partition(flat, flat.size - kept),
            "numpy.sort of everything": lambda: np.sort(flat),
            "torch.sum (one read)": lambda: probs.sum(),
        },
    )
    streaming()


def streaming() -> None:
    """Cost and state of a stream that never fits: batches made on the fly, read twice, in a process of its own."""
    for rows in (8_000, 80_000, 640_000):
        command = [sys.executable, "-c", f"from benchmarks.thresholds import stream; stream({rows})"]
        subprocess.run(command, check=True)


def stream(rows: int, classes: int = 43_000, block: int = 250) -> None:
    torch.set_num_threads(2)
    made, _ = single_label(block, classes)
    reads = {"batches": 0}

    def batches() -> object:
        for _ in range(rows // block):
            reads["batches"] += 1
            yield made

    average_k(5).fit(lambda: [made])
    reads["batches"] = 0
    start = time.perf_counter()
    average_k(5).fit(batches)
    seconds = time.perf_counter() - start
    tracemalloc.start()  # selection works in numpy, which reports to it
    average_k(5).fit(batches)
    state = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    reads["batches"] //= 2
    passes = reads["batches"] * block / rows
    entries = rows * classes
    hours = seconds / entries * 12e6 * 43_000 / 3600
    record(
        "average-k-stream",
        f"{rows:,} × {classes:,} float32 in blocks of {block}",
        {"seconds": seconds, "reads": passes, "extra_memory_mb": state, "ns_per_entry": 1e9 * seconds / entries},
    )
    print(
        f"stream {rows:,} × {classes:,}: {seconds:.2f} s, {passes:.2f} reads, + {state:.1f} MB, 12 million rows: {hours:.2f} h"
    )
