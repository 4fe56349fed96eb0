"""The cores that this process may use, its place among the processes of a launcher such as torchrun, and how it is ended.

The only module that reads these from the environment. It does not import torch, so that the command line can use it before
torch is loaded.
"""

import os
import signal
import sys
from types import FrameType


def usable_cores() -> int:
    """Number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def launched_processes() -> int:
    """Number of processes that a launcher started on all machines; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def local_processes(default: int = 1) -> int:
    """Number of processes that a launcher started on this machine; ``default`` without a launcher."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", default))


def is_first_process() -> bool:
    """Whether this process prints and writes files; True without a launcher."""
    return os.environ.get("RANK", "0") == "0"


def launcher_store() -> tuple[str, int, int] | None:
    """Host and port of the store that a launcher keeps for its processes, and the rank of this one; None if it keeps none."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), int(os.environ["RANK"])


def may_replace_another() -> bool:
    """Whether a launcher may have started this process in the place of one that ended a moment ago.

    The launcher of one machine says so. On several machines a launcher counts only the failures on its own.
    """
    restarted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    return restarted or launched_processes() > local_processes(launched_processes())


def cores_per_process() -> int:
    """The share of this machine's cores that belongs to this process, at least one."""
    return max(1, usable_cores() // local_processes())


def exit_on_sigterm(number: int, frame: FrameType | None) -> None:
    """Signal handler: leave by an exception, so that temporary files are removed, with the status that shells expect."""
    sys.exit(128 + signal.SIGTERM)
