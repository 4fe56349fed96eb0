"""Where the work of a command is done: in this process, or by workers on a Ray cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.words import did_you_mean

if TYPE_CHECKING:
    from shortlist.cluster import Pool

ENGINES = ("local", "ray")
PARAMETERS = {"address:": "--address:", "workers:": "--workers:"}  # of the library, as options


@dataclass(frozen=True)
class Engine:
    """What the options say about it.

    Args:
        name: ``local`` or ``ray``.
        address: of a running cluster; one is started on this machine by default.
        workers: their number, by default one for each CPU.
    """

    name: str = "local"
    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise InputError(f"--engine: expected local or ray, got {self.name!r}{did_you_mean(self.name, ENGINES)}")
        for option, given in (("--address", self.address), ("--workers", self.workers)):
            if given is not None and self.name == "local":
                raise InputError(f"{option} applies only to --engine ray")
        if self.workers is not None:
            whole(1)("--workers", self.workers)

    @contextmanager
    def pool(self, *, gpus_per_worker: float = 0) -> "Iterator[Pool | None]":
        """Context with the workers; None if the work is done here."""
        if self.name == "local":
            yield None
            return
        from shortlist.cluster import pool

        try:
            with pool(self.address, workers=self.workers, gpus_per_worker=gpus_per_worker) as found:
                yield found
        except InputError as error:
            text = str(error)
            name = next((name for name in PARAMETERS if text.startswith(name)), None)
            if name is None:
                raise
            raise InputError(PARAMETERS[name] + text.removeprefix(name)) from error

    @contextmanager
    def pool_on(self, device: str) -> "Iterator[Pool | None]":
        """As :meth:`pool`, with workers for networks on this device: with a GPU each if it is ``cuda``."""
        with self.pool(gpus_per_worker=float(device == "cuda")) as found:
            if found is not None and device == "auto" and found.ray.cluster_resources().get("GPU"):
                raise InputError("--device: the cluster has GPUs: expected cuda, one for each worker, or cpu, got auto")
            yield found


def imported_modules() -> tuple[str, ...]:
    """The modules that ``--import`` named, which workers must import too."""
    context = click.get_current_context(silent=True)
    return () if context is None else tuple(context.find_root().params.get("imports") or ())


LOCAL = Engine()
