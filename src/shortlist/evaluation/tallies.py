"""Tally: the totals of some rows, a value that is sent and merged with those of other rows in any order."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays, save as save_arrays
from torch import Tensor

from shortlist.errors import InputError
from shortlist.evaluation.exact_sums import ExactSum
from shortlist.evaluation.packing import packed, unpacked
from shortlist.evaluation.tally import TOTALS, Block
from shortlist.leading_bits import narrow, steps
from shortlist.tensors import Array
from shortlist.words import listed

FORMAT = "shortlist-tally/2"
READ = ("shortlist-tally/1", FORMAT)  # the first had every number of a table in eight bytes
HEADER = "header"


@dataclass(frozen=True, eq=False)
class Tally:
    """The totals of some rows, by name.

    Tallies of different rows are merged in any order, ``a + b``, with the same result to the last bit.

    Args:
        names: of the totals.
        rows: the number of rows.
        sums: totals that are sums.
        tables: totals with numbers for each row: those of consecutive rows, with the number of the first.
    """

    names: tuple[str, ...]
    rows: int = 0
    sums: Mapping[str, ExactSum] = field(default_factory=dict)
    tables: Mapping[str, tuple[tuple[int, Tensor], ...]] = field(default_factory=dict)

    @staticmethod
    def of(block: Block, names: Iterable[str], first_row: int = 0) -> "Tally":
        """The totals of a block of rows, whose numbers start at ``first_row``."""
        found = {name: TOTALS[name].adds(block) for name in names}
        sums = {name: ExactSum.of(total) for name, total in found.items() if not TOTALS[name].by_row}
        tables = {name: ((first_row, total),) for name, total in found.items() if TOTALS[name].by_row}
        return Tally(tuple(found), len(block.predictions), sums, tables)

    def merge(self, other: "Tally") -> "Tally":
        """The totals of the rows of both."""
        if self.names != other.names:
            raise InputError(f"tallies: expected the same totals, got {listed(self.names)} and {listed(other.names)}")
        if not (self.rows and other.rows):
            return self if self.rows else other
        differing = [name for name, total in self.sums.items() if total.limbs.shape != other.sums[name].limbs.shape]
        if differing:
            raise InputError(f"tallies: expected the same classes and bins, got {differing[0]} of two shapes")
        sums = {name: total.merge(other.sums[name]) for name, total in self.sums.items()}
        tables = {name: _in_order((*parts, *other.tables[name])) for name, parts in self.tables.items()}
        return Tally(self.names, self.rows + other.rows, sums, tables)

    __add__ = merge

    @property
    def totals(self) -> dict[str, Tensor]:
        """The totals by name; none without rows."""
        found = {name: total.value() for name, total in self.sums.items()}
        found |= {name: torch.cat([table for _, table in parts], 1) for name, parts in self.tables.items()}
        return {name: found[name] for name in self.names if name in found}

    def to_bytes(self) -> bytes:
        """The tally as the bytes of a safetensors file; for :meth:`from_bytes`."""
        arrays: dict[str, Array] = {}
        header: dict[str, Any] = {"format": FORMAT, "names": self.names, "rows": self.rows, "sums": {}, "tables": {}}
        for name, total in self.sums.items():
            limbs = total.carried().limbs.cpu().numpy()
            places = np.flatnonzero(limbs)  # most are 0, all but the first of sums of whole numbers
            arrays |= {f"{name}.places": steps(places), f"{name}.limbs": narrow(limbs.ravel()[places])}
            if bool(total.rest.any()):
                arrays[f"{name}.rest"] = total.rest.cpu().contiguous().numpy()
            header["sums"][name] = [str(total.dtype).removeprefix("torch."), limbs.shape]
        for name, parts in self.tables.items():
            for start, table in parts:
                for column, numbers in enumerate(table.double().cpu().contiguous().numpy()):
                    arrays |= {f"{name}.{start}.{column}.{part}": array for part, array in packed(numbers).items()}
            header["tables"][name] = [(start, table.shape) for start, table in parts]
        content: bytes = save_arrays({HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays})
        return content

    @staticmethod
    def from_bytes(content: bytes) -> "Tally":
        """The tally that :meth:`to_bytes` gave; nothing in it is executed."""
        try:
            arrays = load_arrays(content)
            header = json.loads(arrays.pop(HEADER).tobytes())
            if header["format"] not in READ:
                raise InputError(f"tally: expected the format {FORMAT}, got {header['format']!r}")
            sums = {name: _sum(name, dtype, shape, arrays) for name, (dtype, shape) in header["sums"].items()}
            read = _table if header["format"] == FORMAT else _plain_table
            tables = {name: tuple(read(name, part, arrays) for part in parts) for name, parts in header["tables"].items()}
            return Tally(tuple(header["names"]), header["rows"], sums, tables)
        except (SafetensorError, KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise InputError(f"tally: expected what Tally.to_bytes gave, got something else ({error!r})") from error


def _sum(name: str, dtype: str, shape: list[int], arrays: Mapping[str, Array]) -> ExactSum:
    limbs = np.zeros(math.prod(shape), np.int64)
    limbs[np.cumsum(arrays[f"{name}.places"], dtype=np.int64)] = arrays[f"{name}.limbs"]
    rest = torch.from_numpy(arrays[f"{name}.rest"]) if f"{name}.rest" in arrays else torch.zeros(shape[1:], dtype=torch.float64)
    return ExactSum(torch.from_numpy(limbs.reshape(shape)), rest, getattr(torch, dtype))


def _table(name: str, part: tuple[int, tuple[int, int]], arrays: Mapping[str, Array]) -> tuple[int, Tensor]:
    start, (columns, rows) = part
    found = np.zeros((columns, rows))
    for column in range(columns):
        prefix = f"{name}.{start}.{column}."
        kept = {part: arrays[prefix + part] for part in ("places", "values") if prefix + part in arrays}
        found[column] = unpacked(kept, rows)
    return start, torch.from_numpy(found)


def _plain_table(name: str, start: int, arrays: Mapping[str, Array]) -> tuple[int, Tensor]:
    return start, torch.from_numpy(arrays[f"{name}.{start}"])


def _in_order(parts: tuple[tuple[int, Tensor], ...]) -> tuple[tuple[int, Tensor], ...]:
    """Tables in the order of their rows; those of rows that follow each other become one."""
    found: list[tuple[int, Tensor]] = []
    for start, table in sorted(parts, key=lambda part: part[0]):
        if found and found[-1][0] + found[-1][1].shape[1] == start:
            found[-1] = found[-1][0], torch.cat([found[-1][1], table], 1)
        elif found and found[-1][0] + found[-1][1].shape[1] > start:
            raise InputError(f"tallies: expected those of different rows, got row {start} twice")
        else:
            found.append((start, table))
    return tuple(found)
