"""The table of quantities, and the selections that epochs and model cards make of it."""

import math
from fractions import Fraction
from functools import reduce
from random import Random

import pytest
import torch
from hypothesis import example, given, strategies as st

from shortlist import Predictions, metrics
from shortlist.errors import InputError
from shortlist.evaluation import card_numbers, evaluation as evaluation_module, measure, validation_numbers
from shortlist.evaluation.exact_sums import ExactSum
from shortlist.evaluation.quantities import QUANTITIES, in_groups
from shortlist.evaluation.quantity import GROUPS
from shortlist.evaluation.selections import has_outliers, validation_names
from shortlist.evaluation.tallies import Tally
from shortlist.evaluation.tally import TOTALS, Block, wanted_totals
from shortlist.links import Platt, Quasibinary, Sigmoid
from shortlist.metrics.smooth import smooth_error
from shortlist.sets import parse_rule, threshold, top_k
from tests.references import metrics as ref
from tests.report.cases import COUNTS, KINDS, SUPERCLASSES, draw


def test_names_titles_and_definitions_are_there_and_differ():
    assert list(QUANTITIES) == [quantity.name for quantity in QUANTITIES.values()]
    assert len({quantity.title for quantity in QUANTITIES.values()}) == len(QUANTITIES)
    assert all(quantity.definition and not quantity.definition.endswith(".") for quantity in QUANTITIES.values())


@pytest.mark.parametrize("rule", [None, threshold(0.45)], ids=["no rule", "rule"])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_and_frame_hold_the_same_quantities(kind, rule):
    evaluation = measure(draw(kind, counts=COUNTS), rule)
    numbers, frame = evaluation.numbers(), evaluation.frame()
    assert list(frame.columns) == ["group", "value", "standard_error", "definition"]
    assert frame.empty == (kind == "none" and rule is None)
    assert list(frame.index) == [name for name in numbers if name in QUANTITIES]
    for name, row in frame.iterrows():
        assert row["value"] == pytest.approx(numbers[name], nan_ok=True)
        assert row["standard_error"] == pytest.approx(numbers.get(f"{name}_se", math.nan), nan_ok=True)
        assert row["definition"] == QUANTITIES[name].meaning(evaluation)
        assert row["group"] == QUANTITIES[name].group


def test_without_a_rule_only_the_probabilities_are_measured():
    numbers = measure(draw(counts=COUNTS)).numbers()
    errors = {f"{error}_{over}" for error in ("calibration", "ace", "mce") for over in ("top", "all")}
    others = {"calibration_classwise", "calibration_p", "log_loss", "smooth", "brier"}
    others |= {f"brier_{part}" for part in ("reliability", "resolution", "uncertainty", "within")}
    assert set(numbers) == {"name", "rule", "rows", "top1", "top1_se"} | errors | others
    assert numbers["rule"] == "no rule"


@pytest.mark.parametrize("kind", KINDS)
def test_tallies_of_parts_merge_into_that_of_the_whole(kind):
    predictions, rule = draw(kind, counts=COUNTS, superclasses=SUPERCLASSES), threshold(0.45)
    names = wanted_totals(predictions, rule, frozenset(TOTALS), 3)
    groups = torch.tensor([0, 0, 0, 1, 0, 1])

    def tally(rows):
        part = predictions.rows(rows)
        block = Block(part, part.plausibility(), rule(part.plausibility()), 2, 7, 3, None, (19, 100), groups)
        return Tally.of(block, names, rows.start)

    whole, parts = (
        tally(slice(0, None)),
        [tally(slice(0, 31)), tally(slice(31, 32)), tally(slice(32, 32)), tally(slice(32, None))],
    )
    first = parts[0] + parts[1] + parts[2] + parts[3]
    assert first.rows == whole.rows == len(predictions)
    assert first.totals.keys() == whole.totals.keys() == set(names)
    for name, total in whole.totals.items():
        # float32 sigmoids round by place in the block; the cosines of high order tell, what is made of them does not.
        found, expected = (smooth_error(t) if name == "smooth" else t for t in (first.totals[name], total))
        torch.testing.assert_close(found, expected)
    a, b, c, d = parts
    for other in (a + (b + (c + d)), (d + b) + (a + c), Tally.from_bytes((c + b).to_bytes()) + d + a):
        assert other.rows == first.rows
        for name, total in first.totals.items():
            assert torch.equal(other.totals[name], total), name


@pytest.mark.parametrize("kind", KINDS)
def test_bounded_tallies_do_not_grow_with_the_rows(kind):
    rule = threshold(0.45)

    def tally(rows):
        predictions = draw(kind, rows=rows, counts=COUNTS)
        names = wanted_totals(predictions, rule, bounded=True)
        probs = predictions.plausibility()
        return Tally.of(Block(predictions, probs, rule(probs)), names)

    small, large = tally(30), tally(600)
    assert max(len(small.to_bytes()), len(large.to_bytes())) < 100_000
    assert not large.tables
    assert ("histograms" in large.names) == ("examples" in large.names)


def test_tallies_that_do_not_belong_together_are_refused():
    rule = threshold(0.45)

    def tally(predictions, names, first_row=0):
        return Tally.of(Block(predictions, predictions.plausibility(), rule(predictions.plausibility())), names, first_row)

    predictions = draw(rows=20)
    one = tally(predictions, ["sizes", "outcomes"])
    with pytest.raises(InputError, match="tallies: expected the same totals, got sizes, outcomes and sizes"):
        one + tally(predictions, ["sizes"])
    with pytest.raises(InputError, match="row 10 twice"):
        one + tally(predictions, ["sizes", "outcomes"], 10)
    other = Predictions(predictions.scores[:, :3], predictions.target.clamp(max=2), link=predictions.link)
    with pytest.raises(InputError, match="sizes of two shapes"):
        one + tally(other, ["sizes", "outcomes"], 20)
    with pytest.raises(InputError, match="tally: expected"):
        Tally.from_bytes(one.to_bytes()[:50])


@given(st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=8), st.randoms())
@example([-1.9810836324784046e-16], Random(0))
@example([1.0, -1.0 - 2.0**-52], Random(0))
def test_sums_are_exact_and_do_not_depend_on_the_order(numbers, random):
    parts = [ExactSum.of(torch.tensor([number], dtype=torch.float64)) for number in numbers]
    exact = sum((Fraction(math.trunc(Fraction(number) * 2**93), 2**93) for number in numbers), Fraction(0))
    found = reduce(ExactSum.merge, parts)
    assert found.value().item() == pytest.approx(float(exact), rel=1e-15, abs=2**-90)
    random.shuffle(parts)
    assert torch.equal(reduce(ExactSum.merge, parts).limbs, found.limbs)


def test_what_is_not_finite_stays_so():
    total = ExactSum.of(torch.tensor([1.0, math.inf, math.nan])) + ExactSum.of(torch.tensor([2.5, 1.0, 1.0]))
    assert total.value()[:2].tolist() == [3.5, math.inf]
    assert total.value()[2].isnan()


def test_an_epoch_and_the_report_mean_the_same_by_the_same_quantity():
    predictions = draw(rows=300)
    epoch, report = validation_numbers(predictions, 2), measure(predictions, top_k(2)).numbers()
    assert epoch["top-1"] == report["top1"]
    assert epoch["top-2"] == report["coverage"]
    assert epoch["macro-top-2"] == report["macro_coverage"]
    assert epoch["nll"] == report["log_loss"]
    many = draw("many")
    assert validation_numbers(many, 2)["map"] == measure(many, threshold(0.5)).numbers()["map_class"]


@pytest.mark.parametrize("link", ["softmax", None])
@pytest.mark.parametrize("kind", ["single", "many"])
def test_validation_names_are_those_that_validation_gives(kind, link):
    predictions = draw(kind, link=link)
    names = validation_names(
        2.5,
        predictions.num_classes,
        single_label=kind == "single",
        probabilities=link is not None,
        outliers=has_outliers(predictions.target),
    )
    assert list(validation_numbers(predictions, 2.5)) == names


@pytest.mark.parametrize("fitted", [False, True], ids=["plain", "platt on top"])
@pytest.mark.parametrize("kind", ["single", "many", "none"])
def test_shares_of_q_above_one_are_counted_literally(kind, fitted):
    """q = exp(s) / C, with the C of the link; whatever is fitted on top of it."""
    given = draw(kind, link=None)
    link = Quasibinary()
    link.log_normalizer = torch.tensor(0.7)
    normalizer = math.exp(float(link.log_normalizer))
    q = [[math.exp(s) / normalizer for s in row] for row in given.scores.tolist()]
    pairs, rows = [value > 1 for row in q for value in row], [max(row) > 1 for row in q]
    assert 0 < sum(rows) < len(rows)
    if fitted:
        labels = draw("many", link=None)
        link = Platt(link).fit(labels.scores, labels.target)
    numbers = measure(given.with_link(link)).numbers()
    assert numbers["above_one"] == pytest.approx(sum(pairs) / len(pairs), rel=1e-12)
    assert numbers["rows_above_one"] == pytest.approx(sum(rows) / len(rows), rel=1e-12)
    assert "above_one" not in measure(given.with_link(Sigmoid()), top_k(1)).numbers()


def test_a_score_of_exactly_log_c_is_not_above_one():
    link = Quasibinary()
    link.log_normalizer = torch.tensor(1.0)
    found = measure(Predictions([[1.0, 0.5], [1.5, 2.0]], None, link=link)).numbers()
    assert (found["above_one"], found["rows_above_one"]) == (0.5, 0.5)


def test_the_card_of_one_label_a_row():
    predictions, rule = draw(rows=200, counts=COUNTS), threshold(0.3)
    rows = {row["name"].partition(" (")[0]: row for row in card_numbers(measure(predictions, rule))}
    assert list(rows) == ["coverage", "macro coverage", "mean size", "top-1", "ECE top"]
    assert all(row["n"] == 200 for row in rows.values())
    probs, target = predictions.probs(), predictions.target
    coverage = float(metrics.coverage(rule(probs), target))
    assert rows["coverage"]["value"] == coverage
    assert rows["coverage"]["error"] == pytest.approx(math.sqrt(coverage * (1 - coverage) / 200))
    assert rows["ECE top"]["value"] == pytest.approx(float(metrics.calibration_error(probs, target)))
    assert rows["ECE top"]["name"] == "ECE top (ECE, 15 bins of equal width, over the top label of a row)"
    assert "error" not in rows["macro coverage"]


def test_the_card_of_several_labels_a_row():
    names = [row["name"].partition(" (")[0] for row in card_numbers(measure(draw("many"), threshold(0.3)))]
    outliers = ["top-1 with a label", "confidence without", "AUROC, confidence"]
    assert names == ["recall", "macro recall", "mean size", "mAP by class", "ECE all", *outliers]


def test_without_rows_of_both_kinds_nothing_is_said_about_outliers():
    labelled = Predictions([[0.9, 0.2], [0.3, 0.6]], target=[[True, False], [True, True]], link="identity")
    none = Predictions([[0.9, 0.2], [0.3, 0.6]], target=[[False, False], [False, False]], link="identity")
    for predictions in (labelled, none):
        assert not {"top1_in", "auroc_confidence", "fpr95"} & set(measure(predictions).numbers())


def test_scores_without_a_link_have_no_calibration_error():
    predictions = Predictions([[2.0, 1.0], [0.0, 1.0]], target=[0, 0])
    evaluation = measure(predictions, top_k(1))
    assert math.isnan(evaluation.calibration_error("top"))
    assert [row["name"].partition(" (")[0] for row in card_numbers(evaluation)][-1] == "top-1"


@pytest.mark.parametrize("kind", ["single", "many"])
def test_classes_have_their_own_calibration(kind):
    predictions = draw(kind, counts=COUNTS)
    evaluation = measure(predictions, calibration_bins=5)
    frame, probs = evaluation.class_calibration(), predictions.probs().double()
    marks = ref.marks_of(predictions.target.numpy(), 6)
    assert frame.index.tolist() == list(predictions.class_names)
    assert frame["labels"].tolist() == marks.sum(0).tolist()
    assert frame["frequency"].tolist() == pytest.approx(marks.mean(0).tolist())
    assert frame["probability"].tolist() == pytest.approx(probs.mean(0).tolist())
    assert frame["gap"].tolist() == pytest.approx((probs.numpy().mean(0) - marks.mean(0)).tolist())
    spread = (probs * (1 - probs)).sum(0).sqrt().numpy()
    assert frame["z"].tolist() == pytest.approx(((probs.numpy() - marks).sum(0) / spread).tolist())
    for name, norm in (("ece", "expected"), ("ace", "average"), ("mce", "max")):
        expected = ref.classwise_calibration_error(probs.numpy(), predictions.target.numpy(), norm, 5, "none")
        assert frame[name].tolist() == pytest.approx(expected.tolist()), name
    assert frame["training_examples"].tolist() == COUNTS
    assert measure(draw(kind, link=None)).class_calibration().empty


def test_the_definitions_of_calibration_errors_are_those_of_the_metrics():
    evaluation = measure(draw("many"), calibration_bins=7, top_n=3)
    norms = {"calibration": "expected", "ace": "average", "mce": "max"}
    for name, norm in norms.items():
        for key, over in (("top", "top"), ("all", "all"), ("top_n", 3)):
            quantity = QUANTITIES[f"{name}_{key}"]
            assert quantity.meaning(evaluation) == metrics.calibration_definition(norm, 7, "width", over)
            expected = metrics.calibration_error(draw("many").probs(), draw("many").target, norm=norm, bins=7, over=over)
            assert quantity.value(evaluation) == pytest.approx(float(expected), rel=1e-6)
    assert QUANTITIES["f1_top_n"].heading(evaluation) == "macro F1 top 3"


def test_every_quantity_is_in_the_headline_or_in_its_group_and_groups_keep_their_order():
    evaluations = [measure(draw(kind, counts=COUNTS, superclasses=SUPERCLASSES), threshold(0.45)) for kind in KINDS]
    found = in_groups(evaluations)
    assert list(found) == ["headline", *GROUPS]
    assert {quantity.group for quantity in QUANTITIES.values()} == set(GROUPS)
    names = [quantity.name for group in found.values() for quantity in group]
    assert len(names) == len(set(names))
    assert set(names) == {
        name for evaluation in evaluations for name, value in evaluation.numbers().items() if name in QUANTITIES
    }
    for kind, evaluation in zip(KINDS, evaluations, strict=True):
        first = [quantity.name for quantity in in_groups([evaluation])["headline"]]
        assert len(first) <= 8
        assert ("calibration_top" in first, "calibration_all" in first) == (kind == "single", kind == "many")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"calibration_bins": 0}, "calibration_bins: .*from 1 to 1000, got 0"),
        ({"calibration_bins": 1001}, "calibration_bins: .*got 1001"),
        ({"top_n": 0}, "top_n: .*got 0"),
        ({"top_n": 1.5}, r"top_n: .*got 1\.5"),
        ({"shots": (10, 50)}, "shots: .*train_counts"),
        ({"shots": (50, 10)}, r"shots: .*increasing.*got \(50, 10\)"),
        ({"shots": (10, 10)}, r"shots: .*increasing.*got \(10, 10\)"),
        ({"shots": ()}, r"shots: .*got \(\)"),
        ({"shots": (10, 20.5)}, r"shots: .*got 20\.5"),
        ({"shots": (-1,)}, "shots: .*got -1"),
        ({"shots": 10}, "shots: .*got 10"),
        ({"shots": "10,50"}, "shots: .*got '10,50'"),
    ],
)
def test_bins_n_and_shots_are_checked(keywords, message):
    with pytest.raises(InputError, match=message):
        measure(draw(), **keywords)


def test_the_test_of_many_rows_draws_less(monkeypatch):
    monkeypatch.setattr(evaluation_module, "MANY_ROWS", 90)
    evaluation = measure(draw(rows=90))
    expected = metrics.calibration_test(draw().probs(), draw().target, draws=199).p_value
    assert evaluation.numbers()["calibration_p"] == float(expected)


def gated_rows(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    target = torch.nn.functional.one_hot(torch.randint(4, (rows,), generator=generator), 4).bool()
    target &= torch.rand(rows, 1, generator=generator) < 0.6
    target[:, 0] |= target[:, 1] & (torch.rand(rows, generator=generator) < 0.3)
    return Predictions(torch.randn(rows, 4, generator=generator) + 3 * target, target, link="sigmoid")


def test_refused_rows_are_counted_by_kind():
    rule = parse_rule("threshold:0.4,gate:0.7").fit(gated_rows(200, 0))
    rows = gated_rows(150, 1)
    numbers = measure(rows, rule).numbers()
    probs, target, sets = rows.probs(), rows.target, rule(rows)
    kinds = {"refused": [], "refused_in": [], "refused_out": []}
    labels = hits = 0
    for row, own, answer in zip(probs, target, sets, strict=True):
        refused = float(row.max()) <= float(rule.gate.threshold)
        kinds["refused"].append(refused)
        kinds["refused_in" if own.any() else "refused_out"].append(refused)
        labels += 0 if refused else int(own.sum())
        hits += 0 if refused else int((answer & own).sum())
    for name, found in kinds.items():
        assert numbers[name] == pytest.approx(sum(found) / len(found))
    assert 0 < numbers["refused_in"] < numbers["refused_out"] < 1
    assert numbers["recall_answered"] == pytest.approx(hits / labels)


def test_a_gate_by_quality_is_measured():
    """Against plain loops: shares of refused rows, recall of the others, and the AUROC of the quality."""
    quality = {seed: torch.randn(n, generator=torch.Generator().manual_seed(seed)) for seed, n in ((0, 200), (1, 150))}
    first, rows = (gated_rows(len(quality[seed]), seed) for seed in (0, 1))
    rule = parse_rule("threshold:0.4,gate:0.7:quality").fit(first.with_quality(quality[0] + first.target.any(1)))
    rows = rows.with_quality((quality[1] + rows.target.any(1)).round(decimals=1))
    evaluation = measure(rows, rule)
    numbers, sets = evaluation.numbers(), rule(rows)
    refused = [value <= float(rule.gate.threshold) for value in rows.quality.tolist()]
    labelled = rows.target.any(1).tolist()
    out = [no for no, known in zip(refused, labelled, strict=True) if not known]
    assert numbers["refused"] == pytest.approx(sum(refused) / 150)
    assert numbers["refused_out"] == pytest.approx(sum(out) / len(out))
    kept = torch.tensor([not no for no in refused])
    assert not sets[~kept].any()
    assert numbers["recall_answered"] == pytest.approx(float((sets & rows.target).sum() / rows.target[kept].sum()))
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, known in zip(rows.quality.tolist(), labelled, strict=True)
        for b, other in zip(rows.quality.tolist(), labelled, strict=True)
        if known and not other
    ]
    assert numbers["auroc_quality"] == pytest.approx(sum(pairs) / len(pairs))
    assert evaluation.details["gate"] == f"quality above {float(rule.gate.threshold):.6g}"
    assert all(one.answer.refused for gallery in evaluation.galleries if gallery.kind == "empty" for one in gallery.exhibits)
    assert "auroc_quality" not in measure(rows.with_quality(None)).numbers()
    with pytest.raises(InputError, match="gate:0.7:quality: expected a quality, .*with_quality"):
        measure(rows.with_quality(None), rule)


def test_of_unlabelled_rows_only_the_share_of_refused_ones_is_known():
    rule = parse_rule("threshold:0.4,gate:0.7").fit(gated_rows(200, 0))
    rows = gated_rows(50, 1)
    numbers = measure(Predictions(rows.scores, link="sigmoid"), rule).numbers()
    assert numbers["refused"] == measure(rows, rule).numbers()["refused"]
    assert "refused_in" not in numbers
    single = Predictions(rows.scores, torch.zeros(50, dtype=torch.int64), link="sigmoid")
    found = measure(single, rule).numbers()
    assert found["refused_in"] == found["refused"]
    assert math.isnan(found["refused_out"])
    assert "refused" not in measure(rows, threshold(0.4)).numbers()


def test_the_calibration_of_one_class_is_tested_as_the_metric_tests_it():
    generator = torch.Generator().manual_seed(3)
    for rows in (5, 40):
        probs = torch.rand(rows, 1, generator=generator, dtype=torch.float64)
        target = torch.rand(rows, 1, generator=generator) < 0.3 * probs
        expected = metrics.calibration_test(probs, target, bins=15)
        found = measure(Predictions(probs, target, link="identity")).calibration_test
        assert float(found.p_value) == float(expected.p_value)
        assert float(found.statistic) == pytest.approx(float(expected.statistic))
