"""What programs ask and get: the shape of the answers, votes, review, search, and errors in sentences."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from shortlist import Predictions
from shortlist.retrieval import Index
from shortlist.web.app import make_app
from shortlist.web.safety import HEADERS
from shortlist.web.votes import Vote
from tests.web.site import BASE, COLOURS, NAMES, jpeg, made, similar_colour

RED, GREEN, BETWEEN = (220, 40, 40), (40, 180, 60), (130, 35, 35)


def ask(client, *colours, **options):
    return client.post(
        "/v1/identify", files=[("images", ("x.jpg", jpeg(colour), "image/jpeg")) for colour in colours], **options
    )


def vote(client, name, choice="none", label=None, voter="Ann", **headers):
    token = client.get("/v1/token").json()["token"]
    given = {"id": name, "voter": voter, "choice": choice, "label": label}
    return client.post("/v1/votes", json=given, headers={"x-shortlist-token": token, **headers})


def check(value, schema, description):
    """Raise unless a value fits a schema: objects, lists, types, enum, anyOf and references, as the description uses them."""
    if "$ref" in schema:
        schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        kinds = [kind for kind in schema["anyOf"] if (kind.get("type") == "null") == (value is None)]
        assert kinds, (value, schema)
        return check(value, kinds[0], description)
    if "enum" in schema:
        assert value in schema["enum"]
        return None
    kinds = {
        "string": str,
        "number": (int, float),
        "integer": int,
        "boolean": bool,
        "object": dict,
        "array": list,
        "null": type(None),
    }
    assert isinstance(value, kinds[schema["type"]]), (value, schema)
    for name in schema.get("required", ()):
        assert name in value
    for name, inside in schema.get("properties", {}).items():
        if name in value:
            check(value[name], inside, description)
    for item in value if schema["type"] == "array" else ():
        check(item, schema["items"], description)
    return None


def test_an_answer_has_the_shape_of_the_public_identify_api_and_of_its_description(client):
    answer = ask(client, RED, RED)
    assert answer.status_code == 200
    found = answer.json()
    description = client.get("/openapi.json").json()
    check(found, {"$ref": "#/components/schemas/Identification"}, description)
    assert found["bestMatch"] == NAMES[0]
    best = found["results"][0]
    assert best["species"]["genus"]["scientificNameWithoutAuthor"] == "Acer"
    assert best["inSet"]
    assert [result["score"] for result in found["results"]] == sorted((one["score"] for one in found["results"]), reverse=True)
    assert len(found["query"]["images"]) == 2
    assert found["superclass"]["score"] == pytest.approx(best["score"] + score_of(found, NAMES[1]), abs=1e-6)
    assert "one photograph" in found["rule"]["guarantee"]


def score_of(found, name):
    return next(result["score"] for result in found["results"] if result["species"]["scientificName"] == name)


def test_every_path_of_the_description_exists(client):
    paths = client.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method in methods:
            assert client.request(method, path).status_code not in (404, 405), path


def test_similar_pictures_are_of_the_class_and_look_like_the_photograph(client):
    found = ask(client, GREEN).json()
    images = found["results"][0]["images"]
    assert [image["kind"] for image in images] == ["similar"] * 6 + ["typical"] * (len(images) - 6)
    for image in images:
        for size in "so":
            shown = client.get(image["url"][size])
            assert shown.headers["content-type"] == "image/jpeg"
            np.testing.assert_allclose(similar_colour(shown.content), COLOURS[3], atol=12)
        assert image["credit"] == "A. <i>Painter</i>"
    assert client.get("/references/100000/small.jpg").status_code == 404
    assert client.get("/references/1/huge.jpg").status_code == 404


def test_several_photographs_are_combined_and_not_the_last_one_answered(client):
    alone, both = ask(client, GREEN).json(), ask(client, RED, RED, GREEN).json()
    assert alone["bestMatch"] == NAMES[3]
    assert both["results"][0]["species"]["scientificName"] == NAMES[0]


def test_a_vote_keeps_the_photographs_the_answer_and_the_model(client, site):
    found = ask(client, RED, RED).json()
    assert site.votes.observations() == []
    assert vote(client, found["id"], "label", NAMES[0]).status_code == 201
    [kept] = site.votes.observations(pictures=True)
    assert kept.votes == [Vote("Ann", "label", NAMES[0], author=True)]
    assert kept.model == found["model"]["digest"] == site.identifier.model_digest
    assert kept.answer["results"] == found["results"]
    assert len(kept.pictures) == 2


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"id": "unknown", "voter": "Ann", "choice": "none"}, 410),
        ({"id": "ANSWER", "voter": "", "choice": "none"}, 400),
        ({"id": "ANSWER", "voter": "Ann", "choice": "maybe"}, 400),
        ({"id": "ANSWER", "voter": "Ann", "choice": "label", "label": "Acer rubrun"}, 400),
        ({"id": "ANSWER", "voter": "Ann", "choice": "label", "label": 3}, 400),
        ({"id": "ANSWER", "voter": "Ann", "choice": "label"}, 400),
        ({"id": 3, "voter": "Ann", "choice": "none"}, 400),
        ([], 400),
    ],
)
def test_a_vote_that_makes_no_sense_is_refused_and_nothing_is_kept(client, site, given, status):
    answer = ask(client, RED).json()["id"]
    token = client.get("/v1/token").json()["token"]
    content = (
        {name: answer if value == "ANSWER" else value for name, value in given.items()} if isinstance(given, dict) else given
    )
    refused = client.post("/v1/votes", json=content, headers={"x-shortlist-token": token})
    assert refused.status_code == status
    assert_problem(refused)
    assert site.votes.number_of_votes() == 0


def assert_problem(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    assert len(answer.json()["detail"]) > 10


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (lambda client: client.get("/nothing"), 404),
        (lambda client: client.get("/v1/identify"), 405),
        (lambda client: client.post("/v1/identify"), 400),
        (lambda client: client.post("/v1/identify", content=b"{}", headers={"content-type": "application/json"}), 400),
        (lambda client: client.post("/v1/identify", data={"images": "text"}), 400),
        (lambda client: client.post("/v1/identify", files=[("images", ("x", b"no picture"))]), 415),
        (lambda client: ask(client, *[RED] * 6), 400),
        (lambda client: client.post("/v1/identify", content=b"x" * 2**20, headers={"content-length": str(2**30)}), 413),
        (lambda client: client.get("/v1/search?q=a"), 410),
        (lambda client: client.get("/v1/search?q=a&n=0"), 400),
        (lambda client: client.get("/v1/review/unknown"), 410),
        (lambda client: client.get("/search"), 404),
        (lambda client: client.get("/static/..%2fapp.py"), 404),
        (lambda client: client.get("/static/app.py"), 404),
    ],
)
def test_errors_are_sentences(client, call, status):
    answer = call(client)
    assert answer.status_code == status
    assert_problem(answer)


def posted(client, content, **headers):
    token = client.get("/v1/token").json()["token"]
    return client.post("/v1/votes", content=content, headers={"x-shortlist-token": token, **headers})


def in_pieces(size):
    """A body without a length."""
    yield from (b"a" * 1000 for _ in range(size // 1000))


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (lambda client: posted(client, b"{}", origin="http://["), 400),
        (lambda client: posted(client, b'{"id": "\\ud800", "voter": "Ann", "choice": "none"}'), 400),
        (lambda client: posted(client, b'{"id": "a", "voter": "\\ud800", "choice": "none"}'), 400),
        (lambda client: posted(client, b'{"id": "a", "voter": "A", "choice": "label", "label": "\\udfff"}'), 400),
        (lambda client: posted(client, b"[" * 15_000), 400),
        (lambda client: posted(client, b'{"id": ' + b"9" * 6000 + b"}"), 400),
        (lambda client: posted(client, b"\xff\xfe"), 400),
        (lambda client: posted(client, b"NaN"), 400),
        (lambda client: posted(client, b'"' + b"a" * 20_000 + b'"'), 413),
        (lambda client: posted(client, in_pieces(20_000)), 413),
        (lambda client: posted(client, b"{}", **{"content-length": "9" * 5000}), 413),
        (lambda client: client.get(f"/v1/search?q=a&n={'9' * 5000}"), 400),
        (lambda client: client.get(f"/references/{'9' * 5000}/small.jpg"), 404),
        (lambda client: client.get(f"/references/{'9' * 15}/small.jpg"), 404),
        (lambda client: client.get(f"/search/pictures/{'9' * 5000}.jpg"), 404),
        (lambda client: client.get(f"/v1/review/x/{'9' * 5000}.jpg"), 404),
    ],
)
def test_what_was_sent_to_break_it_is_refused_in_a_sentence_with_the_safe_headers(client, site, call, status):
    answer = call(client)
    assert answer.status_code == status
    assert_problem(answer)
    assert HEADERS.items() <= dict(answer.headers).items()
    assert site.votes.number_of_votes() == 0


def test_a_fault_of_ours_is_a_sentence_too_and_tells_nothing(client, site, monkeypatch):
    monkeypatch.setattr(site, "health", lambda: 1 / 0)
    answer = client.get("/healthz")
    assert answer.status_code == 500
    assert "division" not in answer.text
    assert HEADERS.items() <= dict(answer.headers).items()
    assert_problem(answer)


def suspect(site, row):
    """The name of a suspected row."""
    return next(one.id for one in site.suspected if one.row == row)


def test_the_review_offers_what_was_voted_on_and_suspected_rows(client, site):
    found = ask(client, BETWEEN).json()
    vote(client, found["id"], "label", NAMES[3])
    items = client.get("/v1/review?voter=Bob").json()["items"]
    assert [item["id"] for item in items] == [found["id"], *[one.id for one in site.suspected]]
    assert sorted(one.row for one in site.suspected) == [3, 8]
    assert found["id"] not in [item["id"] for item in client.get("/v1/review?voter=Ann").json()["items"]]
    for item in items:
        answer = client.get(f"/v1/review/{item['id']}").json()
        assert answer["id"] == item["id"]
        shown = client.get(f"/v1/review/{item['id']}/0.jpg")
        assert shown.headers["cache-control"] == "no-store"
        assert shown.content[:2] == b"\xff\xd8"
    assert client.get(f"/v1/review/{found['id']}/1.jpg").status_code == 404
    assert client.get(f"/v1/review/{suspect(site, 3)}").json()["label"] == NAMES[(3 + 2) % 4]


def test_a_vote_on_a_suspected_row_keeps_its_picture(client, site):
    name = suspect(site, 3)
    assert vote(client, name, "label", NAMES[3]).status_code == 201
    [kept] = site.votes.observations(pictures=True)
    assert (kept.origin, kept.votes[0].author) == (f"row:{name}", False)
    np.testing.assert_allclose(similar_colour(kept.pictures[0]), COLOURS[3], atol=12)
    assert name not in [item["id"] for item in client.get("/v1/review?voter=Ann").json()["items"]]


def test_health_and_classes(client):
    found = client.get("/healthz").json()
    assert (found["status"], found["classes"], found["references"], found["votes"]) == ("ok", 4, 48, 0)
    assert client.get("/v1/classes").json() == {"classes": NAMES}


def test_search_finds_rows_with_their_pictures_and_tells_no_path(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg(GREEN))
    scores = Predictions(
        np.array([[2.0, -2.0], [-2.0, 2.0]]), classes=["fork", "knife"], link="sigmoid", ids=["a.jpg", "b.jpg"]
    )
    columns = {"path": [str(tmp_path / "a.jpg"), None], "place": ["Lyon", None]}
    index = Index.build(scores, tmp_path / "index", columns=columns)
    with made(tmp_path, index=index) as site:
        client = TestClient(make_app(site), base_url=BASE)
        found = client.get("/v1/search", params={"q": "fork and not knife"}).json()
        assert [result["id"] for result in found["results"]] == ["a.jpg", "b.jpg"]
        assert found["results"][0]["columns"] == {"place": "Lyon"}
        assert str(tmp_path) not in client.get("/v1/search", params={"q": "fork"}).text
        shown = client.get(found["results"][0]["url"]["s"])
        np.testing.assert_allclose(similar_colour(shown.content), GREEN, atol=12)
        assert client.get(found["results"][1]["url"]["s"]).status_code == 404
        assert client.get("/search/pictures/77.jpg").status_code == 404
        wrong = client.get("/v1/search", params={"q": "spoon and"})
        assert wrong.status_code == 400
        assert_problem(wrong)
        contradiction = client.get("/v1/search", params={"q": "fork and not fork"}).json()
        assert "both present and absent" in contradiction["note"]


def search_site(tmp_path, name, colour, ids=("a", "b")):
    """An index whose first row has a picture of this colour."""
    (tmp_path / f"{name}.jpg").write_bytes(jpeg(colour))
    scores = Predictions(np.array([[2.0, -2.0], [-2.0, 2.0]]), classes=["fork", "knife"], link="sigmoid", ids=list(ids))
    return Index.build(scores, tmp_path / name, columns={"path": [str(tmp_path / f"{name}.jpg"), None]})


def test_a_running_server_searches_the_index_as_it_is_now(tmp_path):
    index = search_site(tmp_path, "index", GREEN)
    search_site(tmp_path, "other", RED, ids=("c", "d"))
    with made(tmp_path, index=index) as site:
        client = TestClient(make_app(site), base_url=BASE)

        def found():
            return [result["id"] for result in client.get("/v1/search", params={"q": "fork"}).json()["results"]]

        assert found() == ["a", "b"]
        Index.open(tmp_path / "index").delete(["a"])
        assert found() == ["b"]
        more = Predictions(np.array([[9.0, 9.0]]), classes=["fork", "knife"], link="sigmoid", ids=["new"])
        Index.open(tmp_path / "index").add(more)
        assert found() == ["new", "b"]
        state = site.index
        assert found() == ["new", "b"]
        assert site.index is state  # opened once for each state
        shown = client.get("/v1/search", params={"q": "fork"}).json()["results"][1]["url"]["s"]
        assert client.get(shown).status_code == 404  # b has no picture
        (tmp_path / "index").rename(tmp_path / "old")
        assert found() == ["new", "b"]  # while there is none, the one that is open
        (tmp_path / "other").rename(tmp_path / "index")
        assert found() == ["c", "d"]


def test_the_picture_of_a_row_is_never_that_of_a_row_of_another_index_with_its_number(tmp_path):
    index = search_site(tmp_path, "index", GREEN)
    search_site(tmp_path, "other", RED, ids=("c", "d"))
    with made(tmp_path, index=index) as site:
        client = TestClient(make_app(site), base_url=BASE)
        before = client.get("/v1/search", params={"q": "fork"}).json()["results"][0]["url"]["s"]
        np.testing.assert_allclose(similar_colour(client.get(before).content), GREEN, atol=12)
        (tmp_path / "index").rename(tmp_path / "old")
        (tmp_path / "other").rename(tmp_path / "index")
        after = client.get("/v1/search", params={"q": "fork"}).json()["results"][0]["url"]["s"]
        assert before != after  # a browser keeps pictures by their address
        assert client.get(before).status_code == 404
        np.testing.assert_allclose(similar_colour(client.get(after).content), RED, atol=12)


def test_the_picture_of_a_reference_is_never_that_of_other_references_with_its_number(tmp_path):
    with made(tmp_path) as site:
        client = TestClient(make_app(site), base_url=BASE)
        url = ask(client, RED).json()["results"][0]["images"][0]["url"]["s"]
        assert client.get(url).status_code == 200
        assert client.get(url.partition("?")[0]).status_code == 200
        assert client.get(url.partition("?")[0] + "?of=other").status_code == 404


def test_answers_come_without_references_too(tmp_path):
    with made(tmp_path, references=False) as site:
        found = ask(TestClient(make_app(site), base_url=BASE), RED).json()
    assert found["bestMatch"] == NAMES[0]
    assert all(result["images"] == [] for result in found["results"])
