"""The one way to the terminal: tables, messages, warnings, data, and a progress bar for work that takes over two seconds.

Names of classes, columns and files come from others and may hold control characters, which could recolour, overwrite or forge
what the terminal shows. Here they become escapes, whoever prints; only data in a pipe (JSON, CSV) stay as they are.
"""

import enum
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeVar

import typer
from rich.console import Console
from rich.control import Control
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import ControlType, Segment
from rich.table import Table as RichTable
from rich.text import Text

from shortlist.errors import ShortlistWarning
from shortlist.words import printable

if TYPE_CHECKING:
    from shortlist.report.table import Table

T = TypeVar("T")
PATIENCE = 2.0  # seconds before a bar appears


class Outcome(enum.IntEnum):
    """Exit codes."""

    DONE = 0
    BAD_INPUT = 1
    USAGE = 2
    WARNED = 3
    STOPPED = 130  # by Ctrl-C, the usual code of shells
    TERMINATED = 143  # by SIGTERM


class SafeConsole(Console):
    """A console that escapes control characters in texts: only its own styles and cursor movements reach the terminal."""

    def render(self, *given: Any, **options: Any) -> Iterable[Segment]:
        """The parts of what is printed; those that are text made harmless."""
        for text, style, control in super().render(*given, **options):
            yield Segment(text if control else harmless(text), style, control)


def harmless(text: str) -> str:
    r"""The text with control characters as escapes; line ends stay.

    >>> print(harmless("\x1b[31mtwo\nlines"))
    \x1b[31mtwo
    lines
    """
    return "\n".join(map(printable, text.split("\n")))


def error_console() -> Console:
    """The console on standard error."""
    return SafeConsole(file=sys.stderr, soft_wrap=True, highlight=False)


def _print_lines(lines: Iterable[str], console: Console | None = None, head: Text | None = None) -> None:
    """Print each text on a line of its own, whatever line ends are in it; ``head`` comes before the first."""
    console = console or error_console()
    for number, line in enumerate(lines):
        console.print((head if head is not None and number == 0 else Text()) + Text(printable(line)))


def complain(*lines: str) -> None:
    """Print an error, one sentence; an error in a query has further lines, which show the place."""
    _print_lines(lines, head=Text("error: ", style="bold red"))


def say(*lines: str, console: Console | None = None) -> None:
    """Print a message to standard error, so that standard output holds only data.

    Args:
        *lines: the message, one text for each line.
        console: that of a progress bar, to print above it.
    """
    _print_lines(lines, console)


def warn(message: str) -> None:
    """Print a warning, one sentence."""
    _print_lines([message], head=Text("warning: ", style="bold yellow"))


def overwrite(message: str) -> None:
    """Print a message that the next one replaces, if this is a terminal."""
    console = error_console()
    if console.is_terminal:
        console.control(Control((ControlType.ERASE_IN_LINE, 2)))
        console.print(Text(printable(message)), end="")
        console.control(Control(ControlType.CARRIAGE_RETURN))


def show_traceback(error: BaseException) -> None:
    """Print the traceback of an unexpected error, as Python would."""
    error_console().print(Text(harmless("".join(traceback.format_exception(error)).rstrip("\n"))))


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a Python warning; takes the place of :func:`warnings.showwarning`."""
    if issubclass(category, ShortlistWarning):
        return warn(str(message))
    say(*warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n").split("\n"))


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


def show(table: "Table", *others: "Table") -> None:
    """Print a table to standard output; others of as many columns follow below, under the name of their first column."""
    rich = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, right in zip(table.columns, table.right(), strict=True):
        rich.add_column(Text(printable(name)), justify="right" if right else "left", overflow="fold")
    for number, one in enumerate([table, *others]):
        if number:
            rich.add_row()
            rich.add_row(Text(printable(one.columns[0]), style="bold"))
        for row in one.shown():
            rich.add_row(*(Text(printable(cell)) for cell in row))
    console = SafeConsole(highlight=False)
    if not console.is_terminal:
        console = SafeConsole(highlight=False, width=10_000)  # lines are not wrapped in a pipe
    console.print(rich)


def emit(text: str) -> None:
    """Write data to standard output, exactly as they are unless that is a terminal.

    A reader that stops early (``| head``) is not an error.
    """
    try:
        sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that closing it does not fail as well
        raise typer.Exit(Outcome.DONE) from None


def emit_json(*values: Any, indent: int | None = None) -> None:
    """Write each value as JSON on a line of its own; null in place of NaN, which JSON does not have.

    >>> emit_json({"shares": [0.5, float("nan")]}, ["oak", None])
    {"shares": [0.5, null]}
    ["oak", null]
    """
    emit("".join(json.dumps(_without_nan(one), indent=indent, ensure_ascii=False) + "\n" for one in values))


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value


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
