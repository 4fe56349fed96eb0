"""Budgets: so much of something at a time, whatever the number of requests; others wait, or are refused."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from shortlist.web.batching import BusyError


class Budget:
    """So much at a time, shared by many threads.

    Args:
        most: in whatever unit it is asked for; what asks for more than this gets all of it.

    >>> pixels = Budget(100)
    >>> with pixels.waiting(80), pixels.at_once(10):
    ...     pixels.used
    90
    """

    def __init__(self, most: int):
        self.most, self.used = most, 0
        self._changed = threading.Condition()

    @contextmanager
    def waiting(self, amount: int) -> Iterator[None]:
        """Wait until there is room for so much, and hold it."""
        amount = min(amount, self.most)
        with self._changed:
            self._changed.wait_for(lambda: self.used + amount <= self.most)
            self.used += amount
        try:
            yield
        finally:
            self._give_back(amount)

    @contextmanager
    def at_once(self, amount: int) -> Iterator[None]:
        """Hold so much; raises :class:`BusyError` if there is no room for it now."""
        amount = min(amount, self.most)
        with self._changed:
            if self.used + amount > self.most:
                raise BusyError("too many requests are being read")
            self.used += amount
        try:
            yield
        finally:
            self._give_back(amount)

    def _give_back(self, amount: int) -> None:
        with self._changed:
            self.used -= amount
            self._changed.notify_all()
