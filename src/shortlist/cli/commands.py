"""The commands by name. Each is loaded when it is run, so that help comes at once and light ones such as ``search`` quickly."""

import importlib
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from shortlist.words import printable, similar


class Listed(NamedTuple):
    """A command as the help of the program lists it."""

    place: str  # the module in this package, and the function or group of commands in it
    summary: str  # the first line of its own help, here so that the list needs no command's module


COMMANDS = {
    "sets": Listed(
        "decide:sets",
        "Turn scores into sets of labels: for each row, labels with their probabilities, most probable first.",
    ),
    "evaluate": Listed(
        "decide:evaluate",
        "Measure the sets of a rule on labelled scores: coverage, size, calibration; several files or rules side by side.",
    ),
    "report": Listed(
        "report:report",
        "Write one self-contained HTML page about the sets of a rule; several files or rules are compared.",
    ),
    "calibrate": Listed(
        "calibrate:calibrate",
        "Fit a link on labelled scores and write a file of scores with it: the scores stay, their probabilities improve.",
    ),
    "watch": Listed(
        "watch:watch",
        "Say whether new rows are still what the calibration rows were; if not, since when, and what to do.",
    ),
    "shares": Listed(
        "shares:shares",
        "Estimate the shares of the classes among new rows without labels, where only these shares changed.",
    ),
    "weights": Listed(
        "weights:weights",
        "Write calibration rows with a weight for each, so that they count like new rows without labels.",
    ),
    "data": Listed("data:app", "Inspect datasets, build a benchmark from an archive, aggregate votes."),
    "train": Listed(
        "train:train",
        "Train a classifier that answers with sets of labels, calibrate and test it, and write a report.",
    ),
    "tune": Listed(
        "tune:tune",
        "Search over a grid of settings and choose the best on validation rows; every trial is a run of its own.",
    ),
    "recipes": Listed(
        "train:recipes",
        "List the recipes, or show one of them: its settings, the published numbers, and the grid of `shortlist tune`.",
    ),
    "predict": Listed("predict:predict", "Predict sets of labels for new pictures or rows, or write their scores."),
    "serve": Listed("serve:serve", "Start a page that identifies photographs, shows similar pictures, and collects votes."),
    "export": Listed(
        "export:export",
        "Export a classifier as an ONNX file, from raw pixels or features to sets, for use without torch.",
    ),
    "index": Listed("retrieval:app", "Build, change and inspect a searchable index of scored rows."),
    "search": Listed("retrieval:search", "Find the rows for which a query is most probably true."),
    "retrieval-eval": Listed(
        "retrieval_eval:retrieval_eval",
        "Measure retrieval by combined queries: some labels present, others absent.",
    ),
    "reproduce": Listed(
        "reproduce:reproduce",
        "Measure what the papers claim: train what is missing in the results, and say what holds, what fails, what is open.",
    ),
    "demo": Listed(
        "demo:demo",
        "Train on synthetic pictures whose best possible result is known, and write a report; takes minutes on two cores.",
    ),
}
SETTINGS = {"help_option_names": ["-h", "--help"]}
LOOSE = ("search",)  # commands that accept unexpected words, to explain them in messages of their own
WORDS = {"--resume": ("auto",)}  # options of `train` that stand alone or before one of these words
ALONE = "yes"  # the value of such an option that stands alone


def written_in(module: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator for the declaration of a command and its options, which is all that its help needs.

    What it does is the function of the same name, with the same parameters, in another module, imported when it runs.

    Args:
        module: its name.
    """

    def declared(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            getattr(importlib.import_module(f"shortlist.cli.{module}"), command.__name__)(**given)

        return run

    return declared


def load_command(name: str) -> Any:
    """The command of this name, as typer runs it."""
    file, _, attribute = COMMANDS[name].place.partition(":")
    found = getattr(importlib.import_module(f"shortlist.cli.{file}"), attribute)
    command: Any
    if isinstance(found, typer.Typer):
        command = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        kind = _WithWords if name == "train" else TyperCommand
        alone.command(name, cls=kind, context_settings={**SETTINGS, "allow_extra_args": name in LOOSE})(found)
        command = typer.main.get_command(alone)
    command.name = name
    hide_types_of_flags(command)
    return command


class _WithWords(TyperCommand):
    """A command some of whose options stand alone or before a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        return super().parse_args(ctx, with_words(args))


def with_words(arguments: list[str]) -> list[str]:
    """The arguments with a value at each option that may stand alone, so that it never takes the argument after it for one.

    >>> with_words(["garden", "--resume", "auto", "--out", "here"])
    ['garden', '--resume=auto', '--out', 'here']
    >>> with_words(["--resume", "garden"])
    ['--resume=yes', 'garden']
    >>> with_words(["--resume", "atuo"])  # `train` says what it expects
    ['--resume=atuo']
    """
    found: list[str] = []
    rest = list(arguments)
    while rest:
        one = rest.pop(0)
        if one == "--":
            return [*found, one, *rest]
        if one in WORDS:
            one += f"={rest.pop(0) if rest and _is_word(rest[0], WORDS[one]) else ALONE}"
        found.append(one)
    return found


def _is_word(argument: str, words: tuple[str, ...]) -> bool:
    """Whether an argument is one of these words, or a misspelt one rather than an option or a path."""
    misspelt = bool(similar(argument, words)) and not argument.startswith("-") and not Path(argument).exists()
    return argument in words or misspelt


def hide_types_of_flags(command: Any) -> None:
    """Show ``--strict`` in the help rather than ``--strict <bool>``, in this command and in those of a group."""
    all_parameters = command.get_params
    command.get_params = lambda context: _without_types(all_parameters(context))
    for below in getattr(command, "commands", {}).values():
        hide_types_of_flags(below)


def _without_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


@contextmanager
def _harmless_usage() -> Iterator[None]:
    """Messages about wrong usage, which typer prints itself and which quote the arguments, are made safe for a terminal."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if hasattr(error, "format_message") and isinstance(message, str):
            error.message = printable(message)  # type: ignore[attr-defined]
        raise


class _Waiting(TyperCommand):
    """A command that is loaded when it gets its arguments; until then it has its name and its line in the help."""

    def make_context(self, *given: Any, **options: Any) -> Any:
        """Read the arguments, by the command itself."""
        return load_command(self.name or "").make_context(*given, **options)


class _Listed(MutableMapping[str, Any]):
    """All commands by name, none of them loaded."""

    def __init__(self) -> None:
        self._there: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._there:
            self._there[name] = _Waiting(name, help=COMMANDS[name].summary)
        return self._there[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._there[name] = command

    def __delitem__(self, name: str) -> None:
        del self._there[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyCommands(TyperGroup):
    """A group that knows the names of its commands before it has loaded them."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.commands = _Listed()

    def make_context(self, *given: Any, **options: Any) -> Any:
        """Read the arguments."""
        with _harmless_usage():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _harmless_usage():
            return super().invoke(ctx)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, flags without a type."""
        return _without_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the help."""
        return list(COMMANDS)
