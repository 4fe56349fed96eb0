"""The commands by name. Each is loaded when it is first used, so that light ones such as ``search`` start quickly."""

import importlib
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from shortlist.words import printable

# name: the module in this package, and the function or group of commands in it
COMMANDS = {
    "sets": "decide:sets",
    "evaluate": "decide:evaluate",
    "report": "report:report",
    "calibrate": "calibrate:calibrate",
    "data": "data:app",
    "train": "train:train",
    "tune": "tune:tune",
    "recipes": "train:recipes",
    "predict": "predict:predict",
    "export": "export:export",
    "index": "retrieval:app",
    "search": "retrieval:search",
    "retrieval-eval": "retrieval_eval:retrieval_eval",
    "demo": "demo:demo",
}
SETTINGS = {"help_option_names": ["-h", "--help"]}
LOOSE = ("search",)  # commands that accept unexpected words, to explain them in messages of their own


def load_command(name: str) -> Any:
    """The command of this name, as typer runs it."""
    file, _, attribute = COMMANDS[name].partition(":")
    found = getattr(importlib.import_module(f"shortlist.cli.{file}"), attribute)
    command: Any
    if isinstance(found, typer.Typer):
        command = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name, context_settings={**SETTINGS, "allow_extra_args": name in LOOSE})(found)
        command = typer.main.get_command(alone)
    command.name = name
    hide_types_of_flags(command)
    return command


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


class _Loaded(MutableMapping[str, Any]):
    """All commands by name, loaded on first use."""

    def __init__(self) -> None:
        self._there: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._there:
            self._there[name] = load_command(name)
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
        self.commands = _Loaded()

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
