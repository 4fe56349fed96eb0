"""Where a run came from: its date, versions of the software, and the commit."""

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from shortlist.versions import version_of

COMMIT = "SHORTLIST_COMMIT"  # in the environment: the commit of a copy that has the sources and not their history
PACKAGES = ("shortlist", "torch", "accelerate", "numpy", "pillow")


def provenance() -> dict[str, Any]:
    """The date, versions of the packages used, and the commit of the code where it is known."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "versions": {"python": platform.python_version()} | {name: version_of(name) for name in PACKAGES},
        "commit": commit(),
    }


def commit() -> str | None:
    """The commit that ``SHORTLIST_COMMIT`` names, else that of the clone this package runs from; None if it is installed."""
    if os.environ.get(COMMIT):
        return os.environ[COMMIT]
    here = Path(__file__)
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None  # installed inside the clone of another project
    return _git(here.parent, "rev-parse", "HEAD")


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None
