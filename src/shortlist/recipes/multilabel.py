"""Pictures with many labels: COCO and VOC (Cheng, Table 3), COCO and NUS-WIDE (Liao, Table III).

COCO and VOC 2012 publish no labels of their test pictures, so both papers train on ``train`` and measure on ``val``. Here
``val`` chooses the epoch and the numbers are of rows set aside from ``train``: compare with care, or score ``val`` by the
classifier of the last epoch (``validate_every`` = ``epochs``).
"""

from collections.abc import Mapping
from typing import Any

from shortlist.recipes.open_set import LIAO
from shortlist.training.recipe import Recipe

CHENG = 'Cheng, Vasconcelos, "Towards calibrated multi-label deep neural networks"'

# Cheng, section 5.1. Not given: learning rate, schedule, epochs, what is done to pictures, and the weight of label pairs.
# The loss is a mean over labels, of which few are present, so the rate is higher than fine-tuning usually takes.
FINE_TUNED: dict[str, Any] = {
    "backbone": "timm:ecaresnet50t",
    "pretrained": True,
    "size": 224,
    "augmentation": "resized-crop-flip",
    "test_fit": "center",
    "epochs": 30,
    "batch_size": 256,
    "optimizer": "sgd",
    "lr": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "schedule": "one-cycle",
    "calibration_share": 0.0,
}
RATES, PAIR_WEIGHTS = (0.03, 0.1, 0.3), (0.1, 0.3, 1.0, 3.0)

Row = tuple[float, float, float, float]
COCO: Mapping[str, Row] = {  # Table 3, ECA-ResNet50-T: mAP@y, mAP@x, ACE, MCE
    "spa": (77.8, 88.4, 5.3, 12.0),
    "spa-label-pair": (77.7, 88.6, 4.2, 9.3),
    "bce": (72.2, 82.4, 8.2, 17.0),
    "two-way": (77.2, 87.9, 17.2, 33.6),
    "focal-multilabel": (74.8, 85.9, 11.1, 20.3),  # with the φ link, which the method has here
    "asy": (77.0, 87.8, 15.0, 26.0),  # the same
}
VOC: Mapping[str, Row] = {
    "spa": (89.5, 94.1, 5.4, 14.9),
    "spa-label-pair": (89.9, 94.3, 4.9, 11.0),
    "bce": (85.1, 92.4, 6.9, 13.8),
    "two-way": (89.1, 93.7, 10.8, 22.0),
    "focal-multilabel": (87.4, 93.3, 7.0, 16.5),
    "asy": (89.1, 94.3, 12.9, 24.7),
}


def coco_spa() -> Recipe:
    """The calibrated asymmetric loss on COCO 2014; baselines ``method=bce``, ``asy``, ``focal-multilabel`` or ``two-way``.

    >>> coco_spa().expected["ACE"], coco_spa().expected["bce: ACE"]
    (5.3, 8.2)
    """
    return _cheng("coco-spa", "coco:{path},year=2014", "spa", COCO, "objects in COCO")


def coco_spa_label_pair() -> Recipe:
    """The same with label pairs.

    >>> coco_spa_label_pair().expected["MCE"]
    9.3
    """
    return _cheng("coco-spa-label-pair", "coco:{path},year=2014", "spa-label-pair", COCO, "objects in COCO")


def voc_spa() -> Recipe:
    """The calibrated asymmetric loss on VOC 2012; baselines ``method=bce``, ``asy``, ``focal-multilabel`` or ``two-way``."""
    return _cheng("voc-spa", "voc:{path},year=2012", "spa", VOC, "objects in VOC 2012")


def voc_spa_label_pair() -> Recipe:
    """The same with label pairs."""
    return _cheng("voc-spa-label-pair", "voc:{path},year=2012", "spa-label-pair", VOC, "objects in VOC 2012")


def _cheng(name: str, data: str, method: str, table: Mapping[str, Row], what: str) -> Recipe:
    pairs = method == "spa-label-pair"
    expected: dict[str, float] = {}
    for other in (method, *(rival for rival in table if rival != method)):
        start = "" if other == method else f"{other}: "
        expected |= {f"{start}{metric}": v for metric, v in zip(("mAP@y", "mAP@x", "ACE", "MCE"), table[other], strict=True)}
    return Recipe(
        name,
        data,
        method=method,
        summary=f"{what}, calibrated probabilities with SPA{' and label pairs' if pairs else ''}, ECA-ResNet50-T",
        reference=f"{CHENG}, Table 3",
        expected=expected,
        grid={"lr": RATES} | ({"pair_weight": PAIR_WEIGHTS} if pairs else {}),
        **FINE_TUNED,
    )


def coco_quasibinary() -> Recipe:
    """The quasibinary classifier on COCO 2014, answering with 4 labels; baseline with ``method=bce``.

    >>> coco_quasibinary().expected["ECE of the top 4"], coco_quasibinary().expected["bce: ECE of the top 4"]
    (2.8, 26.8)
    """
    return _liao("coco-quasibinary", "coco:{path},year=2014", (54.7, 2.8), (51.2, 26.8), "objects in COCO")


def nus_wide_quasibinary() -> Recipe:
    """The quasibinary classifier on NUS-WIDE, as the table that ``examples/conversion/convert_nus_wide.py`` writes.

    The table lies beside the folder Flickr, as its paths start there. 150,000 pictures train and 50,000 test in the paper.
    """
    data = "table:{path},separator=|"
    return _liao("nus-wide-quasibinary", data, (43.5, 3.3), (40.7, 23.6), "81 concepts of NUS-WIDE")


def _liao(name: str, data: str, own: tuple[float, float], binary: tuple[float, float], what: str) -> Recipe:
    metrics = ("macro-F1 of the top 4", "ECE of the top 4")
    return Recipe(
        name,
        data,
        method="quasibinary",
        summary=f"{what}, 4 labels per picture, VGG-16 pretrained on ImageNet",
        reference=f"{LIAO}, Table III",
        expected=dict(zip(metrics, own, strict=True))
        | {f"bce: {metric}": number for metric, number in zip(metrics, binary, strict=True)},
        grid={"lr": (3e-4, 1e-3, 3e-3)},
        # Section V.C: a VGG-16, fine-tuned for 20 epochs; batch and milestones are those of the common protocol. Not given:
        # the rate of fine-tuning (the 0.1 of the protocol is for weights that start at random), size and augmentation.
        backbone="torchvision:vgg16",
        pretrained=True,
        size=224,
        augmentation="crop-flip",
        test_fit="center",
        epochs=20,
        batch_size=64,
        optimizer="sgd",
        lr=1e-3,
        momentum=0.9,
        weight_decay=1e-4,
        schedule="step",
        milestones=(10, 15),
        calibration_share=0.0,
        rule="top-k:4",
    )
