"""The page of references has every paper that the decision half names in its docstrings, under the same title and year."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("sets", "shift", "sklearn", "links", "losses", "metrics")
PAGES = ("rules", "shift", "streams", "votes", "links", "losses")
CITED = re.compile(r'"((?:[A-Z]|É)[^"`{}\\\\]{14,}?)",\s+(?:[A-Z][\w ]*\s)?(\d{4})\b')
FILES = [path for room in ROOMS for path in sorted((ROOT / "src/shortlist" / room).rglob("*.py"))]
FILES += [ROOT / "docs" / f"{page}.md" for page in PAGES]


def plain(text):
    return " ".join(text.split()).casefold()


def cited(path):
    """Titles with their years, as they stand in quotes before them."""
    text = " ".join(path.read_text(encoding="utf-8").split())
    return {(plain(title), year) for title, year in CITED.findall(text)}


ROWS = [plain(row) for row in (ROOT / "docs/references.md").read_text(encoding="utf-8").splitlines() if row.startswith("|")]
NAMING = [path for path in FILES if cited(path)]


@pytest.mark.parametrize("path", NAMING, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_file_names_is_among_the_references(path):
    for title, year in cited(path):
        rows = [row for row in ROWS if f"*{title}*" in row]
        assert rows, f"{title}, {year}"
        assert any(re.search(rf"\*{re.escape(title)}\*,[^;|]*\b{year}\b", row) for row in rows), f"{title}, {year}"


def test_papers_are_found_in_docstrings():
    assert len(NAMING) > 25
    assert ("conformal risk control", "2022") in cited(ROOT / "src/shortlist/sets/rules.py")


def test_every_row_of_the_table_is_in_one_table():
    lines = (ROOT / "docs/references.md").read_text(encoding="utf-8").splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith("|")]
    assert places == list(range(places[0], places[-1] + 1))
    assert all(line.count("|") == 3 for line in lines if line.startswith("|"))
