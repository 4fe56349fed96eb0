"""Commands with ``--engine ray`` write what they write without it."""

import json
import re
import shlex
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from shortlist import Predictions, cluster
from shortlist.cluster import Pool
from shortlist.links import Temperature
from shortlist.retrieval import Index
from tests.cli.conftest import NAMES, draw, fails, run
from tests.cluster.stand_in import StandIn
from tests.models.classifiers import fitted, image, labels, of_features, of_pictures, rows

__all__ = ["fails", "run"]


@pytest.fixture
def files(tmp_path):
    for name, seed in (("old", 0), ("new", 1)):
        draw(rows=400, seed=seed, ids=name).save(tmp_path / f"{name}.safetensors")
    return tmp_path / "old.safetensors", tmp_path / "new.safetensors"


@pytest.fixture(params=["stand-in", pytest.param("ray", marks=pytest.mark.ray)])
def pooled(request, monkeypatch):
    """Commands get their workers here: those of a stand-in, of which many die, or those that the tests of Ray share."""
    found = Pool(StandIn(deaths=0.1)) if request.param == "stand-in" else request.getfixturevalue("workers")
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: nullcontext(found))


def both_ways(run, command, written):
    """What the command prints and writes, without workers and with them; each is asked to write to another name."""
    found = []
    for engine in ((), ("--engine", "ray")):
        outcome = run(*command, "--out", f"{len(engine)}{written}", *engine)
        assert outcome.code == 0, outcome.err
        found.append((outcome, f"{len(engine)}{written}"))
    return found


@pytest.mark.parametrize("many", [False, True])
def test_calibrate_fits_the_same_temperature(run, files, tmp_path, many, pooled):
    for name, seed in (("old", 0), ("new", 1)):
        draw(rows=900, seed=seed, ids=name, many=many).save(tmp_path / f"{name}.safetensors")
    (_, alone), (_, shared) = both_ways(run, ("calibrate", files[1], "--on", files[0]), ".safetensors")
    assert (tmp_path / alone).read_bytes() == (tmp_path / shared).read_bytes()
    assert isinstance(Predictions.load(tmp_path / shared).link, Temperature)


def test_calibrate_says_which_link_is_not_shared(run, files, tmp_path, pooled):
    (before, alone), (after, shared) = both_ways(run, ("calibrate", files[1], "--on", files[0], "-m", "platt"), ".safetensors")
    assert (tmp_path / alone).read_bytes() == (tmp_path / shared).read_bytes()
    assert "platt is fitted in this process" in after.err
    assert "in this process" not in before.err


def test_calibrate_fits_the_rule_of_a_classifier_too(run, tmp_path, pooled):
    model = fitted(of_features())
    model.save(tmp_path / "model")
    model.predictions(rows(300), labels(300)).save(tmp_path / "scores.safetensors")
    command = ("calibrate", "model", "--on", "scores.safetensors", "-m", "temperature", "-r", "lac:0.2")
    (_, alone), (_, shared) = both_ways(run, command, "classifier")
    assert content(tmp_path / alone) == content(tmp_path / shared)


def test_retrieval_eval_counts_the_same(run, tmp_path, pooled):
    draw(rows=60, many=True).save(tmp_path / "many.safetensors")
    for given in (("--longest", 3), ("--longest", 4, "--most", 50, "--sample", 40)):
        found = [run("retrieval-eval", "many.safetensors", *given, "--json", *engine) for engine in ((), ("--engine", "ray"))]
        assert found[0].code == 0, found[0].err
        assert found[0] == found[1]
        assert json.loads(found[0].out)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_index_build_answers_the_same_with_columns_and_thumbnails(run, tmp_path, monkeypatch, pooled):
    monkeypatch.setattr("shortlist.retrieval.building.group_rows", lambda labels: 16)
    scores = draw(rows=150, many=True)
    scores.save(tmp_path / "many.safetensors")
    (tmp_path / "leaves").mkdir()
    for number, name in enumerate(scores.ids):
        (tmp_path / "leaves" / name).write_bytes(b"no picture")
        if number % 50:
            image(9, 9, seed=number).save(tmp_path / "leaves" / name, "png")
    places = "\n".join(f"{name},{number % 7}" for number, name in enumerate(scores.ids))
    (tmp_path / "columns.csv").write_text(f"id,place\n{places}\n")
    found = []
    for name, *engine in (("one",), ("several", "--engine", "ray")):
        more = ("--columns", "columns.csv", "--pictures", "leaves", "--thumbnails", 8)
        outcome = run("index", "build", "many.safetensors", name, *more, *engine)
        assert outcome.code == 0, outcome.err
        found.append((outcome.err.replace(name, ""), Index.open(tmp_path / name)))
    (said, one), (told, several) = found
    assert said == told
    assert "no thumbnail" in said
    assert (len(one.manifest.segments), len(several.manifest.segments)) == (1, 3)
    assert several.check() == []
    assert {path.name for path in several.path.iterdir()} == several.manifest.files()
    for query in (NAMES[0], f"{NAMES[1]} and not {NAMES[2]}", f"{NAMES[3]} or {NAMES[4]}"):
        first, second = (
            [(result.row, result.id, result.probability, result.columns) for result in index.search(query, 200)]
            for index in (one, several)
        )
        assert first == second
        assert len(first) == 150


def test_sets_evaluate_and_report_write_the_same(run, files, tmp_path, pooled):
    old, new = files
    for command, *given in (
        ("evaluate", new, "-r", "lac:0.1", "-r", "average-k:2", "-c", old, "--json"),
        ("evaluate", new, "-r", "aps:0.1,cap:3", "--split", 0.4, "--per-class", "classes.csv", "--csv"),
        ("sets", new, "-r", "lac:0.1", "-c", old, "--out", "sets.jsonl", "--save-rule", "rule.safetensors"),
        ("report", new, "-r", "lac:0.1", "-c", old, "--out", "page.html"),
    ):
        found = []
        for engine in ((), ("--engine", "ray")):
            outcome = run(command, *given, *engine)
            assert outcome.code == 0, outcome.err
            names = ("classes.csv", "sets.jsonl", "rule.safetensors", "page.html")
            found.append((outcome, {name: (tmp_path / name).read_bytes() for name in names if (tmp_path / name).exists()}))
        assert found[0] == found[1], command


@pytest.mark.ray
def test_a_command_starts_workers_of_its_own(run, files, ray):
    old, new = files
    command = ("evaluate", new, "-r", "lac:0.1", "-c", old, "--json")
    assert run(*command, "--engine", "ray", "--workers", 2) == run(*command)


def test_the_three_commands_of_the_page_do_the_same(run, tmp_path, monkeypatch):
    """On a laptop, on one machine with workers, on a cluster: the same numbers from the same pictures."""
    fitted(of_pictures()).save(tmp_path / "runs" / "leaves")
    for number in range(40):
        place = tmp_path / "pictures" / ("ash", "birch", "elm", "oak")[number % 4]
        place.mkdir(parents=True, exist_ok=True)
        image(seed=number).save(place / f"{number}.png")
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    blocks = re.findall(r"```bash\n(.*?)```", page.partition("## Three sizes")[2], flags=re.DOTALL)[:3]
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: nullcontext(Pool(StandIn(deaths=0.1))))
    answers = []
    for block in blocks:
        here = block.replace("/shared/", "").replace("--device cuda", "--device cpu").replace("average-k:5", "average-k:2")
        commands = [shlex.split(line) for line in here.splitlines() if line.startswith("shortlist ")]
        assert [command[1] for command in commands] == ["predict", "evaluate"]
        for _, *command in commands:
            outcome = run(*command)
            assert outcome.code == 0, outcome.err
        answers.append(outcome.out)
        shutil.rmtree(tmp_path / "scores")
    assert "coverage" in answers[0]
    assert answers == [answers[0]] * 3


def test_options_of_a_cluster_are_checked(fails, files):
    _, new = files
    message = fails("evaluate", new, "-r", "top-k:1", "--engine", "rai")
    assert message.startswith("--engine: expected local or ray, got 'rai'")
    assert fails("evaluate", new, "-r", "top-k:1", "--workers", 2) == "--workers applies only to --engine ray"
    assert fails("sets", new, "-r", "top-k:1", "--address", "a:1") == "--address applies only to --engine ray"
    with_ray = ("sets", new, "-r", "top-k:1", "--engine", "ray")
    assert fails(*with_ray, "--workers", 0).startswith("--workers: expected a whole number from 1")
    assert fails(*with_ray, "--address", "here").startswith("--address: expected HOST:PORT")
