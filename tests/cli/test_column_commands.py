"""Columns of tables in commands: rules by group, and coverage by group."""

import json

import numpy as np
import pandas as pd
import pytest

from shortlist import Predictions


def rows(n=200):
    random = np.random.default_rng(0)
    columns = {"site": random.choice(["north", "south", ""], n), "year": random.choice([2019, 2020], n)}
    return Predictions(random.dirichlet(np.ones(3), n), random.integers(3, size=n), link="identity", columns=columns)


def test_the_commands_take_columns_of_tables(run, tmp_path):
    predictions = rows()
    frame = dict(zip(["p_ash", "p_elm", "p_oak"], predictions.scores.T.numpy(), strict=True))
    frame |= {"label": np.array(["ash", "elm", "oak"])[predictions.target.numpy()], **predictions.columns}
    path = tmp_path / "scores.csv"
    pd.DataFrame(frame).to_csv(path, index=False)
    keys = [str(path), "--scores-key", "p_*", "--target-key", "label", "--link", "identity", "--split", "0.5"]
    text = run("evaluate", *keys, "--rule", "lac:0.3,by:site", "--by", "year").out
    assert "2019" in text
    assert "south" in text
    [answer] = json.loads(run("evaluate", *keys, "--rule", "lac:0.3,by:site", "--json").out)
    assert [row["group"] for row in answer["by"]["site"]] == ["", "north", "south"]
    saved = tmp_path / "rule.safetensors"
    run("sets", *keys, "--rule", "lac:0.3,by:site", "--save-rule", str(saved))
    assert "south" in run("evaluate", *keys[:-2], "--rule", str(saved)).out


def sites(path, names, seed):
    """A hundred rows of each site, those of the first half of the sites easier."""
    random = np.random.default_rng(seed)
    site = np.repeat(names, 100)
    right = random.random(len(site)) < np.where(np.arange(len(site)) < len(site) / 2, 0.95, 0.6)
    p = random.uniform(0.5, 1, len(site))
    label = np.where(right, "ash", "elm")
    ids = [f"{seed}-{row}" for row in range(len(site))]
    frame = pd.DataFrame({"id": ids, "p_ash": p, "p_elm": 1 - p, "species": label, "site": site})
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)


KEYS = ("--scores-key", "p_*", "--target-key", "species", "--link", "identity")


@pytest.mark.parametrize(
    "names",
    [["007", "07"], ["12345678901234567890", "12345678901234567891"], ["1.1", "1.10"], ["1e5", "100000"], ["0x10", "16"]],
)
def test_sites_with_other_codes_are_other_groups(run, tmp_path, names):
    sites(tmp_path / "s.csv", names, 0)
    outcome = run("evaluate", "s.csv", *KEYS, "--rule", "top-k:1", "--by", "site", "--json")
    [answer] = json.loads(outcome.out)
    assert sorted((row["group"], row["rows"]) for row in answer["by"]["site"]) == sorted((name, 100) for name in names)


@pytest.mark.parametrize(
    ("fitted", "new", "new_names"),
    [
        ("csv", "csv", ["01", "02", "A7"]),  # in one of the files all codes look like numbers
        ("csv", "parquet", ["01", "02"]),
    ],
)
def test_groups_match_those_of_another_file(run, tmp_path, fitted, new, new_names):
    sites(tmp_path / f"c.{fitted}", ["01", "02"], 0)
    sites(tmp_path / f"n.{new}", new_names, 1)
    found = run("sets", f"n.{new}", "-c", f"c.{fitted}", *KEYS, "--rule", "lac:0.1,by:site", "--out", "s.csv")
    assert found.code == 0
    assert ("of no site" in found.err) == ("A7" in new_names)
    assert "'01'" not in found.err


def test_numbers_of_a_csv_file_match_those_of_a_parquet_file(run, tmp_path):
    sites(tmp_path / "c.csv", ["1", "2"], 0)
    sites(tmp_path / "n.parquet", [1, 2], 1)
    found = run("sets", "n.parquet", "-c", "c.csv", *KEYS, "--rule", "lac:0.1,by:site", "--out", "s.csv")
    assert (found.code, "of no site" in found.err) == (0, False)


VERSIONS = {"1.1": 0.9, "1.10": 0.3, "1.2": 0.6}  # the probability of the label at each site, by which their thresholds differ


def versions(path, names, *, labelled=False):
    """Rows of sites whose names look like numbers; those with labels tell them apart by their probabilities."""
    rows = [
        (name, VERSIONS[name] + step / 1000 if labelled else 0.5) for step in range(20 if labelled else 1) for name in names
    ]
    lines = [f"{path.stem}{n},{name},a,{own:.3f},{1 - own:.3f}" for n, (name, own) in enumerate(rows)]
    path.write_text("\n".join(["id,site,species,p_a,p_b", *lines]) + "\n")


def labels_in(path):
    return [json.loads(line)["labels"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("saved", [False, True])
def test_codes_of_one_file_are_no_numbers_of_another(run, tmp_path, saved):
    """Site 1.10 of a file without 1.1 was answered by the threshold of site 1.1."""
    versions(tmp_path / "c.csv", list(VERSIONS), labelled=True)
    versions(tmp_path / "both.csv", ["1.10", "1.1"])
    versions(tmp_path / "one.csv", ["1.10", "1.10"])
    versions(tmp_path / "new.csv", ["1.20", "1.30"])
    given = ["-c", "c.csv", "--rule", "lac:0.1,by:site"]
    run("sets", "both.csv", *given, *KEYS, "--out", "both.jsonl", "--save-rule", "r.safetensors")
    given = ["--rule", "r.safetensors"] if saved else given
    found = run("sets", "one.csv", *given, *KEYS, "--out", "one.jsonl")
    assert (found.code, "of no site" in found.err) == (0, False)
    several, one = labels_in(tmp_path / "both.jsonl"), labels_in(tmp_path / "one.jsonl")
    assert several == [["a", "b"], []]
    assert one == [["a", "b"], ["a", "b"]]
    found = run("sets", "new.csv", *given, *KEYS, "--out", "new.jsonl")
    assert "2 of 2 rows are of no site that was among the calibration rows: '1.20', '1.30'" in found.err
    [answer] = json.loads(run("evaluate", "one.csv", *given, *KEYS, "--by", "site", "--json").out)
    assert [(row["group"], row["rows"]) for row in answer["by"]["site"]] == [("1.10", 2)]


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("names", [["1.1"], ["1.2"], ["1.1", "1.2"], ["1.1", "1.10"]])
def test_codes_without_any_that_tells_are_read_as_those_of_the_rule(run, tmp_path, names, saved):
    """A file with 1.1 and 1.2 is numbers by itself, and was refused where 1.10 is a group too."""
    versions(tmp_path / "c.csv", list(VERSIONS), labelled=True)
    versions(tmp_path / "one.csv", names)
    given = ["-c", "c.csv", "--rule", "lac:0.1,by:site"]
    versions(tmp_path / "all.csv", list(VERSIONS))
    run("sets", "all.csv", *given, *KEYS, "--out", "all.jsonl", "--save-rule", "r.safetensors")
    own = {"1.1": [], "1.10": ["a", "b"], "1.2": []}
    given = ["--rule", "r.safetensors"] if saved else given
    found = run("sets", "one.csv", *given, *KEYS, "--out", "one.jsonl")
    assert (found.code, "of no site" in found.err) == (0, False)
    assert labels_in(tmp_path / "one.jsonl") == [own[name] for name in names]
    for command in (["evaluate", "one.csv", *given], ["report", "one.csv", *given, "--out", "r.html"]):
        assert run(*command, *KEYS).code == 0
    assert run("watch", "r.safetensors", "one.csv", "--reference", "c.csv", *KEYS).code == 0


@pytest.mark.parametrize(
    ("known", "cell"),
    [
        (["3", "north"], "3.0"),
        (["3", "north"], " 3"),
        (["3", "4"], " 3"),
        (["true", "false"], "true"),
        (["TRUE", "FALSE"], "TRUE"),
        (["12:30", "12:31"], "12:30"),
        (["2024-05-01 12:00", "2024-05-01 13:00"], "2024-05-01 12:00"),
        (["2024-05-01T12:00:00Z", "2024-05-02T12:00:00Z"], "2024-05-01T12:00:00Z"),
        (["2024-05-01", "2024-05-01 12:00"], "2024-05-01"),
    ],
)
@pytest.mark.parametrize("beside", ["", "late"])
def test_a_cell_is_of_the_same_group_whatever_is_beside_it(run, tmp_path, known, cell, beside):
    """3.0 beside a text was no 3, and true, which is a truth value where all cells are such, was of no group."""
    lines = [f"{n},{known[n % 2]},a,{0.3 if n % 2 == 0 else 0.9},{0.7 if n % 2 == 0 else 0.1}" for n in range(40)]
    (tmp_path / "c.csv").write_text("\n".join(["id,site,species,p_a,p_b", *lines]) + "\n")
    (tmp_path / "n.csv").write_text(f"id,site,species,p_a,p_b\nx,{cell},a,0.5,0.5\ny,{beside},a,0.5,0.5\n")
    found = run("sets", "n.csv", "-c", "c.csv", "--rule", "lac:0.1,by:site", *KEYS, "--out", "n.jsonl")
    assert f"{cell.strip()!r}" not in found.err
    assert "1 of 2 rows are of no site" in found.err
    if cell == cell.strip():
        frame = pd.read_csv(tmp_path / "n.csv", dtype={"site": str})
        frame.to_parquet(tmp_path / "n.parquet")
        found = run("sets", "n.parquet", "-c", "c.csv", "--rule", "lac:0.1,by:site", *KEYS, "--out", "n.jsonl")
        assert "1 of 2 rows are of no site" in found.err


def test_a_watch_reads_codes_as_its_rule_does(run, tmp_path):
    versions(tmp_path / "c.csv", list(VERSIONS), labelled=True)
    versions(tmp_path / "one.csv", ["1.10"])
    versions(tmp_path / "new.csv", ["1.20"])
    run("sets", "one.csv", "-c", "c.csv", "--rule", "lac:0.1,by:site", *KEYS, "--save-rule", "r.safetensors")
    given = [*KEYS, "--reference", "c.csv"]
    assert "of no site" not in run("watch", "r.safetensors", "one.csv", *given).err
    assert "of no site that was among the calibration rows: '1.20'" in run("watch", "r.safetensors", "new.csv", *given).err


def test_numbers_match_the_texts_that_spell_them_as_programs_do(run, tmp_path):
    """And 1.10 beside 1.1 is then a group that the rule does not know."""
    versions(tmp_path / "c.csv", ["1.1", "1.2"], labelled=True)
    versions(tmp_path / "n.csv", ["1.1", "1.10", "1.2"])
    found = run("sets", "n.csv", "-c", "c.csv", "--rule", "lac:0.1,by:site", *KEYS, "--out", "n.jsonl")
    assert "1 of 3 rows are of no site that was among the calibration rows: '1.10'" in found.err


def test_rows_are_split_with_the_groups_of_a_saved_rule(run, tmp_path):
    versions(tmp_path / "c.csv", list(VERSIONS), labelled=True)
    versions(tmp_path / "n.csv", ["1.10"], labelled=True)
    run("sets", "n.csv", "-c", "c.csv", "--rule", "lac:0.1,by:site", *KEYS, "--save-rule", "r.safetensors")
    rules = ["--rule", "r.safetensors", "--rule", "lac:0.1"]
    answers = json.loads(run("evaluate", "n.csv", *rules, *KEYS, "--split", "0.5", "--by", "site", "--json").out)
    assert [[(row["group"], row["rows"]) for row in one["by"]["site"]] for one in answers] == [[("1.10", 10)], [("1.1", 10)]]


def test_weights_that_are_written_in_several_ways_are_numbers(run, tmp_path):
    sites(tmp_path / "n.csv", ["1", "2"], 1)
    sites(tmp_path / "c.csv", ["1", "2"], 0)
    frame = pd.read_csv(tmp_path / "c.csv", dtype=str).assign(weight=["0.5", "0.50", "1", "1e0"] * 50)
    frame.to_csv(tmp_path / "c.csv", index=False)
    outcome = run("sets", "n.csv", "-c", "c.csv", *KEYS, "--rule", "lac:0.1", "--weights-key", "weight", "--out", "s.csv")
    assert outcome.code == 0, outcome.err
