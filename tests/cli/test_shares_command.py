"""``shortlist shares``: a table, machine-readable forms, and the new rows re-weighted."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.shift import class_shares
from tests.cli.conftest import NAMES


@pytest.fixture
def tilted(new, tmp_path):
    """New rows, most of them of the first class."""
    rows = Predictions.load(new)
    keep = (rows.target == 0) | (torch.arange(len(rows)) % 5 == 0)
    path = tmp_path / "tilted.safetensors"
    rows.rows(keep).save(path)
    return path


def test_the_shares_are_those_of_the_library(run, old, tilted):
    outcome = run("shares", tilted, "--calibration", old, "--json")
    assert outcome.code == 0
    found = json.loads(outcome.out)
    expected = class_shares(Predictions.load(tilted), Predictions.load(old))
    assert [row["class"] for row in found] == NAMES
    np.testing.assert_allclose([row["new"] for row in found], expected.shares)
    np.testing.assert_allclose([row["high"] for row in found], expected.high)
    assert found[0]["low"] > found[0]["old"]
    assert "the 300 calibration rows count like " in outcome.err


def test_classes_of_new_rows_without_calibration_rows_are_warned_of(run, old, new, tmp_path):
    rows = Predictions.load(old)
    rows.rows(rows.target != 0).save(tmp_path / "without.safetensors")
    outcome = run("shares", new, "-c", "without.safetensors")
    share = class_shares(Predictions.load(new), rows.rows(rows.target != 0)).shares[0]
    assert f"{share:.0%} of the new rows are of classes without a calibration row ('{NAMES[0]}')" in outcome.err
    assert "without a calibration row" not in run("shares", new, "-c", old).err


def test_json_has_no_nan(run, old, tilted, monkeypatch):
    """A share that could not be told is null."""
    found = class_shares(Predictions.load(tilted), Predictions.load(old), resamples=2)
    broken = replace(found, low=found.low * np.nan, high=found.high * np.nan)
    monkeypatch.setattr("shortlist.cli.sharing.class_shares", lambda *rows, **settings: broken)
    rows = json.loads(run("shares", tilted, "-c", old, "--json").out, parse_constant=pytest.fail)
    assert {(row["low"], row["high"]) for row in rows} == {(None, None)}


def test_a_table_and_rows_for_the_new_shares(run, old, tilted, tmp_path):
    outcome = run("shares", tilted, "-c", old, "--method", "black-box", "--out", "new shares.safetensors")
    assert outcome.out.splitlines()[0].split() == ["class", "old", "new", "low", "high", "weight"]
    written = Predictions.load(tmp_path / "new shares.safetensors")
    shares = class_shares(Predictions.load(tilted), Predictions.load(old), method="black-box")
    np.testing.assert_allclose(written.probs(), shares.reweight(Predictions.load(tilted)).probs())
    assert run("shares", tilted, "-c", old, "--csv").out.startswith("class,old,new,low,high,weight\nash,")


def test_what_does_not_fit_is_refused(fails, old, tilted, tmp_path):
    assert "method: " in fails("shares", tilted, "-c", old, "--method", "guess")
    assert "--json or --csv" in fails("shares", tilted, "-c", old, "--csv", "--json")
    rows = Predictions.load(old)
    Predictions(rows.scores, None, NAMES, "softmax").save(tmp_path / "unlabelled.safetensors")
    assert "target: expected labels" in fails("shares", tilted, "-c", "unlabelled.safetensors", "--method", "soft")
