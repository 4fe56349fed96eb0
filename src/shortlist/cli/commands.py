"""The commands by name, each loaded when it is first asked for: a search starts in the time that a search needs."""

import importlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import typer
from typer.core import TyperGroup

# name: the file in this folder that holds it, and its function or its group of commands
COMMANDS = {
    "sets": "decide:sets",
    "evaluate": "decide:evaluate",
    "report": "decide:report",
    "calibrate": "calibrate:calibrate",
    "data": "data:app",
    "train": "train:train",
    "tune": "train:tune",
    "recipes": "train:recipes",
    "predict": "predict:predict",
    "export": "predict:export",
    "index": "retrieval:app",
    "search": "retrieval:search",
    "retrieval-eval": "retrieval_eval:retrieval_eval",
    "demo": "demo:demo",
}
SETTINGS = {"help_option_names": ["-h", "--help"]}
LOOSE = ("search",)  # are given the words that they did not expect, to say something about them


def load_command(name: str) -> Any:
    """The command of this name, as click runs it."""
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
    return command


class _Loaded(MutableMapping[str, Any]):
    """Names of commands, and the commands that were asked for so far."""

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
    """A group that knows its commands by name before it has loaded them."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.commands = _Loaded()

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of the help."""
        return list(COMMANDS)
