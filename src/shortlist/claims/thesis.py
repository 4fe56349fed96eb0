"""The thesis of Garcin, "Set-valued classification with applications to citizen science"."""

from shortlist.claims.claim import Claim, Part
from shortlist.claims.experiment import Arm
from shortlist.claims.grounds import BALANCED, methods_arms, quick
from shortlist.claims.statistic import Number, Statistic, slope

PAPER = "garcin-thesis"
SIZES = (2, 3, 5, 10)
# How much rows differ in noise, and the noise for which the best top-5 accuracy stays the same: 68.6 % on three other gardens.
NOISE_BY_SPREAD = {0.0: 0.5, 0.5: 0.471, 1.0: 0.402, 1.5: 0.326}
SPREADS = tuple(NOISE_BY_SPREAD)


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


EXPERIMENTS = (
    quick("flora-spread", "cross-entropy by how much rows differ in ambiguity", _spreads(), shows=("top-5", "average-5")),
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
)
