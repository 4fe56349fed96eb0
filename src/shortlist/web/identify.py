"""Identify: one or several photographs of one individual → one answer: a set, other candidates, a superclass.

Photographs are combined by the mean of their log-probabilities, renormalised: for links whose labels exclude each other,

    log p(label) = mean over photographs of log pᵢ(label) - log Z,

and for links with any number of labels the same for each label on its own, which is the mean of the log-odds. Scores without a
link are averaged. The rule is then applied to the combined probabilities; its promise was calibrated on single photographs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.links import Link
from shortlist.models import Classifier
from shortlist.sets.gates import SHARPNESS
from shortlist.sets.hierarchy import superclass_numbers
from shortlist.tensors import Probs, Scores

WIDE = 5  # labels; a set with more is better described by its superclass
FURTHER = 10  # candidates beside the set


@dataclass(frozen=True)
class Candidate:
    """A class that the individual may be.

    Args:
        place: its number among the classes.
        name: its name.
        probability: its probability; its score for a classifier without a link.
        in_set: whether it is in the set that the rule answers with.
        superclass: the name of its superclass, if classes have any.
    """

    place: int
    name: str
    probability: float
    in_set: bool
    superclass: str | None = None


@dataclass(frozen=True)
class Superclass:
    """The most probable superclass, with its probability and the number of its classes."""

    name: str
    probability: float
    classes: int


@dataclass(frozen=True)
class Identification:
    """The answer for one individual.

    Args:
        candidates: the set first, then the most probable others; each by decreasing probability.
        photographs: how many photographs were combined.
        superclass: the most probable superclass; None if there are none, or if labels do not exclude each other.
        nothing_known: why nothing is answered, in a sentence; None if the set holds a label.
        calibrated: whether the numbers are probabilities, rather than scores that only order the classes.
    """

    candidates: tuple[Candidate, ...]
    photographs: int
    superclass: Superclass | None = None
    nothing_known: str | None = None
    calibrated: bool = True

    @property
    def answer(self) -> list[Candidate]:
        """The set."""
        return [one for one in self.candidates if one.in_set]

    @property
    def is_wide(self) -> bool:
        """Whether the set is so large that its superclass says more."""
        return len(self.answer) > WIDE


def combined(link: Link | None, scores: Scores) -> Probs:
    """The probabilities (C,) of an individual from the scores (n, C) of its photographs; the mean score without a link.

    One photograph has the probabilities of its scores, exactly. Where photographs exclude each other with certainty (every
    label has probability 0 in one of them) their probabilities are averaged instead.

    >>> from shortlist.links import Softmax
    >>> combined(Softmax(), torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log())
    tensor([0.7500, 0.2500])
    """
    if link is None:
        return scores.mean(0)
    probs = link.probs(scores)
    if len(scores) == 1:
        return probs[0]
    odds = link.log_odds(scores.double())
    found = logsigmoid(odds).mean(0).softmax(0) if link.exclusive else odds.mean(0).sigmoid()
    return torch.where(found.isnan(), probs.double().mean(0), found).to(probs.dtype)


def identify(
    classifier: Classifier,
    photographs: Sequence[Scores],
    qualities: Sequence[Tensor] | None = None,
    further: int = FURTHER,
) -> list[Identification]:
    """The answer for each of several individuals.

    Args:
        classifier: with a rule.
        photographs: for each individual the scores of its photographs, (n, C).
        qualities: for each individual the quality of its photographs, (n,), if the gate of the rule compares it; the best
            photograph counts.
        further: how many candidates to name beside the set.

    >>> from shortlist.links import Softmax
    >>> from shortlist.models import InputSpec, Network
    >>> from shortlist.sets import parse_rule
    >>> network = Network("features", "linear", InputSpec.features(2), classes=3)
    >>> trees = Classifier(network, ["ash", "elm", "oak"], link=Softmax(), rule=parse_rule("top-k:1"))
    >>> [answer] = identify(trees, [torch.tensor([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]]).log()])
    >>> [(one.name, one.in_set, round(one.probability, 2)) for one in answer.candidates]
    [('elm', True, 0.5), ('ash', False, 0.25), ('oak', False, 0.25)]
    """
    rule = classifier.rule
    assert rule is not None
    link = classifier.link
    with torch.no_grad():
        probs = torch.stack([combined(link, scores.to(classifier.device)) for scores in photographs])
        # A randomised rule draws by the scores of the row: those of one photograph are what predict() would draw by.
        drawn_by = torch.stack([scores.mean(0) if len(scores) > 1 else scores[0] for scores in photographs])
        quality = None
        if rule.needs_quality and qualities is not None:
            quality = torch.stack([one.max() for one in qualities])
        sets = rule.in_blocks()(probs, drawn_by.to(probs.device), quality).cpu()
        refused = torch.zeros(len(probs), dtype=torch.bool)
        if rule.gate is not None:
            refused = ~rule.gate.accepts(probs, quality).cpu()
    answers = zip(probs.cpu(), sets, refused.tolist(), map(len, photographs), strict=True)
    return [_described(classifier, *answer, further=further) for answer in answers]


def _described(
    classifier: Classifier, probs: Probs, chosen: Tensor, refused: bool, photographs: int, further: int
) -> Identification:
    order, members = probs.argsort(descending=True, stable=True).tolist(), chosen.tolist()
    within, beside = ([place for place in order if members[place] is there] for there in (True, False))
    places, values, above = [*within, *beside[:further]], probs.tolist(), classifier.superclasses
    candidates = tuple(
        Candidate(place, classifier.classes[place], values[place], members[place], None if above is None else above[place])
        for place in places
    )
    nothing = None if within else _why_nothing(classifier, refused)
    return Identification(candidates, photographs, _superclass(classifier, probs), nothing, classifier.link is not None)


def _superclass(classifier: Classifier, probs: Probs) -> Superclass | None:
    """The most probable superclass, ties by lower index."""
    if classifier.superclasses is None or classifier.link is None or not classifier.link.exclusive:
        return None
    numbers = _numbers(classifier.superclasses)
    totals = torch.zeros(int(numbers.max()) + 1, dtype=torch.float64).index_add_(0, numbers, probs.double())
    best = int(totals.argmax())
    name = classifier.superclasses[int((numbers == best).nonzero()[0])]
    return Superclass(name, min(1.0, float(totals[best])), int((numbers == best).sum()))


@lru_cache(maxsize=8)
def _numbers(superclasses: tuple[str, ...]) -> Tensor:
    return superclass_numbers(superclasses)


def _why_nothing(classifier: Classifier, refused: bool) -> str:
    """Why the set is empty, in a sentence for the person who asked."""
    gate = classifier.rule.gate if classifier.rule is not None else None
    if refused and gate is not None and gate.by == SHARPNESS:
        return "The photograph is too blurred to say anything."
    if refused and gate is not None and gate.needs_quality:
        return "The quality of the photograph is too low to say anything."
    if refused:
        return "This looks like nothing that the classifier was trained to know."
    return "No class is probable enough to be named: perhaps it is none of the classes that the classifier knows."


def guarantee(classifier: Classifier, photographs: int) -> str:
    """What the rule promises, and for what: its sentence is about single photographs."""
    assert classifier.rule is not None
    promised = classifier.rule.guarantee
    if photographs == 1:
        return promised
    return f"{promised} This holds for one photograph; for {photographs} combined nothing was calibrated."
