"""Tables inside hand-written pages, between two marks, written from the results."""

from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- table: written by `python -m benchmarks page` -->\n", "<!-- end of table -->\n"


def with_table(page: str, table: str, begin: str = BEGIN, end: str = END) -> str:
    """The page with this table between its marks; a page with several tables gives each marks of its own."""
    start, stop = page.index(begin) + len(begin), page.index(end)
    return page[:start] + "\n" + table + "\n" + page[stop:]


def write_table(name: str, table: str, begin: str = BEGIN, end: str = END) -> None:
    """Put the table into a page of the docs."""
    path = DOCS / name
    path.write_text(with_table(path.read_text(encoding="utf-8"), table, begin, end), encoding="utf-8")
