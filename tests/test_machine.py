"""What the environment says about cores and processes."""

import os
import subprocess
import sys

import pytest

from shortlist import machine

LAUNCHED = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK")
ELASTIC = ("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in (*LAUNCHED, *ELASTIC):
        monkeypatch.delenv(name, raising=False)


def test_without_a_launcher_there_is_one_process():
    assert machine.launched_processes() == 1
    assert machine.local_processes() == 1
    assert machine.local_processes(default=3) == 3
    assert machine.is_first_process()


def test_a_launcher_sets_processes_and_rank(monkeypatch):
    for name, value in zip(LAUNCHED, ("8", "4", "2"), strict=True):
        monkeypatch.setenv(name, value)
    assert machine.launched_processes() == 8
    assert machine.local_processes(default=3) == 4
    assert not machine.is_first_process()
    monkeypatch.setenv("RANK", "0")
    assert machine.is_first_process()


@pytest.mark.parametrize(
    ("world", "local", "restarts", "expected"),
    [(None, None, None, False), ("2", "2", "0", False), ("2", "2", "1", True), ("4", "2", "0", True), ("4", None, None, False)],
)
def test_a_process_may_replace_one_that_died_after_a_restart_and_on_several_machines(
    monkeypatch, world, local, restarts, expected
):
    for name, value in zip((*LAUNCHED[:2], ELASTIC[0]), (world, local, restarts), strict=True):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert machine.may_replace_another() is expected


def test_the_store_of_a_launcher(monkeypatch):
    for name, value in zip((*ELASTIC[2:], "RANK"), ("node-1", "29500", "3"), strict=True):
        monkeypatch.setenv(name, value)
    assert machine.launcher_store() is None
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "False")
    assert machine.launcher_store() is None
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    assert machine.launcher_store() == ("node-1", 29500, 3)


@pytest.mark.parametrize(("cores", "processes", "share"), [(8, 1, 8), (8, 3, 2), (2, 4, 1)])
def test_processes_of_a_machine_share_its_cores(monkeypatch, cores, processes, share):
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert machine.cores_per_process() == share


def test_usable_cores_are_those_of_the_affinity(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 7}, raising=False)
    assert machine.usable_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.usable_cores() == 1


def test_torch_is_not_imported():
    program = "import sys, shortlist.machine; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
