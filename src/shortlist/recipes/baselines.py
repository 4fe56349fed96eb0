"""Pl@ntNet-300K: cross-entropy with many networks (Garcin, thesis, section 3.3.2), the baselines of its figures."""

from typing import Any, NamedTuple

from shortlist.training.recipe import Recipe
from shortlist.words import counted

THESIS = 'Garcin, "Set-valued classification with applications to citizen science", thesis'


class Family(NamedTuple):
    """Networks that are trained alike: Table 3.3 of the thesis."""

    lr: float
    epochs: int
    milestones: tuple[int, ...]
    backbones: tuple[str, ...]


def _of(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{package}:{name}" for name in names)


FAMILIES = {
    "": Family(
        0.01,
        30,
        (20, 25),
        (
            *_of("torchvision", "resnet50", "resnet18", "resnet34", "resnet101", "resnet152"),
            *_of("torchvision", "densenet121", "densenet161", "densenet169", "densenet201"),
            *_of("torchvision", "mobilenet_v2", "mobilenet_v3_large", "inception_v3", "shufflenet_v2_x1_0"),
            *_of("torchvision", "wide_resnet50_2", "wide_resnet101_2"),
            *_of("timm", "inception_v4", "inception_resnet_v2"),
        ),
    ),
    "small": Family(0.001, 30, (20, 25), _of("torchvision", "mobilenet_v3_small", "alexnet", "vgg11", "squeezenet1_0")),
    "efficientnet": Family(0.01, 20, (10, 15), _of("torchvision", *(f"efficientnet_b{number}" for number in range(5)))),
    "transformer": Family(5e-4, 20, (15,), _of("timm", "vit_base_patch16_224")),
}
# All networks start from weights of ImageNet; pictures are resized to 256 and cropped to 224, at random or in the middle.
TRAINING: dict[str, Any] = {
    "pretrained": True,
    "size": 224,
    "augmentation": "crop-flip",
    "test_fit": "center",
    "batch_size": 32,
    "optimizer": "sgd",
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "schedule": "step",
    "calibration_share": 0.0,
}


def plantnet_cross_entropy(family: str = "") -> Recipe:
    """Cross-entropy on Pl@ntNet-300K: one network, and in the grid all networks that the thesis trains like it.

    ``shortlist tune --recipe plantnet-cross-entropy PATH`` trains them all. Figure 3.9 has ``method=smooth-topk`` with the same
    settings.

    Args:
        family: ``""``, ``"small"``, ``"efficientnet"`` or ``"transformer"``: each has its own learning rate and epochs.

    >>> plantnet_cross_entropy("efficientnet").milestones
    (10, 15)
    """
    chosen = FAMILIES[family]
    network, networks = chosen.backbones[0].partition(":")[2], counted(len(chosen.backbones), "network")
    return Recipe(
        "-".join(part for part in ("plantnet-cross-entropy", family) if part),
        "plantnet-300k:{path}",
        method="cross-entropy",
        summary=f"the baseline: cross-entropy, {network} pretrained on ImageNet; {networks} in its grid",
        reference=f"{THESIS}, section 3.3.2, Tables 3.1 and 3.3",
        grid={"backbone": chosen.backbones},
        backbone=chosen.backbones[0],
        lr=chosen.lr,
        epochs=chosen.epochs,
        milestones=chosen.milestones,
        monitor="average-5",
        rule="average-k:5",
        link="softmax",
        calibration="none",
        **TRAINING,
    )
