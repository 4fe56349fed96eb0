"""Workers are killed at random moments, and the command that hands out the work: the parts are the same, byte for byte."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

from shortlist.cluster import Pool
from shortlist.data import Split
from shortlist.links import Softmax
from shortlist.models import Classifier, InputSpec
from shortlist.models.factories import build_network
from shortlist.runs.part_scoring import Saved, score_parts
from tests import warm
from tests.cluster.processes import descendants, title, wait_until

ROWS, PART, KILLS = 1000, 10, 10
# A network that takes its time in workers, so that there is time to kill them.
NETWORK = """
import sys, time
from torch import nn

class Slow(nn.Linear):
    def forward(self, rows):
        if "ray" in sys.modules:
            time.sleep(0.2)
        return super().forward(rows)

def make(classes):
    return Slow(3, classes)
"""
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A classifier, rows in a file, and the folder of their scores that one process writes undisturbed."""
    folder = tmp_path_factory.mktemp("kills")
    (folder / "slow_network.py").write_text(NETWORK)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        spec = InputSpec("features", 3, mean=(0.0,) * 3, std=(1.0,) * 3)
        network = build_network("slow_network:make", spec, 4)
        Classifier(network, ["ash", "birch", "elm", "oak"], link=Softmax()).save(folder / "classifier")
        np.savez(folder / "rows.npz", features=torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(0)).numpy())
        calm = [sys.executable, "-m", "shortlist", *command(folder, folder / "calm")]
        subprocess.run(calm, cwd=folder, check=True, capture_output=True)
        yield folder
    sys.modules.pop("slow_network", None)


def command(place, out):
    where = (place / "classifier", place / "rows.npz", "--out", out, "--rows-per-part", PART, "--batch-size", PART)
    return ["predict", *map(str, (*where, "--network", "slow_network:make", "--device", "cpu"))]


def parts(folder):
    return len(list(folder.glob("part-*.parquet")))


def assert_same(folder, calm, but=()):
    """Whether two folders hold the same files, with the same bytes but for some names."""
    names = sorted(path.name for path in calm.iterdir() if not path.name.startswith("."))
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == names
    assert len([name for name in names if name.startswith("part-")]) == ROWS // PART
    for name in set(names) - set(but):
        assert (folder / name).read_bytes() == (calm / name).read_bytes(), name


def workers_here():
    """The processes of workers of this process's cluster that are at a task."""
    return {pid for pid in descendants(os.getpid()) if title(pid).startswith("ray::Worker.answer")}


def test_ten_workers_are_killed(place, tmp_path, ray):
    inputs = torch.from_numpy(np.load(place / "rows.npz")["features"])
    rows = Split(inputs, None, [str(row) for row in range(ROWS)])
    model = Saved(place / "classifier", "cpu", network="slow_network:make", where=str(place))
    draws, over, killed, done = random.Random(0), threading.Event(), [], []

    def kill():
        while len(killed) < KILLS and not over.is_set():
            before, more = len(done), draws.randrange(1, 6)  # of the hundred parts
            while len(done) < before + more and not over.wait(0.01):
                pass
            over.wait(draws.uniform(0, 0.3))
            if busy := workers_here():
                killed.append(draws.choice(sorted(busy)))
                os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    pool, turn, how = Pool(ray, 2), 0, {"batch_size": PART, "rows_per_part": PART}
    try:
        while len(killed) < KILLS or not turn:
            folder, turn = tmp_path / f"scores {turn}", turn + 1
            score_parts(folder, model, rows, **how, each=pool.each, progress=done.append)
            assert_same(folder, place / "calm", but=["manifest.json"])  # which names the settings of the command
    finally:
        over.set()
        killer.join()
        pool.close()
    assert len(set(killed)) == KILLS
    wait_until(lambda: not [pid for pid in killed if title(pid)], "a worker that was killed is there")


def test_the_command_is_killed_ten_times(place, tmp_path, ray):
    """It hands out the work: its workers end with it, and the next one goes on with what is there."""
    folder, draws = tmp_path / "scores", random.Random(0)
    joined = ("--engine", "ray", "--address", ray.get_runtime_context().gcs_address, "--workers", "2")

    def started():
        return warm.Program("from shortlist.cli import main; main()", *command(place, folder), *joined, folder=place)

    finished = []
    for goal in sorted(draws.sample(range(ROWS // PART * 3 // 4), KILLS)):
        with started() as program:
            wait_until(lambda goal=goal: workers_here() and parts(folder) >= goal, f"no {goal} parts were written")
            time.sleep(draws.uniform(0, 0.3))
            program.kill()
        assert program.returncode == -signal.SIGKILL
        finished.append(parts(folder))
        wait_until(lambda: not workers_here(), "workers go on without the command")
    with started() as program:
        _, err = program.communicate()
    assert program.returncode == 0, err
    assert finished[-1] > finished[0]
    assert "parts are there already" in err
    assert_same(folder, place / "calm")
