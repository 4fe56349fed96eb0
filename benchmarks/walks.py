"""Counts what four everyday commands walk through: the files and functions of the package that run, room by room.

``python -m benchmarks.walks`` prints the numbers and the order of the rooms that ``docs/architecture.md`` states.
"""

import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import shortlist
from shortlist.cli import main

SOURCE = Path(shortlist.__file__).parent
DATA = "flora:species=6,genera=2,train=64,val=32,test=32,size=8"


class Walk:
    """The functions that were called, in the order of their first call."""

    def __init__(self) -> None:
        self.seen: dict[CodeType, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """A profile hook."""
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            self.seen.setdefault(frame.f_code)

    def places(self) -> list[tuple[str, str]]:
        """File and name of each function; module bodies, class bodies and comprehensions do not count."""
        named = [code for code in self.seen if not code.co_name.startswith("<") and code.co_flags & 0x2]
        return [(str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname) for code in named]

    def rooms(self) -> list[str]:
        """The rooms in the order in which they are first entered."""
        return list(dict.fromkeys(Path(file).parts[0].removesuffix(".py") for file, _ in self.places()))


def walk(run: Callable[[], Any]) -> Walk:
    """What one call walks through."""
    found = Walk()
    threading.setprofile(found)
    sys.setprofile(found)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def command(*arguments: str) -> None:
    """One command, its output thrown away."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        sys.argv = ["shortlist", *arguments]
        main()


def run() -> None:
    """Print the four walks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trained, scores = str(folder / "run"), str(folder / "scores.safetensors")
        settings = ["-k", "2", "--epochs", "1", "--backbone", "plain-8", "--no-tensorboard", "--out", trained]
        walks = {
            "training": walk(lambda: command("train", DATA, *settings)),
            "prediction": walk(lambda: command("predict", trained, DATA, "--out", scores)),
            "sets from scores": walk(lambda: command("sets", scores, "--rule", "lac:0.2", "--split", "0.5")),
        }
        index = str(folder / "index")
        command("index", "build", scores, index)
        label = shortlist.Predictions.load(scores).class_names[0]
        walks["search"] = walk(lambda: command("search", f'"{label}"', index))
        for title, found in walks.items():
            files = {file for file, _ in found.places()}
            print(f"{title}: {len(files)} files, {len(found.places())} functions\n  {' > '.join(found.rooms())}")


if __name__ == "__main__":
    run()
