"""Published numbers beside measured ones: only those that were measured alike, each against a computation of its own."""

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.metrics.accuracy import SHOT_GROUPS
from shortlist.recipes import all_recipes, find_recipe, published_numbers
from shortlist.recipes.comparison import MEASURES, compare_with_published
from shortlist.report import evaluate
from shortlist.sets import parse_rule
from tests.references import metrics as reference

HISTORY = [
    {"epoch": 1, "best": True, "metrics": {"top-5": 0.5}},
    {"epoch": 2, "best": True, "metrics": {"top-5": 0.91}},
    {"epoch": 3, "best": False, "metrics": {"top-5": 0.9}},
]


def drawn(classes, rows=200, *, labels="one", seed=0, link="softmax", empty=0.0):
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(rows, classes, generator=generator)
    if labels == "one":
        target = torch.distributions.Categorical(logits=scores).sample()
    else:
        target = torch.rand(rows, classes, generator=generator) < scores.sigmoid() / 4
        target[torch.rand(rows, generator=generator) < empty] = False
    counts = torch.randint(1, 200, (classes,), generator=generator)
    return Predictions(scores, target, link=link, train_counts=counts)


def compared(recipe, predictions, history=(), rule=None):
    fitted = parse_rule(rule or recipe.rule or "threshold:0.5").fit(predictions)
    return compare_with_published(recipe, evaluate(predictions, rule=fitted), predictions, history)


def measured(found):
    return {row.quantity: row.measured for row in found.rows}


def test_top_k_on_test_rows_and_on_validation_rows():
    predictions = drawn(100)
    found = compared(find_recipe("cifar100-top5").with_path("data"), predictions, HISTORY)
    ranks = (predictions.scores.numpy() > predictions.scores.numpy()[range(200), predictions.target][:, None]).sum(1)
    assert measured(found) == {
        "top-5, val rows": 0.91,  # of the last epoch that was kept
        "top-5": pytest.approx((ranks < 5).mean()),
        "top-1": pytest.approx((ranks < 1).mean()),
    }
    assert {row.quantity: (row.published, row.spread, row.source) for row in found.rows} == {
        "top-5, val rows": (pytest.approx(0.9424), None, "Garcin 2022, Table 3"),  # 10 samples, as the recipe has
        "top-5": (pytest.approx(0.944), pytest.approx(0.001), "Garcin 2022, Table 4"),
        "top-1": (pytest.approx(0.687), pytest.approx(0.003), "Garcin 2022, Table 7"),
    }
    assert found.remark() == ""


@pytest.mark.parametrize(
    ("settings", "published"),
    [
        ({"label_noise": 0.3}, {"top-5": 0.897, "top-1": 0.693}),
        ({"label_noise": 0.4, "method": "cross-entropy"}, {"top-5": 0.836, "top-1": 0.618}),
        ({"label_noise": 0.25}, None),
        ({"epsilon": 1.0}, {"top-5, val rows": 0.9424, "top-5": 0.944, "top-1": 0.687}),
        ({"epsilon": 0.0}, {"top-5, val rows": 0.1938, "top-5": 0.944, "top-1": 0.687}),
        ({"epsilon": 0.5}, {"top-5": 0.944, "top-1": 0.687}),  # no such row in Tables 2 and 3
        ({"samples": 50}, {"top-5, val rows": 0.9464, "top-5": 0.944, "top-1": 0.687}),
        ({"method": "focal"}, None),
        ({"name": "mine"}, None),
        ({"data": "cifar100:data,unlabelled=1"}, None),
        ({"data": "cifar10:data"}, None),
    ],
)
def test_numbers_of_the_experiment_that_the_run_repeats(settings, published):
    recipe = find_recipe("cifar100-top5").with_path("data").with_settings(**settings)
    found = compared(recipe, drawn(100), HISTORY)
    if published is None:
        assert found is None
    else:
        assert {row.quantity: row.published for row in found.rows} == pytest.approx(published)


def test_data_with_other_classes_are_other_data():
    assert compared(find_recipe("cifar100-top5").with_path("leaves"), drawn(12), HISTORY) is None


def test_other_settings_are_named():
    recipe = find_recipe("cifar100-top5").with_path("data").with_settings(epochs=2, milestones="1", seed=3, epsilon=0.5)
    found = compared(recipe, drawn(100))
    assert found.differences == {"epochs": (2, 300), "milestones": ((1,), (150, 225)), "epsilon": (0.5, 0.2)}
    assert found.remark() == (
        "Not the published experiment: epochs 2 instead of 300, milestones 1 instead of 150, 225, epsilon 0.5 instead of 0.2."
    )


def test_another_rule_measures_other_sets():
    recipe = find_recipe("plantnet-top3").with_path("data")
    predictions = drawn(1081)
    assert set(measured(compared(recipe, predictions))) == {
        "top-3",
        "macro-top-3",
        *(f"macro-top-3, {group}-shot classes" for group in SHOT_GROUPS),
    }
    of_rule = find_recipe("plantnet-average3").with_path("data")
    assert "average-3, few-shot classes" in measured(compared(of_rule, predictions))
    assert compared(of_rule, predictions, rule="top-k:3") is None
    assert measured(compared(recipe, predictions, rule="average-k:3")) == measured(compared(recipe, predictions))


@pytest.mark.parametrize(("recipe", "metric"), [("plantnet-top5", "macro-top-5"), ("plantnet-average2", "average-2")])
def test_groups_of_classes(recipe, metric):
    predictions = drawn(1081, rows=500)
    chosen = find_recipe(recipe).with_path("data")
    found = measured(compared(chosen, predictions))
    probs = predictions.probs()
    sets = parse_rule(chosen.rule).fit(predictions).sets(probs).numpy()
    target, counts = predictions.target.numpy(), predictions.train_counts.numpy()
    hit = sets[range(len(target)), target]
    shares = {label: hit[target == label].mean() for label in set(target.tolist())}
    groups = {"few": counts < 20, "medium": (counts >= 20) & (counts <= 100), "many": counts > 100}
    for group, members in groups.items():
        mean = np.mean([share for label, share in shares.items() if members[label]])
        assert found[f"{metric}, {group}-shot classes"] == pytest.approx(mean)
    whole = np.mean(list(shares.values())) if metric.startswith("macro") else hit.mean()
    assert found[metric] == pytest.approx(whole)


def test_groups_of_the_thesis():
    predictions = drawn(1081, rows=3000)
    counts = (predictions.train_counts * 15).clamp(max=3000)
    predictions = Predictions(predictions.scores, predictions.target, link="softmax", train_counts=counts)
    found = measured(compared(find_recipe("plantnet-cross-entropy").with_path("data"), predictions))
    right = (predictions.scores.argmax(1) == predictions.target).numpy()
    target, size = predictions.target.numpy(), counts.numpy()
    for low, high, name in ((11, 50, "11-50"), (51, 500, "51-500"), (501, 2000, "501-2000"), (2001, 9999, "2001+")):
        members = [label for label in set(target.tolist()) if low <= size[label] <= high]
        mean = np.mean([right[target == label].mean() for label in members])
        assert found[f"top-1, classes with {name} training examples"] == pytest.approx(mean)
    assert "top-1, classes with 0-10 training examples" not in found  # there are none


def test_one_label_treated_as_any_number():
    single = drawn(10, link="sigmoid")
    several = Predictions(single.scores, torch.nn.functional.one_hot(single.target, 10).bool(), link="sigmoid")
    recipe = find_recipe("cifar10-quasibinary").with_path("data")
    wrong = (single.scores.argmax(1) != single.target).double().mean()
    assert measured(compared(recipe, several)) == {"top-1 error": pytest.approx(float(wrong))}
    rival = recipe.with_settings(method="cross-entropy", labels="as-given")
    found = compared(rival, single)
    assert measured(found) == {"top-1 error": pytest.approx(float(wrong))}
    assert (found.rows[0].published, found.remark()) == (pytest.approx(0.052), "")


def test_several_labels():
    predictions = drawn(80, labels="any", link="sigmoid")
    found = compared(find_recipe("coco-spa").with_path("data"), predictions)
    probs, target = predictions.probs().double().numpy(), predictions.target.numpy()
    assert measured(found) == {
        "mAP@y": pytest.approx(reference.mean_average_precision(probs, target, "class"), abs=1e-6),
        "mAP@x": pytest.approx(reference.mean_average_precision(probs, target, "example"), abs=1e-6),
        "ACE": pytest.approx(reference.calibration_error(probs, target, "average", over="all"), abs=1e-6),
        "MCE": pytest.approx(reference.calibration_error(probs, target, "max", over="all"), abs=1e-6),
    }
    assert [row.published for row in found.rows] == pytest.approx([0.778, 0.884, 0.053, 0.12])


def test_the_network_and_the_link_choose_the_row():
    predictions = drawn(80, labels="any", link="sigmoid")
    recipe = find_recipe("coco-spa").with_path("data").with_settings(method="asy")
    assert compared(recipe, predictions).rows[0].published == pytest.approx(0.77)  # with φ
    assert compared(recipe.with_settings(probabilities="sigmoid"), predictions).rows[0].published == pytest.approx(0.775)
    transformer = recipe.with_settings(backbone="timm:vit_base_patch32_224", probabilities="sigmoid")
    found = compared(transformer, predictions)
    assert (found.rows[0].published, found.remark()) == (pytest.approx(0.764), "")
    other = compared(recipe.with_settings(backbone="resnet-18"), predictions)
    assert other.rows[0].published == pytest.approx(0.77)
    assert other.differences == {"backbone": ("resnet-18", "timm:ecaresnet50t")}


def test_the_most_probable_four_labels():
    predictions = drawn(80, labels="any", link="sigmoid")
    found = measured(compared(find_recipe("coco-quasibinary").with_path("data"), predictions))
    probs, target = predictions.probs().double().numpy(), predictions.target.numpy()
    assert found["macro-F1 of the top 4"] == pytest.approx(reference.top_n_f1(probs, target, 4))
    expected = reference.calibration_error(probs, target, "expected", bins=10, over=4)
    assert found["ECE of the top 4"] == pytest.approx(expected, abs=1e-6)


def test_rows_without_a_label():
    predictions = drawn(60, labels="any", link="sigmoid", empty=0.4)
    found = compared(find_recipe("cifar60-40").with_path("data"), predictions)
    probs, target = predictions.probs().double().numpy(), predictions.target.numpy()
    inside, top = target.any(1), probs.max(1)
    right = target[range(len(target)), probs.argmax(1)]
    above = (top[inside][:, None] > top[~inside]).mean() + (top[inside][:, None] == top[~inside]).mean() / 2
    assert measured(found) == {
        "top-1 in": pytest.approx(right[inside].mean()),
        "confidence out": pytest.approx(top[~inside].mean(), abs=1e-6),
        "AUROC": pytest.approx(above, abs=1e-6),
    }
    area = found.rows[-1].row()
    assert area[1:3] == ["0.913", ""]
    assert area[3] == f"{above:.3f}"


def test_every_metric_of_a_recipe_can_be_measured():
    """Apart from those of validation rows, which the history has."""
    named = {number.metric for recipe in all_recipes() for number in published_numbers(recipe=recipe.name)}
    assert named <= set(MEASURES)
