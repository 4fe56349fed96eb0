"""Random texts of rules and links: each is understood, and then written back as it was meant, or refused in a sentence."""

import random

import numpy as np

from shortlist.errors import InputError
from shortlist.links import Link, parse_link
from shortlist.sets import parse_rule
from shortlist.sets.registry import MODIFIERS, RULES

NUMBERS = [
    "0",
    "1",
    "2",
    "5",
    "0.1",
    ".05",
    "1/3",
    "-1",
    "1e-3",
    "1e-9999",
    "1e9999999",
    "nan",
    "inf",
    "-inf",
    "1_0",
    "0x1",
    "",
]
WORDS = ["random", "prior", "recall", "precision", "f1", "lac", "auto", "seed", "+", "::", " ", "\n", "\x00", "é", "A" * 50]
ODD = "\0\t\n\x1b-:λ\u202e🦊"
PRIOR = np.array([0.5, 0.3, 0.2])


def rule_text_is_a_rule_or_refused(draw: random.Random, folder) -> None:
    """Parsing gives a rule whose text parses to the same rule, or an InputError of one line."""
    text = _text(draw, [*RULES, *MODIFIERS])
    try:
        rule = parse_rule(text, prior=PRIOR)
    except InputError as error:
        _check_sentence(error, text)
        return
    assert parse_rule(rule.text, prior=PRIOR).text == rule.text, text


def link_text_is_a_link_or_refused(draw: random.Random, folder) -> None:
    """Parsing gives a link whose text parses to the same link, or an InputError of one line."""
    text = _text(draw, [*Link.kinds, "none"])
    try:
        link = parse_link(text)
    except InputError as error:
        _check_sentence(error, text)
        return
    if link is not None:
        again = parse_link(repr(link))
        assert repr(again) == repr(link), text


def _text(draw, names) -> str:
    """Names, numbers and words between colons and pluses, and now and then a letter changed."""
    parts = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        pieces = [draw.choice(names)]
        pieces += [draw.choice(draw.choice([NUMBERS, NUMBERS, WORDS, names])) for _ in range(draw.randint(0, 4))]
        parts.append(":".join(pieces))
    text = draw.choice(["+", " + ", ","]).join(parts)
    if draw.random() < 0.2 and text:
        place = draw.randrange(len(text))
        text = text[:place] + draw.choice(ODD) + text[place + draw.randint(0, 1) :]
    return text


def _check_sentence(error, text) -> None:
    assert str(error).isprintable(), (text, str(error))
