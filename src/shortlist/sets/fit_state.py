"""FitState: what is known about calibration rows at one point of a fit, small enough to be sent, and merged in any order."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from typing import Any, Literal, TypeAlias

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays, save as save_arrays

from shortlist.errors import InputError
from shortlist.leading_bits import BitCounts, added, narrow
from shortlist.sets.draws import Digest
from shortlist.sets.groups import Found
from shortlist.sets.origin import agree, differing, sealed
from shortlist.tensors import Array

Stage: TypeAlias = Literal["gate", "draws", "threshold", "groups", "sizes", "done"]
FORMAT = "shortlist-fit/2"
READ = ("shortlist-fit/1", FORMAT)  # the first had the names of all classes in every state
HEADER = "header"


@dataclass(frozen=True, eq=False)
class Known:
    """What earlier rounds have found: the same in every state of a round.

    Args:
        sizes: whether the sizes of the sets are measured in the end.
        gate: the threshold of the gate.
        seed: of the draws of calibration rows, and of new rows.
        listed: the draw of every row, where they come from the user's generator.
        threshold: of the rule, float64, () or (C,).
        labels: the number of labels that it was chosen on.
        tied: how many more of these are within it than were needed; -1 for none, if those tie.
        notes: what the user should know about it.
        groups: what was found for groups of rows, by their names.
    """

    sizes: bool = True
    gate: float | None = None
    seed: tuple[int, int] | None = None
    listed: Array | None = None
    threshold: Array | None = None
    labels: Array | None = None
    tied: Array | None = None
    notes: tuple[str, ...] = ()
    groups: dict[str, Found] = field(default_factory=dict)


@dataclass(frozen=True)
class Sizes:
    """The sizes of the sets of some rows.

    Args:
        sizes: those that occur, in order, uint64.
        counts: the number of sets of each, int64 (n, 1).
        single: the number of rows with exactly one label, as far as that matters.
        right: the number of these whose most probable label is that label.
    """

    sizes: Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: Array = field(default_factory=lambda: np.zeros((0, 1), np.int64))
    single: int = 0
    right: int = 0

    def merge(self, other: "Sizes") -> "Sizes":
        """The sizes of the sets of the rows of both."""
        sizes, counts = added([(self.sizes, self.counts), (other.sizes, other.counts)])
        return Sizes(sizes, counts, self.single + other.single, self.right + other.right)


@dataclass(frozen=True, eq=False)
class FitState:
    """What one round of a fit asks of calibration rows, and the answers of some of them.

    States of the same round are merged in any order, ``a + b``, with the same result; :meth:`to_bytes` is what is sent.

    Args:
        stage: what the round is for: the threshold of the gate, the seed of random draws, the threshold of the rule, those
            of the groups of rows, or the sizes of its sets; ``done`` if nothing is left to ask.
        known: what earlier rounds have found.
        rows: the number of rows that have answered.
        origin: the number of classes of these rows, their names and link where they are known; None without rows. What was
            sent has a digest in place of the names, see :func:`~shortlist.sets.origin.sealed`.
        counts: of values, for a threshold.
        groups: of values of groups of rows, by their names.
        digest: of the rows, for draws.
        sizes: of sets.
    """

    stage: Stage
    known: Known = field(default_factory=Known)
    rows: int = 0
    origin: dict[str, Any] | None = None
    counts: BitCounts | None = None
    digest: Digest = field(default_factory=Digest)
    sizes: Sizes = field(default_factory=Sizes)
    groups: dict[str, BitCounts] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether nothing is left to ask."""
        return self.stage == "done"

    @property
    def classes(self) -> int:
        """The number of classes, if there are rows."""
        return 0 if self.origin is None else int(self.origin["classes"])

    def empty(self) -> "FitState":
        """The same round without answers."""
        counts = None if self.counts is None else self.counts.empty()
        return FitState(self.stage, self.known, counts=counts, groups={name: one.empty() for name, one in self.groups.items()})

    def merge(self, other: "FitState") -> "FitState":
        """The answers of the rows of both."""
        if self.stage != other.stage or (self.counts is None) != (other.counts is None):
            raise InputError(f"states: expected those of one round, got a round for {self.stage!r} and one for {other.stage!r}")
        origin = _same(self.origin, other.origin)
        counts = None if self.counts is None or other.counts is None else self.counts.merge(other.counts)
        both = self.groups.keys() & other.groups.keys()
        return replace(
            self,
            rows=self.rows + other.rows,
            origin=origin,
            counts=counts,
            digest=self.digest.merge(other.digest),
            sizes=self.sizes.merge(other.sizes),
            groups=self.groups | other.groups | {name: self.groups[name] + other.groups[name] for name in both},
        )

    __add__ = merge

    def to_bytes(self) -> bytes:
        """The state as the bytes of a safetensors file, without the names of the classes; for :meth:`from_bytes`."""
        known = asdict(self.known)
        arrays = {f"known.{name}": known.pop(name) for name in ("listed", "threshold", "labels", "tied")}
        arrays["known.threshold"] = _narrow_floats(arrays["known.threshold"])
        for name in ("known.labels", "known.tied"):
            arrays[name] = None if arrays[name] is None else narrow(arrays[name])
        arrays |= {"sizes.sizes": self.sizes.sizes, "sizes.counts": self.sizes.counts}
        header: dict[str, Any] = {
            "format": FORMAT,
            "stage": self.stage,
            "known": known,
            "rows": self.rows,
            "origin": None if self.origin is None else sealed(self.origin),
            "digest": self.digest,
            "sizes": (self.sizes.single, self.sizes.right),
            "counts": None,
        }
        if self.counts is not None:
            header["counts"], more = self.counts.packed()
            arrays |= {f"counts.{name}": array for name, array in more.items()}
        header["groups"] = []
        for place, (name, counts) in enumerate(sorted(self.groups.items())):
            plain, more = counts.packed()
            header["groups"].append((name, plain))
            arrays |= {f"groups.{place}.{part}": array for part, array in more.items()}
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        held = {name: np.asarray(array, order="C") for name, array in arrays.items() if array is not None}
        content: bytes = save_arrays({HEADER: text, **held})
        return content

    @staticmethod
    def from_bytes(content: bytes) -> "FitState":
        """The state that :meth:`to_bytes` gave; nothing in it is executed."""
        try:
            arrays = load_arrays(content)
            header = json.loads(arrays.pop(HEADER).tobytes())
            if header["format"] not in READ:
                raise InputError(f"state: expected the format {FORMAT}, got {header['format']!r}")
            return _from_parts(header, arrays)
        except (SafetensorError, KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise InputError(f"state: expected what FitState.to_bytes gave, got something else ({error!r})") from error


def _from_parts(header: dict[str, Any], arrays: dict[str, Array]) -> FitState:
    known = header["known"]
    known["seed"] = None if known["seed"] is None else tuple(known["seed"])
    known["notes"] = tuple(known["notes"])
    kinds = {"listed": None, "threshold": np.float64, "labels": np.int64, "tied": np.int64}
    held: dict[str, Any] = {name: arrays.get(f"known.{name}") for name in kinds}
    held |= {name: held[name].astype(kind) for name, kind in kinds.items() if kind is not None and held[name] is not None}
    known["groups"] = {name: Found(*found) for name, found in known["groups"].items()}
    counts = None if header["counts"] is None else BitCounts.unpacked(header["counts"], below("counts.", arrays))
    told = enumerate(header["groups"])
    groups = {name: BitCounts.unpacked(plain, below(f"groups.{place}.", arrays)) for place, (name, plain) in told}
    return FitState(
        header["stage"],
        Known(**known, **held),
        header["rows"],
        header["origin"],
        counts,
        Digest(*header["digest"]),
        Sizes(arrays["sizes.sizes"], arrays["sizes.counts"], *header["sizes"]),
        groups,
    )


def below(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    """The arrays whose names begin so, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def merged(states: Iterable[FitState]) -> FitState:
    """All answers of one round."""
    found = iter(states)
    first = next(found, None)
    if first is None:
        raise InputError("states: expected at least one, got none")
    return reduce(FitState.merge, found, first)


def _same(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any] | None:
    """The origin of both, with the names of the classes if either has them."""
    if one is None or other is None or one == other:
        return one or other
    if not agree(one, other):
        raise InputError(f"states: expected rows with the same classes and link in every shard, {differing(one, other)}")
    return one if "names" in one else other


def _narrow_floats(numbers: Array | None) -> Array | None:
    """The same numbers in the narrowest type that holds them."""
    if numbers is None:
        return None
    with np.errstate(over="ignore"):
        narrower = (numbers.astype(kind) for kind in (np.float16, np.float32))
        return next((found for found in narrower if np.array_equal(found.astype(numbers.dtype), numbers)), numbers)
