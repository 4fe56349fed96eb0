"""Errors of a cluster that is not there, in a sentence and at once."""

import socket
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import torch

from shortlist.cluster import Rows, session
from shortlist.cluster.connecting import _connect
from shortlist.cluster.rows import ranges
from shortlist.errors import InputError
from shortlist.predictions import Predictions


def test_a_missing_ray_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'shortlist\[cluster\]'"), session():
        pass


@pytest.mark.parametrize("address", ["nowhere", "host:", ":6379", "10.0.0.1:http"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(InputError, match="address: expected HOST:PORT"), session(address):
        pass


def test_an_address_where_nothing_listens_is_refused_at_once(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    started = time.monotonic()
    with pytest.raises(InputError, match=f"nothing answers at {address}.*ray start --head"), session():
        pass
    assert time.monotonic() - started < 60  # Ray alone would try for many minutes


def test_what_a_start_that_failed_has_left_behind_is_ended_before_the_next_one(monkeypatch, tmp_path):
    started, alive = [], []

    def init(**_):
        alive.append([one.pid for one in started if one.poll() is None])
        code = "import time; time.sleep(600)"
        started.append(subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "raylet")]))
        if len(started) < 3:
            raise RuntimeError("too slow")

    slow = types.SimpleNamespace(init=init, shutdown=lambda: None, __file__=str(tmp_path / "__init__.py"))
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # is none of Ray's
    try:
        _connect(slow, {"num_cpus": 1})
        assert alive == [[], [], []]
        assert [one.poll() is None for one in (*started, other)] == [False, False, True, True]
    finally:
        for one in (*started, other):
            one.kill()
            one.wait()


def test_rows_are_the_same_wherever_they_are_opened(tmp_path):
    rows = Predictions(np.random.default_rng(0).random((9, 3)), np.arange(9) % 3, link="identity", quality=range(9))
    rows.save(tmp_path / "scores.safetensors")
    for there in (Rows.of(rows), Rows.at(tmp_path / "scores.safetensors")):
        some = there.only(torch.tensor([8, 2, 3, 5]))
        assert (len(there), len(some), there.classes) == (9, 4, 3)
        part = some.only(torch.tensor([3, 0])).part(0, 2)
        assert part.ids == ("5", "8")
        assert part.quality.tolist() == [5, 8]
        assert part.scores.equal(rows.scores[[5, 8]])
        assert there.part(4, 6).target.tolist() == [1, 2]


@pytest.mark.parametrize(("rows", "workers", "step"), [(0, 2, 5), (1, 3, 1), (100, 2, 7), (1000, 1, 3)])
def test_ranges_cover_every_row_once_and_begin_at_steps(rows, workers, step):
    found = list(ranges(rows, workers, step))
    assert [row for first, last in found for row in range(first, last)] == list(range(rows))
    assert all(first % step == 0 for first, _ in found)
    assert len(found) <= 4 * workers + 1
