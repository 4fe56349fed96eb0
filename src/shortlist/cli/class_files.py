"""Files with the names of classes."""

import json
from pathlib import Path

from shortlist.errors import InputError


def read_class_names(path: Path) -> list[str]:
    """The names of classes in a file: one a line, or a JSON list."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        names = json.loads(text) if path.suffix.lower() == ".json" else [line.strip() for line in text.splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        what = "there is no such file" if isinstance(error, FileNotFoundError) else "it cannot be read"
        raise InputError(f"--classes: expected a text file with one name a line, or a JSON list, got {path}: {what}") from error
    while names and names[-1] == "":
        names.pop()
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise InputError(f"--classes: expected a name on every line of {path}, got {'none' if not names else 'other values'}")
    return names
