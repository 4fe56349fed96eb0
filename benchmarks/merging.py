"""Fits and evaluations by messages: rounds, bytes and time of a fit on shards, against the fit on all rows at once.

``python -m benchmarks merging`` takes three minutes of one core. Times are those of the processor; shards are read in turn.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.data import multi_label, single_label
from benchmarks.harness import record
from shortlist.cluster.rows import block_rows, ranges
from shortlist.evaluation import measure
from shortlist.evaluation.looking import Found, Looking
from shortlist.predictions import Predictions
from shortlist.sets import FitState, SetRule, merged, parse_rule

NAME, NAMED, EVALUATED = "merging", "merging-named", "merging-evaluations"
SHARDS = 8
RUNS = 5
SINGLE = (
    "average-k:5",
    "lac:0.1",
    "aps:0.1:deterministic",
    "aps:0.1:random",
    "raps:0.1:0.01:5:deterministic",
    "lac:0.1,classwise",
    "lac:0.1,interpolated:0.5",
)
SIZES = ((250_000, 80), (18_500, 1_081), (800, 43_000))
MANY = ("risk-control:recall:0.1", "per-label:f1", "per-label:precision:0.8", "per-label:recall:0.8")


def run() -> None:
    """Every rule on 20 million scores in 8 shards, and average-k in other precisions."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        probs, target = single_label(18_500, 1_081)
        for text in SINGLE:
            compare(text, probs, target)
        for dtype in (torch.float16, torch.float64):
            compare("average-k:5", probs.to(dtype), target)
        probs, target = multi_label(250_000, 80)
        for text in MANY:
            compare(text, probs, target)
        compare("per-label:f1", *multi_label(40_000, 500))
        for rows, classes in SIZES:
            fit_named("average-k:5", named(*single_label(rows, classes)))
            evaluate("average-k:5", named(*single_label(rows, classes)))
        evaluate("average-k:5", named(*multi_label(250_000, 80)))
    finally:
        torch.set_num_threads(before)


def compare(text: str, probs: Tensor, target: Tensor) -> None:
    """Fit on all rows and on shards in turns; the thresholds must be equal to the last bit."""
    shards = list(zip(probs.tensor_split(SHARDS), target.tensor_split(SHARDS), strict=True))
    whole, parts = parse_rule(text), parse_rule(text)
    counted: dict[str, Any] = {}
    times: dict[str, list[float]] = {"whole": [], "shards": []}
    for _ in range(RUNS):
        times["whole"].append(_seconds(lambda: whole.fit(probs, target)))
        times["shards"].append(_seconds(lambda: counted.update(by_messages(parts, shards))))
    assert whole.threshold is not None
    assert parts.threshold is not None
    assert torch.equal(whole.threshold, parts.threshold)
    ratio = statistics.median(ours / theirs for ours, theirs in zip(times["shards"], times["whole"], strict=True))
    kind = str(probs.dtype).removeprefix("torch.")
    numbers = {f"{name}_ms": 1e3 * statistics.median(seconds) for name, seconds in times.items()}
    record(
        NAME,
        f"{text}, {len(probs):,} × {probs.shape[1]:,} {kind} in {SHARDS} shards",
        {"runs": RUNS, **numbers, "ratio": ratio, **counted},
    )
    print(
        f"{text:28} {kind:8} whole {numbers['whole_ms']:8.1f} ms, shards × {ratio:.2f}, rounds {counted['fit_rounds']}, "
        f"largest answer {counted['largest_answer']:,} bytes, question {counted['largest_question']:,} bytes"
    )


def named(probs: Tensor, target: Tensor) -> Predictions:
    """The same rows with names of classes as long as those of plants."""
    names = [f"Genus{number // 12} species{number} Author" for number in range(probs.shape[1])]
    return Predictions(probs, target, names, "identity")


def fit_named(text: str, rows: Predictions) -> None:
    """Fit on shards of predictions with named classes; the rule must be that of all rows, names included."""
    shards = [(rows.rows(slice(first, last)), None) for first, last in ranges(len(rows), SHARDS // 4)]
    whole, parts = parse_rule(text).fit(rows), parse_rule(text)
    found = by_messages(parts, shards, rows)
    assert parts.record() == whole.record()
    record(NAMED, f"{text}, {_size(rows)}", found)
    print(f"{text:28} {_size(rows):24} named: largest answer {found['largest_answer']:,}")


def evaluate(text: str, rows: Predictions) -> None:
    """Measure ranges of rows apart, with every answer as bytes; the numbers must be those of all rows at once."""
    rule = parse_rule(text).fit(rows)
    sizes: dict[str, list[int]] = {"answers": [], "bounded": []}
    kind = "one label" if rows.target is not None and rows.target.ndim == 1 else "several labels"
    for name, answers in sizes.items():

        def across(looking: Looking, answers: list[int] = answers) -> Found:
            found = looking.nothing()
            for first, last in ranges(len(rows), SHARDS // 4, block_rows(rows.num_classes)):
                content = looking.at(rows.rows(slice(first, last)).blocks(), first).to_bytes()
                answers.append(len(content))
                found.merge(Found.from_bytes(content))
            return found

        options = {"bounded": name == "bounded", "calibration_bins": 15}
        parts, whole = measure(rows, rule, across=across, **options), measure(rows, rule, **options)
        assert all(torch.equal(parts.totals[total].nan_to_num(), whole.totals[total].nan_to_num()) for total in whole.totals)
    by_row = (sum(sizes["answers"]) - sum(sizes["bounded"])) / len(rows)
    numbers = {"ranges": len(sizes["answers"]), "bytes_a_row": by_row, "kind": kind}
    numbers |= {"largest_answer": max(sizes["answers"]), "largest_bounded": max(sizes["bounded"])}
    record(EVALUATED, f"{text}, {_size(rows)}, {kind}", numbers)
    print(f"{text:28} {_size(rows):24} {kind:16} evaluation {numbers}")


def _size(rows: Predictions) -> str:
    return f"{len(rows):,} × {rows.num_classes:,}"


def by_messages(rule: SetRule, shards: Sequence[tuple[Any, Any]], rows: Predictions | None = None) -> dict[str, int]:
    """Fit with every question and every answer as bytes; how many and how large they were."""
    first = shards[0][0]
    state = rule.first_round((first.plausibility() if isinstance(first, Predictions) else first)[::10])
    found = {"fit_rounds": 0, "messages": 0, "largest_question": 0, "largest_answer": 0}
    while not state.done:
        question = state.to_bytes()
        answers, start = [], 0
        for probs, target in shards:
            answers.append(rule.summary(FitState.from_bytes(question), probs, target, first_row=start).to_bytes())
            start += len(probs)
        found["fit_rounds"] += state.stage != "sizes"
        found["messages"] += len(answers)
        found["largest_question"] = max(found["largest_question"], len(question))
        found["largest_answer"] = max(found["largest_answer"], *map(len, answers))
        state = rule.next_round(merged(map(FitState.from_bytes, answers)))
    rule.fit_from(state, rows)
    return found


def _seconds(action: Callable[[], Any]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start
