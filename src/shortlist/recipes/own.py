"""Recipes for the user's own data: settings that work reasonably well on any folder of pictures or table of features."""

from shortlist.training.recipe import PATH, Recipe


def own_pictures() -> Recipe:
    """Pictures of any kind, at 64 × 64 pixels, with a small residual network trained from scratch.

    With a GPU and torchvision or timm installed, ``backbone=torchvision:resnet50 pretrained=true size=224`` starts from
    pretrained weights instead, which pays off with only a few thousand pictures.
    """
    return Recipe(
        "pictures",
        PATH,
        method="average-k",
        summary="your own pictures: a folder with one subfolder per class, or a table of paths and labels",
        grid={"alpha": (0.1, 0.3, 1.0, 3.0), "lr": (0.03, 0.1, 0.3)},
        backbone="resnet-14x2/2",
        augmentation="crop-flip",
        test_fit="center",
        epochs=30,
        batch_size=64,
        lr=0.1,
        schedule="one-cycle",
        ema=0.998,
    )


def own_table() -> Recipe:
    """Rows of features, with a small multilayer perceptron."""
    return Recipe(
        "table",
        PATH,
        method="average-k",
        summary="your own table of features and labels: CSV, Parquet, npz or ARFF",
        grid={"alpha": (0.1, 0.3, 1.0, 3.0), "lr": (3e-4, 1e-3, 3e-3)},
        backbone="mlp-256",
        augmentation="none",
        epochs=100,
        batch_size=64,
        optimizer="adamw",
        lr=1e-3,
        weight_decay=1e-2,
        ema=0.99,
    )
