"""The watch on what is served: questions count once, labels when people agree, and a restart loses nothing."""

from contextlib import contextmanager

import pytest
import torch
from starlette.testclient import TestClient

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.files import locked_place
from shortlist.web import watching
from shortlist.web.app import make_app
from shortlist.web.watching import changes_of, open_watch, watch_path
from tests.web.site import BASE, NAMES, classifier, made, squares
from tests.web.test_api import BETWEEN, GREEN, RED, ask, check, vote


def calibration(n=200, seed=7):
    images, target = squares(n, seed)
    return classifier().predictions(images, target)


@contextmanager
def watched(folder, reference=None, **options):
    """A site with a watch, and its client."""
    with made(folder, **options) as site:
        site.watching = open_watch(site.identifier.classifier, site.votes.path, lambda: reference)
        yield site, TestClient(make_app(site), base_url=BASE, raise_server_exceptions=False)


def told(site, client, **headers):
    site.watching.settle()
    return client.get("/v1/watch", headers=headers).json()


def test_every_question_is_one_row_and_a_look_at_the_review_is_none(tmp_path):
    with watched(tmp_path) as (site, client):
        assert told(site, client)["photographs"] == 0
        ask(client, RED)
        ask(client, GREEN, GREEN, RED)  # one individual
        review = client.get("/v1/review").json()["items"]
        assert client.get(f"/v1/review/{review[0]['id']}").status_code == 200
        found = told(site, client)
        check(found, *described(client))
        assert (found["photographs"], found["labels"], found["alarms"], found["coverage"]) == (2, 0, [], None)
        assert found["promised"] == pytest.approx(0.8)
        assert "nothing has changed on 2 rows" in found["sentences"][0]
        assert site.watching.watch.recent[:, 2].tolist() == [0, 3]  # the most probable class of the first photograph of each


def described(client):
    description = client.get("/openapi.json").json()
    return description["paths"]["/v1/watch"]["get"]["responses"]["200"]["content"]["application/json"]["schema"], description


def test_photographs_that_change_are_noticed_with_since_when_and_what_to_do(tmp_path):
    with watched(tmp_path, calibration()) as (site, client):
        model = site.identifier.classifier
        for scores in model.predictions(squares(100, seed=8)[0]).scores:
            site.watching.asked(scores)
        assert told(site, client)["alarms"] == []
        for scores in model.predictions(squares(150, seed=9)[0] // 3 + 80).scores:  # faded
            site.watching.asked(scores)
        found = told(site, client)
        check(found, *described(client))
        signals = {alarm["signal"] for alarm in found["alarms"]}
        assert "confidence" in signals
        assert found["changes"] == len(found["alarms"])
        assert all(
            alarm["since"].startswith("row ") and " of the photographs of 20" in alarm["since"] for alarm in found["alarms"]
        )
        assert "fit the rule again" in " ".join(found["sentences"][: found["changes"]])


def test_a_label_counts_once_when_two_people_agree(tmp_path):
    with watched(tmp_path) as (site, client):
        first, second, third = (ask(client, colour).json()["id"] for colour in (RED, GREEN, BETWEEN))
        vote(client, first, "label", NAMES[0], voter="Ann")
        assert told(site, client)["labels"] == 0
        vote(client, first, "label", NAMES[0], voter="Ann")  # the same person
        assert told(site, client)["labels"] == 0
        vote(client, first, "label", NAMES[0], voter="Bob")
        assert told(site, client)["labels"] == 1
        vote(client, first, "label", NAMES[2], voter="Cy")
        vote(client, first, "label", NAMES[0], voter="Cy")  # agreed again
        for voter in ("Ann", "Bob"):
            vote(client, second, "label", NAMES[0], voter=voter)  # it is green: no set holds it
            vote(client, third, "none", voter=voter)
        found = told(site, client)
        assert (found["photographs"], found["labels"]) == (3, 2)
        assert found["coverage"]["share"] == 0.5
        assert site.watching.watch.missed == 1


def test_answers_of_another_network_do_not_count(tmp_path):
    with watched(tmp_path) as (site, client):
        name = ask(client, RED).json()["id"]
        vote(client, name, "label", NAMES[0], voter="Ann")
        site.identifier.__dict__["model_digest"] = "another"
        vote(client, name, "label", NAMES[0], voter="Bob")
        assert told(site, client)["labels"] == 0
        assert site.votes.take_scores(name, model="another") is None


def test_it_goes_on_after_a_restart_with_the_labels_of_old_answers(tmp_path):
    with watched(tmp_path, calibration()) as (site, client):
        name = ask(client, RED).json()["id"]
        ask(client, GREEN)
        vote(client, name, "label", NAMES[0], voter="Ann")
        site.watching.settle()
        capital = site.watching.watch.capital
    with watched(tmp_path, "not read again") as (site, client):
        assert site.watching.watch.capital == capital
        vote(client, name, "label", NAMES[0], voter="Bob")
        found = told(site, client)
        assert (found["photographs"], found["labels"]) == (2, 1)
        assert site.watching.watch.reference_labelled == 0  # labels of votes are compared with such labels only


def test_it_is_written_while_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "SECONDS", 0.01)
    with watched(tmp_path) as (site, client):
        ask(client, RED)
        site.watching.settle()
        for _ in range(1000):
            if site.watching.path.exists():
                break
            site.watching._thread.join(0.01)
        assert watching.Watch.load(site.watching.path).rows == 1


def test_another_rule_has_a_watch_of_its_own(tmp_path):
    votes = tmp_path / "votes.sqlite"
    paths = {watch_path(classifier(rule), votes) for rule in ("lac:0.2", "lac:0.1", "aps:0.2")}
    assert len(paths) == 3
    assert watch_path(classifier(), votes) in paths  # and the same one again
    other = classifier()
    other.rule.threshold.add_(1e-9)
    assert watch_path(other, votes) not in paths


def test_one_server_writes_it(tmp_path):
    with watched(tmp_path) as (site, _), pytest.raises(InputError, match="another process"):
        open_watch(site.identifier.classifier, site.votes.path, lambda: None)
    with watched(tmp_path) as (site, _), pytest.raises(InputError, match="another process"), locked_place(site.watching.path):
        pytest.fail("a command would write it as well")
    with watched(tmp_path):
        pass


def test_rules_that_cannot_be_watched_are_told(tmp_path):
    model, (images, target) = classifier(), squares(60, seed=1)
    rows = model.predictions(images, target)
    known = torch.nn.functional.one_hot(rows.target, 4).bool() & (torch.arange(60)[:, None] % 5 > 0)  # a fifth has no label
    gated = model.fit_rule("lac:0.2,gate:0.5", Predictions(rows.scores, known, link=model.link))
    with pytest.raises(InputError, match="gate"):
        open_watch(gated, tmp_path / "votes.sqlite", lambda: None)


def test_why_nothing_is_watched_is_said(tmp_path, client, site):
    site.unwatched = "the photographs are not watched: this rule has a gate"
    found = client.get("/v1/watch").json()
    check(found, *described(client))
    assert found == {"watching": False, "sentences": [site.unwatched]}


def test_groups_that_follow_from_the_photograph_are_watched(tmp_path):
    with watched(tmp_path, calibration(), rule="lac:0.2,by:predicted") as (site, client):
        ask(client, RED)
        found = told(site, client)
        assert (found["photographs"], len(found["sentences"])) == (1, 1)


def test_votes_are_no_labels_of_photographs_that_may_have_several(tmp_path):
    with watched(tmp_path) as (site, client):
        site.watching._single = False
        ask(client, RED)
        assert told(site, client)["sentences"][1].startswith("labels are not watched: ")


def test_a_disk_that_is_full_is_told_and_answers_go_on(tmp_path, monkeypatch):
    def full(self, path):
        raise InputError("no space left")

    monkeypatch.setattr(watching, "SECONDS", 0.0)
    monkeypatch.setattr(watching.Watch, "save", full)
    with watched(tmp_path) as (site, client):
        assert ask(client, RED).status_code == 200
        assert "no space left" in told(site, client)["sentences"][-1]
        assert ask(client, RED).status_code == 200
        monkeypatch.undo()
        monkeypatch.setattr(watching, "SECONDS", 0.0)
        ask(client, RED)
        found = told(site, client)
        assert found["photographs"] == 3
        assert len(found["sentences"]) == 1


def test_sets_that_lack_what_people_agree_on_are_told(tmp_path):
    with watched(tmp_path) as (site, client):
        scores = site.identifier.classifier.predictions(squares(40)[0][:1].repeat(40, 1, 1, 1)).scores
        for row in scores:
            site.watching.labelled(row, 3)  # these are red
        found = told(site, client)
        assert found["coverage"]["high"] < 0.8
        assert found["changes"] == len(found["alarms"]) + 1
        assert "promises 80%" in found["sentences"][found["changes"] - 1]
        assert changes_of(site.watching.watch) == found["sentences"][: found["changes"]]


def test_more_than_can_wait_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "MOST_WAITING", 2)
    with watched(tmp_path) as (site, _):
        with site.watching._lock:  # the thread waits here
            for scores in torch.zeros(20, 4):
                site.watching.asked(scores)
        site.watching.settle()
        assert site.watching.passed_over > 0
        assert site.watching.watch.rows == 20 - site.watching.passed_over
        told = f"{site.watching.passed_over} photographs came while too many waited, and were not watched"
        assert site.watching.report()["sentences"][-1] == told


def test_without_a_watch_nothing_is_said_or_kept(tmp_path, client, site):
    name = ask(client, RED).json()["id"]
    for voter in ("Ann", "Bob"):
        assert vote(client, name, "label", NAMES[0], voter=voter).status_code == 201
    found = client.get("/v1/watch").json()
    check(found, *described(client))
    assert found == {"watching": False}
    assert site.votes.take_scores(name, model=site.identifier.model_digest) is None
    assert not list(tmp_path.glob("watch*"))


def test_the_watch_is_for_those_who_may_review(tmp_path):
    with watched(tmp_path, key="secret") as (_, client):
        assert client.get("/v1/watch").status_code == 403
        assert client.get("/v1/watch", headers={"authorization": "Bearer secret"}).status_code == 200
