"""What a classifier may be asked, and the answers."""

import io

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch.utils.data import TensorDataset

from shortlist.data import PictureArray, PictureFiles, read_picture
from shortlist.errors import InputError
from shortlist.links import Sigmoid, Softmax
from shortlist.models.answers import Answers
from shortlist.models.classifier import Classifier
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.sets import top_k
from tests.models.classifiers import NAMES, fitted, image, of_features, of_pictures, pictures, rows


@pytest.fixture
def folder(tmp_path):
    """Three PNG files of different shapes."""
    for name, shape in (("a.png", (9, 13)), ("b.png", (8, 8)), ("c.png", (30, 20))):
        image(*shape).save(tmp_path / name)
    return tmp_path


# What may be asked


def test_pictures_in_every_form_answer_the_same(folder):
    classifier = of_pictures(rule=top_k(2))
    path = folder / "a.png"
    pixels = read_picture(path)
    expected = classifier.predict(pixels).scores
    assert expected.shape == (1, 4)
    forms = [
        str(path),
        path,
        [path],
        path.read_bytes(),
        Image.open(path),
        [Image.open(path)],
        pixels[None],
        pixels.numpy(),
        [pixels],
        (pixels.numpy(),),
        PictureArray(pixels[None]),
        PictureFiles(folder, ["a.png"]),
    ]
    for form in forms:
        assert torch.equal(classifier.predict(form).scores, expected), form


def test_lists_may_mix_forms_and_sizes(folder):
    classifier = of_pictures(rule=top_k(1))
    paths = [folder / name for name in ("a.png", "b.png", "c.png")]
    mixed = classifier.predict([paths[0], Image.open(paths[1]), read_picture(paths[2])])
    assert torch.equal(mixed.scores, classifier.predict(paths).scores)
    assert mixed.ids == [str(paths[0]), "1", "2"]
    assert classifier.predict(paths).ids == [str(path) for path in paths]


def test_images_of_other_modes_are_read_as_their_files_are(tmp_path):
    classifier = of_pictures(rule=top_k(1))
    exif = Image.Exif()
    exif[0x0112] = 6  # held sideways
    for name, picture, options in (
        ("gray.png", image().convert("L"), {}),
        ("clear.png", image().convert("RGBA"), {}),
        ("turned.png", image(), {"exif": exif}),
    ):
        picture.save(tmp_path / name, **options)
        from_file = classifier.predict(tmp_path / name).scores
        assert torch.equal(classifier.predict(Image.open(tmp_path / name)).scores, from_file)


@pytest.mark.parametrize("fit", ["crop", "center", "stretch", "pad"])
def test_pictures_become_squares_as_the_inputs_say(fit, tmp_path):
    network = Network("plain-4", "linear", InputSpec("pictures", 6, (0, 0, 0), (1, 1, 1), fit), 4)
    classifier = Classifier(network, NAMES, link=Softmax(), rule=top_k(1))
    drawn = image(12, 24)
    drawn.save(tmp_path / "x.png")
    if fit == "crop":
        expected = drawn.resize((6, 6), Image.Resampling.BILINEAR, box=(6, 0, 18, 12))
    elif fit == "center":
        expected = drawn.resize((7, 7), Image.Resampling.BILINEAR, box=(6, 0, 18, 12)).crop((0, 0, 6, 6))
    elif fit == "stretch":
        expected = drawn.resize((6, 6), Image.Resampling.BILINEAR)
    else:
        small = np.asarray(drawn.resize((6, 3), Image.Resampling.BILINEAR))
        border = np.concatenate([small[0], small[-1], small[:, 0], small[:, -1]]).mean(0).round()
        canvas = np.tile(border.astype(np.uint8), (6, 6, 1))
        canvas[1:4] = small
        expected = Image.fromarray(canvas)
    raw = torch.from_numpy(np.asarray(expected).copy()).permute(2, 0, 1)[None]
    network.eval()
    scores = network(network.inputs.prepare(raw)).detach()
    pixels = torch.from_numpy(np.asarray(drawn).copy()).permute(2, 0, 1)
    for given in (tmp_path / "x.png", drawn, pixels):  # files, images and pixels alike
        torch.testing.assert_close(classifier.predict(given).scores, scores)


def test_pixels_in_every_usual_form_answer_the_same():
    classifier, given = of_pictures(rule=top_k(1)), pictures(3)
    expected = classifier.predict(given).scores
    for form in (given.numpy(), given.permute(0, 2, 3, 1), given.float() / 255, list(given.permute(0, 2, 3, 1).numpy())):
        torch.testing.assert_close(classifier.predict(form).scores, expected)


def test_torch_datasets_are_answered_and_scored_with_their_labels():
    classifier, given, target = of_pictures(rule=top_k(1)), pictures(4), torch.tensor([3, 0, 1, 0])
    expected = classifier.predict(given)
    images = [Image.fromarray(picture.permute(1, 2, 0).numpy()) for picture in given]
    pairs = list(zip(images, target.tolist(), strict=True))
    for form in (TensorDataset(given, target), pairs):
        assert torch.equal(classifier.predict(form).sets, expected.sets)
        found = classifier.predictions(form)
        assert torch.equal(found.scores, expected.scores)
        assert found.target.tolist() == target.tolist()
        assert torch.equal(torch.cat([scores for _, scores in classifier.score_batches(form)]), expected.scores)
    assert classifier.predictions(TensorDataset(given)).target is None
    features = of_features(rule=top_k(1))
    found = features.predictions(TensorDataset(rows(4), target))
    assert torch.equal(found.scores, features.predict(rows(4)).scores)
    assert found.target.tolist() == target.tolist()


def test_features_in_every_form_answer_the_same():
    pandas = pytest.importorskip("pandas")
    classifier, given = of_features(rule=top_k(2)), rows(5)
    expected = classifier.predict(given).scores
    for form in (given.numpy(), given.tolist(), pandas.DataFrame(given.numpy())):
        torch.testing.assert_close(classifier.predict(form).scores, expected)
    assert torch.equal(classifier.predict(given[0]).scores, classifier.predict(given[:1]).scores)
    assert torch.equal(
        classifier.predict(torch.ones(1, 3, dtype=torch.int32)).scores, classifier.predict(torch.ones(1, 3)).scores
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.randn(2, 3, 8, 8), "images: .*got torch.float32 from -"),
        (torch.zeros(2, 2, 8, 8, dtype=torch.uint8), r"images: .*got uint8 \(2, 2, 8, 8\)"),
        (torch.zeros(8, 8, dtype=torch.uint8), r"images: .*got uint8 \(8, 8\)"),
        (3, "images: .*got int"),
        ([3], "images: .*got int at position 0"),
        ([["a.png"]], "images: .*got list at position 0"),
        ([torch.zeros(2, 3, 8, 8, dtype=torch.uint8)], r"got uint8 \(2, 3, 8, 8\)"),
    ],
)
def test_what_is_no_picture_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        of_pictures(rule=top_k(1)).predict(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(2, 4), r"features: expected numbers \(N, 3\), got float32 \(2, 4\)"),
        ([[1.0, 2.0, float("nan")]], "features: expected finite numbers, got nan in row 0, column 2"),
        ("table.csv", "features: expected a tensor or an array, got str"),
        (PictureArray(pictures(1)), "features: .*got pictures"),
    ],
)
def test_what_are_no_features_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        of_features(rule=top_k(1)).predict(given)


def test_nothing_is_answered_with_nothing():
    for classifier, given in ((of_pictures(rule=top_k(1)), []), (of_features(rule=top_k(1)), torch.zeros(0, 3))):
        answers = classifier.predict(given)
        assert len(answers) == 0
        assert answers.names == []
        assert repr(answers) == "Answers(0 rows)"


def test_unreadable_pictures_are_named(folder):
    (folder / "bad.jpg").write_bytes(b"no picture")
    classifier = of_pictures(rule=top_k(1))
    with pytest.raises(InputError, match=r"bad.jpg: not a picture that can be read; leave it out"):
        classifier.predict([folder / "a.png", folder / "bad.jpg"])
    with pytest.raises(InputError, match=r"gone.png: there is no such file"):
        classifier.predict(folder / "gone.png")


def test_scores_that_are_no_numbers_are_refused():
    classifier = of_features(rule=top_k(1))
    with torch.no_grad():
        classifier.network.head.bias[1] = torch.inf
    with pytest.raises(InputError, match="scores: .*got inf in row 0, column 1"):
        classifier.predict(rows(2))


@pytest.mark.parametrize("fit", ["crop", "center", "stretch", "pad"])
@pytest.mark.parametrize("shape", [(12, 15), (150, 200), (601, 400)])
def test_a_jpeg_file_gives_the_same_scores_in_every_form(shape, fit, tmp_path):
    """Files and bytes were decoded at a smaller scale, which Pillow images and pixels cannot be."""
    path = tmp_path / "x.jpg"
    image(*shape).save(path, quality=95)
    network = Network("plain-4", "linear", InputSpec("pictures", 14, (0, 0, 0), (1, 1, 1), fit), 4)
    classifier = Classifier(network, NAMES, link=Softmax(), rule=top_k(1))
    loaded = Image.open(path)
    loaded.load()
    from_file = classifier.predict(path).scores
    for form in (path.read_bytes(), Image.open(path), loaded, read_picture(path), PictureFiles(tmp_path, ["x.jpg"])):
        assert torch.equal(classifier.predict(form).scores, from_file)
    if fit in ("crop", "center"):  # as the documentation says
        side = 14 if fit == "crop" else 16
        square = ImageOps.fit(Image.open(path).convert("RGB"), (side, side), Image.Resampling.BILINEAR)
        window = square.crop((1, 1, 15, 15)) if fit == "center" else square
        pixels = torch.from_numpy(np.asarray(window).transpose(2, 0, 1)[None].copy())
        assert torch.equal(classifier.scores(pixels), from_file)


def test_bytes_of_any_stream_can_be_asked():
    buffer = io.BytesIO()
    image().save(buffer, "PNG")
    classifier = of_pictures(rule=top_k(1))
    assert classifier.predict([buffer.getvalue()] * 2).ids == ["0", "1"]


# Answers


def test_answers_are_link_and_rule_of_the_scores():
    classifier = fitted(of_features(link=Sigmoid()), "average-k:1.5")
    answers = classifier.predict(rows(30, seed=1))
    torch.testing.assert_close(answers.probabilities, torch.sigmoid(answers.scores))
    assert torch.equal(answers.sets, answers.probabilities >= classifier.rule.threshold)
    for place in range(30):
        wanted = sorted(
            answers.sets[place].nonzero().flatten().tolist(), key=lambda label: -answers.probabilities[place, label]
        )
        assert answers.names[place] == [NAMES[label] for label in wanted]
        assert answers[place] == [(NAMES[label], answers.probabilities[place, label].item()) for label in wanted]
    assert list(answers) == [answers[place] for place in range(30)]


def test_without_a_link_answers_hold_scores():
    torch.manual_seed(0)
    network = Network("features", "linear", InputSpec("features", 3, (0,) * 3, (1,) * 3), 4)
    answers = Classifier(network, NAMES, rule=top_k(2)).predict(rows(5))
    assert torch.equal(answers.probabilities, answers.scores)
    assert answers.predictions().link is None
    assert all(len(names) == 2 for names in answers.names)


def test_answers_become_predictions():
    classifier = of_features(rule=top_k(1), train_counts=[4, 3, 2, 1])
    answers = classifier.predict(rows(5))
    predictions = answers.predictions()
    assert torch.equal(predictions.scores, answers.scores)
    assert (predictions.classes, predictions.ids) == (tuple(NAMES), ("0", "1", "2", "3", "4"))
    assert predictions.train_counts.tolist() == [4, 3, 2, 1]
    torch.testing.assert_close(predictions.probs(), answers.probabilities)


def test_pictures_given_twice_go_by_their_numbers(folder):
    path = folder / "a.png"
    answers = of_pictures(rule=top_k(1)).predict([path, path])
    assert answers.ids == [str(path), str(path)]
    assert answers.predictions().ids is None


def test_answers_show_themselves_on_one_line_a_row():
    probs = torch.full((7, 8), 0.125)
    sets = torch.ones(7, 8, dtype=torch.bool)
    sets[1] = False
    answers = Answers(probs, probs, sets, [f"c{n}" for n in range(7)] + ["new\nline"], [f"r{n}" for n in range(7)])
    lines = repr(answers).splitlines()
    assert lines[0] == "Answers(7 rows, 6.86 labels on average)"
    assert lines[1] == "  r0: c0 0.125, c1 0.125, c2 0.125, c3 0.125, c4 0.125, … and 3 more"
    assert lines[2] == "  r1: no label"
    assert len(lines) == 7
    assert lines[-1] == "  …"
    assert len(answers[2:4]) == 2
    assert answers[2:4].ids == ["r2", "r3"]
