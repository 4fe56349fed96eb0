"""Garcin et al. 2022, "Stochastic smoothing of the top-K calibrated hinge loss for deep imbalanced classification"."""

from typing import Any

from shortlist.claims.claim import Claim, Part
from shortlist.claims.experiment import Arm
from shortlist.claims.grounds import BALANCED, CIFAR100, methods_arms, on_cifar100, quick
from shortlist.claims.statistic import difference, slope
from shortlist.training.recipe import Recipe

PAPER = "garcin-2022"
SIZES = (1, 5)
NOISE = (0.0, 0.1, 0.2, 0.3, 0.4)
NOISED: dict[str, Any] = {"method": "noised-topk", "k": 5, "epsilon": 0.2, "samples": 10}
TOP_5: dict[str, dict[str, Any]] = {
    "cross-entropy": {},
    "smooth hinge": {"method": "smooth-topk", "k": 5},
    "noised": NOISED,
}


def _with_noise(base: Recipe) -> dict[str, Arm]:
    methods = {f"{name}, p = {p:g}": {**changes, "label_noise": p} for p in NOISE for name, changes in TOP_5.items()}
    return methods_arms(base, methods, SIZES)


def _gap(p: float, method: str = "noised", rival: str = "cross-entropy") -> Any:
    return difference(f"{method}, p = {p:g}", f"{rival}, p = {p:g}", "top-5")


EXPERIMENTS = (
    quick("flora-label-noise", "top-5 sets with labels redrawn within the genus", _with_noise(BALANCED), shows=("top-5",)),
    on_cifar100(
        "cifar100-label-noise", "top-5 sets with labels redrawn within the superclass", _with_noise(CIFAR100), shows=("top-5",)
    ),
)
LABEL_NOISE = ("flora-label-noise", "cifar100-label-noise")
PUBLISHED = {"paper": PAPER, "table": "4"}
CLAIMS = (
    Claim(
        "garcin-2022-noise",
        PAPER,
        "4",
        "With label noise the noised hinge has a better top-5 accuracy than cross-entropy.",
        tuple(Part(f"p = {p:g}", _gap(p)) for p in NOISE[1:]),
        LABEL_NOISE,
        PUBLISHED,
    ),
    Claim(
        "garcin-2022-noise-gap",
        PAPER,
        "4",
        "The advantage of the noised hinge over cross-entropy grows with the label noise.",
        (Part("points of top-5 for all labels noisy", slope(NOISE, [_gap(p) for p in NOISE])),),
        LABEL_NOISE,
        PUBLISHED,
    ),
    Claim(
        "garcin-2022-noise-smooth",
        PAPER,
        "4",
        "With label noise the smooth hinge has a better top-5 accuracy than cross-entropy as well.",
        tuple(Part(f"p = {p:g}", _gap(p, "smooth hinge")) for p in NOISE[1:]),
        LABEL_NOISE,
        PUBLISHED,
    ),
)
