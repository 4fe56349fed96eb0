"""What runs in each process of a training on a cluster: the training, in a thread, and answers about how it goes. No Ray."""

import os
import signal
import socket
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from shortlist.errors import InputError, ShortlistWarning
from shortlist.training.interruption import Interrupted, Terminated, ask_to_stop

GPUS = "CUDA_VISIBLE_DEVICES"
WARNED = "warned"  # the event of a warning
Event: TypeAlias = tuple[str, tuple[Any, ...]]
Tell: TypeAlias = Callable[..., None]  # called with the name of an event and what belongs to it
Job: TypeAlias = Callable[[int, Tell], None]  # called with the number of the attempt, from 0


@dataclass(frozen=True)
class Place:
    """Where a process is.

    Args:
        address: of its machine.
        port: one that was free there.
        gpus: the numbers of the GPUs that Ray has given to it, as text; empty for none.
        process: its id.
    """

    address: str
    port: int
    gpus: str
    process: int


@dataclass(frozen=True)
class Heard:
    """What a process has to say since it was last asked.

    Args:
        events: in their order.
        ended: whether its part has ended.
        refused: the message of an error in what the user gave.
        stopped: how far it got, if it was asked to stop.
        failed: the traceback of any other error.
    """

    events: tuple[Event, ...] = ()
    ended: bool = False
    refused: str | None = None
    stopped: str | None = None
    failed: str | None = None


class Member:
    """One of several processes that train as one."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()  # written by one thread and read by another
        self._ended = threading.Event()
        self._outcome = Heard()

    def begin(self, address: Callable[[], str]) -> Place:
        """Called first: where this process is.

        Args:
            address: asks for that of this machine.
        """
        with socket.socket() as found:
            found.bind(("", 0))
            port: int = found.getsockname()[1]
        return Place(address(), port, os.environ.get(GPUS, ""), os.getpid())

    def start(self, job: Job, attempt: int, variables: Mapping[str, str], threads: int) -> None:
        """Begin the job in a thread.

        Args:
            job: what to do.
            attempt: how often it was begun before.
            variables: of the environment, those of a launcher.
            threads: of the CPU.
        """
        os.environ.update(variables)
        threading.Thread(target=self._run, args=(job, attempt, threads), daemon=True).start()

    def heard(self, within: float) -> Heard:
        """What happened since the last call, after so many seconds or as soon as the job has ended."""
        ended = self._ended.wait(within)
        events = []
        while self._events:
            events.append(self._events.popleft())
        return Heard(tuple(events), ended, self._outcome.refused, self._outcome.stopped, self._outcome.failed)

    def stop(self, number: int) -> bool:
        """Ask the training to stop, as this signal would; False if there is nothing to save."""
        return ask_to_stop(signal.Signals(number))

    def _tell(self, name: str, *given: Any) -> None:
        self._events.append((name, given))

    def _run(self, job: Job, attempt: int, threads: int) -> None:
        torch.set_num_threads(threads)  # for this thread too
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default", ShortlistWarning)
                warnings.showwarning = self._warned
                job(attempt, self._tell)
        except InputError as error:
            self._outcome = Heard(refused=str(error))
        except (Interrupted, Terminated) as stopped:
            self._outcome = Heard(stopped=str(stopped))
        except BaseException:
            self._outcome = Heard(failed=traceback.format_exc())
        finally:
            self._ended.set()

    def _warned(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, ShortlistWarning):
            self._tell(WARNED, str(message))
