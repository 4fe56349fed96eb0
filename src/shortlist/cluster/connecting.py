"""A Ray cluster for a while: one that is running is joined, or one is started on this machine and stopped again."""

import gc
import importlib
import os
import shutil
import signal
import socket
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.machine import usable_cores

ADDRESS = "RAY_ADDRESS"  # the variable in which Ray itself looks
FOLDER = "RAY_TMPDIR"
ANSWER_WITHIN = 5.0  # seconds; left alone, Ray tries an address where nothing listens for many minutes
STARTS = 5  # Ray gives its processes 30 seconds to begin, which a busy machine may need more than once
ENDS_WITHIN = 10.0  # seconds; a process that was killed is waited for
SHORT_FOLDERS = "/tmp"  # paths of sockets may have about 100 characters
STORE = 2**29  # bytes of shared memory; blocks of scores pass through it, rows at rest never do
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
}
PATIENT = {  # a process that a busy machine lets wait is slow, not dead
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_gcs_server_request_timeout_seconds": "120",
    "RAY_gcs_rpc_server_connect_timeout_s": "60",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "120",
    "RAY_health_check_timeout_ms": "60000",
}


@contextmanager
def session(address: str | None = None, *, cpus: int | None = None) -> Iterator[Any]:
    """Context with Ray: the module ``ray``, connected.

    A program that has called ``ray.init`` itself keeps its connection. Otherwise the cluster at the address is joined, and left
    in the end; without an address, Ray is started on this machine, and all its processes are stopped in the end, also if this
    process is killed.

    Args:
        address: ``HOST:PORT`` of the head of a running cluster, or ``auto`` for the one that this machine belongs to; by
            default what ``RAY_ADDRESS`` holds, if anything.
        cpus: logical CPUs of a cluster that is started here, not of one that is joined; by default the cores of this machine.
            They are a budget, which may be larger than the number of cores.
    """
    ray = ray_module("ray")
    address = address or os.environ.get(ADDRESS) or None
    if cpus is not None:
        whole(1)("cpus", cpus)
    if ray.is_initialized():
        yield ray
        return
    with ExitStack() as opened:
        opened.enter_context(_own_signals())
        if address is not None:
            _check_answers(address)
            settings: dict[str, Any] = {"address": address}
        else:
            settings = {"num_cpus": cpus or usable_cores(), "include_dashboard": False, "object_store_memory": STORE}
            if FOLDER not in os.environ:
                settings["_temp_dir"] = opened.enter_context(_short_folder())
        opened.callback(_leave, ray)
        _connect(ray, settings)
        yield ray


def _connect(ray: Any, settings: dict[str, Any]) -> None:
    """Join or start a cluster. A start that a busy machine was too slow for is tried again."""
    for attempt in range(STARTS):
        before = _processes(ray)
        with quiet():
            try:
                ray.init(**settings, log_to_driver=False, logging_level="ERROR", namespace="shortlist")
                return
            except Exception as error:  # of many kinds, Ray's own among them
                reason = _first_line(error)
        _leave(ray)
        _end(ray, but=before)
        if "address" in settings:
            raise InputError(f"address: Ray at {settings['address']} could not be joined: {reason}")
        if attempt == STARTS - 1:
            raise InputError(f"Ray could not be started on this machine: {reason}")


def _processes(ray: Any) -> set[int]:
    """The processes of Ray's that this one has started."""
    folder, found = os.path.dirname(ray.__file__), set()
    psutil = importlib.import_module("psutil")  # comes with Ray
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if any(folder in argument for argument in child.cmdline()):
                found.add(child.pid)
    return found


def _end(ray: Any, but: set[int]) -> None:
    """End what a start that failed has left behind: Ray forgets it, and it would be in the way of the next one."""
    psutil = importlib.import_module("psutil")
    for pid in _processes(ray) - but:
        with suppress(psutil.Error):
            child = psutil.Process(pid)
            for process in [*child.children(recursive=True), child]:
                with suppress(psutil.Error):
                    process.kill()
            child.wait(ENDS_WITHIN)


def _leave(ray: Any) -> None:
    with quiet():
        ray.shutdown()
        gc.collect()  # processes that were ended, whose objects would warn wherever they are collected


def ray_module(name: str) -> Any:
    """A module of Ray; an error says how to install it."""
    for variable, value in (QUIET | PATIENT).items():
        os.environ.setdefault(variable, value)
    with quiet():
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise InputError(
                f"a cluster needs Ray, which could not be imported ({_first_line(error)}): pip install 'shortlist[cluster]'"
            ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Context in which Ray's own deprecation warnings, and those of what it imports, are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _own_signals() -> Iterator[None]:
    """Context in which Ctrl-C and SIGTERM do what they did before, though Ray sets handlers of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def _short_folder() -> Iterator[str]:
    """A folder for sockets and logs, removed in the end."""
    parent = SHORT_FOLDERS if os.path.isdir(SHORT_FOLDERS) else tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="shortlist-ray-", dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_answers(address: str) -> None:
    """Raise an error if nothing listens at an address, before Ray tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto" or address.startswith("local"):
        return
    if not host or not port.isdecimal():
        raise InputError(f"address: expected HOST:PORT of a running cluster, such as 10.0.0.1:6379, or auto, got {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"address: nothing answers at {address} ({error}): start a cluster with ray start --head, or leave the address "
            f"out (and {ADDRESS} unset) to start one on this machine"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
