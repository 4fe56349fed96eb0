"""Scores and embeddings of one pass: the same as each on its own, of length 1."""

import pytest
import torch
from torch import nn

from shortlist.errors import InputError
from shortlist.models import Classifier, InputSpec, Network
from shortlist.models.embeddings import embedded_batches, score_and_embed
from tests.models.classifiers import NAMES, of_features, of_pictures, pictures, rows


@pytest.mark.parametrize("head", ["linear", "cosine", "two-head"])
def test_one_pass_gives_the_scores_and_the_features(head):
    classifier = of_pictures(head=head)
    batch = pictures(5)
    network = classifier.network.eval()
    scores, embeddings = score_and_embed(network, batch)
    torch.testing.assert_close(scores, classifier.scores(batch), rtol=0, atol=0)
    features = network.features(network.inputs.prepare(batch)).detach().double()
    expected = features / features.norm(dim=1, keepdim=True)
    torch.testing.assert_close(embeddings.double(), expected, rtol=1e-5, atol=1e-6)


def test_the_backbone_runs_once():
    classifier, calls = of_pictures(), []
    classifier.network.backbone.register_forward_hook(lambda *_: calls.append(1))
    list(embedded_batches(classifier, pictures(5), batch_size=2))
    assert len(calls) == 3


def test_the_chosen_head_of_two_gives_the_scores():
    network = of_pictures(head="two-head").network.eval()
    labels, _ = score_and_embed(network, pictures(3))
    proposal, _ = score_and_embed(network.with_head("proposal"), pictures(3))
    assert not torch.equal(labels, proposal)


def test_batches_cover_all_rows_in_order_and_leave_the_mode_alone():
    classifier = of_features()
    classifier.train()
    given = rows(7)
    found = list(embedded_batches(classifier, given, batch_size=3))
    assert torch.cat([numbers for numbers, *_ in found]).tolist() == list(range(7))
    torch.testing.assert_close(torch.cat([scores for _, scores, _ in found]), classifier.scores(given))
    assert classifier.network.training


class _Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.top = nn.Linear(3, 6), nn.Linear(6, len(NAMES))

    def features(self, given):
        return self.body(given)

    def forward(self, given):
        return self.top(self.features(given))


def test_a_whole_module_with_features_has_embeddings_and_one_without_says_so():
    inputs = InputSpec.features(3)
    classifier = Classifier(_Whole(), NAMES, inputs=inputs)
    scores, embeddings = score_and_embed(classifier.network.eval(), rows(4))
    assert scores.shape == (4, len(NAMES))
    assert embeddings.shape == (4, 6)
    with pytest.raises(InputError, match="features"):
        score_and_embed(Network.wrapping(nn.Linear(3, 4), inputs, 4), rows(4))
