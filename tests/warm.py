"""Processes of their own for tests, forked from one that has torch loaded: a new interpreter needs seconds for that.

Where it matters what a program imports, or how it is started, tests start a new interpreter instead.
"""

import datetime
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe

import torch
import torch.multiprocessing

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["shortlist.training.run", "shortlist.retrieval.index", "tests.training.small", "tests.warm"])


class Program:
    """A running program, used like :class:`subprocess.Popen` with its output in pipes.

    Args:
        code: Python source.
        arguments: ``sys.argv`` from the second on.
        environment: variables that the program has besides those of this process.
        folder: its working folder; that of this process by default.

    Attributes:
        pid: the number of the process.
        stdout: what it prints, as text to read from.
        stderr: its messages.
    """

    def __init__(self, code: str, *arguments: object, environment: dict[str, str] | None = None, folder: object = None):
        pipes = [Pipe(duplex=False) for _ in range(2)]
        variables = dict(os.environ) | (environment or {})
        writers = [writer for _, writer in pipes]
        task = (code, [str(argument) for argument in arguments], variables, str(folder or os.getcwd()), writers)
        self._process = CONTEXT.Process(target=_run, args=task)
        self._process.start()
        for writer in writers:
            writer.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(reader.fileno())) for reader, _ in pipes)
        for reader, _ in pipes:
            reader.close()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """As that of :class:`subprocess.Popen`."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit status, once there is one."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a program", timeout or 0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Everything that it prints, and its messages; what it prints must fit into a pipe (64 kB) if there is a timeout."""
        if timeout is not None:
            self.wait(timeout)
        with self:
            return self.stdout.read(), self.stderr.read()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()


def run(code: str, *arguments: object, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    with Program(code, *arguments, **settings) as program:
        out, err = program.communicate()
    return subprocess.CompletedProcess(["-c", *map(str, arguments)], program.returncode, out, err)


def together(processes: int, code: str, *arguments: object) -> list[Program]:
    """A program in several processes that train as one, with the variables that a launcher sets."""
    if processes == 1:
        return [Program(code, *arguments)]
    port = _free_port()
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    variables["LOCAL_WORLD_SIZE"] = variables["WORLD_SIZE"]
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]
    return [Program(code, *arguments, environment=variables | rank) for rank in ranks]


def two_processes(function: Callable[..., None], *arguments: object) -> None:
    """Call the function in two processes, each with its rank before the arguments; an error in one is an error here."""
    torch.multiprocessing.start_processes(function, arguments, nprocs=2, start_method="forkserver")


@contextmanager
def one_of_two(rank: int, store: str) -> Iterator[None]:
    """Context in which this process and another, which name the same file, share their batches by gloo."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    # A process that waits for a word the other never says gives up.
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=60)
    )
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _run(code: str, arguments: list[str], variables: dict[str, str], folder: str, streams: list[Connection]) -> None:
    for place, stream in enumerate(streams, start=1):
        os.dup2(stream.fileno(), place)
        stream.close()
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    try:
        exec(compile(code, "<program>", "exec"), {"__name__": "__main__"})
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
