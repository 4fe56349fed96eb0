"""``shortlist.evaluate``: whatever probabilities, labels and rule come as, the same evaluation, which shows itself."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

import shortlist
from shortlist import Predictions
from shortlist.errors import InputError, NotFittedError
from shortlist.evaluation import measure
from shortlist.evaluation.quantities import QUANTITIES
from shortlist.report import Optimum, write_report
from shortlist.sets import average_k, lac, parse_rule, threshold, top_k

PROBS = np.random.default_rng(0).dirichlet(np.full(4, 0.4), 80)
LABELS = np.array([np.random.default_rng(row).choice(4, p=probs) for row, probs in enumerate(PROBS)])
NAMES = ["ash", "elm", "fir", "oak"]

FORMS = {
    "arrays": (PROBS, LABELS),
    "tensors": (torch.tensor(PROBS), torch.tensor(LABELS)),
    "lists": (PROBS.tolist(), LABELS.tolist()),
    "frames": (pd.DataFrame(PROBS, columns=NAMES), pd.Series(LABELS)),
    "predictions": (Predictions(PROBS, LABELS, link="identity"), None),
    "predictions and labels": (Predictions(PROBS, link="identity"), LABELS),
}


@pytest.mark.parametrize("rule", [threshold(0.3), "threshold:0.3", None])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_numbers(form, rule):
    expected = measure(Predictions(PROBS, LABELS, link="identity"), None if rule is None else threshold(0.3)).numbers()
    found = shortlist.evaluate(*FORMS[form], rule).numbers()
    assert found.keys() == expected.keys()
    for name in expected.keys() - {"name", "rule"}:
        assert found[name] == pytest.approx(expected[name], rel=1e-5), name


def test_columns_of_a_frame_name_the_classes():
    assert shortlist.evaluate(*FORMS["frames"]).classes == tuple(NAMES)


def test_several_labels_and_no_labels():
    marks = PROBS > 0.5
    assert shortlist.evaluate(PROBS, marks, top_k(2)).numbers()["recall"] == 1.0
    sizes = shortlist.evaluate(PROBS, rule="top-k:3")
    assert sizes.size.mean == 3
    assert "coverage" not in sizes.numbers()


def test_logits_need_their_link():
    scores = torch.tensor(PROBS).log() + 3
    found = shortlist.evaluate(scores, LABELS, "threshold:0.3", link="softmax").numbers()
    assert found["coverage"] == shortlist.evaluate(PROBS, LABELS, "threshold:0.3").numbers()["coverage"]
    with pytest.raises(InputError, match="scores"):
        shortlist.evaluate(scores, LABELS)


@pytest.mark.parametrize("calibration", [(PROBS, LABELS), Predictions(PROBS, LABELS, link="identity")])
def test_a_rule_text_is_fitted_on_calibration_rows(calibration):
    found = shortlist.evaluate(PROBS, LABELS, "lac:0.1", calibration=calibration)
    assert found.coverage == shortlist.evaluate(PROBS, LABELS, lac(0.1).fit(PROBS, LABELS)).coverage
    unlabelled = shortlist.evaluate(PROBS, LABELS, "average-k:2", calibration=PROBS)
    assert unlabelled.size.mean == shortlist.evaluate(PROBS, LABELS, average_k(2).fit(PROBS)).size.mean


def test_an_unfitted_rule_and_two_rules_are_refused():
    with pytest.raises(NotFittedError, match=r"rule: lac:0\.1 .*calibration="):
        shortlist.evaluate(PROBS, LABELS, "lac:0.1")
    with pytest.raises(InputError, match="labels: .*second rule"):
        shortlist.evaluate(FORMS["predictions"][0], top_k(1), top_k(2))


def test_predictions_may_be_followed_by_the_rule():
    predictions = FORMS["predictions"][0]
    assert shortlist.evaluate(predictions, top_k(2)).coverage == shortlist.evaluate(predictions, rule=top_k(2)).coverage


def test_it_shows_as_a_table_with_definitions():
    found = shortlist.evaluate(PROBS, LABELS, "threshold:0.3", name="<mine>", top_n=2)
    heading, *lines = repr(found).splitlines()
    assert heading == "<mine>: 80 rows, 4 classes, rule threshold:0.3"
    first = ["coverage", "macro_coverage", "size", "empty", "size_stratified", "top1", "calibration_top"]
    groups = {
        "sets": ["size_sd"],
        "ranking": ["f1_top_n"],
        "calibration": [name for name in found.numbers() if name in QUANTITIES and QUANTITIES[name].group == "calibration"],
    }
    groups["calibration"].remove("calibration_top")
    titles = [QUANTITIES[name].title for name in first]
    for group, names in groups.items():
        titles += [f"{group}:", *(QUANTITIES[name].title.replace("{n}", "2") for name in names)]
    assert [line[:16].strip() for line in lines] == titles
    shown = [*first, *(name for names in groups.values() for name in names)]
    assert set(shown) == set(found.numbers()) & set(QUANTITIES)
    assert f"{found.coverage:.1%} ± {1.96 * found.coverage_error:.1%}" in lines[0]
    page = found._repr_html_()
    assert "<mine>" not in page
    assert all(QUANTITIES[name].meaning(found).replace("'", "&#x27;") in page for name in shown)


@pytest.mark.parametrize(("rule", "panels"), [("threshold:0.3", 3), (None, 2)])
def test_plot_opens_a_figure_that_pyplot_shows(rule, panels):
    before = plt.get_fignums()
    ax = shortlist.evaluate(PROBS, LABELS, rule).plot()
    assert set(plt.get_fignums()) - set(before) == {ax.figure.number}
    assert len(ax.figure.axes) == panels
    assert all(one.has_data() for one in ax.figure.axes)


def test_the_report_is_that_of_write_report(tmp_path):
    found = shortlist.evaluate(PROBS, LABELS, "threshold:0.3")
    found.save(tmp_path / "one.html", title="Mine")
    write_report(found, tmp_path / "two.html", title="Mine")
    assert (tmp_path / "one.html").read_text() == (tmp_path / "two.html").read_text()


def test_a_report_without_a_rule_has_no_rule_and_no_sets(tmp_path):
    shortlist.evaluate(PROBS, LABELS).save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "guarantee" not in page
    assert "Set sizes" not in page
    assert "log-loss" in page
    assert "None" not in page


def test_the_posterior_stands_for_its_optimum(tmp_path):
    found = shortlist.evaluate(PROBS, LABELS, "threshold:0.3")
    write_report(found, tmp_path / "one.html", optimum=PROBS)
    write_report(found, tmp_path / "two.html", optimum=Optimum.of(PROBS))
    page = (tmp_path / "one.html").read_text()
    assert "Distance to the optimum" in page
    assert page == (tmp_path / "two.html").read_text()


def test_reports_are_html_and_rules_are_evaluated_one_by_one(tmp_path):
    with pytest.raises(InputError, match=r"path: .*\.html, got .*plot\.png"):
        shortlist.evaluate(PROBS, LABELS).save(tmp_path / "plot.png")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="rule: .*got list"):
        shortlist.evaluate(PROBS, LABELS, ["top-k:1", "top-k:2"])


@pytest.mark.parametrize("rule", ["pas:0.1", "average-k:1:prior", "sure-node:0.1"])
@pytest.mark.parametrize("labels", [None, LABELS[40:]], ids=["own labels", "labels given"])
@pytest.mark.parametrize("known", ["calibration", "rows"])
def test_the_text_of_a_rule_takes_prior_and_superclasses_from_the_predictions(rule, labels, known):
    more = {"train_counts": [5, 10, 20, 5], "superclasses": ["broad", "broad", "needles", "broad"], "link": "identity"}
    told, plain = more, {"link": "identity"}
    rows = Predictions(PROBS[40:], LABELS[40:], **(told if known == "rows" else plain))
    calibration = Predictions(PROBS[:40], LABELS[:40], **(told if known == "calibration" else plain))
    arguments = {"prior": torch.tensor([0.125, 0.25, 0.5, 0.125]), "superclasses": more["superclasses"]}
    expected = shortlist.evaluate(rows, parse_rule(rule, **arguments).fit(calibration)).numbers()
    given = (rows, rule) if labels is None else (rows, labels, rule)
    assert shortlist.evaluate(*given, calibration=calibration).numbers()["coverage"] == expected["coverage"]
    with pytest.raises(InputError, match=rule):
        shortlist.evaluate(PROBS, LABELS, rule, calibration=(PROBS, LABELS))


def test_labels_given_with_predictions_replace_nothing_but_theirs():
    names = {"classes": NAMES, "superclasses": ["broad", "broad", "needles", "broad"], "train_counts": [5, 10, 20, 5]}
    whole = Predictions(PROBS, LABELS, link="identity", **names)
    expected = shortlist.evaluate(whole, top_k(2)).numbers()
    other = Predictions(PROBS, 3 - LABELS, link="identity", **names)
    assert shortlist.evaluate(other, LABELS, top_k(2)).numbers() == pytest.approx(expected, nan_ok=True)


def test_a_rule_that_is_not_fitted_is_left_so():
    rule = lac(0.1)
    first, second = (shortlist.evaluate(PROBS, LABELS, rule, calibration=(p, LABELS)) for p in (PROBS, PROBS[::-1]))
    assert not rule.fitted
    assert first.rule.threshold == lac(0.1).fit(PROBS, LABELS).threshold
    assert second.rule.threshold == lac(0.1).fit(PROBS[::-1], LABELS).threshold
