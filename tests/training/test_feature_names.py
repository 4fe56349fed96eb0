"""Training keeps the names of the features with the classifier, whatever the data come from and whoever wrote the network."""

import pandas as pd
import pytest
import torch
from torch import nn

import shortlist as sl
from shortlist.data import Dataset, Split
from shortlist.errors import InputError
from shortlist.models import Classifier, InputSpec, Network
from shortlist.training import train
from shortlist.training.fingerprint import DataFingerprint, fingerprint
from tests.training.small import recipe

CLASSES = ["ash", "elm", "oak"]
SETTINGS = {"backbone": "features", "size": None, "epochs": 4}


def frame(rows=150, names=("a", "b", "c"), seed=0):
    values = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed)) * torch.tensor([1.0, 3.0, 0.5])
    return pd.DataFrame(values.numpy(), columns=list(names))


def labels(table):
    return [CLASSES[int(place)] for place in (table.to_numpy() / [1.0, 3.0, 0.5]).argmax(1)]


def fit(folder, data, network=None, inputs=None, **options):
    chosen = recipe(**SETTINGS)
    return train(chosen, folder, device="cpu", dataset=data, network=network, inputs=inputs, checkpoint_seconds=0.0, **options)


def check_by_name(classifier):
    table = frame(seed=1)
    assert classifier.inputs.feature_names == ("a", "b", "c")
    in_order = classifier.predictions(torch.from_numpy(table.to_numpy(copy=True))).scores
    assert torch.equal(classifier.predictions(table[["c", "a", "b"]]).scores, in_order)
    with pytest.raises(InputError, match="missing 'a', unknown 'd'"):
        classifier.predictions(table.rename(columns={"a": "d"}))


def test_names_of_a_frame_go_into_the_classifier(tmp_path):
    table = frame()
    trained = fit(tmp_path / "run", (table, labels(table)))
    check_by_name(trained.classifier)
    check_by_name(Classifier.load(tmp_path / "run/classifier"))


def make(classes):
    return nn.Linear(3, classes)


def make_network(classes):
    return Network(nn.Linear(3, 4), "linear", InputSpec.features(3), classes)


@pytest.mark.parametrize("kind", ["module", "function", "network", "returns a network", "inputs"])
def test_networks_of_ones_own_get_the_names(tmp_path, kind):
    table = frame()
    given = {"module": nn.Linear(3, 3), "function": make, "network": make_network(3), "returns a network": make_network}
    inputs = InputSpec.features(3) if kind == "inputs" else None
    check_by_name(fit(tmp_path / "run", (table, labels(table)), given.get(kind, make), inputs).classifier)


def test_inputs_with_names_choose_the_order_of_the_columns(tmp_path):
    table = frame()
    inputs = InputSpec.features(3, feature_names=["a", "b", "c"])
    swapped = fit(tmp_path / "one", (table[["c", "b", "a"]], labels(table)), make, inputs)
    straight = fit(tmp_path / "two", (table, labels(table)), make, inputs)
    check_by_name(swapped.classifier)
    assert torch.equal(swapped.predictions["test"].scores, straight.predictions["test"].scores)
    with pytest.raises(InputError, match="missing 'c', unknown 'x'"):
        fit(tmp_path / "three", (frame(names="abx"), labels(table)), make, inputs)
    other = InputSpec.features(3, feature_names=["c", "b", "a"])
    with pytest.raises(InputError, match="network: expected .*'a', 'b', 'c'.*got one that reads 'c', 'b', 'a'"):
        fit(tmp_path / "four", (table, labels(table)), lambda classes: Network(nn.Linear(3, 4), "linear", other, classes))


@pytest.mark.parametrize("names", [["2", "0", "1"], ["1", "2", "3"]])
def test_inputs_without_names_take_those_of_the_table_whatever_they_are(tmp_path, names):
    table = frame(names=names)
    trained = fit(tmp_path / "run", (table, labels(table)), make, InputSpec.features(3)).classifier
    assert trained.inputs.feature_names == tuple(names)
    rows = torch.from_numpy(table.to_numpy(copy=True))
    assert (
        trained.predictions(rows)
        .scores.argmax(1)
        .eq(torch.tensor([CLASSES.index(one) for one in labels(table)]))
        .float()
        .mean()
        > 0.8
    )
    assert torch.equal(trained.predictions(table).scores, trained.predictions(rows).scores)


def test_unnamed_features_stay_unnamed(tmp_path):
    table = frame()
    trained = fit(tmp_path / "run", (table.to_numpy(), labels(table)))
    assert trained.classifier.inputs.feature_names == ()


def test_a_run_is_not_resumed_with_other_names(tmp_path):
    table = frame()
    fit(tmp_path / "run", (table, labels(table)))
    fit(tmp_path / "run", (table, labels(table)), resume=True)
    with pytest.raises(InputError, match="the features have other names"):
        fit(tmp_path / "run", (frame(names="abd"), labels(table)), resume=True)
    with pytest.raises(InputError, match="the features are in another order"):
        fit(tmp_path / "run", (table[["c", "a", "b"]], labels(table)), resume=True)


def test_fingerprints_keep_the_names(tmp_path):
    split = Split(torch.zeros(1, 2), torch.tensor([0]), ["r"], feature_names=["a", "b"])
    found = fingerprint({"train": split}, ["x"])
    found.save(tmp_path / "rows")
    again = DataFingerprint.load(tmp_path / "rows")
    assert (again.features, again.digest) == (("a", "b"), found.digest)
    unnamed = Dataset("d", ["x"], {"train": Split(torch.zeros(1, 2), torch.tensor([0]), ["r"])})
    numbered = Split(torch.zeros(1, 2), torch.tensor([0]), ["r"], feature_names=["0", "1"])
    assert fingerprint(unnamed.splits, ["x"]).digest == fingerprint({"train": numbered}, ["x"]).digest != found.digest


def test_a_run_on_a_table_is_evaluated_and_reported(tmp_path):
    table = frame()
    table.assign(label=labels(table)).to_csv(tmp_path / "t.csv", index=False)
    run = sl.train(str(tmp_path / "t.csv"), folder=tmp_path / "run", epochs=2, k=2, device="cpu", report=False)
    assert run.classifier.inputs.feature_names == ("a", "b", "c")
    assert run.evaluate() is not None
    assert run.report() is not None
