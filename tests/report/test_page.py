"""The page: one file that needs nothing else, says nothing false, and runs nothing that a name smuggles in."""

import base64
import functools
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.evaluation.quantities import defined
from shortlist.report import (
    DistanceToOptimum,
    Optimum,
    TrainingCurves,
    class_calibration,
    evaluate,
    headline,
    number_groups,
    render,
    shot_table,
    worst_classes,
    write_report,
)
from shortlist.report.templates import source_of
from shortlist.sets import threshold, top_k
from tests.report.cases import CLASSES, COUNTS, measured

EVIL = ["<script>alert(1)</script>", "</style><script>", '" onload="x()', "<img src=x onerror=x()>", "a&b", "{{ 1 + 1 }}"]
HISTORY = [
    {"epoch": 1, "loss": 2.5, "monitor": "top-1", "value": 0.5, "best": True, "metrics": {"top-1": 0.5, "nll": 2.625}},
    {"epoch": 2, "loss": 1.5, "monitor": None, "value": None, "best": False, "metrics": None},
    {"epoch": 3, "loss": 1.0, "monitor": "top-1", "value": 0.75, "best": True, "metrics": {"top-1": 0.75, "nll": 1.875}},
]
OPTIMUM = Optimum([1, 2, 3], [0.75, 0.875, 0.9375], [0.75, 0.9, 0.96], 90)
EXTRAS = {
    "trained": {"history": HISTORY},
    "known": {"optimum": OPTIMUM},
    "everything": {"history": {EVIL[0]: HISTORY, EVIL[3]: HISTORY[:1]}, "optimum": OPTIMUM},
}


@functools.cache
def pages():
    """Evaluations and the page about them, by what is in them."""
    single, many, none = (measured(kind, name=kind, counts=COUNTS) for kind in ("single", "many", "none"))
    found = {
        "single": [single],
        "many": [many],
        "none": [none],
        "no link": [measured(link=None)],
        "several": [single, measured(name="other", seed=1, counts=COUNTS)],
        "mixed": [single, many, none],
        "evil": [measured(name=EVIL[0], classes=EVIL), measured(name=EVIL[1], classes=EVIL)],
        "trained": [single],
        "known": [single],
        "everything": [single, measured(name=EVIL[1], seed=1, classes=EVIL), many],
    }
    return {name: (evaluations, render(evaluations, **EXTRAS.get(name, {}))) for name, evaluations in found.items()}


@pytest.fixture(params=["single", "many", "none", "no link", "several", "mixed", "evil", "trained", "known", "everything"])
def page(request):
    return pages()[request.param][1]


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.found, self.text = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def elements(page):
    return Elements(page).found


def words(page):
    return " ".join(" ".join(Elements(page).text).split())


def test_the_page_needs_nothing_from_anywhere(page):
    tags = {tag for tag, _ in elements(page)}
    assert tags.isdisjoint({"link", "iframe", "object", "embed", "base", "form", "image", "foreignobject"})
    for tag, attributes in elements(page):
        for name, value in attributes.items():
            if name in ("href", "src", "xlink:href", "srcset", "data", "action"):
                assert value.startswith("data:image/jpeg;base64," if tag == "img" else "#"), (tag, name, value)
            elif not name.startswith("xmlns") and name != "rdf:resource":  # names of vocabularies, which nobody fetches
                assert "http" not in (value or ""), (tag, name, value)
    assert "http" not in words(page)
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}


def test_the_only_script_is_our_own_and_a_policy_allows_no_other(page):
    own = source_of("classes.js")
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    assert [text for kind, text in scripts if not kind] == [own]
    for kind, text in scripts[:-1]:
        assert kind == ' type="application/json"'  # data, which nothing executes
        assert set("<>&").isdisjoint(text)
        json.loads(text)
    digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    policy = next(attributes["content"] for tag, attributes in elements(page) if attributes.get("http-equiv"))
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "innerHTML" not in own


def test_links_lead_to_sections_that_are_there(page):
    found = elements(page)
    anchors = {attributes["id"] for _, attributes in found if "id" in attributes}
    links = [attributes["href"] for tag, attributes in found if tag == "a"]
    assert len(links) > 2
    assert {link.removeprefix("#") for link in links} <= anchors
    sections = [attributes["id"] for tag, attributes in found if tag == "section" and "id" in attributes]
    assert len(sections) == len(set(sections))


def test_no_element_and_no_handler_comes_from_a_name():
    found = elements(pages()["evil"][1])
    assert {tag for tag, _ in found} == {tag for tag, _ in elements(pages()["several"][1])}
    assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
    text = words(pages()["evil"][1])
    assert "<script>alert(1)</script>" in text
    assert "{{ 1 + 1 }}" in text


def test_title_and_warnings_are_shown_escaped_and_once():
    page = render([measured()], title="<b>T</b>", warnings=["<i>careful</i>", "<i>careful</i>"])
    assert "<title>&lt;b&gt;T&lt;/b&gt;</title>" in page
    assert page.count("&lt;i&gt;careful&lt;/i&gt;") == 1
    assert "<b>" not in page
    assert "<i>" not in page


def test_remarks_are_no_warnings():
    page = render([measured()], warnings=["careful"], remarks=["by the way", "careful"])
    assert re.findall(r'class="warning".*?</strong> (.*?)</p>', page) == ["careful"]
    assert re.findall(r'<p class="note">(.*?)</p>', page) == ["by the way"]


def test_colours_of_pictures_are_variables_of_the_page_in_light_and_in_dark(page):
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert drawings
    for drawing in drawings:
        colours = set(re.findall(r"(?:fill|stroke): ?([^;\"]+)", drawing))
        assert all(colour == "none" or re.fullmatch(r"var\(--[\w-]+\)", colour) for colour in colours), colours
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL).group(1)
    light, dark = (set(re.findall(r"(--[\w-]+):", block)) for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL))
    assert "prefers-color-scheme: dark" in style
    assert light == dark >= set(re.findall(r"var\((--[\w-]+)\)", page))


def test_the_page_holds_the_headline_numbers(page):
    evaluations = next(found for found, text in pages().values() if text == page)
    text = words(page)
    for row in headline(evaluations).shown():
        for cell in row:
            assert " ".join(cell.split()) in text, cell
    assert "nan" not in text.lower().split()
    assert "None" not in text.split()


def test_cards_hold_coverage_macro_coverage_size_and_empty_sets_of_a_single_file():
    (evaluation,), page = pages()["single"]
    cards = re.findall(r'<div class="value">(.*?) <small>(.*?)</small></div>', page)
    size = evaluation.size
    assert cards == [
        (f"{evaluation.coverage:.1%}", f"± {1.96 * evaluation.coverage_error:.1%}"),
        (f"{evaluation.macro_coverage:.1%}", ""),
        (f"{size.mean:.2f}", f"± {1.96 * (size.variance / size.rows) ** 0.5:.2f}"),
        (f"{evaluation.empty_rate:.1%}", ""),
    ]
    assert "coverage: share of rows whose label is in their set" in page
    assert "recall: share of all labels that are in the set of their row" in pages()["many"][1]
    assert 'class="card"' not in pages()["several"][1]


def test_the_page_tells_what_the_rule_promises_and_how_errors_are_defined():
    (evaluation,), page = pages()["single"]
    text = words(page)
    assert evaluation.rule.guarantee in text
    assert all(definition.removeprefix("ECE") in text for definition in evaluation.calibration())
    assert "mAP" not in text
    assert "average precision" in words(pages()["many"][1])
    assert "ECE" not in words(pages()["no link"][1])


def test_plots_that_have_nothing_to_show_are_left_out():
    drawn = {name: re.findall(r"<h3>([^<]*)</h3><svg", text) for name, (_, text) in pages().items()}
    matrices = {name: titles.count("Confused classes") for name, titles in drawn.items()}
    assert matrices["single"] == 1
    assert matrices["several"] == 2
    assert matrices["many"] == matrices["none"] == 0
    drawn = {name: [title for title in titles if title != "Confused classes"] for name, titles in drawn.items()}
    # Where several sizes have enough rows.
    by_size = {name: titles.count("Coverage by set size") for name, titles in drawn.items()}
    assert (by_size["many"], by_size["single"], by_size["none"], by_size["no link"]) == (1, 0, 0, 0)
    drawn = {name: [title for title in titles if title != "Coverage by set size"] for name, titles in drawn.items()}
    assert drawn["single"] == ["Set sizes", "Coverage against set size", "Reliability", "Set sizes by shot group", "Long tail"]
    assert drawn["many"] == ["Set sizes", "Coverage against set size", "Reliability", "Long tail"]
    assert drawn["none"] == ["Set sizes", "Long tail"]
    assert drawn["no link"] == ["Coverage against set size", "Long tail"]  # all sets have two labels
    compared = [*drawn["single"][:3], "Reliability of all labels", *drawn["single"][3:]]
    models = ["Top-k against average-k", "Macro against micro average"]
    assert drawn["mixed"] == compared
    assert drawn["several"] == compared + models
    known, trained = ["Exactly k labels", "k labels on average"], ["Loss", "Validation log-loss", "Monitored metric"]
    assert drawn["trained"] == drawn["single"] + trained
    assert drawn["known"] == drawn["single"] + known
    assert drawn["everything"] == compared + models[:1] + known + trained


def test_the_top_n_is_drawn_if_several_classifiers_have_it():
    both = [measured("many", name=name, seed=seed, top_n=3) for seed, name in enumerate(("garden", "meadow"))]
    assert "<h3>Reliability of the top n</h3>" in render(both)
    assert "<h3>Reliability of the top n</h3>" not in render(both[0])


def test_numbers_that_are_not_in_the_headline_follow_in_groups_with_their_definitions():
    evaluations, page = pages()["mixed"]
    text = words(page)
    tables = number_groups(evaluations)
    assert [table.columns[0] for table in tables] == ["sets", "ranking", "calibration", "rows without a label"]
    assert all(list(table.columns[1:]) == [one.name for one in evaluations] for table in tables)
    tables.append(shot_table(evaluations))
    first, others = (
        set(headline(evaluations).columns),
        [title for table in tables for title in {row[0]: 0 for row in table.rows}],
    )
    assert first.isdisjoint(others)
    assert len(set(others)) == len(others)
    known = {quantity.heading(e): quantity.meaning(e) for e in evaluations for quantity, value in defined(e) if value == value}
    assert first | set(others) == known.keys() | {"predictions", "rule", "rows"}
    for title, definition in known.items():
        assert title in text
        assert definition.removeprefix("macro average over the ").rpartition("CE")[2] in text  # ECE, ACE and MCE are spelt out


def test_evaluations_with_other_bins_or_another_n_are_not_compared():
    with pytest.raises(InputError, match="evaluations: .*calibration_bins.*got 10 and 15"):
        headline([measured(), measured(bins=10)])
    with pytest.raises(InputError, match=r"evaluations: .*shots.*got \(10,\) and the default"):
        render([measured(counts=COUNTS), measured(counts=COUNTS, shots=[10])])
    with pytest.raises(InputError, match="evaluations: .*top_n.*got 2 and 4"):
        render([measured("many"), measured("many", top_n=2)])


def test_the_worst_calibrated_classes_are_those_with_the_largest_error():
    single = pages()["single"][0][0]
    table = class_calibration(single, 3)
    frame = single.class_calibration().sort_values("ece", ascending=False)
    assert [row[0] for row in table.rows] == frame.index[:3].tolist()
    assert [row[6] for row in table.rows] == pytest.approx(frame["ece"][:3].tolist())
    assert class_calibration(measured(link=None)).rows == []


def test_sections_are_there_only_where_something_is_given():
    titles = {name: re.findall(r"<h2>(.*?)</h2>", text) for name, (_, text) in pages().items()}
    assert {"Training", "Distance to the optimum"}.isdisjoint(titles["single"])
    for name, added in (
        ("trained", ["Training"]),
        ("known", ["Distance to the optimum"]),
        ("everything", ["Distance to the optimum", "Training"]),
    ):
        assert [title for title in titles[name] if title in ("Distance to the optimum", "Training")] == added


def test_the_page_holds_the_accuracies_beside_the_best_and_what_chance_does():
    (evaluation,), page = pages()["known"]
    text = words(page)
    for row in DistanceToOptimum(evaluation, OPTIMUM).table().shown():
        assert " ".join(row) in text
    assert "k top-k best gap average-k best gap" in text
    first, last = (100 * 1.96 * (best * (1 - best) / 90) ** 0.5 for best in (0.75, 0.9375))
    assert f"gaps of up to {first:.1f} points at k = 1 and {last:.1f} points at k = 3, in either direction" in text
    alone = words(render(evaluation, optimum=Optimum([1], [0.75], [0.75], 90)))
    assert f"gaps of up to {first:.1f} points at k = 1, in either" in alone


def test_the_page_holds_what_was_measured_in_the_epoch_kept():
    text = words(pages()["trained"][1])
    assert " ".join(TrainingCurves(HISTORY).table().shown()[0]) in text
    assert "top-1 3 3 (kept) 0.7500 1.0000 1.8750" in text


def test_an_optimum_of_other_rows_or_of_rows_without_a_label_each_is_refused():
    with pytest.raises(InputError, match="expected the 91 rows of the optimum, got 90"):
        render(measured(), optimum=Optimum([1], [0.75], [0.75], 91))
    with pytest.raises(InputError, match="expected one label a row .*, got several"):
        render(measured("many"), optimum=OPTIMUM)
    with pytest.raises(InputError, match="expected at least one epoch, got none"):
        render(measured(), history=[])


def test_the_same_evaluation_gives_the_same_page():
    evaluations, _ = pages()["several"]
    assert render(evaluations, date="2026-01-01") == render(evaluations, date="2026-01-01")
    assert "2026-01-01" in render(evaluations, date="2026-01-01")


def test_labels_nowhere_are_told_without_nan():
    predictions = Predictions(
        torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(20, 3).bool(), link="sigmoid"
    )
    assert "nan" not in words(render([evaluate(predictions, threshold(0.5))])).lower().split()


def test_worst_classes_are_those_present_by_increasing_coverage():
    evaluation = measured(counts=COUNTS, rows=200, rule=top_k(1))
    table = worst_classes(evaluation, n=3)
    assert table.columns == ["class", "coverage", "rows", "training examples"]
    coverage = {CLASSES[j]: float(h / n) for j, (h, n) in enumerate(evaluation.hits.t()) if n}
    assert "ash" not in coverage
    assert [row[:2] for row in table.rows] == [[name, coverage[name]] for name in sorted(coverage, key=coverage.get)[:3]]
    assert [row[2:] for row in table.rows] == [
        [int(evaluation.hits[1, CLASSES.index(name)]), COUNTS[CLASSES.index(name)]] for name, *_ in table.rows
    ]
    assert worst_classes(measured("many")).columns == ["class", "recall", "rows"]


def test_the_page_is_written_whole(tmp_path):
    path = tmp_path / "new folder" / "report.html"
    evaluations, page = pages()["single"]
    write_report(evaluations, path)
    assert path.read_text(encoding="utf-8") == page
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    write_report(pages()["everything"][0], path, **EXTRAS["everything"])
    assert path.read_text(encoding="utf-8") == pages()["everything"][1]


def test_a_failure_leaves_the_old_page_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    write = Path.write_text

    def half(self, text, **how):
        write(self, text[: len(text) // 2], **how)
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="no space"):
        write_report(pages()["single"][0], path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="it is a folder"):
        write_report(pages()["single"][0], tmp_path)
