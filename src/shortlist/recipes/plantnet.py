"""Pl@ntNet-300K: 1,081 species with a long tail. Top-k sets, macro (Garcin 2022), and k labels on average (Garcin 2023)."""

from typing import Any

from shortlist.errors import InputError
from shortlist.recipes.cifar100 import ALPHAS, GARCIN_2022, GARCIN_2023
from shortlist.training.recipe import Recipe

# Garcin 2022, appendix E.
MARGINS, EPSILONS = (0.2, 0.3, 0.4, 0.5), (0.01, 0.05, 0.1)

# Both papers: pretrained on ImageNet, 30 epochs, Nesterov momentum 0.9, batches of 32. Not given there: the size of
# pictures and what is done to them; the data's own paper (Garcin 2021; thesis, section 3.5) resizes to 256 and cuts windows of
# 224. It does not speak of flips, without which there is no window here.
TRAINING: dict[str, Any] = {
    "pretrained": True,
    "size": 224,
    "augmentation": "crop-flip",
    "test_fit": "center",
    "epochs": 30,
    "batch_size": 32,
    "optimizer": "sgd",
    "lr": 2e-3,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "schedule": "step",
    "calibration_share": 0.0,
}


def plantnet_top_k(k: int = 5) -> Recipe:
    """Top-k sets with the noised loss and larger margins for rarer classes.

    The rivals at the paper's parameters: ``method=cross-entropy``, ``focal``, ``ldam``, ``noised-topk`` (all by default) and
    ``smooth-topk`` with ``temperature=0.1``.

    Args:
        k: 1, 3, 5 or 10.

    >>> plantnet_top_k(3).monitor
    'macro-top-3'
    """
    _check_size(k, (1, 3, 5, 10))
    return Recipe(
        f"plantnet-top{k}",
        "plantnet-300k:{path}",
        method="noised-topk-imbalanced",
        parameters={"k": k, "epsilon": 0.01, "samples": 5, "max_margin": 0.2, "scale": 60.0},
        summary=f"top-{k} sets for a long tail, macro accuracy, ResNet-50 pretrained on ImageNet",
        reference=f"{GARCIN_2022}, Table {8 if k == 10 else '5 and Table 8'}",
        grid={"max_margin": MARGINS, "epsilon": EPSILONS, "scale": (50.0, 60.0)},
        backbone="torchvision:resnet50",
        milestones=(20, 25),
        monitor=f"macro-top-{k}",
        rule=f"top-k:{k}",
        **TRAINING,
    )


def plantnet_average_k(k: int = 5) -> Recipe:
    """Sets of k labels on average with the two-head loss.

    The rivals at the paper's parameters: ``method=cross-entropy``, ``assume-negative``, ``noised-topk`` (by default) and
    ``expected-positive`` with ``beta=0.001``.

    Args:
        k: 2, 3, 5 or 10.

    >>> plantnet_average_k(10).monitor
    'average-10'
    """
    _check_size(k, (2, 3, 5, 10))
    return Recipe(
        f"plantnet-average{k}",
        "plantnet-300k:{path}",
        method="average-k",
        parameters={"k": k, "alpha": 5.0},
        summary=f"sets of {k} labels on average with the two-head loss, ResNet-18 pretrained on ImageNet",
        reference=f"{GARCIN_2023}, Table 2",
        grid={"alpha": ALPHAS},
        backbone="torchvision:resnet18",
        milestones=(25,),
        monitor=f"average-{k}",
        rule=f"average-k:{k}",
        link="softmax",  # which the paper thresholds, for every method
        calibration="none",
        **TRAINING,
    )


def _check_size(k: int, published: tuple[int, ...]) -> None:
    if k not in published:
        raise InputError(
            f"k: expected one of {', '.join(map(str, published))}, whose numbers are published, got {k}: take one of these "
            "and change k, monitor and rule"
        )
