"""``shortlist serve``: what it refuses, what it builds, whom it listens to; and the whole path from a folder to new labels."""

import json
import socket
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

from shortlist.cli import serving as command
from shortlist.web.app import make_app
from shortlist.web.votes import Observation, Vote, VoteStore
from tests.data.drawings import file_of, write_picture
from tests.models.classifiers import fitted, image, of_features, of_pictures

COLOURS = {"Acer rubrum": (200, 40, 40), "Acer nigrum": (60, 30, 30), "Betula alba": (220, 220, 210)}


def garden(folder, each=12):
    """A folder with one subfolder per class, of pictures whose colour tells the class."""
    for name, colour in COLOURS.items():
        for number in range(each):
            shade = tuple(max(0, part - 2 * number) for part in colour)
            write_picture(folder / name / f"{number}.png", shade)
    return folder


@pytest.fixture
def served(run, monkeypatch):
    """The command, which comes back with what it would have listened with."""
    found = {}

    def listen(settings, sockets):
        found.update(app=settings.config.app, address=sockets[0].getsockname(), settings=settings.config)
        sockets[0].close()

    monkeypatch.setattr(uvicorn.Server, "run", listen)
    made = []
    monkeypatch.setattr("shortlist.web.app.make_app", lambda site: made.append(site) or make_app(site))

    def call(*arguments):
        outcome = run("serve", *arguments, "--port", 0)
        assert outcome.code == 0, outcome.err
        return found, made[-1], outcome

    yield call
    for site in made:
        site.close()


def test_a_classifier_alone_is_served_without_references(served, tmp_path):
    fitted(of_pictures(), "lac:0.2").save(tmp_path / "trees")
    found, site, outcome = served(tmp_path / "trees")
    assert found["address"][0] == "127.0.0.1"
    assert "http://localhost:" in outcome.err
    assert "warning" not in outcome.err
    assert site.access.key is None
    client = TestClient(found["app"], base_url="http://localhost")
    answer = client.post("/v1/identify", files=[("images", ("x.png", file_of(image())))])
    assert answer.status_code == 200
    assert answer.json()["query"]["project"] == "trees"
    assert (tmp_path / "votes.sqlite").exists()  # in the working folder: nothing is written into a classifier
    site.watching.settle()
    assert client.get("/v1/watch").json()["photographs"] == 1
    site.close()
    assert len(list(tmp_path.glob("watch-*/watch.safetensors"))) == 1


def test_the_watch_is_a_switch_and_a_second_server_says_that_it_does_not_watch(served, tmp_path):
    fitted(of_pictures(), "lac:0.2").save(tmp_path / "trees")
    _, site, _ = served(tmp_path / "trees", "--no-watch")
    assert site.watched() == {"watching": False}
    assert not list(tmp_path.glob("watch-*"))
    _, first, outcome = served(tmp_path / "trees")
    assert "watch" not in outcome.err
    _, second, outcome = served(tmp_path / "trees")
    assert "not watched" in outcome.err
    assert (first.watched()["watching"], second.watched()["watching"]) == (True, False)
    (sentence,) = second.watched()["sentences"]
    assert sentence.startswith("the photographs are not watched: ")
    assert sentence in " ".join(outcome.err.split())


def test_beyond_loopback_it_warns_loudly_and_draws_a_key(served, tmp_path):
    fitted(of_pictures(), "lac:0.2").save(tmp_path / "trees")
    found, site, outcome = served(tmp_path / "trees", "--host", "0.0.0.0", "--allow-host", "garden.example")
    assert "warning: everyone who can reach" in outcome.err
    assert len(site.access.key) >= 12
    assert site.access.key in outcome.err
    assert site.asks.per_second is not None
    client = TestClient(found["app"], base_url="http://garden.example")
    assert client.get("/healthz").status_code == 200
    assert client.get("/v1/review").status_code == 403
    assert not found["settings"].proxy_headers


def test_given_references_are_embedded_once_and_again_if_they_change(served, tmp_path):
    classifier = fitted(of_pictures(), "lac:0.2")
    classifier.save(tmp_path / "trees")
    for name in ("ash", "elm"):
        for number in range(3):
            write_picture(tmp_path / "pictures" / name / f"{number}.png", (number, 0, 0))
    _, site, _ = served(tmp_path / "trees", "--references", tmp_path / "pictures")
    assert len(site.identifier.references) == 6
    record = tmp_path / "trees-references" / "references.json"
    first = record.stat().st_mtime_ns
    served(tmp_path / "trees", "--references", tmp_path / "pictures")
    assert record.stat().st_mtime_ns == first
    write_picture(tmp_path / "pictures" / "elm" / "3.png", (3, 0, 0))
    _, site, _ = served(tmp_path / "trees", "--references", tmp_path / "pictures")
    assert len(site.identifier.references) == 7


def test_refusals_are_sentences(fails, tmp_path, monkeypatch):
    fitted(of_features(), "lac:0.2").save(tmp_path / "rows")
    assert "photographs" in fails("serve", tmp_path / "rows")
    of_pictures().save(tmp_path / "bare")
    assert "rule" in fails("serve", tmp_path / "bare")
    fitted(of_pictures(), "lac:0.2").save(tmp_path / "trees")
    assert "no such" in fails("serve", tmp_path / "trees", "--references", tmp_path / "nowhere").lower()
    (tmp_path / "closed").write_text("a file")
    assert "closed" in fails("serve", tmp_path / "trees", "--references", "none", "--votes", tmp_path / "closed/votes.sqlite")
    assert (tmp_path / "closed").read_text() == "a file"
    (tmp_path / "notes.txt").write_text("not a database, " * 50)
    assert "notes.txt" in fails("serve", tmp_path / "trees", "--references", "none", "--votes", tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "not a database, " * 50
    monkeypatch.setattr(command, "NEEDED", ("starlette", "not_there"))
    assert "not-there: install them with pip install 'shortlist[web]'" in fails("serve", tmp_path / "trees")


def test_a_port_that_is_taken_is_a_sentence(fails, tmp_path):
    fitted(of_pictures(), "lac:0.2").save(tmp_path / "trees")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        message = fails("serve", tmp_path / "trees", "--port", taken.getsockname()[1])
    assert "in use" in message
    assert "--port" in message


def ask(client, colour):
    return client.post("/v1/identify", files=[("images", ("x.png", file_of_colour(colour)))]).json()


def file_of_colour(colour):
    from PIL import Image

    return file_of(Image.new("RGB", (20, 16), colour))


@pytest.mark.slow
def test_observe_suggest_review_validate_train_again(run, served, tmp_path):
    """From a folder to a page, from votes to labels, and from these to a new classifier."""
    garden(tmp_path / "garden")
    data = f"folders:{tmp_path / 'garden'},superclass=first-word"
    settings = ("--epochs", 4, "--set", "backbone=plain-8", "--set", "size=8", "--set", "batch_size=6", "--set", "lr=0.05")
    trained = run("train", data, "--method", "cross-entropy", "--rule", "top-k:2", *settings, "--out", "first")
    assert trained.code == 0, trained.err
    found, _, _ = served("first")
    client = TestClient(found["app"], base_url="http://localhost")
    health = client.get("/healthz").json()
    assert 0 < health["references"] < 36  # the training rows
    headers = {"x-shortlist-token": client.get("/v1/token").json()["token"]}
    for number in range(4):
        for name, colour in COLOURS.items():
            shade = tuple(max(0, part - 3 * number) for part in colour)
            answer = ask(client, shade)
            assert len([one for one in answer["results"] if one["inSet"]]) == 2
            assert all(one["images"] for one in answer["results"] if one["inSet"])
            for voter in ("Ann", "Bob"):
                vote = {"id": answer["id"], "voter": voter, "choice": "label", "label": name}
                assert client.post("/v1/votes", json=vote, headers=headers).status_code == 201
    doubtful = ask(client, (128, 128, 128))
    disputed = ask(client, (130, 130, 128))
    for name, voter, choice, label in [
        (doubtful["id"], "Ann", "unsure", None),
        (disputed["id"], "Ann", "label", "Betula alba"),
        (disputed["id"], "Bob", "label", "Acer rubrum"),
    ]:
        vote = {"id": name, "voter": voter, "choice": choice, "label": label}
        assert client.post("/v1/votes", json=vote, headers=headers).status_code == 201
    queue = [item["id"] for item in client.get("/v1/review?voter=Cem").json()["items"]]
    assert queue[:2] == [disputed["id"], doubtful["id"]]
    voted = run("data", "votes", "first", "--rule", "majority", "--theta", "1", "--out", "validated")
    assert voted.code == 0, voted.err
    assert "12 with a valid label" in voted.err
    again = run("train", "validated/labels.csv", "--method", "cross-entropy", "--rule", "top-k:1", *settings, "--out", "second")
    assert again.code == 0, again.err
    classes = json.loads((tmp_path / "second" / "classifier" / "classes.json").read_text())
    assert sorted(classes["classes"] if isinstance(classes, dict) else classes) == sorted(COLOURS)
    predicted = run("predict", "second", "garden/Betula alba/0.png", "--json")
    assert json.loads(predicted.out)["labels"] == ["Betula alba"]


def test_votes_of_a_run_without_a_page_are_a_sentence(fails, tmp_path):
    (tmp_path / "run").mkdir()
    assert "votes.sqlite" in fails("data", "votes", tmp_path / "run", "--rule", "majority")


def test_the_count_of_valid_labels_is_that_of_the_table(run, tmp_path):
    """Two people agree on a class for one photograph, and on none of the classes for another."""
    with VoteStore(tmp_path / "votes.sqlite") as store:
        for name, choice, label in (("a", "label", "ash"), ("b", "none", None)):
            store.keep(Observation(name, "upload", "", {}, [file_of_colour((9, 9, 9))]))
            for voter in ("Ann", "Bob"):
                store.vote(name, Vote(voter, choice, label), model="")
    done = run("data", "votes", "votes.sqlite", "--rule", "majority", "--theta", "1", "--out", "validated")
    assert done.code == 0, done.err
    assert "2 items, 2 labelled, 1 valid" in done.err
    assert f"2 photographs, 1 with a valid label; next: shortlist train {Path('validated', 'labels.csv')}" in done.err
    table = (tmp_path / "validated" / "labels.csv").read_text().splitlines()
    assert [line.split(",")[1:3] for line in table[1:]] == [["ash", "True"], ["(none of these)", "False"]]
