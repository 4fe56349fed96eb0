"""Pool: worker processes on a cluster, and tasks that they answer although any of them may die at any moment."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from shortlist.checks import whole
from shortlist.cluster.connecting import session
from shortlist.cluster.worker import Worker
from shortlist.errors import InputError
from shortlist.machine import usable_cores

Task = TypeVar("Task")
Answer = TypeVar("Answer")
AHEAD = 2  # tasks that a worker usually holds: it begins the next one at once
ATTEMPTS = 8  # of a task whose workers die; then it is the task that kills them
FIRST_WORKER_WITHIN = 300.0  # seconds that a busy cluster has to start one worker


@dataclass
class _Member:
    """A worker, and the tasks that it holds, in the order in which it answers them."""

    actor: Any
    begun: bool = False
    holds: list[Any] = field(default_factory=list)


@dataclass
class _Given:
    """A task that a worker holds."""

    member: _Member
    place: int
    task: Any
    attempts: int


class Pool:
    """Workers of a connected Ray: what they answer does not depend on how many there are, nor on which of them die.

    Args:
        ray: the module, connected.
        workers: the number of workers; by default one for each CPU of the cluster, or for each GPU where they use one.
        cpus: logical CPUs of each worker, which are also its threads; by default one, or with a GPU as many as a machine has
            for each of its GPUs, because pictures are decoded by them.
        gpus: GPUs of each worker.
    """

    def __init__(self, ray: Any, workers: int | None = None, *, cpus: int | None = None, gpus: float = 0):
        cpus = _cpus_beside(ray, gpus) if cpus is None else whole(1)("cpus", cpus)
        self.ray, self.cpus, self.gpus = ray, cpus, gpus
        there = ray.cluster_resources()
        room = int(there.get("CPU", 1)) // cpus
        if gpus:
            room = min(room, int(there.get("GPU", 0) / gpus))
        if room < 1:
            needed = f"{cpus} CPUs and {gpus:g} GPUs" if gpus else f"{cpus} CPUs"
            raise InputError(
                f"workers: expected a cluster with {needed} for each, got {there.get('CPU', 0):g} CPUs and "
                f"{there.get('GPU', 0):g} GPUs"
            )
        self.size = room if workers is None else whole(1)("workers", workers)
        self._members: list[_Member] = []
        self._running: dict[Any, _Given | _Member] = {}
        self._stillborn = 0  # workers that died before they began, since one began

    def close(self) -> None:
        """End all workers."""
        for member in self._members:
            self.ray.kill(member.actor)
        self._members, self._running = [], {}

    def each(
        self, job: Callable[[Task], Answer], tasks: Iterable[Task], within: int | None = None, *, ahead: int = AHEAD
    ) -> Iterator[tuple[int, Answer]]:
        """The answers as they come, each with the place of its task; tasks are taken as workers get free.

        An error that a job raises is raised here. A task whose worker died is given to another one, at most eight times.

        Args:
            job: a function that workers can import, or a value with a ``__call__``.
            tasks: what it is called with.
            within: how many tasks may be taken from the oldest one without an answer on; any number by default.
            ahead: how many tasks a worker holds; 1 where tasks take long, so that none waits behind another one.
        """
        waiting: deque[tuple[int, Task, int]] = deque()
        coming = enumerate(tasks)
        sent, taken = self.ray.put(job), 0
        self._fill()
        try:
            while True:
                wanted = max(1, sum(ahead - len(member.holds) for member in self._members if member.begun)) - len(waiting)
                open_places = [*(place for place, _, _ in waiting), *(given.place for given in self._given)]
                if within is not None and open_places:
                    wanted = min(wanted, min(open_places) + within - taken)
                for place, task in islice(coming, max(0, wanted)):
                    waiting.append((place, task, 0))
                    taken += 1
                self._hand_out(sent, waiting, ahead)
                if not waiting and not self._given:
                    return
                found = self._next(waiting)
                if found is not None:
                    yield found
        finally:
            self._forget()

    @property
    def _given(self) -> list[_Given]:
        return [one for one in self._running.values() if isinstance(one, _Given)]

    def in_order(self, job: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]:
        """The same in the order of the tasks; of what comes early, little is kept."""
        kept: dict[int, Answer] = {}
        done = 0
        for place, answer in self.each(job, tasks, within=2 * AHEAD * self.size):
            kept[place] = answer
            while done in kept:
                yield kept.pop(done)
                done += 1

    def _fill(self) -> None:
        while len(self._members) < self.size:
            self._members.append(self._hired())

    def _hired(self) -> _Member:
        kind = self.ray.remote(Worker)
        actor = kind.options(num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=0).remote()
        member = _Member(actor)
        self._running[actor.begin.remote(self.cpus)] = member
        return member

    def _hand_out(self, job: Any, waiting: deque[tuple[int, Any, int]], ahead: int) -> None:
        """Give tasks to workers that hold the fewest."""
        for least in range(ahead):
            for member in self._members:
                if waiting and member.begun and len(member.holds) == least:
                    place, task, attempts = waiting.popleft()
                    reference = member.actor.answer.remote(job, task)
                    member.holds.append(reference)
                    self._running[reference] = _Given(member, place, task, attempts)

    def _next(self, waiting: deque[tuple[int, Any, int]]) -> tuple[int, Any] | None:
        """Wait for one worker: its answer; None if it has only begun, or died."""
        ready, _ = self.ray.wait(list(self._running), num_returns=1, timeout=FIRST_WORKER_WITHIN)
        if not ready:
            if any(member.begun for member in self._members):
                return None
            raise InputError(
                f"no worker could begin within {FIRST_WORKER_WITHIN:g} s: the cluster has no free CPUs (ray status shows what "
                "takes them); try fewer --workers, or later"
            )
        (reference,) = ready
        given = self._running.pop(reference)
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, InputError):
                raise cause from None
            raise
        except self.ray.exceptions.RayError as error:
            self._replace(given.member if isinstance(given, _Given) else given, reference, given, waiting, error)
            return None
        if isinstance(given, _Member):
            given.begun, self._stillborn = True, 0
            return None
        given.member.holds.remove(reference)
        return given.place, answer

    def _replace(
        self,
        member: _Member,
        reference: Any,
        given: "_Given | _Member",
        waiting: deque[tuple[int, Any, int]],
        error: Exception,
    ) -> None:
        """Put a new worker in the place of one that died, and take back what it held."""
        self._stillborn += isinstance(given, _Member)
        if self._stillborn > ATTEMPTS:
            raise InputError(f"{ATTEMPTS} workers died before they began, the last with: {_first_line(error)}") from error
        held = [given] if isinstance(given, _Given) else []
        first = not member.holds or member.holds[0] == reference
        held += [self._running.pop(other) for other in member.holds if other in self._running]  # type: ignore[misc]
        for one in sorted(held, key=lambda task: task.place, reverse=True):
            # The one that it was at is tried so often; those that only waited behind it are not to blame.
            attempts = one.attempts + (one is given and first)
            if attempts == ATTEMPTS:
                raise InputError(
                    f"task {one.place:,}: {ATTEMPTS} workers died while they were at it, the last with: {_first_line(error)}"
                ) from error
            waiting.appendleft((one.place, one.task, attempts))
        self.ray.kill(member.actor)
        self._members[self._members.index(member)] = self._hired()

    def _forget(self) -> None:
        """After an error, or if nobody wants the rest: workers with tasks are ended, others stay for the next tasks."""
        for member in [member for member in self._members if member.holds]:
            for reference in member.holds:
                self._running.pop(reference, None)
            self.ray.kill(member.actor)
            self._members.remove(member)


@contextmanager
def pool(
    address: str | None = None, *, workers: int | None = None, cpus_per_worker: int | None = None, gpus_per_worker: float = 0
) -> Iterator[Pool]:
    """Context with workers on a cluster, which is joined or started as by :func:`session`.

    Args:
        address: of a running cluster.
        workers: their number. A cluster that is started here gets as many CPUs as they need.
        cpus_per_worker: logical CPUs of each, which are also its threads; see :class:`Pool`.
        gpus_per_worker: GPUs of each.
    """
    cpus = None if workers is None else whole(1)("workers", workers) * (cpus_per_worker or 1)
    if cpus is not None and gpus_per_worker and cpus_per_worker is None:
        cpus = max(cpus, usable_cores())  # to be shared among them
    with session(address, cpus=cpus) as ray:
        found = Pool(ray, workers, cpus=cpus_per_worker, gpus=gpus_per_worker)
        try:
            yield found
        finally:
            found.close()


def _cpus_beside(ray: Any, gpus: float) -> int:
    """The CPUs of the machine that has the fewest for so many of its GPUs; 1 for workers without a GPU."""
    if not gpus:
        return 1
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    shares = [int(there.get("CPU", 0) * gpus / there["GPU"]) for there in machines if there.get("GPU")]
    return max(1, min(shares, default=1))


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
