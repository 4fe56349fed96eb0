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


def test_weights_that_are_written_in_several_ways_are_numbers(run, tmp_path):
    sites(tmp_path / "n.csv", ["1", "2"], 1)
    sites(tmp_path / "c.csv", ["1", "2"], 0)
    frame = pd.read_csv(tmp_path / "c.csv", dtype=str).assign(weight=["0.5", "0.50", "1", "1e0"] * 50)
    frame.to_csv(tmp_path / "c.csv", index=False)
    outcome = run("sets", "n.csv", "-c", "c.csv", *KEYS, "--rule", "lac:0.1", "--weights-key", "weight", "--out", "s.csv")
    assert outcome.code == 0, outcome.err
