"""CIFAR60+40: pictures of 60 classes with a label and of 40 without one (Liao, Table II)."""

from typing import Any

from shortlist.training.recipe import Recipe

LIAO = 'Liao, Gavves, Oh, Snoek, "Quasibinary classifier for images with zero and multiple labels"'

# Section V. It says "momentum set to 1e-4", which is read as momentum 0.9 and weight decay 1e-4.
PROTOCOL: dict[str, Any] = {
    "epochs": 200,
    "batch_size": 64,
    "optimizer": "sgd",
    "lr": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "schedule": "step",
    "milestones": (100, 150),
    "calibration_share": 0.0,
}


def cifar60_40() -> Recipe:
    """The quasibinary classifier, which may answer with the empty set: none of the known classes.

    Not given: augmentation, and which classes lose their label. The rivals: ``method=bce``, ``softmax-uniform`` and
    ``softmax-confidence``.

    Published are the accuracy on pictures with a label, the mean largest confidence on those without (lower is better), and how
    well that confidence tells the two apart, as the area under the ROC curve.

    >>> cifar60_40().data
    'cifar100:{path},unlabelled=2'
    """
    return Recipe(
        "cifar60-40",
        "cifar100:{path},unlabelled=2",
        method="quasibinary",
        summary="one label or none: CIFAR-100 with the labels of 40 classes removed, ResNet-18",
        reference=f"{LIAO}, Table II",
        grid={"lr": (0.03, 0.1)},
        backbone="resnet-18",
        augmentation="shift-flip",
        **PROTOCOL,
    )
