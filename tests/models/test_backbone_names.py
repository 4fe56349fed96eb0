"""Names of backbones: what is understood, what is refused, and in which words."""

import re

import pytest
import torch

from shortlist.errors import InputError
from shortlist.models.backbones import backbone_inputs, backbone_names, check_backbone, make_backbone


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet-9", r"backbone 'resnet-9' \(resnet-DEPTH\[xWIDTH\]\[/STEM\]\): depth: expected 6n \+ 2 .* 152; got 9"),
        ("resnet-2", "depth: expected 6n"),
        ("resnet-1208", "1202.*; got 1208"),
        ("resnet-20x0", "width: expected a whole number from 1, got 0"),
        ("resnet-20x65", "width: expected at most 64 times"),
        ("resnet-20/3", "stem: expected a total stride of 1, 2 or 4, got 3"),
        ("densenet-41-40", r"backbone 'densenet-41-40' .*: depth: expected 3n \+ 4 .*, got 41"),
        ("densenet-4-40", r"depth: expected 3n \+ 4"),
        ("densenet-bc-43-12", r"depth: expected 6n \+ 4 .*, got 43"),
        ("vgg-12", "depth: expected 11, 13, 16, 19, got 12"),
        ("densenet-40-0", "growth: expected a whole number from 1, got 0"),
        ("densenet-40-9999", "growth: expected at most 512, got 9999"),
        ("mlp-0", "width: expected a whole number from 1, got 0"),
        ("mlp-8x0", "layers: expected a whole number from 1, got 0"),
        ("mlp-99999999", "width: expected at most 65536"),
        ("mlp-8x65", "layers: expected at most 64"),
        ("plain-8-0", "width: expected a whole number from 1, got 0"),
        ("plain" + 13 * "-8", "widths: expected from 1 to 12 of them, got 13"),
        ("plain-99999", "width: expected at most 8192"),
    ],
)
def test_numbers_that_make_no_network_are_refused(name, message):
    for refuse in (check_backbone, lambda name: make_backbone(name, features=3)):
        with pytest.raises(InputError, match=message):
            refuse(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("torchvison:resnet18", "torchvision:resnet18"),
        ("tim:vit_tiny_patch16_224", "timm:vit_tiny_patch16_224"),
        ("ResNet-20", "resnet-20"),
        ("resnet50", "resnet-50"),
        ("resnet-20/", "resnet-20"),
        ("resent-26x3/2", "resnet-26x3/2"),
        ("densnet-40-40", "densenet-40-40"),
        ("mpl-256", "mlp-256"),
        ("feature", "features"),
        (" features", "features"),
    ],
)
def test_names_that_are_nearly_right_are_put_right(name, meant):
    with pytest.raises(
        InputError, match=f"backbone {name!r} is not known; did you mean {meant!r}\\? expected one of resnet-DEPTH"
    ):
        check_backbone(name)


@pytest.mark.parametrize(
    "name", ["", "zzz", "resnet-020", "resnet-20\n", "resnet-²", "timm:", "timm:hf-hub:a/b", "plain-", 20, None]
)
def test_other_names_are_refused_with_the_grammar(name):
    with pytest.raises(InputError, match=r"expected .*one of .*, mlp-WIDTH\[xLAYERS\], torchvision:NAME, timm:NAME"):
        make_backbone(name)


def test_every_form_of_a_name_is_listed():
    assert [re.split("[-:]", form)[0] for form in backbone_names()] == [
        *("resnet", "resnet9", "densenet", "densenet", "vgg", "plain", "features", "mlp", "torchvision", "timm")
    ]
    assert {backbone_inputs(name) for name in ("resnet-20", "densenet-40-12", "plain-8", "timm:resnet18")} == {"pictures"}
    assert backbone_inputs("torchvision:resnet18") == "pictures"  # known without the package
    assert backbone_inputs("features") == backbone_inputs("mlp-4x2") == "tables"


def test_our_own_backbones_have_no_pretrained_weights():
    for refuse in (check_backbone, make_backbone):
        with pytest.raises(InputError, match="'resnet-20' has no pretrained weights: expected torchvision:NAME or timm:NAME"):
            refuse("resnet-20", pretrained=True)


def test_tables_and_pictures_are_not_confused():
    with pytest.raises(InputError, match="'mlp-4' reads tables: .*got None"):
        make_backbone("mlp-4")
    with pytest.raises(
        InputError, match=r"reads pictures, got a table of 7 columns: expected features or mlp-WIDTH\[xLAYERS\]"
    ):
        make_backbone("resnet-8", features=7)
    with pytest.raises(InputError, match="features: .*got 0"):
        make_backbone("features", features=0)
    with pytest.raises(InputError, match="channels: .*got 0"):
        make_backbone("resnet-8", channels=0)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("resnet-8", torch.zeros(2, 4, 8, 8), r"expected shape \(N, 3, H, W\), got \(2, 4, 8, 8\)"),
        ("plain-4", torch.zeros(3, 8, 8), r"expected shape \(N, 3, H, W\), got \(3, 8, 8\)"),
        ("resnet-8", torch.zeros(2, 3, 8, 8, dtype=torch.uint8), "expected prepared pictures of a float dtype, got uint8"),
        ("densenet-10-4", torch.zeros(2, 3, 8, 3), "expected at least 4 x 4 pixels for this backbone, got 8 x 3"),
        ("features", torch.zeros(2, 4), r"expected shape \(N, 5\), got \(2, 4\)"),
        ("mlp-4", torch.zeros(2, 5, dtype=torch.int64), "expected a float dtype, got int64"),
    ],
)
def test_inputs_of_another_shape_or_dtype_are_refused(name, inputs, message):
    net = make_backbone(name, features=5 if backbone_inputs(name) == "tables" else None)
    with pytest.raises(InputError, match=message):
        net(inputs)
