"""The identification server under load: ``python -m benchmarks serving`` takes three minutes and uses the loopback interface.

A server process with the network of the demo (its weights do not matter for speed), 120 classes, sets of 5 on average, and
300,000 references of which similar ones are searched for every answer; then, for less long, a ResNet-50 at 224 pixels.
Clients keep their connections, send a small JPEG each time and wait for the answer; they run on the same machine, and take
their share of it.
"""

import asyncio
import io
import json
import multiprocessing
import socket
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from PIL import Image

from benchmarks.harness import record
from shortlist.data import Flora, PictureArray, Split
from shortlist.links import Softmax
from shortlist.models import Classifier, InputSpec, Network
from shortlist.sets import average_k
from shortlist.web.reference_pictures import ReferencePictures
from shortlist.web.references import References
from shortlist.web.service import Identifier
from shortlist.web.site import Site
from shortlist.web.votes import VoteStore

CLASSES = 120
LONG, SHORT = 120.0, 15.0  # seconds


class Served(NamedTuple):
    """What is served."""

    backbone: str
    side: int
    references: int


DEMO, LARGE = Served("resnet-8x2/2", 32, 300_000), Served("resnet-50/4", 224, 100_000)


def _site(folder: Path, served: Served) -> Site:
    torch.manual_seed(0)
    garden = Flora(species=CLASSES, genera=30)
    network = Network(served.backbone, "linear", InputSpec.pictures(served.side, 0.5, 0.25), CLASSES).eval()
    classifier = Classifier(network, garden.classes, link=Softmax(), superclasses=garden.superclasses)
    images, _, _ = garden.specimens(500 if served == DEMO else 50, seed=8, size=served.side)
    classifier = classifier.fit_rule(average_k(5), classifier.predictions(images))
    width = int(network.backbone.num_features)
    embeddings = torch.nn.functional.normalize(torch.randn(served.references, width), dim=1).half().numpy()
    np.save(folder / "embeddings.npy", embeddings)
    starts = np.linspace(0, served.references, CLASSES + 1).astype(np.int64)
    typical = starts[:-1, None] + np.arange(8)
    kept = np.load(folder / "embeddings.npy", mmap_mode="c")
    references = References(kept, starts, np.arange(served.references), typical, network.digest(), "")
    images = torch.zeros(1, 3, served.side, served.side, dtype=torch.uint8).expand(served.references, -1, -1, -1)
    rows = Split(PictureArray(images), None, [str(row) for row in range(served.references)])
    pictures = ReferencePictures(rows, references)
    return Site(Identifier(classifier, references), VoteStore(folder / "votes.sqlite"), "demo", pictures=pictures)


def _serve(folder: str, bound: socket.socket, served: Served) -> None:
    import uvicorn

    from shortlist.web.app import make_app

    torch.set_num_threads(1)
    app = make_app(_site(Path(folder), served))
    settings = uvicorn.Config(app, log_level="warning", proxy_headers=False, server_header=False)
    uvicorn.Server(settings).run(sockets=[bound])


def _tcp() -> socket.socket:
    """A socket for which asyncio sends answers at once; of others it does not know that they speak TCP."""
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)


@contextmanager
def _server(served: Served) -> Any:
    """Its process and its port."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, _tcp() as bound:
        bound.bind(("127.0.0.1", 0))
        process = context.Process(target=_serve, args=(folder, bound, served), daemon=True)
        process.start()
        try:
            yield psutil.Process(process.pid), bound.getsockname()[1]
        finally:
            process.terminate()
            process.join(30)


def _request(content: bytes) -> bytes:
    """A photograph as a browser sends it."""
    part = b'--edge\r\nContent-Disposition: form-data; name="images"; filename="a.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
    body = part + content + b"\r\n--edge--\r\n"
    head = "POST /v1/identify HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=edge\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _requests(side: int, count: int = 64) -> list[bytes]:
    images, _, _ = Flora(species=CLASSES, genera=30).specimens(count, seed=9, size=side)
    found = []
    for image in images:
        written = io.BytesIO()
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(written, "jpeg", quality=90)
        found.append(_request(written.getvalue()))
    return found


class _Client:
    """One client, which asks as soon as it has its answer, until the time is over."""

    def __init__(self, port: int, requests: list[bytes], until: float):
        self.port, self.requests, self.until = port, requests, until
        self.seconds: list[float] = []
        self.errors = 0

    async def run(self, start: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while time.perf_counter() < self.until:
            began = time.perf_counter()
            writer.write(self.requests[(start + len(self.seconds)) % len(self.requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            self.seconds.append(time.perf_counter() - began)
            self.errors += not head.startswith(b"HTTP/1.1 200")
        writer.close()


def _load(port: int, clients: int, seconds: float, requests: list[bytes]) -> dict[str, float]:
    async def everyone() -> list[_Client]:
        began = time.perf_counter()
        asking = [_Client(port, requests, began + seconds) for _ in range(clients)]
        await asyncio.wait_for(asyncio.gather(*(one.run(7 * place) for place, one in enumerate(asking))), seconds + 30)
        return asking

    began = time.perf_counter()
    asked = asyncio.run(everyone())
    taken = time.perf_counter() - began
    times = sorted(time for one in asked for time in one.seconds)
    return {
        "clients": clients,
        "seconds": taken,
        "requests": len(times),
        "per_second": len(times) / taken,
        "median_ms": 1e3 * statistics.median(times),
        "p95_ms": 1e3 * times[int(0.95 * (len(times) - 1))],
        "errors": sum(one.errors for one in asked),
    }


def _others(busy: float) -> str:
    """How much of the machine others used, as a sentence; nothing if it was free."""
    return f"Other work used {busy:.0%} of the cores before it began. " if busy > 0.1 else ""


def _wait(port: int) -> None:
    for _ in range(600):
        try:
            asyncio.run(_read(port, "/healthz"))
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the server did not start")


async def _read(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    content = await reader.read()
    writer.close()
    return content.partition(b"\r\n\r\n")[2]


def _page_bytes(port: int) -> int:
    """What a browser fetches before any picture."""
    names = ("ask.js", "answer.js", "elements.js", "server.js", "viewer.js", "style.css", "icon.svg")
    paths = ["/", *(f"/static/{name}" for name in names)]
    return sum(len(asyncio.run(_read(port, path))) for path in paths)


def _measured(process: psutil.Process, port: int, clients: int, seconds: float, requests: list[bytes]) -> dict[str, float]:
    """A load, with the processor time that the server took for each answer, which depends little on what else runs."""
    before = process.cpu_times()
    found = _load(port, clients, seconds, requests)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return {**found, "cpu_ms": 1e3 * used / found["requests"], "memory_mb": process.memory_info().rss / 2**20}


def run(long: float = LONG) -> None:
    # The last quarters show whether memory still grows.
    _run(DEMO, [(1, SHORT), (16, SHORT), *[(50, long / 4)] * 4])
    _run(LARGE, [(1, SHORT), (16, SHORT)])


def _run(served: Served, loads: list[tuple[int, float]]) -> None:
    requests = _requests(served.side)
    busy = psutil.cpu_percent(5) / 100  # before the server starts
    with _server(served) as (process, port):
        _wait(port)
        _load(port, 4, 2, requests)  # warms up
        found = {
            "load": [_measured(process, port, clients, seconds, requests) for clients, seconds in loads],
            "page_bytes": _page_bytes(port),
            "other_load_words": _others(busy),
        }
        health = json.loads(asyncio.run(_read(port, "/healthz")))
        assert health["references"] == served.references
        network = f"{served.backbone} at {served.side} pixels"
        record("serving", f"{served.references:,} references, {CLASSES} classes, {network}, one process", found)
        print(json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    run()
