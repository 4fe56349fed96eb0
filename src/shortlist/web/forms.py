"""Forms: the photographs in a request, read into memory. Nothing of them reaches the disk before somebody votes."""

from contextlib import aclosing

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from shortlist.web.uploads import MOST_BODY, MOST_PHOTOGRAPHS

MOST_FIELDS = 8


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
