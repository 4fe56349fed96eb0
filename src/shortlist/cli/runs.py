"""Folders of runs as arguments of commands."""

from pathlib import Path

from shortlist.runs import Run


def run_at(path: Path, network: str | None = None) -> Run | None:
    """The run in this folder; None if it holds none."""
    return Run(path, network) if path.is_dir() and Run.holds_run(path) else None
