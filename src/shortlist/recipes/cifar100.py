"""CIFAR-100: top-5 sets (Garcin 2022) and sets of 5 labels on average (Garcin 2023), and a quick training for one GPU."""

from typing import Any

from shortlist.training.recipe import Recipe

GARCIN_2022 = 'Garcin, Servajean, Joly, Salmon, "Stochastic smoothing of the top-K calibrated hinge loss", 2022'
GARCIN_2023 = 'Garcin, Servajean, Joly, Salmon, "A two-head loss function for deep average-K classification", 2023'

# Garcin 2023, section 5: "[0.1, 10.0] is a good default search range"; the values that the paper chose are among them.
ALPHAS = (0.1, 0.3, 1.0, 3.0, 5.0, 10.0)

# Both papers train alike (2022, section 4.4; 2023, section 6.2). Not given: augmentation, which is the usual one here.
# 5,000 of the 50,000 training pictures choose the epoch and fit the threshold, all of them both: calibration_share 0.
TRAINING: dict[str, Any] = {
    "backbone": "densenet-40-40",
    "augmentation": "shift-flip",
    "epochs": 300,
    "batch_size": 64,
    "optimizer": "sgd",
    "lr": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "schedule": "step",
    "milestones": (150, 225),
    "calibration_share": 0.0,
}


def cifar100_top5(label_noise: float = 0.0) -> Recipe:
    """The noised top-5 loss, with a share of the training labels replaced by others of the same superclass.

    The baselines are ``method=cross-entropy`` and ``method=smooth-topk``, whose default temperature 1 is the paper's.

    Args:
        label_noise: the share; the paper has 0, 0.1, 0.2, 0.3 and 0.4.

    >>> cifar100_top5(0.3).label_noise
    0.3
    """
    return Recipe(
        "cifar100-top5",
        "cifar100:{path}",
        method="noised-topk",
        parameters={"k": 5, "epsilon": 0.2, "samples": 10},
        summary="top-5 sets with the noised loss, DenseNet 40-40; label_noise=0.3 adds label noise as in the paper",
        reference=f"{GARCIN_2022}, Tables 2, 3, 4 and 7",
        grid={"epsilon": (0.01, 0.1, 0.2, 1.0, 10.0)},  # those of Table 2 that train, and the paper's choice
        label_noise=label_noise,
        # Set explicitly: methods that are not designed for top-5 have other defaults.
        monitor="top-5",
        rule="top-k:5",
        **TRAINING,
    )


def cifar100_average5() -> Recipe:
    """The two-head loss for sets of 5 labels on average.

    Baselines: ``method=cross-entropy``, ``role``, ``assume-negative``, ``expected-positive`` (all at the paper's parameters by
    default) and ``noised-topk`` with ``epsilon=0.2 samples=10``.

    >>> cifar100_average5().rule
    'average-k:5'
    """
    return Recipe(
        "cifar100-average5",
        "cifar100:{path}",
        method="average-k",
        parameters={"k": 5, "alpha": 0.3},
        summary="sets of 5 labels on average with the two-head loss, DenseNet 40-40",
        reference=f"{GARCIN_2023}, Table 1",
        grid={"alpha": ALPHAS},
        monitor="average-5",
        rule="average-k:5",
        # The paper thresholds the softmax of the scores of every method, without calibration.
        link="softmax",
        calibration="none",
        **TRAINING,
    )


def cifar100_resnet18() -> Recipe:
    """Sets of 5 labels on average with a ResNet-18, in minutes on one GPU. The settings are ours: no published numbers."""
    return Recipe(
        "cifar100-resnet18",
        "cifar100:{path}",
        method="average-k",
        parameters={"k": 5, "alpha": 0.3},
        summary="sets of 5 labels on average, ResNet-18, 100 epochs; minutes on one GPU",
        reference=f"{GARCIN_2023} (the method; the setting is not the paper's)",
        grid={"alpha": ALPHAS},
        backbone="resnet-18",
        augmentation="shift-flip",
        epochs=100,
        batch_size=512,
        optimizer="sgd",
        lr=0.4,
        weight_decay=5e-4,
        schedule="one-cycle",
        precision="auto",
        compile=True,
    )


# Few and wide layers and strong augmentation: what takes a ResNet-18 a hundred epochs takes these thirty.
FAST_TRAINING: dict[str, Any] = {
    "augmentation": "reflected-shift-flip",
    "erase": 0.25,
    "mirror": True,
    "batch_size": 512,
    "optimizer": "sgd",
    "lr": 0.4,
    "weight_decay": 5e-4,
    "schedule": "one-cycle",
    "validate_every": 6,
    "compile": True,
}


def cifar100_resnet9() -> Recipe:
    """Cross-entropy with a wide ResNet-9, 30 epochs of about a second on one GPU; for comparing methods trained alike.

    The settings are ours: no published numbers.
    """
    return Recipe(
        "cifar100-resnet9",
        "cifar100:{path}",
        method="cross-entropy",
        summary="cross-entropy, wide ResNet-9, 30 epochs of about a second on one GPU",
        reference=f"{GARCIN_2023} (the task; neither network nor method are the paper's)",
        grid={"lr": (0.2, 0.4, 0.8)},
        backbone="resnet9-128",
        epochs=30,
        monitor="top-5",
        rule="average-k:5",
        **FAST_TRAINING,
    )
