"""What a run has to say about where it came from: versions and the commit."""

import platform
import subprocess
from pathlib import Path
from typing import Any

from shortlist.versions import version_of

PACKAGES = ("shortlist", "torch", "accelerate", "numpy", "pillow")


def provenance() -> dict[str, Any]:
    """Versions of what computes, and the commit of the code where it is kept in git."""
    return {
        "versions": {"python": platform.python_version()} | {name: version_of(name) for name in PACKAGES},
        "commit": _commit(),
    }


def _commit() -> str | None:
    """Of the folder that holds this package; None where that is no clone of it."""
    here = Path(__file__)
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None  # installed beside somebody else's code
    return _git(here.parent, "rev-parse", "HEAD")


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None
