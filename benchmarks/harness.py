"""Runs contenders round by round, keeps every result as a line of JSON, and never measures one without its rivals."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from shortlist.training.provenance import commit

RESULTS = Path(__file__).parent / "results"
NOTE = "BENCHMARKS_NOTE"  # what else a reader should know, such as that the machine was busy
# Set on a busy machine, where the time of day measures the others; for contenders of one thread.
PROCESSOR_TIME = "BENCHMARKS_PROCESSOR_TIME"
PACKAGES = (
    "torch",
    "numpy",
    "scikit-learn",
    "torchmetrics",
    "mapie",
    "crepes",
    "nonconformist",
    "puncc",
    "netcal",
    "betacal",
    "venn-abers",
    "pytopk",
    "entmax",
)


def compare(name: str, setting: str, contenders: dict[str, Callable[[], Any]], *, rounds: int = 7, warm: bool = False) -> None:
    """Time the contenders in turn, round after round, so that a noisy moment meets all of them; ours is the first.

    With ``warm`` each runs twice and the second time counts: what takes a fraction of a millisecond would otherwise pay for
    the caches and the memory that the one before it left behind.
    """
    times = in_turns(contenders, rounds=rounds, warm=warm)
    ours = times[next(iter(times))]
    found = {
        contender: {
            "median_ms": 1e3 * statistics.median(seconds),
            "low_ms": 1e3 * min(seconds),
            "high_ms": 1e3 * max(seconds),
            "ratio": statistics.median(theirs / own for theirs, own in zip(seconds, ours, strict=True)),
        }
        for contender, seconds in times.items()
    }
    record(name, setting, {"rounds": rounds, "contenders": found})
    for contender, numbers in found.items():
        print(f"{name:28} {setting:34} {contender:34} {numbers['median_ms']:10.2f} ms   × {numbers['ratio']:.2f}")


def in_turns(contenders: dict[str, Callable[[], Any]], *, rounds: int, warm: bool = False) -> dict[str, list[float]]:
    """The seconds of each contender in each round, after a run of each that does not count."""
    clock = time.process_time if os.environ.get(PROCESSOR_TIME) else time.perf_counter
    for run in contenders.values():
        run()
    times: dict[str, list[float]] = {contender: [] for contender in contenders}
    for _ in range(rounds):
        for contender, run in contenders.items():
            if warm:
                run()
            start = clock()
            run()
            times[contender].append(clock() - start)
    return times


def record(name: str, setting: str, measured: dict[str, Any]) -> None:
    """Append one result to the file of its benchmark."""
    RESULTS.mkdir(exist_ok=True)
    line = {
        "benchmark": name,
        "setting": setting,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": (commit() or "unknown")[:7],
        "machine": _machine(),
        "versions": {package: _version(package) for package in PACKAGES},
        **({"note": os.environ[NOTE]} if os.environ.get(NOTE) else {}),
        **measured,
    }
    with (RESULTS / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def _machine() -> str:
    model = platform.processor() or "unknown"
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next((line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line), model)
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{model}, {os.cpu_count()} cores, {torch.get_num_threads()} threads{gpu}, Python {platform.python_version()}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
