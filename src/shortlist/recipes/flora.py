"""Recipes for Flora, a synthetic dataset whose optimum is known. They need no files: the pictures are drawn from a seed."""

from shortlist.training.recipe import Recipe


def flora_seconds() -> Recipe:
    """A first look: small pictures of 30 species, about ten seconds on two cores.

    >>> flora_seconds().data
    'flora:species=30,genera=8,train=20000,val=2000,test=4000,size=16'
    """
    return Recipe(
        "flora-seconds",
        "flora:species=30,genera=8,train=20000,val=2000,test=4000,size=16",
        method="average-k",
        parameters={"k": 3},
        summary="a first look: 30 species at 16 x 16, sets of 3 labels on average; seconds on a laptop",
        grid={"alpha": (0.1, 0.3, 1.0, 3.0)},
        backbone="resnet-8/2",
        augmentation="none",
        epochs=2,
        batch_size=64,
        lr=0.2,
        schedule="one-cycle",
    )


def flora_minutes() -> Recipe:
    """The demo: 120 species with a long tail, every training picture seen once.

    Since pictures are generated, one pass over many of them replaces several passes over few, and the network cannot memorise
    them. Augmentation and losses designed for little data therefore do not help: cross-entropy comes closer to the best
    possible sets (2.0 points away after 300,000 pictures, average-k 2.4; one run each).

    >>> recipe = flora_minutes()
    >>> recipe.epochs * recipe.epoch_rows
    340000
    """
    return Recipe(
        "flora-minutes",
        "flora:train=340000,val=8000,test=20000",
        method="cross-entropy",
        rule="average-k:5",
        summary="the demo: 120 species, one pass over 340,000 pictures, sets of 5 labels on average; minutes on two cores",
        grid={"lr": (0.1, 0.3), "weight_decay": (2e-4, 5e-4)},
        backbone="resnet-8x2/2",
        augmentation="none",
        epochs=10,
        epoch_rows=34_000,
        batch_size=128,
        lr=0.3,
        weight_decay=5e-4,
        schedule="one-cycle",
    )


def flora_quadrats() -> Recipe:
    """Plots with any number of species, possibly none: the calibrated multi-label loss with label pairs.

    The loss is a mean over 120 labels, nearly all absent, so its gradients are small: SGD hardly moves. AdamW, which is
    invariant to their scale, doubles the mean average precision of the same ten epochs
    (25 % and 11 % for binary cross-entropy, one run each on an H200).
    """
    return Recipe(
        "flora-quadrats",
        "flora:kind=quadrats,train=40000,val=4000,test=8000",
        method="spa-label-pair",
        summary="plots with any number of species, 64 x 64: calibrated probability of each species; minutes on two cores",
        grid={"pair_weight": (0.3, 1.0, 3.0), "lr": (0.003, 0.01)},
        backbone="resnet-8x2/4",
        augmentation="flip",
        epochs=5,
        batch_size=128,
        optimizer="adamw",
        lr=0.01,
        weight_decay=1e-2,
        schedule="one-cycle",
    )


def flora_open_set() -> Recipe:
    """Specimens some of which belong to no known species: the classifier may answer with the empty set."""
    return Recipe(
        "flora-open-set",
        "flora:kind=open-set,train=60000,val=4000,test=8000",
        method="quasibinary",
        summary="specimens some of which belong to no known species: one label or none; minutes on two cores",
        grid={"lr": (0.03, 0.1, 0.3)},
        backbone="resnet-8x2/2",
        augmentation="none",
        epochs=5,
        batch_size=128,
        lr=0.1,
        schedule="one-cycle",
    )
