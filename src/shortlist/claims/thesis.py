"""The thesis of Garcin, "Set-valued classification with applications to citizen science"."""

from shortlist.claims.cheng import MANY_LABELS
from shortlist.claims.claim import Claim, Part, Within
from shortlist.claims.conformal import ADJUSTED, CLASSWISE, INTERPOLATED, MARGINAL, conformal_arm
from shortlist.claims.experiment import Arm
from shortlist.claims.grounds import BALANCED, LONG_TAILED, methods_arms, quick
from shortlist.claims.statistic import Number, Statistic, difference, slope
from shortlist.claims.voting import DAWID_SKENE, MAJORITY, WEIGHTED, vote_arm

PAPER = "garcin-thesis"
SIZES = (2, 3, 5, 10)
# How much rows differ in noise, and the noise for which the best top-5 accuracy stays the same: 68.6 % on three other gardens.
NOISE_BY_SPREAD = {0.0: 0.5, 0.5: 0.471, 1.0: 0.402, 1.5: 0.326}
SPREADS = tuple(NOISE_BY_SPREAD)
COVERAGE = 90.0
RULES = (MARGINAL, INTERPOLATED, ADJUSTED, CLASSWISE)
VOTES = (2, 10)  # an item; Pl@ntNet-300K has 2.03
ENGAGED, UNRELATED = 0.8, 0.0  # how far users who vote more are better
DING = "Ding, Fermanian, Salmon 2025"


def _spreads() -> dict[str, Arm]:
    """Rows that differ more and more in how ambiguous they are, and are equally ambiguous altogether."""
    methods = {
        f"spread {spread:g}": {"data": f"{BALANCED.data},noise={noise:g},spread={spread:g}"}
        for spread, noise in NOISE_BY_SPREAD.items()
    }
    return methods_arms(BALANCED, methods, (5,))


def average_over_top(arm: str, k: int, ending: str = "") -> Statistic:
    """How much more accurate sets of k labels on average are than sets of exactly k, of the same scores."""
    return Number(arm, f"average-{k}{ending}") - Number(arm, f"top-{k}{ending}")


def _votes(votes: float, engagement: float) -> str:
    return f"{votes:g} votes, engagement {engagement:g}"


def _better_votes(rule: str, rival: str, engagement: float) -> tuple[Part, ...]:
    arms = {votes: _votes(votes, engagement) for votes in VOTES}
    return tuple(Part(f"{votes} votes an item", Number(arm, rule) - Number(arm, rival)) for votes, arm in arms.items())


def _sets(number: str) -> Number:
    return Number("cross-entropy", number)


def _few(rule: str) -> Number:
    return _sets(f"macro-{rule} few")


EXPERIMENTS = (
    quick("flora-spread", "cross-entropy by how much rows differ in ambiguity", _spreads(), shows=("top-5", "average-5")),
    quick(
        "flora-conformal",
        "sets with 90 % coverage, a long tail",
        {"cross-entropy": conformal_arm(LONG_TAILED)},
        seeds=10,
        shows=(*RULES, *(f"macro-{rule} few" for rule in RULES), *(f"{rule} size" for rule in RULES)),
    ),
    quick(
        "votes",
        "simulated votes on items of 1,081 classes with a long tail",
        {_votes(votes, e): vote_arm(votes, e) for votes in VOTES for e in (ENGAGED, UNRELATED)},
        seeds=10,
        shows=(MAJORITY, WEIGHTED, DAWID_SKENE, "valid", f"{WEIGHTED} valid"),
    ),
)
CLAIMS = (
    Claim(
        "garcin-thesis-average-k",
        PAPER,
        "Section 2.4",
        "Sets of k labels on average are more accurate than sets of exactly k labels of the same classifier.",
        tuple(Part(f"k = {k}", average_over_top("cross-entropy", k)) for k in SIZES),
        ("flora-average-k", "cifar100-average-k"),
    ),
    Claim(
        "garcin-thesis-spread",
        PAPER,
        "Section 2.4",
        "The more rows differ in ambiguity, the larger is the advantage of sets of k labels on average.",
        (Part("slope over the spread", slope(SPREADS, [average_over_top(f"spread {s:g}", 5) for s in SPREADS])),),
        ("flora-spread",),
        remark="Of the classifier: a network that has learnt from 3,000 rows; the best possible sets are the next claim. "
        "The design was changed after a first look: with the same noise at every spread the rows become more ambiguous as "
        "well, and the slope of the best possible sets was negative (-1.52, -1.64, -1.62; seeds 0 to 2).",
    ),
    Claim(
        "garcin-thesis-spread-best",
        PAPER,
        "Section 2.4",
        "The same holds for the best possible sets.",
        (Part("slope over the spread", slope(SPREADS, [average_over_top(f"spread {s:g}", 5, " best") for s in SPREADS])),),
        ("flora-spread",),
    ),
    Claim(
        "garcin-thesis-conformal",
        PAPER,
        "Section 2.2.2, equation 2.5",
        "Conformal sets cover the label as often as asked, to one point.",
        tuple(Part(f"{rule}: coverage beyond 90 %", _sets(rule) - COVERAGE, Within(1)) for rule in (MARGINAL, ADJUSTED)),
        ("flora-conformal",),
    ),
    Claim(
        "garcin-thesis-conformal-tail",
        PAPER,
        f"Section 2.2.2; {DING}",
        "On a long tail, sets with one threshold miss classes with few examples; by probability over prior they do so less.",
        (
            Part("marginal: 90 % less coverage of few-shot classes", COVERAGE - _few(MARGINAL)),
            Part("few-shot classes: prevalence-adjusted over marginal", _few(ADJUSTED) - _few(MARGINAL)),
            Part("few-shot classes: interpolated over marginal", _few(INTERPOLATED) - _few(MARGINAL)),
            Part("few-shot classes: class-wise over prevalence-adjusted", _few(CLASSWISE) - _few(ADJUSTED)),
        ),
        ("flora-conformal",),
    ),
    Claim(
        "garcin-thesis-conformal-size",
        PAPER,
        f"Section 2.2.2; {DING}",
        "That costs size: class-wise sets are the largest, then prevalence-adjusted ones, then marginal ones.",
        (
            Part("prevalence-adjusted over marginal", _sets(f"{ADJUSTED} size") - _sets(f"{MARGINAL} size"), unit="labels"),
            Part("class-wise over prevalence-adjusted", _sets(f"{CLASSWISE} size") - _sets(f"{ADJUSTED} size"), unit="labels"),
        ),
        ("flora-conformal",),
    ),
    Claim(
        "garcin-thesis-votes",
        PAPER,
        "Section 3.2.1",
        "Where users who vote more are better, weighted votes are right more often than the majority.",
        _better_votes(WEIGHTED, MAJORITY, ENGAGED),
        ("votes",),
    ),
    Claim(
        "garcin-thesis-votes-unrelated",
        PAPER,
        "Section 3.2.1, where its premise does not hold",
        "They are right more often also where how much users vote says nothing about how good they are.",
        _better_votes(WEIGHTED, MAJORITY, UNRELATED),
        ("votes",),
        remark="Weights grow with how much a user votes. Dawid and Skene's model, which learns from agreement how good users "
        "are, is right more often than both rules in either case.",
    ),
    Claim(
        "garcin-thesis-votes-valid",
        PAPER,
        "Section 3.2.1",
        "Labels that the weighted votes call valid are right more often than all.",
        tuple(
            Part(arm, Number(arm, f"{WEIGHTED} valid") - Number(arm, WEIGHTED))
            for arm in (_votes(VOTES[0], e) for e in (ENGAGED, UNRELATED))
        ),
        ("votes",),
        remark="With 10 votes an item all labels are valid, and there is nothing to compare.",
    ),
    Claim(
        "garcin-thesis-votes-dawid-skene",
        PAPER,
        "Section 3.2.1, with a rival that learns the skill of each user",
        "Where users who vote more are better, weighted votes are right more often than Dawid and Skene's model.",
        _better_votes(WEIGHTED, DAWID_SKENE, ENGAGED),
        ("votes",),
    ),
    Claim(
        "garcin-thesis-sparse-top",
        PAPER,
        "Section 6.2, which reports no experiment",
        "The sparse-top loss ranks labels as well as binary cross-entropy and the softmax, to one point.",
        tuple(
            Part(f"{name}, {rival}", difference("sparse-top", rival, name), Within(1))
            for name in ("mAP@y", "mAP@x")
            for rival in ("BCE", "softmax")
        ),
        MANY_LABELS,
    ),
)
