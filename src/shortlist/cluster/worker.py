"""What runs in the worker processes of a cluster. It imports no Ray."""

import os
from collections.abc import Callable
from typing import Any

import torch

from shortlist.predictions import Predictions

KEPT = 4  # sources that a worker keeps open
_opened: dict[Any, Predictions] = {}


class Worker:
    """A process that answers one task after the other. What is expensive to open stays open between them."""

    def begin(self, threads: int) -> int:
        """Called first; the id of the process."""
        torch.set_num_threads(threads)
        return os.getpid()

    def answer(self, job: Callable[[Any], Any], task: Any) -> Any:
        """What the job finds for one task."""
        return job(task)


def opened(key: Any, open_it: Callable[[], Predictions]) -> Predictions:
    """Predictions that are opened once in this process; the last few are kept."""
    if key not in _opened:
        while len(_opened) >= KEPT:
            del _opened[next(iter(_opened))]
        _opened[key] = open_it()
    return _opened[key]
