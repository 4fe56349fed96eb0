"""The state of an index: one small JSON file that names all other files, and is replaced as a whole."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import flush, system_reason, written_whole

NAME = "index.json"
FORMAT = 1
SEGMENT_NAME = "%06d"
# The names that files may have: a manifest may come from others, and must not lead outside its folder.
NUMBER, DELETED = re.compile(r"[0-9]+"), re.compile(r"deleted-[0-9]+\.parquet")
OWN = re.compile(r"index\.json|(logs|rows|deleted)-[0-9]+\.parquet")


@dataclass(frozen=True)
class SegmentEntry:
    """Rows that were added together.

    Args:
        name: the number in the names of its files.
        rows: number of rows, including deleted ones.
        first: row number of its first row; later rows have larger numbers.
        last: row number of its last row.
        seals: checksums of its two files, in the order ``logs``, ``records``.
    """

    name: str
    rows: int
    first: int
    last: int
    seals: tuple[tuple[int, ...], ...] = ()

    @property
    def logs(self) -> str:
        """The file that is searched: log η and log(1 - η) of every label, one column each."""
        return f"logs-{self.name}.parquet"

    @property
    def records(self) -> str:
        """The file that results are read from: exact log odds, ids and further columns of each row."""
        return f"rows-{self.name}.parquet"

    @property
    def is_contiguous(self) -> bool:
        """Whether its row numbers have no gaps, so that a row is found by arithmetic."""
        return self.last - self.first + 1 == self.rows


@dataclass(frozen=True)
class Manifest:
    """The state of an index.

    Args:
        classes: names of the labels, in the order of the columns.
        link: fingerprint of the link that turned the scores into probabilities.
        segments: in the order in which they were added.
        next_row: number of the next row; numbers are never reused.
        next_name: number of the next file.
        deleted: name of the file with the numbers of deleted rows, if there are any.
        deleted_rows: number of deleted rows.
        deleted_seal: checksum of that file.
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
        """Number of rows that can be found."""
        return sum(segment.rows for segment in self.segments) - self.deleted_rows

    def files(self) -> set[str]:
        """Names of all files of this state."""
        named = {name for segment in self.segments for name in (segment.logs, segment.records)}
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
        """Make this the state of the index: readers see either the previous state or this one, never a mixture."""
        content = json.loads(json.dumps(asdict(self)))  # as it will be read
        sealed = {**content, "seal": json_seal(content)}
        flush(folder)  # the files that it names
        with written_whole(folder / NAME) as temporary:
            temporary.write_text(json.dumps(sealed, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            flush(temporary)
        flush(folder)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the state of the index in this folder."""
        path = folder / NAME
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{folder}: expected the folder of an index, got {_what_is_there(folder)}") from None
        except (OSError, ValueError) as error:
            reason = system_reason(error)
            why = f": {reason}" if reason is not None else f" ({error}): build the index again"
            raise InputError(f"{path} cannot be read{why}") from None
        if not isinstance(content, dict) or content.get("version") != FORMAT:
            came = content.get("version") if isinstance(content, dict) else None
            raise InputError(f"{path}: expected an index of format {FORMAT}, got {came!r}: build it again with this version")
        if content.pop("seal", None) != json_seal(content):
            raise InputError(f"{path} is damaged or was edited by hand: build the index again")
        named = [entry["name"] for entry in content["segments"]]
        if not all(NUMBER.fullmatch(name) for name in named) or not DELETED.fullmatch(
            content["deleted"] or "deleted-0.parquet"
        ):
            raise InputError(f"{path} names files that no index has: it was edited by hand, build the index again")
        segments = tuple(SegmentEntry(**{**entry, "seals": tuple(map(tuple, entry["seals"]))}) for entry in content["segments"])
        lists = {name: tuple(content[name]) for name in ("classes", "deleted_seal")}
        return cls(**{**content, **lists, "segments": segments})


def state_stamp(folder: Path) -> tuple[int, ...] | None:
    """By which a new state is noticed without reading it; None where there is none."""
    try:
        found = (folder / NAME).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def json_seal(content: dict[str, Any]) -> str:
    """Checksum of the content of a dictionary, independent of its order.

    >>> json_seal({"a": 1, "b": [2]}) == json_seal({"b": [2], "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]


def is_exclusive(config: dict[str, Any]) -> bool:
    """Whether the probabilities of a row sum to one with this link, as :attr:`Link.exclusive` says; without loading torch.

    >>> is_exclusive({"kind": "temperature", "base": {"kind": "softmax"}, "single": True}), is_exclusive({"kind": "sigmoid"})
    (True, False)
    """
    kind, base = config.get("kind"), config.get("base")
    if kind == "sparse-top":
        return bool(config.get("k") == 1)
    by_base = kind == "temperature" and isinstance(base, dict) and base.get("kind") == "softmax"
    return kind in ("softmax", "softmax-focal-recovery", "ldam", "reweighted") or bool(config.get("single")) or by_base


def link_text(config: dict[str, Any]) -> str:
    """A link as text: its name, its parameters, and in brackets the link it was fitted on.

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
    return f"a folder without {NAME}: build an index first"


def is_index_file(path: Path) -> bool:
    """Whether this is the name of a file of the index in its folder."""
    if not OWN.fullmatch(path.name):
        return False
    try:
        state = json.loads((path.parent / NAME).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(state, dict) and {"classes", "link", "segments"} <= state.keys()
