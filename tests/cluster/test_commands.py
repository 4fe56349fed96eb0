"""Commands with ``--engine ray`` write what they write without it."""

import pytest

from tests.cli.conftest import draw, fails, run

__all__ = ["fails", "run"]


@pytest.fixture
def files(tmp_path):
    for name, seed in (("old", 0), ("new", 1)):
        draw(rows=400, seed=seed, ids=name).save(tmp_path / f"{name}.safetensors")
    return tmp_path / "old.safetensors", tmp_path / "new.safetensors"


@pytest.mark.ray
def test_sets_evaluate_and_report_write_the_same(run, files, tmp_path, ray):
    old, new = files
    for command, *given in (
        ("evaluate", new, "-r", "lac:0.1", "-r", "average-k:2", "-c", old, "--json"),
        ("evaluate", new, "-r", "aps:0.1,cap:3", "--split", 0.4, "--per-class", "classes.csv", "--csv"),
        ("sets", new, "-r", "lac:0.1", "-c", old, "--out", "sets.jsonl", "--save-rule", "rule.safetensors"),
        ("report", new, "-r", "lac:0.1", "-c", old, "--out", "page.html"),
    ):
        found = []
        for engine in ((), ("--engine", "ray", "--workers", 2)):
            outcome = run(command, *given, *engine)
            assert outcome.code == 0, outcome.err
            names = ("classes.csv", "sets.jsonl", "rule.safetensors", "page.html")
            found.append((outcome, {name: (tmp_path / name).read_bytes() for name in names if (tmp_path / name).exists()}))
        assert found[0] == found[1], command


def test_options_of_a_cluster_are_checked(fails, files):
    _, new = files
    message = fails("evaluate", new, "-r", "top-k:1", "--engine", "rai")
    assert message.startswith("--engine: expected local or ray, got 'rai'")
    assert fails("evaluate", new, "-r", "top-k:1", "--workers", 2) == "--workers applies only to --engine ray"
    assert fails("sets", new, "-r", "top-k:1", "--address", "a:1") == "--address applies only to --engine ray"
    with_ray = ("sets", new, "-r", "top-k:1", "--engine", "ray")
    assert fails(*with_ray, "--workers", 0).startswith("--workers: expected a whole number from 1")
    assert fails(*with_ray, "--address", "here").startswith("--address: expected HOST:PORT")
