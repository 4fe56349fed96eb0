"""``shortlist predict`` reads the columns of a table by name, as the classifier was trained on them."""

import csv

import onnx
import pandas as pd
import torch

from shortlist import Predictions, train

CLASSES = ["ash", "elm", "oak"]
QUICK = ("--epochs", 2)


def write(path, features, names, target=None):
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow([*names, *([] if target is None else ["label"])])
        for n, row in enumerate(features.tolist()):
            lines.writerow([*row, *([] if target is None else [CLASSES[target[n]]])])
    return path


def test_tables_are_read_by_name(run, fails, tmp_path):
    features = torch.randn(300, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5.0, 20.0])
    target = (features / torch.tensor([1.0, 5.0, 20.0])).argmax(1).tolist()
    trained = run("train", write(tmp_path / "t.csv", features, "abc", target), "-k", 2, "--out", "run", *QUICK)
    assert trained.code == 0, trained.err
    orders = {"same": ([0, 1, 2], "abc"), "other": ([2, 0, 1], "cab")}
    found = {}
    for name, (columns, names) in orders.items():
        table = write(tmp_path / f"{name}.csv", features[:, columns], names, target)
        outcome = run("predict", "run", table, "--out", f"{name}.npz")
        assert outcome.code == 0, outcome.err
        found[name] = Predictions.load(tmp_path / f"{name}.npz")
    assert torch.equal(found["other"].scores, found["same"].scores)
    renamed = write(tmp_path / "renamed.csv", features, "bcd")
    assert "renamed.csv: features: expected 'a', 'b', 'c', got 'b', 'c', 'd': missing 'a', unknown 'd'" in fails(
        "predict", "run", renamed
    )
    more = write(tmp_path / "more.csv", torch.cat([features, features[:, :1]], dim=1), "abcd")
    assert "missing none, unknown 'd'" in fails("predict", "run", more)
    run("export", "run", "--out", "model.onnx")
    kept = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert '"feature_names": ["a", "b", "c"]' in kept["shortlist.inputs"]


def test_features_that_the_classifier_knows_are_read_whatever_their_names(run, tmp_path):
    features = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    target = features.argmax(1).tolist()
    names = ["key", "n_labels", "plant"]
    frame = pd.DataFrame(features.numpy(), columns=names)
    trained = train((frame, [CLASSES[label] for label in target]), k=2, epochs=2, folder=tmp_path / "run")
    assert list(trained.classifier.inputs.feature_names) == names
    outcome = run("predict", "run", write(tmp_path / "t.csv", features, names, target), "--out", "found.npz")
    assert outcome.code == 0, outcome.err
    expected = trained.classifier.predictions(frame)
    torch.testing.assert_close(Predictions.load(tmp_path / "found.npz").scores, expected.scores)
