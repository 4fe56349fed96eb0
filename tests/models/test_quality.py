"""Classifiers whose rule has a gate by quality: given for each row, computed by a function, or sharpness."""

import pytest
import torch

from shortlist.data import sharpness
from shortlist.errors import InputError
from shortlist.models import Classifier
from shortlist.models.quality import RowQuality
from tests.models.classifiers import NAMES, labels, of_features, of_pictures, pictures, rows


def some_blurred(n, seed=0):
    """Random pixels, of every third row nearly grey; labels, which these rows lack."""
    images, target = pictures(n, seed=seed), torch.nn.functional.one_hot(labels(n, seed=seed), len(NAMES)).bool()
    images[::3] = 120 + images[::3] // 16
    target[::3] = False
    return images, target


def gated(by="sharpness", quality=None):
    """A classifier of pictures with a gate, fitted on 90 pictures."""
    classifier = of_pictures()
    images, target = some_blurred(90)
    return classifier.fit_rule(f"average-k:2,gate:0.9:{by}", classifier.predictions(images, target, quality=quality or by))


def test_predictions_carry_the_sharpness_of_pictures_as_the_network_reads_them():
    classifier, images = of_pictures(), pictures(7)
    assert classifier.predictions(images).quality is None
    found = classifier.predictions(images, quality="sharpness", batch_size=3)
    assert torch.equal(found.quality, sharpness(images))
    wide = pictures(4, 8, 20)  # cropped to squares first
    assert torch.equal(classifier.predictions(wide, quality="sharpness").quality, sharpness(wide[..., 6:14]))


def test_a_gate_by_sharpness_needs_no_more_than_the_pictures(tmp_path):
    classifier = gated()
    images, _ = some_blurred(30, seed=1)
    passed = sharpness(images) > classifier.rule.gate.threshold
    answers = classifier.predict(images, batch_size=4)
    assert 0 < passed.sum() < 30
    assert torch.equal(answers.sets.any(1) & ~passed, torch.zeros(30, dtype=torch.bool))
    assert torch.equal(answers.quality, sharpness(images))
    assert torch.equal(answers[3:9].predictions().quality, answers.quality[3:9])
    assert torch.equal(classifier.rule(answers.predictions()), answers.sets)
    assert torch.equal(classifier.predictions(images).quality, answers.quality)
    classifier.save(tmp_path / "classifier")
    assert torch.equal(Classifier.load(tmp_path / "classifier").predict(images).sets, answers.sets)


def second_network(batch):
    """What another network might say of a batch of pictures: how red they are."""
    return batch[:, 0].float().mean((1, 2))


def test_a_quality_is_given_as_numbers_or_as_a_function():
    classifier = gated("quality", second_network)
    images, _ = some_blurred(30, seed=1)
    numbers = second_network(images)
    expected = classifier.predict(images, quality=numbers)
    passed = numbers.double() > classifier.rule.gate.threshold
    assert 0 < passed.sum() < 30
    assert not (expected.sets.any(1) & ~passed).any()
    assert torch.equal(classifier.predict(images, quality=second_network, batch_size=7).sets, expected.sets)
    assert torch.equal(classifier.predict(images, quality=numbers.tolist()).sets, expected.sets)
    assert classifier.predictions(images).quality is None


def test_what_cannot_be_compared_is_refused():
    classifier = gated("quality", second_network)
    images, _ = some_blurred(6, seed=1)
    with pytest.raises(InputError, match="gate:0.9:quality: expected a quality, one number for each row, .*pass quality="):
        classifier.predict(images)
    with pytest.raises(InputError, match=r"quality: .*\(6,\), got float64 \(2,\)"):
        classifier.predict(images, quality=[1.0, 2.0])
    with pytest.raises(InputError, match=r"quality: .*\(6,\), got float32 \(6, 2\)"):
        classifier.predict(images, quality=lambda batch: torch.zeros(len(batch), 2))
    with pytest.raises(InputError, match="quality: .*got nan in row 0"):
        classifier.predict(images, quality=lambda batch: torch.full((len(batch),), torch.nan))
    with pytest.raises(InputError, match="quality: .*'sharpness', got 'contrast'"):
        classifier.predict(images, quality="contrast")
    features = of_features()
    given, target = rows(60), labels(60, many=True)
    read = features.predictions(given, target, quality=range(60))
    of_rows = features.fit_rule("average-k:2,gate:0.5:sharpness", read)
    with pytest.raises(InputError, match="gate:0.5:sharpness: expected a quality.*pass quality="):
        of_rows.predict(given)
    assert torch.equal(of_rows.predict(given, quality=range(60)).sets, of_rows.rule(read))
    with pytest.raises(InputError, match="gate:0.5:quality: expected a quality.*with_quality"):
        features.fit_rule("average-k:2,gate:0.5:quality", features.predictions(given, target))


def test_the_quality_of_rows_that_are_never_read_is_not_asked_for():
    asked = []
    quality = RowQuality(lambda batch: asked.append(len(batch)) or batch[:, 0], rows=4)
    batches = iter([(torch.tensor([0, 3]), torch.tensor([[5.0], [7.0]])), (torch.tensor([1]), torch.tensor([[2.0]]))])
    watching = quality.watching(batches)
    next(watching)
    assert asked == [2]
    assert quality.values[[0, 3]].tolist() == [5, 7]


@pytest.mark.parametrize("by", ["sharpness", "quality"])
def test_an_exported_graph_has_the_same_gate(by, tmp_path):
    """Sharpness is computed inside the graph; any other quality is an input of its own."""
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    classifier = gated(by, "sharpness" if by == "sharpness" else second_network)
    images, _ = some_blurred(40, seed=2)
    path = tmp_path / "model.onnx"
    classifier.export_onnx(path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {"images": images.numpy()}
    if by == "quality":
        given["quality"] = second_network(images).double().numpy()
    assert {one.name: one.type for one in session.get_inputs()} == (
        {"images": "tensor(uint8)"} | ({"quality": "tensor(double)"} if by == "quality" else {})
    )
    sets = torch.from_numpy(session.run(["sets"], given)[0])
    answers = classifier.predict(images, quality=None if by == "sharpness" else second_network)
    assert torch.equal(sets, answers.sets)
    assert not sets.any(1).all()
