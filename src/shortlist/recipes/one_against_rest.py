"""One label per picture with classifiers for any number of labels: CIFAR, Tiny ImageNet and ImageNet (Liao, Table I)."""

from shortlist.recipes.open_set import LIAO, PROTOCOL
from shortlist.training.recipe import Augmentation, Recipe

# What is read, the side of the pictures, the network and the augmentation. Liao reads pictures of 32 x 32, apart from those of
# ImageNet, by one network, a ResNet-18 whose first layer keeps their size. Not given: augmentation.
DATA: dict[str, tuple[str, int, str, Augmentation]] = {
    "cifar10": ("cifar10:{path}", 32, "resnet-18", "shift-flip"),
    "cifar100": ("cifar100:{path}", 32, "resnet-18", "shift-flip"),
    "tiny-imagenet": ("tiny-imagenet:{path},test=val", 32, "resnet-18", "shift-flip"),
    "imagenet": ("imagenet:{path},test=val", 224, "resnet-18/4", "resized-crop-flip"),
}


def one_against_rest(name: str) -> Recipe:
    """The quasibinary classifier on pictures with one label each, answering with the most probable class.

    The rivals: ``method=bce``, which did not converge on the two larger datasets in the paper, and softmax, which is
    ``method=cross-entropy labels=as-given``. The paper's other networks are ``backbone=densenet-40-12`` and a VGG-16 for small
    pictures, which is not here. Tiny ImageNet and ImageNet publish no labels of their test pictures, so they are tested on
    ``val``.

    Args:
        name: ``"cifar10"``, ``"cifar100"``, ``"tiny-imagenet"`` or ``"imagenet"``.

    >>> one_against_rest("cifar10").labels
    'any'
    """
    data, size, backbone, augmentation = DATA[name]
    return Recipe(
        f"{name}-quasibinary",
        data,
        method="quasibinary",
        summary=f"one label per picture by the quasibinary classifier: {name}, {size} x {size}, ResNet-18",
        reference=f"{LIAO}, Table I",
        grid={"lr": (0.03, 0.1)},
        labels="any",
        backbone=backbone,
        size=size,
        augmentation=augmentation,
        test_fit="center" if size == 224 else "crop",
        rule="top-k:1",
        **PROTOCOL,
    )
