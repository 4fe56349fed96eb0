"""An index whose writers are killed at any moment can be read at any moment."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from shortlist.errors import InputError
from shortlist.retrieval import Index
from tests import warm
from tests.retrieval.small import LABELS, predictions

ROWS = 3_000
WRITER = f"""
import sys, torch
from shortlist import Predictions
from shortlist.retrieval import Index, segments
segments.SEARCHED_GROUP = segments.RECORD_GROUP = 256
path, labels, kind = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
scores = torch.randn({ROWS}, len(labels), generator=torch.Generator().manual_seed(1))
print("ready", flush=True)
if kind == "build":
    Index.build(Predictions(scores, classes=labels, link="sigmoid"), path)
for turn in range(1000):
    index = Index.open(path)
    if kind == "add":
        index.add(Predictions(scores, classes=labels, link="sigmoid"))
    elif kind == "change":
        index.add(Predictions(scores[:300], classes=labels, link="sigmoid"))
        index.delete([result.id for result in index.search("fork", 100)])
        index.compact()
    print("turn", flush=True)
"""


def killed_after(seconds, path, kind):
    """Start a writer, and kill it so long after it has begun; how often it got round."""
    with warm.Program(WRITER, path, ",".join(LABELS), kind) as writer:
        assert writer.stdout.readline() == "ready\n"
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        return writer.stdout.read().count("turn")


def time_of_a_build(path):
    """Seconds, on this machine as it is now."""
    with warm.Program(WRITER, path, ",".join(LABELS), "build") as writer:
        assert writer.stdout.readline() == "ready\n"
        start = time.monotonic()
        assert writer.stdout.readline() == "turn\n"
        writer.kill()
        return time.monotonic() - start


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["add", "change"])
def test_an_index_whose_writer_is_killed_is_whole(tmp_path, kind):
    draw, path = random.Random(kind), tmp_path / "index"
    Index.build(predictions(ROWS, seed=1), path)
    rounds = 0
    needed = time_of_a_build(tmp_path / "first")
    for _ in range(6):
        before = len(Index.open(path))
        rounds += killed_after(draw.uniform(0.0, 6.0) * needed, path, kind)
        index = Index.open(path)
        assert index.check() == []
        assert len(index.search("fork and not bus", 50)) == 50
        if kind == "add":
            assert (len(index) - before) % ROWS == 0
    index.add(predictions(10, seed=2))  # the lock went with its holder, and what was left behind is cleared away
    assert {file.name for file in path.iterdir()} == index.manifest.files()
    assert rounds > 0, "no writer got round: the knife fell too early to try anything"


@pytest.mark.slow
def test_a_build_that_is_killed_leaves_no_index_or_a_whole_one(tmp_path):
    draw, whole, needed = random.Random(0), 0, time_of_a_build(tmp_path / "first")
    for turn in range(8):
        path = tmp_path / f"index {turn}"
        killed_after(draw.uniform(0.0, 1.5) * needed, path, "build")
        if not path.exists():
            with pytest.raises(InputError, match="there is no such folder"):
                Index.open(path)
            continue
        whole += 1
        index = Index.open(path)
        assert len(index) == ROWS
        assert index.check() == []
    assert whole < 8, "the knife fell always too late to try anything"


def test_readers_during_an_append_see_the_state_before_or_after(tmp_path):
    path = tmp_path / "index"
    Index.build(predictions(ROWS, seed=1), path)
    with warm.Program(WRITER, path, ",".join(LABELS), "change") as writer:
        try:
            assert writer.stdout.readline() == "ready\n"
            seen = set()
            for _ in range(60):
                index = Index.open(path)
                results = index.search("fork", 30)
                assert len(results) == 30
                seen.add(len(index))
        finally:
            writer.kill()
    assert all((rows - ROWS) % 100 == 0 for rows in seen)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks Linux which file was flushed")
def test_what_the_manifest_names_is_on_the_disk_before_the_manifest(tmp_path, monkeypatch):
    index = Index.build(predictions(40), tmp_path / "index")
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name))
    index.add(predictions(10, ids=[str(row) for row in range(35, 45)]), replace=True)
    manifest = next(place for place, name in enumerate(flushed) if name == "index.json")
    assert {"logs-000002.parquet", "rows-000002.parquet"} < set(flushed[:manifest])
    assert any(name.startswith("deleted-") for name in flushed[:manifest])
    assert flushed[manifest - 1] == flushed[manifest + 1] == "index"  # the folder itself, before and after
