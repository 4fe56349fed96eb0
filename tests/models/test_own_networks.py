"""Networks that users bring: wrapped, saved, loaded and exported as any other, and refused in clear words."""

import copy
import json
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from shortlist.errors import InputError, ShortlistWarning
from shortlist.links import Softmax
from shortlist.models import Classifier, InputSpec, Network, NetworkNeededError, TwoHeadScores
from shortlist.models.artefact import load_about, load_rule
from shortlist.models.card import model_card
from shortlist.models.factories import build_network, import_path
from shortlist.sets import top_k
from tests.models.classifiers import NAMES, fitted, pictures, rows
from tests.models.own_networks import PIXELS, Body, HandWritten, Output, Pair, RawPixels, Returning, TimmStyle, make

ROWS = InputSpec.features(3)
HERE = "tests.models.own_networks"


def classifier(network=None, inputs=PIXELS, **options):
    torch.manual_seed(0)
    return Classifier(network or HandWritten(4), NAMES, inputs=inputs, link=Softmax(), **options)


# Scores


def test_scores_are_what_the_module_returns_for_standardised_pixels():
    module, batch = HandWritten(4), pictures()
    scores = classifier(module).scores(batch)
    with torch.no_grad():
        expected = module.eval()((batch / 255 - 0.5) / 0.25)
    torch.testing.assert_close(scores, expected)


def test_wrapping_changes_nothing_in_the_module():
    torch.manual_seed(0)
    module = HandWritten(4)
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    Network.wrapping(module, PIXELS, 4)
    assert module.training
    assert module.norm.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())


def test_raw_pixels_arrive_as_bytes():
    module, batch = RawPixels(), pictures()
    scores = classifier(module, InputSpec.pictures(8, raw=True)).scores(batch)
    torch.testing.assert_close(scores, module(batch).detach())


@pytest.mark.parametrize(
    "pack", [lambda x: x, lambda x: {"logits": x}, lambda x: Output(logits=x), lambda x: SimpleNamespace(logits=x)]
)
def test_outputs_with_logits_are_scores(pack):
    module, batch = Returning(pack), rows(5)
    torch.testing.assert_close(classifier(module, ROWS).scores(batch), module.linear(batch).detach())


@pytest.mark.parametrize(
    ("pack", "came"),
    [
        (lambda x: (x, x), r"tuple of float32 \(2, 4\), float32 \(2, 4\)"),
        (lambda x: {"scores": x}, "dict with scores"),
        (lambda x: x[:, :3], r"float32 \(2, 3\)"),
        (lambda x: x[:, :, None], r"float32 \(2, 4, 1\)"),
        (lambda x: x.argmax(1), r"int64 \(2,\)"),
        (lambda x: None, "NoneType"),
        (lambda x: TwoHeadScores(x, x[:, :2]), r"TwoHeadScores of float32 \(2, 4\), float32 \(2, 2\)"),
    ],
)
def test_other_outputs_are_refused_when_they_are_wrapped(pack, came):
    with pytest.raises(InputError, match=f"network: expected scores .*4 classes; got {came}"):
        Network.wrapping(Returning(pack), ROWS, 4)


def test_of_a_pair_the_first_makes_sets():
    network = Network.wrapping(Pair(4), PIXELS, 4)
    prepared = PIXELS.prepare(pictures())
    assert torch.equal(network.label_scores(prepared), network(prepared).scores)


def test_networks_without_weights_and_lazy_ones_work():
    fixed = Returning(lambda x: x)
    fixed.linear = nn.Identity()
    assert torch.equal(Classifier(fixed, NAMES[:3], inputs=ROWS).scores(rows(2)), rows(2))
    assert classifier(nn.Sequential(nn.LazyLinear(7), nn.LazyLinear(4)), ROWS).scores(rows(2)).shape == (2, 4)


def test_double_weights_get_double_inputs():
    module = nn.Linear(3, 4).double()
    torch.testing.assert_close(classifier(module, ROWS).scores(rows(2)), module(rows(2).double()).float().detach())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": nn.Linear(3, 4)}, "inputs: expected what the network reads.*got None"),
        ({"network": nn.Linear(3, 4), "inputs": 3}, "inputs: expected an InputSpec.*got int"),
        ({"network": 5, "inputs": ROWS}, "network: expected .*got int"),
        ({"network": lambda classes: "x", "inputs": ROWS}, "network: expected .* to return a torch.nn.Module, got str"),
        ({"network": Network("features", "linear", ROWS, 4), "inputs": PIXELS}, "inputs: expected those of the network"),
    ],
)
def test_what_is_no_network_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Classifier(classes=NAMES, **options)


# Parts


@pytest.mark.parametrize("head", ["linear", "cosine", "two-head", nn.Linear(144, 4), nn.Linear, lambda f, c: nn.Linear(f, c)])
def test_a_backbone_of_ones_own_with_any_head(head):
    network = Network(Body(), head, PIXELS, 4)
    prepared = PIXELS.prepare(pictures())
    assert network.features(prepared).shape == (6, 144)
    assert network.label_scores(prepared).shape == (6, 4)


def test_a_named_backbone_with_a_head_of_ones_own():
    network = Network("plain-4", nn.Linear, PIXELS, 4)
    prepared = PIXELS.prepare(pictures())
    assert torch.equal(network(prepared), network.head(network.features(prepared)))
    assert network.foreign == ("head",)


class Unpooled(nn.Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Unpooled(), "linear"), r"backbone: expected Unpooled .*got float32 \(2, 3, 8, 8\)"),
        ((TimmStyle(9), "linear"), "backbone: expected 5 features.*got 9"),
        ((Body(), "round"), "head: expected one of linear, cosine, two-head; got 'round'"),
        ((Body(), 3), "head: expected a name, a module.*got int"),
        ((Body(), lambda f, c: c), "head: expected .*got int"),
        ((Body(), nn.Linear(144, 5)), r"network: expected scores .*got float32 \(2, 5\)"),
        ((Body(), "linear", True), "pretrained: expected False"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(arguments, message):
    backbone, head, *pretrained = arguments
    with pytest.raises(InputError, match=message):
        Network(backbone, head, PIXELS, 4, *pretrained)


# Features


def test_features_of_a_timm_model_are_what_its_classifier_reads():
    module = TimmStyle(4)
    network = Network.wrapping(module, PIXELS, 4)
    prepared = PIXELS.prepare(pictures())
    features = network.features(prepared)
    assert features.shape == (6, 5)
    torch.testing.assert_close(module.classifier(features), network(prepared))


def test_features_of_a_module_with_a_method_for_them():
    module = HandWritten(4)
    module.features = lambda x: x  # an attribute is no method
    network = Network.wrapping(module, PIXELS, 4)
    with pytest.raises(InputError, match="network: expected HandWritten to have a method features"):
        network.features(PIXELS.prepare(pictures()))

    class WithFeatures(HandWritten):
        def features(self, x):
            return self.conv(x).flatten(1)

    found = Network.wrapping(WithFeatures(4), PIXELS, 4).features(PIXELS.prepare(pictures()))
    assert found.shape == (6, 6 * 64)


def test_features_have_to_be_rows():
    class Maps(HandWritten):
        def features(self, x):
            return self.conv(x)

    with pytest.raises(InputError, match=r"network: .*\(N, F\), got float32 \(6, 6, 8, 8\)"):
        Network.wrapping(Maps(4), PIXELS, 4).features(PIXELS.prepare(pictures()))


# Factories


def factory_with_inputs(classes, inputs):
    return nn.Linear(inputs.size, classes)


def factory_with_keywords(**options):
    return nn.Linear(3, options["num_classes"])


@pytest.mark.parametrize(
    "given",
    [factory_with_inputs, factory_with_keywords, lambda: nn.Linear(3, 4), lambda num_classes: nn.Linear(3, num_classes)],
)
def test_factories_are_called_with_what_they_take(given):
    assert build_network(given, ROWS, 4).num_classes == 4


def test_import_paths_are_those_of_top_level_functions_and_classes():
    assert import_path(make) == f"{HERE}:make"
    assert import_path(HandWritten) == f"{HERE}:HandWritten"
    assert import_path(lambda: None) is None
    assert import_path(classifier().scores) is None
    assert build_network(make, PIXELS, 4).factory == f"{HERE}:make"
    assert build_network(f"{HERE}:make", PIXELS, 4).factory == f"{HERE}:make"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("make", "network: expected package.module:function.*got 'make'"),
        ("os:system('x')", "network: expected package.module:function"),
        ("no_such_module:make", "network: cannot import no_such_module:make: .*'no_such_module'"),
        (f"{HERE}:mak", f"network: did you mean 'make'.*{HERE}, got 'mak'"),
    ],
)
def test_import_paths_that_lead_nowhere_are_refused(path, message):
    with pytest.raises(InputError, match=message):
        build_network(path, PIXELS, 4)


def test_networks_for_other_data_are_refused():
    network = Network("features", "linear", ROWS, 4)
    with pytest.raises(InputError, match="network: expected one for 3 classes, got one for 4"):
        build_network(network, ROWS, 3)
    with pytest.raises(InputError, match=r"network: expected one that reads features \(2,\), got .*features \(3,\)"):
        build_network(network, InputSpec.features(2), 4)


# Saved and loaded


@pytest.mark.parametrize("given", [lambda: HandWritten(4), lambda: make, lambda: f"{HERE}:make", lambda: HandWritten])
def test_what_is_saved_comes_back(tmp_path, given):
    saved = fitted(classifier(make, superclasses=["a", "a", "b", "b"], train_counts=[1, 2, 3, 4]))
    saved.save(tmp_path / "x")
    other = pytest.warns(ShortlistWarning, match=f"network: expected {HERE}:make, .*got {HERE}:HandWritten")
    with other if given() is HandWritten else nullcontext():
        found = Classifier.load(tmp_path / "x", network=given())
    batch = pictures()
    assert torch.equal(found.scores(batch), saved.scores(batch))
    assert torch.equal(found.predict(batch).sets, saved.predict(batch).sets)
    assert (found.classes, found.superclasses, found.inputs) == (saved.classes, ("a", "a", "b", "b"), PIXELS)
    assert found.network.factory == f"{HERE}:{'HandWritten' if given() is HandWritten else 'make'}"
    found.save(tmp_path / "again")
    assert (tmp_path / "again/model.safetensors").read_bytes() == (tmp_path / "x/model.safetensors").read_bytes()


def test_a_backbone_of_ones_own_comes_back(tmp_path):
    saved = Classifier(Network(Body(), "cosine", PIXELS, 4), NAMES)
    saved.save(tmp_path / "x")
    for given in (Body(), Network(Body(), "cosine", PIXELS, 4), lambda inputs: Network(Body(), "cosine", inputs, 4)):
        found = Classifier.load(tmp_path / "x", network=given)
        assert torch.equal(found.scores(pictures()), saved.scores(pictures()))


def test_a_module_keeps_the_numbers_that_inputs_were_prepared_with(tmp_path):
    """A factory that standardises otherwise does not change what the weights were trained on."""
    saved = Classifier(Network(Body(), "linear", PIXELS, 4), NAMES)
    saved.save(tmp_path / "x")
    other = Network(Body(), "linear", InputSpec.imagenet(8), 4)
    assert torch.equal(Classifier.load(tmp_path / "x", network=other).scores(pictures()), saved.scores(pictures()))


def test_loading_without_a_network_says_what_is_needed_and_imports_nothing(tmp_path):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    classifier(make).save(tmp_path / "x")
    config = json.loads((tmp_path / "x/config.json").read_text())
    del config["digests"]
    (tmp_path / "x/config.json").write_text(json.dumps(config | {"factory": "trap:make"}))
    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(NetworkNeededError, match=r'Classifier.load\(".*x", network="trap:make"\)') as caught:
            Classifier.load(tmp_path / "x")
    finally:
        sys.path.remove(str(tmp_path))
    assert caught.value.factory == "trap:make"
    assert "trap" not in sys.modules


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Network.wrapping(HandWritten(4), PIXELS, 4), "network=….*module of class HandWritten"),
        (Network(Body(), "linear", PIXELS, 4), "network=….*backbone, a module of class Body"),
        (Network(Body(), nn.Linear, PIXELS, 4), r"network=….*Network\(Body, Linear, inputs, 4\)"),
    ],
)
def test_loading_without_a_network_says_which_class_it_had(tmp_path, network, message):
    Classifier(network, NAMES).save(tmp_path / "x")
    with pytest.raises(NetworkNeededError, match=message):
        Classifier.load(tmp_path / "x")


def test_weights_that_do_not_fit_are_named(tmp_path):
    classifier(TimmStyle(4)).save(tmp_path / "x")
    with pytest.raises(
        InputError, match=r"network\.module\.stem\.weight as float32 \(7, 3, 3, 3\), got float32 \(5, 3, 3, 3\)"
    ):
        Classifier.load(tmp_path / "x", network=TimmStyle(4, num_features=7))
    with pytest.raises(InputError, match=r"expected network\.module\.scale.*missing"):
        Classifier.load(tmp_path / "x", network=HandWritten(4))


def test_a_network_for_a_classifier_that_needs_none_is_refused(tmp_path):
    Classifier(Network("features", "linear", ROWS, 4), NAMES).save(tmp_path / "x")
    with pytest.raises(InputError, match="network: expected None.*features"):
        Classifier.load(tmp_path / "x", network=nn.Linear(3, 4))


def test_state_that_is_no_tensor_is_refused(tmp_path):
    class Stateful(nn.Linear):
        def get_extra_state(self):
            return {"a": 1}

        def set_extra_state(self, state):
            pass

    with pytest.raises(InputError, match=r"got dict in network\.module\._extra_state"):
        classifier(Stateful(3, 4), ROWS).save(tmp_path / "x")


def test_rule_and_facts_are_read_without_the_network(tmp_path):
    fitted(classifier(make, about={"name": "leaves"}), "lac:0.2").save(tmp_path / "x")
    assert load_rule(tmp_path / "x").text == "lac:0.2"
    assert load_about(tmp_path / "x")["name"] == "leaves"
    classifier(make).save(tmp_path / "bare")
    assert load_rule(tmp_path / "bare") is None


def test_the_card_says_how_to_load_it():
    card = model_card(classifier(make))
    assert f'Classifier.load("FOLDER", network="{HERE}:make")' in card
    assert f"shortlist predict FOLDER leaf.jpg --network {HERE}:make" in card
    assert f"network `HandWritten` made by `{HERE}:make`" in card
    assert "network=…" in model_card(classifier(HandWritten(4)))


# ONNX


@pytest.mark.parametrize(
    ("network", "inputs"),
    [
        (HandWritten(4), PIXELS),
        (TimmStyle(4), PIXELS),
        (Returning(lambda x: {"logits": x}), ROWS),
        (RawPixels(), InputSpec.pictures(8, raw=True)),
        (Pair(4), PIXELS),
        (Network(Body(), "linear", PIXELS, 4), None),
    ],
)
def test_exported_networks_answer_as_they_do_here(tmp_path, network, inputs):
    runtime = pytest.importorskip("onnxruntime")
    made = classifier(network, inputs, rule=top_k(2), superclasses=["a", "a", "b", "b"])
    made.export_onnx(tmp_path / "x.onnx")
    session = runtime.InferenceSession(tmp_path / "x.onnx")
    batch = pictures(7) if made.inputs.is_pictures else rows(7)
    name = "images" if made.inputs.is_pictures else "features"
    scores, sets = session.run(["scores", "sets"], {name: batch.numpy()})
    torch.testing.assert_close(torch.from_numpy(scores), made.scores(batch), atol=1e-5, rtol=1e-4)
    assert torch.equal(torch.from_numpy(sets), made.predict(batch).sets)
    assert json.loads(session.get_modelmeta().custom_metadata_map["shortlist.superclasses"]) == ["a", "a", "b", "b"]
