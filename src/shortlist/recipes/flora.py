"""Flora: recipes for the garden whose optimum is known. They need no data but a seed, so anybody can run them anywhere."""

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

    Pictures are drawn rather than collected, so that one pass over many of them replaces several passes over few, and nothing
    can be learnt by heart; augmentation has nothing to add, and neither has a loss that is made for few pictures: cross-entropy
    comes nearer to the best possible sets (2.0 points away after 300,000 pictures, average-k 2.4; one run each).

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
    """Plots with any number of species, none included: the calibrated multi-label loss with its pairs of labels.

    The loss is a mean over 120 labels, nearly all absent, so its gradients are small: SGD hardly moves. AdamW, which does not
    see their size, doubles the mean average precision of the same ten epochs (25 % and 11 % for binary cross-entropy, one run
    each on an H200).
    """
    return Recipe(
        "flora-quadrats",
        "flora:kind=quadrats,train=40000,val=4000,test=8000",
        method="spa-label-pair",
        summary="plots of any number of species, 64 x 64: calibrated presence of each species; minutes on two cores",
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
    """Specimens of which some are of no species with a name: the classifier that may answer with nothing."""
    return Recipe(
        "flora-open-set",
        "flora:kind=open-set,train=60000,val=4000,test=8000",
        method="quasibinary",
        summary="specimens of which some have no name: answers with one species or none; minutes on two cores",
        grid={"lr": (0.03, 0.1, 0.3)},
        backbone="resnet-8x2/2",
        augmentation="none",
        epochs=5,
        batch_size=128,
        lr=0.1,
        schedule="one-cycle",
    )
