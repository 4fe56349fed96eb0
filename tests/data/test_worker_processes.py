"""Worker processes do not outlive the process that started them."""

import multiprocessing
import os
import time

import pytest

from shortlist.data import worker_processes
from shortlist.data.worker_processes import EndsWithParent

FOREVER = 120
pytestmark = pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="needs a forkserver")


def _work(parent):
    """Wait for ever, watched; the parent is the given process, or the one that there is."""
    EndsWithParent(parent or os.getppid(), seconds=0.05)(0)
    time.sleep(FOREVER)


def started(parent):
    worker = multiprocessing.get_context("forkserver").Process(target=_work, args=(parent,))
    worker.start()
    return worker


def test_a_worker_whose_parent_was_gone_before_it_looked_ends():
    worker = started(os.getpid())  # of the fork server's children, this process is not the parent
    worker.join(FOREVER / 4)
    worker.kill()  # of no effect unless it still waits
    worker.join()
    assert worker.exitcode == 1


def test_a_worker_whose_parent_lives_goes_on():
    worker = started(None)
    worker.join(1)
    assert worker.exitcode is None
    worker.kill()
    worker.join()


def test_decoding_workers_watch_the_process_that_started_them(monkeypatch):
    given = {}
    monkeypatch.setattr(worker_processes, "DataLoader", lambda dataset, **settings: given.update(settings) or [])
    assert list(worker_processes.blocks_by_processes(None, [], size=8, fit="crop", workers=2)) == []
    assert given["worker_init_fn"].parent == os.getpid()
