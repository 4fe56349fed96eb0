"""Backbones of torchvision and timm: against stand-ins of both everywhere, against themselves where they import."""

import importlib
import sys
import warnings
from types import ModuleType

import pytest
import torch
from torch import nn

from shortlist.errors import InputError
from shortlist.models.backbones import check_backbone, make_backbone

REAL_TORCHVISION = ["resnet18", "vgg11", "densenet121", "mobilenet_v3_small", "efficientnet_b0"]
REAL_TORCHVISION += ["vit_b_16", "convnext_tiny", "squeezenet1_0", "googlenet", "inception_v3", "swin_t"]
REAL_TIMM = ["resnet18", "vit_tiny_patch16_224", "mobilenetv3_small_100", "resnet18.a1_in1k"]


# Stand-ins: the layouts that occur, as small as can be


class Body(nn.Module):
    """As resnet18 (``fc``) or vit_b_16 (``heads.head``): the classifier at a path, a linear layer before it."""

    def __init__(self, classifier):
        super().__init__()
        self.conv, self.hidden = nn.Conv2d(3, 4, 3), nn.Linear(4, 6)
        self.fc = classifier

    def forward(self, pictures):
        torch._assert(pictures.shape[2] >= 8, f"Wrong image height! Expected 8 but got {pictures.shape[2]}!")
        return self.fc(torch.relu(self.hidden(self.conv(pictures).mean((2, 3)))))


class WithAuxiliary(Body):
    """As googlenet and inception_v3: in training, a tuple."""

    def __init__(self):
        super().__init__(nn.Linear(6, 1000))
        self.aux_logits, self.AuxLogits = True, nn.Linear(4, 1000)  # registered after the classifier
        warnings.warn("The default weight initialization will be changed in future releases", FutureWarning, stacklevel=2)

    def forward(self, pictures):
        scores = super().forward(pictures)
        if self.AuxLogits is not None and self.training:
            return scores, self.AuxLogits(self.conv(pictures).mean((2, 3)))
        return scores


def squeezed():
    """As squeezenet: no linear layer at all."""
    pool = nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 5, 3), nn.Conv2d(5, 1000, 1), nn.ReLU(), pool, nn.Flatten())


MODELS = {
    "resnet18": lambda: Body(nn.Linear(6, 1000)),
    "vgg11": lambda: Body(nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Dropout(0.0), nn.Linear(7, 1000))),
    "googlenet": WithAuxiliary,
    "squeezenet1_0": squeezed,
    "strange": lambda: Body(nn.Linear(6, 12)),
    "empty": nn.Flatten,
}


@pytest.fixture
def torchvision(monkeypatch):
    package, models = ModuleType("torchvision"), ModuleType("torchvision.models")
    package.models, models.asked = models, []

    def get_model(name, *, weights=None):
        models.asked.append((name, weights))
        if weights == "DEFAULT" and name == "vgg11":
            raise OSError("<urlopen error [Errno -3] Temporary failure in name resolution>")
        return MODELS[name]()

    models.get_model = get_model
    models.list_models = lambda module=None: sorted(MODELS) if module is models else [*sorted(MODELS), "fasterrcnn_resnet50"]
    for name, module in (("torchvision", package), ("torchvision.models", models)):
        monkeypatch.setitem(sys.modules, name, module)
    return models


@pytest.fixture
def timm(monkeypatch):
    package = ModuleType("timm")
    package.asked = []

    def create_model(name, *, pretrained, num_classes, in_chans):
        package.asked.append((name, pretrained, num_classes, in_chans))
        if name.endswith(".none"):
            raise RuntimeError("Invalid pretrained tag (none) for resnet18.\nmore")
        body = nn.Sequential(nn.Conv2d(in_chans, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 8))
        body.num_features = 5 if name.startswith("mobilenet") else 8
        if name.startswith("mobilenet"):  # a hidden layer comes after the pool
            body.head_hidden_size = 8
        return Unpooled() if name == "encoder" else body

    package.create_model = create_model
    package.list_models = lambda: ["encoder", "mobilenetv3_small_100", "resnet18", "resnet50"]
    monkeypatch.setitem(sys.modules, "timm", package)
    return package


class Unpooled(nn.Module):
    """As the encoders of timm, whose features keep their places."""

    num_features = 3

    def forward(self, pictures):
        return pictures


@pytest.mark.parametrize(("model", "features"), [("resnet18", 6), ("vgg11", 7), ("googlenet", 6), ("squeezenet1_0", 5)])
@pytest.mark.parametrize("training", [False, True])
def test_the_last_layer_of_a_torchvision_model_is_taken_off(torchvision, model, features, training):
    net = make_backbone(f"torchvision:{model}").train(training)
    assert net.num_features == features
    assert net(torch.ones(2, 3, 9, 9)).shape == (2, features)
    assert torchvision.asked == [(model, None)]
    assert not any(len(weight) == 1000 for weight in net.parameters())


def test_the_features_are_what_the_classifier_read(torchvision):
    torch.manual_seed(0)
    whole = MODELS["vgg11"]().eval()
    torch.manual_seed(0)
    net, pictures = make_backbone("torchvision:vgg11").eval(), torch.rand(2, 3, 9, 9)
    torch.testing.assert_close(whole.fc[3](net(pictures)), whole(pictures))


def test_torchvision_weights_are_asked_for_by_default_and_may_fail(torchvision):
    make_backbone("torchvision:googlenet", pretrained=True)
    assert torchvision.asked == [("googlenet", "DEFAULT")]
    with pytest.raises(
        InputError, match="'torchvision:vgg11' has no weights to start from, or they cannot be fetched: <urlopen"
    ):
        make_backbone("torchvision:vgg11", pretrained=True)


@pytest.mark.parametrize("model", ["strange", "empty"])
def test_models_that_end_otherwise_are_refused(torchvision, model):
    with pytest.raises(
        InputError, match=f"torchvision:{model}: expected a model that ends in a layer of 1000 classes, found none"
    ):
        make_backbone(f"torchvision:{model}")


def test_torchvision_reads_three_channels(torchvision):
    with pytest.raises(InputError, match="expected pictures of 3 channels, got 1: timm takes others"):
        make_backbone("torchvision:resnet18", channels=1)


def test_unknown_models_are_refused_with_the_nearest(torchvision, timm):
    for refuse in (check_backbone, make_backbone):
        with pytest.raises(InputError, match="torchvision has no model of this name; did you mean 'torchvision:resnet18'"):
            refuse("torchvision:resnet81")
        with pytest.raises(InputError, match="timm has no model of this name; did you mean 'timm:resnet50' or 'timm:resnet18'"):
            refuse("timm:ResNet50")
        with pytest.raises(InputError, match="expected one of the 6 classification models of torchvision"):
            refuse("torchvision:fasterrcnn_resnet50")
    assert torchvision.asked == timm.asked == []


@pytest.mark.parametrize(("model", "channels"), [("resnet18", 3), ("mobilenetv3_small_100", 3), ("resnet18.a1_in1k", 5)])
def test_timm_builds_without_classifier(timm, model, channels):
    check_backbone(f"timm:{model}", pretrained=True)
    net = make_backbone(f"timm:{model}", pretrained=True, channels=channels)
    assert net(torch.ones(2, channels, 9, 9)).shape == (2, net.num_features) == (2, 8)
    assert timm.asked == [(model, True, 0, channels)]


def test_what_timm_says_is_passed_on_in_one_line(timm):
    with pytest.raises(
        InputError, match=r"'timm:resnet18.none' has no weights .*: Invalid pretrained tag \(none\) for resnet18\.$"
    ):
        make_backbone("timm:resnet18.none", pretrained=True)
    with pytest.raises(InputError, match=r"'timm:resnet18.none' cannot be built: Invalid"):
        make_backbone("timm:resnet18.none")


def test_pictures_of_a_size_that_the_model_does_not_read_are_refused(torchvision):
    with pytest.raises(
        InputError, match="torchvision:resnet18 cannot read pictures of 3 x 7 x 7: Wrong image height! Expected 8"
    ):
        make_backbone("torchvision:resnet18")(torch.zeros(2, 3, 7, 7))


def test_models_that_return_something_else_than_they_say_are_refused(timm):
    with pytest.raises(
        InputError, match=r"timm:encoder cannot be used, as it returns 243 features .* rather than 3: choose another"
    ):
        make_backbone("timm:encoder")(torch.zeros(2, 3, 9, 9))


def test_foreign_backbones_compile_to_one_graph(torchvision):
    torch.compiler.reset()
    net, pictures = make_backbone("torchvision:resnet18").eval(), torch.rand(2, 3, 9, 9)
    torch.testing.assert_close(torch.compile(net, backend="eager", fullgraph=True)(pictures), net(pictures))


# Packages that are not there


@pytest.mark.parametrize("package", ["torchvision", "timm"])
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (None, "is not installed"),
        (ModuleNotFoundError("No module named 'yaml'", name="yaml"), r"does not import here \(No module named 'yaml'\)"),
        (RuntimeError("operator torchvision::nms does not exist\nmore"), r"does not import here \(operator .* not exist\)"),
    ],
)
def test_a_package_that_is_missing_or_broken_is_named_with_what_to_do(monkeypatch, package, error, why):
    def failing(name, *others):
        if name.partition(".")[0] == package:
            raise error or ModuleNotFoundError(f"No module named {package!r}", name=package)
        return genuine(name, *others)

    genuine = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", failing)
    for refuse in (check_backbone, make_backbone):
        with pytest.raises(
            InputError, match=rf"^backbone {package}:resnet18 needs {package}, which {why}: pip install 'shortlist\["
        ):
            refuse(f"{package}:resnet18")


# The packages themselves


def imported(package):
    """The package, or skip: beside another torch than it was built for, torchvision raises a RuntimeError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(package)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{package} does not import here: {error}")


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", REAL_TORCHVISION)
def test_torchvision_models_give_the_features_they_say(name, training):
    imported("torchvision")
    with torch.device("meta"):
        net = make_backbone(f"torchvision:{name}").train(training)
        side = 299 if name == "inception_v3" else 224
        assert net(torch.zeros(2, 3, side, side)).shape == (2, net.num_features)


@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_0"])
def test_a_torchvision_model_is_its_own_classifier_on_our_features(name):
    models = imported("torchvision").models
    torch.manual_seed(0)
    whole = models.get_model(name).eval()
    torch.manual_seed(0)
    net, pictures = make_backbone(f"torchvision:{name}").eval(), torch.rand(2, 3, 64, 64)
    if name == "resnet18":
        torch.testing.assert_close(whole.fc(net(pictures)), whole(pictures), rtol=1e-4, atol=1e-4)
    else:
        torch.testing.assert_close(net(pictures), whole.features(pictures).relu().mean((2, 3)), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors:UserWarning")
@pytest.mark.parametrize("name", REAL_TIMM)
def test_timm_models_give_the_features_they_say(name):
    imported("timm")
    with torch.device("meta"):
        net = make_backbone(f"timm:{name}")
        assert net(torch.zeros(2, 3, 224, 224)).shape == (2, net.num_features)


def test_real_packages_say_which_models_they_know():
    for package in ("torchvision", "timm"):
        imported(package)
        with pytest.raises(InputError, match=f"did you mean .*'{package}:resnet18'"):
            check_backbone(f"{package}:resnet_18")
    with pytest.raises(InputError, match="timm:vit_tiny_patch16_224 cannot read pictures of 3 x 32 x 32: "):
        make_backbone("timm:vit_tiny_patch16_224")(torch.zeros(1, 3, 32, 32))
