"""Results of experiments: one line of JSON for each arm and seed, appended when it is done, by any number of processes."""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shortlist.claims.experiment import Experiment, Numbers
from shortlist.claims.statistic import Measured
from shortlist.errors import InputError
from shortlist.locks import lock_file, unlock_file

BEGINNING = '{"experiment": "'  # of every line
WAIT, PATIENCE = 0.02, 60.0  # seconds between attempts to lock the file, and until giving up


@dataclass(frozen=True)
class Result:
    """What an arm reached with one seed, and where that was.

    Args:
        experiment: id of the experiment.
        arm: name of the arm.
        seed: the seed.
        fingerprint: of the arm as it was run.
        numbers: by name.
        seconds: wall-clock time.
        cpu_seconds: processor time.
        machine: processor, cores and accelerator, of the worker on a cluster.
        date: day, ISO 8601.
        commit: of the code, if it ran from a clone.
        versions: of the packages.
        data: digest of the data that it was measured on; empty where none were needed, or where it was not recorded.
    """

    experiment: str
    arm: str
    seed: int
    fingerprint: str
    numbers: Numbers
    seconds: float
    cpu_seconds: float = 0.0
    machine: str = ""
    date: str = ""
    commit: str | None = None
    versions: Mapping[str, str | None] = field(default_factory=dict)
    data: str = ""


class Results:
    """A file of results.

    Args:
        path: a ``.jsonl`` file; it need not exist.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def __iter__(self) -> Iterator[Result]:
        """All results, oldest first; a last line that was cut short, by a kill or a full disk, is left out."""
        if not self.path.exists():
            return
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {(error.strerror or str(error)).lower()}") from error
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield _parsed(line)
            except (ValueError, TypeError) as error:
                ours = line.startswith(BEGINNING) or BEGINNING.startswith(line)
                if number >= len(lines) and ours:  # no line end behind it: never finished
                    return
                raise InputError(
                    f"{self.path}, line {number}: expected a result of shortlist reproduce, got {line[:60]!r}: "
                    "remove the line, or name another file"
                ) from error

    def check_writable(self) -> None:
        """Raise an error if results cannot be appended, before hours are spent on them."""
        os.close(self._opened())

    def _opened(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {(error.strerror or str(error)).lower()}") from error

    def append(self, result: Result) -> None:
        """Add one result, in one piece, whoever else is writing."""
        text = json.dumps(asdict(result), ensure_ascii=False) + "\n"
        handle = self._opened()
        try:
            self._wait(handle)
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                _end_last_line(handle, size)
            _write_whole(handle, text.encode())
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {(error.strerror or str(error)).lower()}") from error
        finally:
            unlock_file(handle)

    def _wait(self, handle: int) -> None:
        end = time.monotonic() + PATIENCE
        while lock_file(handle) is False:
            if time.monotonic() > end:
                raise InputError(f"{self.path}: another process has been holding it for {PATIENCE:.0f} s")
            time.sleep(WAIT)

    def of(self, experiment: Experiment) -> list[Result]:
        """The results of an experiment as it is now, from its first seed on; of several for one arm and seed, the last.

        All are of the same data: those of the last result that names its data, and those that do not.
        """
        wanted = {name: arm.fingerprint for name, arm in experiment.arms.items()}
        own = [
            result
            for result in self
            if result.experiment == experiment.id
            and wanted.get(result.arm) == result.fingerprint
            and result.seed >= experiment.first_seed
        ]
        named = [result.data for result in own if result.data]
        return list({(result.arm, result.seed): result for result in own if result.data in ("", *named[-1:])}.values())


def by_seed(results: Iterable[Result]) -> dict[int, Measured]:
    """By seed, then by arm: the numbers."""
    found: dict[int, dict[str, Numbers]] = {}
    for result in results:
        found.setdefault(result.seed, {})[result.arm] = result.numbers
    return {seed: found[seed] for seed in sorted(found)}


def _parsed(line: str) -> Result:
    """The result in a line; raises ValueError or TypeError if it is none, or one of its values is of another kind."""
    found = Result(**json.loads(line))
    texts = (found.experiment, found.arm, found.fingerprint, found.machine, found.date, found.data)
    numbers = (found.seconds, found.cpu_seconds, *dict(found.numbers).values())
    if not all(isinstance(text, str) for text in texts) or type(found.seed) is not int:
        raise ValueError("expected texts and a whole seed")
    if not all(type(number) in (int, float) for number in numbers) or not isinstance(found.versions, dict):
        raise ValueError("expected numbers")
    return found


def _write_whole(handle: int, content: bytes) -> None:
    """Append all of it or, if there is no room, nothing: a disk that is nearly full takes a part without an error."""
    start = os.fstat(handle).st_size
    try:
        while content:
            content = content[os.write(handle, content) :]
    except OSError:
        os.ftruncate(handle, start)
        raise


def _end_last_line(handle: int, size: int) -> None:
    """Remove what a killed process wrote of its last line; a whole one, to which an editor gave no line end, gets one."""
    content = os.pread(handle, size, 0)
    start = content.rfind(b"\n") + 1
    try:
        json.loads(content[start:])
    except ValueError:
        os.ftruncate(handle, start)
    else:
        os.write(handle, b"\n")


def plain(numbers: Mapping[str, Any]) -> Numbers:
    """The numbers as JSON holds them, rounded to what they mean."""
    return {name: round(float(value), 6) for name, value in numbers.items()}
