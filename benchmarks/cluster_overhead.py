"""``predict --engine ray`` beside ``predict``, on the same cores: wall-clock time, with and without the start of Ray.

``python -m benchmarks cluster_overhead`` scores 20,000 JPEG files a few times both ways; ``ROWS=1000000`` in the environment
scores as many. The folders must be equal, byte for byte. The machine should be quiet.
"""

import filecmp
import io
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch
from PIL import Image

from benchmarks.harness import record
from benchmarks.marked_tables import write_table
from benchmarks.results_files import foot, newest
from shortlist import cluster
from shortlist.data import PictureFiles, Split
from shortlist.links import Softmax
from shortlist.machine import usable_cores
from shortlist.models import Classifier, InputSpec, Network
from shortlist.runs.part_scoring import Saved, score_parts

NAME, PAGE = "cluster-overhead", "cluster.md"
BEGIN, END = "<!-- overhead: written by `python -m benchmarks page` -->\n", "<!-- end of overhead -->\n"
CLASSES, SIDE, BATCH = 100, 32, 256
DIFFERENT = 1_000  # pictures; the others are links to them
ROUNDS = int(os.environ.get("ROUNDS", "3"))
ROWS = int(os.environ.get("ROWS", "20000"))


def run() -> None:
    """Both ways in turns, and once more whatever Ray takes to start."""
    times: dict[str, list[float]] = {"alone": [], "start": [], "ray": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows, model = pictures(folder / "pictures"), classifier(folder / "classifier")
        for turn in range(ROUNDS):
            times["alone"].append(_seconds(lambda: score_parts(folder / "alone", model, rows, batch_size=BATCH)))
            begin = time.perf_counter()
            with cluster.pool(workers=usable_cores()) as pool:
                for _ in pool.each(_ready, range(pool.size)):  # all workers have begun
                    pass
                times["start"].append(time.perf_counter() - begin)
                times["ray"].append(
                    _seconds(
                        lambda pool=pool: score_parts(folder / "ray", model, rows, batch_size=BATCH, each=pool.each, threads=1)
                    )
                )
            if not same(folder / "alone", folder / "ray"):
                raise AssertionError(f"turn {turn}: the folders differ")
            for written in ("alone", "ray"):
                shutil.rmtree(folder / written)
    ratios = [ray / alone for ray, alone in zip(times["ray"], times["alone"], strict=True)]
    with_start = [(ray + start) / alone for ray, start, alone in zip(times["ray"], times["start"], times["alone"], strict=True)]
    found = {
        "rounds": ROUNDS,
        "rows": ROWS,
        "workers": usable_cores(),
        "seconds": times,
        "ratio": [statistics.median(ratios), min(ratios), max(ratios)],
        "ratio_with_start": [statistics.median(with_start), min(with_start), max(with_start)],
    }
    record(NAME, f"{ROWS:,} JPEG files of {SIDE} pixels, {CLASSES} classes", found)
    print(f"alone {times['alone']}, start {times['start']}, ray {times['ray']}: × {statistics.median(ratios):.2f}")


def _ready(place: int) -> int:
    return place


def _seconds(work) -> float:  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def pictures(folder: Path) -> Split:
    """JPEG files with some detail."""
    folder.mkdir()
    generator = torch.Generator().manual_seed(0)
    for number in range(ROWS):
        path = folder / f"{number:07}.jpg"
        if number < DIFFERENT:
            path.write_bytes(_jpeg(generator))
        else:
            os.link(folder / f"{number % DIFFERENT:07}.jpg", path)
    names = [f"{number:07}.jpg" for number in range(ROWS)]
    return Split(PictureFiles(folder, names), None, names)


def _jpeg(generator: torch.Generator) -> bytes:
    coarse = torch.randint(256, (3, 8, 8), generator=generator).float()
    fine = torch.nn.functional.interpolate(coarse[None], size=(SIDE, SIDE), mode="bicubic")[0].clamp(0, 255).byte()
    content = io.BytesIO()
    Image.fromarray(fine.permute(1, 2, 0).numpy()).save(content, "jpeg", quality=90)
    return content.getvalue()


def classifier(folder: Path) -> Saved:
    """A small convolutional network, whose weights do not matter."""
    torch.manual_seed(0)
    inputs = InputSpec("pictures", SIDE, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    network = Network("resnet-8", "linear", inputs, CLASSES).eval()
    Classifier(network, [str(label) for label in range(CLASSES)], link=Softmax()).save(folder)
    return Saved(folder, "cpu")


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files."""
    names = sorted(path.name for path in one.iterdir() if not path.name.startswith("."))
    there = sorted(path.name for path in other.iterdir() if not path.name.startswith("."))
    return names == there and not any(filecmp.cmpfiles(one, other, names, shallow=False)[1:])


def table() -> str:
    """The table of the page; empty without results."""
    lines = newest(NAME)
    if not lines:
        return ""
    rows = [
        "| pictures | one process | workers of Ray | ratio | Ray starts in | ratio with the start |",
        "|---:|" + "---:|" * 5,
    ]
    for line in lines:
        alone, start, ray = (statistics.median(line["seconds"][name]) for name in ("alone", "start", "ray"))
        first, second = (_with_range(line[name]) for name in ("ratio", "ratio_with_start"))
        rows.append(f"| {line['rows']:,} | {alone:,.1f} s | {ray:,.1f} s | {first} | {start:.0f} s | {second} |")
    what = (
        f"JPEG files of {SIDE} pixels, {CLASSES} classes, on the same {lines[-1]['workers']} cores; medians, ratios with "
        "their range. The folders are equal, byte for byte."
    )
    return "\n".join([*rows, "", what, "", foot(lines[-1])])


def _with_range(found: list[float]) -> str:
    return f"{found[0]:.2f} ({found[1]:.2f}–{found[2]:.2f})"


def write() -> None:
    """Put the table into its page."""
    write_table(PAGE, table(), BEGIN, END)
