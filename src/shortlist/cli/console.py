"""Output for the user: tables, messages, warnings, and a progress bar for work that takes more than two seconds."""

import enum
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

from shortlist.errors import ShortlistWarning

if TYPE_CHECKING:
    from shortlist.report.table import Table

T = TypeVar("T")
PATIENCE = 2.0  # seconds before a bar appears
# Control characters in names are shown as escapes, so that they do not reach the terminal.
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


class Outcome(enum.IntEnum):
    """Exit codes."""

    DONE = 0
    BAD_INPUT = 1
    USAGE = 2
    WARNED = 3
    STOPPED = 130  # by Ctrl-C, the usual code of shells
    TERMINATED = 143  # by SIGTERM


def error_console() -> Console:
    """The console on standard error."""
    return Console(file=sys.stderr, soft_wrap=True, highlight=False)


def complain(message: str) -> None:
    """Print an error, one sentence."""
    error_console().print(Text("error: ", style="bold red") + Text(message))


def say(message: str) -> None:
    """Print a message to standard error, so that standard output holds only data."""
    error_console().print(Text(message))


def warn(message: str) -> None:
    """Print a warning, one sentence."""
    error_console().print(Text("warning: ", style="bold yellow") + Text(message))


@contextmanager
def noticed(found: list[str]) -> Iterator[None]:
    """Context in which the warnings of the library are collected in a list."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShortlistWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, ShortlistWarning):
            found.append(str(warning.message))
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


def show(table: "Table") -> None:
    """Print a table to standard output."""
    rich = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, right in zip(table.columns, table.right(), strict=True):
        rich.add_column(Text(name), justify="right" if right else "left", overflow="fold")
    for row in table.shown():
        rich.add_row(*(Text(cell.translate(CONTROLS)) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=10_000)  # lines are not wrapped in a pipe
    console.print(rich)


def emit(text: str) -> None:
    """Write data to standard output; a reader that stops early (``| head``) is not an error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that closing it does not fail as well
        raise typer.Exit(Outcome.DONE) from None


class Bar:
    """A progress bar on standard error, which appears after two seconds."""

    def __init__(self, label: str, total: int):
        self.label, self.total = label, total
        self.started = time.monotonic()
        self.progress: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.progress is not None:
            self.progress.stop()

    def at(self, done: int) -> None:
        """Show that this much of the total is done."""
        if self.progress is None:
            if time.monotonic() - self.started < PATIENCE or not sys.stderr.isatty():
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:3.0f}%"),
                TimeRemainingColumn(),
            )
            self.progress = Progress(*columns, console=error_console(), transient=True)
            self.progress.start()
            self.progress.add_task(self.label, total=self.total)
        self.progress.update(self.progress.task_ids[0], completed=done)

    def over(self, blocks: Iterable[T]) -> Iterator[T]:
        """Iterate over blocks, and show how many rows have been read."""
        done = 0
        for block in blocks:
            yield block
            done += len(block)  # type: ignore[arg-type]
            self.at(done)
