"""Backbones of torchvision and timm, where these are installed: their classification models without the last layer."""

import importlib
import warnings
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.words import similar

PACKAGES = ("torchvision", "timm")
CLASSES = 1000  # of ImageNet, for which every model of torchvision is built unless told otherwise
AUXILIARY = ("aux1", "aux2", "AuxLogits")  # second classifiers of googlenet and inception_v3, which read half-way features


class ForeignBackbone(nn.Module):
    """A model of another package, the classification layer taken off: pictures (N, channels, H, W) → features (N, F).

    Args:
        name: what the person wrote, for messages.
        body: the model; what it returns has ``num_features`` numbers for each picture.
        num_features: how many.

    >>> net = ForeignBackbone("torchvision:none", nn.AdaptiveAvgPool2d(1), 3)
    >>> net(torch.ones(2, 3, 8, 8))
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """

    def __init__(self, name: str, body: nn.Module, num_features: int):
        super().__init__()
        self.name, self.body, self.num_features = name, body, num_features

    def forward(self, pictures: Tensor) -> Tensor:
        """Features, (N, num_features)."""
        features = self._read(pictures).flatten(1)
        if features.shape[1] != self.num_features:  # some encoders of timm do not pool, for example
            came = f"{features.shape[1]} features for each picture rather than {self.num_features}"
            raise InputError(f"backbone {self.name} cannot be used, as it returns {came}: choose another")
        return features

    def _read(self, pictures: Tensor) -> Tensor:
        if torch.compiler.is_compiling():  # which has its own way to tell of a failed assertion
            return self.body(pictures)  # type: ignore[no-any-return]
        try:
            return self.body(pictures)  # type: ignore[no-any-return]
        except AssertionError as error:  # transformers assert the size that they were built for
            came = " x ".join(map(str, pictures.shape[1:]))
            raise InputError(f"backbone {self.name} cannot read pictures of {came}: {_first_line(error)}") from error


def check_foreign(package: str, model: str) -> None:
    """The package is there and knows a classification model of this name."""
    known = _models(package, model)
    # timm: what follows a dot names the weights, not the model.
    if (model.partition(".")[0] if package == "timm" else model) not in known:
        near = " or ".join(repr(f"{package}:{other}") for other in similar(model, known))
        hint = f"did you mean {near}?" if near else f"expected one of the {len(known)} classification models of {package}"
        raise InputError(f"backbone {f'{package}:{model}'!r}: {package} has no model of this name; {hint}")


def make_foreign(package: str, model: str, *, pretrained: bool = False, channels: int = 3) -> nn.Module:
    """A classification model of torchvision or timm, without its last layer.

    Pretrained weights are fetched by the package, and kept where it keeps them; torchvision checks them against a hash.
    """
    check_foreign(package, model)
    make = _from_torchvision if package == "torchvision" else _from_timm
    try:
        return make(model, pretrained, channels)
    except InputError:
        raise
    except (RuntimeError, ValueError, KeyError, OSError) as error:  # no such weights, or no way to them
        task = "has no weights to start from, or they cannot be fetched" if pretrained else "cannot be built"
        raise InputError(f"backbone '{package}:{model}' {task}: {_first_line(error)}") from error


def _imported(name: str, model: str) -> ModuleType:
    """The package (or this part of it), or a sentence that says what to install for the model."""
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision that was built for another torch
        missing = isinstance(error, ModuleNotFoundError) and error.name == package
        why = "is not installed" if missing else f"does not import here ({_first_line(error)})"
        raise InputError(
            f"backbone {package}:{model} needs {package}, which {why}: pip install 'shortlist[backbones]'"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _models(package: str, model: str) -> list[str]:
    if package == "timm":
        return list(_imported("timm", model).list_models())
    models = _imported("torchvision.models", model)
    return list(models.list_models(module=models))  # this module's alone: not of detection, segmentation or video


def _from_timm(model: str, pretrained: bool, channels: int) -> nn.Module:
    timm = _imported("timm", model)
    body = timm.create_model(model, pretrained=pretrained, num_classes=0, in_chans=channels)
    # Some models have a hidden layer before the classifier, which stays: head_hidden_size is its width where timm says so.
    return ForeignBackbone(f"timm:{model}", body, int(getattr(body, "head_hidden_size", None) or body.num_features))


def _from_torchvision(model: str, pretrained: bool, channels: int) -> nn.Module:
    if channels != 3:
        raise InputError(f"backbone torchvision:{model}: expected pictures of 3 channels, got {channels}: timm takes others")
    models = _imported("torchvision.models", model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # googlenet and inception_v3 announce another start of their weights
        body = models.get_model(model, weights="DEFAULT" if pretrained else None)
    _drop_auxiliary(body)
    return ForeignBackbone(f"torchvision:{model}", body, _drop_classifier(body, model))


def _drop_auxiliary(body: Any) -> None:
    """Take the second classifiers away: with them, training returns a tuple.

    Not by ``aux_logits=False``, which torchvision refuses together with weights.
    """
    if hasattr(body, "aux_logits"):
        body.aux_logits = False
        for name in AUXILIARY:
            if hasattr(body, name):
                setattr(body, name, None)


def _drop_classifier(body: nn.Module, model: str) -> int:
    """Put the identity in place of the last linear layer (squeezenet has a 1 x 1 convolution); its inputs are the features."""
    linear = [(path, layer, layer.in_features) for path, layer in body.named_modules() if isinstance(layer, nn.Linear)]
    pointwise = [
        (path, layer, layer.in_channels)
        for path, layer in body.named_modules()
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1)
    ]
    for path, layer, features in (linear or pointwise)[-1:]:
        if len(layer.weight) == CLASSES:
            parent, _, child = path.rpartition(".")
            setattr(body.get_submodule(parent), child, nn.Identity())
            return features
    raise InputError(f"backbone torchvision:{model}: expected a model that ends in a layer of {CLASSES} classes, found none")
