"""Test pictures as trained: one setting, saved with the classifier, that evaluation and prediction share."""

import json

import pytest
import torch
from PIL import Image

from shortlist.data import Dataset, PictureFiles, Split, load_pictures
from shortlist.models import Classifier
from shortlist.models.card import model_card
from tests.training.small import CLASSES, run


@pytest.fixture
def files(tmp_path):
    """Noise whose middle differs from its border, so that the window matters."""
    generator = torch.Generator().manual_seed(0)
    splits = {}
    for name, rows in {"train": 20, "val": 10, "test": 10}.items():
        (tmp_path / name).mkdir()
        for row in range(rows):
            pixels = torch.randint(256, (18, 24, 3), generator=generator, dtype=torch.uint8)
            pixels[4:14, 7:17] //= 4
            Image.fromarray(pixels.numpy()).save(tmp_path / name / f"{row}.png")
        paths = [f"{name}/{row}.png" for row in range(rows)]
        splits[name] = Split(PictureFiles(tmp_path, paths), torch.arange(rows) % CLASSES, paths)
    return Dataset("noise", [f"class {label}" for label in range(CLASSES)], splits)


@pytest.mark.parametrize("fit", ["crop", "center"])
def test_a_saved_classifier_scores_pictures_as_its_training_tested_them(tmp_path, files, fit):
    trained = run(tmp_path / "run", files, augmentation="crop-flip", test_fit=fit)
    saved = Classifier.load(tmp_path / "run/classifier")
    assert saved.inputs.fit == fit
    assert json.loads((tmp_path / "run/classifier/config.json").read_text())["inputs"]["fit"] == fit
    tested = trained.predictions["test"].scores
    torch.testing.assert_close(saved.predictions(files.splits["test"]).scores, tested, atol=1e-5, rtol=1e-4)
    paths = [str(tmp_path / path) for path in files.splits["test"].ids]
    torch.testing.assert_close(saved.predict(paths).scores, tested, atol=1e-5, rtol=1e-4)
    assert ("resized to 10" in model_card(saved)) == (fit == "center")


def test_the_choice_changes_what_is_tested(tmp_path, files):
    scores = [
        run(tmp_path / fit, files, augmentation="none", test_fit=fit).predictions["test"].scores for fit in ("crop", "center")
    ]
    assert not torch.allclose(*scores, atol=1e-3)


def test_an_exported_graph_fed_as_the_metadata_say_answers_alike(tmp_path, files):
    for package in ("onnx", "onnxscript"):
        pytest.importorskip(package)
    session = pytest.importorskip("onnxruntime").InferenceSession
    trained = run(tmp_path / "run", files, augmentation="crop-flip", test_fit="center")
    trained.classifier.export_onnx(tmp_path / "x.onnx")
    graph = session(str(tmp_path / "x.onnx"), providers=["CPUExecutionProvider"])
    inputs = json.loads(graph.get_modelmeta().custom_metadata_map["shortlist.inputs"])
    pictures = load_pictures(files.splits["test"].inputs, size=inputs["size"], fit=inputs["fit"]).images
    (scores,) = graph.run(["scores"], {"images": pictures.numpy()})
    expected = trained.predictions["test"].scores
    torch.testing.assert_close(torch.from_numpy(scores), expected, atol=1e-4, rtol=1e-4)
