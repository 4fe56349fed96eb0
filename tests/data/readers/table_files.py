"""Small tables beside small pictures, for the tests of their readers."""

import pyarrow as pa
import pyarrow.parquet as pq

from tests.data.drawings import write_picture

NAMES = ["a.png", "b.png", "c.png", "d.png"]


def with_pictures(folder):
    """The folder, with a picture of every name."""
    for name in NAMES:
        write_picture(folder / name)
    return folder


def csv(folder, text, name="table.csv", encoding="utf-8"):
    """The path of a table with this text, line ends as they are."""
    (folder / name).write_bytes(text.encode(encoding))
    return folder / name


def parquet(folder, **columns):
    """The path of a table with these columns."""
    pq.write_table(pa.table(columns), folder / "table.parquet")
    return folder / "table.parquet"


def told(dataset):
    """The problems, a line each."""
    return [str(problem) for problem in dataset.problems]
