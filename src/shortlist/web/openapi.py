"""The description of the API, OpenAPI 3.1, served as ``/openapi.json``."""

from typing import Any

from shortlist.versions import version_of
from shortlist.web.safety import TOKEN_HEADER
from shortlist.web.uploads import MOST_BYTES, MOST_PHOTOGRAPHS
from shortlist.web.votes import CHOICES, LONGEST_NAME

TEXT, NUMBER, WHOLE, FLAG = ({"type": kind} for kind in ("string", "number", "integer", "boolean"))
NULL = {"type": "null"}


def description(project: str) -> dict[str, Any]:
    """What can be asked of the server, and what it answers."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Shortlist: {project}",
            "version": version_of("shortlist"),
            "description": "Photographs in, a set of classes out, with similar pictures; and votes on what it is.",
        },
        "paths": {
            "/v1/identify": {"post": _identify()},
            "/v1/votes": {"post": _vote()},
            "/v1/search": {"get": _search()},
            "/v1/review": {"get": _review()},
            "/v1/watch": {"get": _watch()},
            "/v1/classes": {"get": _plain("The names of all classes.", _object(classes=_list(TEXT)))},
            "/v1/token": {"get": _plain("The token that votes need.", _object(token=TEXT, needsKey=FLAG))},
            "/healthz": {"get": _plain("Whether the server works.", _object(status=TEXT, model=TEXT, references=WHOLE))},
        },
        "components": {
            "schemas": {"Identification": _identification(), "Problem": _problem()},
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER},
                "key": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(kind: Any) -> dict[str, Any]:
    return {"anyOf": [kind, NULL]}


def _identification() -> dict[str, Any]:
    name = _object(scientificNameWithoutAuthor=TEXT, scientificNameAuthorship=TEXT, scientificName=TEXT)
    species = {**name, "properties": {**name["properties"], "genus": _or_null(name)}}
    image = _object(kind={"enum": ["similar", "typical"]}, url=_object(s=TEXT, o=TEXT))
    result = _object(score=_or_null(NUMBER), inSet=FLAG, species=species, images=_list(image))
    return _object(
        id=TEXT,
        query=_object(project=TEXT, images=_list(TEXT), organs=_list(TEXT)),
        bestMatch=_or_null(TEXT),
        headline=TEXT,
        results=_list(result),
        rule=_object(text=TEXT, guarantee=TEXT, size=WHOLE),
        superclass=_or_null(_object(name=TEXT, score=NUMBER, classes=WHOLE, wide=FLAG)),
        nothingKnown=_or_null(TEXT),
        scoresAre={"enum": ["probabilities", "scores"]},
        model=_object(name=TEXT, digest=TEXT, network=TEXT),
    )


def _problem() -> dict[str, Any]:
    return _object(type=TEXT, title=TEXT, status=WHOLE, detail=TEXT)


def _answers(status: str, sentence: str, schema: Any) -> dict[str, Any]:
    error = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": sentence, "content": {"application/json": {"schema": schema}}},
        "default": {"description": "What was wrong, in a sentence.", "content": error},
    }


def _plain(sentence: str, schema: Any) -> dict[str, Any]:
    return {"summary": sentence, "responses": _answers("200", sentence, schema)}


def _identify() -> dict[str, Any]:
    images = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1, "maxItems": MOST_PHOTOGRAPHS}
    form = {"type": "object", "properties": {"images": images}, "required": ["images"]}
    return {
        "summary": "Photographs of one individual → the set of classes it can be.",
        "description": f"At most {MOST_PHOTOGRAPHS} photographs of at most {MOST_BYTES // 2**20} MB each; the mean of their "
        "log-probabilities is answered.",
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form}}},
        "responses": _answers("200", "The answer.", {"$ref": "#/components/schemas/Identification"}),
    }


def _vote() -> dict[str, Any]:
    voter = {**TEXT, "minLength": 1, "maxLength": LONGEST_NAME}
    given = _object(id=TEXT, voter=voter, choice={"enum": list(CHOICES)})
    given["properties"]["label"] = _or_null(TEXT)
    return {
        "summary": "What a person decided about an answer.",
        "security": [{"token": []}, {"token": [], "key": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": given}}},
        "responses": _answers("201", "The vote is kept.", _object(id=TEXT, votes=WHOLE)),
    }


def _search() -> dict[str, Any]:
    row = _object(row=WHOLE, id=TEXT, score=_or_null(NUMBER), probability=NUMBER)
    found = _object(query=TEXT, rows=WHOLE, note=_or_null(TEXT), results=_list(row))
    asked = [
        {"name": "q", "in": "query", "required": True, "schema": TEXT},
        {"name": "n", "in": "query", "schema": {**WHOLE, "minimum": 1, "maximum": 100, "default": 24}},
    ]
    return {
        "summary": "Rows of the index for which a query is most probably true.",
        "parameters": asked,
        "responses": _answers("200", "The rows, most probable first.", found),
    }


def _watch() -> dict[str, Any]:
    alarm = _object(signal=TEXT, since=TEXT, change=TEXT, advice=TEXT)
    coverage = _object(share=NUMBER, low=NUMBER, high=NUMBER)
    told = {"photographs": WHOLE, "labels": WHOLE, "alarms": _list(alarm), "changes": WHOLE, "sentences": _list(TEXT)}
    found = _object(watching=FLAG)
    found["properties"] |= {**told, "coverage": _or_null(coverage), "promised": _or_null(NUMBER)}
    return {
        "summary": "Whether the photographs are like the calibration rows; if not, since when, and what to do.",
        "security": [{}, {"key": []}],
        "responses": _answers("200", "What the watch says; if there is none, only that, and why where one was wanted.", found),
    }


def _review() -> dict[str, Any]:
    item = _object(id=TEXT, reason=TEXT, sentence=TEXT)
    return {
        "summary": "What needs eyes, most informative first.",
        "security": [{}, {"key": []}],
        "parameters": [{"name": "voter", "in": "query", "schema": TEXT}],
        "responses": _answers("200", "The queue, without what this person has voted on.", _object(items=_list(item))),
    }
