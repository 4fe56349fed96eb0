"""Ideas of our own, judged by the same rules: what should beat the method of a paper on its own metric."""

from typing import Any

from shortlist.claims.claim import Claim, Curves, Part, Within
from shortlist.claims.experiment import Arm
from shortlist.claims.garcin_2022 import LABEL_NOISE, NOISE, NOISED, gap
from shortlist.claims.garcin_2023 import TAILS
from shortlist.claims.grounds import BALANCED, LONG_TAILED, methods_arms, quick
from shortlist.claims.statistic import Number, Statistic, difference
from shortlist.training.recipe import Recipe

PAPER = "beyond"
# Why the losses of the papers gain nothing on Flora: trained longer, to the last epoch, cross-entropy memorises its rows.
EPOCHS = (24, 48, 96)
NOISED_HINGE: dict[str, Any] = {**NOISED, "samples": 5}
TWO_HEAD: dict[str, Any] = {"method": "average-k", "k": 5, "alpha": 1.0}


def _lengths(base: Recipe, method: str, changes: dict[str, Any], **common: Any) -> dict[str, Arm]:
    """A method and cross-entropy by the number of epochs, of which the last is kept."""
    arms: dict[str, dict[str, Any]] = {}
    for epochs in EPOCHS:
        length = {"epochs": epochs, "validate_every": epochs, **common}
        arms |= {f"cross-entropy, {epochs} epochs": length, f"{method}, {epochs} epochs": {**changes, **length}}
    return methods_arms(base, arms, (5,))


def _grown(method: str, number: str) -> Statistic:
    """How much more a method gains over cross-entropy in the longest training than in the shortest."""
    first, last = (difference(f"{method}, {n} epochs", f"cross-entropy, {n} epochs", number) for n in (EPOCHS[0], EPOCHS[-1]))
    return last - first


def _curves(experiment: str, method: str, number: str, caption: str) -> Curves:
    series = {name: {f"{name}, {n} epochs": float(n) for n in EPOCHS} for name in ("cross-entropy", method)}
    return Curves(experiment, number, "epochs, the last one kept", series, caption)


EXPERIMENTS = (
    quick(
        "flora-memorising",
        "labels redrawn within the genus, p = 0.4, by the length of training; the last epoch is kept",
        _lengths(BALANCED, "noised", NOISED_HINGE, label_noise=0.4),
        shows=("top-5",),
    ),
    quick(
        "flora-memorising-average-k",
        "a long tail, by the length of training; the last epoch is kept",
        _lengths(LONG_TAILED, "two-head", TWO_HEAD),
        shows=("average-5 softmax", "average-5"),
    ),
)
CLAIMS = (
    Claim(
        "beyond-memorising",
        PAPER,
        "",
        "The noised hinge gains over cross-entropy where that memorises noisy labels: the longer the training, the more.",
        (
            Part("gain after 96 epochs over gain after 24", _grown("noised", "top-5")),
            Part("after 96 epochs", difference("noised, 96 epochs", "cross-entropy, 96 epochs", "top-5")),
        ),
        ("flora-memorising",),
        curves=_curves(
            "flora-memorising",
            "noised",
            "top-5",
            "Why the noised hinge does not help against label noise in `garcin-2022-noise`: there validation rows stop "
            "cross-entropy before it has memorised the labels. This experiment was designed after that claim had failed.",
        ),
    ),
    Claim(
        "beyond-memorising-average-k",
        PAPER,
        "",
        "The two-head loss, too, gains more over cross-entropy the longer the training.",
        (
            Part("gain after 96 epochs over gain after 24", _grown("two-head", "average-5 softmax")),
            Part("after 96 epochs", difference("two-head, 96 epochs", "cross-entropy, 96 epochs", "average-5 softmax")),
        ),
        ("flora-memorising-average-k",),
        curves=_curves(
            "flora-memorising-average-k",
            "two-head",
            "average-5 softmax",
            "Sets of five labels on average by the length of training.",
        ),
    ),
    Claim(
        "beyond-shallow",
        PAPER,
        "",
        "In a network of two layers the top-k hinge needs no smoothing at all.",
        (Part("ε = 0.1 over ε = 0", difference("ε = 0.1", "ε = 0", "top-5"), Within(2)),),
        ("flora-epsilon-shallow",),
    ),
    Claim(
        "beyond-soft-hinge",
        PAPER,
        "",
        "The hinge with soft smoothing, which draws no random numbers, is as good as the noised one, to one point.",
        tuple(Part(f"p = {p:g}", gap(p, "soft hinge", "noised"), Within(1)) for p in NOISE),
        LABEL_NOISE,
    ),
    Claim(
        "beyond-average-weights",
        PAPER,
        "",
        "With label noise, cross-entropy with averaged weights is better than the noised hinge.",
        tuple(Part(f"p = {p:g}", gap(p, "cross-entropy, EMA", "noised")) for p in NOISE[1:]),
        LABEL_NOISE,
    ),
    Claim(
        "beyond-two-head-prior",
        PAPER,
        "",
        "In classes with few examples, two-head probabilities over the prior give better sets than the paper's two-head sets.",
        tuple(
            Part(f"k = {k}", Number(arm, f"macro-average-{k} prior few") - Number(arm, f"macro-average-{k} softmax few"))
            for k, arm in ((5, "two-head, k = 5"), (10, "two-head, k = 10"))
        ),
        TAILS,
    ),
)
