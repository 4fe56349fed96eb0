"""The SQL of a query over the files of an index, for whoever has a warehouse."""

from typing import TYPE_CHECKING

from shortlist.retrieval.query import Query
from shortlist.retrieval.sql import parquet_source, to_sql

if TYPE_CHECKING:
    from shortlist.retrieval.index import Index

HEAD = """-- score: natural logarithm of the probability of the whole query, labels taken as independent given the row.
-- yes_J and no_J: log η and log(1 - η) of label J in float32, so that near neighbours may change places.
-- Run on DuckDB. Not tried on other engines, where read_parquet(...) is to be replaced by a table over the same files.
"""


def explained_sql(index: "Index", query: str | Query, n: int) -> str:
    """The query as SQL with what a reader has to know; deleted rows are named in it.

    Args:
        index: whose files it reads.
        query: what is asked.
        n: how many rows.
    """
    asked = query if isinstance(query, Query) else Query.parse(query, index.classes)
    if asked.contradiction is not None:
        return "-- nothing can satisfy the query\n"  # and no word of it: labels never become part of the text
    snapshot = index.snapshot
    source = parquet_source([segment.paths[0] for segment in snapshot.segments])
    if len(snapshot.deleted):
        gone = parquet_source([index.path / str(snapshot.manifest.deleted)])
        source = f"(SELECT * FROM {source} WHERE row NOT IN (SELECT row FROM {gone})) AS kept"
    return HEAD + to_sql(asked, n, source) + ";\n"
