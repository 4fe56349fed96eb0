"""CIFAR60+40: pictures of 60 classes with a label and of 40 without one (Liao, Table II)."""

from shortlist.training.recipe import Recipe

LIAO = 'Liao, Gavves, Oh, Snoek, "Quasibinary classifier for images with zero and multiple labels"'


def cifar60_40() -> Recipe:
    """The quasibinary classifier, which may answer with the empty set: none of the known classes.

    The paper says "momentum set to 1e-4", which is read as momentum 0.9 and weight decay 1e-4. Not given: augmentation, and
    which classes lose their label. The rivals: ``method=bce``, ``softmax-uniform`` and ``softmax-confidence``.

    Expected: the accuracy on pictures with a label (``accuracy IN``), the mean largest confidence on those without (``MMC
    OUT``, lower is better), and how well that confidence tells the two apart (``AUROC``).

    >>> recipe = cifar60_40()
    >>> recipe.expected["MMC OUT"], recipe.expected["bce: MMC OUT"]
    (6.9, 14.7)
    """
    return Recipe(
        "cifar60-40",
        "cifar100:{path},unlabelled=2",
        method="quasibinary",
        summary="one label or none: CIFAR-100 with the labels of 40 classes removed, ResNet-18",
        reference=f"{LIAO}, Table II",
        expected=_numbers("", 80.6, 6.9, 91.3)
        | _numbers("bce: ", 77.8, 14.7, 90.1)
        | _numbers("softmax-uniform: ", 80.7, 59.8, 80.0)
        | _numbers("softmax-confidence: ", 45.2, 7.4, 76.4),
        grid={"lr": (0.03, 0.1)},
        backbone="resnet-18",
        augmentation="shift-flip",
        epochs=200,
        batch_size=64,
        optimizer="sgd",
        lr=0.1,
        momentum=0.9,
        weight_decay=1e-4,
        schedule="step",
        milestones=(100, 150),
        calibration_share=0.0,
    )


def _numbers(method: str, accuracy: float, confidence: float, area: float) -> dict[str, float]:
    return {f"{method}accuracy IN": accuracy, f"{method}MMC OUT": confidence, f"{method}AUROC": area}
