"""Identifier: a classifier and its references, asked from many threads; one thread uses the network."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from shortlist.data.loading import fit_square
from shortlist.errors import InputError
from shortlist.models import Classifier
from shortlist.models.embeddings import score_and_embed
from shortlist.models.quality import quality_for, quality_function
from shortlist.models.scoring import score_batch
from shortlist.web.batching import MOST_PICTURES, Batcher
from shortlist.web.identify import Identification, identify
from shortlist.web.references import References
from shortlist.web.uploads import Photograph

COMPARED, LEAST_COMPARED = 10, 5  # candidates that get reference pictures: the set, if it is neither larger nor smaller
SHOWN_SIMILAR, SHOWN_TYPICAL = 6, 3


@dataclass(frozen=True)
class Compared:
    """The references to compare a photograph with, of one class: the most similar ones, nearest first, and typical ones."""

    similar: tuple[int, ...] = ()
    typical: tuple[int, ...] = ()


@dataclass(frozen=True)
class Answer:
    """An identification, with the references of its candidates by their place among the classes.

    Args:
        identification: what was found.
        references: by class.
        scores: of the first photograph, (C,), for the watch.
    """

    identification: Identification
    references: Mapping[int, Compared] = field(default_factory=dict)
    scores: Tensor | None = None


class Identifier:
    """Answers photographs, several of one individual at a time.

    Args:
        classifier: of pictures, with a rule; it is put into evaluation mode.
        references: embedded by its network; None to answer without pictures to compare with.
        batch: pictures that go through the network together.
    """

    def __init__(self, classifier: Classifier, references: References | None = None, batch: int = MOST_PICTURES):
        if not classifier.inputs.is_pictures:
            raise InputError("classifier: expected one of pictures, got one of features: the page takes photographs")
        if classifier.rule is None:
            raise InputError("classifier: expected one with a set rule: fit one with shortlist calibrate --rule lac:0.1")
        if references is not None and references.network != classifier.network.digest():
            raise InputError("references: expected those of this network, got those of another: build them again")
        quality = quality_for(classifier.rule, classifier.inputs)
        self.classifier, self.references = classifier.eval(), references
        self._quality = None if quality is None else quality_function(quality)
        self._batcher: Batcher[Sequence[Tensor], Answer] = Batcher(self._answer, batch)

    @cached_property
    def model_digest(self) -> str:
        """The digest of the network, by which votes name what answered."""
        return self.classifier.network.digest()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._batcher.waiting

    @property
    def mean_batch(self) -> float:
        """Requests per batch so far."""
        return self._batcher.requests / max(1, self._batcher.batches)

    def ask(self, photographs: Sequence[Photograph]) -> "Future[Answer]":
        """The answer to come for photographs of one individual; raises :class:`BusyError` if too many requests wait."""
        return self._batcher.submit([one.pixels for one in photographs])

    def fit(self, image: Image.Image) -> Tensor:
        """What the network reads of an image, uint8 (3, size, size)."""
        inputs = self.classifier.inputs
        return fit_square(image, inputs.size, inputs.fit)

    def close(self) -> None:
        """Answer what is waiting, then stop."""
        self._batcher.close()

    def _answer(self, requests: list[Sequence[Tensor]]) -> list[Answer]:
        """The answers to some requests, which go through the network together."""
        batch = torch.stack([pixels for request in requests for pixels in request])
        sizes = [len(request) for request in requests]
        embeddings: tuple[Tensor | None, ...] = (None,) * len(requests)
        if self.references is None:
            scores = score_batch(self.classifier.network, batch.to(self.classifier.device)).cpu()
        else:
            scores, embedded = score_and_embed(self.classifier.network, batch)
            embeddings = tuple(embedded.split(sizes))
        quality = None if self._quality is None else torch.as_tensor(self._quality(batch)).double().split(sizes)
        parts = scores.split(sizes)
        found = identify(self.classifier, parts, quality)
        return [
            Answer(one, self._compared(one, where), part[0].clone())
            for one, where, part in zip(found, embeddings, parts, strict=True)
        ]

    def _compared(self, found: Identification, embeddings: Tensor | None) -> dict[int, Compared]:
        """References of the set and, if there is room, of the candidates after it."""
        if self.references is None or embeddings is None:
            return {}
        where = normalize(embeddings.mean(0), dim=0).numpy()
        answer = {}
        for candidate in found.candidates[: max(LEAST_COMPARED, min(COMPARED, len(found.answer)))]:
            similar = self.references.similar(where, candidate.place, SHOWN_SIMILAR)
            typical = self.references.typical_of(candidate.place, SHOWN_TYPICAL + SHOWN_SIMILAR)
            others = [one for one in typical if one not in similar][:SHOWN_TYPICAL]
            answer[candidate.place] = Compared(tuple(similar), tuple(others))
        return answer
