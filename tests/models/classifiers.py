"""Small classifiers, for the tests of whatever is done with them."""

import torch
from PIL import Image

from shortlist.links import Softmax
from shortlist.models.classifier import Classifier
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network

NAMES = ["ash", "birch", "elm", "oak"]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(n=6, size=8, width=None, seed=0):
    """Random pixels, uint8 (n, 3, size, width)."""
    return torch.randint(0, 256, (n, 3, size, width or size), dtype=torch.uint8, generator=seeded(seed))


def image(height=9, width=13, seed=0):
    """Random pixels as an image of Pillow's."""
    return Image.fromarray(pictures(1, height, width, seed)[0].permute(1, 2, 0).numpy())


def rows(n=50, features=3, seed=0):
    return 2 * torch.randn(n, features, generator=seeded(seed))


def labels(n, classes=len(NAMES), many=False, seed=0):
    if many:
        return torch.rand(n, classes, generator=seeded(seed)) < 0.4
    return torch.randint(0, classes, (n,), generator=seeded(seed))


def of_pictures(backbone="plain-4-8", head="linear", link=None, size=8, **options):
    torch.manual_seed(0)
    inputs = InputSpec("pictures", size, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))
    return Classifier(Network(backbone, head, inputs, len(NAMES)), NAMES, link=link or Softmax(), **options)


def of_features(backbone="mlp-8", head="linear", link=None, features=3, **options):
    torch.manual_seed(0)
    inputs = InputSpec("features", features, mean=(0.5,) * features, std=(2.0,) * features)
    return Classifier(Network(backbone, head, inputs, len(NAMES)), NAMES, link=link or Softmax(), **options)


def fitted(classifier, rule="average-k:2", many=False):
    """With this rule, fitted on random rows."""
    given = pictures(60, classifier.inputs.size) if classifier.inputs.is_pictures else rows(200, classifier.inputs.size)
    return classifier.fit_rule(rule, classifier.predictions(given, labels(len(given), many=many)))
