"""Batching: requests that wait at the same time go through the network together.

One thread owns the network. It takes whatever is waiting, up to a number of pictures, and never waits for more: while a batch
is computed the next one gathers by itself, so batches grow with the load and a single request is answered at once.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

Asked = TypeVar("Asked", bound=Sequence[Any])
Answer = TypeVar("Answer")

MOST_PICTURES = 16
MOST_WAITING = 256  # requests; more are refused, so that nobody waits for long


class BusyError(Exception):
    """Too many requests are waiting."""


class Batcher(Generic[Asked, Answer]):
    """Answers requests in batches, on one thread.

    Args:
        answer: a list of requests → a list with the answer to each; called on the thread of the batcher alone.
        most: items of a batch, where a request has ``len(request)`` of them; a request with more is a batch of its own.
        waiting: requests that may wait.

    >>> with Batcher(lambda requests: [sum(request) for request in requests]) as batcher:
    ...     batcher.submit([1, 2]).result()
    3
    """

    def __init__(self, answer: Callable[[list[Asked]], list[Answer]], most: int = MOST_PICTURES, waiting: int = MOST_WAITING):
        self._answer, self._most = answer, most
        self._waiting: queue.Queue[tuple[Asked, Future[Answer]] | None] = queue.Queue(waiting)
        self._next: tuple[Asked, Future[Answer]] | None = None  # taken from the queue, and too much for the last batch
        self._stopped = self._ended = False  # no more requests are taken; the last one has been taken from the queue
        self.batches = self.requests = 0
        self._thread = threading.Thread(target=self._work, name="network", daemon=True)
        self._thread.start()

    def submit(self, request: Asked) -> "Future[Answer]":
        """The answer to come; raises :class:`BusyError` if too many are waiting."""
        if self._stopped:
            raise BusyError("the server is stopping")
        future: Future[Answer] = Future()
        try:
            self._waiting.put_nowait((request, future))
        except queue.Full:
            raise BusyError("too many requests are waiting") from None
        return future

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Answer what is waiting, then stop."""
        if not self._stopped:
            self._stopped = True
            self._waiting.put(None)
            self._thread.join()

    def __enter__(self) -> "Batcher[Asked, Answer]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        while batch := self._gathered():
            self._answer_all([(request, future) for request, future in batch if future.set_running_or_notify_cancel()])

    def _gathered(self) -> list[tuple[Asked, "Future[Answer]"]]:
        """What is waiting, at least one request; nothing at the end."""
        batch: list[tuple[Asked, Future[Answer]]] = []
        items = 0
        while items < self._most and (more := self._take(wait=not batch)) is not None:
            if batch and items + len(more[0]) > self._most:
                self._next = more
                break
            batch.append(more)
            items += len(more[0])
        return batch

    def _take(self, wait: bool) -> tuple[Asked, "Future[Answer]"] | None:
        """The next request; None if there is none now, or none any more."""
        if self._next is not None:
            taken, self._next = self._next, None
            return taken
        if self._ended:
            return None
        try:
            more = self._waiting.get(block=wait)
        except queue.Empty:
            return None
        self._ended = more is None
        return more

    def _answer_all(self, batch: list[tuple[Asked, "Future[Answer]"]]) -> None:
        if not batch:
            return
        self.batches, self.requests = self.batches + 1, self.requests + len(batch)
        try:
            answers = self._answer([request for request, _ in batch])
        except Exception as error:  # it belongs to those who asked; the thread goes on
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)
