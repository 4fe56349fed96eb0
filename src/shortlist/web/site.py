"""Site: everything that the pages and the API share, and what they do with it; knows no HTTP."""

import json
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from shortlist.data.dataset import Split
from shortlist.data.decoding import PictureError
from shortlist.data.pictures import Pictures
from shortlist.errors import InputError
from shortlist.retrieval import Index
from shortlist.retrieval.columns import PATH, THUMBNAIL
from shortlist.retrieval.results import jpeg_of
from shortlist.web import api
from shortlist.web.budgets import Budget
from shortlist.web.recent import RecentAnswers
from shortlist.web.reference_pictures import QUALITY, SIDES, ReferencePictures
from shortlist.web.review import Item, Suspect, agreed, queue
from shortlist.web.safety import Access, RateLimit
from shortlist.web.service import Answer, Identifier
from shortlist.web.uploads import KEPT_QUALITY, KEPT_SIDE, MOST_READ, Photograph, check_uploads, encoded_anew, jpeg, read_upload
from shortlist.web.votes import UPLOAD, Observation, Vote, VoteStore, voter_name
from shortlist.web.watching import Watching
from shortlist.words import did_you_mean, shown

DECODERS = 4  # threads: requests that wait for them hold none of those that answer others
SHOWN_ITEMS = 50  # of the review queue at a time


class GoneError(Exception):
    """Something asked for by its id is not known, or no longer."""


@dataclass
class Site:
    """A classifier on the web.

    Args:
        identifier: what answers.
        votes: where votes are kept.
        project: the name of the run.
        access: who may ask and vote.
        pictures: of the references, if there are any.
        suspected: rows whose labels are probably wrong, for the review.
        held_out: the splits that these rows are of.
        index: what the search box searches, if anything.
        watching: the watch on what is answered, if there is one.
        unwatched: why there is none, if one was wanted.
        asks: the rate of questions of one client.
        decisions: the rate of votes of one client.
        recent: answers that may be voted on.
        reading: bytes of the photographs that are being answered; more are refused for the moment.
    """

    identifier: Identifier
    votes: VoteStore
    project: str
    access: Access = field(default_factory=Access)
    pictures: ReferencePictures | None = None
    suspected: Sequence[Suspect] = ()
    held_out: Mapping[str, Split] = field(default_factory=dict)
    index: Index | None = None
    watching: Watching | None = None
    unwatched: str | None = None
    asks: RateLimit = field(default_factory=lambda: RateLimit(None))
    decisions: RateLimit = field(default_factory=lambda: RateLimit(10, 60))
    recent: RecentAnswers = field(default_factory=RecentAnswers)
    reading: Budget = field(default_factory=lambda: Budget(MOST_READ))
    _decoders: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(DECODERS, "decoder"), init=False, repr=False
    )

    @property
    def classes(self) -> Sequence[str]:
        """The names of the classes."""
        return self.identifier.classifier.classes

    def prepared(self, contents: Sequence[bytes]) -> list[Photograph]:
        """The photographs in these files, as the network reads them; raises UploadError."""
        check_uploads(contents)
        return [read_upload(content, self.identifier.fit, place) for place, content in enumerate(contents, 1)]

    def prepare(self, contents: Sequence[bytes]) -> "Future[list[Photograph]]":
        """As :meth:`prepared`, to come."""
        return self._decoders.submit(self.prepared, contents)

    def ask(self, photographs: Sequence[Photograph]) -> "Future[Answer]":
        """The answer to come."""
        return self.identifier.ask(photographs)

    def answered(self, photographs: Sequence[Photograph], answer: Answer) -> bytes:
        """The answer as JSON text, which may be voted on for a while."""
        name = secrets.token_hex(8)
        described = self._described(name, photographs, answer)
        text = json.dumps(described, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        scores = None
        if self.watching is not None and answer.scores is not None:
            self.watching.asked(answer.scores)
            scores = answer.scores.float().numpy().tobytes()
        self.recent.add(name, [one.content for one in photographs], text, scores)
        return text

    def _described(self, name: str, photographs: Sequence[Photograph], answer: Answer) -> dict[str, Any]:
        digests = [one.digest for one in photographs]
        return api.identified(name, answer, digests, self.identifier, self.pictures, self.project)

    def vote(self, name: str, vote: Vote) -> None:
        """Keep the photographs that are voted on, if they are not kept already, and the vote."""
        if vote.label is not None and vote.label not in self.classes:
            hint = did_you_mean(vote.label, self.classes)
            raise InputError(f"label: {hint}expected the name of a class, got {shown(vote.label)}")
        origin = self.votes.origin_of(name)
        if origin is None:
            new = self._to_keep(name)
            self.votes.keep(new)
            origin = new.origin
        # Whoever votes first on an answer is taken for the one who asked, which the votes decide; others review.
        given = Vote(vote.voter, vote.choice, vote.label, author=origin == UPLOAD)
        self.votes.vote(name, given, model=self.identifier.model_digest)
        self._watch_label(name)

    def _watch_label(self, name: str) -> None:
        """Tell the watch what people agree on, once for every answer of this network."""
        if self.watching is None or not self.identifier.classifier.single_label:
            return
        label = agreed(self.votes.votes_on(name))
        if not label or (taken := self.votes.take_scores(name, model=self.identifier.model_digest)) is None:
            return
        self.watching.labelled(torch.frombuffer(bytearray(taken), dtype=torch.float32), self.classes.index(label))

    def watched(self) -> dict[str, Any]:
        """What the watch says of the photographs so far."""
        if self.watching is not None:
            return self.watching.report()
        return {"watching": False} | ({} if self.unwatched is None else {"sentences": [self.unwatched]})

    def _to_keep(self, name: str) -> Observation:
        """What a first vote on an answer, or on a suspected row, keeps."""
        model, asked = self.identifier.model_digest, self.recent.find(name)
        if asked is not None:
            return Observation(
                name,
                UPLOAD,
                model,
                json.loads(asked.answer),
                [encoded_anew(content) for content in asked.contents],
                scores=asked.scores,
            )
        suspect = self._suspect(name)
        picture = self._row_jpeg(suspect, KEPT_SIDE, KEPT_QUALITY)
        if picture is None:
            raise GoneError("the picture of this row can no longer be read")
        given = {"label": self.classes[suspect.label], "rule": {"size": int(suspect.chosen.sum())}, "results": []}
        return Observation(name, f"row:{suspect.id}", model, given, [picture])

    def review(self, voter: str | None) -> list[Item]:
        """What needs eyes, for this person."""
        asking = None if voter is None else voter_name(voter)
        return queue(self.votes.observations(), self.suspected, self.classes, asking)[:SHOWN_ITEMS]

    def review_pictures(self, name: str) -> list[bytes]:
        """The photographs of something in the queue, JPEG."""
        kept = self.votes.pictures_of(name)
        if kept:
            return kept
        picture = self._row_jpeg(self._suspect(name), SIDES["large"], QUALITY)
        return [] if picture is None else [picture]

    def reviewed(self, name: str, photographs: Sequence[Photograph], answer: Answer) -> dict[str, Any]:
        """What the classifier says now about something in the queue."""
        described = self._described(name, photographs, answer)
        labels = [self.classes[one.label] for one in self.suspected if one.id == name]
        return {**described, "label": labels[0] if labels else None}

    def _suspect(self, name: str) -> Suspect:
        found = next((one for one in self.suspected if one.id == name), None)
        if found is None:
            raise GoneError("this answer is no longer remembered: ask again")
        return found

    def _row_jpeg(self, suspect: Suspect, side: int, quality: int) -> bytes | None:
        inputs = self.held_out[suspect.split].inputs
        assert isinstance(inputs, Pictures)
        try:
            return jpeg(inputs.decode(suspect.row).image, side, quality)
        except PictureError:
            return None

    def search(self, text: str, number: int) -> dict[str, Any]:
        """Rows of the index for which a query is most probably true."""
        index = self._latest_index()
        if index is None:
            raise GoneError("there is no index to search: start the server with --index INDEX")
        columns = [name for name, kind in index.columns.items() if kind != "bytes"]
        found = index.search(text, number, columns=columns)
        return api.searched(found, len(index), illustrated=bool({PATH, THUMBNAIL} & set(index.columns)))

    def search_picture(self, row: int, of: str | None = None) -> bytes | None:
        """The picture of a row of the index, JPEG; with ``of``, only if the row has the id that this key is of."""
        index = self._latest_index()
        if index is None or row in index.snapshot.deleted:
            return None
        rows = np.array([row])
        if of is not None and [api.key_of(name) for name in index.snapshot.exact(rows).ids] != [of]:
            return None
        names = [name for name in (THUMBNAIL, PATH) if name in index.columns]
        return jpeg_of(index.snapshot.values(rows, names).get(row, {}))[0]

    def _latest_index(self) -> Index | None:
        """The index in its latest state; it may be changed, or built again, while the server runs."""
        if self.index is not None:
            self.index = self.index.latest()
        return self.index

    def health(self) -> dict[str, Any]:
        """Whether it works, and what it works with."""
        references = self.identifier.references
        return {
            "status": "ok",
            "model": self.identifier.model_digest,
            "project": self.project,
            "classes": len(self.classes),
            "references": 0 if references is None else len(references),
            "votes": self.votes.number_of_votes(),
            "waiting": self.identifier.waiting,
        }

    def close(self) -> None:
        """Answer what is waiting, and close the files."""
        self._decoders.shutdown(cancel_futures=True)
        self.identifier.close()
        if self.watching is not None:
            self.watching.close()
        self.votes.close()
