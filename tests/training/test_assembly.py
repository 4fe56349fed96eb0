"""The link and the rule that a trained network gets."""

import re

import pytest
import torch

from shortlist.data.dataset import Split
from shortlist.errors import InputError, NotConvergedError
from shortlist.links import Beta, Dirichlet, Platt, Sigmoid, Softmax, Temperature, VectorScaling, choose_link
from shortlist.methods import all_methods, find_method
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.predictions import Predictions
from shortlist.sets import average_k, lac
from shortlist.training import assembly
from shortlist.training.assembly import as_predictions, assemble_classifier, fit_link, fit_rule
from shortlist.training.link_and_rule import base_link, default_rule
from shortlist.training.recipe import Recipe

N, C = 200, 6
COUNTS = torch.tensor([50, 20, 10, 5, 2, 1])


def recipe(method="average-k", **settings):
    return Recipe("mine", "flora", method=method, **settings)


def drawn(many=False, link=None, seed=0):
    """Scores, and labels from the law that they are too bold about."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(N, C, generator=generator)
    if many:
        target = torch.rand(N, C, generator=generator) < scores.sigmoid()
    else:
        target = torch.multinomial(scores.softmax(1), 1, generator=generator)[:, 0]
    return Predictions(3 * scores, target, link=link, train_counts=COUNTS)


@pytest.mark.parametrize("method", all_methods(), ids=lambda method: method.name)
@pytest.mark.parametrize("single", [True, False])
def test_the_link_is_that_of_the_method_unless_it_is_wrong_for_several_labels(method, single):
    own = find_method(method.name).link(COUNTS)
    found = base_link(recipe(method.name), own, single=single)
    assert found is (None if method.name == "sparse-top" and not single else own)


def test_two_heads_have_one_link_softmax_everywhere():
    assert isinstance(find_method("average-k").link(), Softmax)
    assert isinstance(base_link(recipe("average-k", link="sigmoid"), Softmax(), single=True), Sigmoid)


def test_temperature_of_softmax_with_several_labels_scales_one_softmax():
    """Liao's rival: softmax(s / T), where T minimises the cross-entropy of the shares of the labels."""
    given = drawn(many=True)
    chosen = recipe("softmax", calibration="temperature")
    link = fit_link(chosen, base_link(chosen, chosen.chosen_method.link(), single=False), given, [])
    temperature = float(link.temperature)
    torch.testing.assert_close(link.probs(given.scores), (given.scores / temperature).softmax(1))
    rows = given.target.any(1)
    shares = given.target[rows].double() / given.target[rows].sum(1, keepdim=True)

    def loss(t):
        return -(shares * (given.scores[rows].double() / t).log_softmax(1)).sum(1).mean()

    assert loss(temperature) < min(loss(temperature * 0.99), loss(temperature * 1.01))
    plain = recipe("softmax")
    assert isinstance(fit_link(plain, base_link(plain, plain.chosen_method.link(), single=False), given, []), Softmax)


def test_sparse_top_with_several_labels_gets_a_fitted_link():
    """The projection onto the sum 1 would give four independent labels of p = (.9, .8, .3, .1) the values (.57, .43, 0, 0)."""
    chosen, truth = recipe("sparse-top"), torch.tensor([0.9, 0.8, 0.3, 0.1])
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(4000, 4, generator=generator) < truth
    scores = truth + 0.01 * torch.randn(4000, 4, generator=generator)
    given = Predictions(scores, target)
    link = fit_link(chosen, base_link(chosen, chosen.chosen_method.link(), single=False), given, [])
    assert isinstance(link, Platt)
    torch.testing.assert_close(link.probs(scores).mean(0), truth, rtol=0, atol=0.03)
    rule = fit_rule(chosen, given.with_link(link), [])
    assert torch.equal(rule(given.with_link(link)), torch.tensor([[True, True, False, False]]).expand(4000, 4))


def test_a_link_of_the_recipe_comes_first():
    assert repr(base_link(recipe(link="spa:1:1:0:5:3:1"), Sigmoid(), single=False)) == "spa:1.0:1.0:0.0:5.0:3.0:1.0"
    assert base_link(recipe("bce", link="none"), Sigmoid(), single=False) is None
    assert repr(base_link(recipe("sparse-top", link="sparse-top:1"), None, single=False)) == "sparse-top:1.0"


@pytest.mark.parametrize("base", [None, Softmax(), Sigmoid()], ids=str)
def test_one_label_gets_a_temperature(base):
    remarks, given = [], drawn()
    link = fit_link(recipe(), base, given, remarks)
    alone = Temperature(base).fit(given.scores, given.target)
    assert isinstance(link, Temperature)
    assert torch.equal(link.temperature, alone.temperature)
    assert torch.equal(link.probs(given.scores), alone.probs(given.scores))
    assert remarks == []


def test_the_temperature_of_bold_scores_is_their_boldness():
    link = fit_link(recipe(), Softmax(), drawn(), [])
    assert float(link.temperature) == pytest.approx(3, rel=0.25)


def test_many_labels_without_a_link_get_platt_and_with_one_keep_it():
    given = drawn(many=True)
    link = fit_link(recipe("two-way"), None, given, [])
    assert isinstance(link, Platt)
    assert torch.equal(link.probs(given.scores), Platt().fit(given.scores, given.target).probs(given.scores))
    own = Sigmoid()
    assert fit_link(recipe("bce"), own, given, []) is own


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(("name", "kind"), [("temperature", Temperature), ("platt", Platt), ("beta", Beta)])
def test_a_calibration_that_was_asked_for_is_fitted(name, kind, many):
    given, base = drawn(many), Sigmoid() if many else Softmax()
    link = fit_link(recipe("bce" if many else "average-k", calibration=name), base, given, [])
    assert isinstance(link, kind)
    assert link.base is base


@pytest.mark.parametrize(("name", "kind"), [("vector-scaling", VectorScaling), ("dirichlet", Dirichlet)])
def test_calibrations_for_one_label_a_row_are_fitted(name, kind):
    given, base = drawn(), Softmax()
    link = fit_link(recipe(calibration=name), base, given, [])
    assert torch.equal(link.probs(given.scores), kind(base).fit(given.scores, given.target).probs(given.scores))


@pytest.mark.parametrize("many", [False, True])
def test_the_calibration_is_chosen_by_cross_validation(many):
    given, base, remarks = drawn(many), Sigmoid() if many else Softmax(), []
    chosen = recipe("bce" if many else "average-k", calibration="cross-validated", seed=3)
    link = fit_link(chosen, base, given, remarks)
    choice = choose_link(given.scores, given.target, base, seed=3)
    assert choice.chosen != "none"  # the scores are too bold
    assert torch.equal(link.probs(given.scores), choice.link.probs(given.scores))
    assert remarks == []


def test_the_folds_of_that_choice_are_drawn_by_the_seed_of_the_recipe(monkeypatch):
    seeds = []

    def spied(*args, seed, **kwargs):
        seeds.append(seed)
        return choose_link(*args, seed=seed, **kwargs)

    monkeypatch.setattr(assembly, "choose_link", spied)
    for seed in (0, 7):
        fit_link(recipe(calibration="cross-validated", seed=seed), Softmax(), drawn(), [])
    assert seeds == [0, 7]


def test_a_shift_by_class_is_chosen_where_a_temperature_cannot_mend_it():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1000, C, generator=generator)
    target = (scores + torch.tensor([2.0, 0, 0, 0, 0, -2])).softmax(1).multinomial(1, generator=generator)[:, 0]
    link = fit_link(recipe(calibration="cross-validated"), Softmax(), Predictions(scores, target), [])
    assert isinstance(link, Platt | Beta | VectorScaling | Dirichlet)


def test_too_few_rows_to_cross_validate_are_a_remark():
    given, base, remarks = drawn(), Softmax(), []
    few = Predictions(given.scores[:4], given.target[:4])
    assert fit_link(recipe(calibration="cross-validated"), base, few, remarks) is base
    (remark,) = remarks
    assert "needs 5 validation rows, and there are 4" in remark
    link = fit_link(recipe(calibration="cross-validated"), base, Predictions(given.scores[:5], given.target[:5]), [])
    assert link.probs(given.scores).isfinite().all()


@pytest.mark.parametrize("base", [None, Softmax()], ids=str)
def test_no_calibration_leaves_the_base(base):
    assert fit_link(recipe(calibration="none"), base, drawn(), []) is base


@pytest.mark.parametrize("base", [None, Softmax()], ids=str)
def test_a_fit_that_does_not_converge_is_a_remark(base):
    scores = torch.eye(4).repeat(5, 1)
    given, remarks = Predictions(scores, scores.argmax(1)), []
    assert fit_link(recipe(), base, given, remarks) is base
    (remark,) = remarks
    assert remark.startswith("the scores could not be calibrated: temperature: ")


def test_only_what_does_not_converge_is_a_remark(monkeypatch):
    def failing(self, scores, target):
        raise InputError("something else")

    monkeypatch.setattr(Temperature, "fit", failing)
    with pytest.raises(InputError, match="something else"):
        fit_link(recipe(), Softmax(), drawn(), [])


@pytest.mark.parametrize(("method", "settings", "classes", "text"), [
    ("average-k", {}, 100, "average-k:5"),
    ("average-k", {"parameters": {"k": 2.5}}, 100, "average-k:2.5"),
    ("average-k", {}, 3, "average-k:3"),
    ("cross-entropy", {}, 100, "average-k:5"),
    ("cross-entropy", {}, 3, "average-k:1"),  # not all three labels
    ("noised-topk", {"parameters": {"k": 3}}, 100, "top-k:3"),
    ("topk-hinge", {}, 3, "top-k:3"),
    ("noised-topk-imbalanced", {}, 100, "top-k:5"),
    ("conformal-training", {}, 100, "lac:0.1"),
    ("conformal-training", {"parameters": {"alpha": 0.2}}, 3, "lac:0.2"),
    ("bce", {}, 100, "threshold:0.5"),
    ("quasibinary", {}, 100, "threshold:0.5"),
    ("bce", {"labels": "any"}, 100, "threshold:0.5"),
])  # fmt: skip
def test_the_usual_rule_is_what_the_method_is_for(method, settings, classes, text):
    assert default_rule(recipe(method, **settings), classes) == text


@pytest.mark.parametrize("method", all_methods(), ids=lambda method: method.name)
def test_every_usual_rule_is_fitted_on_what_the_method_gives(method):
    given = drawn(many=method.labels == "any")
    own, remarks = find_method(method.name).link(COUNTS), []
    if method.name == "quasibinary":
        own.update(given.scores, given.target)
    link = fit_link(recipe(method.name), base_link(recipe(method.name), own, single=method.labels == "one"), given, remarks)
    rule = fit_rule(recipe(method.name), given.with_link(link), remarks)
    sets = rule(given.with_link(link).plausibility())
    assert sets.shape == (N, C)
    assert sets.any()


def test_the_rule_is_fitted_on_the_calibration_rows():
    given = drawn(link="softmax")
    found = fit_rule(recipe(), given, [])
    alone = average_k(5).fit(given.probs())
    assert found.text == "average-k:5"
    assert torch.equal(found.threshold, alone.threshold)
    assert found.calibrated.mean == pytest.approx(5)


def test_a_rule_of_the_recipe_is_taken():
    given = drawn(link="softmax")
    found = fit_rule(recipe(rule="lac:0.1"), given, [])
    assert found.text == "lac:0.1"
    assert torch.equal(found.threshold, lac(0.1).fit(given.probs(), given.target).threshold)


@pytest.mark.parametrize("rule", ["pas:0.1", "average-k:2:prior"])
def test_rules_that_need_a_prior_get_that_of_the_training_rows(rule):
    assert fit_rule(recipe(rule=rule), drawn(link="softmax"), []).text == rule


def test_a_rule_in_capitals_gets_its_prior():
    fit_rule(recipe(rule="PAS:0.1"), drawn(link="softmax"), [])


def test_rules_that_draw_are_the_same_for_one_seed():
    given = drawn(link="softmax")
    sets = [fit_rule(recipe(rule="aps:0.1:random", seed=seed), given, [])(given.probs()) for seed in (0, 0, 1)]
    assert torch.equal(sets[0], sets[1])
    assert not torch.equal(sets[0], sets[2])


def test_warnings_of_the_fit_are_remarks():
    tied = Predictions(torch.zeros(10, C), torch.zeros(10).long(), link="softmax", train_counts=COUNTS)
    remarks = []
    fit_rule(recipe(parameters={"k": 2}), tied, remarks)
    assert len(remarks) == 1
    assert isinstance(remarks[0], str)


@pytest.mark.parametrize(
    ("method", "settings", "k"),
    [
        ("two-way", {}, 3),
        ("two-way", {"rule": "mass:0.1,cap:3"}, 3),
        ("topk-hinge", {"rule": "aps:0.1", "parameters": {"k": 2}}, 2),
    ],
)
def test_scores_that_gave_no_probabilities_are_answered_by_their_order(method, settings, k):
    given, remarks = drawn(many=method == "two-way"), []
    rule = fit_rule(recipe(method, **settings), given, remarks)
    assert rule.text == f"top-k:{k}"
    wanted = given.scores.argsort(1, descending=True)[:, :k].sort(1).values
    assert torch.equal(rule(given.plausibility()).nonzero()[:, 1].view(N, k), wanted)
    (remark,) = remarks
    text = settings.get("rule", "threshold:0.5")
    assert re.match(f"{re.escape(text)} needs probabilities.*top-k:{k}", remark)


def test_scores_without_a_link_keep_a_rule_that_only_needs_their_order():
    given, remarks = drawn(), []
    found = fit_rule(recipe("topk-hinge", rule="average-k:2"), given, remarks)
    assert (found.text, remarks) == ("average-k:2", [])
    assert torch.equal(found.threshold, average_k(2).fit(given.scores).threshold)


def test_a_fit_that_does_not_converge_leaves_many_labels_with_a_rule_all_the_same(monkeypatch):
    def failing(self, scores, target):
        raise NotConvergedError("platt: no maximum")

    monkeypatch.setattr(Platt, "fit", failing)
    given, remarks = drawn(many=True), []
    link = fit_link(recipe("two-way"), None, given, remarks)
    assert remarks == ["the scores could not be calibrated: platt: no maximum"]
    assert link is None
    found = {name: drawn(many=True, seed=seed) for seed, name in enumerate(("val", "calibration", "test"))}
    network = Network("mlp-4", "linear", InputSpec("features", 2, (0.0, 0.0), (1.0, 1.0)), C)
    classifier, _, remarks = assemble_classifier(recipe("two-way"), network, None, found, {})
    assert classifier.rule.text == "top-k:3"
    assert remarks[-1].startswith("threshold:0.5 needs probabilities")


def test_predictions_keep_the_ids_of_the_rows_where_they_tell_them_apart():
    scores, target = torch.zeros(3, 2), torch.tensor([0, 1, 1])
    for ids, kept in ((["a", "b", "c"], ("a", "b", "c")), (["a", "b", "a"], None)):
        found = as_predictions(scores, Split(torch.zeros(3, 1), target, ids), ["x", "y"], torch.tensor([4, 2]))
        assert found.ids == kept
        assert (found.link, tuple(found.classes)) == (None, ("x", "y"))
        assert found.train_counts.tolist() == [4, 2]
        assert torch.equal(found.target, target)


@pytest.mark.parametrize("calibration", [True, False])
@pytest.mark.parametrize("rule", [None, "lac:0.1"])
def test_the_classifier_has_the_link_of_validation_and_the_rule_of_calibration(calibration, rule):
    found = {name: drawn(seed=seed) for seed, name in enumerate(("val", "calibration", "test"))}
    if not calibration:
        del found["calibration"]
    network = Network("mlp-4", "linear", InputSpec("features", 2, (0.0, 0.0), (1.0, 1.0)), C)
    classifier, predictions, remarks = assemble_classifier(
        recipe(rule=rule, parameters={"k": 2}), network, Sigmoid(), found, {}
    )
    link = Temperature(Softmax()).fit(found["val"].scores, found["val"].target)
    rows = found["calibration" if calibration else "val"].with_link(link)
    wanted = fit_rule(recipe(rule=rule, parameters={"k": 2}), rows, [])
    assert torch.equal(classifier.link.temperature, link.temperature)
    assert torch.equal(classifier.rule.threshold, wanted.threshold)
    assert predictions.keys() == found.keys()
    assert all(torch.equal(part.probs(), link.probs(found[name].scores)) for name, part in predictions.items())
    said = any("was fitted on the rows that chose the epoch" in remark for remark in remarks)
    assert said == (rule is not None and not calibration)
