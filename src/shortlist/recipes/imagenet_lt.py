"""ImageNet-LT: 1,000 classes, 115,836 pictures with a long tail, tested on as many pictures of each class (Garcin 2022)."""

from shortlist.errors import InputError
from shortlist.recipes.cifar100 import GARCIN_2022
from shortlist.recipes.plantnet import EPSILONS, MARGINS
from shortlist.training.recipe import Recipe

TOP = {  # Table 6: top-k accuracy at k = 1, 3, 5
    "": (38.7, 56.5, 63.5),
    "cross-entropy: ": (37.0, 55.5, 63.2),
    "smooth-topk: ": (37.3, 42.0, 39.0),
    "focal: ": (37.7, 56.2, 63.8),
    "ldam: ": (39.3, 56.0, 63.1),
}
FEW_SHOT = {  # the same of classes with fewer than 20 training pictures
    "": (7.6, 27.0, 37.0),
    "cross-entropy: ": (1.5, 8.2, 15.8),
    "smooth-topk: ": (1.3, 0.0, 0.0),
    "focal: ": (2.4, 10.2, 17.8),
    "ldam: ": (10.5, 24.1, 32.9),
}
SIZES = (1, 3, 5)


def imagenet_lt_top_k(k: int = 5) -> Recipe:
    """Top-k sets with the noised loss and larger margins for rarer classes.

    Not given: momentum, the size of pictures and what is done to them, where the weights start (here at random) and the scale
    of the cosines, which is the 50 that appendix E calls a good default. The rivals at the paper's parameters:
    ``method=cross-entropy``, ``focal`` with ``gamma=1``, ``ldam`` with ``max_margin=0.4`` and ``smooth-topk`` with
    ``temperature=0.1``.

    Args:
        k: 1, 3 or 5.

    >>> imagenet_lt_top_k().expected["top-5, few shot"], imagenet_lt_top_k().expected["cross-entropy: top-5, few shot"]
    (37.0, 15.8)
    """
    if k not in SIZES:
        raise InputError(f"k: expected 1, 3 or 5, whose numbers are published, got {k}: take one of these and change k")
    place = SIZES.index(k)
    return Recipe(
        f"imagenet-lt-top{k}",
        "imagenet-lt:{path}",
        method="noised-topk-imbalanced",
        parameters={"k": k, "epsilon": 0.1, "samples": 5, "max_margin": 0.4, "scale": 50.0},
        summary=f"top-{k} sets for a long tail of 1,000 classes, ResNet-34",
        reference=f"{GARCIN_2022}, Table 6",
        expected={f"{method}top-{k}": numbers[place] for method, numbers in TOP.items()}
        | {f"{method}top-{k}, few shot": numbers[place] for method, numbers in FEW_SHOT.items()},
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
