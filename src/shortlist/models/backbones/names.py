"""Backbones as text, for the command line and configuration files: ``resnet-20``, ``densenet-40-40``, ``timm:resnet18``."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from torch import nn

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.models.backbones.densenet import DenseNet, check_densenet
from shortlist.models.backbones.features import MLP, FeatureTable, check_mlp
from shortlist.models.backbones.foreign import PACKAGES, check_foreign, make_foreign
from shortlist.models.backbones.pictures import PlainNet, check_plain
from shortlist.models.backbones.resnet import ResNet, check_resnet
from shortlist.models.backbones.resnet9 import ResNet9, check_resnet9
from shortlist.models.backbones.vgg import STAGES, VGG, check_vgg
from shortlist.words import similar

InputKind: TypeAlias = Literal["pictures", "tables"]
NUMBER = r"0|[1-9][0-9]{0,8}"  # one way to write each, so that a network has one name


@dataclass(frozen=True)
class Family:
    """Backbones that are written alike.

    Args:
        usage: how they are written.
        pattern: the same as a regular expression, whose groups are the arguments of ``check`` and ``make``.
        check: refuses what cannot be built, without building it.
        make: builds.
        inputs: what they read.
        examples: common names, for suggestions.
        own: built here rather than by another package.
    """

    usage: str
    pattern: str
    check: Callable[..., None] = field(repr=False)
    make: Callable[..., nn.Module] = field(repr=False)
    inputs: InputKind = "pictures"
    examples: tuple[str, ...] = ()
    own: bool = True

    @property
    def stem(self) -> str:
        """The text up to the first argument: ``resnet-``."""
        return re.split("[A-Z[]", self.usage)[0]

    def read(self, name: str) -> dict[str, Any] | None:
        """The arguments that this name writes; None for names of other families."""
        match = re.fullmatch(self.pattern, name)
        if match is None:
            return None
        return {key: _value(key, text) for key, text in match.groupdict().items() if text is not None}


def _value(key: str, text: str) -> Any:
    if key == "widths":
        return tuple(map(int, text.split("-")))
    return int(text) if re.fullmatch(NUMBER, text) and key != "model" else text


def _foreign(package: str) -> Family:
    check, make = partial(check_foreign, package), partial(make_foreign, package)
    return Family(f"{package}:NAME", rf"{package}:(?P<model>[^\s:/]+)", check, make, own=False)


def _dense(name: str, examples: tuple[str, ...], *, bottleneck: bool) -> Family:
    check, make = partial(check_densenet, bottleneck=bottleneck), partial(DenseNet, bottleneck=bottleneck)
    return Family(
        f"{name}-DEPTH-GROWTH", rf"{name}-(?P<depth>{NUMBER})-(?P<growth>{NUMBER})", check, make, "pictures", examples
    )


FAMILIES = (
    Family(
        "resnet-DEPTH[xWIDTH][/STEM]",
        rf"resnet-(?P<depth>{NUMBER})(?:x(?P<width>{NUMBER}))?(?:/(?P<stem>{NUMBER}))?",
        check_resnet,
        ResNet,
        "pictures",
        tuple(f"resnet-{depth}" for depth in (8, 14, 20, 32, 44, 56, 110, 18, 34, 50, 101, 152)),
    ),
    Family("resnet9-WIDTH", rf"resnet9-(?P<width>{NUMBER})", check_resnet9, ResNet9, "pictures", ("resnet9-64",)),
    _dense("densenet", ("densenet-40-12", "densenet-40-40"), bottleneck=False),
    _dense("densenet-bc", ("densenet-bc-100-12", "densenet-bc-190-40"), bottleneck=True),
    Family("vgg-DEPTH", rf"vgg-(?P<depth>{NUMBER})", check_vgg, VGG, "pictures", tuple(f"vgg-{depth}" for depth in STAGES)),
    Family("plain-WIDTH[-WIDTH…]", rf"plain-(?P<widths>(?:{NUMBER})(?:-(?:{NUMBER}))*)", check_plain, PlainNet),
    Family("features", "features", lambda: None, FeatureTable, "tables", ("features",)),
    Family("mlp-WIDTH[xLAYERS]", rf"mlp-(?P<width>{NUMBER})(?:x(?P<layers>{NUMBER}))?", check_mlp, MLP, "tables", ("mlp-256",)),
    *map(_foreign, PACKAGES),
)


def backbone_names() -> list[str]:
    """How backbones are written, one line for each family; capitals stand for numbers and names, brackets for what may go.

    >>> backbone_names()[0], backbone_names()[-1]
    ('resnet-DEPTH[xWIDTH][/STEM]', 'timm:NAME')
    """
    return [family.usage for family in FAMILIES]


def check_backbone(name: str, *, pretrained: bool = False) -> None:
    """Refuse what :func:`make_backbone` could not build, without building it.

    >>> check_backbone("resnet-9")
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: backbone 'resnet-9' (resnet-DEPTH[xWIDTH][/STEM]): depth: expected 6n + 2 (8, ...
    """
    _checked(name, pretrained)


def backbone_inputs(name: str) -> InputKind:
    """What the backbone of this name reads: ``"pictures"``, (N, channels, H, W), or ``"tables"``, (N, D).

    >>> backbone_inputs("resnet-20"), backbone_inputs("mlp-64")
    ('pictures', 'tables')
    """
    return _family(name)[0].inputs


def make_backbone(name: str, *, pretrained: bool = False, channels: int = 3, features: int | None = None) -> nn.Module:
    """The backbone of this name: a module from prepared inputs to features (N, F), whose ``num_features`` is F.

    Weights are drawn from torch's own generator: equal after equal ``torch.manual_seed``.

    Args:
        name: one of the forms of :func:`backbone_names`.
        pretrained: start from the weights that torchvision or timm publish; our own backbones have none.
        channels: of the pictures; ignored for tables.
        features: the columns D of the table, for backbones of tables, which need it; None for pictures.

    Shape: float (N, channels, H, W) or (N, D) → (N, F).

    >>> net = make_backbone("resnet-8x2/2")
    >>> net.num_features
    128
    >>> make_backbone("mlp-32x2", features=5).num_features
    32
    """
    family, arguments = _checked(name, pretrained)
    if family.inputs == "tables":
        if features is None:
            raise InputError(f"backbone {name!r} reads tables: expected features, the number of their columns, got None")
        return family.make(**arguments, features=whole(1)("features", features))
    if features is not None:
        others = " or ".join(other.usage for other in FAMILIES if other.inputs == "tables")
        raise InputError(f"backbone {name!r} reads pictures, got a table of {features} columns: expected {others}")
    weights = {} if family.own else {"pretrained": pretrained}
    return family.make(**arguments, **weights, channels=whole(1)("channels", channels))


def _checked(name: str, pretrained: bool) -> tuple[Family, dict[str, Any]]:
    """Family and arguments of a name that can be built."""
    family, arguments = _family(name)
    try:
        family.check(**arguments)
    except InputError as error:
        if not family.own:  # its sentence is complete
            raise
        raise InputError(f"backbone {name!r} ({family.usage}): {error}") from error
    if pretrained and family.own:
        others = " or ".join(other.usage for other in FAMILIES if not other.own)
        raise InputError(f"backbone {name!r} has no pretrained weights: expected {others}, or pretrained=False")
    return family, arguments


def _family(name: str) -> tuple[Family, dict[str, Any]]:
    """Family and arguments of a name that is well written."""
    if not isinstance(name, str):
        raise InputError(f"backbone: expected a name, one of {', '.join(backbone_names())}; got {type(name).__name__}")
    for family in FAMILIES:
        arguments = family.read(name)
        if arguments is not None:
            return family, arguments
    near = _near(name)
    hint = f"did you mean {near!r}? " if near else ""
    raise InputError(f"backbone {name[:80]!r} is not known; {hint}expected one of {', '.join(backbone_names())}")


def _near(name: str) -> str | None:
    """What was meant, if one can tell: a known beginning put right, or else the most similar of the examples."""
    text = name.strip().lower()
    beginning = re.match(r"[^\d:]*:?", text)
    start = beginning.group() if beginning else ""
    for stem in similar(start, [family.stem for family in FAMILIES]):
        repaired = stem + text[len(start) :]
        if any(family.read(repaired) is not None for family in FAMILIES):
            return repaired
    examples = [example for family in FAMILIES for example in family.examples]
    return next(iter(similar(text, examples, 1)), None)
