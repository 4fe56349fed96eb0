"""A watch on what is served: have the rows changed, since when, and what to do."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import number
from shortlist.class_names import other_column
from shortlist.errors import InputError
from shortlist.predictions import Predictions
from shortlist.sets import Batches, SetRule
from shortlist.sets.batches import Batch, Source
from shortlist.sets.multilabel import Risk
from shortlist.shift.alarms import Alarm, described
from shortlist.shift.betting import Bets, Ranks
from shortlist.shift.coverage import coverage_interval
from shortlist.shift.signals import (
    SIGNALS,
    UNLABELLED,
    Rows,
    deciding,
    missed_shares,
    places,
    shuffles,
    signals,
    sizes_of,
)
from shortlist.tensors import Array, Target, blocks_of, is_single_label
from shortlist.words import shown

LEVEL = 0.01  # the probability of a false alarm
RECENT = 2000  # rows that messages speak of
STREAM = "the stream"  # what messages call rows without a name


class Watch:
    """Watches rows as they come, in batches or files, with or without labels, and says when they are not what they were.

    Four things are watched: how sure the classifier is (``confidence``), the ``size`` of the set, the most probable ``class``,
    and, where labels come, how plausible the rule finds the true ``label``, which decides the coverage. Where rows have several
    labels, that is the value which decides the recall: that of the least plausible of them, after those that risk control at
    alpha may miss (``⌊m · alpha⌋`` of m labels); or, where each label has a threshold of its own, the share that was found.

    Each is bet on by a conformal test martingale against the reference rows and all rows so far
    (:mod:`shortlist.shift.betting`). If all rows are exchangeable, the probability that there is ever an alarm, however long
    the watch, is at most ``level``.

    Args:
        rule: fitted, or one that needs no fit.
        reference: rows that are as they should be: the calibration rows of the rule, or better others from the same source.
            None compares new rows only with earlier ones.
        target: their labels, where the reference is a matrix.
        level: the probability of a false alarm, 0.01 by default.

    Attributes:
        alarms: what has been noticed so far, the first for each signal.
        rows: how many rows have been watched.
        labelled: how many of them had labels.
        missed: how many of these labels their sets lacked; where rows have several labels, the sum of the shares of them.
        several: whether rows have several labels; None before the first label.

    Vovk, Nouretdinov, Gammerman, "Testing exchangeability on-line", 2003; Vovk, Petej, Nouretdinov, Ahlberg, Carlsson,
    Gammerman, "Retrain or not retrain: conformal test martingales for change-point detection", 2021.
    """

    def __init__(self, rule: SetRule, reference: Source | None = None, target: Any = None, *, level: float = LEVEL):
        if not isinstance(rule, SetRule):
            raise InputError(f"rule: expected a set rule, got {shown(rule)}")
        if rule.needs_fit and not rule.fitted:
            raise InputError(f"rule: expected a fitted rule, got {rule.text}: fit it on calibration rows first")
        if rule.gate is not None or rule.ordering.generator is not None:
            raise InputError(
                "rule: expected one without a gate, since rows that it refuses have no set to compare, and without a generator "
                f"of random numbers, got {rule.text}: watch the rule that is behind the gate"
            )
        self.rule, self.level = rule, float(number(above=0, below=1)("level", level))
        self.rows = self.labelled = self.reference_labelled = 0
        self.missed = self.reference_missed = 0.0
        self.several: bool | None = None
        self.alarms: list[Alarm] = []
        self.sources: list[tuple[str, int]] = []  # names, and the number of their first row
        self.contents: dict[str, str] = {}  # the names of files that were watched, by a digest of their content
        self.bets = {"unlabelled": Bets(len(UNLABELLED)), "label": Bets(1)}
        self.ranks: dict[str, Ranks] = {}
        self.recent = np.empty((0, len(UNLABELLED)), np.int64)
        self.label_rows: list[tuple[int, int, float]] = []  # the newest labelled rows: number, place of the label, missed
        self.label_since = 0  # the row at which the capital bet on labels was the smallest
        self.names: Sequence[str] | None = None
        for found in () if reference is None else self._read(reference, target):
            self._refer(found)

    def add(self, rows: Source, target: Any = None, *, name: str | None = None) -> list[Alarm]:
        """Watch more rows, in their order.

        Args:
            rows: predictions, probabilities (N, C), or batches of them.
            target: the labels of a matrix, if they are known; predictions and batches bring their own.
            name: what messages call these rows, such as the name of their file.

        Returns:
            The new alarms.
        """
        before = len(self.alarms)
        read = self._read(rows, target)
        source = name or STREAM
        if read and (not self.sources or self.sources[-1][0] != source):  # rows of one name are numbered together
            self.sources.append((source, self.rows))
        for found in read:
            self._bet(found)
            self._note(found)
        return self.alarms[before:]

    def add_labels(self, rows: Source, target: Any = None) -> list[Alarm]:
        """Take labels that come later than their rows, in the order in which they come; the rows are not counted again.

        Where people choose which rows get a label, these rows are no sample of all of them. Give the reference no labels then:
        each label is compared with those before it only.

        Args:
            rows: the labelled rows: predictions, probabilities (N, C), or batches of them.
            target: the labels of a matrix; predictions and batches bring their own.

        Returns:
            The new alarms.

        >>> import numpy as np
        >>> from shortlist.sets import lac
        >>> probs, target = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), [0, 0, 1]
        >>> watch = Watch(lac(0.5).fit(probs, target))
        >>> watch.add(probs), watch.add_labels(probs[1:], [0, 0]), watch
        ([], [], Watch(lac:0.5, 3 rows, 2 labels, no alarm))
        """
        before = len(self.alarms)
        read = self._read(rows, target)
        if any(found.label is None for found in read):
            raise InputError("target: expected labels for every row, got none")
        for found in read:
            assert found.label is not None
            for place, uniform in zip(found.label, shuffles(len(SIGNALS), self.labelled, len(found)), strict=True):
                self._bet_on_label(int(place), float(uniform), self.rows - 1)
            self._note_labels(found, [self.rows] * len(found))
        self._raise_alarms()
        return self.alarms[before:]

    @property
    def coverage(self) -> tuple[float, float, float] | None:
        """The coverage of the labelled rows so far and its interval; None before the first label, or if rows have several.

        If labels are in their sets with one fixed probability, it is in the interval at every moment with probability
        1 - ``level``.
        """
        return None if self.several else self._found()

    @property
    def recall(self) -> tuple[float, float, float] | None:
        """The same for rows with several labels: the mean share of its labels that the set of a row holds; None for others."""
        return self._found() if self.several else None

    def _found(self) -> tuple[float, float, float] | None:
        if not self.labelled:
            return None
        low, high = coverage_interval(self.missed, self.labelled, self.level)
        return 1 - self.missed / self.labelled, low, high

    @property
    def capital(self) -> dict[str, float]:
        """The largest capital of each bet so far, from 1: an alarm is raised at ``4 / level``."""
        peaks = [*self.bets["unlabelled"].peak, *self.bets["label"].peak]
        return {name: math.exp(min(float(peak), 700)) for name, peak in zip(SIGNALS, peaks, strict=True)}

    def sentences(self) -> list[str]:
        """One line for each alarm; one that says that nothing was noticed, otherwise; and coverage or recall, if known."""
        found = [alarm.sentence for alarm in self.alarms]
        if not found:
            found = [f"nothing has changed on {self.rows:,} rows (false alarms: {self.level:.2%} of such watches)"]
        if (known := self._found()) is not None:
            share, low, high = known
            what = "recall" if self.several else "coverage"
            found.append(f"{what} {share:.1%} on {self.labelled:,} labelled rows ({low:.1%} to {high:.1%})")
        return found

    def save(self, path: str | Path) -> None:
        """Write everything as one safetensors file, whole or not at all."""
        from shortlist.shift.watch_files import save_watch

        save_watch(self, path)

    @staticmethod
    def load(path: str | Path) -> "Watch":
        """The watch that :meth:`save` wrote; it goes on as if it had never stopped."""
        from shortlist.shift.watch_files import load_watch

        return load_watch(path)

    def _read(self, rows: Source, target: Any) -> list[Rows]:
        """The signals of these rows, batch by batch; an error in any batch leaves the watch as it was."""
        if isinstance(rows, Predictions):
            self.rule.check_reads(rows)
            self.rule.check_origin(rows)
            if rows.link is None:
                raise InputError("rows: expected scores with a link, which the classes and their probabilities follow from")
            place = other_column(self.names, rows.classes)
            if place is not None and self.names is not None and rows.classes is not None:
                raise InputError(
                    f"rows: expected the classes of the rows before: column {place} was {self.names[place]!r} and is "
                    f"{rows.classes[place]!r} here"
                )
        found, sets_of = [], self.rule.in_blocks()
        classes = None if not self.ranks else len(self.ranks["class"].counts)
        for batch in Batches(rows, target, probabilities=True, column=self.rule.column).whole_rows():
            classes = classes or batch.probs.shape[1]
            if classes != batch.probs.shape[1]:
                raise InputError(f"rows: expected {classes} classes, got {batch.probs.shape[1]}")
            found += [self._signals(batch, sets_of)] if len(batch.probs) else []
        several = self._kind_of_labels(found)
        if not self.ranks and classes is not None:
            self.ranks = {name: Ranks(size) for name, size in sizes_of(classes).items()}
        if isinstance(rows, Predictions):
            self.names = rows.classes or self.names
        self.several = several
        return found

    def _kind_of_labels(self, read: list[Rows]) -> bool | None:
        """Whether rows have several labels; an error if these have another kind of labels than those before."""
        kinds = {found.several for found in read if found.label is not None} | ({self.several} - {None})
        if len(kinds) > 1:
            raise InputError("target: expected labels as before, got one label a row in some, and several a row in others")
        return next(iter(kinds), None)

    def _signals(self, batch: Batch, sets_of: Any) -> Rows:
        probs, scores = batch.probs.cpu(), batch.scores
        parts = [
            sets_of(probs[rows], *(None if part is None else part[rows] for part in (scores, batch.quality, batch.groups)))
            for rows in blocks_of(probs)
        ]
        sets: Tensor = torch.cat(parts)
        found = signals(probs, sets)
        if batch.target is None:
            return found
        target = batch.target.cpu()
        several = not is_single_label(target)
        return replace(found, label=self._places(probs, sets, target), missed=missed_shares(sets, target), several=several)

    def _places(self, probs: Tensor, sets: Tensor, target: Target) -> Array:
        """The place of what decides whether the rule finds the labels of each row."""
        several = not is_single_label(target)
        if several and self.rule.fitted_buffer("threshold").ndim:  # values of different labels do not compare
            return places(1 - missed_shares(sets, target))
        values = self.rule.ordering.at_labels(probs, target).clamp(min=0).double().numpy()
        if not several:
            return places(values)
        constraint, sizes = self.rule.constraint, target.sum(1).numpy()
        allowed = constraint.level if isinstance(constraint, Risk) else Fraction(0)
        return places(deciding(values, sizes, allowed, descending=self.rule.ordering.descending))

    def _refer(self, found: Rows) -> None:
        for name, values in zip(UNLABELLED, found.unlabelled.T, strict=True):
            self.ranks[name].add(values)
        if found.label is not None and found.missed is not None:
            self.ranks["label"].add(found.label)
            self.reference_labelled += len(found)
            self.reference_missed = _added(self.reference_missed, found.missed)

    def _bet(self, found: Rows) -> None:
        uniforms = [shuffles(n, self.rows, len(found)) for n in range(len(SIGNALS))]
        for row, values in enumerate(found.unlabelled):
            p_values = [
                self.ranks[name].p_value(value, uniforms[n][row])
                for n, (name, value) in enumerate(zip(UNLABELLED, values, strict=True))
            ]
            self.bets["unlabelled"].bet(np.array(p_values))
            if found.label is not None:
                self._bet_on_label(int(found.label[row]), float(uniforms[-1][row]), self.rows + row)
        self.rows += len(found)

    def _bet_on_label(self, place: int, uniform: float, row: int) -> None:
        bets = self.bets["label"]
        bets.bet(np.array([self.ranks["label"].p_value(place, uniform)]))
        if bets.since[0] == bets.rows:
            self.label_since = row + 1

    def _note(self, found: Rows) -> None:
        """Keep what messages need of the newest rows, and raise alarms."""
        self.recent = np.concatenate([self.recent, found.unlabelled])[-RECENT:]
        self._note_labels(found, range(self.rows - len(found), self.rows))
        self._raise_alarms()

    def _note_labels(self, found: Rows, numbers: Sequence[int]) -> None:
        if found.label is not None and found.missed is not None:
            self.labelled, self.missed = self.labelled + len(found), _added(self.missed, found.missed)
            new = zip(numbers, found.label.tolist(), found.missed.tolist(), strict=True)
            self.label_rows = [*self.label_rows, *new][-RECENT:]

    def _raise_alarms(self) -> None:
        known = {alarm.signal for alarm in self.alarms}
        peaks = [*self.bets["unlabelled"].peak, *self.bets["label"].peak]
        since = [*self.bets["unlabelled"].since, self.label_since]
        for signal, peak, start in zip(SIGNALS, peaks, since, strict=True):
            if signal not in known and peak >= math.log(len(SIGNALS) / self.level):
                self.alarms.append(described(self, signal, int(start)))

    def since(self, signal: str, start: int) -> Array:
        """The numbers of a signal on the rows since then, of which the newest 2,000 are kept."""
        if signal == "label":
            return np.array([place for row, place, _ in self.label_rows if row >= start], np.int64)
        column = self.recent[:, UNLABELLED.index(signal)]
        return column[max(0, len(column) - (self.rows - start)) :]

    def __repr__(self) -> str:
        noticed = ", ".join(alarm.signal for alarm in self.alarms) or "no alarm"
        return f"Watch({self.rule.text}, {self.rows} rows, {self.labelled} labels, {noticed})"


def _added(total: float, shares: Array) -> float:
    """The sum, one number after the other, so that it does not depend on how rows were divided."""
    for share in shares.tolist():
        total += share
    return total


def watch(rule: SetRule, reference: Source, *new: Source, level: float = LEVEL) -> Watch:
    """Watch new rows, one file or batch after the other: what :class:`Watch` says of them.

    Args:
        rule: fitted.
        reference: rows that are as they should be, such as the calibration rows.
        *new: predictions or probabilities, in their order.
        level: the probability of a false alarm.

    >>> import numpy as np
    >>> from shortlist.sets import average_k
    >>> random = np.random.default_rng(0)
    >>> old, new, flat = (random.dirichlet(np.full(5, spread), 300) for spread in (0.3, 0.3, 3.0))
    >>> rule = average_k(2).fit(old)
    >>> watch(rule, old, new)
    Watch(average-k:2, 300 rows, 0 labels, no alarm)
    >>> print(watch(rule, old, new, flat).alarms[0].signal)
    confidence
    """
    found = Watch(rule, reference, level=level)
    for n, rows in enumerate(new, start=1):
        found.add(rows, name=f"file {n}")
    return found
