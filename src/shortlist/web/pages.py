"""The pages: templates filled in once, and the scripts and styles beside them, all of it from memory."""

import hashlib
from importlib import resources

import jinja2
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shortlist.versions import version_of
from shortlist.web.site import Site
from shortlist.web.uploads import MOST_BYTES, MOST_PHOTOGRAPHS

FOLDER = resources.files("shortlist.web")
TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


class Pages:
    """The pages of a site; no path from a request reaches the disk.

    Args:
        site: what they show.
    """

    def __init__(self, site: Site):
        self._site = site
        self._static = {one.name: one.read_bytes() for one in (FOLDER / "static").iterdir() if one.is_file()}
        self._stamp = hashlib.sha256(b"".join(self._static[name] for name in sorted(self._static))).hexdigest()[:8]
        sources = {one.name: one.read_text(encoding="utf-8") for one in (FOLDER / "templates").iterdir()}
        self._templates = jinja2.Environment(
            loader=jinja2.DictLoader(sources), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )

    async def ask(self, _: Request) -> Response:
        """``GET /``."""
        return self._page("ask.html")

    async def review(self, _: Request) -> Response:
        """``GET /review``."""
        return self._page("review.html")

    async def search(self, request: Request) -> Response:
        """``GET /search``."""
        if self._site.index is None:
            raise HTTPException(404)
        return self._page("search.html", query=request.query_params.get("q", ""))

    async def static(self, request: Request) -> Response:
        """A script, a style or an icon."""
        name = request.path_params["name"]
        if name not in self._static:
            raise HTTPException(404)
        headers = {"cache-control": "no-cache", "etag": f'"{self._stamp}"'}  # asked for each time, sent when it has changed
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(self._static[name], media_type=TYPES[name.rpartition(".")[2]], headers=headers)

    def _page(self, name: str, **values: str) -> Response:
        site = self._site
        content = self._templates.get_template(name).render(
            project=site.project,
            number_of_classes=len(site.classes),
            number_of_references=0 if site.identifier.references is None else len(site.identifier.references),
            searchable=site.index is not None,
            needs_key=site.access.key is not None,
            token=site.access.token,
            most=MOST_PHOTOGRAPHS,
            most_megabytes=MOST_BYTES // 2**20,
            stamp=self._stamp,
            version=version_of("shortlist"),
            **values,
        )
        return HTMLResponse(content)
