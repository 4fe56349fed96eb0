"""Garcin et al. 2023, "A two-head loss function for deep average-K classification"."""

import math
from typing import Any

from shortlist.claims.claim import Claim, Part, Within
from shortlist.claims.experiment import Arm
from shortlist.claims.grounds import CIFAR100, CIFAR100_LT, LONG_TAILED, methods_arms, on_cifar100, quick
from shortlist.claims.statistic import Number, Statistic, difference, slope
from shortlist.training.recipe import Recipe

PAPER = "garcin-2023"
SIZES = (2, 3, 5, 10)
SOFTMAX, SINGLES = "average-5 softmax", "average-5 softmax singles"
SHOWS = (SOFTMAX, "average-5", "macro-average-5 softmax few", "macro-average-5 prior few", SINGLES)
FLORA_ALPHA, CIFAR_ALPHA = 1.0, 0.3  # the first by validation on a garden that no seed draws, the second is the paper's
ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0)
BATCHES = (64, 256, 1024)
DOUBLINGS = tuple(math.log2(rows) for rows in BATCHES)


def for_average(k: int) -> dict[str, Any]:
    """What decides which epoch is kept, and the rule, for sets of k labels on average."""
    return {"monitor": f"average-{k}", "rule": f"average-k:{k}"}


def two_head(k: int, alpha: float) -> dict[str, Any]:
    """The two-head loss for sets of k labels on average."""
    return {"method": "average-k", "k": k, "alpha": alpha, **for_average(k)}


def _methods(base: Recipe, alpha: float, noised: dict[str, Any]) -> dict[str, Arm]:
    methods: dict[str, dict[str, Any]] = {
        "cross-entropy": for_average(5),
        **{f"two-head, k = {k}": two_head(k, alpha) for k in SIZES},
        "noised": {"method": "noised-topk", "k": 5, **noised, **for_average(5)},
        "assume-negative": {"method": "assume-negative", **for_average(5)},
        "expected-positive": {"method": "expected-positive", "k": 5, **for_average(5)},
        "ROLE": {"method": "role", "k": 5, **for_average(5)},
    }
    return methods_arms(base, methods, SIZES)


def _alphas(base: Recipe) -> dict[str, Arm]:
    return methods_arms(base, {f"α = {alpha:g}": two_head(5, alpha) for alpha in ALPHAS}, (5,))


def _batches(base: Recipe, alpha: float) -> dict[str, Arm]:
    """Batches of several sizes; the learning rate goes with the square root of the size."""
    arms = {}
    for size in BATCHES:
        scaled = {"batch_size": size, "lr": base.lr * (size / base.batch_size) ** 0.5}
        arms[f"two-head, {size} rows"] = {**two_head(5, alpha), **scaled}
        arms[f"cross-entropy, {size} rows"] = {**for_average(5), **scaled}
    return methods_arms(base, arms, (5,))


EXPERIMENTS = (
    quick(
        "flora-average-k",
        "sets of k labels on average, a long tail",
        _methods(LONG_TAILED, FLORA_ALPHA, {"epsilon": 1.0, "samples": 5}),
        shows=SHOWS,
    ),
    on_cifar100(
        "cifar100-average-k",
        "sets of k labels on average",
        _methods(CIFAR100, CIFAR_ALPHA, {"epsilon": 0.2, "samples": 10}),
        shows=SHOWS[:2],
    ),
    on_cifar100(
        "cifar100-lt-average-k",
        "sets of k labels on average, trained on CIFAR-100-LT, imbalance 100",
        _methods(CIFAR100_LT, CIFAR_ALPHA, {"epsilon": 0.2, "samples": 10}),
        shows=SHOWS,
    ),
    quick("flora-alpha", "the two-head loss by α", _alphas(LONG_TAILED), shows=("average-5 softmax",)),
    on_cifar100("cifar100-alpha", "the two-head loss by α", _alphas(CIFAR100), shows=("average-5 softmax",)),
    quick("flora-batches", "batches of several sizes", _batches(LONG_TAILED, FLORA_ALPHA), shows=("average-5 softmax",)),
    on_cifar100("cifar100-batches", "batches of several sizes", _batches(CIFAR100, CIFAR_ALPHA), shows=("average-5 softmax",)),
)
ALL = ("flora-average-k", "cifar100-average-k", "cifar100-lt-average-k")
TAILS = ("flora-average-k", "cifar100-lt-average-k")
PUBLISHED = {"paper": PAPER, "table": "2", "group": "", "method": ("cross-entropy", "average-k")}
PUBLISHED_FEW = {**PUBLISHED, "group": "few"}
TABLE_1 = {"paper": PAPER, "table": "1"}


def over_cross_entropy(k: int, name: str) -> Statistic:
    """How much more the two-head loss for sets of k has of a number than cross-entropy."""
    return difference(f"two-head, k = {k}", "cross-entropy", name)


def _few_shot_surplus(k: int) -> Statistic:
    few, many = (over_cross_entropy(k, f"macro-average-{k} softmax {group}") for group in ("few", "many"))
    return few - many


def _batch_gain(rows: int) -> Statistic:
    return difference(f"two-head, {rows} rows", f"cross-entropy, {rows} rows", "average-5 softmax")


CLAIMS = (
    Claim(
        "garcin-2023-two-head",
        PAPER,
        "Tables 1 and 2",
        "The two-head loss gives better sets of k labels on average than cross-entropy.",
        tuple(Part(f"k = {k}", over_cross_entropy(k, f"average-{k} softmax")) for k in SIZES),
        ALL,
        PUBLISHED,
    ),
    Claim(
        "garcin-2023-few-shot",
        PAPER,
        "Table 2",
        "In classes with few examples the two-head loss gives better sets of k ≥ 3 labels on average than cross-entropy.",
        tuple(Part(f"k = {k}", over_cross_entropy(k, f"macro-average-{k} softmax few")) for k in SIZES[1:]),
        TAILS,
        PUBLISHED_FEW,
    ),
    Claim(
        "garcin-2023-few-shot-most",
        PAPER,
        "Table 2",
        "The two-head loss gains more in classes with few examples than in classes with many.",
        tuple(Part(f"k = {k}", _few_shot_surplus(k)) for k in (5, 10)),
        TAILS,
        PUBLISHED_FEW,
    ),
    Claim(
        "garcin-2023-binary",
        PAPER,
        "Table 1",
        "The binary methods (assume-negative, expected-positive, ROLE) are worse than cross-entropy.",
        tuple(
            Part(f"cross-entropy over {rival}", difference("cross-entropy", rival, "average-5 softmax"))
            for rival in ("assume-negative", "expected-positive", "ROLE")
        ),
        ALL,
        TABLE_1,
    ),
    Claim(
        "garcin-2023-noised",
        PAPER,
        "Table 1",
        "For sets of five labels on average the two-head loss is better than the noised top-5 hinge.",
        (Part("two-head over noised", difference("two-head, k = 5", "noised", "average-5 softmax")),),
        ALL,
        TABLE_1,
    ),
    Claim(
        "garcin-2023-singles",
        PAPER,
        "Figure 4",
        "Sets of the two-head loss hold a single label less often than those of cross-entropy.",
        tuple(
            Part(f"k = {k}", difference("cross-entropy", f"two-head, k = {k}", f"average-{k} softmax singles")) for k in (5, 10)
        ),
        ALL,
    ),
    Claim(
        "garcin-2023-sizes",
        PAPER,
        "Section 6",
        "A threshold fitted on validation rows gives sets of k labels on average on test rows.",
        tuple(
            Part(f"{arm}: labels beyond 5", Number(arm, "average-5 softmax size") - 5.0, Within(0.15), unit="labels")
            for arm in ("cross-entropy", "two-head, k = 5")
        ),
        ALL,
        remark="A threshold holds for rows like those it was fitted on. Validation rows of CIFAR-100-LT have the long tail of "
        "the training rows and test rows have none, so sets become larger there, and those of cross-entropy more so: "
        "accuracies of sets on CIFAR-100-LT are compared at the same size on validation rows, not on test rows.",
    ),
    Claim(
        "garcin-2023-alpha",
        PAPER,
        "Appendix A",
        "α hardly matters over two decades, from 0.1 to 10.",
        tuple(
            Part(f"α = {a:g} over α = 1", difference(f"α = {a:g}", "α = 1", "average-5 softmax"), Within(0.5))
            for a in ALPHAS
            if a != 1
        ),
        ("flora-alpha", "cifar100-alpha"),
    ),
    Claim(
        "garcin-2023-batches",
        PAPER,
        "Appendix A",
        "The larger the batch, the more the two-head loss gains over cross-entropy.",
        (Part("slope over the logarithm of the rows, to base 2", slope(DOUBLINGS, [_batch_gain(rows) for rows in BATCHES])),),
        ("flora-batches", "cifar100-batches"),
    ),
    Claim(
        "garcin-2023-temperature",
        PAPER,
        "Table 1, with a rival that needs no training",
        "The two-head loss is still better than cross-entropy with a fitted temperature.",
        tuple(
            Part(f"k = {k}", Number(f"two-head, k = {k}", f"average-{k}") - Number("cross-entropy", f"average-{k}"))
            for k in SIZES
        ),
        ALL,
    ),
    Claim(
        "garcin-2023-prior",
        PAPER,
        "Table 2, with a rival that needs no training",
        "In classes with few examples the two-head loss is better than cross-entropy by probability over prior.",
        tuple(
            Part(
                f"k = {k}",
                Number(f"two-head, k = {k}", f"macro-average-{k} softmax few")
                - Number("cross-entropy", f"macro-average-{k} prior few"),
            )
            for k in (5, 10)
        ),
        TAILS,
    ),
)
