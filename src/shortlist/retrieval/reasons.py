"""Why a query is true of no row, in a sentence."""

import textwrap
from collections.abc import Iterator, Sequence

from shortlist.retrieval.expansion import is_never_true
from shortlist.retrieval.tree import And, Condition, Count, Label, Node, Not, positions, text_of

MOST_PARTS, MOST_VISITED = 100, 300_000  # parts compared in pairs, and labels visited by that: well below a second
NO_COMBINATION = "no combination of labels satisfies all of it"


def why_never(tree: Node, classes: Sequence[str]) -> str:
    """What is impossible about a tree that no row satisfies: the first of its conditions that is, or the first two together.

    >>> why_never(And((Condition(0, ">", 0.8), Condition(0, "<", 0.2))), ["fork"])
    'the probability of fork cannot be both > 0.8 and < 0.2'
    """
    parts = list(dict.fromkeys(_together(tree)))
    for part in parts:
        if is_never_true(part, len(classes)):
            return _alone(part, classes)
    visited = 0
    for index, second in enumerate(parts[:MOST_PARTS]):
        for first in parts[:index]:
            pair = And((first, second))
            visited += 0 if isinstance(first, Count) and isinstance(second, Count) else len(positions(pair, len(classes)))
            if visited > MOST_VISITED:
                return NO_COMBINATION
            if is_never_true(pair, len(classes)):
                return _both(first, second, classes)
    return NO_COMBINATION


def _together(node: Node) -> Iterator[Node]:
    """What must be true together."""
    if isinstance(node, And):
        for part in node.parts:
            yield from _together(part)
    else:
        yield node


def _alone(part: Node, classes: Sequence[str]) -> str:
    match part:
        case Count():
            return f"there are {len(classes)} labels"
        case Condition(position, sign, threshold):
            return f"the probability of {classes[position]} is never {sign} {threshold}"
    return f"{_short(part, classes)} is never true"


def _both(first: Node, second: Node, classes: Sequence[str]) -> str:
    if isinstance(first, Condition) and isinstance(second, Condition):
        name, one, other = classes[first.position], f"{first.sign} {first.threshold}", f"{second.sign} {second.threshold}"
        return f"the probability of {name} cannot be both {one} and {other}"
    for plain, negated in ((first, second), (second, first)):
        if isinstance(plain, Label) and negated == Not(plain):
            return f"{classes[plain.position]} cannot be both present and absent"
    return f"{_short(first, classes)} and {_short(second, classes)} cannot both be true"


def _short(node: Node, classes: Sequence[str]) -> str:
    return textwrap.shorten(text_of(node, classes), 80, placeholder=" …")
