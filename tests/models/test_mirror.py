"""Answers over a picture and its mirror image: only outside of training, saved with the classifier, told apart from others."""

from dataclasses import replace

import pytest
import torch

from shortlist.errors import InputError
from shortlist.models import Classifier, InputSpec, Network, TwoHeadScores
from shortlist.sets import top_k
from shortlist.training import train
from tests.models.classifiers import of_pictures, pictures
from tests.models.own_networks import PIXELS, HandWritten, TimmStyle
from tests.training.small import dataset, recipe


def mirrored(classifier):
    classifier.network.inputs = replace(classifier.network.inputs, mirror=True)
    return classifier.eval()


@pytest.mark.parametrize("head", ["linear", "two-head"])
def test_scores_are_the_mean_over_both_ways(head):
    plain, both = of_pictures(head=head).eval(), mirrored(of_pictures(head=head))
    given = pictures(5)
    with torch.no_grad():
        expected = [plain.network.label_scores(plain.inputs.prepare(way)) for way in (given, given.flip(3))]
        found = both.network.label_scores(both.inputs.prepare(given))
    torch.testing.assert_close(found, (expected[0] + expected[1]) / 2, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(found, expected[0], atol=1e-4)


def test_training_sees_each_picture_once():
    both = mirrored(of_pictures()).train()
    plain = of_pictures().train()
    given = plain.inputs.prepare(pictures(5))
    assert torch.equal(both.network(given), plain.network(given))


class Pair(torch.nn.Module):
    """Two heads in one module."""

    def __init__(self):
        super().__init__()
        self.one, self.other = TimmStyle(3), TimmStyle(3)

    def forward(self, x):
        return TwoHeadScores(self.one(x), self.other(x))


@pytest.mark.parametrize("make", [lambda: HandWritten(3), lambda: TimmStyle(3), Pair])
def test_networks_written_elsewhere_are_averaged_too(make):
    module = make().eval()
    plain, both = (Network.wrapping(module, replace(PIXELS, mirror=mirror), 3).eval() for mirror in (False, True))
    given = PIXELS.prepare(pictures(4))
    with torch.no_grad():
        ways, found = [plain(way) for way in (given, given.flip(3))], both(given)
        for part in range(2) if isinstance(found, TwoHeadScores) else [...]:
            torch.testing.assert_close(found[part], (ways[0][part] + ways[1][part]) / 2)
        if hasattr(module, "forward_features"):
            torch.testing.assert_close(both.features(given), (plain.features(given) + plain.features(given.flip(3))) / 2)


def test_a_saved_classifier_and_its_graph_answer_alike(tmp_path):
    both, given = mirrored(of_pictures(rule=top_k(2))), pictures(6)
    both.save(tmp_path / "saved")
    loaded = Classifier.load(tmp_path / "saved")
    assert loaded.inputs.mirror
    expected = both.predict(given).scores
    torch.testing.assert_close(loaded.predict(given).scores, expected)
    torch.testing.assert_close(loaded.predict(given.flip(3)).scores, expected)
    for package in ("onnx", "onnxscript"):
        pytest.importorskip(package)
    session = pytest.importorskip("onnxruntime").InferenceSession
    both.export_onnx(tmp_path / "x.onnx")
    graph = session(str(tmp_path / "x.onnx"), providers=["CPUExecutionProvider"])
    (scores,) = graph.run(["scores"], {"images": given.numpy()})
    torch.testing.assert_close(torch.from_numpy(scores), expected, atol=1e-5, rtol=1e-4)


def test_scores_of_one_way_are_those_of_another_classifier():
    assert mirrored(of_pictures()).network.digest() != of_pictures().network.digest()
    assert not InputSpec.pictures(8).is_close(replace(InputSpec.pictures(8), mirror=True))


def test_features_have_no_mirror_image():
    with pytest.raises(InputError, match="mirror: expected False for features"):
        InputSpec("features", 3, mirror=True)


@pytest.mark.parametrize("network", [None, lambda classes: TimmStyle(classes)])
def test_a_recipe_with_mirror_trains_tests_and_saves_such_a_classifier(tmp_path, network):
    chosen = recipe(mirror=True, epochs=1)
    trained = train(chosen, tmp_path / "run", device="cpu", dataset=dataset(), network=network)
    assert trained.classifier.inputs.mirror
    given = pictures(6, trained.classifier.inputs.size)
    torch.testing.assert_close(
        trained.classifier.predict(given).scores, trained.classifier.predict(given.flip(3)).scores, atol=1e-5, rtol=1e-4
    )
