"""A person's Ctrl-C: the first lets the step in hand end and be kept, a second leaves at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A training was stopped by a person between two steps, with its checkpoint written; the message says how far it got."""


@dataclass
class Stop:
    """Whether somebody has asked to stop."""

    asked: bool = False


@contextmanager
def first_interrupt_waits() -> Iterator[Stop]:
    """Inside, the first Ctrl-C only sets :attr:`Stop.asked`; the next does what it did before.

    A program that has a handler of its own, or ignores the signal, keeps it; and only the main thread hears of signals.

    >>> with first_interrupt_waits() as stop:
    ...     stop.asked
    False
    """
    stop = Stop()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        stop.asked = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
