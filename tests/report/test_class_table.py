"""All classes in one table: the numbers of every class, sorted, cut where it must be, and safe in a page."""

import json
import math
import re

import pytest
import torch

from shortlist import Predictions
from shortlist.report import ClassTable, evaluate, render
from shortlist.report.class_table import class_tables
from shortlist.sets import threshold, top_k
from tests.report.cases import CLASSES, COUNTS, SUPERCLASSES, draw, measured


def wilson(hits, n, z=1.959963984540054):
    centre = (hits / n + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(hits / n * (1 - hits / n) / n + z * z / (4 * n * n))
    return centre - half, centre + half


def test_every_class_has_its_numbers():
    evaluation = measured(counts=COUNTS, superclasses=SUPERCLASSES, rows=200)
    frame = ClassTable([evaluation]).table().frame().set_index("class")
    assert list(frame.index) == CLASSES
    assert list(frame.columns) == [
        *[
            "superclass",
            "training examples",
            "rows",
            "coverage",
            "coverage, low",
            "coverage, high",
            "mean size",
            "gap",
            "z",
            "ECE",
        ]
    ]
    predictions = draw(counts=COUNTS, rows=200)
    sets, target = predictions.probs() >= 0.45, predictions.target
    for label, name in enumerate(CLASSES):
        rows, own = target == label, frame.loc[name]
        n, hits = int(rows.sum()), int(sets[rows, label].sum())
        assert (own["rows"], own["training examples"], own["superclass"]) == (n, COUNTS[label], SUPERCLASSES[label])
        if n:
            assert own["coverage"] == hits / n
            assert (own["coverage, low"], own["coverage, high"]) == pytest.approx(wilson(hits, n))
            assert own["mean size"] == pytest.approx(float(sets[rows].sum(1).double().mean()))
        else:
            assert math.isnan(own["coverage"])
            assert math.isnan(own["coverage, low"])
        assert own["gap"] == pytest.approx(
            float(predictions.probs()[:, label].double().mean() - rows.double().mean()), abs=1e-6
        )
    by_class = evaluation.by_class()
    assert by_class["coverage"].tolist() == pytest.approx(frame["coverage"].tolist(), nan_ok=True)
    assert by_class["size"].tolist() == pytest.approx(frame["mean size"].tolist(), nan_ok=True)
    assert by_class["coverage_low"].tolist() == pytest.approx(frame["coverage, low"].tolist(), nan_ok=True)
    assert by_class["ece"].tolist() == pytest.approx(frame["ECE"].tolist())


def test_several_labels_have_recall_and_the_mean_size_of_their_rows():
    evaluation = measured("many")
    predictions = draw("many")
    sets, target = predictions.probs() >= 0.45, predictions.target
    frame = ClassTable([evaluation]).table().frame()
    for label in range(6):
        rows = target[:, label]
        assert frame["recall"][label] == pytest.approx(float((sets[rows, label]).double().mean()))
        assert frame["mean size"][label] == pytest.approx(float(sets[rows].sum(1).double().mean()))


def test_the_worst_come_first_and_those_without_rows_last():
    table = ClassTable([measured(rows=200, rule=top_k(1))])
    coverage = next(column for column in table.columns if column.title == "coverage").values
    order = table.order()
    known = [coverage[label] for label in order if not math.isnan(coverage[label])]
    assert known == sorted(known)
    assert CLASSES[order[-1]] == "ash"
    assert [row[0] for row in table.worst(2).rows] == [CLASSES[label] for label in order[:2]]


def test_columns_of_several_evaluations_stand_side_by_side_and_those_of_the_same_scores_once():
    evaluations = [measured(name="wide", rule=threshold(0.2)), measured(name="narrow", rule=threshold(0.6))]
    titles = [column.title for column in ClassTable(evaluations).columns]
    assert titles == [
        "class",
        "rows",
        "coverage, wide",
        "mean size, wide",
        "coverage, narrow",
        "mean size, narrow",
        "gap",
        "z",
        "ECE",
    ]
    other = measured(name="other", seed=1)
    assert [len(table.evaluations) for table in class_tables([*evaluations, other])] == [3]
    renamed = measured(name="renamed", classes=["a", *CLASSES[1:]])
    assert [len(table.evaluations) for table in class_tables([*evaluations, renamed])] == [2, 1]
    assert class_tables([measured("none")]) == []


def test_the_page_holds_the_numbers_of_all_classes():
    evaluation = measured(counts=COUNTS)
    text = re.search(r'<script type="application/json">(.*?)</script>', render(evaluation), re.DOTALL).group(1)
    columns = {column["title"]: column for column in json.loads(text)}
    assert columns["class"]["values"] == CLASSES
    assert columns["rows"]["values"] == [int(n) for n in evaluation.hits[1]]
    assert columns["coverage"]["values"][0] is None  # no row of this class
    frame = evaluation.by_class()
    assert columns["coverage"]["values"][1:] == pytest.approx(frame["coverage"][1:].tolist(), rel=1e-4)
    assert columns["coverage"]["high"][1:] == pytest.approx(frame["coverage_high"][1:].tolist(), rel=1e-4)


def test_names_of_classes_cannot_end_the_data():
    evil = ["</script><script>alert(1)</script>", "<!--", "a&b", '"', "\\u003c", "\u2028"]
    text = ClassTable([measured(classes=evil)]).json()
    assert set("<>&").isdisjoint(text)
    assert json.loads(text)[0]["values"] == evil


def test_very_many_classes_are_cut_to_those_with_the_most_rows_and_the_page_says_so(monkeypatch):
    evaluation = measured(rows=200)
    table = ClassTable([evaluation], most=3)
    counts = evaluation.hits[1].tolist()
    kept = sorted(sorted(range(6), key=lambda label: -counts[label])[:3])
    assert table.columns[0].values == [CLASSES[label] for label in kept]
    assert table.cut
    assert len(table) == 3
    monkeypatch.setattr("shortlist.report.class_table.ClassTable.__init__.__defaults__", (3,))
    assert "The page holds the 3 classes with the most rows, of 6" in " ".join(render(evaluation).split())


def test_forty_thousand_classes_take_a_few_megabytes():
    classes = 43_000
    target = torch.arange(50) * 800
    scores = torch.zeros(50, classes)
    scores[torch.arange(50), target] = 9.0
    predictions = Predictions(scores, target, [f"Genus species-{n:05d}" for n in range(classes)], "softmax")
    table = ClassTable([evaluate(predictions, rule=top_k(2))])
    assert len(table) == classes
    assert len(table.json()) < 4_000_000
    assert len(table.worst().rows) == 12


def test_evaluations_of_other_rows_have_rows_of_their_own():
    """Their coverages are of other rows: the number of rows of the first says nothing about them."""
    whole, part = draw(counts=COUNTS, rows=200), draw(counts=[count + 1 for count in COUNTS], rows=200).rows(slice(0, 60))
    found = [evaluate(rows, rule=top_k(1), name=name) for rows, name in ((whole, "whole"), (part, "part"))]
    table = ClassTable(found)
    frame = table.table().frame()
    assert "rows" not in frame
    for rows, name in ((whole, "whole"), (part, "part")):
        assert frame[f"rows, {name}"].tolist() == rows.target.bincount(minlength=len(CLASSES)).tolist()
        assert frame[f"training examples, {name}"].tolist() == rows.train_counts.tolist()
    assert len(ClassTable(found, most=3)) == 3
    assert table.order()[0] == ClassTable(found[:1]).order()[0]
    rules = [evaluate(whole, rule=top_k(k), name=str(k)) for k in (1, 2)]
    assert "rows" in ClassTable(rules).table().frame()
