"""Cards: one row with its picture, its set and its label, as reports, search pages and pages of answers show it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shortlist.sets.lists import LabelList

MOST_BARS = 8


@dataclass(frozen=True)
class Bar:
    """A label with its probability.

    Args:
        name: of the label.
        shown: the probability as text.
        width: of the bar, in percent.
        kind: ``yes``, ``no`` or ``any``: the colour.
        right: whether it is a true label of the row.
    """

    name: str
    shown: str
    width: float
    kind: str = "any"
    right: bool = False


@dataclass(frozen=True)
class Bars:
    """Some labels, those left out, and what else there is to say about them."""

    bars: Sequence[Bar]
    title: str = ""
    more: int = 0
    remark: str = ""


@dataclass(frozen=True)
class Card:
    """One row.

    Args:
        id: of the row.
        heading: what is largest: its label, or the probability that it answers a query.
        corner: a few words beside it.
        groups: labels with their probabilities.
        facts: what else is known about it, by name.
        picture: as a data URI.
        missing: why there is none.
        link: where the picture leads to.
        framed: whether there is a place for a picture.
    """

    id: str
    heading: str = ""
    corner: str = ""
    groups: Sequence[Bars] = ()
    facts: Sequence[tuple[str, object]] = ()
    picture: str | None = None
    missing: str = ""
    link: str | None = None
    framed: bool = True


def answer_bars(answer: "LabelList", *, title: str = "", missed: float | None = None) -> Bars:
    """The labels of a set, right ones marked; a label that is missing from it follows, in another colour.

    Args:
        answer: the set as a list.
        title: over the bars.
        missed: the probability of the row's one label, to be shown if it is not in the set.
    """
    true = answer.target or []
    exact = answer.called == "probs"
    # Scores that are no probabilities have no natural width: the largest fills the track.
    least, most = min(answer.probs, default=0.0), max(answer.probs, default=1.0)

    def bar(name: str, value: float, kind: str, right: bool) -> Bar:
        share = value if exact else (value - least + 1) / (most - least + 1)
        return Bar(name, percent(value) if exact else f"{value:.3g}", _width(share), kind, right)

    kinds = {True: "yes", False: "any"}
    pairs = list(zip(answer.labels, answer.probs, strict=True))
    bars = [bar(name, value, kinds[name in true], name in true) for name, value in pairs[:MOST_BARS]]
    later = [bar(name, value, "yes", True) for name, value in pairs[MOST_BARS:] if name in true]
    if missed is not None and exact and len(true) == 1 and true[0] not in answer.labels:
        later.append(Bar(f"✗ {true[0]}", percent(missed), _width(missed), "no"))
    return Bars([*bars, *later], title, len(pairs) - len(bars) - sum(one.right for one in later), _remark(answer))


def answer_heading(answer: "LabelList") -> str:
    """What a card of an answer says first: the labels of the row, if they are known."""
    return "" if answer.target is None else ", ".join(answer.target) or "no label"


def answer_corner(answer: "LabelList") -> str:
    """Whether a set is right, in a word or two, and its size."""
    size = "empty set" if not answer.labels else "1 label" if len(answer.labels) == 1 else f"{len(answer.labels)} labels"
    if not answer.target:
        return size
    found = sum(label in answer.labels for label in answer.target)
    return f"{'✓' if found == len(answer.target) else '✗' if not found else '◐'} {size}"


def _remark(answer: "LabelList") -> str:
    if answer.refused:
        return "refused by the gate"
    if not answer.labels:
        return "empty set"
    return "" if answer.superclass is None else f"any {answer.superclass}"


def _width(share: float) -> float:
    return round(100 * min(max(share, 0.0), 1.0), 1)


def percent(probability: float) -> str:
    """Format a probability in percent, with enough digits near 0 and 1.

    >>> [percent(p) for p in (1.0, 0.999999, 0.9987, 0.5, 0.0123, 2e-4, 1e-9, 0.0)]
    ['100%', '>99.99%', '99.87%', '50.0%', '1.2%', '0.02%', '1e-09', '0%']
    """
    if probability in (0, 1):
        return f"{probability:.0%}"
    if probability < 1e-5:
        return f"{probability:.0e}"
    if probability < 0.01:
        return f"{100 * probability:.2g}%"
    if probability > 0.9999:
        return ">99.99%"
    return f"{probability:.2%}" if probability > 0.995 else f"{probability:.1%}"
