"""Scores of any number of rows in a folder of parts: each part is scored and written by one process, whole or not at all.

What a part holds depends on its rows, the classifier and the batch size alone, and never on who writes it: this process, or
the workers of a cluster. So either may go on with what the other began.
"""

import copy
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from shortlist.checks import check_finite, whole
from shortlist.data.dataset import Split
from shortlist.data.loading import UNREADABLE
from shortlist.data.problems import LEFT_OUT, Problem, first_of
from shortlist.errors import InputError
from shortlist.models import Classifier
from shortlist.models.heads import HeadName
from shortlist.models.quality import RowQuality
from shortlist.predictions import Predictions, ShardedWriter
from shortlist.row_order import count_rows
from shortlist.sets import SetRule
from shortlist.tensors import Scores, Target
from shortlist.training.failures import is_out_of_memory
from shortlist.training.fingerprint import fingerprint

PART_SCORES = 2**24  # 64 MB of float32
FEWEST_ROWS, MOST_ROWS = 256, 2**14  # of a part: what a kill costs at most
UNKNOWN_LABEL = "row with an unknown label"
Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Each(Protocol):
    """Does a job for each of some tasks."""

    def __call__(self, job: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[tuple[int, Answer]]:
        """The answers in any order, each with the place of its task."""
        ...


class Source(Protocol):
    """Where a process gets the classifier."""

    def load(self) -> Classifier:
        """The classifier."""
        ...


@dataclass(frozen=True)
class Loaded:
    """A classifier that this process has."""

    classifier: Classifier

    def load(self) -> Classifier:
        """The classifier."""
        return self.classifier


@dataclass(frozen=True)
class Saved:
    """A classifier that any process loads.

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
def _loaded(model: Saved) -> Classifier:
    if model.where is not None and model.where not in sys.path:
        sys.path.append(model.where)
    if model.device == "cuda" and not torch.cuda.is_available():
        raise InputError("device: cuda was requested, but torch found no GPU on a worker")
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
        before: problems of rows that never came this far, which are noted with this part.
    """

    number: int
    rows: Split
    known: Tensor | None = None
    before: tuple[Problem, ...] = ()


@dataclass
class Outcome:
    """What was done: rows that were written, problems, and how many sets have each size (None without a rule)."""

    rows: int = 0
    problems: list[Problem] = field(default_factory=list)
    sizes: Tensor | None = None

    def add(self, other: "Outcome") -> None:
        """Add what was done elsewhere."""
        self.rows += other.rows
        self.problems += other.problems
        if other.sizes is not None:
            self.sizes = other.sizes if self.sizes is None else self.sizes + other.sizes


@dataclass(frozen=True)
class Identifying:
    """A job: the digest of the names, the labels and the content of the rows of a part.

    Args:
        classes: the names of the classes.
    """

    classes: tuple[str, ...]

    def __call__(self, part: Part) -> str:
        """The digest."""
        found = fingerprint({"rows": part.rows}, self.classes).digest
        return found if part.known is None else f"{found} {hashlib.sha256(part.known.numpy().tobytes()).hexdigest()}"


@dataclass(frozen=True)
class Scoring:
    """A job: score the rows of a part, and write it.

    Args:
        folder: of all parts, begun by the process that hands them out.
        source: of the classifier.
        batch_size: rows per batch.
        threads: that decode pictures; one for each core by default.
        quality: the name of a quality to compute.
        rule: whose sets are counted by their size.
        progress: callback, called with the number of rows of the part that are done.
    """

    folder: Path
    source: Source
    batch_size: int
    threads: int | None = None
    quality: str | None = None
    rule: SetRule | None = None
    progress: Callable[[int], None] | None = None

    def __call__(self, part: Part) -> Outcome:
        """Write the part."""
        done = Outcome()
        # Asked for when all blocks have been written: only then is it known which rows are not among them.
        every = chain(part.before, done.problems)
        lost = ((one.where, one.kind, one.what) for one in every if one.left_out or one.kind == UNREADABLE)
        ShardedWriter.join(self.folder).write(part.number, self._blocks(part, done), lost)
        return done

    def _blocks(self, part: Part, done: Outcome) -> Iterator[Predictions]:
        rows, model = part.rows, self.source.load()
        sized = None if self.rule is None else model.with_rule(self.rule)
        quality = None if self.quality is None else RowQuality(self.quality, len(rows))
        for numbers, scores in checked_batches(model, rows, self.batch_size, done.problems, quality, self.threads):
            kept = torch.ones(len(numbers), dtype=torch.bool) if part.known is None else part.known[numbers]
            done.problems += [
                Problem(UNKNOWN_LABEL, rows.ids[row], f"the classifier does not know its label: {LEFT_OUT}")
                for row in numbers[~kept].tolist()
            ]
            if kept.any():
                yield self._block(part, numbers[kept], scores[kept.to(scores.device)], quality, sized, done)
            if self.progress is not None:
                self.progress(int(numbers[-1]) + 1)

    def _block(
        self,
        part: Part,
        places: Tensor,
        scores: Tensor,
        quality: RowQuality | None,
        sized: Classifier | None,
        done: Outcome,
    ) -> Predictions:
        """Some rows of the part, which are counted as done."""
        rows, values = part.rows, None if quality is None else quality.values[places]
        sizes = None
        if sized is not None:
            counts = count_rows(sized.decide(scores, quality=values)[1])
            sizes = counts.bincount(minlength=scores.shape[1] + 1).double()
        done.add(Outcome(len(places), [], sizes))
        target = None if rows.target is None else rows.target[places]
        return Predictions(scores.cpu(), target, ids=[rows.ids[row] for row in places.tolist()], quality=values)


def checked_batches(
    classifier: Classifier,
    rows: Split,
    batch_size: int,
    problems: list[Problem],
    quality: RowQuality | None = None,
    threads: int | None = None,
) -> Iterator[tuple[Tensor, Scores]]:
    """Row numbers and finite scores, a batch at a time; unreadable pictures are noted and left out."""
    try:
        scored = classifier.score_batches(rows, batch_size=batch_size, workers=threads, problems=problems, quality=quality)
        for numbers, scores in scored:
            check_finite(scores)
            yield numbers, scores
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(
            f"the GPU has too little memory for {batch_size} {things(classifier)} at once: choose a smaller batch size"
        ) from None


def things(classifier: Classifier) -> str:
    """What its rows are, in messages."""
    return "pictures" if classifier.inputs.is_pictures else "rows"


def none_read(classifier: Classifier, rows: int, problems: Sequence[Problem]) -> InputError:
    """The error that not one row could be read."""
    return InputError(f"none of the {rows:,} {things(classifier)} could be read{first_of(problems)}")


def part_rows(classes: int, batch_size: int) -> int:
    """Rows of a part: 64 MB of scores, from 256 to 16,384 rows, in whole batches.

    >>> part_rows(2000, 256), part_rows(80_000, 256), part_rows(2, 100)
    (8448, 256, 16400)
    """
    wanted = min(max(PART_SCORES // max(1, classes), FEWEST_ROWS), MOST_ROWS)
    return -(-wanted // batch_size) * batch_size


def here(job: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[tuple[int, Answer]]:
    """Do a job for each task in this process."""
    return enumerate(map(job, tasks))


def score_parts(
    folder: Path,
    source: Source,
    rows: Split,
    *,
    known: Tensor | None = None,
    before: Sequence[Problem] = (),
    batch_size: int = 256,
    quality: str | None = None,
    rule: SetRule | None = None,
    rows_per_part: int | None = None,
    each: Each = here,
    threads: int | None = None,
    settings: Mapping[str, str] | None = None,
    begun: Callable[[int, int, int], None] = lambda missing, parts, rows: None,
    progress: Callable[[int], None] = lambda rows: None,
    damaged: Callable[[Sequence[str]], None] = lambda names: None,
) -> Outcome:
    """Score rows into a folder of parts, or go on with one that was begun; what was done, without the parts that were there.

    Args:
        folder: new, or begun for the same rows and the same classifier. Parts that are there are read once, and not computed
            again unless they are damaged.
        source: of the classifier.
        rows: inputs, and labels by the classes of the classifier.
        known: which rows have a label that the classifier knows.
        before: problems of rows that are not among these, which are noted with the others.
        batch_size: rows per batch.
        quality: the name of a quality to compute.
        rule: whose sets are counted by their size.
        rows_per_part: how many rows a part is made from; by default whole batches, about 16 million scores.
        each: does the work: :meth:`shortlist.cluster.Pool.each`, or this process.
        threads: of each process, which decode pictures; one for each core by default.
        settings: anything else that the scores depend on, by name.
        begun: callback, called once with the number of parts that are missing, of all parts, and of rows in those missing.
        progress: callback, called with the number of those rows that are done.
        damaged: callback, called with the files that are there and damaged, if there are any.
    """
    classifier = source.load()
    size = whole(1)("rows_per_part", rows_per_part or part_rows(len(classifier.classes), batch_size))
    if not len(rows):
        raise InputError("rows: expected some, got none")
    spans = [(start, min(start + size, len(rows))) for start in range(0, len(rows), size)]

    def part(number: int) -> Part:
        places = torch.arange(*spans[number])
        here_known = None if known is None else known[places]
        return Part(number, rows.rows(places), here_known, () if number else tuple(before))

    items = dict(each(Identifying(tuple(classifier.classes)), map(part, range(len(spans)))))
    identities = [items[number] for number in range(len(spans))]
    # Batches end with their part. Their size is noted because it can change the last bits of scores.
    given = {"rows per part": str(size), "batch size": str(min(batch_size, size)), "quality": str(quality), **(settings or {})}
    form = form_of(classifier, rows.target, quality is not None)
    with ShardedWriter(folder, form, identities, settings=given) as writer:
        missing = writer.missing
        if writer.damaged:
            damaged(writer.damaged)
        begun(len(missing), len(spans), sum(stop - start for start, stop in (spans[number] for number in missing)))
        found, done = Outcome(), 0

        def within(rows: int) -> None:
            progress(done + rows)

        job = Scoring(folder.absolute(), source, batch_size, threads, quality, rule, within if each is here else None)
        for place, outcome in each(job, map(part, missing)):
            start, stop = spans[missing[place]]
            done += stop - start
            progress(done)
            found.add(outcome)
        if len(missing) == len(spans) and not found.rows:
            raise none_read(classifier, len(rows), found.problems)
        writer.finish()
    return found


def form_of(classifier: Classifier, target: Target | None, with_quality: bool) -> Predictions:
    """Predictions of this classifier without rows, which say what files of its scores hold."""
    return Predictions(
        torch.empty(0, len(classifier.classes)),
        None if target is None else target[:0],
        classifier.classes,
        None if classifier.link is None else copy.deepcopy(classifier.link).cpu(),
        (),
        classifier.train_counts,
        classifier.superclasses,
        classifier.network.digest(),
        () if with_quality else None,
    )
