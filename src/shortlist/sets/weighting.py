"""Weights: calibration rows that count more or less, because new rows are distributed in another way; and votes for labels.

A conformal threshold is a quantile of calibration scores. Where new rows look different from calibration rows, a row counts
by the ratio of the two densities at it, and the new row itself counts too (Tibshirani, Barber, Candès, Ramdas, "Conformal
prediction under covariate shift", 2019). Where they differ in the shares of the classes, a row counts by the ratio of the
shares of its class, and a label is compared with the threshold for its own weight (Podkopaev, Ramdas, "Distribution-free
uncertainty quantification for classification under label shift", 2021). Where a row has votes instead of a label, each
label counts by its share of the votes (Stutz, Roy, Matejovicova, Strachan, Cemgil, Doucet, "Conformal prediction under
ambiguous ground truth", 2023, in the limit of many draws). The share of the votes for a row that its set misses is a loss
between 0 and 1 that falls as sets grow, and the new row counts as one that misses all: so the bound is that of conformal risk
control (Angelopoulos, Bates, Fisch, Lei, Schuster, "Conformal risk control", 2022, theorem 1, with weights section 4.1).
"""

from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.class_names import by_class
from shortlist.errors import InputError
from shortlist.fitting import Fitted
from shortlist.sets.ladder import Ladder, Scale
from shortlist.tensors import as_tensor, shape_of

LARGEST_EXPONENT = 1200  # that of the smallest number above 0 is 1074, and a scale has 40 bits beside it
OVERWHELMING = 2**200  # a weight beside which those of all calibration rows, below 2^63, vanish in a float
BOTH: Final = "rows and votes"
Kind: TypeAlias = Literal["rows", "classes", "votes", "rows and votes"]
NO_VOTE = "target: expected labels, or a vote in every row"
KINDS = ("rows", "classes", "votes", BOTH)
MEANINGS: dict[Kind, str] = {
    "rows": "calibration rows count by their weights: this holds for new rows distributed as the calibration rows times the "
    "weight, as far as the weights are right",
    "classes": "calibration rows count by the weight of their class: this holds for new rows whose classes have shares changed "
    "by these weights and look the same otherwise, as far as the weights are right",
    "votes": "the label of a row is one that is drawn from its votes",
}
MEANINGS[BOTH] = f"{MEANINGS['votes']}, and {MEANINGS['rows']}"


class Weights(NamedTuple):
    """What calibration rows count by; None where they count alike.

    Args:
        rows: float64 (N,).
        classes: float64 (C,).
        votes: the share of each label, float64 (N, C).
    """

    rows: Tensor | None = None
    classes: Tensor | None = None
    votes: Tensor | None = None

    @property
    def kind(self) -> Kind | None:
        """What the rule guarantees with them."""
        if self.votes is not None:
            return "votes" if self.rows is None else BOTH
        return "rows" if self.rows is not None else None if self.classes is None else "classes"

    def of_rows(self, numbers: Tensor) -> Tensor:
        """The weights of these rows, float64 (n,)."""
        return torch.ones(len(numbers), dtype=torch.float64) if self.rows is None else _at(self.rows, numbers, "weights")

    def votes_of(self, numbers: Tensor) -> Tensor:
        """The shares of the labels among the votes for these rows, float64 (n, C)."""
        assert self.votes is not None
        return _at(self.votes, numbers, "votes")

    def check_rows(self, rows: int) -> None:
        """Raise an error unless there is a weight, and there are votes, for each of so many rows."""
        for name, part in (("weights", self.rows), ("votes", self.votes)):
            if part is not None and len(part) != rows:
                raise InputError(f"{name}: expected one for each of {rows:,} rows, got {len(part):,}")

    def of_new_rows(self, classes: int) -> Tensor:
        """What a new row counts for: with each label as much as that, (C,), else as the heaviest calibration row, (1,)."""
        if self.classes is not None:
            if len(self.classes) != classes:
                raise InputError(f"class_weights: expected one for each of {classes} classes, got {len(self.classes)}")
            return self.classes
        return torch.ones(1, dtype=torch.float64) if self.rows is None else self.rows.max()[None]


def _at(part: Tensor, numbers: Tensor, name: str) -> Tensor:
    if len(numbers) and int(numbers.max()) >= len(part):
        raise InputError(f"{name}: expected one for each row, got {len(part):,} for at least {int(numbers.max()) + 1:,}")
    return part[numbers.cpu()]


def as_weights(values: Any, name: str = "weights", shape: tuple[int, ...] | None = None, *, only_zeros: bool = False) -> Tensor:
    """Finite numbers from 0, as float64; not all 0 unless they may be, as for new rows, which are answered one by one.

    >>> as_weights([2, 0.5])
    tensor([2.0000, 0.5000], dtype=torch.float64)
    """
    values = np.asarray(values) if isinstance(values, list | tuple) else values
    found = as_tensor(values, name)
    if found.is_complex() or found.dtype == torch.bool or (shape is not None and found.shape != shape):
        wanted = "numbers" if shape is None else f"numbers {shape}"
        raise InputError(f"{name}: expected {wanted}, got {shape_of(found)}")
    found = found.detach().double().cpu()
    wrong = ~(found.isfinite() & (found >= 0))
    if bool(wrong.any()):
        place = tuple(wrong.nonzero()[0].tolist())
        raise InputError(f"{name}: expected finite numbers from 0, got {found[place].item()} at {place[0]}")
    if found.numel() and not only_zeros and not bool((found > 0).any()):
        raise InputError(f"{name}: expected a number above 0, got only zeros")
    return found


def as_votes(votes: Any, *, some_without: bool = False) -> Tensor:
    """The share of each label among the votes for each row, float64 (N, C); all 0 where there may be rows without votes."""
    found = as_weights(votes, "votes")
    if found.ndim != 2:
        raise InputError(f"target: expected the votes for each label of each row, (N, C), got {shape_of(found)}")
    total = found.sum(1, keepdim=True)
    if bool((total == 0).any()) and not some_without:
        row = int((total == 0).nonzero()[0, 0])
        raise InputError(f"{NO_VOTE}, got none for row {row}")
    return found / torch.where(total > 0, total, 1.0)


def votes_among(target: Any) -> tuple[Any, Any]:
    """The labels and the votes, one of which a target is: votes are real numbers (N, C)."""
    if target is None or isinstance(target, str):
        return target, None
    found = np.asarray(target) if isinstance(target, list | tuple) else target
    kind = getattr(found, "values", found) if hasattr(found, "columns") else found
    real = kind.is_floating_point() if isinstance(kind, Tensor) else getattr(getattr(kind, "dtype", None), "kind", "") == "f"
    return (None, kind) if real and kind.ndim == 2 else (target, None)


def checked_weights(
    rows: Any,
    classes: Any,
    votes: Any,
    names: Any = None,
    shape: tuple[int, int] | None = None,
    *,
    some_without: bool = False,
) -> Weights | None:
    """The weights that were given; None if all rows count alike.

    Args:
        rows: a number for each row.
        classes: a number for each class, or by the names of the classes.
        votes: those for each label of each row.
        names: of the classes, if they are known.
        shape: the number of rows and classes, if it is known.
        some_without: whether there may be rows without votes, which have no label.
    """
    own = None if rows is None else as_weights(rows)
    if shape is not None and own is not None and own.ndim == 1 and len(own) != shape[0]:
        raise InputError(f"weights: expected one for each of {shape[0]:,} rows, got {len(own):,}")
    if own is not None and own.ndim != 1:
        raise InputError(f"weights: expected one number for each row, (N,), got {shape_of(own)}")
    shares = None if classes is None else as_weights(by_class("class_weights", classes, names), "class_weights")
    if shares is not None and shares.ndim != 1:
        raise InputError(f"class_weights: expected one number for each class, (C,), got {shape_of(shares)}")
    if shape is not None and shares is not None and len(shares) != shape[1]:
        raise InputError(f"class_weights: expected one for each of {shape[1]} classes, got {len(shares)}")
    own, shares = (None if part is None or bool((part == part[:1]).all()) else part for part in (own, shares))
    if shares is not None and (own is not None or votes is not None):
        raise InputError("class_weights: expected them alone, got weights of rows or votes as well")
    found = Weights(own, shares, None if votes is None else as_votes(votes, some_without=some_without))
    return None if found.kind is None else found


def effective_sample_size(weights: Any) -> float:
    """How many rows of equal weight these are worth, ``(Σ w)² / Σ w²`` (Kish, "Survey sampling", 1965).

    >>> effective_sample_size([1, 1, 1, 1]), effective_sample_size([2, 1])
    (4.0, 1.8)
    """
    found = as_weights(weights)
    if not found.numel():
        return 0.0
    found = found / found.max()  # squares of tiny or huge ones would be 0 or infinite
    return float(found.sum() ** 2 / (found**2).sum())


class Weighting(Fitted):
    """What a rule keeps of the weights that it was fitted with, for new rows that bring a weight of their own.

    Attributes:
        kind: what the calibration rows counted by; None if they counted alike.
        values: of the calibration rows, from the most plausible on; None unless there is one threshold for all labels.
        sums: the weight up to each, whole numbers.
        exponent: of the scale of these.
        parts: of the same; None if rows are not counted in parts.
    """

    kind: Kind | None
    values: Tensor | None
    sums: Tensor | None
    exponent: Tensor | None
    parts: Tensor | None

    def __init__(self, kind: Kind | None = None) -> None:
        super().__init__()
        if kind is not None and kind not in KINDS:
            raise InputError(f"weighting: expected rows, classes, votes or both, got {kind!r}")
        self.kind = kind
        for name in ("values", "sums", "exponent", "parts"):
            self.register_buffer(name, None)

    def keep(self, kind: Kind | None, ladder: Ladder | None = None, scale: Scale | None = None) -> None:
        """Keep a ladder, or forget that there was one."""
        self.kind, self.values, self.sums, self.exponent, self.parts = kind, None, None, None, None
        if ladder is not None and scale is not None:
            self.values, self.sums = torch.from_numpy(ladder.values.copy()), torch.from_numpy(ladder.sums)
            self.exponent = torch.tensor(scale.exponent)
            self.parts = None if scale.parts == 1 else torch.tensor(scale.parts)

    def whole(self, weights: Tensor) -> Tensor:
        """These weights of new rows in the whole numbers of the calibration rows, float64."""
        scale = self._scale()  # what outweighs all calibration rows by far does so at any size, which a float holds
        return torch.tensor([float(min(scale.one(weight), OVERWHELMING)) for weight in weights.tolist()], dtype=torch.float64)

    def limits(self, weights: Tensor, level: Fraction, worst: float) -> tuple[Tensor, Tensor]:
        """The thresholds for these weights of new rows, each once, and the place of that of each row."""
        scale = self._scale()
        if self.values is None or self.sums is None:
            raise _no_ladder()
        distinct, places = weights.unique(return_inverse=True)
        ladder = Ladder(self.values.cpu().numpy(), self.sums.cpu().numpy())
        found = ladder.quantiles(level, [scale.one(weight) for weight in distinct.tolist()], worst)
        limits, where = np.unique(found, return_inverse=True)
        return torch.from_numpy(limits), torch.from_numpy(where)[places]

    def _scale(self) -> Scale:
        if self.exponent is None:
            raise _no_ladder()
        return Scale(int(self.exponent), 1 if self.parts is None else int(self.parts))

    def check_buffers(self) -> None:
        """Raise an error unless what was loaded belongs together."""
        held = (self.values, self.sums, self.exponent)
        if self.parts is not None and (
            self.exponent is None or self.parts.dtype != torch.int64 or self.parts.ndim or int(self.parts) < 1
        ):
            raise InputError("weighting: expected the parts of rows, a whole number, with the exponent of their scale")
        if all(part is None for part in held):
            return
        kinds = (torch.float64, torch.int64, torch.int64)
        if any(part is None or part.dtype != kind for part, kind in zip(held, kinds, strict=True)):
            raise InputError("weighting: expected values, sums and their exponent together")
        assert self.values is not None
        assert self.sums is not None
        if self.values.ndim != 1 or self.values.shape != self.sums.shape or bool((self.sums.diff() < 0).any()):
            raise InputError("weighting: expected a sum that grows for each value")
        if self.exponent is None or self.exponent.ndim or abs(int(self.exponent)) > LARGEST_EXPONENT:
            raise InputError("weighting: expected the exponent of a scale of floating-point numbers, got another")


def _no_ladder() -> InputError:
    return InputError(
        "weights: expected a rule with one threshold that was fitted with weights of rows, or with votes: fit it with "
        "weights, or leave those of new rows out"
    )
