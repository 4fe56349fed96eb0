"""Silences Pillow's warnings while pictures are decoded; what matters becomes a Problem."""

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
        self.filters: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                # The message pattern makes the filter unique: an equal filter of other code would be moved, then lost.
                warnings.filterwarnings("ignore", message=r"(?s:.*)", module=r"PIL\.")
                self.entry, self.filters = warnings.filters[0], warnings.filters
            self.inside += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                # Other code may have replaced the filters meanwhile, and may restore these later.
                filters: Any
                for filters in (self.filters, warnings.filters):
                    if self.entry in filters:
                        filters.remove(self.entry)
