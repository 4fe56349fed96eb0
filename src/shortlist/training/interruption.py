"""Ctrl-C: the first one lets the current step finish and saves a checkpoint, the second stops immediately."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """Training was stopped by Ctrl-C between two steps, and its checkpoint saved; the message says how far it got."""


@dataclass
class StopRequest:
    """Whether the user has asked to stop."""

    requested: bool = False


@contextmanager
def deferred_interrupt() -> Iterator[StopRequest]:
    """Context in which the first Ctrl-C only sets :attr:`StopRequest.requested`; the next one works as usual.

    A handler that the program has installed is left alone. Only the main thread receives signals.

    >>> with deferred_interrupt() as stop:
    ...     stop.requested
    False
    """
    stop = StopRequest()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        stop.requested = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
