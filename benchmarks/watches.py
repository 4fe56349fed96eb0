"""False alarms of a watch, and how many rows it takes to notice changes of several sizes, on draws of Flora.

Twenty species, of which the classifier knows the exact law. A watch has 500 reference rows; its rule is fitted on as many
others, or on these themselves. All watches bet side by side, which is what :class:`~shortlist.shift.Watch` does one by one; the
capital of the first is compared with its.
"""

import functools
import math
import statistics
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.harness import record
from benchmarks.marked_tables import write_table
from benchmarks.results_files import foot, newest
from shortlist.data import Flora
from shortlist.metrics import coverage
from shortlist.sets import SetRule, lac
from shortlist.shift import Watch
from shortlist.shift.betting import Bets
from shortlist.shift.signals import SIGNALS, UNLABELLED, places, shuffles, signals

NAME, PAGE = "watches", "shift.md"
SPECIES, REFERENCE, NEW, CALM, ALPHA = 20, 500, 2_000, 500, 0.1
CALM_WATCHES, CHANGED_WATCHES, LEVELS = 1_000, 100, (0.1, 0.01)
CONFIDENCE = 0.95
ALARMS = ("<!-- alarms: written by `python -m benchmarks page` -->\n", "<!-- end of alarms -->\n")
DELAYS = ("<!-- delays: written by `python -m benchmarks page` -->\n", "<!-- end of delays -->\n")


class Drawn(NamedTuple):
    """Rows: probabilities, float64 (N, C), and labels, int64 (N,)."""

    probs: np.ndarray
    target: np.ndarray

    def part(self, start: int, stop: int) -> "Drawn":
        return Drawn(self.probs[start:stop], self.target[start:stop])

    def then(self, other: "Drawn") -> "Drawn":
        return Drawn(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


Change = Callable[[int, int], Drawn]  # the number of rows and a seed → rows after the change


@functools.cache
def garden(variation: float = 0.5) -> Flora:
    return Flora(species=SPECIES, genera=6, seed=0, variation=variation, abundance="balanced")


def rows(n: int, seed: int, variation: float = 0.5) -> Drawn:
    """Rows of a garden whose individuals vary as much as this; the classifier knows the one where it is 0.5."""
    target, shown = garden(variation).observations(n, seed=seed)
    probs = garden().posterior(shown).double().numpy()
    return Drawn(probs / probs.sum(1, keepdims=True), target.numpy())


def wrong_labels(share: float) -> Change:
    def changed(n: int, seed: int) -> Drawn:
        found, random = rows(n, seed), np.random.default_rng(seed)
        return found._replace(target=np.where(random.random(n) < share, random.integers(SPECIES, size=n), found.target))

    return changed


def other_shares(ratio: float) -> Change:
    """Half of the species become more frequent, the most by this ratio, and the others less."""

    def changed(n: int, seed: int) -> Drawn:
        found, random = rows(4 * n, seed), np.random.default_rng(seed)
        weights = np.geomspace(1 / math.sqrt(ratio), math.sqrt(ratio), SPECIES)[found.target]
        kept = random.choice(4 * n, n, replace=False, p=weights / weights.sum())
        return Drawn(found.probs[kept], found.target[kept])

    return changed


CHANGES: dict[str, Change] = {
    **{f"individuals vary by {v} instead of 0.5": functools.partial(rows, variation=v) for v in (0.6, 0.75, 1.0, 2.0)},
    **{f"the shares of the species differ up to {r}-fold": other_shares(r) for r in (2, 4, 16)},
    **{f"{share:.0%} of the labels are any species": wrong_labels(share) for share in (0.05, 0.1, 0.2, 0.4)},
}


def run() -> None:
    warnings.simplefilter("ignore")
    calm = {where: false_alarms(where == "the reference rows") for where in ("other rows", "the reference rows")}
    found = [{"change": name, **delays(change)} for name, change in CHANGES.items()]
    counts = {"watches": CALM_WATCHES, "changed": CHANGED_WATCHES, "reference": REFERENCE, "rows": NEW, "calm": CALM}
    record(NAME, "Flora, 20 species", {**counts, "before": _coverage(rows), "false_alarms": calm, "delays": found})


def false_alarms(same: bool) -> dict[str, list[float]]:
    """By level, the share of calm watches with an alarm, and its interval."""
    peaks = np.concatenate([found.max(1) for found in capitals(CALM_WATCHES, rows, same=same)], axis=0)
    shares = {}
    for level in LEVELS:
        false = int((peaks >= math.log(len(SIGNALS) / level)).any(1).sum())
        shares[str(level)] = [false / CALM_WATCHES, *interval(false, CALM_WATCHES)]
    return shares


def interval(k: int, n: int) -> list[float]:
    """Of a share, by Clopper and Pearson."""
    from scipy.stats import binomtest

    low, high = binomtest(k, n).proportion_ci(CONFIDENCE)
    return [float(low), float(high)]


def delays(change: Change) -> dict[str, Any]:
    """How many watches notice the change, with and without labels, and after how many rows; its coverage before and after."""
    limit, noticed = math.log(len(SIGNALS) / LEVELS[-1]), {"labels": [], "none": []}
    for found in capitals(CHANGED_WATCHES, change):
        for name, signal in (("none", slice(len(UNLABELLED))), ("labels", slice(len(SIGNALS)))):
            over = (found[:, :, signal] >= limit).any(2)
            first = np.where(over.any(1), over.argmax(1), NEW + CALM)
            noticed[name] += [int(row) - CALM + 1 for row in first if row >= CALM]  # not false alarms before
    told = {}
    for name, every in noticed.items():
        seen = sum(row <= NEW for row in every)
        told[name] = {"share": seen / len(every), "rows": statistics.median(every), "watches": len(every)}
    return {**told, "coverage": _coverage(change)}


def _coverage(change: Change) -> float:
    test, rule = change(20_000, 10**6), lac(ALPHA).fit(*rows(20_000, 10**6 + 1))
    return float(coverage(rule.predict(test.probs), test.target))


def capitals(watches: int, change: Change, *, same: bool = False) -> Iterator[np.ndarray]:
    """The logarithm of the capital of 100 watches at a time after each row, (W, N, signals).

    With a change, the new rows are some like the reference rows and then those after it; without one, all are like them.
    """
    for start in range(0, watches, 100):
        p_values = []
        for seed in range(start, start + 100):
            calm = rows(2 * REFERENCE + CALM, 3 * seed + 1)
            reference, rest = calm.part(0, REFERENCE), calm.part(2 * REFERENCE, 2 * REFERENCE + CALM)
            rule = lac(ALPHA).fit(*(reference if same else calm.part(REFERENCE, 2 * REFERENCE)))
            new = rows(NEW, 3 * seed + 2) if change is rows else rest.then(change(NEW, 3 * seed + 2))
            p_values.append(p_values_of(rule, reference, new))
            if seed == 0:
                expected = Watch(rule, *reference)
                expected.add(*new)
        found = bet_on(np.stack(p_values))
        if not start:  # the same, row by row
            peaks = np.exp(np.maximum(found[0].max(0), 0))
            np.testing.assert_allclose(peaks, list(expected.capital.values()), rtol=1e-6)
        yield found


def p_values_of(rule: SetRule, reference: Drawn, new: Drawn) -> np.ndarray:
    """Those of every signal, (N, signals)."""
    old, later = (numbers(rule, part) for part in (reference, new))
    uniforms = np.stack([shuffles(n, 0, len(later)) for n in range(len(SIGNALS))], axis=1)
    return np.stack([ranked(old[:, n], later[:, n], uniforms[:, n]) for n in range(len(SIGNALS))], axis=1)


def numbers(rule: SetRule, part: Drawn) -> np.ndarray:
    """The signals of rows, int64 (N, signals)."""
    probs, target = torch.from_numpy(part.probs), torch.from_numpy(part.target)
    values = rule.ordering.at_labels(probs, target).clamp(min=0).numpy()
    return np.column_stack([signals(probs, rule.predict(probs)).unlabelled, places(values)])


def ranked(old: np.ndarray, new: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """The p-value of each new number among the old ones and those before it."""
    ordered, numbers = np.sort(old), new.astype(np.int16)
    larger = len(old) - np.searchsorted(ordered, new, "right")
    equal = len(old) - larger - np.searchsorted(ordered, new, "left")
    before = np.tri(len(new), k=-1, dtype=bool)
    larger = larger + (before & (numbers[None, :] > numbers[:, None])).sum(1)
    equal = equal + (before & (numbers[None, :] == numbers[:, None])).sum(1) + 1
    return (larger + uniforms * equal) / (len(old) + np.arange(1, len(new) + 1))


def bet_on(p_values: np.ndarray) -> np.ndarray:
    """The logarithm of the capital after each row, (W, N, signals), of all watches side by side."""
    watches, n, kinds = p_values.shape
    bets, path = Bets(watches * kinds), np.empty((n, watches * kinds))
    for row in range(n):
        bets.bet(p_values[:, row].ravel())
        path[row] = bets.capital
    return path.reshape(n, watches, kinds).transpose(1, 0, 2)


def alarm_table() -> str:
    """The table of false alarms, and what it was measured on; empty without results."""
    lines = newest(NAME)
    if not lines:
        return ""
    line = lines[-1]
    table = ["| rule fitted on | " + " | ".join(f"level {level}" for level in LEVELS) + " |", "|---|" + "---:|" * len(LEVELS)]
    for where, shares in line["false_alarms"].items():
        cells = [f"{share:.1%} ({low:.1%} to {high:.1%})" for share, low, high in (shares[str(level)] for level in LEVELS)]
        table.append(f"| {where} | {' | '.join(cells)} |")
    what = (
        f"The share of {line['watches']:,} watches of {line['rows']:,} exchangeable labelled rows that ever gave an alarm, and "
        f"its 95 % interval (Clopper and Pearson); {line['setting']}, `lac:{ALPHA}`, {line['reference']} reference rows."
    )
    return "\n".join([*table, "", what, "", foot(line)])


def delay_table() -> str:
    """The table of delays; empty without results."""
    lines = newest(NAME)
    if not lines:
        return ""
    line = lines[-1]
    table = ["| change | coverage then | noticed without labels | with labels |", "|---|" + "---:|" * 3]
    for one in line["delays"]:
        cells = [_noticed(one[name], line["rows"]) for name in ("none", "labels")]
        table.append(f"| {one['change']} | {one['coverage']:.1%} | {' | '.join(cells)} |")
    what = (
        f"The share of {line['changed']} watches at level {LEVELS[-1]} that noticed the change within {line['rows']:,} rows, "
        f"and the median number of rows until then, after {line['calm']} rows like the {line['reference']} reference rows; "
        f"{line['setting']}, `lac:{ALPHA}`, which covers {line['before']:.1%} before."
    )
    return "\n".join([*table, "", what, "", foot(line)])


def _noticed(found: dict[str, float], most: int) -> str:
    return f"{found['share']:.0%}" + (f", after {found['rows']:,.0f}" if found["rows"] <= most else "")


def write() -> None:
    """Put the tables into their page."""
    write_table(PAGE, alarm_table(), *ALARMS)
    write_table(PAGE, delay_table(), *DELAYS)
