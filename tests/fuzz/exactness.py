"""What must be exact although floats are not: votes counted in fractions, conditions at ties, equal inputs."""

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.links import Identity, Isotonic, VennAbers
from shortlist.retrieval import Index
from shortlist.sets import lac
from tests.fuzz.values import one_label

CROWDS = (2, 3, 5, 6, 7, 9, 11, 13)


def votes_equal_fractions(draw: random.Random, folder: Path) -> None:
    """The threshold of ``lac`` with votes is the exact weighted quantile; each row is worth as much as one with a label."""
    rows, classes, parts = draw.choice([9, 19, 29, 7, 40]), draw.randint(2, 5), draw.choice([10, 5, 20])
    generator = np.random.default_rng(draw.randrange(2**32))
    probs = generator.dirichlet(np.ones(classes), rows)
    crowds = draw.choices(CROWDS, k=rows) if draw.random() < 0.5 else [draw.choice(CROWDS)] * rows
    votes = np.array([generator.multinomial(crowd, np.full(classes, 1 / classes)) for crowd in crowds])
    expected = _cut(probs, votes, (1 - Fraction(1, parts)) * (rows + 1))
    rule = lac(1 / parts)
    if expected is None:
        try:
            rule.fit(probs, votes.astype(float))
        except InputError:
            return
        raise AssertionError(f"a threshold for {rows} rows and α = 1/{parts}, where there are too few")
    assert rule.fit(probs, votes.astype(float)).threshold.item() == expected


def _cut(probs, votes, needed: Fraction) -> float | None:
    """The largest probability above which, or at which, labels worth so many rows lie."""
    worth: dict[float, Fraction] = {}
    for row, given in zip(probs.tolist(), votes.tolist(), strict=True):
        for value, count in zip(row, given, strict=True):
            worth[value] = worth.get(value, Fraction(0)) + Fraction(count, sum(given))
    total = Fraction(0)
    for value in sorted(worth, reverse=True):
        total += worth[value]
        if total >= needed:
            return value
    return None


def conditions_hold_at_ties(draw: random.Random, folder: Path) -> None:
    """``a > t`` and its like where t is the probability of a row, in decimals as people write them."""
    digits, rows = draw.choice([1, 2, 3]), draw.randint(2, 60)
    numbers = [draw.randint(1, 10**digits - 1) for _ in range(rows)]
    values = np.array([[number / 10**digits, 0.5] for number in numbers])
    given = Predictions(torch.tensor(values), classes=["a", "b"], ids=[f"row {row}" for row in range(rows)], link="identity")
    index = Index.build(given, folder / "index")
    limit = draw.choice(numbers)
    for sign, holds in ((">", limit.__lt__), (">=", limit.__le__), ("<", limit.__gt__), ("<=", limit.__ge__)):
        expected = {f"row {row}" for row, number in enumerate(numbers) if holds(number)}
        found = {result.id for result in index.search(f"a {sign} {limit / 10**digits}", rows)}
        assert found == expected, (sign, limit / 10**digits, found ^ expected)


def equal_probabilities_stay_equal(draw: random.Random, folder: Path) -> None:
    """Links with steps answer equal rows alike, however the numbers lie in memory and how many are asked at once."""
    rows, classes, parts = draw.randint(20, 200), draw.randint(3, 6), draw.choice([5, 10, 20])
    generator = np.random.default_rng(draw.randrange(2**32))
    probs = torch.tensor(generator.multinomial(parts, generator.dirichlet(np.ones(classes)), rows) / parts)
    target = torch.tensor(one_label(draw, rows, classes))
    by_columns = probs.T.contiguous().T
    for kind in (Isotonic, VennAbers):
        link = kind(Identity()).fit(probs, target)
        found = link.probs(probs)
        one_by_one = torch.cat([link.probs(probs[row : row + 1]) for row in range(rows)])
        for other in (link.probs(by_columns), one_by_one, kind(Identity()).fit(by_columns, target).probs(probs)):
            torch.testing.assert_close(other, found, rtol=0, atol=1e-9, msg=kind.__name__)
