"""Queries of every kind on one index, beside a conjunction of as many labels and beside DuckDB with all columns in memory.

``python -m benchmarks query_kinds`` takes some minutes and some gigabytes of memory. DuckDB holds the same logarithms in a
table in memory and is sent the SQL of ``to_sql``; for the conjunction also a plain sum, as one would type it. A *first* search
is one for labels that no query has named before, in a process that has searched for others.
"""

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.searching import BEST, LABELS, predictions_of, race, scores_of
from shortlist.retrieval import Index, Query, to_sql

NAME = "query-kinds"
LENGTH = 5
KINDS: dict[str, Callable[[list[str]], str]] = {
    "and": lambda labels: " and ".join(labels),
    "or": lambda labels: " or ".join(labels),
    "and of or": lambda labels: f"{labels[0]} and ({labels[1]} or {labels[2]}) and ({labels[3]} or {labels[4]})",
    "at least 2 of 5": lambda labels: f"at least 2 of ({', '.join(labels)})",
    "count ≥ 20, of all 80": lambda labels: "count >= 20",
}

AGAINST = ("and", "or", "and of or", "at least 2 of 5")  # the SQL of a count over all labels needs 20 GB and more


def labels_of(turn: int) -> list[str]:
    """Five labels, others in every round."""
    return [f'"label {place}"' for place in random.Random(turn).sample(range(LABELS), LENGTH)]


class InMemory:
    """DuckDB with the logarithms of all labels in memory, 32 bits each."""

    def __init__(self, scores: torch.Tensor):
        import duckdb
        import pyarrow as pa

        arrays = {"row": np.arange(len(scores)), "id": np.arange(len(scores)).astype(str)}
        for place in range(scores.shape[1]):
            odds = scores[:, place].double()
            arrays[f"yes_{place}"] = torch.nn.functional.logsigmoid(odds).float().numpy()
            arrays[f"no_{place}"] = torch.nn.functional.logsigmoid(-odds).float().numpy()
        self.connection = duckdb.connect(config={"memory_limit": "4GB", "temp_directory": ""})
        self.connection.register("given", pa.table(arrays))
        self.connection.execute("CREATE TABLE scores AS SELECT * FROM given")
        self.connection.unregister("given")

    def ask(self, query: Query) -> list[int]:
        return [row for row, *_ in self.connection.execute(to_sql(query, BEST, "scores")).fetchall()]

    def plain(self, query: Query) -> list[int]:
        """A conjunction as one would type it."""
        total = " + ".join(f"yes_{label}" for label in query.labels)
        return [
            row for (row,) in self.connection.execute(f'SELECT "row" FROM scores ORDER BY {total} DESC LIMIT {BEST}').fetchall()
        ]


def run(rows: int = 500_000, many: int = 2_000_000, rounds: int = 9) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, setting = Path(name) / "index", f"{rows:,} rows × {LABELS} labels"
        scores = scores_of(rows)
        index = Index.build(predictions_of(scores), folder)
        duck = InMemory(scores)
        first(duck, folder, setting, rounds)
        by_kind(index, setting, rounds, tuple(KINDS))
        beside_duckdb(index, duck, folder, setting, rounds)
        shutil.rmtree(folder)
        ties(folder, scores.sigmoid().mul(50).round().div(50).clamp(0.001, 0.999).logit(), setting, rounds)
        shutil.rmtree(folder)
        scores, setting = scores_of(many), f"{many:,} rows × {LABELS} labels"
        index = Index.build(predictions_of(scores), folder)
        by_kind(index, setting, rounds, AGAINST)
        first(InMemory(scores), folder, setting, rounds)


def first(duck: InMemory, folder: Path, setting: str, rounds: int) -> None:
    """A conjunction of labels that nobody has been asked for before the round, in which all are asked the same."""
    order = random.Random(0).sample(range(LABELS), LABELS)
    rounds = min(rounds, LABELS // LENGTH - 1)
    opened = [Index.open(folder) for _ in range(rounds + 1)]

    def query(turn: int) -> Query:
        labels = order[LENGTH * turn : LENGTH * (turn + 1)]
        return Query.parse(" and ".join(f'"label {place}"' for place in labels), opened[0].classes)

    contenders: dict[str, Callable[[int], Any]] = {
        "shortlist, opening the index": lambda turn: Index.open(folder).search(query(turn), BEST),
        "shortlist, the index open": lambda turn: opened[turn].search(query(turn), BEST),
        "DuckDB in memory, our SQL": lambda turn: duck.ask(query(turn)),
        "DuckDB in memory, plain SQL": lambda turn: duck.plain(query(turn)),
        "DuckDB on the same files": lambda turn: Index.open(folder).search(query(turn), BEST, engine="duckdb"),
    }
    race(f"{setting}, first search", contenders, rounds, {}, NAME, asked_before=False)


def asked(index: Index, kind: str) -> Callable[[int], Query]:
    return lambda turn: Query.parse(KINDS[kind](labels_of(turn)), index.classes)


def by_kind(index: Index, setting: str, rounds: int, kinds: tuple[str, ...]) -> None:
    """Each of these kinds beside a conjunction of five labels."""
    queries = {kind: asked(index, kind) for kind in kinds}
    own: dict[str, Callable[[int], Any]] = {
        kind: lambda turn, query=query: index.search(query(turn), BEST)  # type: ignore[misc]
        for kind, query in queries.items()
    }
    race(f"{setting}, by kind", own, rounds, {}, NAME)


def beside_duckdb(index: Index, duck: InMemory, folder: Path, setting: str, rounds: int) -> None:
    for kind in AGAINST:
        query = asked(index, kind)
        assert [result.row for result in index.search(query(0), BEST)] == duck.ask(query(0))  # or it is no race
        contenders: dict[str, Callable[[int], Any]] = {
            "shortlist": lambda turn, query=query: index.search(query(turn), BEST),  # type: ignore[misc]
            "DuckDB in memory, our SQL": lambda turn, query=query: duck.ask(query(turn)),  # type: ignore[misc]
        }
        if kind == "and":
            contenders |= {
                "DuckDB in memory, plain SQL": lambda turn, query=query: duck.plain(query(turn)),  # type: ignore[misc]
                "shortlist, the index opened anew": lambda turn, query=query: Index.open(folder).search(query(turn), BEST),  # type: ignore[misc]
            }
        race(f"{setting}, {kind}", contenders, rounds, {}, NAME)


def ties(folder: Path, scores: torch.Tensor, setting: str, rounds: int) -> None:
    """Probabilities in steps of 0.02, as of an isotonic link or of percentages: many rows tie."""
    index = Index.build(predictions_of(scores), folder)
    duck = InMemory(scores)
    query = asked(index, "and")
    contenders = {
        "shortlist": lambda turn: index.search(query(turn), BEST),
        "DuckDB in memory, our SQL": lambda turn: duck.ask(query(turn)),
    }
    race(f"{setting} in steps of 0.02, and", contenders, rounds, {}, NAME)
