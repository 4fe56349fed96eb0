"""ImageNet-LT: 1,000 classes, 115,836 pictures with a long tail, tested on as many pictures of each class (Garcin 2022)."""

from shortlist.errors import InputError
from shortlist.recipes.cifar100 import GARCIN_2022
from shortlist.recipes.plantnet import EPSILONS, MARGINS
from shortlist.training.recipe import Recipe

SIZES = (1, 3, 5)


def imagenet_lt_top_k(k: int = 5) -> Recipe:
    """Top-k sets with the noised loss and larger margins for rarer classes.

    Not given: momentum, the size of pictures and what is done to them, where the weights start (here at random) and the scale
    of the cosines, which is the 50 that appendix E calls a good default. The rivals at the paper's parameters:
    ``method=cross-entropy``, ``focal`` with ``gamma=1``, ``ldam`` with ``max_margin=0.4`` and ``smooth-topk`` with
    ``temperature=0.1``.

    Args:
        k: 1, 3 or 5.

    >>> imagenet_lt_top_k(3).rule
    'top-k:3'
    """
    if k not in SIZES:
        raise InputError(f"k: expected 1, 3 or 5, whose numbers are published, got {k}: take one of these and change k")
    return Recipe(
        f"imagenet-lt-top{k}",
        "imagenet-lt:{path}",
        method="noised-topk-imbalanced",
        parameters={"k": k, "epsilon": 0.1, "samples": 5, "max_margin": 0.4, "scale": 50.0},
        summary=f"top-{k} sets for a long tail of 1,000 classes, ResNet-34",
        reference=f"{GARCIN_2022}, Table 6",
        grid={"max_margin": MARGINS, "epsilon": EPSILONS},
        backbone="resnet-34/4",
        size=224,
        augmentation="resized-crop-flip",
        test_fit="center",
        epochs=100,
        batch_size=128,
        optimizer="sgd",
        lr=1e-2,
        momentum=0.9,
        weight_decay=2e-3,
        schedule="step",
        milestones=(60, 80),
        calibration_share=0.0,
        monitor=f"top-{k}",
        rule=f"top-k:{k}",
    )
