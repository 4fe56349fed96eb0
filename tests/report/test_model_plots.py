"""Plots that compare models show the numbers of the evaluations."""

import matplotlib as mpl
import pytest
import torch

from shortlist import evaluate
from shortlist.errors import InputError
from shortlist.metrics import average_k_accuracy, top_k_accuracy
from shortlist.report import ModelScatter, TopkAgainstAverage

mpl.use("Agg")


def model(seed, rule="top-k:2", name=None):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(6, (200,), generator=generator)
    scores = torch.randn(200, 6, generator=generator)
    scores[torch.arange(200), target] += 1.0 + 0.3 * seed
    probs = scores.softmax(1)
    return evaluate(probs, target, rule, name=name or f"model {seed}"), probs, target


def test_macro_stands_against_micro_for_each_model():
    found = [model(seed)[0] for seed in range(3)]
    points = ModelScatter(found).points()
    assert points["name"] == ["model 0", "model 1", "model 2"]
    assert points["coverage"] == [one.coverage for one in found]
    assert points["macro coverage"] == [one.macro_coverage for one in found]
    ax = ModelScatter(found).plot()
    assert [line.get_xdata()[0] for line in ax.lines[:3]] == points["coverage"]


def test_two_datasets_are_matched_by_the_name_of_the_model():
    first = [model(0, name="a")[0], model(1, name="b")[0]]
    second = [model(3, name="b")[0], model(2, name="a")[0]]
    points = ModelScatter(first, second, x="top1").points()
    assert points["top-1, second"] == [second[1].numbers()["top1"], second[0].numbers()["top1"]]
    with pytest.raises(InputError, match="others: .*called 'b'"):
        ModelScatter(first, second[1:])
    with pytest.raises(InputError, match="evaluations of models with different names, got 'a' more than once"):
        ModelScatter([first[0], first[0]], second)
    with pytest.raises(InputError, match="x: did you mean 'coverage'.*got 'coverag'"):
        ModelScatter(first, x="coverag")


def test_top_k_stands_against_average_k():
    found = [model(seed, rule=None) for seed in range(2)]
    points = TopkAgainstAverage([one for one, _, _ in found], 2).points()
    for place, (_, probs, target) in enumerate(found):
        assert points["top-2 accuracy"][place] == pytest.approx(float(top_k_accuracy(probs, target, 2)))
        exact = float(average_k_accuracy(probs, target, 2, calibration=probs))
        assert points["average-2 accuracy"][place] == pytest.approx(exact, abs=0.006)
    with pytest.raises(InputError, match="k: .*got 0"):
        TopkAgainstAverage([], 0)


def test_models_without_the_quantity_are_left_out():
    unlabelled = evaluate([[0.5, 0.5]], "top-k:1", name="blank")
    assert ModelScatter([unlabelled]).points()["name"] == []
    assert ModelScatter([unlabelled]).plot().has_data()
    assert TopkAgainstAverage([unlabelled], 1).points()["name"] == []
