"""The classifier: what it is asked, and what it answers."""

from dataclasses import replace

import pytest
import torch

from shortlist.data import Dataset, PictureArray, PictureFiles, Pictures, Split
from shortlist.errors import InputError
from shortlist.links import Isotonic, Platt, Quasibinary, Sigmoid, Softmax
from shortlist.models.classifier import Classifier
from shortlist.models.network import Network
from shortlist.sets import average_k, lac, parse_rule, threshold, top_k
from tests.models.classifiers import NAMES, fitted, image, labels, of_features, of_pictures, pictures, rows


@pytest.fixture
def folder(tmp_path):
    """Three PNG files of different shapes."""
    for name, shape in (("a.png", (9, 13)), ("b.png", (8, 8)), ("c.png", (30, 20))):
        image(*shape).save(tmp_path / name)
    return tmp_path


# Scores


@pytest.mark.parametrize("head", ["linear", "cosine", "two-head"])
def test_scores_are_the_network_on_prepared_inputs(head):
    classifier, batch = of_pictures(head=head), pictures()
    network = classifier.network.eval()
    mean, std = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)
    features = network.backbone((batch.float() / 255 - mean) / std)
    expected = network.head.labels(features) if head == "two-head" else network.head(features)
    torch.testing.assert_close(classifier.scores(batch), expected.detach(), rtol=1e-4, atol=1e-5)


def test_scores_are_taken_in_evaluation_and_training_goes_on():
    classifier = of_pictures("resnet-8")
    classifier.train()
    classifier.network.head.eval()  # frozen parts stay what they were
    before = {name: value.clone() for name, value in classifier.state_dict().items()}
    alone, together = classifier.scores(pictures(2)[:1]), classifier.scores(pictures(2))[:1]
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)  # no statistics of the batch
    assert classifier.network.backbone.training
    assert not classifier.network.head.training
    assert all(torch.equal(before[name], value) for name, value in classifier.state_dict().items())


def test_scores_can_be_worked_on_further():
    scores = of_features().scores(rows(2))
    scores += 1
    (scores * torch.ones(4, requires_grad=True)).sum().backward()
    assert not scores.requires_grad


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_networks_of_other_precision_answer_in_float32(dtype):
    classifier = of_features()
    expected = classifier.scores(rows())
    found = classifier.to(dtype).scores(rows())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


def test_raw_batches_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"expected uint8 \(N, 3, 8, 8\), got uint8 \(1, 3, 9, 8\)"):
        of_pictures().scores(pictures(1, 9, 8))


# Streaming


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_batches_of_any_size_score_the_same(batch_size):
    classifier = of_pictures()
    expected = classifier.scores(pictures(7))
    parts = list(classifier.score_batches(pictures(7), batch_size=batch_size))
    assert torch.equal(torch.cat([numbers for numbers, _ in parts]), torch.arange(7))
    assert max(len(numbers) for numbers, _ in parts) == min(batch_size, 7)
    torch.testing.assert_close(torch.cat([scores for _, scores in parts]), expected)


def test_unreadable_rows_are_left_out_and_reported(folder):
    (folder / "bad.jpg").write_bytes(b"no picture")
    image().convert("L").save(folder / "gray.png")
    names = ["bad.jpg", "a.png", "bad.jpg", "gray.png", "b.png"]
    classifier, problems = of_pictures(), []
    parts = list(classifier.score_batches(PictureFiles(folder, names), batch_size=1, problems=problems))
    assert [numbers.tolist() for numbers, _ in parts] == [[1], [3], [4]]
    assert [(problem.kind, problem.where) for problem in problems] == [
        ("unreadable picture", "bad.jpg"),
        ("unreadable picture", "bad.jpg"),
        ("unusual picture", "gray.png"),
    ]


def test_streaming_leaves_the_caller_out_of_inference_mode():
    for _, scores in of_features().score_batches(rows(4), batch_size=2):
        assert not torch.is_inference_mode_enabled()
        assert not scores.is_inference()


def test_streaming_that_is_broken_off_leaves_the_network_training():
    classifier = of_features()
    classifier.train()
    batches = classifier.score_batches(rows(10), batch_size=2)
    next(batches)
    assert not classifier.network.training
    batches.close()
    assert classifier.network.training


def test_pictures_are_decoded_a_batch_ahead_and_no_further():
    class Counted(Pictures):
        def __init__(self):
            self.ids, self.seen = [str(row) for row in range(40)], set()

        def decode(self, row, *, at_least=None):
            self.seen.add(row)
            return PictureArray(pictures(1)).decode(0)

        def rows(self, rows):
            raise NotImplementedError

    source = Counted()
    batches = of_pictures().score_batches(source, batch_size=4, workers=1)
    next(batches)
    assert source.seen >= {0, 1, 2, 3}
    assert max(source.seen) < 8
    batches.close()


def test_batch_size_is_checked():
    with pytest.raises(InputError, match="batch_size: .*got 0"):
        of_pictures().score_batches(pictures(1), batch_size=0)


# Link and rule


def test_without_a_rule_predict_says_what_to_do():
    with pytest.raises(InputError, match=r'no set rule: fit one .* classifier.fit_rule\("average-k:5", predictions\)'):
        of_features().predict(rows(1))


def test_rules_are_fitted_on_predictions_of_the_classifier():
    classifier = of_features()
    predictions = classifier.predictions(rows(100), labels(100))
    found = classifier.fit_rule("average-k:1.5", predictions)
    assert float(predictions.probs().ge(found.rule.threshold).sum(1).float().mean()) == 1.5
    assert found.network is classifier.network
    assert classifier.rule is None
    assert found.rule.origin["classes"] == 4


@pytest.mark.parametrize("text", ["average-k:1.5", "lac:0.2,cap:2", "top-k:3", "threshold:0.3"])
def test_fitted_rules_know_the_sizes_of_their_sets_on_the_calibration_rows(text):
    classifier = of_features()
    predictions = classifier.predictions(rows(100), labels(100))
    rule = classifier.fit_rule(text, predictions).rule
    sizes = rule(predictions.probs()).sum(1).double()
    assert rule.calibrated.rows == 100
    assert rule.calibrated.mean == pytest.approx(float(sizes.mean()))
    assert rule.calibrated.variance == pytest.approx(float(sizes.var()))


def test_rules_that_need_probabilities_are_not_fitted_on_scores_without_a_link():
    classifier = Classifier(of_features().network, NAMES)
    with pytest.raises(InputError, match=r"as probabilities, which aps:0.2 needs"):
        classifier.fit_rule("aps:0.2", classifier.predictions(rows(50), labels(50)))


def test_another_link_takes_the_sizes_of_a_rule_without_a_fit_away():
    classifier = fitted(of_features(), "threshold:0.3")
    found = classifier.with_link(Sigmoid())
    assert found.rule.text == "threshold:0.3"
    assert found.rule.calibrated is None
    assert classifier.rule.calibrated is not None


def test_rules_with_a_prior_take_it_from_the_training_counts():
    found = fitted(of_features(train_counts=[1, 2, 3, 4]), "average-k:2:prior")
    assert found.rule.ordering.prior.tolist() == [0.1, 0.2, 0.3, 0.4]


def test_rules_must_belong_to_the_link_and_the_classes():
    classifier = of_features()
    predictions = classifier.predictions(rows(50))
    with pytest.raises(InputError, match="fitted on probabilities by another link"):
        classifier.with_rule(average_k(2).fit(predictions.with_link("sigmoid")))
    with pytest.raises(InputError, match=r"fitted on 2 classes, got scores of 4"):
        classifier.with_rule(average_k(1).fit(type(predictions)(torch.randn(9, 2), link="softmax")))
    with pytest.raises(InputError, match="has not been fitted"):
        classifier.with_rule(average_k(2))
    with pytest.raises(InputError, match="k: .*got 5"):
        classifier.with_rule(top_k(5))
    with pytest.raises(InputError, match="fitted on 3 classes, got scores of 4"):
        classifier.with_rule(average_k(2, prior=[1.0, 2.0, 3.0]).fit(torch.rand(9, 3)))
    with pytest.raises(InputError, match="expected a SetRule"):
        classifier.with_rule("top-k:2")


def test_rules_that_need_probabilities_need_a_link():
    network = of_features().network
    with pytest.raises(InputError, match=r"as probabilities, which threshold:0.3 needs"):
        Classifier(network, NAMES, rule=threshold(0.3))


def test_another_link_leaves_a_fitted_rule_behind_and_keeps_others():
    classifier = fitted(of_features(), "average-k:2")
    assert classifier.with_link(Sigmoid()).rule is None
    assert classifier.with_link(Softmax()).rule is classifier.rule
    assert of_features(rule=top_k(2)).with_link(Sigmoid()).rule.text == "top-k:2"


def test_a_rule_is_copied_before_it_is_fitted():
    classifier, rule = of_features(), lac(0.4)
    first = classifier.fit_rule(rule, classifier.predictions(rows(50), labels(50)))
    threshold = first.rule.threshold.clone()
    classifier.fit_rule(rule, classifier.predictions(rows(30, seed=5), labels(30)))
    assert first.rule.threshold == threshold
    assert rule.threshold is None


def test_asking_whether_a_randomised_rule_fits_does_not_change_its_answers():
    classifier = of_features()
    predictions = classifier.predictions(rows(50), labels(50))
    one, other = (parse_rule("aps:0.2:random").fit(predictions) for _ in range(2))
    assert torch.equal(classifier.with_rule(one).predict(rows(9)).sets, other(classifier.predictions(rows(9))))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ["a", "b"]}, "classes: expected 4 names, got 2"),
        ({"classes": ["a", "b", "c", "a"]}, "'a' more than once"),
        ({"classes": ["a", "b", "c", ""]}, "empty one"),
        ({"classes": "abcd"}, "classes: expected a list of names, got str"),
        ({"link": "softmax"}, "link: expected a link or None, got str"),
        ({"train_counts": [1, 2]}, "train_counts: expected one number for each of 4 classes"),
        ({"about": {"value": float("nan")}}, "about: .*JSON"),
        ({"about": {"value": object()}}, "about: .*JSON"),
        ({"network": torch.nn.Linear(1, 1)}, "inputs: expected what the network reads"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message):
    given = {"network": of_features().network, "classes": NAMES} | changes
    with pytest.raises(InputError, match=message):
        Classifier(given.pop("network"), given.pop("classes"), **given)


def test_a_link_fitted_on_other_classes_is_refused():
    link = Isotonic().fit(torch.randn(20, 3), torch.randint(0, 3, (20,)))
    with pytest.raises(InputError, match="fitted on 3 classes, got 4"):
        of_features(link=link)


def test_link_and_rule_move_with_the_classifier_and_keep_their_precision():
    scores, target = rows(60, 4), labels(60)
    classifier = fitted(of_features(link=Platt().fit(scores, target)), "lac:0.2")
    moved = classifier.to("meta", torch.float16)
    assert moved.link.slope.device.type == moved.rule.threshold.device.type == "meta"
    assert moved.link.slope.dtype == moved.rule.threshold.dtype == torch.float64
    assert moved.device.type == "meta"


def test_an_unfitted_link_says_so_when_it_is_used():
    with pytest.raises(InputError, match=r"quasibinary:0.9 has not been fitted"):
        of_features(link=Quasibinary(), rule=top_k(1)).predict(rows(1))


def test_classifier_shows_itself_on_one_line():
    assert repr(of_pictures(rule=top_k(2))) == "Classifier(plain-4-8, linear head, 4 classes, link softmax, rule top-k:2)"
    assert repr(of_pictures().network) == "Network(plain-4-8, linear head, pictures 3 × 8 × 8, 4 classes)"


def test_network_refuses_what_it_cannot_be_made_of():
    inputs = of_features().inputs
    with pytest.raises(InputError, match="inputs: expected an InputSpec.*got int"):
        Network("mlp-8", "linear", 3, 4)
    with pytest.raises(InputError, match="head: expected one of"):
        Network("mlp-8", "round", inputs, 4)
    with pytest.raises(InputError, match="classes: .*got 0"):
        Network("mlp-8", "linear", inputs, 0)


# On a GPU


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("pinned", [False, True])
def test_a_gpu_answers_as_the_processor_does(pinned):
    classifier = fitted(of_pictures("plain-8-8"), "average-k:1.5,floor:1")
    given = pictures(1001)
    expected = classifier.predict(given)
    found = classifier.to("cuda").predict(given.pin_memory() if pinned else given, batch_size=16)
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-2, atol=1e-3)  # convolutions in TF32
    assert found.scores.device.type == found.sets.device.type == "cpu"
    found.predictions().probs()
    torch.testing.assert_close(classifier.predict(given.cuda()).scores, found.scores, rtol=1e-2, atol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_batches_do_not_overtake_each_other_on_a_gpu():
    classifier = of_features("features")
    given = rows(100_000)
    expected = torch.cat([scores for _, scores in classifier.score_batches(given)])
    parts = list(classifier.score_batches(given, batch_size=997, device="cuda"))
    assert torch.equal(torch.cat([numbers for numbers, _ in parts]), torch.arange(len(given)))
    torch.testing.assert_close(torch.cat([scores for _, scores in parts]), expected, rtol=1e-2, atol=1e-2)


def test_labels_of_a_split_are_matched_by_the_names_of_its_classes():
    given, model = rows(3), of_features()
    meadow = Dataset("meadow", ["oak", "elm"], {"all": Split(given, torch.tensor([0, 1, 0]), list("abc"))}).splits["all"]
    assert model.predictions(meadow).target.tolist() == [3, 2, 3]
    assert model.predictions(replace(meadow, classes=None)).target.tolist() == [0, 1, 0]  # numbers without names
    assert model.predictions(meadow, [1, 1, 2]).target.tolist() == [1, 1, 2]
    assert model.predictions(replace(meadow, classes=["oak", "fir"]), [1, 1, 2]).target.tolist() == [1, 1, 2]
    with pytest.raises(InputError, match=r"'fir'.*not among the 4 classes.*with_target\(None\)"):
        model.predictions(replace(meadow, classes=["oak", "fir"]))
    assert model.predictions(replace(meadow, classes=["oak", "fir"]).with_target(None)).target is None
    several = Split(given, torch.tensor([[True, False]] * 3), list("abc"), classes=["oak", "elm"])
    with pytest.raises(InputError, match="expected labels of every class, got none of 'ash'"):
        model.predictions(several)
    assert model.predictions(replace(several, open_classes=True)).target.tolist() == [[False, False, False, True]] * 3
