"""10,000 × 43,000 float16 scores through sets, evaluate and report: time and peak memory of each command."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.harness import record
from shortlist import Predictions

ROWS, CLASSES = 10_000, 43_000


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.safetensors"
        _make(path)
        for command, out in (("sets", "sets.parquet"), ("evaluate", None), ("report", "report.html")):
            arguments = [command, str(path), "--rule", "average-k:5", "--split", "0.5"]
            arguments += ["--out", str(Path(folder) / out)] if out else []
            _measure(command, arguments)


def _make(path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.empty(ROWS, CLASSES, dtype=torch.float16)
    target = torch.randint(CLASSES, (ROWS,), generator=generator)
    for start in range(0, ROWS, 500):
        block = 2 * torch.randn(500, CLASSES, generator=generator)
        block[torch.arange(500), target[start : start + 500]] += 9
        scores[start : start + 500] = block
    Predictions(scores, target, link="softmax").save(path)


def _measure(command: str, arguments: list[str]) -> None:
    code = "import sys; from shortlist.cli import main; sys.argv[0] = 'shortlist'; main()"
    start = time.perf_counter()
    watched = [sys.executable, "-c", WATCH, sys.executable, "-c", code, *arguments]
    answer = subprocess.run(watched, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    peak = int(answer.stdout.splitlines()[-1]) / 1024
    record("big-file", f"shortlist {command}, {ROWS:,} × {CLASSES:,} float16", {"seconds": seconds, "peak_memory_mb": peak})
    print(f"{command}: {seconds:.1f} s, peak {peak:.0f} MB")


WATCH = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
