"""Results of a search, the most probable first, and a page that shows them: one HTML file that needs no other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import write_text
from shortlist.report.cards import Bar, Bars, Card, percent
from shortlist.report.templates import template_of
from shortlist.retrieval.columns import PATH, THUMBNAIL
from shortlist.retrieval.query import Query, Reason
from shortlist.versions import version_of

SIDE = 320  # of images that are resized for the page
MOST_REASONS = 12
KINDS = {True: "yes", False: "no", None: "any"}


@dataclass(frozen=True)
class Result:
    """A row that was found.

    Args:
        row: its number in the index.
        id: its id.
        score: natural logarithm of the probability that the whole query is true of it.
        why: the labels of the query, with their probabilities.
        columns: further values that the index keeps of it, by name; None where missing.
    """

    row: int
    id: str
    score: float
    why: tuple[Reason, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @property
    def probability(self) -> float:
        """Probability that the whole query is true of it, labels taken as independent given the row, or as exclusive."""
        return math.exp(self.score)

    @property
    def path(self) -> str | None:
        """The column ``path``: the file of its image, if the index has it."""
        return self.columns.get(PATH)

    @property
    def thumbnail(self) -> bytes | None:
        """The column ``thumbnail``: a small JPEG, if the index has it."""
        return self.columns.get(THUMBNAIL)

    def to_json(self) -> dict[str, Any]:
        """Everything but bytes, as JSON types."""
        why = [{"label": each.label, "wanted": each.wanted, "probability": each.probability} for each in self.why]
        columns = {name: value for name, value in self.columns.items() if not isinstance(value, bytes)}
        found = {"row": self.row, "id": self.id, "score": self.score, "probability": self.probability}
        return {**found, "columns": columns, "why": why}


class Results(list[Result]):
    """The rows that were found, the most probable first; ties by lower row number.

    Args:
        results: the rows.
        query: the query.
        note: why nothing was found, if the query contradicts itself.
        groups: number of row groups of the index.
        read: number of row groups that were read.
        damaged: what could not be read and was skipped.
    """

    def __init__(
        self,
        results: list[Result],
        query: Query,
        *,
        note: str | None = None,
        groups: int = 0,
        read: int = 0,
        damaged: list[str] | None = None,
    ):
        super().__init__(results)
        self.query, self.note, self.groups, self.read, self.damaged = query, note, groups, read, damaged or []


def write_page(results: Results, path: str | Path, *, rows: int) -> None:
    """Write the page of results to a file, completely or not at all.

    Args:
        results: results of a search.
        path: of the file, which must end in ``.html``, so that no other file is overwritten by mistake.
        rows: number of rows of the index.
    """
    check_page(path)
    write_text(path, render(results, rows=rows))


def check_page(path: str | Path, name: str = "path") -> None:
    """Raise an error unless a file of this name can be a page.

    Args:
        path: of the file.
        name: the parameter or option, for messages.
    """
    if Path(path).suffix.lower() != ".html":
        raise InputError(f"{name}: expected a name that ends in .html, got {path}")


def render(results: Results, *, rows: int) -> str:
    """Render the page of results as HTML: images, probabilities, and the labels of the query.

    Args:
        results: results of a search.
        rows: number of rows of the index.
    """
    illustrated = any(result.thumbnail is not None or result.path is not None for result in results)
    shown = [_card(place, result, illustrated) for place, result in enumerate(results, 1)]
    source = resources.files("shortlist.retrieval").joinpath("page.html").read_text(encoding="utf-8")
    return template_of(source).render(
        query=results.query.text,
        rows=rows,
        exclusive=results.query.exclusive,
        notes=[*([results.note] if results.note else []), *results.damaged],
        found=shown,
        kinds={bar.kind for card in shown for group in card.groups for bar in group.bars},
        version=version_of("shortlist"),
    )


def _card(place: int, result: Result, illustrated: bool) -> Card:
    picture, missing = _picture(result)
    why = most_probable(result.why, MOST_REASONS)
    return Card(
        result.id,
        percent(result.probability),
        str(place),
        [Bars([_bar(reason) for reason in why], more=len(result.why) - len(why))],
        [(name, value) for name, value in result.columns.items() if _is_shown(name, value)],
        picture,
        missing,
        None if result.path is None else Path(result.path).absolute().as_uri(),
        illustrated,
    )


def _is_shown(name: str, value: object) -> bool:
    """Whether a column is shown as text: not what the image and its link show, nor bytes."""
    return name not in (PATH, THUMBNAIL) and value is not None and not isinstance(value, bytes)


def most_probable(reasons: Sequence[Reason], most: int) -> list[Reason]:
    """The reasons with the most probable labels, in the order of the query."""
    best = sorted(range(len(reasons)), key=lambda place: -reasons[place].probability)[:most]
    return [reasons[place] for place in sorted(best)]


def _bar(reason: Reason) -> Bar:
    return Bar(reason.label, percent(reason.probability), round(100 * reason.probability, 1), KINDS[reason.wanted])


def _picture(result: Result) -> tuple[str | None, str]:
    """The image as a data URI, or None and the reason why there is none."""
    from shortlist.data.thumbnails import jpeg_uri

    content, missing = jpeg_of(result.columns)
    return None if content is None else jpeg_uri(content), missing


def jpeg_of(columns: Mapping[str, Any]) -> tuple[bytes | None, str]:
    """The image of a row as a small JPEG, or None and the reason why there is none.

    Args:
        columns: what the index keeps of the row: its thumbnail, or the path of its image.
    """
    if columns.get(THUMBNAIL) is not None:
        return columns[THUMBNAIL], ""
    if columns.get(PATH) is None:
        return None, "no image in the index"
    from shortlist.data.decoding import PictureError, decode
    from shortlist.data.thumbnails import small_jpeg

    try:
        image = decode(columns[PATH], at_least=SIDE).image
    except PictureError as error:
        return None, str(error)
    return small_jpeg(image, SIDE), ""
