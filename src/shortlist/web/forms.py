"""Forms: photographs, texts and numbers in requests, within limits, whatever was sent.

Photographs are read into memory: nothing of them reaches the disk before somebody votes.
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from starlette.convertors import Convertor
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.types import Message

from shortlist.web.uploads import MOST_BODY, MOST_PHOTOGRAPHS

MOST_FIELDS = 8
MOST_DIGITS = 15  # of a number: more fit neither into int64 nor any data
TOO_LARGE = "the request is too large"


def small_number(text: str) -> int | None:
    """The whole number that a text is; None if it is none, or has too many digits.

    >>> small_number("24"), small_number("-1"), small_number("9" * 5000)
    (24, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


class RowNumber(Convertor[int]):
    """The number of a row in an address; one with too many digits is at no address."""

    regex = f"[0-9]{{1,{MOST_DIGITS}}}"

    def convert(self, value: str) -> int:
        """The number."""
        return int(value)

    def to_string(self, value: int) -> str:
        """As it is written in an address."""
        return str(value)


def limited(request: Request, most: int) -> Request:
    """The same request, refused with status 413 if its body is longer than this; the body is read through it."""
    length = small_number(request.headers.get("content-length", "0"))
    if length is None or length > most:
        raise HTTPException(413, TOO_LARGE)
    read = 0

    async def receive() -> Message:
        nonlocal read
        message = await request.receive()
        read += len(message.get("body", b""))
        if read > most:
            raise HTTPException(413, TOO_LARGE)
        return message

    return Request(request.scope, receive)


async def texts_in(request: Request, needed: Sequence[str], more: Sequence[str]) -> dict[str, Any] | None:
    """The texts of these names in the JSON object of a request; None if it is none, lacks one, or one is no text.

    Args:
        request: with a body of JSON.
        needed: names that must be there.
        more: names that may be missing, or null.
    """
    try:
        given = await request.json()
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, lists in lists in lists
        return None
    if not isinstance(given, dict):
        return None
    found = {name: given.get(name) for name in needed}
    found |= {name: given[name] for name in more if given.get(name) is not None}
    return found if all(map(_is_text, found.values())) else None


def _is_text(value: object) -> bool:
    """Whether this is text that can be written: half of a surrogate pair cannot."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


class InMemoryParser(MultiPartParser):
    """Reads files into memory, where others would go to temporary files: the route limits the bytes of a request."""

    spool_max_size = MOST_BODY


async def photographs_in(request: Request) -> list[bytes]:
    """The files called ``images`` of a form; none if it is no form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
        return []
    try:
        async with aclosing(request.stream()) as stream:
            parser = InMemoryParser(request.headers, stream, max_files=MOST_PHOTOGRAPHS, max_fields=MOST_FIELDS)
            form = await parser.parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from error
    try:
        return [await part.read() for part in form.getlist("images") if isinstance(part, UploadFile)]
    finally:
        await form.close()
