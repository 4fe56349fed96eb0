"""Our own backbones: published sizes, literal formulas, and the places where they must run."""

import math
import re

import pytest
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, conv2d

from shortlist.errors import InputError
from shortlist.models.backbones import backbone_inputs, make_backbone
from shortlist.models.backbones.densenet import DenseLayer
from shortlist.models.backbones.resnet import basic_block, bottleneck_block
from tests.references.backbones import convolutions_and_norms, dense, normalised, residual

PICTURES = {
    "resnet-8": 64,
    "resnet-8x2": 128,
    "resnet-8x3/2": 192,
    "resnet-14/4": 64,
    "resnet-18": 512,
    "resnet-34/2": 512,
    "resnet-50/4": 2048,
    "densenet-10-4": 16 + 6 * 4,
    "densenet-bc-10-4": ((8 + 4) // 2 + 4) // 2 + 4,  # 2 growth at first, one layer a block, two halvings
    "resnet9-4": 32,
    "plain-4": 4,
    "plain-4-8-6": 6,
}
QUICK = ["resnet-8/4", "resnet9-4", "densenet-10-4", "densenet-bc-10-4", "plain-4-8", "mlp-8x2"]


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def ready(name, **options):
    """A backbone in use, with BatchNorm away from where it starts, and inputs for it."""
    torch.manual_seed(0)
    net = make_backbone(name, features=5 if backbone_inputs(name) == "tables" else None, **options)
    unsettle(net)
    return net.eval(), draw(2, 5) if backbone_inputs(name) == "tables" else draw(2, options.get("channels", 3), 33, 33)


def unsettle(net):
    generator = torch.Generator().manual_seed(1)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for tensor in (layer.weight.data, layer.running_var):
                tensor.uniform_(0.5, 1.5, generator=generator)
            for tensor in (layer.bias.data, layer.running_mean):
                tensor.normal_(generator=generator)


def size(net):
    return sum(parameter.numel() for parameter in net.parameters())


# What they return


@pytest.mark.parametrize("side", [32, 33])
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_become_num_features_numbers_each(name, side):
    with torch.device("meta"):
        net = make_backbone(name)
        assert net(torch.zeros(2, 3, side, side)).shape == (2, net.num_features) == (2, PICTURES[name])
    assert type(net.num_features) is int


@pytest.mark.parametrize("name", QUICK)
def test_features_are_finite_and_every_parameter_learns(name):
    net, inputs = ready(name)
    features = net.train()(inputs)
    assert features.isfinite().all()
    features.square().sum().backward()
    assert all(parameter.grad.isfinite().all() and parameter.grad.any() for parameter in net.parameters())


@pytest.mark.parametrize(("stem", "sides"), [(1, (32, 33)), (2, (16, 16)), (4, (8, 9))])
def test_a_stem_divides_the_sides_by_its_stride(stem, sides):
    net = make_backbone(f"resnet-8/{stem}")
    assert tuple(net.body[0](torch.zeros(1, 3, side, side)).shape[-1] for side in (32, 33)) == sides


@pytest.mark.parametrize("name", PICTURES)
def test_the_smallest_pictures_that_are_accepted_can_be_read(name):
    with torch.device("meta"):
        net = make_backbone(name).eval()
        assert net(torch.zeros(1, 3, net.least_side, net.least_side)).shape == (1, net.num_features)


def test_tables_are_read_by_columns():
    table = draw(3, 5)
    identity = make_backbone("features", features=5)
    assert torch.equal(identity(table), table)
    assert identity.num_features == 5
    assert not list(identity.parameters())
    mlp = make_backbone("mlp-7x2", features=5)
    (first, a), (second, b) = ((layer.weight, layer.bias) for layer in mlp.body if isinstance(layer, nn.Linear))
    expected = ((table @ first.T + a).clamp(min=0) @ second.T + b).clamp(min=0)
    torch.testing.assert_close(mlp(table), expected)
    assert mlp.num_features == 7
    assert sum(isinstance(layer, nn.Linear) for layer in make_backbone("mlp-7", features=5).modules()) == 1


# Published numbers


@pytest.mark.parametrize(("depth", "millions"), [(11, 133), (13, 133), (16, 138), (19, 144)])
def test_a_vgg_with_its_three_wide_layers_has_the_published_size(depth, millions):
    """Simonyan, Zisserman 2015, table 2: 7 x 7 places of 512 maps, two layers of 4096, 1000 classes."""
    with torch.device("meta"):
        convolutions = size(make_backbone(f"vgg-{depth}"))
    wide = (7 * 7 * 512 + 1) * 4096 + (4096 + 1) * 4096 + (4096 + 1) * 1000
    assert round((convolutions + wide) / 1e6) == millions


def test_a_vgg_ends_in_512_features_and_needs_32_pixels():
    net = make_backbone("vgg-11").eval()
    assert net(torch.zeros(2, 3, 32, 40)).shape == (2, 512)
    with pytest.raises(InputError, match="at least 32 x 32"):
        net(torch.zeros(2, 3, 32, 31))


@pytest.mark.parametrize(
    ("name", "classes", "published"),
    [
        ("resnet-20", 10, "0.27"),  # He et al. 2016, table 6
        ("resnet-32", 10, "0.46"),
        ("resnet-44", 10, "0.66"),
        ("resnet-56", 10, "0.85"),
        ("resnet-110", 10, "1.7"),
        ("densenet-40-12", 10, "1.0"),  # Huang et al. 2017, table 2
        ("densenet-100-12", 10, "7.0"),
        ("densenet-100-24", 10, "27.2"),
        ("densenet-bc-100-12", 10, "0.8"),
        ("densenet-bc-250-24", 10, "15.3"),
        ("densenet-bc-190-40", 10, "25.6"),
        ("resnet9-64", 10, "6.6"),  # Page 2018
        ("resnet-18/4", 0, "11.18"),
        ("resnet-34/4", 0, "21.28"),
        ("resnet-50/4", 0, "23.51"),
        ("resnet-101/4", 0, "42.50"),
        ("resnet-152/4", 1000, "60.2"),
    ],
)
def test_sizes_are_the_published_ones(name, classes, published):
    with torch.device("meta"):
        net = make_backbone(name)
        millions = (size(net) + (size(nn.Linear(net.num_features, classes)) if classes else 0)) / 1e6
    digits = len(published.partition(".")[2])
    # He's projections have no parameters (option A); ours have 0.003 million.
    assert abs(millions - float(published)) <= 0.5 * 10**-digits + (0.003 if name.startswith("resnet") and classes == 10 else 0)


@pytest.mark.parametrize(
    "name",
    ["resnet-8", "resnet-20x2", "resnet-110", "resnet-18/2", "resnet-101/4", "densenet-22-3", "densenet-bc-100-12"],
)
def test_the_depth_counts_the_layers_with_weights_and_the_head(name):
    with torch.device("meta"):
        net = make_backbone(name)
    layers = [path for path, layer in net.named_modules() if isinstance(layer, nn.Conv2d) and "shortcut" not in path]
    assert len(layers) + 1 == int(re.search(r"\d+", name).group())


def test_width_multiplies_every_channel():
    plain, wide = make_backbone("resnet-8"), make_backbone("resnet-8x3")
    for one, other in zip(plain.modules(), wide.modules(), strict=True):
        if isinstance(one, nn.Conv2d):
            assert other.out_channels == 3 * one.out_channels


# Literal formulas, in float64


@pytest.mark.parametrize(
    ("make", "before", "width", "paddings"), [(basic_block, 6, 6, [1, 1]), (bottleneck_block, 8, 2, [0, 1, 0])]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_a_residual_block_is_its_formula(make, before, width, paddings, stride):
    block = make(before, width, stride).double().eval()
    unsettle(block)
    maps = draw(2, before, 7, 7, dtype=torch.float64)
    torch.testing.assert_close(block(maps), residual(block, maps, stride, paddings), rtol=1e-12, atol=1e-12)
    assert isinstance(block.shortcut, nn.Identity) == (stride == 1)


def test_a_block_that_changes_the_channels_alone_is_projected():
    assert not isinstance(basic_block(4, 6, 1).shortcut, nn.Identity)


def test_a_residual_network_is_its_formula():
    net, pictures = ready("resnet-8")
    net, maps = net.double(), pictures.double()
    (weight, *_), (norm, *_) = convolutions_and_norms(net.body[0])
    maps = normalised(conv2d(maps, weight, padding=1), norm).clamp(min=0)
    for stage, stride in zip(net.body[1:], [1, 2, 2], strict=True):
        for block in stage:
            maps = residual(block, maps, stride, [1, 1])
    torch.testing.assert_close(net(pictures.double()), maps.sum((2, 3)) / (9 * 9), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bottleneck", [False, True])
def test_a_dense_layer_is_its_formula(bottleneck):
    layer = DenseLayer(5, 3, bottleneck=bottleneck).double().eval()
    unsettle(layer)
    maps = draw(2, 5, 7, 7, dtype=torch.float64)
    expected = dense(*convolutions_and_norms(layer), maps, bottleneck)
    torch.testing.assert_close(layer(maps), expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(layer(maps)[:, :5], maps)


@pytest.mark.parametrize(("name", "bottleneck", "layers"), [("densenet-10-4", False, 2), ("densenet-bc-16-4", True, 2)])
def test_a_dense_network_is_its_formula(name, bottleneck, layers):
    net, pictures = ready(name)
    net, maps = net.double(), pictures.double()
    weights, norms = convolutions_and_norms(net)
    maps = conv2d(maps, next(weights), padding=1)
    for block in range(3):
        if block:
            maps = avg_pool2d(conv2d(normalised(maps, next(norms)).clamp(min=0), next(weights)), 2)
        for _ in range(layers):
            maps = dense(weights, norms, maps, bottleneck)
    maps = normalised(maps, next(norms)).clamp(min=0)
    torch.testing.assert_close(net(pictures.double()), maps.sum((2, 3)) / (8 * 8), rtol=1e-12, atol=1e-12)
    assert next(weights, None) is None
    assert next(norms, None) is None


def test_a_plain_network_is_its_formula_and_rows_do_not_depend_on_each_other():
    net = make_backbone("plain-4-8").double()
    pictures = maps = draw(3, 3, 33, 33, dtype=torch.float64)
    for layer in net.body[::2]:
        maps = conv2d(maps, layer.weight, layer.bias, stride=2, padding=1).clamp(min=0)
    torch.testing.assert_close(net(pictures), maps.sum((2, 3)) / (9 * 9), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(net(pictures)[1:2], net(pictures[1:2]))  # in training as well


# How they start


@pytest.mark.parametrize("name", ["resnet-20x4", "densenet-22-40", "plain-64-128"])
def test_weights_start_from_hes_law(name):
    torch.manual_seed(0)
    for layer in make_backbone(name).modules():
        if isinstance(layer, nn.Conv2d):
            fan = layer.kernel_size[0] ** 2 * (layer.in_channels if name.startswith("plain") else layer.out_channels)
            error = 1 / math.sqrt(2 * layer.weight.numel())  # of a standard deviation, relative
            assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / fan), rel=5 * error)
        if isinstance(layer, nn.BatchNorm2d):
            assert (layer.weight == 1).all()


@pytest.mark.parametrize("name", QUICK)
def test_equal_seeds_give_equal_weights(name):
    (one, inputs), (other, _) = ready(name), ready(name)
    assert torch.equal(one(inputs), other(inputs))
    torch.manual_seed(1)
    third = make_backbone(name, features=5 if name.startswith("mlp") else None)
    assert not all(torch.equal(a, b) for a, b in zip(one.parameters(), third.parameters(), strict=True))


# Where they run


@pytest.mark.parametrize("name", QUICK)
def test_a_batch_of_one_and_of_none_can_be_read(name):
    net, inputs = ready(name)
    torch.testing.assert_close(net(inputs[:1]), net(inputs)[:1], rtol=1e-5, atol=1e-6)
    assert net(inputs[:0]).shape == (0, net.num_features)


def test_pictures_may_have_other_channels():
    net, pictures = ready("resnet-8", channels=5)
    assert net(pictures).shape == (2, 64)


@pytest.mark.parametrize("name", QUICK[:4])
def test_channels_last_gives_the_same_features(name):
    net, pictures = ready(name)
    expected = net(pictures)
    found = net.to(memory_format=torch.channels_last)(pictures.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", QUICK)
def test_half_precision_gives_nearly_the_same_features_and_trains(name):
    net, inputs = ready(name)
    expected = net(inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = net(inputs)
        trained = net.train()(inputs)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.03 * expected.abs().max().item())
    trained.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters())


@pytest.mark.parametrize("name", QUICK)
def test_compiled_backbones_are_one_graph_and_give_the_same(name):
    torch.compiler.reset()
    net, inputs = ready(name)
    torch.testing.assert_close(torch.compile(net, backend="eager", fullgraph=True)(inputs), net(inputs))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # within torch
@pytest.mark.parametrize("name", QUICK)
def test_compiled_backbones_train_as_others(name):
    torch.compiler.reset()
    net, inputs = ready(name)
    grads = []
    for call in (net.train(), torch.compile(net)):
        net.zero_grad()
        call(inputs).square().sum().backward()
        grads.append([parameter.grad.clone() for parameter in net.parameters()])
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # between torch and its exporter
@pytest.mark.parametrize("name", ["resnet-8/4", "densenet-bc-10-4", "plain-4-8", "mlp-8x2"])
def test_exported_backbones_give_the_same_for_any_number_of_rows(name):
    runtime = pytest.importorskip("onnxruntime")
    net, inputs = ready(name)
    program = torch.onnx.export(net, (inputs,), dynamo=True, dynamic_shapes=({0: torch.export.Dim("rows")},), verbose=False)
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    more = torch.cat([inputs, 2 * inputs, -inputs[:1]])
    (found,) = session.run(None, {session.get_inputs()[0].name: more.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), net(more).detach(), rtol=1e-4, atol=1e-5)
