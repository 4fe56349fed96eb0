"""Values by the name of their class are looked up or refused, never taken by position."""

import types

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

import shortlist
from shortlist import Predictions, metrics
from shortlist.class_names import by_class, class_list, names_in_order, other_column, superclass_by_class
from shortlist.data import Dataset
from shortlist.errors import InputError
from shortlist.links import LDAM, Identity, Isotonic, Platt, Temperature
from shortlist.losses import class_margins
from shortlist.methods import find_method, suggest_parameters
from shortlist.predictions import PredictionsWriter
from shortlist.sets import average_k, label_lists, pas, per_label, risk_control, sure_node, top_k
from tests.models.classifiers import NAMES, of_features

CLASSES = ["ash", "elm", "fir"]
GENUS = {"fir": "needles", "ash": "broad", "elm": "broad"}
COUNTS = {"fir": 500, "elm": 50, "ash": 5}
SETS = np.array([[True, False, False], [False, True, True], [True, False, False]])
TARGET = np.array([1, 2, 2])


def test_values_by_name_come_in_the_order_of_the_classes():
    for given in (COUNTS, pd.Series(COUNTS), pd.Series(COUNTS).sort_index(ascending=False), COUNTS | {"oak": 7}):
        assert by_class("train_counts", given, CLASSES) == [5, 50, 500]
    numbers = pd.Series({2: 30, 0: 10, 1: 20})
    assert by_class("train_counts", numbers, ["0", "1", "2"]) == [10, 20, 30]
    assert by_class("train_counts", pd.Series([10, 20, 30]), ["2", "1", "0"]) == [30, 20, 10]


@pytest.mark.parametrize("given", [[5, 50, 500], (5, 50, 500), np.array([5, 50, 500]), torch.tensor([5, 50, 500])])
def test_values_without_names_are_in_order_already(given):
    assert by_class("train_counts", given, CLASSES) is given
    assert by_class("train_counts", given) is given
    series = pd.Series(list(given))
    assert by_class("train_counts", series, CLASSES) is series


@pytest.mark.parametrize(
    "given",
    [COUNTS, pd.Series(COUNTS), pd.Series([5, 50, 500], index=[2, 1, 0]), pd.Series([5, 50, 500], index=[1, 2, 3]), {5, 50}],
    ids=["dict", "series", "permuted", "from 1", "set"],
)
def test_names_are_refused_where_those_of_the_classes_are_not_known(given):
    with pytest.raises(InputError, match="train_counts: .*got a"):
        by_class("train_counts", given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ash": 5, "elm": 50}, "none for 'fir'"),
        ({"ash": 5, "elm": 50, "Fir": 500}, "none for 'fir'"),
        (pd.Series([5, 50, 500], index=[1, 2, 3]), "none for 'ash'"),
        (pd.Series([5, 50, 500, 6], index=["ash", "elm", "fir", "ash"]), "'ash' more than once"),
    ],
)
def test_a_class_without_a_value_or_with_two_is_refused(given, message):
    with pytest.raises(InputError, match=f"train_counts: .*3 classes.*{message}"):
        by_class("train_counts", given, CLASSES)


def test_predictions_look_up_superclasses_and_counts():
    scores = torch.rand(3, 3)
    found = Predictions(scores, classes=CLASSES, train_counts=pd.Series(COUNTS), superclasses=GENUS)
    assert found.superclasses == ("broad", "broad", "needles")
    assert found.train_counts.tolist() == [5, 50, 500]
    frame = Predictions(pd.DataFrame(scores.numpy(), columns=CLASSES), train_counts=COUNTS, superclasses=pd.Series(GENUS))
    assert frame.train_counts.tolist() == [5, 50, 500]
    assert frame.superclasses == ("broad", "broad", "needles")
    with pytest.raises(InputError, match="superclasses: .*got a dict"):
        Predictions(scores, superclasses=GENUS)
    with pytest.raises(InputError, match="train_counts: .*got a series"):
        Predictions(scores, train_counts=pd.Series(COUNTS))


def test_metrics_look_up_by_the_columns_of_the_sets():
    frame = pd.DataFrame(SETS, columns=CLASSES)
    genus = [GENUS[name] for name in CLASSES]
    assert metrics.superclass_coverage(frame, TARGET, GENUS) == metrics.superclass_coverage(SETS, TARGET, genus) == 2 / 3
    shots = metrics.shot_coverage(SETS, TARGET, [5, 50, 500])
    assert metrics.shot_coverage(frame, TARGET, COUNTS) == pytest.approx(shots, nan_ok=True)
    for call in (
        lambda: metrics.superclass_coverage(SETS, TARGET, GENUS),
        lambda: metrics.SuperclassCoverage(GENUS),
        lambda: sure_node(0.1, GENUS),
    ):
        with pytest.raises(InputError, match="superclasses: .*got a dict"):
            call()
    for call in (lambda: metrics.shot_coverage(SETS, TARGET, COUNTS), lambda: metrics.ShotCoverage(COUNTS)):
        with pytest.raises(InputError, match="train_counts: .*got a dict"):
            call()


@pytest.mark.parametrize("rule", [lambda prior: average_k(2, prior), lambda prior: pas(0.1, prior)])
def test_a_prior_by_name_is_refused(rule):
    with pytest.raises(InputError, match="prior: .*got a series"):
        rule(pd.Series({"fir": 0.5, "ash": 0.2, "elm": 0.3}))
    assert rule(pd.Series([0.5, 0.2, 0.3])).ordering.prior.tolist() == [0.5, 0.2, 0.3]


def test_a_classifier_looks_up_superclasses_and_counts():
    counts, above = {name: place for place, name in enumerate(NAMES)}, {name: name[0] for name in NAMES}
    backwards = dict(reversed(counts.items())), dict(reversed(above.items()))
    found = of_features(train_counts=pd.Series(backwards[0]), superclasses=backwards[1])
    assert found.train_counts.tolist() == list(range(len(NAMES)))
    assert found.superclasses == tuple(name[0] for name in NAMES)


def test_the_first_column_of_another_name():
    assert other_column(CLASSES, CLASSES) is other_column(CLASSES, None) is other_column(None, CLASSES) is None
    assert other_column(CLASSES, ["ash", "fir", "elm"]) == 1
    assert other_column(CLASSES, ["0", "1", "2"]) is other_column(["0", "1", "2"], CLASSES) is None
    assert other_column(["0", "1", "2"], ["0", "2", "1"]) == other_column(None, ["0", "2", "1"]) == 1


PROBS = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4]], np.float32)
MARKS = np.array([[True, False, False], [False, True, True], [False, False, True]])
TAKES_BOTH = {
    "metric": lambda probs, target: metrics.mean_average_precision(probs, target),
    "streaming": lambda probs, target: metrics.TopKAccuracy(1).update(probs, target),
    "rule": lambda probs, target: per_label().fit(probs, target),
    "batches": lambda probs, target: per_label().fit([(probs, target)]),
    "predictions": lambda probs, target: Predictions(probs, target),
    "named predictions": lambda probs, target: Predictions(np.asarray(probs), target, classes=probs.columns),
    "link": lambda probs, target: Platt().fit(probs, target),
    "evaluate": lambda probs, target: shortlist.evaluate(probs, target),
}


@pytest.mark.parametrize("take", TAKES_BOTH.values(), ids=TAKES_BOTH)
@pytest.mark.parametrize("columns", [CLASSES, [0, 1, 2]], ids=str)
@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_labels_whose_columns_are_in_another_order_are_refused(take, columns):
    probs, marks = pd.DataFrame(PROBS, columns=columns), pd.DataFrame(MARKS, columns=columns)
    take(probs, marks)
    take(probs, pd.DataFrame(MARKS))
    take(pd.DataFrame(PROBS), marks)
    take(probs, marks.rename(columns=lambda name: f"has {name}"))
    with pytest.raises(InputError, match=f"target: .*got '{columns[2]}' in column 0, where the class is '{columns[0]}'"):
        take(probs, marks[columns[::-1]])


def test_classes_in_another_order_than_the_columns_are_refused():
    frame = pd.DataFrame(PROBS, columns=CLASSES)
    assert Predictions(frame, classes=CLASSES).classes == tuple(CLASSES)
    assert Predictions(pd.DataFrame(PROBS), classes=CLASSES).classes == tuple(CLASSES)
    assert Predictions(frame.rename(columns=lambda name: f"p {name}"), classes=CLASSES).classes == tuple(CLASSES)
    with pytest.raises(InputError, match="classes: .*got 'fir' for column 0, which is 'ash'"):
        Predictions(frame, classes=CLASSES[::-1])


@pytest.mark.parametrize(
    "take",
    [
        lambda counts: class_margins(counts),
        lambda counts: find_method("ldam").loss(counts).margins,
        lambda counts: find_method("noised-topk-imbalanced").loss(counts).margin,
        lambda counts: suggest_parameters("ldam", counts),
    ],
    ids=["class_margins", "ldam", "noised-topk-imbalanced", "suggest_parameters"],
)
def test_counts_of_a_loss_by_name_or_out_of_order_are_refused(take):
    labels = pd.Series([2] * 5 + [1] * 50 + [0] * 20)
    assert str(take(labels.value_counts().sort_index())) == str(take([20, 50, 5]))
    with pytest.raises(InputError, match="counts: .*got a series"):
        take(labels.value_counts())
    with pytest.raises(InputError, match="counts: .*got a dict"):
        take({"ash": 20, "elm": 50, "fir": 5})


@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_predictions_keep_the_names_of_the_columns():
    frame = pd.DataFrame(PROBS, columns=CLASSES)
    assert Predictions(frame).classes == Predictions(frame, classes=CLASSES).classes == tuple(CLASSES)
    assert Predictions(frame, classes=["a", "b", "c"]).classes == ("a", "b", "c")
    assert Predictions(pd.DataFrame(PROBS)).classes is Predictions(PROBS).classes is None
    assert Predictions(pd.DataFrame(PROBS)[[2, 1, 0]]).classes == ("2", "1", "0")
    assert Predictions(pd.DataFrame(PROBS), train_counts={2: 3, 0: 1, 1: 2}).train_counts.tolist() == [1, 2, 3]
    rule = average_k(1).fit(Predictions(frame))
    with pytest.raises(InputError, match="column 0 was 'ash' and is 'fir' here"):
        rule(Predictions(frame[CLASSES[::-1]]))
    with pytest.raises(InputError, match="classes: .*'ash' more than once"):
        Predictions(pd.DataFrame(PROBS, columns=["ash", "ash", "fir"]))


STREAMING = {
    "total": lambda: metrics.TopKAccuracy(1),
    "gathered": lambda: metrics.MeanAveragePrecision(),
    "own update": lambda: metrics.CalibrationError(),
}


@pytest.mark.parametrize("make", STREAMING.values(), ids=STREAMING)
@pytest.mark.parametrize("add", ["update", "forward"])
@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_batches_of_a_metric_have_the_same_columns(make, add):
    frame, other = pd.DataFrame(PROBS, columns=CLASSES), pd.DataFrame(PROBS, columns=CLASSES)[CLASSES[::-1]]
    metric = make()
    for batch in (PROBS, frame, frame, PROBS, pd.DataFrame(PROBS)):
        getattr(metric, add)(batch, MARKS)
    before = metric.compute()
    with pytest.raises(InputError, match="probs: .*got 'ash' and 'fir' in column 0"):
        getattr(metric, add)(other, MARKS)
    with pytest.raises(InputError, match="target: .*got 'fir' in column 0, where the class is 'ash'"):
        getattr(metric, add)(frame, pd.DataFrame(MARKS, columns=CLASSES[::-1]))
    metric._computed = None
    assert metric.compute() == before  # what was refused left nothing behind
    metric.reset()
    getattr(metric, add)(other, MARKS)
    assert metric.names == CLASSES[::-1]


@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_calibration_rows_of_a_metric_have_the_same_columns():
    frame = pd.DataFrame(PROBS, columns=CLASSES)

    def streamed(probs, calibration):
        metric = metrics.AverageKAccuracy(1.5, calibration)
        metric.update(probs, TARGET)
        return metric.compute()

    for measure in (streamed, lambda probs, rows: metrics.average_k_accuracy(probs, TARGET, 1.5, calibration=rows)):
        expected = measure(PROBS, PROBS)
        assert measure(frame, frame) == measure(frame, PROBS) == measure(PROBS, frame) == expected
        for rows in (frame[CLASSES[::-1]], Predictions(frame[CLASSES[::-1]])):
            with pytest.raises(InputError, match="column 0 was 'fir' and is 'ash' here"):
                measure(frame, rows)


@pytest.mark.parametrize("kind", [Platt, Isotonic])
@pytest.mark.parametrize("columns", [CLASSES, [0, 1, 2]], ids=str)
def test_scores_whose_columns_are_in_another_order_than_those_of_the_fit_are_refused(kind, columns):
    frame = pd.DataFrame(PROBS, columns=columns)
    other = frame[columns[::-1]]
    link = kind(Identity()).fit(frame, MARKS)
    expected = link.probs(PROBS)
    for same in (frame, pd.DataFrame(PROBS), frame.rename(columns=lambda name: f"p {name}")):
        assert torch.equal(link.probs(same), expected)
    with pytest.raises(InputError, match=f"column 0 was '{columns[0]}' and is '{columns[2]}' here"):
        Platt(link).fit(other, MARKS)
    for fitted in (link, link.twin(), Platt(link).fit(frame, MARKS)):
        for take in (fitted.probs, fitted.log_odds, lambda rows, link=fitted: Predictions(rows, link=link)):
            with pytest.raises(InputError, match=f"column 0 was '{columns[0]}' and is '{columns[2]}' here"):
                take(other)
    link.fit(other, MARKS)
    assert torch.equal(link.probs(other), kind(Identity()).fit(np.asarray(other), MARKS).probs(np.asarray(other)))


def test_a_link_that_was_fitted_without_names_goes_with_any():
    link = Platt(Identity()).fit(PROBS, MARKS)
    assert Predictions(PROBS, classes=["2", "1", "0"], link=link).classes == ("2", "1", "0")


def test_one_temperature_for_all_classes_goes_with_any_order():
    frame = pd.DataFrame(PROBS, columns=CLASSES)
    link = Temperature(Identity()).fit(frame, MARKS)
    assert_close(link.probs(frame[CLASSES[::-1]]).flip(1), link.probs(frame))


MISSING = [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT]


@pytest.mark.parametrize("missing", MISSING, ids=["None", "nan", "float32", "NA", "NaT"])
@pytest.mark.parametrize("as_kind", [list, pd.Series, lambda names: np.array(names, object)], ids=["list", "series", "array"])
def test_a_class_without_a_superclass_is_its_own(missing, as_kind):
    names = [*CLASSES, "oak"]
    given, expected = as_kind([missing, "broad", missing, "broad"]), ("ash", "broad", "fir", "broad")
    scores, sets, target = torch.eye(4), np.eye(4, dtype=bool), np.array([2, 3, 0, 1])
    assert Predictions(scores, classes=names, superclasses=given).superclasses == expected
    assert Predictions(scores, superclasses=given).superclasses == ("class 0", "broad", "class 2", "broad")
    assert tuple(Dataset("garden", names, {}, given).superclasses) == expected
    assert metrics.superclass_coverage(sets, target, given) == 0.5
    streamed = metrics.SuperclassCoverage(given)
    streamed.update(sets, target)
    assert streamed.compute() == 0.5
    assert sure_node(0.1, given).ordering.groups.tolist() == [0, 1, 2, 1]


def test_a_class_of_a_classifier_without_a_superclass_is_its_own():
    above = dict.fromkeys(NAMES, "all") | {NAMES[0]: None, NAMES[1]: float("nan")}
    assert of_features(superclasses=above).superclasses == (*NAMES[:2], *["all"] * (len(NAMES) - 2))


def test_superclasses_that_are_numbers_or_tensors_are_named_alike():
    numbers = [0, 0, 1]
    for given in (numbers, np.array(numbers), torch.tensor(numbers), pd.Series(numbers)):
        assert Predictions(torch.eye(3), superclasses=given).superclasses == ("0", "0", "1")
    partly = Predictions(torch.eye(3), superclasses=[2, 0, None]).superclasses
    assert partly == ("2", "0", "class 2")  # not the superclass called 2


def test_a_dataset_looks_up_superclasses():
    for given in (GENUS, pd.Series(GENUS), ["broad", "broad", "needles"]):
        data = Dataset("garden", CLASSES, {}, given)
        assert data.superclasses == ["broad", "broad", "needles"]
        assert data.superclass_of.tolist() == [0, 0, 1]
    with pytest.raises(InputError, match="superclasses: .*none for 'elm'"):
        Dataset("garden", CLASSES, {}, {"ash": "broad", "fir": "needles"})


OAKS = ["oak", "elm", "ash"]


@pytest.mark.parametrize(
    "given",
    [
        OAKS,
        tuple(OAKS),
        np.array(OAKS),
        pd.Series(OAKS),
        pd.Series(OAKS, index=["x", "y", "z"]),
        pd.Index(OAKS),
        (name for name in OAKS),
        dict.fromkeys(OAKS).keys(),
        {0: "oak", 1: "elm", 2: "ash"},
        {2: "ash", 0: "oak", 1: "elm"},
        {"0": "oak", "1": "elm", "2": "ash"},
        {"ash": 2, "oak": 0, "elm": 1},
        {"ash": np.int64(2), "oak": np.int64(0), "elm": np.int64(1)},
    ],
    ids=lambda given: type(given).__name__,
)
def test_classes_are_a_list_or_numbered_by_a_dict(tmp_path, given):
    with PredictionsWriter(tmp_path / "a.npz", given) as writer:  # first: it must not use up a generator
        writer.append(torch.eye(3))
    assert Predictions.load(tmp_path / "a.npz").classes == tuple(OAKS)
    if not isinstance(given, types.GeneratorType):
        assert Predictions(torch.eye(3), classes=given).classes == tuple(OAKS)


@pytest.mark.parametrize(
    "given",
    [
        "abc",
        b"abc",
        set(OAKS),
        frozenset(OAKS),
        {"oak": 1, "elm": 2, "ash": 3},
        {"oak": 0, "elm": 0, "ash": 1},
        {0: "oak", 1: "elm", 3: "ash"},
        {False: "oak", True: "elm"},
        {0: 1, 1: 2, 2: 0},
        {"oak": "0", "elm": "1", "ash": "2"},
        pd.Series({"oak": 2, "elm": 0, "ash": 1}),
        pd.Series({2: "oak", 0: "elm", 1: "ash"}),
        pd.DataFrame({"name": OAKS}),
        ["oak", None, "ash"],
        np.array([OAKS]),
        3,
    ],
    ids=lambda given: type(given).__name__,
)
def test_classes_without_an_order_are_refused(given):
    with pytest.raises(InputError, match="classes: expected"):
        class_list(given)
    with pytest.raises(InputError, match="classes: expected"):
        Predictions(torch.eye(3), classes=given)


def test_classes_that_are_numbers_are_named_by_them():
    assert class_list(torch.tensor([7, 5])) == ["7", "5"]
    assert class_list({0: 7, 1: 5}) == ["7", "5"]
    assert class_list({0: 1, 1: 0}) == ["1", "0"]  # either way round


@pytest.mark.parametrize(
    "given", [{"a", "b", "c"}, "abc", {"a": 0, "b": 1, "c": 2}, ["a", None, "c"]], ids=lambda given: type(given).__name__
)
def test_ids_without_an_order_are_refused(given):
    with pytest.raises(InputError, match="ids: expected a list of names, got"):
        Predictions(torch.eye(3), ids=given)


def test_ids_of_chosen_rows_are_in_order():
    assert names_in_order("ids", pd.Series(["x", "y"], index=[1, 0])) == ["x", "y"]
    assert names_in_order("ids", torch.tensor([4, 2])) == ["4", "2"]


@pytest.mark.parametrize("take", [superclass_by_class, lambda given: Predictions(torch.eye(3), superclasses=given)])
@pytest.mark.parametrize(("given", "came"), [("aab", "'aab'"), (["", "", "b"], "empty one for class 0"), ({"a", "b"}, "a set")])
def test_superclasses_are_a_name_for_each_class(take, given, came):
    with pytest.raises(InputError, match=f"superclasses: expected .*{came}"):
        take(given)


def test_superclasses_of_a_rule_are_a_name_for_each_class():
    with pytest.raises(InputError, match="superclasses: expected .*empty one for class 0"):
        sure_node(0.1, ["", "", "b"])
    with pytest.raises(InputError, match="superclasses: expected .*'aab'"):
        metrics.SuperclassCoverage("aab")


@pytest.mark.parametrize(
    ("classes", "above", "names", "groups"),
    [
        (["oak", "red oak", "elm"], [None, "oak", "tree"], ["oak (class)", "oak", "tree"], [0, 1, 2]),
        (["oak", "red oak", "oak (class)"], [None, "oak", None], ["oak (class)", "oak", "oak (class) (class)"], [0, 1, 2]),
        (["oak", "red oak", "elm"], [None, "oak", "oak (class)"], ["oak (class) (class)", "oak", "oak (class)"], [0, 1, 2]),
        (None, [None, "class 0", "b"], ["class 0 (class)", "class 0", "b"], [0, 1, 2]),
        (["oak", "red oak", "elm"], ["oak", "oak", None], ["oak", "oak", "elm"], [0, 0, 1]),
    ],
)
def test_a_class_without_a_superclass_is_kept_apart_from_one_of_its_name(classes, above, names, groups):
    assert superclass_by_class(above, classes) == names
    assert superclass_by_class(names, classes) == names
    assert list(Predictions(torch.eye(3), classes=classes, superclasses=above).superclasses) == names
    if classes is None:
        assert sure_node(0.1, above).ordering.groups.tolist() == groups
        assert metrics.superclass_coverage(np.eye(3, dtype=bool), np.array([1, 0, 2]), above) == pytest.approx(1 / 3)
    else:
        assert Dataset("garden", classes, {}, above).superclass_of.tolist() == groups


def test_one_column_of_a_data_frame_is_values_by_class():
    frame = pd.DataFrame({"n": [500, 50, 5]}, index=["fir", "elm", "ash"])
    assert by_class("train_counts", frame, CLASSES) == [5, 50, 500]
    assert Predictions(torch.eye(3), classes=CLASSES, train_counts=frame).train_counts.tolist() == [5, 50, 500]
    assert Predictions(torch.eye(3), train_counts=frame.reset_index(drop=True)).train_counts.tolist() == [500, 50, 5]
    with pytest.raises(InputError, match="train_counts: .*data frame of 3 columns"):
        by_class("train_counts", frame.T, CLASSES)
    with pytest.raises(InputError, match="train_counts: .*got a series"):
        metrics.shot_coverage(SETS, TARGET, frame)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.float16])
def test_counts_may_have_any_dtype(tmp_path, dtype):
    counts = np.array([5, 50, 120], dtype)
    for given in (counts, torch.from_numpy(counts), pd.Series(counts)):
        found = Predictions(torch.eye(3), train_counts=given)
        assert found.prior.tolist() == [5 / 175, 50 / 175, 120 / 175]
        for suffix in (".safetensors", ".npz", ".parquet"):
            found.save(tmp_path / f"a{suffix}")
            assert Predictions.load(tmp_path / f"a{suffix}").train_counts.tolist() == [5, 50, 120]
        shares = metrics.shot_coverage(SETS, TARGET, given)
        assert [float(shares[name]) for name in ("medium", "many")] == [0, 0.5]
        streamed = metrics.ShotCoverage(given)
        streamed.update(SETS, TARGET)
        assert float(streamed.compute()["many"]) == 0.5


def test_counts_beyond_int64_are_refused():
    with pytest.raises(InputError, match=f"train_counts: .*got {2**64 - 1}"):
        Predictions(torch.eye(2), train_counts=np.array([1, 2**64 - 1], np.uint64))


def test_a_prior_of_half_precision_counts_does_not_overflow():
    given = torch.tensor([60000, 60000, 1], dtype=torch.float16)
    assert_close(Predictions(torch.eye(3), train_counts=given).prior, given.double() / 120001)


def test_margins_of_a_link_by_name_are_refused():
    margins = pd.Series({"fir": 0.5, "elm": 0.25, "ash": 0.125})
    for given in (margins, margins.to_dict(), margins.to_frame()):
        with pytest.raises(InputError, match="margins: .*got a"):
            LDAM(given)
    assert LDAM(margins.reset_index(drop=True)).margins.tolist() == [0.5, 0.25, 0.125]


def test_lists_refuse_probabilities_whose_columns_are_in_another_order():
    probs = pd.DataFrame(np.eye(3), columns=CLASSES)
    sets = top_k(1).predict(probs)
    assert label_lists(sets, probs, CLASSES, list("xyz"))[1].labels == ["elm"]
    turned = probs[CLASSES[::-1]]
    for given in ((sets, turned), (sets.to_numpy(), turned), (sets[CLASSES[::-1]], turned)):
        with pytest.raises(InputError, match="column 0.*'ash'"):
            label_lists(*given, CLASSES, list("xyz"))
    with pytest.raises(InputError, match="target: .*'fir' in column 0.*'ash'"):
        label_lists(sets, probs, CLASSES, list("xyz"), turned > 0.5)
    assert label_lists(sets, probs, {2: "fir", 0: "ash", 1: "elm"}, list("xyz"))[2].labels == ["fir"]


def test_labels_of_later_batches_go_by_the_columns_of_the_first():
    probs, turned = pd.DataFrame(PROBS, columns=CLASSES), pd.DataFrame(MARKS, columns=CLASSES)[CLASSES[::-1]]
    batches = [(probs, MARKS), (probs.to_numpy(), turned)]
    with pytest.raises(InputError, match="target: .*'fir' in column 0.*'ash'"):
        risk_control("recall", 0.1).fit(batches)
    metric = metrics.MeanAveragePrecision()
    metric.update(*batches[0])
    for add in (metric.update, metric):
        with pytest.raises(InputError, match="target: .*'fir' in column 0.*'ash'"):
            add(*batches[1])


@pytest.mark.parametrize(
    "columns",
    [
        *([1, 2, 3], [2, 0, 1], ["10", "20", "30"], [-1, 0, 1], [1.0, 2.0, 3.0], [2.0, 1.0, 0.0]),
        *(["1", "2", "other"], [1, 2, "other"], ["other", "0", "2"]),
    ],
)
@pytest.mark.parametrize("as_given", [np.asarray, list, torch.as_tensor, pd.Series], ids=["array", "list", "tensor", "series"])
def test_whole_numbers_beside_columns_called_by_numbers_are_refused(columns, as_given):
    probs, labels = pd.DataFrame(np.eye(3), columns=columns), as_given(np.array([0, 1, 2]))
    doors = [
        lambda: shortlist.sets.lac(0.5).fit(probs, labels),
        lambda: shortlist.evaluate(probs, labels, "top-k:1"),
        lambda: shortlist.metrics.top_k_accuracy(probs, labels, k=1),
        lambda: shortlist.Predictions(probs, labels),
        lambda: shortlist.links.Temperature().fit(probs, labels),
        lambda: shortlist.metrics.CalibrationError().update(probs, labels),
    ]
    for door in doors:
        with pytest.raises(InputError, match=f"target: .*columns called '{columns[0]}'"):
            door()


def test_columns_called_by_their_places_and_matrices_of_labels_are_clear():
    probs, labels = np.eye(3), np.array([0, 1, 2])
    for columns in ([0, 1, 2], [0.0, 1.0, 2.0], [0, 1, "other"], ["a", "b", "c"], ["1st", "2nd", "3rd"], ["nan", "inf", "x"]):
        assert shortlist.metrics.top_k_accuracy(pd.DataFrame(probs, columns=columns), labels, k=1) == 1
    marks = pd.DataFrame(np.eye(3, dtype=bool), columns=[1, 2, 3])
    assert shortlist.Predictions(pd.DataFrame(probs, columns=[1, 2, 3]), marks).target.sum() == 3
