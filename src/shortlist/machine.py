"""The cores that this process may use, its place among the processes of a launcher such as torchrun, and how it is ended.

The only module that reads these from the environment. It does not import torch, so that the command line can use it before
torch is loaded.
"""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

RESTARTS = "TORCHELASTIC_RESTART_COUNT"  # how often a launcher has started the processes of this machine before


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


def launch_variables(rank: int, places: Sequence[str], port: int, attempt: int) -> dict[str, str]:
    """The variables of one of several processes that train as one, as a launcher sets them; of one alone, only the attempt.

    Args:
        rank: the number of the process.
        places: the address of each process; processes of one machine are next to each other.
        port: a free port on the machine of the first process.
        attempt: how often all of them have been started before.

    >>> launch_variables(2, ["10.0.0.1", "10.0.0.2", "10.0.0.2"], 29400, 0)["LOCAL_RANK"]
    '1'
    """
    again = {RESTARTS: str(attempt)}
    if len(places) == 1:
        return again
    here = places[rank]
    numbers = {
        "RANK": rank,
        "WORLD_SIZE": len(places),
        "LOCAL_RANK": rank - places.index(here),
        "LOCAL_WORLD_SIZE": places.count(here),
        "MASTER_PORT": port,
    }
    return again | {"MASTER_ADDR": places[0]} | {name: str(number) for name, number in numbers.items()}


def may_replace_another() -> bool:
    """Whether a launcher may have started this process in the place of one that ended a moment ago.

    The launcher of one machine says so. On several machines a launcher counts only the failures on its own.
    """
    restarted = int(os.environ.get(RESTARTS, "0")) > 0
    return restarted or launched_processes() > local_processes(launched_processes())


def take_the_place_of_another() -> None:
    """Say that this process may have been started in the place of one that ended a moment ago."""
    os.environ.setdefault(RESTARTS, "1")


def cores_per_process() -> int:
    """The share of this machine's cores that belongs to this process, at least one."""
    return max(1, usable_cores() // local_processes())


def exit_on_sigterm(number: int, frame: FrameType | None) -> None:
    """Signal handler: leave by an exception, so that temporary files are removed, with the status that shells expect."""
    sys.exit(128 + signal.SIGTERM)
