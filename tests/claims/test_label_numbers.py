"""The numbers of several labels a row, against the literal formulas."""

import pytest
import torch

from shortlist import Predictions
from shortlist.claims.label_numbers import label_numbers
from shortlist.links import Isotonic, Platt, Sigmoid, Softmax, Temperature
from tests.references import metrics as reference

LABELS = 6


def drawn(rows, seed, link):
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(rows, LABELS, generator=generator, dtype=torch.float64) - 0.5
    marginals = torch.sigmoid(0.7 * scores - 0.2)
    target = torch.rand(rows, LABELS, generator=generator) < marginals
    return Predictions(scores, target, link=link), marginals


@pytest.fixture(scope="module")
def held():
    return drawn(150, 0, "softmax")[0]


@pytest.fixture(scope="module")
def test_rows():
    return drawn(80, 1, "softmax")


@pytest.fixture(scope="module")
def numbers(held, test_rows):
    return label_numbers(held, *test_rows)


@pytest.mark.parametrize("reading", ["own", "sigmoid", "Platt", "isotonic", "temperature", "best"])
def test_calibration_and_retrieval_of_every_reading(reading, numbers, held, test_rows):
    rows, marginals = test_rows
    links = {"own": Softmax(), "sigmoid": Sigmoid(), "Platt": Platt(), "isotonic": Isotonic(pseudo_counts=0)}
    link = links.get(reading, Temperature(Softmax()))
    if reading in ("Platt", "isotonic", "temperature"):
        link = link.fit(held.scores, held.target)
    probs = (marginals if reading == "best" else link.probs(rows.scores)).numpy()
    target = rows.target.numpy()
    expected = {
        "ACE": reference.calibration_error(probs, target, "average", over="all"),
        "MCE": reference.calibration_error(probs, target, "max", over="all"),
        "ECE-4": reference.calibration_error(probs, target, bins=10, over=4),
    }
    assert {name: numbers[f"{name} {reading}"] for name in expected} == pytest.approx(
        {name: 100 * value for name, value in expected.items()}
    )


def test_ranking(numbers, test_rows):
    rows, marginals = test_rows
    target = rows.target.numpy()
    for ending, scores in (("", rows.scores.numpy()), (" best", marginals.numpy())):
        assert numbers[f"mAP@y{ending}"] == pytest.approx(100 * reference.mean_average_precision(scores, target))
        assert numbers[f"mAP@x{ending}"] == pytest.approx(100 * reference.mean_average_precision(scores, target, "example"))
        assert numbers[f"F1-4{ending}"] == pytest.approx(100 * reference.top_n_f1(scores, target))


def test_queries_of_one_label_are_ranked_by_its_probability(numbers, test_rows):
    rows, _ = test_rows
    expected = 100 * reference.mean_average_precision(torch.sigmoid(rows.scores).numpy(), rows.target.numpy())
    assert numbers["retrieval-1 sigmoid"] == pytest.approx(expected)
    lengths = [numbers[f"retrieval-{length} best"] for length in range(1, 6)]
    assert min(lengths) < numbers["retrieval best"] < max(lengths)


def test_a_reading_that_does_not_exist_has_no_numbers(held):
    rows, _ = drawn(40, 2, None)
    found = label_numbers(held, rows, None)
    assert "ACE own" not in found
    assert "ACE temperature" not in found
    assert not any(name.endswith("best") for name in found)
