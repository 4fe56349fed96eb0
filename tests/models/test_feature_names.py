"""A classifier matches the columns of a table by name: another order gives the same answers, other names are refused."""

import json

import pandas as pd
import pytest
import torch

from shortlist.data import Dataset, Split
from shortlist.errors import InputError, ShortlistWarning
from shortlist.links import Softmax
from shortlist.models import Classifier, InputSpec, Network
from tests.models.classifiers import NAMES, fitted, rows

WANTED = ["a", "b", "c"]
ORDERS = [["c", "a", "b"], ["b", "a", "c"], ["a", "b", "c"]]


def made(names=WANTED):
    torch.manual_seed(0)
    network = Network("mlp-8", "linear", InputSpec.features(3, 0.5, 2.0, feature_names=names), len(NAMES))
    return fitted(Classifier(network, NAMES, link=Softmax()))


def frame(names=WANTED, n=50):
    return pd.DataFrame(rows(n).numpy(), columns=names)


def split_of(table):
    inputs = torch.from_numpy(table.to_numpy(copy=True))
    split = Split(inputs, None, [str(row) for row in range(len(table))])
    return Dataset("d", [], {"all": split}, feature_names=list(table.columns)).splits["all"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", [lambda table: table, split_of])
def test_columns_are_matched_by_name(order, form):
    classifier, given = made(), form(frame()[order])
    expected = classifier.predictions(rows()).scores
    assert torch.equal(classifier.predictions(given).scores, expected)
    assert torch.equal(classifier.predict(given).scores, expected)
    assert torch.equal(torch.cat([part for _, part in classifier.score_batches(given)]), expected)


def test_a_row_of_a_frame_is_matched_by_name():
    classifier = made()
    row = frame()[["c", "a", "b"]].iloc[4]
    torch.testing.assert_close(classifier.predict(row).scores, classifier.predict(rows()[4]).scores)


@pytest.mark.parametrize("form", [lambda table: table, split_of])
def test_other_names_are_refused(form):
    for names, message in (
        (["b", "c", "d"], "features: expected 'a', 'b', 'c', got 'b', 'c', 'd': missing 'a', unknown 'd'"),
        (["a", "b", "B"], "missing 'c', unknown 'B'"),
        (["2", "1", "0"], "missing 'a', 'b', 'c', unknown '2', '1', '0'"),
    ):
        with pytest.raises(InputError, match=message):
            made().predict(form(frame(names)))
    with pytest.raises(InputError, match="missing 'c', unknown none"):
        made().predict(form(frame()[["b", "a"]]))
    with pytest.raises(InputError, match="missing none, unknown 'more'"):
        made().predict(form(frame().assign(more=1.0)))


def test_long_lists_of_names_are_cut_short():
    with pytest.raises(InputError) as raised:
        InputSpec.features(500, feature_names=[f"x{n}" for n in range(500)]).columns_of([f"y{n}" for n in range(500)])
    assert len(str(raised.value)) < 400


def test_labels_and_ids_of_a_frame_are_left_out():
    classifier, table = made(), frame()[["c", "a", "b"]].assign(species="oak", id=range(50))
    assert torch.equal(classifier.predict(table).scores, classifier.predict(rows()).scores)
    ordered = frame().assign(label="oak")
    assert torch.equal(classifier.predict(ordered).scores, classifier.predict(rows()).scores)
    known = made(["a", "id", "c"])
    assert torch.equal(known.predict(frame(["a", "id", "c"])[["id", "a", "c"]]).scores, known.predict(rows()).scores)


def test_what_has_no_names_goes_by_position():
    classifier = made()
    expected = classifier.predict(rows()).scores
    numbered = frame(["0", "1", "2"])
    for given in (rows().numpy(), rows().tolist(), pd.DataFrame(rows().numpy()), numbered, split_of(numbered)):
        assert torch.equal(classifier.predict(given).scores, expected)
    assert torch.equal(made([]).predict(numbered).scores, expected)


@pytest.mark.parametrize("form", [lambda table: table, split_of])
def test_a_classifier_without_names_says_that_columns_with_names_go_by_position(form):
    unnamed = made([])
    expected = unnamed.predict(rows()).scores
    for names in (["x", "y", "z"], ["height", "1", "2"], ["400.5", "401.5", "402.5"]):
        with pytest.warns(ShortlistWarning, match=f"features: .*by position.*got '{names[0]}', '{names[1]}'"):
            assert torch.equal(unnamed.predict(form(frame(names))).scores, expected)


@pytest.mark.parametrize("form", [lambda table: table, split_of])
@pytest.mark.parametrize("names", [["2", "3", "1"], ["1", "2", "3"], ["height", "2", "width"]])
def test_numbers_other_than_positions_are_not_taken_by_position(form, names):
    with pytest.raises(InputError, match=f"features: expected '0', '1', '2', got '{names[0]}', '{names[1]}'"):
        made([]).predict(form(frame(names)))
    with pytest.raises(InputError, match=f"features: expected '{names[0]}', '{names[1]}', .*got '0', '1', '2'"):
        made(names).predict(form(frame(["0", "1", "2"])))
    assert torch.equal(made(names).predict(rows()).scores, made([]).predict(rows()).scores)


def test_names_are_saved_and_checked_on_load(tmp_path):
    classifier = made()
    classifier.save(tmp_path / "named")
    found = Classifier.load(tmp_path / "named")
    assert found.inputs == classifier.inputs
    assert found.inputs.feature_names == ("a", "b", "c")
    assert torch.equal(found.predict(frame()[["c", "a", "b"]]).scores, classifier.predict(rows()).scores)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "feature_names: .*3 features, got 2"),
        ([1, 2, 3], r"feature_names: expected a list of names, got \[1, 2, 3\]"),
        ("abc", "feature_names: expected a list of names, got 'abc'"),
        (None, "feature_names: expected a list of names, got None"),
    ],
)
def test_names_in_a_record_are_checked(names, message):
    record = InputSpec.features(3).record() | {"feature_names": names}
    with pytest.raises(InputError, match=message):
        InputSpec.from_record(record)


def test_records_hold_names_only_where_there_are_some():
    inputs = InputSpec.features(2, 0.5, feature_names=["a", "b"])
    assert InputSpec.from_record(json.loads(json.dumps(inputs.record()))) == inputs
    assert "feature_names" not in InputSpec.features(2).record()
    assert InputSpec.features(2, feature_names=["0", "1"]) == InputSpec.features(2)
    with pytest.raises(InputError, match="feature_names: .*0 features, got 1"):
        InputSpec.from_record(InputSpec.pictures(8).record() | {"feature_names": ["a"]})


def test_inputs_of_other_names_are_not_close():
    one = InputSpec.features(2, feature_names=["a", "b"])
    assert one.is_close(InputSpec.features(2))
    assert not one.is_close(InputSpec.features(2, feature_names=["b", "a"]))


def test_numbers_as_names_are_matched_too():
    unnamed, numbered = made([]), frame(["0", "1", "2"])
    for given in (numbered[["2", "0", "1"]], split_of(numbered[["2", "0", "1"]])):
        assert torch.equal(unnamed.predict(given).scores, unnamed.predict(rows()).scores)
