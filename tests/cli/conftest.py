"""Files to work on, and the program run inside this process."""

import sys
from dataclasses import dataclass

import pytest
import torch

from shortlist import Predictions
from shortlist.cli import main

NAMES = ["ash", "beech", "elm", "fir", "oak"]


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """The program with these arguments, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["shortlist", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as exit:
            code = int(exit.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def fails(run):
    """The sentence with which the program refuses these arguments: exit code 1, nothing on standard output."""

    def call(*arguments):
        outcome = run(*arguments)
        assert outcome.code == 1
        assert outcome.out == ""
        assert outcome.err.startswith("error: ")
        assert outcome.err.count("\n") == 1
        return outcome.err.removeprefix("error: ").rstrip("\n")

    return call


def draw(rows=300, *, seed=0, sharpness=2.0, many=False, link="softmax", ids="row", counts=True, classes=NAMES):
    """Scores that are right about as often as they say."""
    generator = torch.Generator().manual_seed(seed)
    scores = sharpness * torch.randn(rows, len(NAMES), generator=generator)
    if many:
        target, link = torch.rand(scores.shape, generator=generator) < scores.sigmoid(), "sigmoid" if link else None
    else:
        target = torch.multinomial(scores.softmax(1), 1, generator=generator).squeeze(1)
    names = [f"{ids}-{seed}-{n}" for n in range(rows)] if ids else None
    return Predictions(scores, target, classes, link, names, [5, 19, 50, 101, 300] if counts else None)


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.safetensors"
    draw(seed=1).save(path)
    return path


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.safetensors"
    draw(seed=0).save(path)
    return path
