"""Group: processes of a cluster that train as one. If one dies, all begin again, and the training goes on where it was saved.

Ray places them, all or none, and notices deaths; how they find each other, what they compute and what is kept is what
``torchrun`` leads to. Each attempt has processes, a place of meeting and connections of its own.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from shortlist.cluster.member import GPUS, Event, Heard, Job, Member, Place
from shortlist.cluster.pooling import Pool
from shortlist.errors import InputError
from shortlist.machine import launch_variables
from shortlist.training.interruption import TERMINATED, Interrupted, Terminated

ATTEMPTS = 4  # in a row that get no further; then it is not chance
PLACES_WITHIN = 300.0  # seconds that a busy cluster, or one that replaces a machine, has for all processes
ASKED_EVERY = 0.5  # seconds between two questions how it goes
GRACE = 5.0  # seconds for the others to say what they met, after one has failed: it may be the reason
SAVED_WITHIN = 60.0  # seconds for the checkpoint after Ctrl-C


class WorkerFailedError(RuntimeError):
    """A process of a training ended with an error that is nobody's input; the message is its traceback."""


@dataclass
class _Trouble:
    """Why an attempt failed."""

    sentence: str
    error: Exception


@dataclass
class _Attempt:
    """The processes of one attempt, in the order of their ranks."""

    ray: Any
    actors: list[Any]
    listen: Callable[[Event], None]
    trouble: _Trouble | None = None
    begun: bool = False  # whether the first has taken the folder, so that there may be something to save
    _asked: dict[Any, int] = field(default_factory=dict)

    def watch(self) -> _Trouble | None:
        """Wait until the first process has ended; what went wrong, if something did."""
        for rank in range(len(self.actors)):
            self._ask(rank)
        until = math.inf
        while self._asked and time.monotonic() < until:
            ready, _ = self.ray.wait(list(self._asked), num_returns=1, timeout=GRACE)
            for reference in ready:
                rank = self._asked.pop(reference)
                found = self._answer(reference, rank)
                if found is not None and rank == 0 and found.ended and found.failed is None:
                    return None
            if self.trouble is not None:  # after a death there is nothing to wait for
                died = isinstance(self.trouble.error, InputError)
                until = min(until, time.monotonic() + (0.0 if died else GRACE))
        return self.trouble

    def _ask(self, rank: int) -> None:
        self._asked[self.actors[rank].heard.remote(ASKED_EVERY)] = rank

    def _answer(self, reference: Any, rank: int) -> Heard | None:
        """What a process said; None if it died. It is asked again unless it has ended."""
        try:
            found: Heard = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            self._failed(f"worker {rank} died", InputError(f"worker {rank} died: {_first_line(error)}"))
            return None
        if rank == 0:
            for event in found.events:
                self.begun |= event[0] == "training_started"
                self.listen(event)
        if found.refused is not None:
            raise InputError(found.refused)
        if found.failed is not None:
            last = found.failed.strip().splitlines()[-1]
            self._failed(f"worker {rank} failed ({last})", WorkerFailedError(f"worker {rank}:\n{found.failed}"))
        if not found.ended:
            self._ask(rank)
        return found

    def _failed(self, sentence: str, error: Exception) -> None:
        """Note it; a death rather than the errors of those that waited for the dead one."""
        if self.trouble is None or (isinstance(error, InputError) and isinstance(self.trouble.error, WorkerFailedError)):
            self.trouble = _Trouble(sentence, error)

    def stop(self, by: signal.Signals) -> str | None:
        """Ask the first process to save what it has: how far it got, or None if there was nothing to save."""
        first, until = self.actors[0], time.monotonic() + SAVED_WITHIN
        if not self.begun or self.trouble is not None:
            return None
        try:
            self.ray.get(first.stop.remote(int(by)))
            while time.monotonic() < until:
                found: Heard = self.ray.get(first.heard.remote(ASKED_EVERY))
                if found.ended:
                    return found.stopped
        except self.ray.exceptions.RayError:
            pass
        return None


def together(
    pool: Pool, job: Job, listen: Callable[[Event], None], reached: Callable[[], Any], *, kind: type[Any] = Member
) -> None:
    """Do a job in as many processes as the pool has workers, all at once, until it is done.

    An error in what the user gave ends it at once. If a process dies or fails, all are ended and begin again; if four attempts
    in a row get no further, the last error is raised. Ctrl-C and SIGTERM ask the first process to save, and end all.

    Args:
        pool: how many processes, and what each has. Its own workers are ended.
        job: called in each process, with the number of the attempt; on its variables it is one of several.
        listen: called with what the first process tells.
        reached: what changes whenever something was saved.
        kind: of the actors.
    """
    pool.close()
    in_vain, before, attempt = 0, reached(), 0
    while True:
        with _placed(pool, kind) as placed:
            trouble = _attempted(pool, placed, job, listen, attempt)
        if trouble is None:
            return
        attempt, now = attempt + 1, reached()
        in_vain, before = (in_vain + 1 if now == before else 1), now
        if in_vain == ATTEMPTS:
            if isinstance(trouble.error, InputError):
                raise InputError(f"{ATTEMPTS} attempts in a row got no further; in the last, {trouble.error}")
            raise trouble.error
        listen(("message", (f"{trouble.sentence}: {_all(pool.size)} again, from the last checkpoint",)))


def _attempted(pool: Pool, placed: list[Any], job: Job, listen: Callable[[Event], None], attempt: int) -> _Trouble | None:
    """One attempt with these actors."""
    try:
        places = _begun(pool, placed)
        # Processes of one machine are numbered one after the other.
        machines = list(dict.fromkeys(place.address for place in places))
        ranks = sorted(range(len(places)), key=lambda number: machines.index(places[number].address))
        members, places = [placed[number] for number in ranks], [places[number] for number in ranks]
        sent = pool.ray.put(job)
        started = [
            member.start.remote(sent, attempt, _variables(places, rank, attempt), pool.cpus)
            for rank, member in enumerate(members)
        ]
        pool.ray.get(started)
    except pool.ray.exceptions.RayError as error:
        return _Trouble("a worker could not begin", InputError(f"a worker could not begin: {_first_line(error)}"))
    found = _Attempt(pool.ray, members, listen)
    try:
        return found.watch()
    except KeyboardInterrupt as error:
        raise Interrupted(found.stop(signal.SIGINT) or "") from error
    except SystemExit as error:
        if error.code != TERMINATED:
            raise
        raise Terminated(found.stop(signal.SIGTERM) or "") from error


def _begun(pool: Pool, placed: list[Any]) -> list[Place]:
    """Where each process is."""
    asked = [actor.begin.remote(pool.ray.util.get_node_ip_address) for actor in placed]
    found: list[Place] = pool.ray.get(asked, timeout=PLACES_WITHIN)
    return found


def _variables(places: list[Place], rank: int, attempt: int) -> dict[str, str]:
    """Those of a launcher; and every process sees the GPUs of all on its machine, so that they can reach each other's."""
    found = launch_variables(rank, [place.address for place in places], places[0].port, attempt)
    gpus = [place.gpus for place in places if place.address == places[rank].address and place.gpus]
    return found | ({GPUS: ",".join(gpus)} if gpus else {})


@contextmanager
def _placed(pool: Pool, kind: type[Any]) -> Iterator[list[Any]]:
    """Context with the actors, for all of which there is room at once, so that no two trainings wait for each other."""
    ray, share = pool.ray, {"CPU": pool.cpus} | ({"GPU": pool.gpus} if pool.gpus else {})
    room = ray.util.placement_group([share] * pool.size, strategy="PACK")
    actors: list[Any] = []
    try:
        if not room.wait(PLACES_WITHIN):
            raise InputError(
                f"workers: expected room for {pool.size} at once, each with {_needs(pool)}, got less within "
                f"{PLACES_WITHIN:g} s (ray status shows what takes it); try fewer --workers, or later"
            )
        for number in range(pool.size):
            strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(room, number)
            actor = ray.remote(kind).options(
                num_cpus=pool.cpus, num_gpus=pool.gpus, max_restarts=0, scheduling_strategy=strategy
            )
            actors.append(actor.remote())
        yield actors
    finally:
        for one in actors:
            ray.kill(one)
        ray.util.remove_placement_group(room)


def _needs(pool: Pool) -> str:
    return f"{pool.cpus} CPUs and {pool.gpus:g} GPUs" if pool.gpus else f"{pool.cpus} CPUs"


def _all(size: int) -> str:
    return "it starts" if size == 1 else f"all {size} start"


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
