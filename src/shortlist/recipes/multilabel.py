"""Pictures with many labels: COCO, VOC, WIDER Attribute and VISPR (Cheng, Table 3), COCO and NUS-WIDE (Liao, Table III).

COCO and VOC 2012 publish no labels of their test pictures, so both papers train on ``train`` and measure on ``val``, and so do
these recipes (``test=val``): rows set aside from ``train`` choose the epoch.
"""

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


# As counted in Table 2: pictures of COCO that have an annotation, persons of WIDER Attribute, and of the last two train and val
# together.
CHENG_DATA = {
    "coco": ("coco:{path},year=2014,test=val,unannotated=drop", "objects in COCO"),
    "voc": ("voc:{path},year=2012,test=val", "objects in VOC 2012"),
    "wider-attribute": ("wider-attribute:{path},trainval=true", "attributes of persons in WIDER Attribute"),
    "vispr": ("vispr:{path},trainval=true", "privacy attributes in VISPR"),
}


def calibrated_multilabel(name: str, method: str = "spa") -> Recipe:
    """The calibrated asymmetric loss, with label pairs or without.

    The baselines: ``method=bce``, ``two-way``, ``focal-multilabel`` and ``asy``, the last two with the link φ or with
    ``probabilities=sigmoid``; in Table 4 also ``bce-label-pair``, ``focal-label-pair`` and ``asymmetric-label-pair``. The
    second network of the paper is ``backbone=timm:vit_base_patch32_224``.

    Args:
        name: ``"coco"``, ``"voc"``, ``"wider-attribute"`` or ``"vispr"``.
        method: ``"spa"`` or ``"spa-label-pair"``.

    >>> calibrated_multilabel("voc").data
    'voc:{path},year=2012,test=val'
    """
    data, what = CHENG_DATA[name]
    pairs = method == "spa-label-pair"
    return Recipe(
        f"{name}-{method}",
        data,
        method=method,
        summary=f"{what}, calibrated probabilities with SPA{' and label pairs' if pairs else ''}, ECA-ResNet50-T",
        reference=f"{CHENG}, Table 3",
        grid={"lr": RATES} | ({"pair_weight": PAIR_WEIGHTS} if pairs else {}),
        **FINE_TUNED,
    )


def coco_quasibinary() -> Recipe:
    """The quasibinary classifier on COCO 2014, answering with 4 labels; baselines with ``method=bce`` and ``softmax``."""
    return _liao("coco-quasibinary", "coco:{path},year=2014,test=val", "objects in COCO")


def nus_wide_quasibinary() -> Recipe:
    """The quasibinary classifier on NUS-WIDE, as the table that ``examples/conversion/convert_nus_wide.py`` writes.

    The table lies beside the folder Flickr, as its paths start there. 150,000 pictures train and 50,000 test in the paper.
    """
    data = "table:{path},separator=|"
    return _liao("nus-wide-quasibinary", data, "81 concepts of NUS-WIDE")


def _liao(name: str, data: str, what: str) -> Recipe:
    return Recipe(
        name,
        data,
        method="quasibinary",
        summary=f"{what}, 4 labels per picture, VGG-16 pretrained on ImageNet",
        reference=f"{LIAO}, Table III",
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
