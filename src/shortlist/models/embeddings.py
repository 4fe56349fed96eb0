"""Embeddings: where a network puts its inputs before its head gives them scores; near each other means alike to the network."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from shortlist.models.classifier import Classifier
from shortlist.models.given import as_source
from shortlist.models.network import Network, evaluating
from shortlist.models.scoring import raw_batches
from shortlist.tensors import Scores

if TYPE_CHECKING:
    from shortlist.data.problems import Problem


def score_and_embed(network: Network, batch: Tensor) -> tuple[Scores, Tensor]:
    """Scores float32 (n, C) and embeddings float32 (n, F) of length 1, of one raw batch, on the CPU.

    The network is used in the mode it is in. Both come from one pass, except for a network that is one foreign module.

    Args:
        network: what scores.
        batch: raw inputs, uint8 (n, 3, size, size) or features (n, D).

    >>> from shortlist.models import InputSpec
    >>> network = Network("mlp-8", "linear", InputSpec.features(2), classes=3).eval()
    >>> scores, embeddings = score_and_embed(network, torch.ones(5, 2))
    >>> scores.shape, embeddings.shape, bool((embeddings.norm(dim=1) - 1).abs().max() < 1e-6)
    (torch.Size([5, 3]), torch.Size([5, 8]), True)
    """
    with torch.no_grad():
        prepared = network.cast(network.inputs.prepare(batch.to(network.device, non_blocking=True)))
        scores, features = network.label_scores_and_features(prepared)
        return scores.float().cpu(), normalize(features.float(), dim=1).cpu()


def embedded_batches(
    classifier: Classifier,
    source: Any,
    *,
    batch_size: int = 256,
    workers: int | None = None,
    problems: "list[Problem] | None" = None,
) -> Iterator[tuple[Tensor, Scores, Tensor]]:
    """Row numbers int64 (n,), scores float32 (n, C) and embeddings float32 (n, F) of length 1, a batch at a time.

    Args:
        classifier: whose network is used.
        source: as in :meth:`Classifier.predict`.
        batch_size: rows per batch.
        workers: threads that decode pictures; one per core by default.
        problems: a list to which unreadable pictures are added, which are then skipped; without it they raise.
    """
    network, found = classifier.network, as_source(source, classifier.inputs)
    with evaluating(network):
        for rows, batch in raw_batches(found, classifier.inputs, batch_size, workers, problems):
            yield rows, *score_and_embed(network, batch)
