"""Garcin et al. 2023, "A two-head loss function for deep average-K classification"."""

from typing import Any

from shortlist.claims.claim import Claim, Part
from shortlist.claims.grounds import CIFAR100, LONG_TAILED, methods_arms, on_cifar100, quick
from shortlist.claims.statistic import difference

PAPER = "garcin-2023"
SIZES = (2, 3, 5, 10)
SHOWS = ("average-5 softmax", "average-5", "average-5 size", "macro-average-5 softmax few")


def _for(k: int) -> dict[str, Any]:
    """What decides which epoch is kept, and the rule, for sets of k labels on average."""
    return {"monitor": f"average-{k}", "rule": f"average-k:{k}"}


METHODS: dict[str, dict[str, Any]] = {
    "cross-entropy": _for(5),
    **{f"two-head, k = {k}": {"method": "average-k", "k": k, "alpha": 1.0, **_for(k)} for k in SIZES},
}

EXPERIMENTS = (
    quick("flora-average-k", "average-k sets on a long tail", methods_arms(LONG_TAILED, METHODS, SIZES), shows=SHOWS),
    on_cifar100("cifar100-average-k", "average-k sets", methods_arms(CIFAR100, METHODS, SIZES), shows=SHOWS),
)
CLAIMS = (
    Claim(
        "garcin-2023-two-head",
        PAPER,
        "1, 2",
        "The two-head loss gives better sets of k labels on average than cross-entropy.",
        tuple(Part(f"k = {k}", difference(f"two-head, k = {k}", "cross-entropy", f"average-{k} softmax")) for k in SIZES),
        ("flora-average-k", "cifar100-average-k"),
        published={"paper": PAPER, "metric": "average-k", "group": "", "method": ("cross-entropy", "average-k")},
    ),
)
