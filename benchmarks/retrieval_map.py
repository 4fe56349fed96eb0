"""Mean average precision over all combined queries against scikit-learn's average precision, query after query."""

import statistics
import time

import numpy as np
import torch
from sklearn.metrics import average_precision_score

from benchmarks.harness import record
from shortlist.metrics import evaluate_retrieval
from shortlist.query_rankings.asking import count_queries

ROWS, LABELS, LONGEST = 5_823, 20, 5  # as the validation pictures of Pascal VOC 2012
ASKED = 400  # queries of scikit-learn's loop, whose time is scaled to all of them
ROUNDS = 3
TABLES = {"2.5 labels a row": (0.9, 1.0, -4.0, 0.7), "10 labels a row": (0.0, 2.0, 0.0, 0.0)}


def draw(topics: float, noise: float, shift: float, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds (N, C), correlated through eight topics, and labels drawn from them."""
    random = np.random.default_rng(0)
    shared = random.normal(size=(ROWS, 8)) @ random.normal(size=(8, LABELS))
    odds = topics * shared + noise * random.normal(size=(ROWS, LABELS)) + shift + spread * random.normal(size=LABELS)
    return odds, random.uniform(size=odds.shape) < 1 / (1 + np.exp(-odds))


def some_queries(target: np.ndarray, number: int) -> list[tuple[list[int], list[int]]]:
    """Satisfiable queries, drawn alike from all: lengths and present labels in proportion to how many there are."""
    random, found = np.random.default_rng(1), []
    lengths = np.arange(1, LONGEST + 1)
    weights = np.array([count_queries(LABELS, length) for length in lengths.tolist()], dtype=float)
    while len(found) < number:
        length = int(random.choice(lengths, p=weights / weights.sum()))
        labels = random.permutation(LABELS)[:length].tolist()
        signs = int(random.integers(1, 2**length))
        present = [label for place, label in enumerate(labels) if signs >> place & 1]
        absent = [label for label in labels if label not in present]
        if (target[:, present].all(1) & ~target[:, absent].any(1)).any():
            found.append((present, absent))
    return found


def run() -> None:
    for name, parameters in TABLES.items():
        odds, target = draw(*parameters)
        yes, no = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
        queries = some_queries(target, ASKED)

        def loop(yes: np.ndarray = yes, no: np.ndarray = no, target: np.ndarray = target, queries: list = queries) -> float:
            found = [
                average_precision_score(
                    target[:, present].all(1) & ~target[:, absent].any(1), yes[:, present].sum(1) + no[:, absent].sum(1)
                )
                for present, absent in queries
            ]
            return float(np.mean(found))

        evaluate_retrieval(yes, no, target, max_length=3)  # warm
        loop()
        times: dict[str, list[float]] = {"shortlist": [], "scikit-learn in a loop": []}
        work: list[float] = []
        for _ in range(ROUNDS):
            start, busy = time.perf_counter(), time.process_time()
            scores = evaluate_retrieval(yes, no, target)
            times["shortlist"].append(time.perf_counter() - start)
            work.append(time.process_time() - busy)
            start = time.perf_counter()
            loop()
            times["scikit-learn in a loop"].append((time.perf_counter() - start) * scores.overall.asked / ASKED)
        setting = (
            f"{ROWS:,} × {LABELS}, {name}, {scores.overall.asked:,} queries of up to {LONGEST} labels "
            f"(scikit-learn: {ASKED} of them, scaled)"
        )
        keep(setting, times, work)


def keep(setting: str, times: dict[str, list[float]], work: list[float]) -> None:
    """Record the contenders as :func:`benchmarks.harness.compare` does."""
    ours = times["shortlist"]
    contenders = {
        name: {
            "median_ms": 1e3 * statistics.median(seconds),
            "low_ms": 1e3 * min(seconds),
            "high_ms": 1e3 * max(seconds),
            "ratio": statistics.median(theirs / own for theirs, own in zip(seconds, ours, strict=True)),
        }
        for name, seconds in times.items()
    }
    more = {"rounds": ROUNDS, "threads": torch.get_num_threads(), "processor_s": statistics.median(work)}
    record("retrieval-map", setting, {**more, "contenders": contenders})
    for name, numbers in contenders.items():
        print(f"{setting} {name:24} {numbers['median_ms'] / 1e3:9.1f} s   × {numbers['ratio']:.2f}")
    print(f"{'':24} of both cores: {statistics.median(work):.1f} s of work")
