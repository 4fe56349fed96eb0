"""Where a run says that it comes from."""

import subprocess
from pathlib import Path

import shortlist
from shortlist.training.provenance import COMMIT, commit, provenance


def test_the_commit_is_that_of_the_clone(monkeypatch):
    monkeypatch.delenv(COMMIT, raising=False)
    here = Path(shortlist.__file__).parent
    answer = subprocess.run(["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    assert commit() == (answer.stdout.strip() or None)


def test_a_copy_without_history_is_told_its_commit(monkeypatch):
    monkeypatch.setenv(COMMIT, "0123abc")
    assert commit() == "0123abc"
    assert provenance()["commit"] == "0123abc"
