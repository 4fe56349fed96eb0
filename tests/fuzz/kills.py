"""Processes that are killed at random moments: what they leave is whole, and going on loses nothing."""

import random
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from shortlist.retrieval import Index
from tests.retrieval.small import predictions
from tests.retrieval.test_killed import ROWS, killed_after

ROOT = str(Path(__file__).parents[2])
TRAINING = """
import sys
sys.path.insert(0, sys.argv[2])
import torch
torch.set_num_threads(1)
from tests.training.small import run, dataset
print("ready", flush=True)
run(sys.argv[1], dataset(240), resume=sys.argv[3] == "resume", method="average-k", epochs=4, augmentation="shift-flip", ema=0.9,
    backbone="resnet-8", checkpoint_seconds=0.05)
print("ended", flush=True)
"""


def index_survives_a_kill(draw: random.Random, folder: Path) -> None:
    """A writer of an index is killed: the index is whole, and can be searched and written."""
    path = folder / "index"
    Index.build(predictions(ROWS, seed=1), path)
    kind = draw.choice(["add", "change"])
    for _ in range(2):
        before = len(Index.open(path))
        killed_after(draw.uniform(0, 1.5), path, kind)
        index = Index.open(path)
        assert index.check() == []
        assert len(index.search("fork and not bus", 50)) == 50
        assert kind == "change" or (len(index) - before) % ROWS == 0
    index.add(predictions(10, seed=2))
    assert {file.name for file in path.iterdir()} == index.manifest.files()


def training_survives_a_kill(draw: random.Random, folder: Path) -> None:
    """A training is killed once or twice and resumed: its weights are those of one that was not, to the last bit."""
    expected, seconds = _whole_training()
    path = folder / "cut"
    for _ in range(draw.randint(1, 2)):
        with _started(path) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(draw.uniform(0, seconds))
            process.send_signal(signal.SIGKILL)
    with _started(path) as process:
        assert "ended" in process.communicate()[0], "resuming failed"
    assert (path / "classifier" / "model.safetensors").read_bytes() == expected


@cache
def _whole_training() -> tuple[bytes, float]:
    path = Path(mkdtemp()) / "whole"
    with _started(path) as process:
        assert process.stdout.readline() == "ready\n"
        start = time.monotonic()
        assert "ended" in process.communicate()[0]
    return (path / "classifier" / "model.safetensors").read_bytes(), time.monotonic() - start


def _started(path: Path):
    how = "resume" if (path / "recipe.json").exists() else "new"
    command = [sys.executable, "-c", TRAINING, str(path), ROOT, how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
