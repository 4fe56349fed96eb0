"""Processes of this machine, as tests that kill some of them see them."""

import contextlib
import time
from pathlib import Path

PATIENCE = 240  # seconds until what should end soon counts as left behind


def _parent(pid):
    return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def title(pid):
    """The command line of a process, or what it calls itself."""
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def descendants(pid):
    """The processes that this one started, directly or not."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = _parent(entry.name)
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def wait_until(true, what):
    """Wait until something is so; it is an error if that takes very long."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.05)
