"""Watching what is served: whether the photographs that people ask about are like the calibration rows.

One thread adds what was answered to a :class:`~shortlist.shift.Watch`, as many rows at a time as wait, and writes it beside the
votes at most once a second, so that no answer waits for it. Of a question with several photographs the first one counts: those
of one individual are not independent. A label counts once, when people agree on it.
"""

import hashlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch

from shortlist.errors import InputError
from shortlist.files import locked_place
from shortlist.models import Classifier
from shortlist.predictions import Predictions
from shortlist.shift import Watch
from shortlist.tensors import Scores
from shortlist.words import counted

SECONDS = 1.0  # between two times that the watch is written
MOST_WAITING = 1024  # rows that are not watched yet; while there are more, new ones are passed over
MOST_AT_ONCE = 256


class Seen(NamedTuple):
    """A photograph that was answered, or its label: scores (C,), the label or None, and the day."""

    scores: Scores
    label: int | None
    day: str


def watch_path(classifier: Classifier, votes: Path) -> Path:
    """Where the watch of a classifier is, beside the votes: in a file of its own for each network, link and rule."""
    assert classifier.rule is not None
    link, rule = classifier.link, classifier.rule
    numbers = {name: tensor.cpu().contiguous().numpy().tobytes() for name, tensor in rule.state_dict().items()}
    parts = [classifier.network.digest(), None if link is None else link.fingerprint(), rule.record()]
    found = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for name in sorted(numbers):
        found.update(name.encode() + numbers[name])
    return votes.with_name(f"watch-{found.hexdigest()[:8]}")


def open_watch(classifier: Classifier, votes: Path, reference: Callable[[], Predictions | None]) -> "Watching":
    """The watch of this classifier, going on where it stopped, or a new one.

    Args:
        classifier: what answers.
        votes: the file of the votes.
        reference: the rows that new ones are compared with, read where a watch begins; their labels do not count, since those
            of votes are no sample.
    """
    if classifier.rule is None or classifier.link is None:
        raise InputError("expected a classifier with a link and a rule, whose probabilities can be compared")
    path = watch_path(classifier, votes) / "watch.safetensors"
    with ExitStack() as lock:
        lock.enter_context(locked_place(path))  # one server writes it, and `shortlist watch` does not meanwhile
        if path.exists():
            watch = Watch.load(path)
        else:
            rows = reference()
            watch = Watch(classifier.rule, None if rows is None else unlabelled(rows))
        return Watching(watch, path, classifier, lock.pop_all())


def unlabelled(rows: Predictions) -> Predictions:
    """The same rows without their labels."""
    return Predictions(rows.scores, None, rows.classes, rows.link, columns=rows.columns)


class Watching:
    """A watch on what a site answers.

    Args:
        watch: new, or one that goes on.
        path: where it is written.
        classifier: what answers.
        lock: what is released at the end.
    """

    def __init__(self, watch: Watch, path: Path, classifier: Classifier, lock: ExitStack | None = None):
        self.watch, self.path, self.passed_over = watch, path, 0
        self.trouble: str | None = None  # why it could not be written, or a row not be watched
        self._classes, self._link, self._single = tuple(classifier.classes), classifier.link, classifier.single_label
        self._lock, self._held = threading.Lock(), lock or ExitStack()
        self._waiting: queue.Queue[Seen | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()

    def asked(self, scores: Scores) -> None:
        """Add a photograph that was answered, by its scores (C,); never waits."""
        self._put(Seen(scores, None, _today()))

    def labelled(self, scores: Scores, label: int) -> None:
        """Add the label that people agreed on for a photograph with these scores, (C,); never waits."""
        self._put(Seen(scores, label, _today()))

    def _put(self, seen: Seen) -> None:
        try:
            self._waiting.put_nowait(seen)
        except queue.Full:
            self.passed_over += 1

    def report(self) -> dict[str, Any]:
        """What the watch says, as JSON types."""
        with self._lock:
            watch = self.watch
            coverage, changes = watch.coverage, changes_of(watch)
            return {
                "watching": True,
                "photographs": watch.rows,
                "labels": watch.labelled,
                "alarms": [
                    {"signal": one.signal, "since": one.place, "change": one.change, "advice": one.advice}
                    for one in watch.alarms
                ],
                "coverage": None if coverage is None else dict(zip(("share", "low", "high"), coverage, strict=True)),
                "promised": None if watch.rule.alpha is None else 1 - watch.rule.alpha,
                "changes": len(changes),
                "sentences": [*changes, *watch.sentences()[len(watch.alarms) :], *self._left_out()],
            }

    def _left_out(self) -> Iterator[str]:
        """A sentence for each thing that is not watched."""
        if not self._single:
            yield "labels are not watched: a vote names one label of a photograph, which may have several"
        if self.passed_over:
            yield f"{counted(self.passed_over, 'photograph')} came while too many waited, and were not watched"
        if self.trouble:
            yield self.trouble

    def settle(self) -> None:
        """Wait until everything that was added is watched."""
        self._waiting.join()

    def close(self) -> None:
        """Watch what is waiting, write it and stop."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()
        self._held.close()

    def _work(self) -> None:
        written, dirty, ended = 0.0, False, False
        while not ended:
            taken = list(self._taken(SECONDS if dirty else None))
            ended = None in taken
            self._add(seen for seen in taken if seen is not None)
            dirty = dirty or any(seen is not None for seen in taken)
            if dirty and (ended or time.monotonic() - written >= SECONDS):
                self._write()
                written, dirty = time.monotonic(), False
            for _ in taken:
                self._waiting.task_done()

    def _taken(self, patience: float | None) -> Iterator[Seen | None]:
        """What waits: at least one, if it comes in time."""
        try:
            yield self._waiting.get(timeout=patience)
            for _ in range(MOST_AT_ONCE - 1):
                yield self._waiting.get_nowait()
        except queue.Empty:
            return

    def _add(self, taken: Iterable[Seen]) -> None:
        for (has_label, day), some in groupby(taken, lambda seen: (seen.label is not None, seen.day)):
            rows = list(some)
            labels = torch.tensor([seen.label for seen in rows]) if has_label else None
            predictions = Predictions(torch.stack([seen.scores for seen in rows]), labels, self._classes, self._link)
            with self._lock:
                try:
                    if has_label:
                        self.watch.add_labels(predictions)
                    else:
                        self.watch.add(predictions, name=f"the photographs of {day}")
                except InputError as error:  # the thread goes on: answers do not depend on it
                    self.trouble = f"{len(rows)} photographs could not be watched: {error}"

    def _write(self) -> None:
        try:
            self.watch.save(self.path)
            self.trouble = None if self.trouble and self.trouble.startswith(_UNWRITTEN) else self.trouble
        except (InputError, OSError) as error:
            self.trouble = f"{_UNWRITTEN}: {error}"


_UNWRITTEN = "the watch could not be written"


def changes_of(watch: Watch) -> list[str]:
    """A line for each alarm, and one if labels are in their sets less often than the rule promises."""
    found, alpha = [alarm.sentence for alarm in watch.alarms], watch.rule.alpha
    if watch.coverage is not None and alpha is not None and watch.coverage[2] < 1 - alpha:
        found.append(
            f"sets hold the label that people agree on in at most {watch.coverage[2]:.1%} of such photographs, where the rule "
            f"promises {1 - alpha:.0%}; unless these are the difficult ones only, fit the rule again on photographs like them"
        )
    return found


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
