"""Values at the door: every public function that fits or measures refuses what it would otherwise measure wrongly.

The functions are found by reflection. A new one makes `test_every_public_name_is_tried_or_excused` fail until it has a line in
DOORS, which then tries it on every kind of wrong values.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from shortlist import evaluation, links, metrics, sets, shift
from shortlist.errors import InputError
from shortlist.predictions import Predictions

ROWS, CLASSES = 60, 5
PRIOR = np.full(CLASSES, 1 / CLASSES)
COUNTS = np.array([1, 20, 50, 200, 300])
NAMES = [f"class {label}" for label in range(CLASSES)]


@dataclass(frozen=True)
class Door:
    """A function of values and a target, what its values are (sets, scores, finite scores, probabilities), and their name."""

    call: Callable[[Any, Any], Any]
    kind: str
    name: str = "probs"
    labels: bool = True  # whether it looks at the target
    many: bool = False  # whether the target is bool (N, C) only
    empty: str = "nan"  # what no rows give: "nan", "error", or "sets" (none)


def fitted(rule):
    """A rule fitted on good rows, to be asked about others."""
    probs, target = good("probabilities", rule.text.startswith(("risk", "per-label")) or rule.gate is not None)
    return rule.fit(probs, target)


def rule_doors(name, make, kind, *, labels=True, many=False, fits=True):
    found = {f"{name}.fit": Door(lambda v, t: make().fit(v, t), kind, labels=labels, many=many, empty="error")} if fits else {}
    return found | {f"{name}.predict": Door(lambda v, t: fitted(make()).predict(v), kind, labels=False, empty="sets")}


def streamed(name, **keywords):
    def call(values, target):
        metric = getattr(metrics, name)(**keywords)
        metric.update(values, target)
        return metric.compute()

    return call


def both(name, kind, *, labels=True, many=False, empty="nan", **keywords):
    """A metric as a function and streaming."""
    camel = "".join(part[0].upper() + part[1:] for part in name.split("_"))
    told = {"kind": kind, "name": "sets" if kind == "sets" else "probs", "labels": labels, "many": many, "empty": empty}
    calls = {name: lambda v, t: getattr(metrics, name)(v, t, **keywords), camel: streamed(camel, **keywords)}
    return {f"{name}{list(keywords.values()) or ''}": Door(call, **told) for name, call in calls.items()}


def fit_link(make):
    return Door(lambda v, t: make().fit(v, t), "finite", "scores", empty="error")


def measured(values, target):
    return evaluation.measure(Predictions(values, target), sets.top_k(2))


def calibrated(values, target):
    probs, labels = good("probabilities")
    return metrics.average_k_accuracy(probs, labels, 2, calibration=values)


def slab_coverage(values, target):
    return metrics.worst_slab_coverage(values, target, np.arange(float(len(values)))[:, None], directions=3)


def inverse(values, target):
    return links.Softmax().scores(torch.as_tensor(values))


def as_identity(values, target):
    return links.Identity().probs(torch.as_tensor(values))


def with_identity(values, target):
    return links.Temperature(links.Identity()).fit(values, target)


def retrieved(values, target):
    with np.errstate(all="ignore"):
        logs = np.log(np.asarray(values)), np.log1p(-np.asarray(values))
    return metrics.evaluate_retrieval(*logs, target, max_length=2)


def folded(values, target):
    rule = sets.lac(0.1).fit(values, target, keep=True)
    return sets.CrossConformal([rule, rule]).predict([values, values])


def listed(values, target):
    return sets.label_lists(np.ones(np.shape(values), bool), values, NAMES, [str(row) for row in range(len(values))], target)


def costs(values, target):
    return sets.bound_cost(sets.cap(sets.threshold(0.1), 2), values, target)


def replayed(values, target):
    return sets.CoverageStream(sets.aps(0.1), *good("probabilities")).replay(values, target)


def shared(values, target):
    return shift.class_shares(values, values, target, method="black-box", resamples=2).shares


def weighted(values, target):
    return shift.input_weights(values, good("finite")[0], least=0).weights


def watched(values, target):
    return np.empty(shift.watch(sets.top_k(2), good("probabilities")[0], values).rows)


def sized(values, target):
    return sets.SizeStream(sets.average_k(2).fit(good("probabilities")[0])).answer(values)


DOORS: dict[str, Door] = {
    **both("coverage", "sets"),
    **both("shot_coverage", "sets", train_counts=COUNTS),
    **both("superclass_coverage", "sets", superclasses=NAMES),
    **both("set_size", "sets"),
    **both("empty_rate", "sets"),
    **both("set_precision", "sets"),
    **both("size_stratified_coverage", "sets"),
    **both("class_coverage_gap", "sets", alpha=0.1),
    "worst_slab_coverage": Door(slab_coverage, "sets", "sets"),
    **both("top_k_accuracy", "scores", k=2),
    **both("average_k_accuracy", "scores", k=2, empty="error"),
    **both("average_k_accuracy", "probabilities", k=2, prior=PRIOR, empty="error"),
    "average_k_accuracy.calibration": Door(calibrated, "scores", "calibration: probs", labels=False, empty="error"),
    **both("calibration_error", "probabilities"),
    **both("calibration_error", "probabilities", binning="mass"),
    **both("calibration_error", "probabilities", over="all"),
    **both("classwise_calibration_error", "probabilities"),
    "calibration_test": Door(lambda v, t: metrics.calibration_test(v, t, draws=9).p_value, "probabilities"),
    **both("smooth_calibration_error", "probabilities"),
    **both("log_loss", "probabilities"),
    **both("brier_score", "probabilities"),
    **both("brier_decomposition", "probabilities"),
    **both("brier_decomposition", "probabilities", bins=None),
    **both("mean_average_precision", "scores"),
    **both("mean_average_precision", "scores", axis="example"),
    "BinnedMeanAveragePrecision": Door(streamed("BinnedMeanAveragePrecision"), "probabilities"),
    **both("top_n_f1", "scores"),
    **both("mean_max_confidence", "probabilities", many=True),
    **both("outlier_auroc", "probabilities", many=True),
    **both("outlier_fpr", "probabilities", many=True),
    **both("size_accuracy_curve", "probabilities"),
    **both("rank_curve", "scores"),
    **both("retrieval_map", "probabilities", max_length=2),
    "retrieval_curve": Door(lambda v, t: metrics.retrieval_curve(v, t, max_length=2).mean(), "probabilities"),
    "evaluate_retrieval": Door(retrieved, "logs", "log_"),
    **rule_doors("top_k", lambda: sets.top_k(2), "scores", fits=False),
    **rule_doors("average_k", lambda: sets.average_k(2), "scores", labels=False),
    **rule_doors("average_k with a prior", lambda: sets.average_k(2, PRIOR), "probabilities", labels=False),
    **rule_doors("threshold", lambda: sets.threshold(0.3), "probabilities", fits=False),
    **rule_doors("mass", lambda: sets.mass(0.1), "probabilities", fits=False),
    **rule_doors("lac", lambda: sets.lac(0.1), "scores"),
    **rule_doors("sure_node", lambda: sets.sure_node(0.1, NAMES), "probabilities"),
    **rule_doors("aps", lambda: sets.aps(0.1), "probabilities"),
    **rule_doors("aps at random", lambda: sets.aps(0.1, randomized=True), "probabilities"),
    **rule_doors("raps", lambda: sets.raps(0.1), "probabilities"),
    **rule_doors("pas", lambda: sets.pas(0.1, PRIOR), "probabilities"),
    **rule_doors("classwise", lambda: sets.classwise(sets.lac(0.3)), "scores"),
    **rule_doors("interpolated", lambda: sets.interpolated(sets.lac(0.3), 0.5), "probabilities"),
    **rule_doors("risk_control", lambda: sets.risk_control("recall", 0.1), "scores", many=True),
    **rule_doors("per_label", lambda: sets.per_label("f1"), "scores", many=True),
    **rule_doors("gate", lambda: sets.gate(sets.threshold(0.1), 0.5), "probabilities", many=True),
    **rule_doors("by", lambda: sets.by(sets.lac(0.3), "predicted"), "scores"),
    **rule_doors("cap", lambda: sets.cap(sets.aps(0.1), 3), "probabilities"),
    **rule_doors("floor", lambda: sets.floor(sets.lac(0.1)), "scores"),
    **rule_doors("pac", lambda: sets.pac(sets.lac(0.1), 0.1), "scores"),
    **rule_doors("raps, tuned", lambda: sets.raps(0.1, "auto"), "probabilities"),
    "nested": Door(lambda v, t: sets.nested(sets.lac(0.1).fit(v, t, keep=True), [0.2])[0](v), "scores", empty="error"),
    **rule_doors("learn_then_test", lambda: sets.learn_then_test({"recall": 0.999}, 0.999), "probabilities"),
    "CrossConformal": Door(folded, "scores", empty="error"),
    "fit_shards": Door(lambda v, t: sets.fit_shards(sets.lac(0.1), [(v, t)]), "scores", empty="error"),
    "CoverageStream": Door(lambda v, t: sets.CoverageStream(sets.aps(0.1), v, t), "probabilities", empty="error"),
    "CoverageStream.replay": Door(replayed, "probabilities", empty="sets"),
    "SizeStream.answer": Door(sized, "probabilities", labels=False, empty="sets"),
    "class_shares": Door(shared, "probabilities", empty="error"),
    "input_weights": Door(weighted, "finite", "calibration", labels=False, empty="error"),
    "watch": Door(watched, "probabilities", labels=False, empty="sets"),
    "bound_cost": Door(costs, "probabilities", empty="error"),
    "label_lists": Door(listed, "scores", empty="sets"),
    "Temperature": fit_link(links.Temperature),
    "Temperature of probabilities": Door(with_identity, "probabilities", "scores", empty="error"),
    "Platt": fit_link(links.Platt),
    "Beta": fit_link(links.Beta),
    "Isotonic": fit_link(links.Isotonic),
    "VennAbers": fit_link(links.VennAbers),
    "VectorScaling": fit_link(links.VectorScaling),
    "Dirichlet": fit_link(links.Dirichlet),
    "choose_link": Door(lambda v, t: links.choose_link(v, t, folds=2), "finite", "scores", empty="error"),
    "Identity": Door(as_identity, "probabilities", "scores", labels=False, empty="sets"),
    "Softmax": Door(inverse, "probabilities", labels=False, empty="sets"),
    "measure": Door(measured, "finite", "scores", empty="error"),
}

EXCUSED = {
    metrics: {
        "set_accuracy", "shot_accuracy", "SetAccuracy", "ShotAccuracy",  # synonyms
        "calibration_definition", "logs_of",  # no values, or those of predictions
        "CalibrationTest", "Curve", "RetrievalCurve", "QueryScores", "RetrievalScores",  # answers
    },
    sets: {
        "Batches", "BoundCost", "Constraint", "CumulativeMass", "AverageError", "AverageSize", "ErrorPerClass",
        "FittedThreshold", "Gate", "GivenLevel", "Groups", "InterpolatedError", "LabelList", "LabelObjective", "Level", "Mass",
        "MassAbove", "Ordering", "Prefix", "Probability", "Rank", "Risk", "SetRule", "Size", "SizeSummary",
        "PacError", "PacRisk", "SurestNode", "SeveralRisks", "TunedMass",  # parts of rules
        "effective_sample_size",  # of weights: tests/sets/test_weights.py
        "FitState", "merged",  # answers of rows that were checked
        "ClassLaws", "CoverageLaw", "class_laws", "coverage_law",  # of numbers of rows
        "parse_rule", "register_modifier", "register_row_loss", "register_rule", "rule_from_record",
    },
    links: {
        # NaN in, NaN out: tests/links/test_far_scores.py; Quasibinary.update ignores what is not finite
        "LDAM", "SPA", "AssumeNegative", "FocalRecovery", "Sigmoid", "SoftmaxFocalRecovery", "SparseTop", "Quasibinary",
        "Reweighted",
        "Link", "link_from_config", "parse_link", "Candidate", "LinkChoice",
    },
    shift: {
        "compared",  # of predictions
        "Alarm", "ClassShares", "Compared", "InputWeights", "Watch",  # answers, the class behind `watch`
        "coverage_interval",  # counts
        "thinned",  # weights
    },
    evaluation: {"evaluate_shards", "Evaluation", "Quantity", "ShotGroup", "card_numbers", "validation_numbers"},  # records
}  # fmt: skip

every_door = pytest.mark.parametrize("name", DOORS)
pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning", "ignore:The ``compute`` method")


@pytest.mark.parametrize("room", EXCUSED, ids=lambda room: room.__name__)
def test_every_public_name_is_tried_or_excused(room):
    tried = {name.split(".")[0].split(" ")[0].split("[")[0] for name in DOORS}
    missing = set(room.__all__) - EXCUSED[room] - tried
    assert not missing
    assert EXCUSED[room] <= set(room.__all__)


def good(kind, many=False, rows=ROWS):
    """Values that nobody refuses, and labels that follow them loosely."""
    random = np.random.default_rng(0)
    probs = random.dirichlet(np.ones(CLASSES), rows)
    target = random.uniform(size=probs.shape) < probs if many else (probs.cumsum(1) > random.uniform(size=(rows, 1))).argmax(1)
    return (probs > 0.2 if kind == "sets" else probs), target


def refuses(door, values, target, name):
    """The error names the parameter, in numpy and in torch."""
    for convert in (np.asarray, torch.as_tensor):
        with pytest.raises(InputError, match=rf"^{name}") as error:
            door.call(convert(values), convert(target))
        assert "\n" not in str(error.value)


@every_door
def test_good_values_are_measured(name):
    door = DOORS[name]
    door.call(*good(door.kind, door.many))
    door.call(*(torch.as_tensor(part) for part in good(door.kind, door.many)))


@every_door
@pytest.mark.parametrize("where", [(0, 0), (ROWS - 1, CLASSES - 1)])
@pytest.mark.parametrize("whole_row", [False, True])
def test_nan_is_refused(name, where, whole_row):
    door = DOORS[name]
    values, target = good(door.kind, door.many)
    if door.kind == "sets":
        return
    values[where[0], slice(None) if whole_row else where[1]] = math.nan
    refuses(door, values, target, door.name)


PROBABILISTIC = [name for name, door in DOORS.items() if door.kind == "probabilities"]
OTHERS = {"percentages": lambda p: 100 * p, "log-probabilities": np.log, "logits": lambda p: np.log(p / (1 - p)) + 1}


@pytest.mark.parametrize("name", PROBABILISTIC)
@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_probability_is_refused_where_probabilities_are_needed(name, other):
    door = DOORS[name]
    values, target = good(door.kind, door.many)
    refuses(door, OTHERS[other](values), target, rf"{door.name}.*: expected probabilities from 0 to 1, got ")


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.kind in ("scores", "finite")])
@pytest.mark.parametrize("other", OTHERS)
def test_any_finite_scores_are_taken_where_only_their_order_matters(name, other):
    door = DOORS[name]
    values, target = good(door.kind, door.many)
    door.call(OTHERS[other](values), target)


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.kind == "scores"])
def test_a_class_that_is_ruled_out_may_have_a_score_of_minus_infinity(name):
    door = DOORS[name]
    values, target = good(door.kind, door.many)
    values[3, (int(target[3]) + 1) % CLASSES if not door.many else 0] = -math.inf
    door.call(values, target)


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.kind == "finite"])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinite_scores_are_refused_where_they_are_added_up(name, value):
    door = DOORS[name]
    values, target = good(door.kind, door.many)
    values[3, 1] = value
    refuses(door, values, target, rf"{door.name}: expected finite numbers, got {value} in row 3, column 1")


LABELLED = [name for name, door in DOORS.items() if door.labels and not door.many]


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("label", [-1, CLASSES, 2**40])
def test_labels_out_of_range_are_refused(name, label):
    door = DOORS[name]
    values, target = good(door.kind)
    target[7] = label
    refuses(door, values, target, rf"target: expected labels from 0 to {CLASSES - 1}, got {label} in row 7")


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.labels])
@pytest.mark.parametrize(
    "change",
    [lambda t: t.astype(float), lambda t: t[:-1], lambda t: np.concatenate([t, t[:1]]), lambda t: t[:, None]],
    ids=["float", "shorter", "longer", "another dimension"],
)
def test_labels_of_another_form_are_refused(name, change):
    door = DOORS[name]
    values, target = good(door.kind, door.many)
    if name == "gate.fit" and change(target).dtype == float:
        pytest.skip("real numbers (N, C) are votes; to a gate, rows without votes are those without a label")
    refuses(door, values, change(target), "target: ")


@every_door
def test_no_classes_are_refused(name):
    door = DOORS[name]
    values, target = good(door.kind, door.many)
    with pytest.raises(InputError):
        door.call(values[:, :0], target)


@every_door
def test_no_rows_are_no_number(name):
    """NaN, no sets, or an error in words."""
    door = DOORS[name]
    values, target = good(door.kind, door.many)
    if door.empty == "error":
        with pytest.raises(InputError, match="rows|none"):
            door.call(values[:0], target[:0])
        return
    answer = door.call(values[:0], target[:0])
    if door.empty == "sets":
        assert len(answer) == 0
        return
    answer = answer.at(1.0) if isinstance(answer, metrics.Curve) else getattr(answer, "map", answer)
    parts = list(answer.values()) if isinstance(answer, dict) else [answer]
    numbers = np.concatenate([np.atleast_1d(np.asarray(part, float)) for part in parts])
    assert np.isnan(numbers).all()


def test_a_later_batch_is_checked_as_it_is_read():
    probs, target = good("probabilities")
    wrong = probs.copy()
    wrong[5, 2] = math.nan
    for source in ([(probs, target), (wrong, target)], ((part, target) for part in (probs, wrong))):
        with pytest.raises(InputError, match="probs: .*got nan in row 5, column 2"):
            sets.aps(0.1).fit(source)
    with pytest.raises(InputError, match="probs: .*got nan"):
        sets.average_k(2).fit([probs, wrong])
    target[4] = -1
    with pytest.raises(InputError, match="target: .*got -1 in row 4"):
        sets.lac(0.1).fit([(probs, target)])


def test_values_are_read_once_and_not_copied(monkeypatch):
    """One look at the values of each batch, in the first pass alone."""
    looks = []
    real = torch.aminmax
    monkeypatch.setattr(torch, "aminmax", lambda values: looks.append(values.numel()) or real(values))
    probs, target = good("probabilities")
    sets.lac(0.1).fit(probs, target)
    assert looks == [ROWS * CLASSES, ROWS]
    looks.clear()
    metrics.calibration_error(probs, target)
    assert looks == [ROWS * CLASSES, ROWS]
    looks.clear()
    predictions = Predictions(probs, target, link="softmax")
    looks.clear()
    evaluation.measure(predictions, sets.lac(0.1).fit(predictions))
    assert ROWS * CLASSES not in looks  # predictions were checked when they were made
