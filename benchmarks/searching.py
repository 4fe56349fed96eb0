"""A query of five labels over millions of scored rows: our index against numpy in memory and DuckDB on the same files.

``python -m benchmarks searching`` writes 10 GB to a temporary folder and takes some minutes. Rows are independent and in random
order unless a setting says otherwise, so that no group of rows is hopeless; every round asks another query.
"""

import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import record
from shortlist import Predictions
from shortlist.retrieval import Index, Query

LABELS, BEST, LENGTH = 80, 20, 5
PEAK = """
import json, sys
from shortlist.retrieval import Index
index = Index.open(sys.argv[1])
for text in json.loads(sys.argv[2]):
    index.search(text)
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024)  # of this program alone; getrusage counts the parent before it
"""


def scores_of(rows: int, labels: int = LABELS, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.empty(rows, labels)
    for part in scores.split(1_000_000):
        part.normal_(-2, 2, generator=generator)
    return scores


def predictions_of(scores: torch.Tensor) -> Predictions:
    return Predictions(scores, classes=[f"label {place}" for place in range(scores.shape[1])], link="sigmoid")


def queries(number: int, labels: int, length: int = LENGTH, seed: int = 1) -> list[tuple[str, list[int], list[int]]]:
    """Texts, and the labels that each wants and does not want."""
    draw, found = random.Random(seed), []
    for _ in range(number):
        chosen = draw.sample(range(labels), length)
        present, absent = sorted(chosen[:3]), sorted(chosen[3:])
        terms = [f'"label {place}"' for place in present] + [f'not "label {place}"' for place in absent]
        found.append((" and ".join(terms), present, absent))
    return found


def by_numpy(probs: np.ndarray, present: list[int], absent: list[int]) -> np.ndarray:
    """The best rows, from probabilities in memory."""
    scores = np.log(probs[:, present]).sum(1) + np.log1p(-probs[:, absent]).sum(1)
    best = np.argpartition(scores, len(scores) - BEST)[-BEST:]
    return best[np.argsort(-scores[best], kind="stable")]


def by_numpy_from_logs(logs: np.ndarray, labels: list[int]) -> np.ndarray:
    """The same where the matrix holds the logarithms already, and all labels are wanted: five columns and their sum."""
    scores = logs[:, labels].sum(1)
    best = np.argpartition(scores, len(scores) - BEST)[-BEST:]
    return best[np.argsort(-scores[best], kind="stable")]


def by_command(path: Path, text: str) -> None:
    """A new process that loads the program, opens the index, searches and prints."""
    subprocess.run([sys.executable, "-m", "shortlist", "search", text, str(path)], capture_output=True, check=True)


def race(
    setting: str,
    contenders: dict[str, Callable[[int], Any]],
    rounds: int,
    more: dict[str, Any],
    benchmark: str = "searching",
    *,
    asked_before: bool = True,
) -> dict[str, float]:
    """Each with the query of its round, which it has been asked once before, or never; ours is the first."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):  # the first warms up
        for name, run in contenders.items():
            if asked_before:
                run(turn)
            start = time.perf_counter()
            run(turn)
            times[name] += [time.perf_counter() - start] if turn else []
    ours = next(iter(times.values()))
    found = {
        name: {
            "median_ms": 1e3 * statistics.median(seconds),
            "low_ms": 1e3 * min(seconds),
            "high_ms": 1e3 * max(seconds),
            "ratio": statistics.median(one / own for one, own in zip(seconds, ours, strict=True)),
        }
        for name, seconds in times.items()
    }
    record(benchmark, setting, {"rounds": rounds, "contenders": found, **more})
    print(setting, {name: f"{n['median_ms']:.1f} ms, x {n['ratio']:.1f}" for name, n in found.items()}, more, flush=True)
    return {name: n["median_ms"] for name, n in found.items()}


def peak_memory(path: Path, texts: list[str]) -> float:
    """Megabytes of a process that does nothing but open the index and search."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path), json.dumps(texts)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def large(folder: Path, rows: int, rounds: int) -> None:
    """Ten million rows against everybody."""
    scores = scores_of(rows)
    start = time.perf_counter()
    index = Index.build(predictions_of(scores), folder / "large")
    built = time.perf_counter() - start
    asked = queries(rounds + 1, LABELS)
    probs = scores.sigmoid_().numpy()
    for text, present, absent in asked[:2]:  # a race between different answers is none
        assert [result.row for result in index.search(text, BEST)] == by_numpy(probs, present, absent).tolist()
    contenders: dict[str, Callable[[int], Any]] = {
        "shortlist": lambda turn: index.search(asked[turn][0], BEST),
        "numpy, probabilities in memory": lambda turn: by_numpy(probs, *asked[turn][1:]),
        "DuckDB on the same files": lambda turn: index.search(asked[turn][0], BEST, engine="duckdb"),
        "shortlist, the index opened anew": lambda turn: Index.open(folder / "large").search(asked[turn][0], BEST),
        "shortlist, the whole command line": lambda turn: by_command(folder / "large", asked[turn][0]),
    }
    more = {"build_seconds": built, "peak_memory_mb": peak_memory(folder / "large", [text for text, *_ in asked])}
    race(f"{rows:,} rows × {LABELS} labels, {LENGTH} labels asked, random order", contenders, rounds, more)
    logs = np.log(probs, out=probs)
    wanted = [sorted(present + absent) for _, present, absent in asked]
    texts = [" and ".join(f'"label {place}"' for place in labels) for labels in wanted]
    contenders = {
        "shortlist": lambda turn: index.search(texts[turn], BEST),
        "numpy, logarithms in memory": lambda turn: by_numpy_from_logs(logs, wanted[turn]),
    }
    race(f"{rows:,} rows × {LABELS} labels, {LENGTH} labels wanted, random order", contenders, rounds, {})
    shutil.rmtree(folder / "large")


def alone(folder: Path, setting: str, scores: torch.Tensor, rounds: int, asked: list[str] | None = None) -> None:
    """Our index alone: how it grows, and what it need not read."""
    start = time.perf_counter()
    index = Index.build(predictions_of(scores), folder / "one")
    built = time.perf_counter() - start
    texts = asked or [text for text, *_ in queries(rounds + 1, scores.shape[1])]
    read = [index.search(Query.parse(text, index.classes), BEST).read for text in texts]
    groups = sum(segment.groups for segment in index.snapshot.segments)
    more = {"build_seconds": built, "groups": groups, "read": statistics.mean(read)}
    race(setting, {"shortlist": lambda turn: index.search(texts[turn], BEST)}, rounds, more)
    shutil.rmtree(folder / "one")


def run(rows: int = 10_000_000, rounds: int = 7) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count in (100_000, 1_000_000, 3_000_000):
            alone(folder, f"{count:,} rows × {LABELS} labels, random order", scores_of(count), rounds)
        for labels in (20, 320):
            alone(folder, f"1,000,000 rows × {labels} labels, random order", scores_of(1_000_000, labels), rounds)
        scores = scores_of(3_000_000)
        first = ['"label 0" and not "label 1"'] * (rounds + 1)
        alone(folder, "3,000,000 rows, two labels, random order", scores, rounds, first)
        order = scores[:, 0].argsort(descending=True)
        alone(folder, "3,000,000 rows, two labels, sorted by one of them", scores[order], rounds, first)
        large(folder, rows, rounds)
