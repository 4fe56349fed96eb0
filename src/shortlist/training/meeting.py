"""How the processes of a launcher find each other, also after some of them died and all were started again.

torchrun and accelerate keep one store of keys for all attempts, and torch connects to the addresses that it finds there: after
a restart those of dead processes (https://github.com/pytorch/pytorch/issues/135712). So the processes of an attempt first agree
on a name that is theirs alone, and then connect by keys below it.
"""

import json
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from torch import distributed

from shortlist.errors import InputError
from shortlist.machine import launched_processes, launcher_store

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

LONGEST = timedelta(minutes=30)  # that processes wait for each other, as in torch
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between two looks at the store
ROOM = "shortlist"  # before all keys


def join_launched(backend: str) -> None:
    """Connect to the other processes of a launcher whose store outlives a restart; with any other, accelerate does it.

    Args:
        backend: ``"gloo"`` or ``"nccl"``.
    """
    processes, found = launched_processes(), launcher_store()
    if processes == 1 or found is None or distributed.is_initialized():
        return
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # not in every build of torch

    host, port, rank = found
    store = TCPStore(host, port, processes, is_master=False, timeout=LONGEST)
    name = meet(PrefixStore(ROOM, store), rank, processes)
    own = PrefixStore(f"{ROOM}/{name}", store)
    distributed.init_process_group(backend, store=own, rank=rank, world_size=processes)


def meet(store: "Store", rank: int, processes: int, longest: timedelta = LONGEST) -> str:
    """A name that all processes of this attempt get and no process of another one.

    Every process leaves an id at its place. The first makes a list of them, and makes another one whenever an id has changed:
    it may have been that of a dead process. The others confirm a list that has their id. A list that all have confirmed counts.

    Args:
        store: the keys that the processes share with those of earlier attempts.
        rank: the number of this process.
        processes: the number of processes.
        longest: how long to wait for the others.
    """
    own = uuid.uuid4().hex
    store.set(f"id/{rank}", own)
    looks = _looks(processes, longest)
    return _call(store, processes, looks) if rank == 0 else _answer(store, rank, own, looks)


def _call(store: "Store", processes: int, looks: Iterator[None]) -> str:
    """The part of the first process."""
    ids = [f"id/{rank}" for rank in range(processes)]
    name, listed, confirmed = "", list[str](), list[str]()
    for _ in looks:
        if not store.check(ids):
            continue
        found = [value.decode() for value in store.multi_get(ids)]
        if found != listed:
            name, listed = uuid.uuid4().hex, found
            confirmed = [f"{name}/{rank}" for rank in range(1, processes)]
            store.set("list", json.dumps([name, listed]))
        if store.check(confirmed):
            break
    store.set(f"{name}/all", "here")
    return name


def _answer(store: "Store", rank: int, own: str, looks: Iterator[None]) -> str:
    """The part of another process."""
    name, confirmed = "", ""
    for _ in looks:
        if not store.check(["list"]):
            continue
        name, listed = json.loads(store.get("list"))
        if listed[rank] != own:
            continue
        if name != confirmed:
            store.set(f"{name}/{rank}", "here")
            confirmed = name
        if store.check([f"{name}/all"]):
            break
    return str(name)


def _looks(processes: int, longest: timedelta) -> Iterator[None]:
    """Iterate once for each look at the store; an error after the longest wait."""
    deadline, pause = time.monotonic() + longest.total_seconds(), FIRST_PAUSE
    while True:
        yield
        if time.monotonic() >= deadline:
            raise InputError(
                f"expected the {processes} processes of the launcher to begin together, got fewer within "
                f"{longest.total_seconds() / 60:g} minutes: see why others ended, or whether all machines can be reached"
            )
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE)
