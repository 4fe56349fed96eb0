"""Pillow's warnings about odd files, kept quiet while pictures are decoded: what matters is said in a problem of ours."""

import threading
import warnings
from types import TracebackType
from typing import Any


class QuietPillow:
    """While any thread is inside, warnings from Pillow's modules are ignored.

    ``warnings.catch_warnings`` restores the filters of the whole process, which threads that overlap would do over one
    another. This adds one filter when the first enters and takes that one away when the last leaves.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.entry: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                warnings.filterwarnings("ignore", module=r"PIL\.")
                self.entry = warnings.filters[0]
            self.inside += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self.lock:
            self.inside -= 1
            filters: Any = warnings.filters
            if not self.inside and self.entry in filters:  # it is not there where somebody put other filters back meanwhile
                filters.remove(self.entry)
