"""Queries: probabilities as exact fractions, rankings by brute force, and texts that are none."""

import math
import random
from fractions import Fraction

import numpy as np
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.retrieval import Index, Query
from tests.references import retrieval as ref
from tests.retrieval.small import LABELS, brute_force, exact_logs, random_query

WORDS = ["and", "or", "not", "count", "at least", "at most", "exactly", "of", "like"]
SIGNS = ["(", ")", ",", ">", ">=", "<", "=", '"', "\\", "*", "?", "\x00", "é", "\u202e"]
NUMBERS = ["0", "1", "2", "0.5", "1e999", "-1", "nan", "7" * 30]
TOKENS = [*LABELS, '"fork"', *WORDS, *SIGNS, *NUMBERS]


def ranking_is_exact(draw: random.Random, folder) -> None:
    """An index finds the rows that brute force in float64 finds, in its order; probabilities are those of the fractions."""
    scale = draw.choice([0.1, 2, 30, 200])  # float32 log-probabilities underflow beyond a score of about 104
    generator = torch.Generator().manual_seed(draw.getrandbits(32))
    scores = (scale * torch.randn(60, len(LABELS), generator=generator)).to(draw.choice([torch.float32, torch.float64]))
    given = Predictions(scores, classes=list(LABELS), link="sigmoid")
    index, logs = Index.build(given, folder / "index"), exact_logs(given)
    for _ in range(5):
        text = random_query(draw)
        query = Query.parse(text, LABELS)
        n = draw.choice([1, 5, 60])
        expected = [] if query.contradiction else brute_force(query, logs, n)
        results = index.search(text, n)
        assert [result.row for result in results] == [row for row, _ in expected], (text, scale)
        for result, (_, score) in zip(results, expected, strict=True):
            assert math.isclose(result.score, score, rel_tol=1e-11, abs_tol=1e-300), (text, result, score)
    _probability_is_exact(draw)


def _probability_is_exact(draw) -> None:
    query = _drawn_query(draw, 2)
    probs = [Fraction(draw.randint(0, 64), 64) for _ in LABELS]
    exact = ref.log(ref.probability(query, probs))
    with np.errstate(divide="ignore"):
        yes, no = np.log([float(p) for p in probs]), np.log([float(1 - p) for p in probs])
    parsed = Query.parse(ref.text(query, [f'"{label}"' for label in LABELS]), LABELS)
    if parsed.contradiction:
        assert exact == -math.inf, query
        return
    found = float(np.asarray(parsed.log_probability(dict(enumerate(yes[:, None])), dict(enumerate(no[:, None]))))[0])
    assert found == exact or math.isclose(found, exact, rel_tol=1e-9, abs_tol=1e-12), (query, probs, found, exact)


def _drawn_query(draw, depth):
    """A query as nested tuples, of any kind but conditions."""
    if depth == 0 or draw.random() < 0.3:
        if draw.random() < 0.2:
            return ("count", draw.choice(list(ref.SIGNS)), draw.randint(0, len(LABELS)))
        return ("label", draw.randrange(len(LABELS)))
    parts = [_drawn_query(draw, depth - 1) for _ in range(draw.randint(2, 3))]
    kind = draw.choice(["and", "or", "not", "at least", "at most", "exactly"])
    if kind == "not":
        return ("not", parts[0])
    return (kind, *parts) if kind in ("and", "or") else (kind, draw.randint(int(kind == "at least"), len(parts)), *parts)


def text_is_a_query_or_refused(draw: random.Random, folder) -> None:
    """A text parses to a query whose own text means the same, or is refused in one sentence."""
    text = random_query(draw, depth=3) if draw.random() < 0.3 else " ".join(draw.choices(TOKENS, k=draw.randint(0, 12)))
    if text and draw.random() < 0.3:
        place = draw.randrange(len(text))
        text = text[:place] + draw.choice(TOKENS) + text[place + draw.randint(0, 3) :]
    try:
        query = Query.parse(text, LABELS)
    except InputError:
        return
    assert Query.parse(query.canonical(), LABELS).canonical() == query.canonical(), text
