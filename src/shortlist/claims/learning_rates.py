"""Does the learning rate decide? The claims on CIFAR-100 again, each method with a rate of its own.

Elsewhere all methods share one, which was chosen for cross-entropy; losses whose gradients are smaller may need a larger one.
"""

from collections.abc import Callable, Mapping
from typing import Any

from shortlist.claims.claim import Claim, Part, Within
from shortlist.claims.experiment import Arm
from shortlist.claims.garcin_2022 import NOISED
from shortlist.claims.garcin_2023 import SOFTMAX, for_average, two_head
from shortlist.claims.grounds import CIFAR100, on_cifar100
from shortlist.claims.label_training import one_of_many_arm
from shortlist.claims.liao import CIFAR_ONE, ONE_OF_MANY
from shortlist.claims.statistic import Statistic, Tuned
from shortlist.claims.training import training_arm
from shortlist.training.recipe import Recipe

PAPER = "beyond"
FACTORS = (0.25, 1.0, 4.0, 16.0)
NOISY: dict[str, dict[str, Any]] = {
    "cross-entropy": {},
    "noised": {**NOISED, "epsilon": 1.0},
    "smooth hinge": {"method": "smooth-topk", "k": 5},
}
AVERAGE: dict[str, dict[str, Any]] = {
    "cross-entropy": for_average(5),
    "two-head": two_head(5, alpha=1.0),
    "assume-negative": {"method": "assume-negative", **for_average(5)},
    "expected-positive": {"method": "expected-positive", "k": 5, **for_average(5)},
    "ROLE": {"method": "role", "k": 5, **for_average(5)},
}
BINARY = ("assume-negative", "expected-positive", "ROLE")
CHOSEN = (
    f"Learning rates of {', '.join(f'{factor:g}' for factor in FACTORS)} times that of the other experiments; validation rows "
    "choose, for each method and seed."
)


def _at(method: str, factor: float) -> str:
    return f"{method}, rate × {factor:g}"


def _rates(base: Recipe, methods: Mapping[str, Mapping[str, Any]], arm: Callable[[Recipe], Arm]) -> dict[str, Arm]:
    return {
        _at(method, factor): arm(base.with_settings(**changes, lr=factor * base.lr))
        for method, changes in methods.items()
        for factor in FACTORS
    }


def _best(method: str, name: str) -> Statistic:
    return Tuned(tuple(_at(method, factor) for factor in FACTORS), name)


def _over(method: str, rival: str, name: str) -> Part:
    return Part(f"{method} over {rival}", _best(method, name) - _best(rival, name))


EXPERIMENTS = (
    on_cifar100(
        "cifar100-rates-noise",
        "labels redrawn within the superclass, p = 0.4, by the learning rate",
        _rates(CIFAR100.with_settings(label_noise=0.4), NOISY, lambda recipe: training_arm(recipe, (5,))),
        shows=("top-5", "validation"),
        seeds=3,
    ),
    on_cifar100(
        "cifar100-rates-average-k",
        "sets of five labels on average, by the learning rate",
        _rates(CIFAR100, AVERAGE, lambda recipe: training_arm(recipe, (5,))),
        shows=(SOFTMAX, "validation"),
        seeds=3,
    ),
    on_cifar100(
        "cifar100-rates-one-of-many",
        "one label a row, by the learning rate",
        _rates(CIFAR_ONE, ONE_OF_MANY, one_of_many_arm),
        shows=("error", "validation"),
        seeds=3,
    ),
)
CLAIMS = (
    Claim(
        "beyond-own-rates-noise",
        PAPER,
        "",
        "With a learning rate of its own, the noised hinge is better than cross-entropy and the smooth hinge on noisy labels.",
        (_over("noised", "cross-entropy", "top-5"), _over("noised", "smooth hinge", "top-5")),
        ("cifar100-rates-noise",),
        remark=CHOSEN,
    ),
    Claim(
        "beyond-own-rates-average-k",
        PAPER,
        "",
        "With a learning rate of its own, the two-head loss gives better sets of five labels on average than cross-entropy.",
        (_over("two-head", "cross-entropy", SOFTMAX),),
        ("cifar100-rates-average-k",),
        remark=CHOSEN,
    ),
    Claim(
        "beyond-own-rates-binary",
        PAPER,
        "",
        "With learning rates of their own, the binary methods still give worse sets of five labels than cross-entropy.",
        tuple(_over("cross-entropy", method, SOFTMAX) for method in BINARY),
        ("cifar100-rates-average-k",),
        remark=CHOSEN,
    ),
    Claim(
        "beyond-own-rates-one-of-many",
        PAPER,
        "",
        "With learning rates of their own, the quasibinary classifier is as accurate as the softmax, to one point, and the "
        "binary one less.",
        (
            Part("error: softmax less quasibinary", _best("softmax", "error") - _best("quasibinary", "error"), Within(1)),
            Part("error: binary less quasibinary", _best("binary", "error") - _best("quasibinary", "error")),
        ),
        ("cifar100-rates-one-of-many",),
        remark=CHOSEN,
    ),
)
