"""A folder of parts: what its manifest says, how one is found, and which folders are refused.

``manifest.json`` is there from the beginning, says for which rows and which network the folder is, and lists the parts in the
end. Until then each written part has a receipt in ``writing/``; a part without one does not count.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from shortlist.errors import InputError
from shortlist.files import write_text
from shortlist.predictions.header_records import header_of_record, header_record
from shortlist.predictions.network_digests import other_network
from shortlist.predictions.stored import Header, RowKind
from shortlist.words import counted, shown

FORMAT = "shortlist-parts/1"
MANIFEST, PROBLEMS, WRITING = "manifest.json", "problems.parquet", "writing"
PART = "part-*.parquet"
HASHED_BLOCK = 2**20  # bytes
FOR_ALL = {
    "classes": "classes",
    "superclasses": "superclasses",
    "link": "link",
    "link_tensors": "link",
    "train_counts": "numbers of training examples",
    "network_digest": "network",
}


@dataclass(frozen=True)
class Part:
    """One file of the folder.

    Args:
        file: its name.
        rows: the number of its rows.
        bytes: its size.
        sha256: checksum of these bytes.
        problems: the number of rows that could not be read.
    """

    file: str
    rows: int
    bytes: int
    sha256: str
    problems: int = 0


@dataclass(frozen=True)
class Manifest:
    """What a folder of parts holds.

    Args:
        header: what is known about the columns.
        kind: what each row holds.
        items: for each part, in order, what identifies the rows that it is made from.
        settings: anything else that scores depend on, by name.
        parts: the files; None as long as they are being written.
    """

    header: Header
    kind: RowKind
    items: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Part, ...] | None = None

    @property
    def rows(self) -> int:
        """The number of rows of all parts."""
        return sum(part.rows for part in self.parts or ())

    def with_parts(self, parts: Iterable[Part]) -> "Manifest":
        """The same with these files."""
        return replace(self, parts=tuple(parts))

    def write(self, folder: Path) -> None:
        """Write it into the folder, whole or not at all."""
        kind, parts = self.kind, self.parts
        record: dict[str, Any] = {
            "format": FORMAT,
            "complete": parts is not None,
            "rows": self.rows,
            "bytes": sum(part.bytes for part in parts or ()),
            "problems": sum(part.problems for part in parts or ()),
            "scores": _name_of(kind.scores),
            "target": None if kind.target is None else _name_of(kind.target),
            "ids": kind.ids,
            "quality": kind.quality,
            "fields": [list(field) for field in kind.columns],
            "settings": dict(self.settings),
            "columns": header_record(self.header, kind),
            "items": list(self.items),
            "parts": None if parts is None else [asdict(part) for part in parts],
        }
        write_text(folder / MANIFEST, json.dumps(record, ensure_ascii=False, indent=1) + "\n")

    @staticmethod
    def parse(content: str | bytes) -> "Manifest":
        """The manifest in this text."""
        record = json.loads(content)
        if record["format"] != FORMAT:
            raise InputError(f"expected the format {FORMAT}, got {shown(record['format'])}")
        columns, parts = record["columns"], record["parts"]
        target = record["target"]
        kind = RowKind(
            int(columns["num_classes"]),
            _dtype_of(record["scores"]),
            None if target is None else _dtype_of(target),
            bool(record["ids"]),
            bool(record["quality"]),
            tuple((str(name), _column_kind(what)) for name, what in record["fields"]),
        )
        found = None if parts is None else tuple(Part(**part) for part in parts)
        return Manifest(header_of_record(columns), kind, tuple(record["items"]), record["settings"], found)

    @staticmethod
    def read(folder: Path) -> "Manifest":
        """The manifest of the folder."""
        try:
            return Manifest.parse((folder / MANIFEST).read_bytes())
        except FileNotFoundError:
            raise InputError(f"{folder}: expected a folder of parts, got one without {MANIFEST}") from None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"cannot read {folder / MANIFEST}: {str(error) or type(error).__name__}") from error

    def check_same(self, folder: Path, other: "Manifest") -> None:
        """Raise an error if parts of the other manifest do not belong into this folder, which was begun with this one."""
        advice = "choose another folder, or remove this one to begin again"
        old, new = header_record(self.header, self.kind), header_record(other.header, other.kind)
        for name, called in FOR_ALL.items():
            if old.get(name) != new.get(name):
                how = _other_network(old, new) if called == "network" else f"with {_other(called)}"
                raise InputError(f"{folder}: the folder was begun {how}: {advice}")
        try:
            self.kind.check_same(other.kind, "as the folder was begun with")
        except InputError as error:
            raise InputError(f"{folder}: {error}: {advice}") from error
        for name in [*self.settings, *other.settings]:
            was, now = self.settings.get(name), other.settings.get(name)
            if was != now:
                raise InputError(f"{folder}: the folder was begun with {name} {shown(was)}, got {shown(now)}: {advice}")
        if len(self.items) != len(other.items):
            raise InputError(
                f"{folder}: the folder was begun for {counted(len(self.items), 'part')}, got rows for "
                f"{len(other.items)}: the source has changed: {advice}"
            )
        for number, (was, now) in enumerate(zip(self.items, other.items, strict=True)):
            if was != now:
                raise InputError(f"{folder}: the rows of {part_name(number)} have changed since the folder was begun: {advice}")


def _other(called: str) -> str:
    return f"another {called}" if called == "link" else f"other {called}"


def _other_network(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Why parts of two networks do not go into one folder: parts that are there need the whole digest."""
    was, now = (str(record.get("network_digest") or "") for record in (old, new))
    by = "by an earlier version of shortlist, which did not note how inputs are prepared"
    return f"with {other}" if (other := other_network(was, now)) else by


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _column_kind(kind: str) -> str:
    if kind not in ("U", "i", "f"):
        raise InputError(f"expected a kind of column, got {shown(kind)}")
    return kind


def _dtype_of(name: str) -> torch.dtype:
    known = {_name_of(dtype): dtype for dtype in (torch.float16, torch.float32, torch.float64, torch.int64, torch.bool)}
    if name not in known:
        raise InputError(f"expected a dtype, got {shown(name)}")
    return known[name]


def part_name(number: int) -> str:
    """The file of a part.

    >>> part_name(7)
    'part-00007.parquet'
    """
    return f"part-{number:05}.parquet"


def is_parts_folder(path: str | Path) -> bool:
    """Whether this is a folder of parts, finished or not."""
    return (Path(path) / MANIFEST).is_file()


def is_part_file(path: Path) -> bool:
    """Whether a file of this name would be part of a folder of parts that is there."""
    return (path.name in (MANIFEST, PROBLEMS, WRITING) or path.match(PART)) and is_parts_folder(path.parent)


def check_parts(where: str, manifest: Manifest, sizes: Mapping[str, int]) -> tuple[Part, ...]:
    """The parts of a finished folder; an error unless every one is there in its size, and no other.

    Args:
        where: the folder, for messages.
        manifest: of the folder.
        sizes: the size of every part file that is there.
    """
    if manifest.parts is None:
        raise InputError(
            f"{where}: not all of {counted(len(manifest.items), 'part')} are written yet: run what writes them again, it goes "
            "on where it stopped"
        )
    for part in manifest.parts:
        if part.file not in sizes:
            raise InputError(f"{where}: {part.file} is missing: run what wrote the folder again, it writes what is missing")
        if sizes[part.file] != part.bytes:
            raise InputError(
                f"{where}: {part.file} is damaged: expected {part.bytes:,} bytes, got {sizes[part.file]:,}: run what "
                "wrote the folder again, it writes what is damaged"
            )
    check_no_strays(where, sizes, [part.file for part in manifest.parts])
    return manifest.parts


def check_no_strays(where: str, found: Iterable[str], expected: Sequence[str]) -> None:
    """Raise an error if there are parts that do not belong to the folder."""
    strays = sorted(set(found) - set(expected))
    if strays:
        raise InputError(f"{where}: {strays[0]} is no part of this folder, by its {MANIFEST}: move it elsewhere")


def sha256_of(path: Path) -> str:
    """Checksum of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASHED_BLOCK):
            found.update(block)
    return found.hexdigest()
