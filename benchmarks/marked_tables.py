"""Tables inside hand-written pages, between two marks, written from the results."""

from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- table: written by `python -m benchmarks page` -->\n", "<!-- end of table -->\n"


def with_table(page: str, table: str) -> str:
    """The page with this table between its marks."""
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:start] + "\n" + table + "\n" + page[end:]


def write_table(name: str, table: str) -> None:
    """Put the table into a page of the docs."""
    path = DOCS / name
    path.write_text(with_table(path.read_text(encoding="utf-8"), table), encoding="utf-8")
