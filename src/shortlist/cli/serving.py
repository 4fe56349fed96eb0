"""What ``shortlist serve`` does: the identification page of a run."""

import secrets
import socket
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from shortlist.cli.console import Bar, noticed, say, warn
from shortlist.cli.predicting import load_classifier
from shortlist.cli.runs import run_at
from shortlist.errors import InputError

if TYPE_CHECKING:
    from shortlist.data.dataset import Split
    from shortlist.models import Classifier
    from shortlist.predictions import Predictions
    from shortlist.training.run_folder import RunFolder
    from shortlist.web.opening import Comparison
    from shortlist.web.site import Site
    from shortlist.web.watching import Watching

NEEDED = ("starlette", "uvicorn", "python_multipart")


def serve(
    run: Path,
    host: str,
    port: int,
    references: str | None,
    index: Path | None,
    votes: Path | None,
    key: str | None,
    allow_host: list[str] | None,
    watch: bool,
    network: str | None,
) -> None:
    """Start a page that identifies photographs, shows similar pictures, and collects votes."""
    check_installed()
    import torch

    torch.set_num_threads(1)  # threads of one network would wait, spinning, for each other while others decode
    classifier = load_classifier(run, network=network)
    site = _site(run, classifier, references, index, votes, host, key, allow_host or [])
    if watch:
        site.watching, site.unwatched = _watching(run, classifier, site.votes.path)
    _listen(site, host, port)


def check_installed() -> None:
    """Raise an error unless the packages of the extra are installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(f"serve needs {', '.join(missing).replace('_', '-')}: install them with pip install 'shortlist[web]'")


def _site(
    path: Path,
    classifier: "Classifier",
    references: str | None,
    index: Path | None,
    votes: Path | None,
    host: str,
    key: str | None,
    names: list[str],
) -> "Site":
    from shortlist.data.dataset import TRAIN
    from shortlist.retrieval import Index
    from shortlist.web.opening import VOTES, RunData, reference_rows, suspected_rows
    from shortlist.web.safety import Access, RateLimit, allowed_hosts, is_loopback
    from shortlist.web.service import Identifier
    from shortlist.web.site import Site
    from shortlist.web.votes import VoteStore

    run, inside = run_at(path), is_loopback(host)
    opened = None if index is None else Index.open(index)
    data: RunData | None = None
    if run is not None and classifier.inputs.is_pictures:
        try:
            with noticed([]):
                data = RunData.of(run)
        except InputError as error:
            warn(str(error))
    rows = None if references == "none" or data is None else data.splits[TRAIN]
    if references not in (None, "none"):
        rows = reference_rows(str(references))
    compared = None if rows is None else _compared(path, classifier, rows, required=references is not None)
    identifier = Identifier(classifier, None if compared is None else compared.references)
    suspected, held_out = ([], {}) if run is None or data is None else suspected_rows(run, classifier, data)
    if key is None and not inside:
        key = secrets.token_urlsafe(12)
    return Site(
        identifier,
        VoteStore(votes or (path / VOTES if run is not None else Path(VOTES))),
        project=path.resolve().name if run is None else run.recipe.name,
        access=Access(allowed_hosts(host, names), key),
        pictures=None if compared is None else compared.pictures,
        suspected=suspected,
        held_out=held_out,
        index=opened,
        asks=RateLimit(None if inside else 2, 30),
    )


def _watching(path: Path, classifier: "Classifier", votes: Path) -> "tuple[Watching | None, str | None]":
    """The watch on what is answered; or why there is none, where the rule cannot be watched or another server watches."""
    from shortlist.web.watching import open_watch

    run = run_at(path)
    try:
        found = open_watch(classifier, votes, lambda: _calibration(run, classifier))
    except InputError as error:
        told = f"the photographs are not watched: {error}"
        warn(told)
        return None, told
    for alarm in found.watch.alarms:
        warn(alarm.sentence)
    return found, None


def _calibration(run: "RunFolder | None", classifier: "Classifier") -> "Predictions | None":
    from shortlist.predictions import Predictions

    return None if run is None else Predictions.load(run.calibration_path).with_link(classifier.link)


def _compared(path: Path, classifier: "Classifier", rows: "Split", required: bool) -> "Comparison | None":
    """The references, embedded on first use; None, with a warning, if that fails and they were not asked for."""
    from shortlist.web.opening import REFERENCES as FOLDER, open_references

    folder = path / FOLDER if run_at(path) is not None else path.with_name(f"{path.name}-{FOLDER}")
    with Bar("embedding the reference pictures", len(rows)) as bar:
        try:
            found = open_references(classifier, rows, folder, bar.at)
        except InputError as error:
            if required:
                raise
            warn(f"no pictures to compare with: {error}")
            return None
    for note in found.notes:
        warn(note)
    say(f"{len(found.references):,} reference pictures in {folder}")
    return found


def _listen(site: "Site", host: str, port: int) -> None:
    import uvicorn

    from shortlist.web.app import make_app
    from shortlist.web.safety import is_loopback

    # Addresses of proxies are not believed: anyone could write them, to have a rate of their own.
    settings = uvicorn.Config(make_app(site), host, port, log_level="warning", proxy_headers=False, server_header=False)
    try:
        bound = _bound(host, port)
    except OSError as error:
        site.close()
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot listen at {host}, port {port}: {reason}: choose another with --host or --port") from error
    address, number = bound.getsockname()[:2]
    shown = "localhost" if is_loopback(host) else host
    say(f"http://{shown}:{number}  (Ctrl-C stops it; votes go to {site.votes.path})")
    if not is_loopback(host):
        where = f"{address}:{number}"
        warn(f"everyone who can reach {where} can use this page, and nothing is encrypted: put a TLS proxy in front of it")
        say(f"votes and the review need this key: {site.access.key}")
    with suppress(KeyboardInterrupt):
        uvicorn.Server(settings).run(sockets=[bound])


def _bound(host: str, port: int) -> socket.socket:
    """A socket at this address."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was used a moment ago is free
    try:
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made
