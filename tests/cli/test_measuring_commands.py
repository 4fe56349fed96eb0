"""``shortlist evaluate``, ``report``, ``calibrate`` and ``demo``: numbers that agree wherever they are read."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from shortlist import Predictions
from shortlist.links import choose_link
from shortlist.links.choice import CALIBRATIONS
from shortlist.metrics import calibration_error, shot_coverage, top_n_f1
from shortlist.report import evaluate
from shortlist.sets import CoverageLaw, average_k, lac, top_k
from tests.cli.conftest import draw


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def strict_json(text):
    return json.loads(text, parse_constant=no_constant)


def test_evaluate_shows_the_numbers_of_the_library(run, old, new):
    outcome = run("evaluate", new, "--rule", "lac:0.1", "--calibration", old)
    calibration = Predictions.load(old)
    numbers = evaluate(Predictions.load(new), lac(0.1).fit(calibration), name="new").numbers()
    lines = [line.rstrip() for line in outcome.out.splitlines()]
    shown = dict(line.rsplit(maxsplit=1) for line in lines if "  " in line)
    assert outcome.code == 0
    assert (
        next(n for n, line in enumerate(lines) if line.startswith("coverage "))
        < lines.index("sets")
        < lines.index("calibration")
    )
    assert lines[lines.index("calibration") - 1] == ""
    assert shown["calibration p"] == f"{numbers['calibration_p']:.3f}"
    assert shown["predictions"] == "new"
    assert shown["rule"] == "lac:0.1"
    assert shown["coverage"] == f"{numbers['coverage']:.1%}"
    assert shown["mean size"] == f"{numbers['size']:.2f}"
    few = next(line.split() for line in lines if line.startswith("few-shot"))
    assert few[4] == f"{numbers['few']:.1%}"


def test_bins_and_top_n_are_those_that_were_asked_for(run, old, new, fails):
    asked = ("--calibration-bins", "10", "--top-n", "3")
    (numbers,) = strict_json(run("evaluate", new, "--rule", "top-k:2", *asked, "--json").out)
    predictions = Predictions.load(new)
    probs, target = predictions.probs(), predictions.target
    for name, norm in (("calibration", "expected"), ("ace", "average"), ("mce", "max")):
        for key, over in (("top", "top"), ("all", "all"), ("top_n", 3)):
            expected = float(calibration_error(probs, target, norm=norm, bins=10, over=over))
            assert numbers[f"{name}_{key}"] == pytest.approx(expected, rel=1e-6), (name, key)
    assert numbers["f1_top_n"] == pytest.approx(float(top_n_f1(probs, target, n=3)))
    assert "ECE, 10 bins of equal width, over the 3 most confident labels of a row" in numbers["calibration_error"]
    page = Path("page.html")
    assert run("report", new, "--rule", "top-k:2", *asked, "--out", page).code == 0
    assert "10 bins of equal width, over the 3 most confident labels of a row" in page.read_text()
    for command in ("evaluate", "report"):
        assert fails(command, new, "-r", "top-k:2", "--top-n", "0") == "--top-n: expected a whole number from 1, got 0"
        assert "--calibration-bins: expected a whole number from 1 to 1000, got 1001" in fails(
            command, new, "-r", "top-k:2", "--calibration-bins", "1001"
        )


def test_the_calibration_of_each_class_is_written_to_a_file(run, old, new, fails):
    assert run("evaluate", new, old, "--rule", "top-k:2", "--per-class", "classes.csv").code == 0
    rows = list(csv.DictReader(io.StringIO(Path("classes.csv").read_text())))
    predictions = Predictions.load(new)
    frame = evaluate(predictions, top_k(2)).class_calibration()
    assert [row["predictions"] for row in rows] == ["new"] * len(frame) + ["old"] * len(frame)
    assert [row["class"] for row in rows[: len(frame)]] == frame.index.tolist()
    assert [float(row["ece"]) for row in rows[: len(frame)]] == pytest.approx(frame["ece"].tolist())
    assert [int(row["labels"]) for row in rows[: len(frame)]] == predictions.target.bincount(minlength=len(frame)).tolist()
    assert "--per-class: expected a name that ends in .csv, got x.txt" in fails(
        "evaluate", new, "-r", "top-k:2", "--per-class", "x.txt"
    )
    found = evaluate(predictions, top_k(2)).by_class()
    assert [float(row["coverage"]) for row in rows[: len(found)]] == pytest.approx(found["coverage"].tolist())
    assert [float(row["size"]) for row in rows[: len(found)]] == [2.0] * len(found)
    assert run("evaluate", new, "-r", "top-k:2", "--link", "none", "--per-class", "x.csv").code == 0
    assert "coverage_low" in Path("x.csv").read_text()
    Predictions(torch.zeros(3, 5), link="softmax").save("bare.npz")
    assert "--per-class: expected labels" in fails("evaluate", "bare.npz", "-r", "top-k:2", "--per-class", "x.csv")


def test_classes_with_a_carriage_return_are_one_cell_of_the_file(run, tmp_path):
    Predictions(torch.eye(2), [0, 1], ["o\rak", "elm"], "identity").save(tmp_path / "rows.npz")
    assert run("evaluate", "rows.npz", "--rule", "top-k:1", "--per-class", "classes.csv").code == 0
    rows = csv.DictReader(io.StringIO(Path("classes.csv").read_bytes().decode(), newline=""))
    assert [row["class"] for row in rows] == ["o\rak", "elm"]


def test_evaluate_says_what_the_calibration_rows_can_promise(run, old, new):
    outcome = run("evaluate", new, "--rule", "lac:0.1", "--calibration", old)
    law = CoverageLaw(len(Predictions.load(old)), 0.1)
    assert f"lac:0.1: {law.sentence()}" in outcome.err
    (numbers,) = strict_json(run("evaluate", new, "--rule", "lac:0.1", "--calibration", old, "--json").out)
    assert numbers["promise"] == law.record()
    (numbers,) = strict_json(run("evaluate", new, "--rule", "top-k:1", "--json").out)
    assert numbers["promise"] is None
    (numbers,) = strict_json(run("evaluate", new, "--rule", "lac:0.1,classwise", "--calibration", old, "--json").out)
    assert numbers["promise"] == {"needed": 9, "too_small": 0}


def test_evaluate_json_is_valid_without_nan_and_says_what_every_number_is(run, old, new, tmp_path):
    path = tmp_path / "unlabelled.safetensors"
    Predictions(torch.zeros(3, 5), link="softmax", train_counts=[1] * 5).save(path)
    outcome = run("evaluate", new, path, "--rule", "top-k:2", "--json")
    labelled, bare = strict_json(outcome.out)
    assert outcome.code == 0
    numbers = evaluate(Predictions.load(new), average_k(5).fit(torch.rand(2, 5)), name="new").numbers()
    assert numbers.keys() <= labelled.keys()
    assert labelled["guarantee"].startswith("Every set holds exactly 2 labels")
    assert [re.split(", ", name)[0] for name in labelled["calibration_error"]] == ["ECE", "ECE"]
    assert labelled["warnings"] == []
    assert "coverage" not in bare
    assert "no labels" in bare["warnings"][0]
    assert "no labels" in outcome.err


def test_absent_groups_are_null_in_json_and_blank_in_csv(run, tmp_path):
    path = tmp_path / "few.safetensors"
    predictions = draw(50)
    Predictions(predictions.scores, predictions.target, link="softmax", train_counts=[1] * 5).save(path)
    (numbers,) = strict_json(run("evaluate", path, "--rule", "top-k:1", "--json").out)
    (row,) = csv.DictReader(io.StringIO(run("evaluate", path, "--rule", "top-k:1", "--csv").out))
    assert numbers["many"] is None
    assert row["many"] == ""
    assert float(row["few"]) == numbers["few"] > 0


def test_csv_has_the_numbers_of_json_in_full_for_several_files(run, old, new):
    arguments = ("evaluate", new, old, "--rule", "average-k:2,cap:3", "--split", "0.5")
    rows = list(csv.DictReader(io.StringIO(run(*arguments, "--csv").out)))
    records = strict_json(run(*arguments, "--json").out)
    assert [row["name"] for row in rows] == ["new", "old"]
    for row, record in zip(rows, records, strict=True):
        assert row["rule"] == record["rule"] == "average-k:2,cap:3"
        shots = {f"shots_{one['group']}_{name}": value for one in record["shots"] for name, value in one.items()}
        assert len(shots) == 3 * 7
        assert all(float(row[name]) == (shots | record)[name] for name in row if name not in ("name", "rule") and row[name])


def test_shot_groups_have_the_edges_that_were_asked_for(run, new, tmp_path, fails):
    asked = ("evaluate", new, "--rule", "top-k:2", "--shots", "10, 50,500")
    (numbers,) = strict_json(run(*asked, "--json").out)
    predictions = Predictions.load(new)
    found = evaluate(predictions, top_k(2), shots=(10, 50, 500))
    assert numbers["shots"] == json.loads(json.dumps([group.record() for group in found.shot_groups()]).replace("NaN", "null"))
    coverages = shot_coverage(top_k(2)(predictions.probs()), predictions.target, predictions.train_counts, edges=(10, 50, 500))
    assert [one["group"] for one in numbers["shots"]] == list(coverages) == ["0-10", "11-50", "51-500", "501+"]
    assert "few" not in numbers
    (row,) = csv.DictReader(io.StringIO(run(*asked, "--csv").out))
    for one in numbers["shots"]:
        for name in ("classes", "rows", "macro_coverage", "macro_top1", "size"):
            cell = row[f"shots_{one['group']}_{name}"]
            assert cell == "" if one[name] is None else float(cell) == one[name]
    lines = run(*asked).out.splitlines()
    shown = [line.split()[0] for line in lines[next(n for n, line in enumerate(lines) if line.startswith("long tail")) + 1 :]]
    assert shown == list(coverages)
    page = Path("page.html")
    assert run("report", new, "--rule", "top-k:2", "--shots", "10,50,500", "--out", page).code == 0
    assert ">51-500<" in page.read_text()
    Predictions(torch.zeros(3, 5), [0, 1, 2], link="softmax").save(tmp_path / "bare.npz")
    for command in ("evaluate", "report"):
        for wrong in ("10,x", "", "10,,50", "-5", "1.5"):
            message = f"--shots: expected whole numbers separated by commas, such as 10,50,500,2000, got '{wrong}'"
            assert message in fails(command, new, "-r", "top-k:2", "--shots", wrong)
        assert "--shots: expected increasing whole numbers, got [50, 10]" in fails(
            command, new, "-r", "top-k:2", "--shots", "50,10"
        )
        assert "--shots: bare does not hold" in fails(command, "bare.npz", "-r", "top-k:2", "--shots", "10")


def test_files_of_different_rows_are_told_apart(run, tmp_path):
    one = draw(100)
    one.save(tmp_path / "one.npz")
    backwards = one.rows(torch.arange(99, -1, -1))
    backwards.save(tmp_path / "same.npz")
    draw(90).save(tmp_path / "fewer.npz")
    draw(100, seed=1).save(tmp_path / "other.npz")
    relabelled = Predictions(one.scores, (one.target + (torch.arange(100) < 3)) % 5, one.classes, "softmax", one.ids)
    relabelled.save(tmp_path / "relabelled.npz")
    notes = {
        "same": "",
        "fewer": "(90 and 100)",
        "other": "(0 of 100 are in both)",
        "relabelled": "(3 of 100 have other labels)",
    }
    for name, note in notes.items():
        outcome = run("evaluate", "one.npz", f"{name}.npz", "--rule", "top-k:2", "--rule", "top-k:3")
        assert outcome.code == 0
        assert outcome.err.count("have different rows") == bool(note)
        assert note in outcome.err


def test_the_same_rows_in_another_order_are_the_same_whatever_their_ids_look_like(run, tmp_path):
    one = draw(100)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0))
    for name in ("photo {}", "10034{:03d}"):
        ids = [name.format(row) for row in range(100)]
        Predictions(one.scores, one.target, one.classes, "softmax", ids).save(tmp_path / "one.npz")
        turned = Predictions(one.scores[order], one.target[order], one.classes, "softmax", [ids[row] for row in order])
        turned.save(tmp_path / "turned.npz")
        assert "different rows" not in run("evaluate", "one.npz", "turned.npz", "--rule", "top-k:2").err


def test_several_files_take_their_calibration_files_in_order(run, fails, old, new):
    arguments = ("evaluate", new, old, "--rule", "lac:0.1", "--json")
    both = strict_json(run(*arguments, "--calibration", old, "--calibration", new).out)
    alone = strict_json(run("evaluate", new, "--rule", "lac:0.1", "--calibration", old, "--json").out)
    assert both[0] == alone[0]
    assert both[0]["size"] != both[1]["size"]
    assert "2 files of scores, got 1" in fails(*arguments, "--calibration", old)


def test_files_of_one_name_are_told_apart_by_their_folders(run, tmp_path):
    for folder in "ab":
        draw(20).save(tmp_path / folder / "test.safetensors")
    names = [
        row["name"]
        for row in strict_json(run("evaluate", "a/test.safetensors", "b/test.safetensors", "-r", "top-k:1", "--json").out)
    ]
    assert names == ["a/test.safetensors", "b/test.safetensors"]


def test_json_and_csv_together_are_refused(fails, new):
    assert fails("evaluate", new, "--rule", "top-k:1", "--json", "--csv") == "expected --json or --csv, got both"


@pytest.mark.parametrize("files", [1, 2])
def test_report_is_written_with_the_numbers_of_evaluate(run, old, new, tmp_path, files):
    arguments = [*[new, old][:files], "--rule", "average-k:2", "--split", "0.5"]
    outcome = run("report", *arguments, "--out", tmp_path / "out" / "page.html", "--title", "Trees & co")
    assert (outcome.code, outcome.out) == (0, "")
    page = (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
    assert "<title>Trees &amp; co</title>" in page
    for numbers in strict_json(run("evaluate", *arguments, "--json").out):
        assert f">{numbers['coverage']:.1%} ± {1.96 * numbers['coverage_se']:.1%}<" in page
        assert f">{numbers['size']:.2f} ± " in page


def test_report_goes_to_the_folder_one_is_in_unless_told_otherwise(run, new, tmp_path):
    assert run("report", new, "--rule", "top-k:1").code == 0
    assert (tmp_path / "report.html").is_file()


def test_warnings_are_in_the_report_too(run, new, tmp_path):
    run("report", new, "--rule", "lac:0.1", "--same-rows")
    assert "fitted and measured on the same rows" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("method", "link"), CALIBRATIONS.items())
def test_calibrate_writes_the_same_scores_with_a_link_fitted_on_the_other_file(method, link, run, old, new, tmp_path):
    blunt, sharp = tmp_path / "blunt.safetensors", tmp_path / "sharp.npz"
    for source, path in ((old, blunt), (new, tmp_path / "test.safetensors")):
        part = Predictions.load(source)
        Predictions(3 * part.scores, part.target, part.classes, "softmax", part.ids).save(path)
    outcome = run("calibrate", tmp_path / "test.safetensors", "--on", blunt, "--method", method, "--out", sharp)
    assert outcome.code == 0
    before, after, fitted_on = (Predictions.load(path) for path in (tmp_path / "test.safetensors", sharp, blunt))
    assert torch.equal(after.scores, before.scores)
    assert torch.equal(after.target, before.target)
    assert after.ids == before.ids
    expected = link(fitted_on.link).fit(fitted_on.scores, fitted_on.target)
    torch.testing.assert_close(after.probs(), expected.probs(before.scores))
    for over, line in zip(("top", "all"), outcome.out.splitlines()[1:], strict=True):
        errors = [float(calibration_error(part.probs(), part.target, over=over)) for part in (before, after)]
        assert line.split()[-2:] == [f"{error:.2%}" for error in errors]
        assert errors[1] < errors[0]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("command", ["calibrate", "shares"])
def test_other_columns_of_a_foreign_table_are_kept_if_asked_for_and_named_if_not(command, suffix, run, fails, old, tmp_path):
    rows = Predictions.load(old)
    table = pd.DataFrame(rows.probs().numpy(), columns=[f"p_{name}" for name in rows.classes])
    table = table.assign(
        id=rows.ids, species=[rows.classes[label] for label in rows.target], site="north", hour=range(len(rows))
    )
    path = tmp_path / f"theirs{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path, index=False)
    how = ["--scores-key", "p_*", "--target-key", "species", "--link", "identity"]
    how += ["--on", path, "--same-rows", "--overwrite"] if command == "calibrate" else ["--calibration", path]
    for kept, said in (
        ([], "2 columns are not kept ('site', 'hour'): pass --keep"),
        (["site"], "1 column is not kept ('hour')"),
        (["site", "hour"], ""),
    ):
        outcome = run(command, path, *how, *(part for name in kept for part in ("--keep", name)), "--out", "kept.npz")
        assert outcome.code == 0
        assert said in outcome.err
        assert ("not kept" in outcome.err) == bool(said)
        found = Predictions.load(tmp_path / "kept.npz")
        assert found.ids == rows.ids
        assert sorted(found.columns) == sorted(kept)
        assert found.columns.get("hour", np.arange(len(rows))).tolist() == list(range(len(rows)))
    assert "columns: expected 'place'" in fails(command, path, *how, "--keep", "place", "--out", "kept.npz")


def test_columns_are_kept_only_where_rows_are_written(fails, old, new, tmp_path):
    assert "--keep applies only to the rows written with --out" in fails("shares", new, "-c", old, "--keep", "site")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert "--keep applies only to score files" in fails("calibrate", "model", "--keep", "site", "--out", "x")


@pytest.mark.parametrize("asked", [("--method", "auto"), ("--link", "auto")])
def test_calibrate_chooses_a_link_and_shows_what_it_tried(asked, run, old, new, tmp_path):
    out = tmp_path / "chosen.safetensors"
    outcome = run("calibrate", new, "--on", old, "--out", out, *asked)
    assert outcome.code == 0
    labelled = Predictions.load(old)
    expected = choose_link(labelled.scores, labelled.target, labelled.link)
    lines = [line.split() for line in outcome.out.splitlines()[1 : 1 + len(expected.candidates)]]
    assert {line[0] for line in lines} == {one.name for one in expected.candidates}
    assert [line[0] for line in lines if line[-1] == "chosen"] == [expected.chosen]
    part = Predictions.load(out)
    torch.testing.assert_close(part.probs(), expected.link.probs(part.scores))


def test_calibrate_refuses_unlabelled_rows_other_classes_and_unknown_methods(fails, old, new, tmp_path):
    bare, fewer, renamed = (tmp_path / f"{name}.safetensors" for name in ("bare", "fewer", "renamed"))
    Predictions(torch.zeros(3, 5), link="softmax").save(bare)
    Predictions(torch.zeros(3, 4), [0, 1, 2], link="softmax").save(fewer)
    draw(classes=["oak", "fir", "elm", "beech", "ash"]).save(renamed)
    out = tmp_path / "out.npz"
    assert "without labels" in fails("calibrate", new, "--on", bare, "--out", out)
    assert "has 4 classes" in fails("calibrate", new, "--on", fewer, "--out", out)
    refused = fails("calibrate", new, "--on", old, "--out", out, "-m", "plat")
    assert f"{', '.join(CALIBRATIONS)}, auto, got 'plat'" in refused
    assert "name their classes differently" in fails("calibrate", new, "--on", renamed, "--out", out, "-m", "platt")
    assert not out.exists()


def test_demo_writes_a_report_whose_numbers_its_files_give_again(run, tmp_path):
    outcome = run("demo", "--scores", "--out", tmp_path / "demo")
    assert outcome.code == 0
    files = {path.name for path in (tmp_path / "demo").iterdir()}
    assert files == {"calibration.safetensors", "test.safetensors", "sets.jsonl", "report.html"}
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    columns = dict(
        zip(
            outcome.out.split("\n")[0].split()[1:],
            zip(*(line.split()[-3:] for line in outcome.out.splitlines()[1:]), strict=True),
            strict=True,
        )
    )
    titles = [re.split(r"\s{2,}", line)[0] for line in outcome.out.splitlines()[1:]]
    for rule, values in columns.items():
        fitting = () if rule.startswith("top-k") else ("--calibration", "demo/calibration.safetensors")
        (numbers,) = strict_json(run("evaluate", "demo/test.safetensors", "--rule", rule, *fitting, "--json").out)
        shown = dict(zip(titles, values, strict=True))
        assert shown["coverage"] == f"{numbers['coverage']:.1%}"
        assert shown["mean size"] == f"{numbers['size']:.2f}"
        assert all(f">{shown[name]} ± " in page for name in ("coverage", "mean size", "top-1"))
        assert f">{shown['macro coverage']}<" in page
    lists = (tmp_path / "demo" / "sets.jsonl").read_text(encoding="utf-8")
    arguments = ("--rule", "average-k:2", "--calibration", "demo/calibration.safetensors", "--json")
    assert run("sets", "demo/test.safetensors", *arguments).out == lists


def test_people_stand_among_the_classifiers_of_a_report(run, fails, old, new, tmp_path):
    rows = Predictions.load(new)
    names, sets = rows.class_names, tmp_path / "experts.csv"
    answers = [f"{row},{names[int(label)]}|{names[0]}" for row, label in zip(rows.ids[:20], rows.target[:20], strict=True)]
    sets.write_text("\n".join(["id,labels", *answers, f"{rows.ids[20]},"]))
    out = tmp_path / "report.html"
    outcome = run("report", new, "--rule", "lac:0.1", "--calibration", old, "--human", sets, "--out", out)
    assert outcome.code == 0
    assert "measured on the 21 of 300 rows that people answered" in outcome.err
    assert "experts" in out.read_text()
    numbers = evaluate(rows.rows(slice(0, 21)), lac(0.1).fit(Predictions.load(old))).numbers()
    assert f"{numbers['coverage']:.1%}" in out.read_text()
    sets.write_text("id,labels\nnobody,ash\n")
    refusal = fails("report", new, "--rule", "lac:0.1", "--calibration", old, "--human", sets, "--out", out)
    assert re.match("id: .*got 'nobody'", refusal)
    assert "--split" not in refusal
    sets.write_text("\n".join(["id,labels", *(f"{row},{names[0]}" for row in rows.ids)]))
    refusal = fails("report", new, "--rule", "lac:0.1", "--split", 0.5, "--human", sets, "--out", out)
    assert re.match("id: .*got .*--split takes rows away.*--calibration", refusal)


def test_a_report_of_several_classifiers_sets_one_number_against_another(run, old, new, tmp_path):
    out = tmp_path / "report.html"
    run("report", new, old, "--rule", "top-k:2", "--out", out)
    page = out.read_text()
    assert "Models compared" in page
    assert "top-2 accuracy" in page
    run("report", new, "--rule", "top-k:2", "--rule", "top-k:1", "--out", out)
    assert "Models compared" not in out.read_text()
