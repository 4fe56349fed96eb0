"""ImageNet: top-1 and top-5 sets (Garcin 2022, Table 9)."""

from shortlist.errors import InputError
from shortlist.recipes.cifar100 import GARCIN_2022
from shortlist.training.recipe import Recipe

SIZES = (1, 5)


def imagenet_top_k(k: int = 5) -> Recipe:
    """Top-k sets with the noised loss, ResNet-18.

    The rivals at the paper's parameters: ``method=cross-entropy weight_decay=0.0001``, and ``smooth-topk`` with
    ``temperature=0.1 lr=1 weight_decay=0.000025``. The paper says "a batch size of 120 epochs", which is read as 120 pictures,
    and tests on the official validation set. Not given: momentum and augmentation.

    Args:
        k: 1 or 5.

    >>> imagenet_top_k().milestones
    (30, 60, 90)
    """
    if k not in SIZES:
        raise InputError(f"k: expected 1 or 5, whose numbers are published, got {k}: take one of these and change k")
    return Recipe(
        f"imagenet-top{k}",
        "imagenet:{path},test=val",
        method="noised-topk",
        parameters={"k": k, "epsilon": 0.5, "samples": 10},
        summary=f"top-{k} sets for 1,000 classes, ResNet-18",
        reference=f"{GARCIN_2022}, Table 9",
        grid={"epsilon": (0.1, 0.5, 1.0)},
        backbone="resnet-18/4",
        size=224,
        augmentation="resized-crop-flip",
        test_fit="center",
        epochs=120,
        batch_size=120,
        optimizer="sgd",
        lr=0.1,
        momentum=0.9,
        weight_decay=1.5e-4,
        schedule="step",
        milestones=(30, 60, 90),
        calibration_share=0.0,
        monitor=f"top-{k}",
        rule=f"top-k:{k}",
    )
