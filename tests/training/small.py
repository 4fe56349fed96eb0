"""Trainings that take a moment: tiny data, tiny networks."""

import torch

from shortlist.data import Dataset, PictureArray, Split
from shortlist.training import Recipe, train

CLASSES = 5


def pictures(rows=60, seed=0, classes=CLASSES):
    """Squares whose colour tells the class, with noise."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(rows) % classes
    colours = torch.randint(40, 216, (classes, 3, 1, 1), generator=torch.Generator().manual_seed(99))
    noise = torch.randint(-40, 40, (rows, 3, 8, 8), generator=generator)
    return (colours[target] + noise).to(torch.uint8), target


def dataset(rows=60, multi=False):
    """Train, val and test of such squares; with ``multi`` any number of labels a row, none included."""
    splits = {}
    for seed, (name, count) in enumerate({"train": rows, "val": 30, "test": 20}.items()):
        images, target = pictures(count, seed)
        if multi:
            target = torch.nn.functional.one_hot(target, CLASSES).bool()
            target[::4] = False
            target[1::4] |= target[1::4].roll(1, dims=1)
        splits[name] = Split(PictureArray(images), target, [f"{name}-{row}" for row in range(count)])
    return Dataset("squares", [f"class {label}" for label in range(CLASSES)], splits)


def recipe(**settings):
    """A recipe for them; settings of the method go with the others."""
    base = {"backbone": "plain-8", "epochs": 2, "batch_size": 12, "lr": 0.05, "augmentation": "none", "method": "cross-entropy"}
    chosen = base | settings
    start = Recipe("squares", "squares", method=chosen.pop("method"), size=8)
    if "k" in start.parameters:
        chosen = {"k": 2} | chosen
    return start.with_settings(**chosen)


def run(folder, data=None, *, resume=False, callback=None, checkpoint_seconds=0.0, **settings):
    """Train, on the processor."""
    return train(
        recipe(**settings),
        folder,
        resume=resume,
        device="cpu",
        callback=callback,
        checkpoint_seconds=checkpoint_seconds,
        dataset=dataset() if data is None else data,
    )


def weights(trained):
    """The trained network's tensors, copied."""
    return {name: tensor.detach().clone() for name, tensor in trained.classifier.network.state_dict().items()}


def same(one, other):
    """Equal to the last bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
