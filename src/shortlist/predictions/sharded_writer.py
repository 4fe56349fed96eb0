"""ShardedWriter: a folder of parts, which any number of processes write, and which goes on after any of them was killed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from shutil import rmtree
from types import TracebackType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.errors import InputError
from shortlist.files import flush, room_for, work_folder, write_text, written_whole
from shortlist.locks import folder_lock, locked_folder
from shortlist.predictions.parts import (
    PART,
    PROBLEMS,
    WRITING,
    Manifest,
    Part,
    check_no_strays,
    check_parts,
    is_parts_folder,
    part_name,
    sha256_of,
)
from shortlist.predictions.record import Predictions
from shortlist.predictions.storage import header_of, sink_for
from shortlist.predictions.stored import RowKind
from shortlist.words import counted, listed, quoted

Version: TypeAlias = tuple[str, int, int]  # of a file: its name, its number on the disk, and when it was written
PATIENCE = 60.0  # seconds to wait for other processes that note their parts, each of which takes milliseconds
PROBLEM_COLUMNS = ("id", "kind", "problem")
ROW_PROBLEM = pa.schema([("part", pa.int64()), *((name, pa.string()) for name in PROBLEM_COLUMNS)])


class ShardedWriter:
    """A folder of predictions in parts: one process begins and finishes it, any process writes parts.

    A part appears whole or not at all, and counts once its receipt is there, so that after a kill at any moment a second run
    goes on: :attr:`missing` names the parts that are still to be written. What :func:`Predictions.load` opens is the same,
    byte for byte, as if nothing had happened, if the same rows have the same scores.

    Args:
        folder: new, empty, or begun before with the same columns, items and settings; others are refused.
        like: predictions, of which the columns count and which fields each row has; rows are ignored.
        items: for each part, in order, a text that identifies the rows it is made from, such as a digest of their content. A
            folder that was begun with others is refused.
        settings: anything else that the scores depend on, by name.

    >>> import tempfile
    >>> like = Predictions([[0.0, 0.0]], target=[0], classes=["ash", "elm"], link="softmax", ids=["any"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ShardedWriter(f"{folder}/scores", like, items=["rows 0-1", "row 2"]) as writer:
    ...         writer.write(1, Predictions([[0.0, 2.0]], target=[1], ids=["c.jpg"]))
    ...         print(writer.missing)
    ...         writer.write(0, Predictions([[1.0, 0.0], [0.0, 1.0]], target=[0, 0], ids=["a.jpg", "b.jpg"]))
    ...         writer.finish()
    ...     Predictions.load(f"{folder}/scores").target
    [0]
    tensor([0, 0, 1])
    """

    def __init__(
        self, folder: str | Path, like: Predictions, items: Sequence[str], *, settings: Mapping[str, str] | None = None
    ):
        self.folder = Path(folder)
        form = like.without_rows()
        items = tuple(items)
        if not items or not all(isinstance(item, str) for item in items):
            raise InputError(f"items: expected a text for each part, got {items[:3] if items else 'none'}")
        self.manifest = Manifest(header_of(form), RowKind.of(form), items, dict(settings or {}))
        self._open = ExitStack()
        self._sound: dict[Version, bool] = {}

    def __enter__(self) -> "ShardedWriter":
        with ExitStack() as opened:
            opened.enter_context(locked_folder(self.folder))
            self._begin()
            self._open = opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.__exit__(kind, error, trace)

    @staticmethod
    def join(folder: str | Path) -> "ShardedWriter":
        """The writer of a folder that another process has begun, to write parts of it."""
        joined = object.__new__(ShardedWriter)
        joined.folder, joined.manifest, joined._open = Path(folder), Manifest.read(Path(folder)), ExitStack()
        joined._sound = {}
        return joined

    def _begin(self) -> None:
        if not is_parts_folder(self.folder):
            other = sorted(entry.name for entry in self.folder.iterdir() if not entry.name.startswith("."))
            if other:
                raise InputError(
                    f"cannot write {self.folder}: expected a new or empty folder, or one of parts, got one with "
                    f"{listed(other, 3)}: choose another"
                )
            self.manifest.write(self.folder)
            return
        begun = Manifest.read(self.folder)
        begun.check_same(self.folder, self.manifest)
        self.manifest = begun

    @property
    def missing(self) -> list[int]:
        """The numbers of the parts that are still to be written, and of those to be written again because they are damaged.

        A part that is there counts if its bytes have the checksum that was noted when it was written. Each is read once.
        """
        found = self._written()
        for part in found:
            if part is not None and (version := self._version(part.file)) not in self._sound:
                self._sound[version] = sha256_of(self.folder / part.file) == part.sha256
        return [number for number, part in enumerate(self._written()) if part is None]

    @property
    def damaged(self) -> list[str]:
        """The files that :attr:`missing` found to be damaged, and that have not been written again."""
        return sorted(name for name in self._sizes() if not self._is_sound(name))

    def _version(self, name: str) -> Version:
        """What tells a file from one that takes its place."""
        status = (self.folder / name).stat()
        return name, status.st_ino, status.st_mtime_ns

    def _is_sound(self, name: str) -> bool:
        """Whether a file that is there was not found to be damaged."""
        return self._sound.get(self._version(name), True)

    def _written(self) -> list[Part | None]:
        """Each part that has been written, is still there in its size and was not found to be damaged."""
        before, sizes = self.manifest.parts, self._sizes()
        noted = {path.stem for path in (self.folder / WRITING).glob("*.json")}
        found: list[Part | None] = []
        for number in range(len(self.manifest.items)):
            part = self._receipt(number)[0] if Path(part_name(number)).stem in noted else before[number] if before else None
            there = part is not None and sizes.get(part.file) == part.bytes and self._is_sound(part.file)
            found.append(part if there else None)
        return found

    def _sizes(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in self.folder.glob(PART)}

    def write(
        self, number: int, rows: Predictions | Iterable[Predictions], problems: Iterable[tuple[str, str, str]] = ()
    ) -> None:
        """Write one part, from any process; a part that is there is replaced.

        Args:
            number: of the part, from 0.
            rows: blocks of rows, none if none could be read; their scores, labels, names and quality count.
            problems: for each row of the part that could not be read its name, the kind of problem, and a sentence; they are
                asked for once all blocks were, so that they may be noticed on the way.
        """
        if not 0 <= number < len(self.manifest.items):
            raise InputError(f"number: expected one of {counted(len(self.manifest.items), 'part')}, got {number}")
        name, writing = part_name(number), self.folder / WRITING
        with room_for(self.folder, self.folder):  # the parts of it are nobody's business but ours
            writing.mkdir(exist_ok=True)
            with work_folder(writing / name) as place:
                count = self._write_rows(place / name, [rows] if isinstance(rows, Predictions) else rows)
                noted = [list(map(str, problem)) for problem in problems]
                part = Part(name, count, (place / name).stat().st_size, sha256_of(place / name), len(noted))
                flush(place / name)
                # Together, so that the receipt is that of the file even if two processes write the same part.
                with folder_lock(writing, PATIENCE):
                    (place / name).replace(self.folder / name)
                    flush(self.folder)
                    receipt = asdict(part) | {"problems": noted}
                    write_text(self._receipt_path(number), json.dumps(receipt, ensure_ascii=False))

    def _write_rows(self, path: Path, blocks: Iterable[Predictions]) -> int:
        header, kind = self.manifest.header, self.manifest.kind
        names: set[str] = set()
        count = 0
        with sink_for(path, header, kind) as sink:
            for block in blocks:
                kind.check_same(RowKind.of(block), "in every part of the folder")
                if block.classes is not None and header.classes is not None and list(block.classes) != list(header.classes):
                    raise InputError(f"classes: expected those of the folder ({quoted(header.classes, 3)}), got others")
                twice = next((name for name in block.ids or () if name in names), None)
                if twice is not None:
                    raise InputError(f"ids: expected different names, got {twice!r} more than once")
                names.update(block.ids or ())
                sink.add(block)
                count += len(block)
        return count

    def _receipt_path(self, number: int) -> Path:
        return self.folder / WRITING / Path(part_name(number)).with_suffix(".json")

    def _receipt(self, number: int) -> tuple[Part, list[list[str]]]:
        path = self._receipt_path(number)
        try:
            record = json.loads(path.read_bytes())
            problems = record.pop("problems")
            return Part(**record, problems=len(problems)), problems
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise InputError(f"cannot read {path}: {error}: remove it, and the part is written again") from error

    def finish(self) -> None:
        """Write the manifest, once all parts are there; the folder is then complete."""
        written = self._written()
        missing = [part_name(number) for number, part in enumerate(written) if part is None]
        if missing:
            raise InputError(
                f"{self.folder}: expected {counted(len(written), 'part')}, {listed(missing, 3)} are not written yet"
            )
        parts = [part for part in written if part is not None]
        check_no_strays(str(self.folder), self._sizes(), [part.file for part in parts])
        if self.manifest.parts is None or tuple(parts) != self.manifest.parts or (self.folder / WRITING).exists():
            with room_for(self.folder, self.folder):
                self._write_problems(parts)
                finished = self.manifest.with_parts(parts)
                check_parts(str(self.folder), finished, self._sizes())
                finished.write(self.folder)
                flush(self.folder)
            self.manifest = finished
        rmtree(self.folder / WRITING, ignore_errors=True)

    def _write_problems(self, parts: Sequence[Part]) -> None:
        """Rows that could not be read, of all parts; those of parts that were finished before are known from the last time."""
        path = self.folder / PROBLEMS
        before = pq.read_table(path, page_checksum_verification=True).to_pylist() if path.exists() else []
        rows: list[dict[str, Any]] = []
        for number, part in enumerate(parts):
            if self._receipt_path(number).exists():
                rows += [{"part": number, **dict(zip(PROBLEM_COLUMNS, one, strict=True))} for one in self._receipt(number)[1]]
            elif part.problems:
                rows += [row for row in before if row["part"] == number]
        if rows:
            with written_whole(path) as temporary:
                pq.write_table(pa.Table.from_pylist(rows, ROW_PROBLEM), temporary, write_page_checksum=True)
        else:
            path.unlink(missing_ok=True)
