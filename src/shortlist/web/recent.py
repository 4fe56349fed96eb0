"""Recent answers, in memory: what may be voted on for a while. Nothing of them is on the disk before somebody votes."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_BYTES = 128 * 2**20
LONGEST = 3600.0  # seconds


@dataclass(frozen=True)
class Recent:
    """An answer, as JSON text, with the bytes of the photographs that it is for, and of the scores of the first of them."""

    contents: Sequence[bytes]
    answer: bytes
    given: float
    scores: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.contents)) + len(self.answer) + len(self.scores or b"")


class RecentAnswers:
    """Answers by id; the oldest are forgotten when there is no room, and all of them after an hour.

    Args:
        most_bytes: of all photographs and answers together.
        longest: seconds that an answer is remembered.
        clock: seconds, for tests.

    >>> answers = RecentAnswers()
    >>> answers.add("a", [b"photograph"], b"{}")
    >>> answers.find("a").contents, answers.find("b")
    ([b'photograph'], None)
    """

    def __init__(
        self, most_bytes: int = MOST_BYTES, longest: float = LONGEST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._longest, self._clock = most_bytes, longest, clock
        self._answers: OrderedDict[str, Recent] = OrderedDict()
        self._lock, self.bytes = threading.Lock(), 0

    def add(self, name: str, contents: Sequence[bytes], answer: bytes, scores: bytes | None = None) -> None:
        """Remember an answer."""
        new = Recent(contents, answer, self._clock(), scores)
        with self._lock:
            self._answers[name] = new
            self.bytes += new.size
            while self._answers and (self.bytes > self._most or self._is_old(next(iter(self._answers.values())))):
                self.bytes -= self._answers.popitem(last=False)[1].size

    def find(self, name: str) -> Recent | None:
        """The answer; None if it is forgotten."""
        with self._lock:
            found = self._answers.get(name)
        return None if found is None or self._is_old(found) else found

    def _is_old(self, answer: Recent) -> bool:
        return self._clock() - answer.given > self._longest
