"""Columns of tables in commands: rules by group, and coverage by group."""

import json

import numpy as np
import pandas as pd

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
