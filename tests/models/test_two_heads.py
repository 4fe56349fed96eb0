"""The proposal head of a two-head network: its scores and probabilities on request, saved, exported and kept apart."""

import json

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.links import Sigmoid, Softmax, Temperature
from shortlist.losses import TwoHeadScores
from shortlist.models import Classifier, InputSpec, Network
from shortlist.sets import top_k
from tests.models.classifiers import NAMES, fitted, labels, of_features, of_pictures, rows


def by_hand(classifier, batch, head):
    """Scores of one linear head on the features of the backbone, in float64."""
    inputs, network = classifier.inputs, classifier.network
    mean, std = (torch.tensor(values, dtype=torch.float64) for values in (inputs.mean, inputs.std))
    features = network.backbone.double()((batch.double() - mean) / std).detach()
    network.backbone.float()
    part = getattr(network.head, head)
    return features @ part.weight.detach().double().T + part.bias.detach().double()


def softmax(scores):
    powers = np.exp(scores.numpy() - scores.numpy().max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def two_heads(**options):
    return of_features(head="two-head", **options)


def test_predictions_of_the_proposal_head_are_those_of_a_forward_by_hand():
    classifier, given = two_heads(link=Sigmoid(), train_counts=[1, 2, 3, 4]), rows()
    found = classifier.predictions(given, labels(50), head="proposal")
    expected = by_hand(classifier, given, "proposal")
    np.testing.assert_allclose(found.scores.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.probs().numpy(), softmax(expected), rtol=1e-5, atol=1e-5)
    assert isinstance(found.link, Softmax)
    assert found.train_counts.tolist() == [1, 2, 3, 4]
    usual = classifier.predictions(given, labels(50))
    np.testing.assert_allclose(usual.scores.numpy(), by_hand(classifier, given, "labels").numpy(), rtol=1e-5, atol=1e-5)
    assert isinstance(usual.link, Sigmoid)
    assert classifier.network.scored_head == "labels"


def test_every_way_of_asking_gives_the_same_scores():
    classifier, given = two_heads(), rows(7)
    proposal = classifier.with_head("proposal")
    expected = classifier.predictions(given, head="proposal").scores
    assert torch.equal(proposal.scores(given), expected)
    torch.testing.assert_close(torch.cat([part for _, part in proposal.score_batches(given, batch_size=3)]), expected)
    assert torch.equal(proposal.with_rule(top_k(2)).predict(given).scores, expected)
    assert torch.equal(classifier.with_rule(top_k(2)).predict(given, head="proposal").scores, expected)


def test_both_share_their_weights():
    classifier = two_heads()
    proposal = classifier.with_head("proposal")
    with torch.no_grad():
        classifier.network.head.proposal.bias += 1
    np.testing.assert_allclose(
        proposal.scores(rows(5)).numpy(), by_hand(classifier, rows(5), "proposal").numpy(), rtol=1e-5, atol=1e-5
    )
    classifier.to(torch.float64)
    assert proposal.network.dtype == torch.float64


def test_a_fitted_rule_stays_with_the_head_that_it_was_fitted_on():
    classifier = fitted(two_heads(), "average-k:2")
    assert classifier.with_head("proposal").rule is None
    with pytest.raises(InputError, match="no set rule"):
        classifier.predict(rows(2), head="proposal")
    proposal = fitted(classifier.with_head("proposal"), "average-k:2")
    assert proposal.rule.text == "average-k:2"
    assert proposal.predictions(rows(2)).network_digest != classifier.predictions(rows(2)).network_digest
    assert classifier.with_rule(top_k(2)).with_head("proposal").rule.text == "top-k:2"


def test_the_head_that_a_classifier_has_changes_nothing():
    classifier = fitted(two_heads())
    assert classifier.with_head("labels") is classifier
    assert of_features().with_head("labels").network.scored_head == "labels"
    back = classifier.with_head("proposal").with_head("labels")
    assert back.link is None
    assert torch.equal(back.scores(rows()), classifier.scores(rows()))
    assert classifier.with_head("labels", Sigmoid()).link.kind == "sigmoid"


def test_a_calibrated_link_of_the_proposal_head():
    classifier, given = two_heads(), rows(200)
    target = classifier.with_head("proposal").scores(given).argmax(1)
    target[:60] = (target[:60] + 1) % 4
    link = Temperature().fit(classifier.predictions(given, head="proposal").scores, target)
    found = classifier.with_head("proposal", link).predictions(given)
    assert torch.equal(found.probs(), link.probs(found.scores))


@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_one_head_is_not_two(head):
    with pytest.raises(InputError, match=f"head: expected 'labels'.*{head} head.*got 'proposal'"):
        of_features(head=head).with_head("proposal")
    with pytest.raises(InputError, match="head: did you mean 'proposal'.*got 'proposals'"):
        two_heads().predictions(rows(), head="proposals")


class Pair(torch.nn.Module):
    """A network of one's own with two outputs."""

    def __init__(self):
        super().__init__()
        self.one, self.other = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)

    def forward(self, inputs):
        return TwoHeadScores(self.one(inputs), self.other(inputs))


def test_networks_of_the_user_with_two_outputs(tmp_path):
    classifier = Classifier(Pair(), NAMES, inputs=InputSpec.features(3))
    proposal = classifier.with_head("proposal")
    torch.testing.assert_close(proposal.scores(rows(4)), classifier.network.module.other(rows(4)).detach())
    proposal.save(tmp_path / "own")
    torch.testing.assert_close(Classifier.load(tmp_path / "own", network=Pair).scores(rows(4)), proposal.scores(rows(4)))
    with pytest.raises(InputError, match="head: expected 'labels'.*Linear.*got 'proposal'"):
        Classifier(torch.nn.Linear(3, 4), NAMES, inputs=InputSpec.features(3)).with_head("proposal")


def test_saved_and_loaded(tmp_path):
    proposal = fitted(of_pictures(head="two-head").with_head("proposal"))
    proposal.save(tmp_path / "saved")
    loaded = Classifier.load(tmp_path / "saved")
    assert loaded.network.scored_head == "proposal"
    assert loaded.network.digest() == proposal.network.digest() != proposal.with_head("labels").network.digest()
    batch = torch.randint(0, 256, (3, 3, 8, 8), dtype=torch.uint8)
    assert torch.equal(loaded.scores(batch), proposal.scores(batch))
    assert "proposal head" in (tmp_path / "saved" / "README.md").read_text()
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    del config["digests"]
    (tmp_path / "saved" / "config.json").write_text(json.dumps(config | {"scored_head": "left"}))
    with pytest.raises(InputError, match="head: .*got 'left'"):
        Classifier.load(tmp_path / "saved")


def test_exported(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    classifier = two_heads()
    classifier.with_head("proposal").export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    found = session.run(["probs"], {"features": rows(6).numpy()})[0]
    assert json.loads(session.get_modelmeta().custom_metadata_map["shortlist.scored_head"]) == "proposal"
    np.testing.assert_allclose(found, softmax(by_hand(classifier, rows(6), "proposal")), rtol=1e-4, atol=1e-6)


def test_the_network_names_the_head():
    network = Network("mlp-8", "two-head", InputSpec.features(3), 4)
    assert repr(network.with_head("proposal")) == "Network(mlp-8, two-head head, proposal scores, features 3, 4 classes)"


def test_a_rule_fitted_on_one_head_is_not_used_for_the_other():
    classifier = two_heads(link=Softmax())
    proposal = classifier.predictions(rows(50), labels(50), head="proposal")
    with pytest.raises(InputError, match="predictions: .*another head"):
        classifier.fit_rule("lac:0.1", proposal)
    rule = classifier.with_head("proposal").fit_rule("lac:0.1", proposal).rule
    with pytest.raises(InputError, match="lac:0.1: .*another head"):
        classifier.with_rule(rule)
    assert classifier.with_head("proposal").with_rule(rule).rule is rule
    own = classifier.fit_rule("lac:0.1", classifier.predictions(rows(50), labels(50)))
    assert own.rule.origin["network"] == classifier.network.digest()
    with pytest.raises(InputError, match="predictions: .*another network"):
        two_heads(backbone="mlp-7", link=Softmax()).fit_rule("lac:0.1", classifier.predictions(rows(50), labels(50)))
