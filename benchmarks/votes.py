"""Labels from votes: the time of ten million, and how often three rules are right where the truth is known."""

import itertools
import statistics
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import compare, record
from shortlist.data.votes import (
    Aggregation,
    SimulatedVotes,
    Votes,
    adaptive_majority,
    dawid_skene,
    plain_majority,
    simulate_votes,
)

LABELS, GENERA = 1081, 303  # as many as Pl@ntNet-300K has
B0, THETA = 0.742, 2  # the values of the public implementation of Pl@ntNet's later rule (Lefort et al. 2024), to three decimals
SEEDS = range(5)
RULES: dict[str, Callable[[Votes], Aggregation]] = {
    "plain majority": plain_majority,
    "adaptive majority": lambda votes: adaptive_majority(votes, b0=B0, theta=THETA),
    "Dawid–Skene, one coin": dawid_skene,
}


def run() -> None:
    warnings.simplefilter("ignore")
    _accuracy()
    _against_pandas(table(100_000, 10_000))
    _ten_million(table(1_000_000, 100_000))


def table(items: int, users: int) -> pd.DataFrame:
    """Ten votes an item in random order, integer ids."""
    simulated = simulate(items, users, seed=0, votes_per_item=10, engagement=0.5)
    votes = simulated.votes
    order = np.random.default_rng(1).permutation(len(votes))
    columns = {"user": votes.user[order], "item": votes.item[order], "label": votes.label[order]}
    frame = pd.DataFrame({name: column.astype(np.int64) for name, column in columns.items()})
    return frame.assign(author=votes.authors[frame["item"]] == frame["user"])


def simulate(
    items: int, users: int, *, seed: int, votes_per_item: float, engagement: float, long_tail: bool = True
) -> SimulatedVotes:
    """Labels with a long tail or without, errors mostly within the genus and even there.

    Classes are numbered at random: were the frequent ones first, ties, which go to the lower label, would be won by the prior.
    """
    random = np.random.default_rng(seed)
    rank = random.integers(LABELS, size=items)
    if long_tail:
        rank = np.minimum(random.zipf(1.2, items) - 1, rank)
    target = random.permutation(LABELS)[rank]
    genus = np.arange(LABELS) % GENERA
    return simulate_votes(
        target,
        classes=LABELS,
        users=users,
        seed=seed,
        superclasses=genus,
        votes_per_item=votes_per_item,
        engagement=engagement,
    )


def _accuracy() -> None:
    """Few and many votes; users who vote more are better or not; classes with a long tail (which a prior knows) or not."""
    for votes_per_item, engagement, long_tail in itertools.product((2, 10), (0.0, 0.8), (False, True)):
        law = {"votes_per_item": votes_per_item, "engagement": engagement, "long_tail": long_tail}
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in RULES}
        for seed in SEEDS:
            simulated = simulate(20_000, 2_000, seed=seed, **law)
            for name, rule in RULES.items():
                found[name].append(_rightness(simulated, rule(simulated.votes)))
        setting = f"{votes_per_item} votes an item, engagement {engagement:g}, {'long tail' if long_tail else 'even classes'}"
        rules = {name: _summary(numbers) for name, numbers in found.items()}
        record("vote-accuracy", setting, {"items": 20_000, "users": 2_000, "seeds": len(SEEDS), "rules": rules})
        for name, n in rules.items():
            print(f"{setting:50} {name:24} {n['accuracy']:.4f} ± {n['spread']:.4f}   valid {n['valid']:.3f}")


def _rightness(simulated: SimulatedVotes, labels: Aggregation) -> tuple[float, float, float]:
    """Accuracy on all items, the share of valid ones, the accuracy on those."""
    right = labels.label == simulated.target
    return right.mean(), labels.valid.mean(), right[labels.valid].mean()


def _summary(numbers: list[tuple[float, float, float]]) -> dict[str, float]:
    accuracy, valid, among_valid = ([float(value) for value in column] for column in zip(*numbers, strict=True))
    return {
        "accuracy": statistics.mean(accuracy),
        "spread": statistics.stdev(accuracy),
        "valid": statistics.mean(valid),
        "accuracy_of_valid": statistics.mean(among_valid),
        "spread_of_valid": statistics.stdev(among_valid),
    }


def _ours(frame: pd.DataFrame, rule: Callable[[Votes], Aggregation]) -> Aggregation:
    return rule(Votes.from_arrays(**{name: frame[name].to_numpy() for name in frame}))


def _against_pandas(frame: pd.DataFrame) -> None:
    ours, theirs = _ours(frame, RULES["adaptive majority"]), pandas_adaptive(frame)
    apart = int((ours.label != theirs.to_numpy()).sum())
    if apart > 1e-4 * len(ours):  # sums in floating point break a few ties otherwise
        raise AssertionError(f"the two implementations of the adaptive majority differ on {apart} items")
    compare(
        "vote-adaptive",
        f"{len(frame):,} votes",
        {
            "shortlist": lambda: _ours(frame, RULES["adaptive majority"]),
            "pandas, written straight": lambda: pandas_adaptive(frame),
        },
        rounds=3,
    )


def _ten_million(frame: pd.DataFrame) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.parquet"
        _write_named(frame, path)
        compare(
            "vote-majority",
            f"{len(frame):,} votes",
            {
                "adaptive majority": lambda: _ours(frame, RULES["adaptive majority"]),
                "adaptive, Parquet, text": lambda: RULES["adaptive majority"](Votes.read(path)),
                "plain majority": lambda: _ours(frame, plain_majority),
                "plain majority, pandas": lambda: pandas_majority(frame),
            },
            rounds=3,
        )


def _write_named(frame: pd.DataFrame, path: Path) -> None:
    """The same votes with text for every user, item and label."""

    def named(column: str, prefix: str) -> Any:
        names = pa.array([f"{prefix}{code:07d}" for code in range(int(frame[column].max()) + 1)])
        return names.take(pa.array(frame[column].to_numpy()))

    columns = {"user": named("user", "user-"), "item": named("item", "observation-"), "label": named("label", "Genus species ")}
    pq.write_table(pa.table({**columns, "author": frame["author"].to_numpy()}), path)


def pandas_majority(frame: pd.DataFrame) -> pd.Series:
    """The plain majority as one writes it with groupby."""
    counts = frame.groupby(["item", "label"]).size().rename("votes").reset_index()
    best = counts.sort_values(["item", "votes", "label"], ascending=[True, False, True]).drop_duplicates("item")
    return best.set_index("item")["label"]


def pandas_adaptive(frame: pd.DataFrame, most_rounds: int = 100) -> pd.Series:
    """The adaptive majority as one writes it with groupby, round after round."""
    frame = frame.drop_duplicates(["user", "item"], keep="last")
    proposed = frame.groupby("user")["label"].nunique()
    authors = frame.loc[frame["author"]].set_index("item")["user"]
    states: list[pd.DataFrame] = []
    n = proposed
    while len(states) < most_rounds:
        weight = n**0.5 - n**0.2 + B0
        sums = frame.assign(weight=frame["user"].map(weight)).groupby(["item", "label"])["weight"].sum().reset_index()
        best = sums.sort_values(["item", "weight", "label"], ascending=[True, False, True]).drop_duplicates("item")
        state = best.set_index("item").assign(valid=lambda best: best["weight"] > THETA)
        if any(state["label"].equals(old["label"]) and state["valid"].equals(old["valid"]) for old in states):
            break
        states.append(state)
        valid = state.loc[state["valid"], "label"].rename("label").to_frame().join(authors.rename("user"), how="inner")
        n = proposed.add(valid.groupby("user")["label"].nunique(), fill_value=0)
    return state["label"]
