"""Groups: a threshold for each value of a column, beside the common one (Mondrian conformal prediction).

The threshold of a group is chosen on its calibration rows alone, so what the constraint guarantees holds within the group. A
group with too few calibration rows has the common threshold, that of all rows; so have rows of groups that were not among the
calibration rows, and rows whose group is not known. With ``shrink`` the threshold of a group lies between its own and the
common one, the nearer to its own the more calibration rows it has.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import optional, whole
from shortlist.errors import InputError
from shortlist.fitting import Fitted
from shortlist.predictions.columns import as_column, as_names, name_of_number
from shortlist.predictions.group_spellings import group_of
from shortlist.row_order import first_largest
from shortlist.sets.batches import Batch
from shortlist.sets.constraints import Constraint
from shortlist.sets.orderings import Ordering
from shortlist.tensors import Probs, Sets, shape_of
from shortlist.words import counted, quoted, shown

ALL = ""  # the name of the search among all rows; rows without a group are in no other
BUFFERS = {"texts": torch.uint8, "rows": torch.int64, "thresholds": torch.float64, "own": torch.bool}
PREDICTED = "predicted"  # stands for the most probable label of the row, which needs no column


class Found(NamedTuple):
    """What the search among the rows of one group found, as JSON holds it.

    Args:
        threshold: one number, or one for each class.
        counted: the number of labels that each was chosen on, or of rows where labels do not matter.
        rows: the number of rows.
    """

    threshold: float | list[float]
    counted: int | list[int]
    rows: int


class Groups(Fitted):
    """Which column the rows of a rule are grouped by, and the thresholds of the groups.

    Args:
        column: the name of the column; ``predicted`` groups rows by their most probable label.
        least: the number of calibration rows from which a group has a threshold of its own; by default what the constraint
            needs, and 1 with ``shrink``.
        shrink: the number of calibration rows with which the threshold of a group is half way between the common one and its
            own; None (the default) takes its own.

    Attributes:
        texts: the names of the groups among the calibration rows, in order, as UTF-8 bytes, uint8 (G, longest); None before
            the fit.
        rows: the number of calibration rows of each, int64 (G,); None before the fit.
        thresholds: of each, float64 (G,), or (G, C) for a rule with one for each class; None before the fit.
        own: whether these come from the group's own rows rather than being the common ones, bool of the same shape.
    """

    texts: Tensor | None
    rows: Tensor | None
    thresholds: Tensor | None
    own: Tensor | None

    def __init__(self, column: str, least: int | None = None, shrink: int | None = None):
        super().__init__()
        if not isinstance(column, str) or not column or any(sign in column for sign in ",:"):
            raise InputError(f"by: expected the name of a column, without commas and colons, got {shown(column)}")
        self.column, self.shrink = column, optional(whole(1))("shrink", shrink)
        self.least = 1 if least is None and shrink is not None else optional(whole(1))("rows", least)
        for name in BUFFERS:
            self.register_buffer(name, None)

    @property
    def text(self) -> str:
        """The modifier of a rule with these groups."""
        return ":".join(["by", self.column, *(str(number) for number in (self.least, self.shrink) if number is not None)])

    @property
    def predicted(self) -> bool:
        """Whether rows are grouped by their most probable label."""
        return self.column == PREDICTED

    @property
    def fitted(self) -> bool:
        """Whether the groups are known."""
        return self.thresholds is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups among the calibration rows."""
        return () if self.texts is None else tuple(row.tobytes().rstrip(b"\0").decode() for row in self.texts.cpu().numpy())

    def config(self) -> dict[str, Any]:
        """The parameters, as JSON holds them."""
        return {"column": self.column, "least": self.least, "shrink": self.shrink}

    def least_rows(self, constraint: Constraint) -> int:
        """The number of calibration rows from which a group has a threshold of its own."""
        return constraint.fewest_rows if self.least is None else self.least

    def guarantee(self, constraint: Constraint, *, weighted: bool = False) -> str:
        """What is promised for the groups, as the end of a sentence."""
        value = "each most probable label" if self.predicted else f"each value of {self.column}"
        worth = "calibration rows worth at least" if weighted else "at least"
        rows = "of equal weight" if weighted else "calibration rows"
        if self.shrink is not None:
            return (
                f"this holds only approximately, both among all rows and among those of {value}: a group with {worth} "
                f"{self.least:,} {rows}, n in number, has a threshold n / (n + {self.shrink}) of the way from that of all rows "
                "to its own, the others have that of all rows"
            )
        return (
            f"this holds among the rows of {value} with {worth} {self.least_rows(constraint):,} {rows}; the others "
            "are answered by the threshold of all rows, and nothing is promised for them by themselves"
        )

    def take(self, found: "Mapping[str, Found]", common: Tensor, least: int, *, weighted: bool = False) -> tuple[str, ...]:
        """Keep the thresholds of the groups, the common one where there are too few rows, and say how many these are."""
        names = sorted(found)
        longest = np.array([name.encode() for name in names], dtype=bytes)
        self.texts = torch.from_numpy(longest.view(np.uint8).reshape(len(names), -1 if names else 1).copy())
        self.rows = torch.tensor([found[name].rows for name in names], dtype=torch.int64)
        enough = [_spread(torch.tensor(found[name].counted) >= least, common) for name in names]
        none = torch.zeros((0, *common.shape))
        self.own = torch.stack(enough) if names else none.bool()
        own = [self._shrunk(found[name], common) for name in names]
        self.thresholds = torch.where(self.own, torch.stack(own) if names else none.double(), common)
        short = int((~self.own).reshape(len(names), math.prod(common.shape)).any(1).sum())
        if not short:
            return ()
        what = "" if not common.ndim else " of some label"
        which = "common threshold there" if common.ndim else "common threshold"
        groups = counted(len(names), "group")
        rows = (
            f"calibration rows worth fewer than {least:,} of equal weight"
            if weighted
            else f"fewer than {least:,} calibration rows"
        )
        return (f"{short:,} of {groups} have {rows}{what}: they have the {which}",)

    def within(self, found: Found, span: tuple[float, float] | None) -> Found:
        """What was found for a group, as it may be shrunk: infinite thresholds as the ends of the span of the values."""
        if self.shrink is None or span is None:
            return found
        return found._replace(threshold=torch.tensor(found.threshold, dtype=torch.float64).clamp(*span).tolist())

    def _shrunk(self, found: Found, common: Tensor) -> Tensor:
        """The threshold of a group, or of each class in it: its own, or one between that and the common one."""
        own = torch.tensor(found.threshold, dtype=torch.float64)
        if self.shrink is None:
            return own
        n = torch.tensor(found.counted, dtype=torch.float64)
        return torch.where(own == common, own, (n * own + self.shrink * common) / (n + self.shrink))

    def codes(self, groups: Any, probs: Probs) -> Tensor:
        """The number of the group of each row, int64 (N,); that after the last for rows of no known group."""
        if not len(probs):
            return torch.empty(0, dtype=torch.int64)
        known = {name: place for place, name in enumerate(self.names)}
        names = self.names_of(groups, probs) if self.predicted or groups is None else self._names(groups, len(probs))
        return torch.tensor([known.get(name, len(known)) for name in names], dtype=torch.int64)

    def names_of(self, groups: Any, probs: Probs) -> list[str]:
        """The group of each row; empty where it is not known."""
        if self.predicted:
            return [str(label) for label in first_largest(probs).squeeze(1).tolist()]
        if groups is None:
            raise needs_groups(self.text, self.column)
        return as_names(as_column(groups, len(probs), "groups"))

    def parts(self, batch: Batch) -> Iterator[tuple[str, Batch]]:
        """The batch, as the rows of the search among all, and then its rows group by group."""
        yield ALL, batch
        if not len(batch.probs):
            return
        names = self.names_of(batch.groups, batch.probs)
        found: dict[str, int] = {}
        codes = np.array([found.setdefault(name, len(found)) for name in names], np.int64)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(found)))
        for name, rows in zip(found, np.split(order, ends[:-1]), strict=True):
            if name != ALL:
                yield name, batch.rows(torch.from_numpy(rows))

    def unknown(self, groups: Any, rows: int) -> str | None:
        """A sentence if some of these rows are of no group among the calibration rows, or None."""
        if self.predicted or not self.fitted:
            return None
        names = self._names(groups, rows)
        others = [name for name in names if name not in set(self.names)] if set(names) - set(self.names) else []
        if not others:
            return None
        what = sorted({name for name in others if name})
        named = f": {quoted(what, 3)}" if what else ""
        return (
            f"{len(others):,} of {counted(rows, 'row')} are of no {self.column} that was among the calibration rows{named}; "
            "they are answered by the common threshold"
        )

    @property
    def are_texts(self) -> bool:
        """Whether the groups are not all called as numbers are: then 1.10 and 1.1 may be two of them."""
        return any(name_of_number(name) != name for name in self.names)

    def _names(self, groups: Any, rows: int) -> list[str]:
        """The group of each row, texts as the groups they stand for; an error for a number that several of the groups spell."""
        column = as_column(groups, rows, "groups")
        names = as_names(column)
        if self.are_texts and column.dtype.kind != "U":
            spellings = Counter(name_of_number(name) for name in self.names)
            merged = next((name for name in names if spellings[name] > 1), None)
            if merged is not None:
                several = quoted([name for name in self.names if name_of_number(name) == merged], 3)
                raise InputError(
                    f"{self.text}: expected the {self.column} of each row as a text, since {several} are groups of their own, "
                    f"got the number {merged}: read the column as text, or write it as text"
                )
        known = set(self.names)
        spelt = {name: group_of(name, known) or name for name in set(names)}
        return [spelt[name] for name in names]

    def check_buffers(self, common: Tensor | None) -> None:
        """Raise an error unless what was loaded belongs together, and to this common threshold."""
        held = [getattr(self, name) for name in BUFFERS]
        if all(part is None for part in held):
            return
        for (name, kind), part in zip(BUFFERS.items(), held, strict=True):
            shape = () if common is None or name == "rows" else held[0].shape[1:] if name == "texts" else common.shape
            if part is None or part.dtype != kind or part.shape[:1] != held[0].shape[:1] or part.shape[1:] != shape:
                raise InputError(f"by: expected {name} of every group, got {'none' if part is None else shape_of(part)}")
        if bool(held[2].isnan().any()):
            raise InputError("by: expected a threshold for each group, got nan")
        if len(set(self.names)) < len(held[0]):
            raise InputError("by: expected different groups, got one twice")


def needs_groups(what: str, column: str) -> InputError:
    """The error for rows whose groups are not given."""
    return InputError(
        f"{what}: expected the {column} of each row, got none: pass groups=, or predictions with a column called {column!r} "
        "(predictions.with_columns)"
    )


def _spread(enough: Tensor, common: Tensor) -> Tensor:
    """Whether there are enough rows, for every threshold."""
    return enough.expand(common.shape)


def select_by_group(ordering: Ordering, probs: Probs, limits: Tensor, codes: Tensor, draws: Tensor | None) -> Sets:
    """The labels within the threshold of the group of each row.

    Args:
        ordering: of the rule.
        probs: (N, C).
        limits: what values are compared with, for each group and last the common one.
        codes: the number of the group of each row.
        draws: one for each row, if the ordering draws any.
    """
    if draws is None and (row_draws := ordering.row_draws()) is not None:
        draws = row_draws(probs).to(probs.device)
    sets = torch.empty(probs.shape, dtype=torch.bool, device=probs.device)
    for code in codes.unique().tolist():
        rows = (codes == code).nonzero().squeeze(1).to(probs.device)
        drawn = () if draws is None else (draws[rows],)
        sets[rows] = ordering.select(probs[rows], limits[code].to(probs.device), *drawn)
    return sets
