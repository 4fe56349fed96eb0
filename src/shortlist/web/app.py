"""The routes: what is asked of the site over HTTP, and how it answers.

Only this file, ``forms`` and ``pages`` import Starlette.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import register_url_convertor
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shortlist.errors import InputError
from shortlist.web import openapi, pages
from shortlist.web.api import problem
from shortlist.web.batching import BusyError
from shortlist.web.forms import TOO_LARGE, RowNumber, limited, photographs_in, small_number, texts_in
from shortlist.web.safety import HEADERS, Access
from shortlist.web.site import GoneError, Site
from shortlist.web.uploads import MOST_BODY, UploadError
from shortlist.web.votes import Vote

Handler = Callable[[Request], Awaitable[Response]]
MOST_JSON = 16 * 1024  # bytes of a vote
MOST_RESULTS = 100
TITLES = {
    400: "Bad request",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    410: "Gone",
    413: "Too large",
    415: "Not a picture",
    421: "Misdirected request",
    429: "Too many requests",
    500: "Internal error",
    503: "Busy",
}

register_url_convertor("row", RowNumber())


def make_app(site: Site) -> ASGIApp:
    """The site as an ASGI application."""
    found = pages.Pages(site)
    routes = [
        Route("/", found.ask),
        Route("/review", found.review),
        Route("/search", found.search),
        Route("/static/{name}", found.static),
        Route("/references/{number:row}/{size}.jpg", _of(site, reference)),
        Route("/search/pictures/{row:row}.jpg", _of(site, search_picture)),
        Route("/healthz", _of(site, health)),
        Route("/openapi.json", _of(site, description)),
        Route("/v1/token", _of(site, token)),
        Route("/v1/classes", _of(site, classes)),
        Route("/v1/watch", _of(site, watch)),
        Route("/v1/search", _of(site, search)),
        Route("/v1/review", _of(site, review)),
        Route("/v1/review/{name}", _of(site, review_answer)),
        Route("/v1/review/{name}/{place:row}.jpg", _of(site, review_picture)),
        Route("/v1/identify", _of(site, identify), methods=["POST"]),
        Route("/v1/votes", _of(site, vote), methods=["POST"]),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        yield
        await run_in_threadpool(site.close)

    handlers: dict[Any, Any] = {
        HTTPException: _http_error,
        UploadError: lambda _, error: _refused(error.status, str(error)),
        InputError: lambda _, error: _refused(400, str(error)),
        BusyError: lambda _, error: _refused(503, f"{error}: try again in a moment", {"retry-after": "1"}),
        GoneError: lambda _, error: _refused(410, str(error)),
        Exception: lambda *_: _refused(500, "something went wrong; the server's terminal says what"),
    }
    # Around everything, so that the answers to faults of ours have the safe headers too.
    return Guard(Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan), site.access)


class Guard:
    """Refuses requests that are not for this server or not from its own pages, and puts the safe headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access):
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
                message["headers"] = headers.raw
            await send(message)

        headers = Headers(scope=scope)
        why = self.access.why_refused(scope["method"], headers)
        length = small_number(headers.get("content-length", "0"))
        if why is None and (length is None or length > MOST_BODY):  # the routes limit what comes without a length
            why = 413, TOO_LARGE
        app = self.app if why is None else _refused(*why)
        await app(scope, receive, with_headers)


def _of(site: Site, handler: Callable[[Site, Request], Awaitable[Response]]) -> Handler:
    async def handle(request: Request) -> Response:
        return await handler(site, request)

    return handle


def _refused(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    content = problem(status, TITLES.get(status, "Error"), detail)
    return JSONResponse(content, status, headers, media_type="application/problem+json")


def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {404: "there is nothing at this address", 413: TOO_LARGE}
    return _refused(error.status_code, details.get(error.status_code, error.detail), dict(error.headers or {}))


def _client(request: Request) -> str:
    return request.client.host if request.client is not None else ""


async def identify(site: Site, request: Request) -> Response:
    """``POST /v1/identify``: one to five photographs of one individual → the set, candidates, similar pictures."""
    if not site.asks.allows(_client(request)):
        return _refused(429, "too many questions from one address: wait a moment", {"retry-after": "5"})
    with site.reading.at_once(int(request.headers.get("content-length", MOST_BODY))):
        photographs = await asyncio.wrap_future(site.prepare(await photographs_in(limited(request, MOST_BODY))))
        answer = await asyncio.wrap_future(site.ask(photographs))
        return Response(site.answered(photographs, answer), media_type="application/json")


async def vote(site: Site, request: Request) -> Response:
    """``POST /v1/votes``: what a person decided about an answer, or about something in the review."""
    if not site.access.may_vote(request.headers):
        return _refused(403, "expected the token of the page and, where the server has one, its key")
    if not site.decisions.allows(_client(request)):
        return _refused(429, "too many votes from one address: wait a moment", {"retry-after": "5"})
    given = await texts_in(limited(request, MOST_JSON), ("id", "voter", "choice"), ("label",))
    if given is None:
        return _refused(400, "expected JSON with the texts id, voter and choice (label, none or unsure), and label for a label")
    await run_in_threadpool(site.vote, given["id"], Vote(given["voter"], given["choice"], given.get("label")))
    return JSONResponse({"id": given["id"], "votes": site.votes.number_of_votes()}, 201)


async def reference(site: Site, request: Request) -> Response:
    """The picture of a reference."""
    number, size = request.path_params["number"], request.path_params["size"]
    if (
        site.pictures is None
        or size not in ("small", "large")
        or request.query_params.get("of") not in (None, site.pictures.key)
    ):
        raise HTTPException(404)
    return _jpeg(await run_in_threadpool(site.pictures.jpeg, number, size), "private, max-age=3600")


async def search_picture(site: Site, request: Request) -> Response:
    """The picture of a row of the index."""
    return _jpeg(
        await run_in_threadpool(site.search_picture, request.path_params["row"], request.query_params.get("of")),
        "private, max-age=3600",
    )


def _jpeg(content: bytes | None, caching: str = "no-store") -> Response:
    if content is None:
        raise HTTPException(404)
    return Response(content, media_type="image/jpeg", headers={"cache-control": caching})


async def health(site: Site, _: Request) -> Response:
    """``GET /healthz``."""
    return JSONResponse(await run_in_threadpool(site.health))


async def description(site: Site, _: Request) -> Response:
    """``GET /openapi.json``."""
    return JSONResponse(openapi.description(site.project))


async def token(site: Site, _: Request) -> Response:
    """``GET /v1/token``: what votes need; no page of another origin can read it."""
    return JSONResponse({"token": site.access.token, "needsKey": site.access.key is not None})


async def classes(site: Site, _: Request) -> Response:
    """``GET /v1/classes``: all names."""
    return JSONResponse({"classes": list(site.classes)})


async def search(site: Site, request: Request) -> Response:
    """``GET /v1/search?q=…``: rows of the index."""
    text, number = request.query_params.get("q", ""), small_number(request.query_params.get("n", "24"))
    if number is None or not 1 <= number <= MOST_RESULTS:
        return _refused(400, f"n: expected a whole number from 1 to {MOST_RESULTS}")
    return JSONResponse(await run_in_threadpool(site.search, text, number))


def _check_key(site: Site, request: Request) -> None:
    if not site.access.may_review(request.headers):
        raise HTTPException(403, "expected the key of this server, Authorization: Bearer KEY")


async def watch(site: Site, request: Request) -> Response:
    """``GET /v1/watch``: whether the photographs are like the calibration rows; if not, since when, and what to do."""
    _check_key(site, request)
    return JSONResponse(await run_in_threadpool(site.watched))


async def review(site: Site, request: Request) -> Response:
    """``GET /v1/review?voter=…``: what needs eyes, most informative first."""
    _check_key(site, request)
    items = await run_in_threadpool(site.review, request.query_params.get("voter") or None)
    return JSONResponse({"items": [{"id": one.id, "reason": one.reason, "sentence": one.sentence} for one in items]})


async def review_answer(site: Site, request: Request) -> Response:
    """``GET /v1/review/ID``: what the classifier says about it now."""
    _check_key(site, request)
    name = request.path_params["name"]
    contents = await run_in_threadpool(site.review_pictures, name)
    photographs = await asyncio.wrap_future(site.prepare(contents))
    answer = await asyncio.wrap_future(site.ask(photographs))
    return JSONResponse(site.reviewed(name, photographs, answer))


async def review_picture(site: Site, request: Request) -> Response:
    """``GET /v1/review/ID/PLACE.jpg``: a photograph that was voted on."""
    _check_key(site, request)
    contents = await run_in_threadpool(site.review_pictures, request.path_params["name"])
    place = request.path_params["place"]
    return _jpeg(contents[place] if place < len(contents) else None)
