"""What an index consists of at one moment: one small JSON file that names all others, replaced whole."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import flush, written_whole
from shortlist.retrieval.seals import seal_of_json

NAME = "index.json"
FORMAT = 1


@dataclass(frozen=True)
class SegmentEntry:
    """Rows that were added together.

    Args:
        name: what its files are called after.
        rows: how many, the deleted ones included.
        first: the number of its first row; a later row has a larger one.
        last: the number of its last row.
        seals: of its two files, the one that is searched and the one that answers are read from.
    """

    name: str
    rows: int
    first: int
    last: int
    seals: tuple[tuple[int, ...], ...] = ()

    @property
    def logs(self) -> str:
        """The file that is searched: log η and log(1 - η) of every label, a column each."""
        return f"logs-{self.name}.parquet"

    @property
    def facts(self) -> str:
        """The file that answers are read from: exact log odds, ids, paths and small pictures, a row each."""
        return f"rows-{self.name}.parquet"


@dataclass(frozen=True)
class Manifest:
    """The state of an index.

    Args:
        classes: names of the labels, in the order of the columns.
        link: the fingerprint of the link that the probabilities were read by.
        segments: in the order in which they were added.
        next_row: the number that the next row gets; numbers are never given twice.
        next_name: counts the files.
        deleted: the file with the numbers of deleted rows, if any are.
        deleted_rows: how many those are.
        deleted_seal: of that file.
    """

    classes: tuple[str, ...]
    link: list[Any]
    segments: tuple[SegmentEntry, ...] = ()
    next_row: int = 0
    next_name: int = 1
    deleted: str | None = None
    deleted_rows: int = 0
    deleted_seal: tuple[int, ...] = ()
    version: int = field(default=FORMAT)

    @property
    def rows(self) -> int:
        """How many rows can be found."""
        return sum(segment.rows for segment in self.segments) - self.deleted_rows

    def files(self) -> set[str]:
        """Every file that belongs to this state."""
        named = {name for segment in self.segments for name in (segment.logs, segment.facts)}
        return named | {NAME} | ({self.deleted} if self.deleted else set())

    def with_segment(self, segment: SegmentEntry) -> "Manifest":
        """The state after these rows were added."""
        return replace(
            self,
            segments=(*self.segments, segment),
            next_row=segment.last + 1,
            next_name=max(self.next_name, int(segment.name) + 1),
        )

    def write(self, folder: Path) -> None:
        """Make this the state of the index: readers see the one before or this one, never a mixture."""
        content = json.loads(json.dumps(asdict(self)))  # as it will be read
        sealed = {**content, "seal": seal_of_json(content)}
        flush(folder)  # the files that it names
        with written_whole(folder / NAME) as temporary:
            temporary.write_text(json.dumps(sealed, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            flush(temporary)
        flush(folder)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The state of the index in this folder."""
        path = folder / NAME
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{folder}: expected the folder of an index, got {_what_is_there(folder)}") from None
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read ({error}): build the index again") from None
        if not isinstance(content, dict) or content.get("version") != FORMAT:
            came = content.get("version") if isinstance(content, dict) else None
            raise InputError(f"{path}: expected an index of format {FORMAT}, got {came!r}: build it again with this version")
        if content.pop("seal", None) != seal_of_json(content):
            raise InputError(f"{path} is damaged, or was changed by hand: build the index again")
        segments = tuple(SegmentEntry(**{**entry, "seals": tuple(map(tuple, entry["seals"]))}) for entry in content["segments"])
        lists = {name: tuple(content[name]) for name in ("classes", "deleted_seal")}
        return cls(**{**content, **lists, "segments": segments})


def link_text(config: dict[str, Any]) -> str:
    """A link as it is typed and as it prints: a name, its numbers, and in brackets what it was fitted on.

    >>> link_text({"kind": "platt", "base": {"kind": "temperature", "value": 2.0}, "single": False})
    'platt(temperature:2)'
    """
    numbers = [f"{value:g}" for value in config.values() if isinstance(value, int | float) and not isinstance(value, bool)]
    base = f"({link_text(config['base'])})" if isinstance(config.get("base"), dict) else ""
    return ":".join([config["kind"], *numbers]) + base


def _what_is_there(folder: Path) -> str:
    if not folder.exists():
        return "nothing: there is no such folder"
    if not folder.is_dir():
        return "a file"
    return f"one without {NAME}: make one with shortlist index build SCORES {folder}"
