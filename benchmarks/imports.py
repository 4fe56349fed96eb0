"""What ``import shortlist`` adds to ``import torch``."""

import statistics
import subprocess
import sys

from benchmarks.harness import record

CODE = "import time, torch; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"


def run() -> None:
    for module in ("shortlist", "shortlist.sets", "shortlist.metrics", "shortlist.cli", "torchmetrics"):
        command = [sys.executable, "-c", CODE.format(module=module)]
        seconds = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(5)]
        record("import-time", f"import {module}, after torch", {"rounds": 5, "seconds": statistics.median(seconds)})
        print(f"import {module}: {statistics.median(seconds):.3f} s beyond torch")
