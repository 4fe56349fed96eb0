"""10,000 pictures from a folder, a CSV and a Parquet file: pictures a second and peak memory, against plain Pillow."""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from benchmarks.harness import record
from shortlist.data import Flora

PICTURES, SIDE, SIZE = 10_000, 256, 64
OURS = """
import sys, time
from shortlist.data import open_dataset, picture_batches
import shortlist.data.loading, shortlist.data.readers.picture_table
start = time.perf_counter()
split = open_dataset(sys.argv[1]).splits["all"]
count = sum(len(batch) for batch in picture_batches(split.inputs, size=64))
print(count, time.perf_counter() - start)
"""
PLAIN = """
import sys, time
from pathlib import Path
import numpy as np
from PIL import Image
start = time.perf_counter()
count = 0
for path in Path(sys.argv[1]).rglob("*.jpg"):
    np.asarray(Image.open(path).convert("RGB").resize((64, 64), Image.Resampling.BILINEAR))
    count += 1
print(count, time.perf_counter() - start)
"""
WATCH = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], check=True, capture_output=True, text=True)
print(done.stdout.strip(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def run(rounds: int = 3) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _make(root)
        sources = {"folder": root / "pictures", "CSV": root / "pictures.csv", "Parquet": root / "pictures.parquet"}
        sources |= {"Parquet of bytes": root / "bytes.parquet"}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in (*sources, "plain loop of Pillow")}
        for _ in range(rounds):
            for name, path in sources.items():
                found[name].append(_measured(OURS, path))
            found["plain loop of Pillow"].append(_measured(PLAIN, root / "pictures"))
    for name, runs in found.items():
        rates = sorted(PICTURES / seconds for seconds, _ in runs)
        peak = max(memory for _, memory in runs)
        numbers = {"rate": rates[len(rates) // 2], "low": rates[0], "high": rates[-1], "peak_memory_mb": peak, "rounds": rounds}
        record("decoding", name, numbers)
        print(f"{name:24} {numbers['rate']:8.0f} pictures a second, peak {peak:.0f} MB")


def _make(root: Path) -> None:
    """Pictures of 256 px as JPEG, in a hundred classes, listed in tables too."""
    flora = Flora(species=100, genera=20, abundance="balanced")
    images, target, _ = flora.specimens(PICTURES // 20, seed=1, size=SIDE)
    rows = []
    for row in range(PICTURES):
        label = int(target[row % len(images)])
        path = root / "pictures" / flora.classes[label] / f"{row}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[row % len(images)].permute(1, 2, 0).numpy()).save(path, quality=90)
        rows.append((path.relative_to(root).as_posix(), flora.classes[label]))
    with (root / "pictures.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *rows])
    paths, labels = zip(*rows, strict=True)
    pq.write_table(pa.table({"path": paths, "label": labels}), root / "pictures.parquet")
    contents = [(root / path).read_bytes() for path in paths]
    pq.write_table(pa.table({"image": pa.array(contents, pa.binary()), "label": labels}), root / "bytes.parquet")


def _measured(code: str, path: Path) -> tuple[float, float]:
    """Seconds from the path to the last picture, without imports, and the peak memory of the process in MB."""
    command = [sys.executable, "-c", WATCH, sys.executable, "-c", code, str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    count, seconds, memory = answer.stdout.split()
    assert int(count) == PICTURES
    return float(seconds), int(memory) / 1024
