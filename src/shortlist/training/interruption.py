"""Ctrl-C and SIGTERM in training: the current step finishes and a checkpoint is saved; a second Ctrl-C stops immediately.

Before training begins, a process that waits for others has nothing to save and ends at once. A training in a thread receives no
signals; it is asked to stop by a call.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from shortlist.machine import exit_on_sigterm

TERMINATED = 128 + signal.SIGTERM  # exit status of a process that SIGTERM ended


class Interrupted(KeyboardInterrupt):
    """Training was stopped by Ctrl-C between two steps, and its checkpoint saved; the message says how far it got."""


class Terminated(SystemExit):
    """Training was stopped by SIGTERM between two steps, and its checkpoint saved; the message says how far it got.

    As a ``SystemExit`` with status 143 it ends the program unless it is caught.

    >>> str(Terminated("stopped after step 3")), Terminated("stopped after step 3").code
    ('stopped after step 3', 143)
    """

    def __init__(self, message: str):
        super().__init__(TERMINATED)
        self.message = message

    def __str__(self) -> str:
        return self.message


class Paused(Exception):
    """Training has reached the epoch at which it was to pause, and its checkpoint is saved."""


@dataclass
class StopRequest:
    """Whether training was asked to stop, and by which signal."""

    by: signal.Signals | None = None

    @property
    def requested(self) -> bool:
        """Whether it was."""
        return self.by is not None

    def exception(self, message: str) -> Interrupted | Terminated:
        """What to raise once the checkpoint is saved."""
        return Terminated(message) if self.by is signal.SIGTERM else Interrupted(message)


_listening: list[StopRequest] = []  # those of the trainings of this process that are under way


def ask_to_stop(by: signal.Signals) -> bool:
    """Ask the trainings of this process to stop, as this signal would; whether there are any."""
    for stop in _listening:
        stop.by = stop.by or by
    return bool(_listening)


@contextmanager
def deferred_signals() -> Iterator[StopRequest]:
    """Context in which Ctrl-C and SIGTERM only set :attr:`StopRequest.by`; a Ctrl-C after that works as usual.

    Further SIGTERMs change nothing: a launcher may pass on one that every process has already received. A handler that the
    program has installed is left alone. Only the main thread receives signals.

    >>> with deferred_signals() as stop:
    ...     stop.requested
    False
    """
    stop = StopRequest()
    usual = {signal.SIGINT: (signal.default_int_handler,), signal.SIGTERM: (signal.SIG_DFL, exit_on_sigterm)}
    if threading.current_thread() is not threading.main_thread():
        usual = {}
    before = {number: signal.getsignal(number) for number in usual}
    deferred = [number for number, handler in before.items() if handler in usual[number]]
    if deferred and hasattr(signal, "SIGCHLD"):
        before[signal.SIGCHLD] = signal.getsignal(signal.SIGCHLD)
    for number in deferred:
        signal.signal(number, _asking(stop))
    _listening.append(stop)
    try:
        yield stop
    finally:
        _listening.remove(stop)
        for number, handler in before.items():
            if (number in deferred or number not in usual) and handler is not None:
                signal.signal(number, handler)


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Context in which SIGTERM ends the process as the system does, without an exception.

    For waiting inside torch, which returns to Python, and so to a handler, only when it has got what it waits for: a launcher
    that ends its processes because one has died would wait 30 seconds before it kills the others. A handler that the program
    has installed is left alone.
    """
    usual = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is exit_on_sigterm
    if usual:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        if usual:
            signal.signal(signal.SIGTERM, exit_on_sigterm)


def _asking(stop: StopRequest) -> Callable[[int, FrameType | None], None]:
    def ask(number: int, frame: FrameType | None) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.by = stop.by or signal.Signals(number)
        if hasattr(signal, "SIGCHLD"):
            # A signal to the whole group ends the workers of a DataLoader too, and the handler of torch would raise an error
            # in the middle of the step.
            signal.signal(signal.SIGCHLD, _ignored)

    return ask


def _ignored(number: int, frame: FrameType | None) -> None:
    """A handler that does nothing."""
