"""The numbers that claims are about, against loops over rows and labels."""

import pytest
import torch

from shortlist import Predictions
from shortlist.claims.set_numbers import set_numbers
from shortlist.links import parse_link
from tests.references import claims as reference, sets as reference_sets

COUNTS = torch.tensor([5, 10, 50, 200, 300])


def drawn(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(rows, 5, generator=generator, dtype=torch.float64)
    posterior = (scores + torch.randn(rows, 5, generator=generator)).softmax(1)
    target = torch.multinomial(posterior, 1, generator=generator)[:, 0]
    return Predictions(scores, target, list("abcde"), "softmax", train_counts=COUNTS), posterior


@pytest.mark.parametrize("k", [1, 2])
def test_numbers_are_those_of_the_definitions(k):
    known, (test, posterior) = drawn(40, 0)[0], drawn(30, 1)
    found = set_numbers(known, test, posterior, [k])
    calibration, probs, truth = known.probs().numpy(), test.probs().numpy(), posterior.numpy()
    prior = (COUNTS.double() / COUNTS.sum()).numpy()
    expected = {
        f"top-{k}": reference_sets.top_k(probs, k),
        f"average-{k}": reference_sets.average_k(calibration, probs, k),
        f"average-{k} softmax": reference_sets.average_k(calibration, probs, k),
        f"average-{k} prior": reference_sets.average_k(calibration, probs, k, prior),
    }
    groups = {"few": [0, 1], "medium": [2], "many": [3, 4]}
    for name, sets in expected.items():
        recall = [100 * reference.expected_recall(sets, truth, j) for j in range(5)]
        sizes = [int(sum(row)) for row in sets]
        assert found[name] == pytest.approx(100 * reference.expected_accuracy(sets, truth))
        assert found[f"macro-{name}"] == pytest.approx(sum(recall) / 5)
        for group, classes in groups.items():
            assert found[f"macro-{name} {group}"] == pytest.approx(sum(recall[j] for j in classes) / len(classes))
        assert found[f"{name} size"] == pytest.approx(sum(sizes) / len(sizes))
        assert found[f"{name} singles"] == pytest.approx(100 * sizes.count(1) / len(sizes))
    best = reference_sets.average_k(truth, truth, k)
    assert found[f"average-{k} best"] == pytest.approx(100 * reference.expected_accuracy(best, truth))
    assert found[f"top-{k} best"] >= found[f"top-{k}"]


def test_without_true_probabilities_labels_are_counted():
    known, test = drawn(40, 0)[0], drawn(30, 1)[0]
    found = set_numbers(known, test, None, [2])
    truth = torch.nn.functional.one_hot(test.target, 5).double().tolist()
    assert found["top-2"] == pytest.approx(
        100 * reference.expected_accuracy(reference_sets.top_k(test.probs().numpy(), 2), truth)
    )
    assert "top-2 best" not in found


def test_the_own_link_and_the_plain_softmax_differ_in_thresholds_not_in_order():
    known, test = (part.with_link(parse_link("sigmoid")) for part in (drawn(400, 0)[0], drawn(300, 1)[0]))
    found = set_numbers(known, test, None, [2])
    assert found["average-2"] != found["average-2 softmax"]
    again = set_numbers(drawn(400, 0)[0], drawn(300, 1)[0], None, [2])
    assert again["average-2"] == again["average-2 softmax"] == found["average-2 softmax"]
