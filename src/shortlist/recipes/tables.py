"""Mulan's tables: a few thousand rows of features, several labels each. The settings are ours: no published numbers."""

from shortlist.training.recipe import Recipe

MULAN = 'Tsoumakas, Spyromitros-Xioufis, Vilcek, Vlahavas, "Mulan", JMLR 12:2411–2414, 2011 (the data)'


def mulan(name: str) -> Recipe:
    """Calibrated probabilities of every label with a small network on a table of Mulan.

    The rows are few, so the network is small, its weights decay, and a running average of them is what is kept.
    ``backbone=features`` makes the model linear.

    Args:
        name: the dataset, as its files are called.

    >>> mulan("scene").data
    'mulan:{path},name=scene'
    """
    return Recipe(
        f"mulan-{name}",
        f"mulan:{{path}},name={name}",
        method="spa-label-pair",
        summary=f"the table {name} of Mulan, calibrated probability of each label; seconds on a laptop",
        reference=MULAN,
        grid={"lr": (3e-4, 1e-3, 3e-3), "pair_weight": (0.3, 1.0, 3.0)},
        backbone="mlp-256",
        augmentation="none",
        epochs=60,
        batch_size=64,
        optimizer="adamw",
        lr=1e-3,
        weight_decay=1e-2,
        schedule="cosine",
        ema=0.99,
    )


def mulan_scene() -> Recipe:
    """Scenes: 2,407 pictures as 294 numbers, 6 labels."""
    return mulan("scene")


def mulan_yeast() -> Recipe:
    """Genes of yeast: 2,417 rows of 103 numbers, 14 groups of functions."""
    return mulan("yeast")
