"""The page of ``shortlist predict --html``."""

from collections.abc import Sequence
from pathlib import Path

from shortlist.cli.console import say
from shortlist.data.dataset import Split
from shortlist.errors import InputError
from shortlist.models import Classifier
from shortlist.report import PagePictures
from shortlist.report.answers import write_answers
from shortlist.sets.lists import LabelList
from shortlist.words import counted

MOST_BYTES = 5_000_000  # of all pictures of a page of answers


def check_page(path: Path | None, to_scores: bool) -> None:
    """Raise an error if there is no page to write by this name, or if there are no sets to show on it."""
    if path is None:
        return
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--html: expected a name that ends in .html, got {path}")
    if to_scores:
        raise InputError("--html shows sets, but --out writes scores: leave --out out, or use --out sets.jsonl")


def write_page(path: Path, model: Classifier, rows: Split, shown: Sequence[LabelList], total: int) -> None:
    """Write the first sets as a page of cards."""
    assert model.rule is not None
    pictures = PagePictures(rows, most_bytes=MOST_BYTES) if model.inputs.is_pictures else None
    title = counted(total, "picture" if model.inputs.is_pictures else "row")
    write_answers(shown, path, rule=model.rule, title=title, pictures=pictures, total=total)
    say(f"{counted(len(shown), 'card')} → {path}")
