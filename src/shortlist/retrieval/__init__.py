"""Retrieval: ask for "fork and apple and not knife", and rows come ranked by the probability that all of it is true."""

from typing import TYPE_CHECKING

from shortlist.lazy import loaded_on_use

if TYPE_CHECKING:
    from shortlist.retrieval.building import PicturesOf
    from shortlist.retrieval.engines import Candidates, Engine, find_engine
    from shortlist.retrieval.index import Index
    from shortlist.retrieval.language import QueryError
    from shortlist.retrieval.page import render, write_page
    from shortlist.retrieval.query import Query, Reason
    from shortlist.retrieval.results import Result, Results
    from shortlist.retrieval.searched_file import DamagedError
    from shortlist.retrieval.sql import to_sql
    from shortlist.retrieval.sql_text import explained_sql

# The file that holds each name, loaded when it is first used: to search needs no torch, to build does.
HOMES = {
    "Candidates": "engines",
    "DamagedError": "searched_file",
    "Engine": "engines",
    "Index": "index",
    "PicturesOf": "building",
    "Query": "query",
    "QueryError": "language",
    "Reason": "query",
    "Result": "results",
    "Results": "results",
    "explained_sql": "sql_text",
    "find_engine": "engines",
    "render": "page",
    "to_sql": "sql",
    "write_page": "page",
}

__all__ = [
    "Candidates",
    "DamagedError",
    "Engine",
    "Index",
    "PicturesOf",
    "Query",
    "QueryError",
    "Reason",
    "Result",
    "Results",
    "explained_sql",
    "find_engine",
    "render",
    "to_sql",
    "write_page",
]

__getattr__ = loaded_on_use(__name__, HOMES)
