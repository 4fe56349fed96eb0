"""What was found, as one HTML file that needs nothing else: the pictures, and why each was found."""

import base64
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from shortlist.files import write_text
from shortlist.retrieval.query import Reason
from shortlist.retrieval.results import Result, Results
from shortlist.retrieval.thumbnails import small_jpeg
from shortlist.versions import version_of

SIDE = 320  # of pictures that are shrunk for the page
MOST_REASONS = 12
KINDS = {True: "yes", False: "no", None: "any"}


def write_page(results: Results, path: str | Path, *, rows: int) -> None:
    """Write the page, whole or not at all.

    Args:
        results: of a search.
        path: of the file.
        rows: how many the index holds.
    """
    write_text(path, render(results, rows=rows))


def render(results: Results, *, rows: int) -> str:
    """The page as text."""
    import jinja2

    shown = [_shown(place, result) for place, result in enumerate(results, 1)]
    source = resources.files("shortlist.retrieval").joinpath("page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source).render(
        query=results.query.text,
        rows=rows,
        notes=[*([results.note] if results.note else []), *results.damaged],
        found=shown,
        illustrated=any(row["picture"] or row["link"] for row in shown),
        kinds={reason["kind"] for row in shown for reason in row["why"]},
        version=version_of("shortlist"),
    )


def percent(probability: float) -> str:
    """A probability for people, with digits where they tell.

    >>> [percent(p) for p in (1.0, 0.999999, 0.9987, 0.5, 0.0123, 2e-4, 1e-9, 0.0)]
    ['100%', '>99.99%', '99.87%', '50.0%', '1.2%', '0.02%', '1e-09', '0%']
    """
    if probability in (0, 1):
        return f"{probability:.0%}"
    if probability < 1e-5:
        return f"{probability:.0e}"
    if probability < 0.01:
        return f"{100 * probability:.2g}%"
    if probability > 0.9999:
        return ">99.99%"
    return f"{probability:.2%}" if probability > 0.995 else f"{probability:.1%}"


def _shown(place: int, result: Result) -> dict[str, Any]:
    picture, missing = _picture(result)
    why = [_reason(reason) for reason in most_telling(result.why, MOST_REASONS)]
    return {
        "place": place,
        "id": result.id,
        "probability": percent(result.probability),
        "picture": picture,
        "missing": missing,
        "link": None if result.path is None else Path(result.path).absolute().as_uri(),
        "why": why,
        "more": len(result.why) - len(why),
    }


def most_telling(reasons: Sequence[Reason], most: int) -> list[Reason]:
    """So many of the reasons, the most probable labels, in the order of the query."""
    best = sorted(range(len(reasons)), key=lambda place: -reasons[place].probability)[:most]
    return [reasons[place] for place in sorted(best)]


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "label": reason.label,
        "kind": KINDS[reason.wanted],
        "width": round(100 * reason.probability, 1),
        "shown": percent(reason.probability),
    }


def _picture(result: Result) -> tuple[str | None, str]:
    """The picture as a data URI, and what to say where there is none."""
    if result.thumbnail is not None:
        return _uri(result.thumbnail), ""
    if result.path is None:
        return None, "no picture in the index"
    from shortlist.data.decoding import PictureError, decode

    try:
        image = decode(result.path, at_least=SIDE).image
    except PictureError as error:
        return None, str(error)
    return _uri(small_jpeg(image, SIDE)), ""


def _uri(content: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(content).decode()
