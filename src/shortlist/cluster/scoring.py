"""Scoring into a folder of parts: each part is scored and written by one worker, whole or not at all."""

import copy
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from shortlist.checks import check_finite, whole
from shortlist.data.dataset import Split
from shortlist.data.loading import UNREADABLE
from shortlist.data.problems import LEFT_OUT, Problem
from shortlist.errors import InputError
from shortlist.machine import usable_cores
from shortlist.models import Classifier
from shortlist.models.heads import HeadName
from shortlist.models.quality import RowQuality
from shortlist.predictions import Predictions, ShardedWriter

if TYPE_CHECKING:
    from shortlist.cluster.pooling import Pool

PART_ENTRIES = 2**23  # scores of a part: 32 MB of float32
MOST_ROWS = 2**14  # of a part, so that little is lost with a worker
UNKNOWN_LABEL = "row with an unknown label"


@dataclass(frozen=True)
class Model:
    """A classifier as any process loads it.

    Args:
        folder: that every machine sees under this path.
        device: ``cpu``, ``cuda``, or ``auto`` for a GPU where there is one.
        head: whose scores are written; that of the classifier by default.
        network: the import path of the user's own network.
        where: a folder of modules, besides those that are installed.
    """

    folder: Path
    device: str = "auto"
    head: HeadName | None = None
    network: str | None = None
    where: str | None = None

    def load(self) -> Classifier:
        """The classifier, loaded once in each process."""
        return _loaded(self)


@lru_cache(maxsize=1)
def _loaded(model: Model) -> Classifier:
    if model.where is not None and model.where not in sys.path:
        sys.path.append(model.where)
    device = "cuda" if model.device != "cpu" and torch.cuda.is_available() else "cpu"
    found = Classifier.load(model.folder, device, network=model.network)
    return found if model.head is None else found.with_head(model.head)


@dataclass(frozen=True)
class Part:
    """Rows that become one file.

    Args:
        number: of the part.
        rows: inputs; their labels are those of the classifier's classes.
        known: which rows have a label that the classifier knows, bool (n,); None for all, or without labels.
    """

    number: int
    rows: Split
    known: torch.Tensor | None = None


@dataclass(frozen=True)
class Scoring:
    """A job: score the rows of a part, and write it.

    Args:
        folder: of all parts, begun by the process that hands them out.
        model: what scores.
        batch_size: rows per batch.
        threads: that decode pictures.
        quality: the name of a quality to compute.
    """

    folder: Path
    model: Model
    batch_size: int
    threads: int = 1
    quality: str | None = None

    def __call__(self, part: Part) -> list[Problem]:
        """What is to be said of rows that were left out, and of unusual ones."""
        problems: list[Problem] = []
        ShardedWriter.join(self.folder).write(part.number, self._blocks(part, problems), _Lost(problems))
        return problems

    def _blocks(self, part: Part, problems: list[Problem]) -> Iterator[Predictions]:
        rows, model = part.rows, self.model.load()
        quality = None if self.quality is None else RowQuality(self.quality, len(rows))
        scored = model.score_batches(rows, batch_size=self.batch_size, workers=self.threads, problems=problems, quality=quality)
        for numbers, scores in scored:
            check_finite(scores)
            kept = torch.ones(len(numbers), dtype=torch.bool) if part.known is None else part.known[numbers]
            unknown = f"the classifier does not know its label: {LEFT_OUT}"
            problems += [Problem(UNKNOWN_LABEL, rows.ids[row], unknown) for row in numbers[~kept].tolist()]
            places = numbers[kept]
            if len(places):
                yield Predictions(
                    scores[kept].cpu(),
                    None if rows.target is None else rows.target[places],
                    ids=[rows.ids[row] for row in places.tolist()],
                    quality=None if quality is None else quality.values[places],
                )


class _Lost(Sequence[Any]):
    """The rows that were left out, as a part records them; they are known once all of it has been scored."""

    def __init__(self, problems: list[Problem]):
        self._problems = problems

    def _rows(self) -> list[tuple[str, str, str]]:
        return [(one.where, one.kind, one.what) for one in self._problems if one.kind in (UNREADABLE, UNKNOWN_LABEL)]

    def __len__(self) -> int:
        return len(self._rows())

    def __getitem__(self, place: Any) -> Any:
        return self._rows()[place]


def part_rows(classes: int, batch_size: int) -> int:
    """Rows of a part: whole batches, so that every batch is one of those of a single process.

    >>> part_rows(1000, 256), part_rows(50_000, 256), part_rows(2, 100)
    (8448, 256, 16400)
    """
    wanted = min(MOST_ROWS, max(1, PART_ENTRIES // max(1, classes)))
    return -(-wanted // batch_size) * batch_size


def score(
    folder: Path,
    model: Model,
    rows: Split,
    *,
    known: torch.Tensor | None = None,
    batch_size: int = 256,
    quality: str | None = None,
    rows_per_part: int | None = None,
    pool: "Pool | None" = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> tuple[int, list[Problem]]:
    """Score rows into a folder of parts, go on with one that was begun, and return the number of rows and the problems.

    Args:
        folder: new, or begun for the same rows and the same classifier. Parts that are there are not computed again.
        model: what scores.
        rows: inputs, and labels by the classes of the classifier.
        known: which rows have a label that the classifier knows.
        batch_size: rows per batch.
        quality: the name of a quality to compute.
        rows_per_part: how many rows a part is made from; by default whole batches, about 8 million scores.
        pool: workers; without, the work is done in this process.
        progress: callback, called with the number of rows that are done.
    """
    classifier = model.load()
    size = whole(1)("rows_per_part", rows_per_part or part_rows(len(classifier.classes), batch_size))
    starts = range(0, len(rows), size)
    if not len(rows):
        raise InputError("rows: expected some, got none")
    job = Scoring(folder.absolute(), model, batch_size, pool.cpus if pool is not None else 0, quality)

    def part(number: int) -> Part:
        places = torch.arange(starts[number], min(starts[number] + size, len(rows)))
        return Part(number, rows.rows(places), None if known is None else known[places])

    settings = {"batch size": str(batch_size), "head": str(model.head), "quality": str(quality)}
    items = [_digest(rows, start, start + size) for start in starts]
    with ShardedWriter(folder, _like(classifier, rows, quality), items, settings=settings) as writer:
        missing = writer.missing
        done = len(rows) - sum(min(size, len(rows) - starts[number]) for number in missing)
        problems: list[Problem] = []
        tasks = (part(number) for number in missing)
        for place, found in pool.each(job, tasks) if pool is not None else enumerate(map(_here(job), tasks)):
            done += min(size, len(rows) - starts[missing[place]])
            problems += found
            progress(done)
        writer.finish()
        return writer.manifest.rows, problems


def _here(job: Scoring) -> Scoring:
    return replace(job, threads=usable_cores())


def _like(classifier: Classifier, rows: Split, quality: str | None) -> Predictions:
    """Predictions without rows, with everything else that the folder says."""
    target = None if rows.target is None else rows.target[:0]
    return Predictions(
        torch.empty(0, len(classifier.classes)),
        target,
        classifier.classes,
        None if classifier.link is None else copy.deepcopy(classifier.link).cpu(),
        (),
        classifier.train_counts,
        classifier.superclasses,
        classifier.network.digest(),
        None if quality is None else (),
    )


def _digest(rows: Split, first: int, last: int) -> str:
    """What identifies the rows of a part: their names, labels, and features where these are in memory."""
    found = hashlib.sha256()
    for name in rows.ids[first:last]:
        found.update(name.encode("utf-8", "surrogatepass") + b"\0")
    for values in (rows.target, rows.inputs):
        if isinstance(values, torch.Tensor):
            found.update(values[first:last].contiguous().numpy().tobytes())
    return found.hexdigest()
