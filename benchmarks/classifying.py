"""Pictures a second of a whole classifier, from raw bytes or JPEG files to sets, against its backbone alone; on a GPU.

``python -m benchmarks classifying`` takes four minutes. The backbone's batch lies ready on the GPU, standardised. How long the
worker processes take to hand over their first batch, and how many pictures a second follow, is recorded too: of few pictures
the beginning takes a share that says nothing about many.
"""

import io
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from benchmarks.harness import record
from shortlist.data import PictureFiles
from shortlist.data.loading import picture_batches
from shortlist.links import Softmax
from shortlist.models import Classifier, InputSpec, Network
from shortlist.sets import average_k

CLASSES = 100
RAW, FILES = "raw bytes to sets", "JPEG files to sets"
SETTINGS = (
    ("resnet-18", 32, 40_000, 512),
    ("torchvision:resnet50", 224, 40_000, 256),
    ("torchvision:resnet50", 224, 120_000, 256),
)
DIFFERENT = 512  # raw pictures, which are repeated: drawing many takes longer than classifying them


def _classifier(backbone: str, side: int) -> Classifier:
    inputs = InputSpec("pictures", side, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    network = Network(backbone, "linear", inputs, CLASSES).eval()
    rule = average_k(5).fit(torch.rand(2_000, CLASSES).softmax(1))
    return Classifier(network, [str(label) for label in range(CLASSES)], link=Softmax(), rule=rule).cuda()


def _files(folder: Path, count: int, side: int) -> PictureFiles:
    """JPEG files of a picture with some detail, a third larger than what the network sees."""
    coarse = torch.randint(256, (3, 12, 9), generator=torch.Generator().manual_seed(0)).float()
    size = (side * 4 // 3, side)
    fine = torch.nn.functional.interpolate(coarse[None], size=size, mode="bicubic")[0].clamp(0, 255).byte()
    picture = Image.fromarray(fine.permute(1, 2, 0).numpy())
    content = io.BytesIO()
    picture.save(content, "jpeg", quality=90)
    names = [f"{number}.jpg" for number in range(count)]
    for name in names:
        (folder / name).write_bytes(content.getvalue())
    return PictureFiles(folder, names)


def _feeding(files: PictureFiles, side: int, batch: int) -> dict[str, float]:
    """What the worker processes do when nothing uses their batches: seconds until the first, then pictures a second."""
    start = time.perf_counter()
    batches = picture_batches(files, size=side, batch=batch, pin=True)
    next(batches)
    first = time.perf_counter()
    rest = sum(map(len, batches))
    return {"first_batch_seconds": first - start, "pictures_per_second": rest / (time.perf_counter() - first)}


def _seconds(work: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _in_turns(contenders: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contender in each round; a round before them warms up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, work in contenders.items():
            seconds = _seconds(work)
            times[name] += [seconds] if turn else []
    return times


def run(rounds: int = 3) -> None:
    for setting in SETTINGS:
        _measure(*setting, rounds)


def _measure(backbone: str, side: int, rows: int, batch: int, rounds: int) -> None:
    classifier = _classifier(backbone, side)
    ready = classifier.inputs.prepare(torch.randint(256, (batch, 3, side, side), dtype=torch.uint8).cuda())

    def alone() -> None:
        with torch.inference_mode():
            for _ in range(rows // batch):
                classifier.network.backbone(ready)

    # Files first, while nothing large is in memory, as where files are classified: a fork copies the tables of all pages.
    with tempfile.TemporaryDirectory() as folder:
        files = _files(Path(folder), rows, side)
        feeding = _feeding(files, side, batch)
        times = _in_turns({"backbone alone": alone, FILES: lambda: classifier.predict(files, batch_size=batch)}, rounds)
    images = torch.randint(256, (DIFFERENT, 3, side, side), dtype=torch.uint8).repeat(-(-rows // DIFFERENT), 1, 1, 1)[:rows]
    times = _in_turns({RAW: lambda: classifier.predict(images, batch_size=batch)}, rounds) | times
    _tell(f"{backbone}, {side} px, {rows:,} pictures, batch {batch}, {torch.cuda.get_device_name()}", rows, times, feeding)


def _tell(setting: str, rows: int, times: dict[str, list[float]], feeding: dict[str, float]) -> None:
    middle = {name: sorted(seconds)[len(seconds) // 2] for name, seconds in times.items()}
    found = {
        name: {
            "median_ms": 1e3 * middle[name],
            "low_ms": 1e3 * min(seconds),
            "high_ms": 1e3 * max(seconds),
            "ratio": middle[name] / middle[RAW],
        }
        for name, seconds in times.items()
    }
    rounds = len(times["backbone alone"])
    record(
        "classifying",
        setting,
        {"rounds": rounds, "rows": rows, "cores": os.cpu_count(), "feeding": feeding, "contenders": found},
    )
    share = {name: round(middle["backbone alone"] / seconds, 3) for name, seconds in middle.items()}
    print(
        setting,
        {name: round(rows / seconds) for name, seconds in middle.items()},
        "share of backbone",
        share,
        feeding,
        flush=True,
    )
