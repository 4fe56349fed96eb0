"""Votes: what people decided about photographs, in one SQLite file, with the photographs, the answers and the model's digest.

Nothing is kept of a photograph that nobody voted on. The file is written ahead (WAL) and every vote is on the disk before it is
confirmed. A person may vote again on the same photograph: all votes are kept, and the last one counts.
"""

import json
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from shortlist.errors import InputError
from shortlist.words import is_control, shown

Choice: TypeAlias = Literal["label", "none", "unsure"]
CHOICES = get_args(Choice)
UPLOAD = "upload"  # where photographs are from that somebody asked about
LONGEST_NAME = 60  # characters of the name of a person
PATIENCE = 10.0  # seconds to wait for others who write
VERSION = 1
TABLES = frozenset({"observations", "pictures", "votes"})
SCHEMA = """
CREATE TABLE IF NOT EXISTS observations (
    id TEXT PRIMARY KEY, created REAL NOT NULL, origin TEXT NOT NULL, model TEXT NOT NULL, answer TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS pictures (
    observation TEXT NOT NULL REFERENCES observations (id), place INTEGER NOT NULL, jpeg BLOB NOT NULL,
    PRIMARY KEY (observation, place)
) STRICT;
CREATE TABLE IF NOT EXISTS votes (
    number INTEGER PRIMARY KEY, observation TEXT NOT NULL REFERENCES observations (id), voter TEXT NOT NULL,
    choice TEXT NOT NULL, label TEXT, author INTEGER NOT NULL, model TEXT NOT NULL, created REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS scores (
    observation TEXT PRIMARY KEY REFERENCES observations (id), scores BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS votes_by_observation ON votes (observation);
"""
# The author of photographs is whoever first voted on them as one: a file may hold two, of servers that did not decide it while
# they wrote the vote.
AUTHOR = "SELECT voter FROM votes WHERE observation = ? AND author = 1 ORDER BY number LIMIT 1"
LAST = """
WITH authors AS (SELECT observation, voter, MIN(number) FROM votes WHERE author = 1 GROUP BY observation)
SELECT votes.observation, votes.voter, choice, label, authors.voter IS votes.voter
FROM votes LEFT JOIN authors ON authors.observation = votes.observation
WHERE number IN (SELECT MAX(number) FROM votes GROUP BY observation, voter) ORDER BY number
"""
LAST_ON = """
SELECT observation, voter, choice, label, author FROM votes
WHERE number IN (SELECT MAX(number) FROM votes WHERE observation = ? GROUP BY voter) ORDER BY number
"""


def voter_name(text: str) -> str:
    """The name of a person as it is kept: one person has one, with spaces around it or not, however accents are encoded."""
    return unicodedata.normalize("NFC", text).strip()


@dataclass(frozen=True)
class Vote:
    """What a person decided: a label, none of the classes, or not sure.

    Args:
        voter: the name of the person.
        choice: ``label``, ``none`` or ``unsure``.
        label: the name of the class, for ``label``.
        author: whether the person asked about the photograph, rather than reviewed it; photographs have one author.
    """

    voter: str
    choice: Choice
    label: str | None = None
    author: bool = False

    def __post_init__(self) -> None:
        if not self.voter.strip() or len(self.voter) > LONGEST_NAME or any(map(is_control, self.voter)):
            raise InputError(f"voter: expected a name of 1 to {LONGEST_NAME} characters, got {shown(self.voter)}")
        if self.choice not in CHOICES:
            raise InputError(f"choice: expected {', '.join(CHOICES)}, got {shown(self.choice)}")
        if (self.label is None) == (self.choice == "label"):
            raise InputError("label: expected the name of a class for the choice 'label', and none for the others")


@dataclass(frozen=True)
class Observation:
    """Photographs of one individual that somebody voted on.

    Args:
        id: of the answer.
        origin: :data:`UPLOAD`, or the split and the id of a row of the data.
        model: the digest of the network that answered.
        answer: what it answered, as JSON types.
        pictures: the photographs, JPEG; empty where they were not asked for.
        votes: the last vote of each person.
        created: seconds since 1970.
        scores: of the first photograph, float32, for a watch that takes them when people agree on a label.
    """

    id: str
    origin: str
    model: str
    answer: Mapping[str, Any]
    pictures: Sequence[bytes] = ()
    votes: Sequence[Vote] = ()
    created: float = field(default_factory=time.time)
    scores: bytes | None = None


class VoteStore:
    """The votes in a file; usable from many threads.

    Args:
        path: the file; it is created, with its folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, VoteStore(Path(folder) / "votes.sqlite") as store:
    ...     store.keep(Observation("a", "upload", "0123", {}, [b"jpeg"]))
    ...     store.vote("a", Vote("Ann", "label", "ash"), model="0123")
    ...     [vote.label for vote in store.observations()[0].votes]
    ['ash']
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=PATIENCE)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"cannot open the votes in {self.path}: {error}") from error

    def _prepare(self) -> None:
        self._check()
        self._write_ahead()
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        # In one transaction: of a server that ends meanwhile, or starts at the same time, all is seen or nothing.
        self._connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}PRAGMA user_version = {VERSION};COMMIT;")

    def _check(self) -> None:
        """Raise an error for a database of something else, which stays as it is."""
        self._connection.execute("BEGIN")  # one state of the file
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        self._connection.execute("COMMIT")
        if version not in (0, VERSION) or (version == 0 and tables) or (version == VERSION and not tables >= TABLES):
            raise InputError(f"{self.path}: expected a file of votes, version {VERSION}, got another database")

    def _write_ahead(self) -> None:
        """Choose the journal, for which SQLite itself waits for nobody."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def keep(self, observation: Observation) -> None:
        """Keep photographs and the answer they got; nothing happens if they are kept already."""
        answer = json.dumps(dict(observation.answer), ensure_ascii=False)
        row = (observation.id, observation.created, observation.origin, observation.model, answer)
        with self._transaction() as connection:
            if connection.execute("INSERT OR IGNORE INTO observations VALUES (?, ?, ?, ?, ?)", row).rowcount:
                pictures = [(observation.id, place, jpeg) for place, jpeg in enumerate(observation.pictures)]
                connection.executemany("INSERT INTO pictures VALUES (?, ?, ?)", pictures)
                if observation.scores is not None:
                    connection.execute("INSERT INTO scores VALUES (?, ?)", (observation.id, observation.scores))

    def vote(self, observation: str, vote: Vote, *, model: str) -> None:
        """Add a vote on photographs that are kept; of all who vote as their author, the first is."""
        voter = voter_name(vote.voter)
        with self._transaction() as connection:
            first = connection.execute(AUTHOR, (observation,)).fetchone()
            author = vote.author and (first is None or first[0] == voter)
            row = (observation, voter, vote.choice, vote.label, int(author), model, time.time())
            connection.execute(
                "INSERT INTO votes (observation, voter, choice, label, author, model, created) VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def origin_of(self, observation: str) -> str | None:
        """Where photographs that are kept are from; None if they are not kept."""
        found = self._rows("SELECT origin FROM observations WHERE id = ?", observation)
        return str(found[0][0]) if found else None

    def votes_on(self, observation: str) -> list[Vote]:
        """The last vote of each person on photographs that are kept."""
        return [
            Vote(voter, choice, label, bool(author)) for _, voter, choice, label, author in self._rows(LAST_ON, observation)
        ]

    def take_scores(self, observation: str, *, model: str) -> bytes | None:
        """The scores that are kept with an answer of this network, once: a second call finds none."""
        with self._transaction() as connection:
            found = connection.execute(
                "SELECT scores FROM scores JOIN observations ON observation = id WHERE id = ? AND model = ?",
                (observation, model),
            ).fetchone()
            if found is not None:
                connection.execute("DELETE FROM scores WHERE observation = ?", (observation,))
        return None if found is None else bytes(found[0])

    def observations(self, *, pictures: bool = False) -> list[Observation]:
        """Everything that was voted on, oldest first."""
        votes: dict[str, list[Vote]] = {}
        for name, voter, choice, label, author in self._rows(LAST):
            votes.setdefault(name, []).append(Vote(voter, choice, label, bool(author)))
        kept = self._rows("SELECT id, origin, model, answer, created FROM observations ORDER BY created, id")
        return [
            Observation(
                name,
                origin,
                model,
                json.loads(answer),
                [jpeg for _, jpeg in self._pictures(name)] if pictures else (),
                votes.get(name, ()),
                created,
            )
            for name, origin, model, answer, created in kept
        ]

    def picture(self, observation: str, place: int) -> bytes | None:
        """A photograph; None if there is none."""
        found = self._rows("SELECT jpeg FROM pictures WHERE observation = ? AND place = ?", observation, place)
        return bytes(found[0][0]) if found else None

    def pictures_of(self, observation: str) -> list[bytes]:
        """The photographs that are kept of one individual."""
        return [bytes(jpeg) for _, jpeg in self._pictures(observation)]

    def number_of_votes(self) -> int:
        """How many votes were given, those that were changed later included."""
        return int(self._rows("SELECT count(*) FROM votes")[0][0])

    def _pictures(self, observation: str) -> list[Any]:
        return self._rows("SELECT place, jpeg FROM pictures WHERE observation = ? ORDER BY place", observation)

    def _rows(self, question: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._connection.execute(question, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> "VoteStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_vote_file(path: str | Path) -> bool:
    """Whether this is a file of votes: a SQLite file, by its first bytes."""
    try:
        with Path(path).open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False
