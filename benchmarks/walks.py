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

import numpy as np
from PIL import Image

import shortlist
from shortlist.cli import main

SOURCE = Path(shortlist.__file__).parent
CLASSES, PICTURES, SIDE = ("ash", "elm", "oak"), 40, 16


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


def walk(run: Callable[[], Any], warm_up: Callable[[], Any] | None = None) -> Walk:
    """What one call walks through; it runs once before, so that what happens at import does not count."""
    (warm_up or run)()
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
        before, sys.argv = sys.argv, ["shortlist", *arguments]
        try:
            main()
        finally:
            sys.argv = before


def _pictures(folder: Path) -> str:
    """A folder of class folders with pictures of random noise."""
    random = np.random.default_rng(0)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for number in range(PICTURES):
            Image.fromarray(random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(folder / name / f"{number}.png")
    return str(folder)


def run() -> None:
    """Print the four walks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, trained, scores = _pictures(folder / "trees"), str(folder / "run"), str(folder / "scores.safetensors")

        def train(out: str) -> None:
            command("train", data, "-k", "2", "--epochs", "1", "--backbone", "plain-8", "--no-tensorboard", "--out", out)

        walks = {
            "training": walk(lambda: train(trained), lambda: train(str(folder / "before"))),
            "prediction": walk(lambda: command("predict", trained, data, "--out", scores)),
            "sets from scores": walk(lambda: command("sets", scores, "--rule", "average-k:2", "--split", "0.5")),
        }
        index = str(folder / "index")
        command("index", "build", scores, index)
        label = shortlist.Predictions.load(scores).class_names[0]
        walks["search"] = walk(lambda: command("search", f'"{label}"', index))
        for title, found in walks.items():
            files = {file for file, _ in found.places()}
            print(f"{title}: {len(files)} files, {len(found.places())} functions\n  {' > '.join(found.rooms())}")
            if "--files" in sys.argv[1:]:
                print("  " + "\n  ".join(dict.fromkeys(file for file, _ in found.places())))


if __name__ == "__main__":
    run()
