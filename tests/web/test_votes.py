"""Votes: kept whole, the last one of a person counts, and they become labels to train on."""

import json
import multiprocessing
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import pytest

from shortlist.data import open_dataset
from shortlist.data.votes import plain_majority
from shortlist.errors import InputError
from shortlist.web import votes
from shortlist.web.labels import NONE_OF_THESE, read_votes, write_dataset
from shortlist.web.votes import Observation, Vote, VoteStore, is_vote_file
from tests.web.site import jpeg


@pytest.fixture
def store(tmp_path):
    with VoteStore(tmp_path / "votes.sqlite") as store:
        yield store


def kept(store, name, pictures=1):
    store.keep(Observation(name, "upload", "0123", {"rule": {"size": 2}}, [jpeg((place, 0, 0)) for place in range(pictures)]))


def test_votes_are_there_after_opening_again(tmp_path, store):
    kept(store, "a", 2)
    store.vote("a", Vote("Ann", "label", "ash", author=True), model="0123")
    store.vote("a", Vote("Bob", "none"), model="4567")
    store.close()
    with VoteStore(tmp_path / "votes.sqlite") as again:
        [one] = again.observations(pictures=True)
        assert one.votes == [Vote("Ann", "label", "ash", author=True), Vote("Bob", "none")]
        assert (one.origin, one.model, one.answer) == ("upload", "0123", {"rule": {"size": 2}})
        assert len(one.pictures) == 2
        assert again.picture("a", 1) == one.pictures[1]
        assert again.picture("a", 2) is None
        assert again.number_of_votes() == 2


def test_the_last_vote_of_a_person_counts_and_all_are_kept(store):
    kept(store, "a")
    for label in ("ash", "elm"):
        store.vote("a", Vote("Ann", "label", label), model="")
    assert [vote.label for vote in store.observations()[0].votes] == ["elm"]
    assert store.number_of_votes() == 2


def test_photographs_are_kept_once_and_votes_need_them(store):
    kept(store, "a", 1)
    kept(store, "a", 3)
    assert len(store.pictures_of("a")) == 1
    with pytest.raises(sqlite3.IntegrityError):
        store.vote("b", Vote("Ann", "none"), model="")
    assert store.number_of_votes() == 0


def test_the_file_is_written_ahead_and_fully_synchronised(tmp_path, store):
    assert store._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert store._connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert is_vote_file(store.path)
    (tmp_path / "table.csv").write_text("user,item,label\n")
    assert not is_vote_file(tmp_path / "table.csv")


def test_a_file_that_was_not_finished_is_begun_again(tmp_path, monkeypatch):
    """A process that ended while it made the tables: either all of them are there, with their version, or none."""
    path, whole = tmp_path / "votes.sqlite", votes.SCHEMA
    monkeypatch.setattr(votes, "SCHEMA", f"{whole}\nSELECT * FROM nothing;")
    with pytest.raises(InputError, match="nothing"):
        VoteStore(path)
    monkeypatch.setattr(votes, "SCHEMA", whole)
    with VoteStore(path) as store:
        kept(store, "a")


def opened(path):
    with VoteStore(path):
        return True


def test_servers_that_start_together_share_a_new_file(tmp_path):
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(4, context) as pool:
        for number in range(20):
            assert all(pool.map(opened, [tmp_path / f"{number}.sqlite"] * 4))


def test_a_database_of_something_else_stays_as_it_is_whatever_its_version(tmp_path):
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.executescript(f"CREATE TABLE places (name TEXT); PRAGMA user_version = {votes.VERSION};")
    with pytest.raises(InputError, match="got another database"):
        VoteStore(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("places",)]


def test_one_person_is_one_voter_however_the_name_is_typed(site):
    """With spaces around it, or with accents as characters of their own, as some systems write them."""
    name = site.suspected[0].id
    for voter in (" Zoë", "Zoe\u0308"):
        site.vote(name, Vote(voter, "none"))
    [one] = site.votes.observations()
    assert [vote.voter for vote in one.votes] == ["Zoë"]
    assert all(name not in [item.id for item in site.review(voter)] for voter in ("Zoë", " Zoë ", "Zoe\u0308"))


def test_a_vote_survives_a_kill(tmp_path):
    code = f"""
import os, signal
from shortlist.web.votes import *
store = VoteStore({str(tmp_path / "votes.sqlite")!r})
store.keep(Observation("a", "upload", "", {{}}, [b"jpeg"]))
store.vote("a", Vote("Ann", "label", "ash"), model="")
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    with VoteStore(tmp_path / "votes.sqlite") as store:
        assert store.observations()[0].votes == [Vote("Ann", "label", "ash")]


@pytest.mark.parametrize("content", [b"no database, but long enough to be one", None])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "other.sqlite"
    if content is None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE mine (x)")
        connection.close()
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match="other.sqlite"):
        VoteStore(path)


@pytest.mark.parametrize(
    ("voter", "choice", "label"),
    [
        ("", "none", None),
        ("  ", "none", None),
        ("x" * 61, "none", None),
        ("a\nb", "none", None),
        ("Ann", "maybe", None),
        ("Ann", "label", None),
        ("Ann", "none", "ash"),
    ],
)
def test_votes_are_checked(voter, choice, label):
    with pytest.raises(InputError):
        Vote(voter, choice, label)


def voted(store):
    """Two people agree on a, disagree on b, one says none of these of c, and nobody is sure of d."""
    for name, pictures in {"a": 2, "b": 1, "c": 1, "d": 1}.items():
        kept(store, name, pictures)
    for name, voter, choice, label in [
        ("a", "Ann", "label", "ash"),
        ("a", "Bob", "label", "ash"),
        ("b", "Ann", "label", "ash"),
        ("b", "Bob", "label", "elm"),
        ("c", "Ann", "none", None),
        ("c", "Bob", "none", None),
        ("d", "Ann", "unsure", None),
    ]:
        store.vote(name, Vote(voter, choice, label, author=voter == "Ann"), model="")


def test_votes_become_a_dataset_whose_valid_labels_train_takes(tmp_path, store):
    voted(store)
    found = read_votes(store)
    assert found.unsure == 1
    assert len(found.votes) == 6
    table = write_dataset(store, plain_majority(found.votes, theta=1), tmp_path / "validated")
    assert table[["label", "valid", "group"]].values.tolist() == [
        ["ash", True, "a"],
        ["ash", True, "a"],
        ["ash", False, "b"],
        [NONE_OF_THESE, False, "c"],
    ]
    dataset = open_dataset(str(tmp_path / "validated" / "labels.csv"))
    assert list(dataset.splits["all"].ids) == ["pictures/a-0.jpg", "pictures/a-1.jpg"]
    assert dataset.classes == ["ash"]
    assert dataset.splits["all"].groups == ["a", "a"]


def test_a_class_called_as_none_of_these_is_a_class(tmp_path, store):
    """One photograph is of that class, another of none."""
    for name, choice, label in (("a", "label", NONE_OF_THESE), ("b", "none", None)):
        kept(store, name)
        for voter in ("Ann", "Bob"):
            store.vote(name, Vote(voter, choice, label), model="")
    found = read_votes(store)
    result = found.settled(plain_majority(found.votes, theta=1))
    assert result.frame().valid.tolist() == [True, False]
    table = write_dataset(store, result, tmp_path / "validated")
    assert table[["group", "valid"]].values.tolist() == [["a", True], ["b", False]]
    assert open_dataset(str(tmp_path / "validated" / "labels.csv")).classes == [NONE_OF_THESE]


def authors(store):
    found = read_votes(store).votes
    return found.users[found.authors].tolist()


def test_of_all_who_vote_as_the_author_the_first_is(store):
    kept(store, "a")
    for voter in ("Ann", "Bob", " Ann ", "Bob"):
        store.vote("a", Vote(voter, "label", "ash", author=True), model="")
    assert store._rows("SELECT voter, author FROM votes") == [("Ann", 1), ("Bob", 0), ("Ann", 1), ("Bob", 0)]
    assert authors(store) == ["Ann"]


def test_a_file_with_two_authors_of_a_photograph_is_read_and_the_first_counts(store):
    """Ann was first, and changed her vote after Bob gave his."""
    kept(store, "a")
    for voter in ("Ann", "Bob", "Ann"):
        store.vote("a", Vote(voter, "label", "ash", author=True), model="")
    store._connection.execute("UPDATE votes SET author = 1")
    assert authors(store) == ["Ann"]


def test_first_votes_at_the_same_moment_have_one_author(site, monkeypatch):
    """Both people are past the question whether somebody voted before anything is kept."""
    photographs = site.prepared([jpeg()])
    name = json.loads(site.answered(photographs, site.ask(photographs).result(10)))["id"]
    together, keep = Barrier(2, timeout=10), site.votes.keep

    def keep_together(observation):
        together.wait()
        keep(observation)

    monkeypatch.setattr(site.votes, "keep", keep_together)
    with ThreadPoolExecutor(2) as people:
        list(people.map(lambda voter: site.vote(name, Vote(voter, "none")), ("Ann", "Bob")))
    assert [vote.author for vote in site.votes.observations()[0].votes].count(True) == 1
    assert site.votes._rows("SELECT sum(author) FROM votes") == [(1,)]


def test_no_votes_are_one_sentence_and_an_old_folder_stays(tmp_path, store):
    kept(store, "d")
    store.vote("d", Vote("Ann", "unsure"), model="")
    with pytest.raises(InputError, match="expected votes"):
        read_votes(store)
    (tmp_path / "validated").mkdir()
    (tmp_path / "validated" / "mine").write_text("precious")
    voted(store)
    with pytest.raises(InputError, match="validated"):
        write_dataset(store, plain_majority(read_votes(store).votes), tmp_path / "validated")
    assert (tmp_path / "validated" / "mine").exists()
