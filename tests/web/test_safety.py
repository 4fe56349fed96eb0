"""Who is answered: this server's own pages, under its own name, at a bounded rate, with a key where there is one."""

import pytest
from starlette.testclient import TestClient

from shortlist.web.app import make_app
from shortlist.web.safety import Access, RateLimit, allowed_hosts
from tests.web.site import BASE, jpeg, made


def files():
    return [("images", ("x.jpg", jpeg(), "image/jpeg"))]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "", "localhost:8000/x", "a@localhost"]
)
def test_another_host_is_refused(client, host):
    answer = client.get("/healthz", headers={"host": host})
    assert answer.status_code == 421
    assert "--allow-host" in answer.json()["detail"]


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8123", "[::1]:9"])
def test_the_names_of_this_machine_are_taken(client, host):
    assert client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_requests_from_foreign_pages_change_nothing(client, site, headers):
    assert client.post("/v1/identify", files=files(), headers=headers).status_code == 403
    assert client.post("/v1/votes", json={}, headers={**headers, "x-shortlist-token": site.access.token}).status_code == 403


def test_own_pages_and_programs_may_ask(client):
    for headers in ({}, {"origin": BASE, "sec-fetch-site": "same-origin"}):
        assert client.post("/v1/identify", files=files(), headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/review", "/v1/classes", "/static/ask.js", "/references/0/small.jpg", "/nothing"])
def test_every_answer_forbids_what_is_not_its_own(client, path):
    headers = client.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_pages_name_no_other_host_and_hold_no_inline_script(client, site):
    for path in ("/", "/review"):
        text = client.get(path).text
        assert site.access.token in text
        assert "http://" not in text
        assert "https://" not in text
        assert "<script>" not in text
        assert "style=" not in text
        assert " onclick" not in text


def test_pages_are_small(client):
    names = ("ask.js", "answer.js", "elements.js", "server.js", "viewer.js", "style.css", "icon.svg")
    total = len(client.get("/").content) + sum(len(client.get(f"/static/{name}").content) for name in names)
    assert total < 300_000


def test_scripts_are_sent_again_only_if_they_changed(client):
    first = client.get("/static/ask.js")
    assert client.get("/static/ask.js", headers={"if-none-match": first.headers["etag"]}).status_code == 304


def vote(client, headers):
    name = client.post("/v1/identify", files=files()).json()["id"]
    return client.post("/v1/votes", json={"id": name, "voter": "Ann", "choice": "none"}, headers=headers)


def test_votes_need_the_token_of_the_page(client, site):
    assert vote(client, {}).status_code == 403
    assert vote(client, {"x-shortlist-token": "wrong"}).status_code == 403
    assert vote(client, {"x-shortlist-token": site.access.token}).status_code == 201


def test_with_a_key_votes_and_the_review_need_it_too(tmp_path):
    with made(tmp_path, key="sesame") as site:
        client = TestClient(make_app(site), base_url=BASE)
        token, key = {"x-shortlist-token": site.access.token}, {"authorization": "Bearer sesame"}
        assert vote(client, token).status_code == 403
        assert vote(client, key).status_code == 403
        assert vote(client, {**token, "authorization": "Bearer sesam"}).status_code == 403
        assert vote(client, {**token, **key}).status_code == 201
        name = site.suspected[0].id
        for path in ("/v1/review", f"/v1/review/{name}", f"/v1/review/{name}/0.jpg"):
            assert client.get(path).status_code == 403
            assert client.get(path, headers=key).status_code == 200
        assert "data-needs-key" in client.get("/").text
        assert "sesame" not in client.get("/").text


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        *[(text, True) for text in ("Bearer sesame", "bearer sesame", "BEARER  sesame")],
        *[(text, False) for text in ("sesame", "Basic sesame", "Bearer", "", "Bearer sésame", "Bearer Sesame")],
    ],
)
def test_a_key_is_that_of_a_bearer(given, allowed):
    assert Access(key="sesame").may_review({"authorization": given}) is allowed


def test_names_are_compared_without_case(tmp_path):
    with made(tmp_path, hosts=allowed_hosts("127.0.0.1", ["Garden.Example"])) as site:
        client = TestClient(make_app(site), base_url=BASE)
        for host in ("garden.example", "Garden.Example:8000", "GARDEN.EXAMPLE", "LocalHost"):
            assert client.get("/healthz", headers={"host": host}).status_code == 200
        own = {"host": "Garden.Example", "origin": "https://garden.example"}
        assert client.post("/v1/identify", files=files(), headers=own).status_code == 200
        assert client.get("/healthz", headers={"host": "garden.example.evil"}).status_code == 421


def test_rates_are_limited_by_client(tmp_path):
    limit = RateLimit(1, at_once=2, clock=lambda: 0.0)
    with made(tmp_path, asks=limit, decisions=RateLimit(1, at_once=1, clock=lambda: 0.0)) as site:
        client = TestClient(make_app(site), base_url=BASE)
        statuses = [client.post("/v1/identify", files=files()).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        votes = [client.post("/v1/votes", json={}, headers={"x-shortlist-token": site.access.token}) for _ in range(2)]
        assert [one.status_code for one in votes] == [400, 429]
        assert int(votes[1].headers["retry-after"]) > 0


def test_a_rate_recovers_and_clients_are_forgotten():
    now = [0.0]
    limit = RateLimit(0.5, at_once=1, clock=lambda: now[0])
    assert [limit.allows("ann"), limit.allows("ann")] == [True, False]
    now[0] = 2.0
    assert limit.allows("ann")
    for number in range(20_000):
        limit.allows(str(number))
    assert len(limit._left) <= 10_000


def test_names_of_a_server_beyond_loopback():
    assert "evil" not in allowed_hosts("127.0.0.1")
    assert allowed_hosts("0.0.0.0") == frozenset()  # any: it cannot know its names
    assert "garden.example" in allowed_hosts("0.0.0.0", ["garden.example"])
    assert "192.168.0.7" in allowed_hosts("192.168.0.7")


def test_tokens_are_drawn_anew():
    assert Access().token != Access().token
    assert Access().token not in repr(Access())
